"""The settings file: strict, with the line and the key that was meant, and no secret in it or in its errors."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from interlingua.gateway import Gateway, Listen, Settings
from interlingua.gateway.checking import check_settings, front_wires, lost_fields
from interlingua.gateway.settings_file import load_settings, resolved_address
from interlingua.values.errors import FormatError, InterlinguaError

WHOLE = """
open_models = false
keep_alive = 5.0

[listen]
port = 0

[limits]
body = 1000000

[timeouts]
first = 30.0

[state]
limits = "env:REDIS_URL"

[recording]
enabled = true
sample = 0.5
patterns = ["[0-9]{6}"]

[log]
access = "-"
metrics_token = "env:METRICS_TOKEN"

[providers.anthropic]
api_keys = ["env:ANTHROPIC_API_KEY"]
concurrency = 4
timeouts = { idle = 20.0 }

[aliases]
fast = "debug/echo"

[aliases.best]
targets = ["debug/echo", { model = "debug/words", weight = 2 }]
fallbacks = ["debug/echo"]

[[rules]]
to = "fast"
above_tokens = 1000
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "gateway.toml"
    path.write_text(text)
    return path


def test_every_part_of_the_file_is_read(tmp_path: Path) -> None:
    """Short forms of aliases and targets mean the same as long ones."""
    settings = load_settings(written(tmp_path, WHOLE))
    assert ["fast", "best"] == [alias.name for alias in settings.gateway.aliases]
    assert [1.0, 2.0] == [target.weight for target in settings.gateway.aliases[1].targets]
    assert (4, 20.0) == (settings.gateway.providers[0].concurrency, settings.gateway.providers[0].timeouts.idle)  # type: ignore[union-attr]
    assert (0, 1_000_000, 5.0, 30.0) == (
        settings.gateway.listen.port,
        settings.gateway.limits.body,
        settings.gateway.keep_alive,
        settings.gateway.timeouts.first,
    )
    assert (True, 0.5, "-") == (settings.recording.enabled, settings.recording.sample, settings.log.access)
    assert "fast" == settings.gateway.rules[0].to


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("open_model = true", 1, "unknown key `open_model`; did you mean `open_models`?"),
        ("[listen]\nhots = 'x'", 2, "did you mean `host`?"),
        ("[providers.openai]\nconcurency = 3", 2, "did you mean `concurrency`?"),
        ("[providers.openai]\ntimeouts = { frist = 3 }", 2, "did you mean `first`?"),
        ("[aliases.a]\ntargets = ['debug/echo']\nfallback = ['debug/echo']", 3, "did you mean `fallbacks`?"),
        ("[aliases.a]\ntargets = [{ model = 'debug/echo', wieght = 1 }]", 2, "did you mean `weight`?"),
        ("[aliases]\na = 'gpt'", 2, "a target is `provider/model`, not `gpt`"),
        ("[aliases.a]\ntargets = []", 1, "an alias needs `targets`"),
        ("[aliases.a]\ntargets = [{ model = 'debug/echo', weight = -1 }]", 2, "must not be negative"),
        ("[[rules]]\nto = 'a'\nneeds = ['sound']", 3, "Invalid enum value 'sound'"),
        ("[recording]\nsample = 2.0", 2, "Expected `float` <= 1"),
        ("[recording]\npatterns = ['(']", 2, "not a regular expression"),
        ("[listen]\nport = 'x'", 2, "Expected `int`"),
        ("rules = 3", 1, "Expected `array`"),
        ("[providers]\nx = 3", 2, "expected a table"),
        ("[providers.x]\nbase_url = 'file:///etc/passwd'", 2, "not an address of a server"),
        ("[providers.x]\nbase_url = 'https://u:p@host/'", 2, "without a user or password"),
        ("[providers.x]\nbase_url = 'http://a b/'", 2, "not an address of a server"),
        ("[providers.x]\nheaders = { Authorization = 'x' }", 2, "may hold a key"),
        ("[providers.x]\nheaders = { 'a b' = 'x' }", 2, "is not a header"),
        ('[providers.x]\nheaders = { a = "x\\r\\nb: c" }', 2, "is not a header"),
        ("[listen]\nhost = 'x'\nport = 99999", 3, "Expected `int` <= 65535"),
        ("[listen]\nport = -1", 2, "Expected `int` >= 0"),
        ("[listen]\ntls_key = 'key.pem'", 2, "set `tls_cert`, too"),
        ("[aliases.a]\ntargets = ['debug/echo']\nretries = -1", 3, "Expected `int` >= 0"),
        ("[aliases.a]\ntargets = [{ model = 'debug/echo', weight = nan }]", 2, "must not be negative or infinite"),
        ("[aliases.a]\ntargets = [{ model = 'debug/echo', context_window = 0 }]", 2, "Expected `int` >= 1"),
        ("[limits]\nbody = 0", 2, "Expected `int` >= 1"),
        ("[limits]\nheader = 0", 2, "Expected `int` >= 1024"),
        ("[limits]\nconnections = 0", 2, "Expected `int` >= 1"),
        ("[limits]\nbody_timeout = 0", 2, "Expected `float` > 0"),
        ("[limits]\nsend_timeout = nan", 2, "Expected `float` > 0"),
        ("[limits]\ntotal = -1", 2, "Expected `float` > 0"),
        ("[timeouts]\nidle = -1", 2, "Expected `float` > 0"),
        ("keep_alive = 0", 1, "Expected `float` > 0"),
        ("recall_bytes = -1", 1, "Expected `int` >= 0"),
        ("wait = -1", 1, "Expected `float` >= 0"),
        ("[providers.openai]\nconcurrency = 0", 2, "Expected `int` >= 1"),
        ("[providers.openai]\nqueue = -1", 2, "Expected `int` >= 0"),
        ("[[rules]]\nto = 'a'\nabove_tokens = -1", 3, "Expected `int` >= 0"),
        ("[log]\nmetrics_token = 'x'", 2, "tokens are not written into the file"),
    ],
)
def test_a_mistake_is_named_with_its_line_and_what_was_meant(
    tmp_path: Path, text: str, line: int, message: str
) -> None:
    """A typing error must not go unseen."""
    with pytest.raises(FormatError) as raised:
        load_settings(written(tmp_path, text))
    assert f"line {line}: " in str(raised.value) and message in str(raised.value)


