"""The user's file: what it may say, what becomes of it, and how a mistake in it is told."""

from pathlib import Path

import pytest

from interlingua.connect import models as catalogue
from interlingua.connect.models import Catalogue, Overrides, load_overrides, providers_from
from interlingua.connect.prices import PriceSheet
from interlingua.connect.providers import PROVIDERS, Provider
from interlingua.values.errors import FormatError
from interlingua.values.messages import Usage

FILE = """\
[aliases]
fast = "anthropic/claude-haiku-4-5"
own = "acme/acme-large"

[providers.acme]
api = "openai-completions"
base_url = "https://llm.acme.example/v1"
env = ["ACME_API_KEY"]
headers = { X-Team = "blue" }
compat = { maxTokensField = "max_tokens" }

[[providers.acme.models]]
id = "acme-large"
name = "Acme Large"
context_window = 32000
max_tokens = 4096
input = ["text", "image"]
reasoning = ["low", "high"]
cost = { input = 1.0, output = 2, cache_read = 0.1, tiers = [{ above = 10000, input = 3.0 }] }

[[providers.acme.models]]
id = "acme-small"
like = "acme/acme-large"
max_tokens = 512

[providers.anthropic]
base_url = "https://proxy.example"

[providers.anthropic.overrides."claude-opus-4-6"]
context_window = 123456
cost = { input = 7, output = 8 }

[providers.ollama.overrides."tiny"]
cost = { input = 0, output = 0, cache_read = 0, cache_write = 0 }
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "models.toml"
    path.write_text(FILE)
    return path


@pytest.fixture
def configured(sheet: PriceSheet, file: Path) -> Catalogue:
    return Catalogue(sheet, load_overrides(file))


def test_without_a_file_nothing_is_overridden(tmp_path: Path) -> None:
    """A missing file is an empty one."""
    assert Overrides() == load_overrides(tmp_path / "none.toml")


def test_the_file_in_the_home_folder_is_read(home: Path) -> None:
    """Aliases and models of the file are known to the functions without further ado."""
    (home / "models.toml").write_text(FILE)
    assert ("anthropic", "claude-haiku-4-5") == catalogue.resolve("fast")
    described = catalogue.describe("acme", "acme-large")
    assert described is not None
    assert 32_000 == described.context_window


def test_a_reference_names_provider_and_model(configured: Catalogue) -> None:
    """An alias, a provider's path with slashes of its own, or a bare id whose provider is not known."""
    assert ("acme", "acme-large") == configured.resolve("own")
    assert ("openrouter", "openai/gpt-5") == configured.resolve("openrouter/openai/gpt-5")
    assert (None, "gpt-5") == configured.resolve("gpt-5")
    assert (None, "meta-llama/llama-4") == configured.resolve("meta-llama/llama-4")


def test_a_model_of_ones_own_is_described_and_priced(configured: Catalogue) -> None:
    """As written, with its steps; what is not written is unknown."""
    model = configured.describe("acme", "acme-large")
    assert model is not None
    assert ("Acme Large", 32_000, 4096, ("text", "image"), True) == (
        model.name,
        model.context_window,
        model.max_tokens,
        model.input,
        model.reasoning,
    )
    assert ("low", "high") == catalogue.levels(model)
    small, large = configured.cost(Usage.of(10_000), model), configured.cost(Usage.of(10_001), model)
    assert small is not None
    assert large is not None
    assert (0.01, 10_001 * 3 / 1e6) == (small.total, pytest.approx(large.total))
    assert configured.cost(Usage.of(1, cache_write=1), model) is None


def test_a_model_like_another_differs_where_it_is_said(configured: Catalogue) -> None:
    """Everything else is the other's."""
    small = configured.describe("acme", "acme-small")
    assert small is not None
    assert (512, 32_000, "Acme Large") == (small.max_tokens, small.context_window, small.name)
    assert configured.cost(Usage.of(5), "acme/acme-large") == configured.cost(Usage.of(5), "acme/acme-small")


def test_a_known_model_is_corrected(configured: Catalogue, known: Catalogue) -> None:
    """What is written counts, what is not stays; its prices are replaced as a whole."""
    ours, before = configured.describe("anthropic", "claude-opus-4-6"), known.describe("anthropic", "claude-opus-4-6")
    assert ours is not None
    assert before is not None
    assert (123_456, before.max_tokens) == (ours.context_window, ours.max_tokens)
    assert 7.0 == getattr(configured.cost(Usage.of(1_000_000), ours), "total", None)
    assert configured.cost(Usage.of(cache_read=1), ours) is None


def test_service_tiers_may_be_priced_beside_the_ordinary_service(tmp_path: Path, known: Catalogue) -> None:
    """By name, with the rules of all prices: what is not written is unknown, and `like` hands them on."""
    file = tmp_path / "models.toml"
    file.write_text(
        """
[providers.google.overrides."gemini-2.5-flash".service_tiers]
FLEX = { input = 7.0, output = 9.0 }
provisioned_throughput = { input = 0, output = 0, cache_read = 0 }
[providers.acme]
api = "openai-completions"
[[providers.acme.models]]
id = "large"
cost = { input = 2.0, output = 4.0 }
service_tiers.batch = { input = 1.0, output = 2.0, tiers = [{ above = 100, input = 3.0 }] }
[[providers.acme.models]]
id = "small"
like = "acme/large"
"""
    )
    own = Catalogue(known.sheet, load_overrides(file))
    million = Usage.of(1_000_000)

    def price(model: str, tier: str | None, usage: Usage = million) -> float | None:
        return getattr(own.cost(usage, model, service_tier=tier), "total", None)

    flash = "google/gemini-2.5-flash"
    assert (7.0, 0.0) == (price(flash, "flex"), price(flash, "provisioned_throughput"))
    assert price(flash, "flex", Usage.of(1, cache_read=1)) is None
    assert own.cost(million, flash) == known.cost(million, flash)
    assert (2.0, 3.0, None) == tuple(price("acme/small", tier) for tier in (None, "batch", "flex"))


def test_free_is_a_price(configured: Catalogue) -> None:
    """A local model can be said to cost nothing."""
    assert 0 == getattr(configured.cost(Usage.of(5, 5, cache_read=5), "tiny", "ollama"), "total", None)


def test_own_models_are_listed(configured: Catalogue) -> None:
    """With those of the price lists, and alone for a provider of one's own."""
    assert ["acme-large", "acme-small"] == [model.id for model in configured.models("acme")]
    assert {"acme", "anthropic"} <= {model.provider for model in configured.models()}


def test_own_providers_become_rows(file: Path) -> None:
    """The fields of a row as written; of a built-in provider only what changes, and none if only models do."""
    rows = {row["id"]: row for row in providers_from(load_overrides(file))}
    assert {"acme", "anthropic"} == rows.keys()
    assert {"id": "anthropic", "base_url": "https://proxy.example"} == rows["anthropic"]
    acme = Provider(**rows["acme"])
    assert ("acme", "openai-completions", ("ACME_API_KEY",), {"X-Team": "blue"}) == (
        acme.label,
        acme.api,
        acme.env,
        acme.headers,
    )
    assert "acme" not in PROVIDERS


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("[aliases]\nfast = \n", 2, "not TOML"),
        ("[aliases]\nfast = 'gpt'\n", 2, "an alias stands for `provider/model`"),
        ("[aliases]\nfast = 3\n", 2, "Expected `str`, got `int`"),
        ("# mine\n\n[provider.acme]\napi = 'x'\n", 3, "unknown key `provider`"),
        ("[providers.acme]\nbase_url = 'http://x'\n", 2, "needs `api`"),
        ("[providers.openai]\nlabel = 'x'\nbaseurl = 'y'\n", 3, "unknown key `baseurl`; did you mean `base_url`?"),
        (
            "[[providers.openai.models]]\nid='a'\n[[providers.openai.models]]\nname='b'\n",
            3,
            "missing required field `id`",
        ),
        ("[providers.openai.overrides.'gpt-5']\nname='a'\ncontext_window = -1\n", 3, "Expected `int` >= 1"),
        ("[providers.openai.overrides.'gpt-5']\ncost = { input = 1 }\n", 2, "missing required field `output`"),
        ("[providers.openai.overrides.'gpt-5'.cost]\ninput = 1\noutput = -2\n", 3, "Expected `float` >= 0"),
        ("[providers.openai.overrides.'gpt-5']\nname='a'\nlike = 'gpt-4o'\n", 3, "`like` names `provider/model`"),
        ("[providers]\nopenai = 3\n", 2, "expected a table"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, text: str, line: int, expected: str) -> None:
    """The file, the line and what is wrong with it."""
    path = tmp_path / "models.toml"
    path.write_text(text)
    with pytest.raises(FormatError) as raised:
        load_overrides(path)
    assert str(path) in str(raised.value)
    assert f"line {line}" in str(raised.value)
    assert expected in str(raised.value)


def test_a_file_that_is_no_text_is_told_so(tmp_path: Path) -> None:
    """Bytes that are not UTF-8 are no traceback."""
    path = tmp_path / "models.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(FormatError, match="not UTF-8"):
        load_overrides(path)