def test_a_key_in_the_file_is_refused_and_not_repeated(tmp_path: Path) -> None:
    """Only references are written; the message may reach a log."""
    for text in (
        "[providers.openai]\napi_keys = ['sk-secret-1']",
        "[aliases.a]\ntargets = [{ model = 'openai/x', api_keys = ['sk-secret-1'] }]",
    ):
        with pytest.raises(FormatError, match="`env:NAME` or `file:PATH`") as raised:
            load_settings(written(tmp_path, text))
        assert "sk-secret-1" not in str(raised.value)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"[listen", None])
def test_a_file_that_cannot_be_read_is_a_typed_error(tmp_path: Path, content: bytes | None) -> None:
    """Not UTF-8, not TOML, or not there."""
    path = tmp_path / "gateway.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(FormatError, match=r"gateway\.toml"):
        load_settings(path)


def test_an_address_by_reference_is_that_of_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that is not set is named."""
    monkeypatch.setenv("REDIS_URL", "redis://host/0")
    assert "redis://host/0" == resolved_address("env:REDIS_URL")
    with pytest.raises(FormatError, match="REDIS_URL_2 is not set"):
        resolved_address("env:REDIS_URL_2")


async def test_a_check_names_each_target_that_cannot_be_used(tmp_path: Path) -> None:
    """One that is wrong hides no other; prices and losses are told for those that work."""
    text = """
    [providers.mine]
    api = "openai-completions"
    base_url = "http://127.0.0.1:9/v1"
    api_keys = ["env:NOT_SET_ANYWHERE"]
    [providers.open]
    api = "google-generative-ai"
    base_url = "http://127.0.0.1:9"
    api_keys = ["file:KEYFILE"]
    [aliases]
    a = "mine/x"
    b = "nowhere/x"
    c = "debug/echo"
    d = "open/x"
    """
    key = tmp_path / "key"
    key.write_text("k")
    reports = {
        report.alias: report
        for report in await check_settings(load_settings(written(tmp_path, text.replace("KEYFILE", str(key)))).gateway)
    }
    assert "NOT_SET_ANYWHERE is not set" in (reports["a"].problem or "")
    assert reports["b"].problem is not None
    assert (None, True) == (reports["c"].problem, reports["c"].has_price)
    assert (None, False) == (reports["d"].problem, reports["d"].has_price)
    assert "anthropic-messages" in reports["d"].losses


@pytest.mark.parametrize(
    ("text", "role", "message"),
    [
        ("[providers.antropic]\nconcurrency = 1", "provider", "did you mean 'anthropic'"),
        ("[providers.mine]\nbase_url = 'http://127.0.0.1:9'", "provider", "needs `api` and `base_url`"),
        ("[providers.mine]\napi = 'openai-completion'", "provider", "did you mean 'openai-completions'"),
        ("[[rules]]\nto = 'nope'", "rule", "the model 'nope' does not exist"),
        ("[[rules]]\nto = 'debug/echo'\n[[rules]]\nto = 'nope/x'", "rule", "the model 'nope/x' does not exist"),
    ],
)
async def test_what_nothing_could_use_is_refused(tmp_path: Path, text: str, role: str, message: str) -> None:
    """A misspelt provider must not be ignored, nor a rule lead to a model that does not exist."""
    settings = load_settings(written(tmp_path, text)).gateway
    (report,) = await check_settings(settings)
    assert (role, True) == (report.role, message in (report.problem or "")), report.problem
    with pytest.raises(InterlinguaError) as raised:
        await Gateway(replace(settings, listen=Listen(port=0))).start()
    assert message in str(raised.value)


async def test_a_certificate_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    """The file, and what is wrong with it."""
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("no certificate")
    for path in (wrong, tmp_path / "missing.pem"):
        with pytest.raises(InterlinguaError) as raised:
            await Gateway(Settings(listen=Listen(port=0, tls_cert=str(path)))).start()
        assert f"cannot use {path} for TLS: " in str(raised.value) and "None" not in str(raised.value)


def test_a_pair_loses_what_one_can_say_and_the_other_cannot() -> None:
    """Nothing on the same wire; between others, fields of both tables."""
    wires = {wire.api: wire for wire in front_wires()}
    assert {"openai-completions", "anthropic-messages", "google-generative-ai", "ollama-chat"} <= set(wires)
    for one in wires.values():
        assert [] == list(lost_fields(one, one))
    assert list(lost_fields(wires["anthropic-messages"], wires["ollama-chat"]))
