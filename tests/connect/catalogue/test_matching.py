"""Which row of a price list an id means: exactly, or by the package's own rules, and never a sibling's."""

from datetime import UTC, datetime

import pytest

from interlingua.connect import prices as pricesheet
from interlingua.connect.models import Catalogue, ModelNotes, Overrides, ProviderNotes
from interlingua.connect.prices import Dated, PriceList, PriceRow, PriceSheet
from interlingua.values.messages import Usage

SONNET = "claude-sonnet-4-5-20250929"


@pytest.mark.parametrize(
    ("list_id", "model_id", "found"),
    [
        ("openai", "gpt-5", "gpt-5"),
        ("openai", "gpt-5-mini", "gpt-5-mini"),
        ("openai", "GPT-5-Mini", "gpt-5-mini"),
        ("openai", "gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("openai", "gpt-4o-2024-08-06", "gpt-4o"),
        ("openai", "gpt-4o-20240806", "gpt-4o"),
        ("anthropic", SONNET, "claude-sonnet-4-5"),
        ("anthropic", "claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("openrouter", "anthropic/claude-sonnet-4.5", "anthropic/claude-sonnet-4.5"),
        ("openrouter", "openai/gpt-5-mini", "openai/gpt-5-mini"),
        ("aws", f"anthropic.{SONNET}-v1:0", f"regional.anthropic.{SONNET}-v1:0"),
        ("aws", f"us.anthropic.{SONNET}-v1:0", f"regional.anthropic.{SONNET}-v1:0"),
        ("aws", f"eu.anthropic.{SONNET}-v1:0", f"regional.anthropic.{SONNET}-v1:0"),
        ("aws", f"global.anthropic.{SONNET}-v1:0", f"global.anthropic.{SONNET}-v1:0"),
        (
            "aws",
            f"arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.anthropic.{SONNET}-v1:0",
            f"regional.anthropic.{SONNET}-v1:0",
        ),
        (
            "aws",
            "arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-3-haiku-20240307-v1:0",
            "regional.anthropic.claude-3-haiku-20240307-v1:0",
        ),
        ("google", "publishers/anthropic/models/claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("google", "claude-sonnet-4-5@20250929", "claude-sonnet-4-5"),
        ("google", "models/gemini-2.5-pro", "gemini-2.5-pro"),
        ("google", "projects/p/locations/l/publishers/google/models/gemini-2.5-flash", "gemini-2.5-flash"),
        ("google", "gemini-2.5-flash@default", "gemini-2.5-flash"),
        ("azure", "gpt-4o", "gpt-4o"),
    ],
)
def test_an_id_means_its_row(sheet: PriceSheet, list_id: str, model_id: str, found: str) -> None:
    """However a host spells it: dated, in a region, as a resource name, with a publisher's path."""
    row = sheet.find(list_id, model_id)
    assert found == (row and row.id)


@pytest.mark.parametrize(
    ("list_id", "model_id"),
    [
        ("openai", "gpt-5-ultra"),
        ("openai", "gpt"),
        ("openai", "my-gpt-5"),
        ("anthropic", "claude-opus-4-7-mini"),
        ("anthropic", "claude-opus-4-70"),
        ("anthropic", "claude-sonnet-4-5-fast"),
        ("anthropic", "claude-haiku-4-5-thinking"),
        ("google", "gemini-3.6-flash-lite"),
        ("google", "gemini-2.5-pro-ultra"),
        ("openrouter", "claude-sonnet-4.5"),
        ("openrouter", "anthropic/claude-sonnet-4.5:nitro"),
        ("aws", "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abcd"),
        ("azure", "my-deployment"),
        ("nobody", "gpt-4o"),
        ("openai", ""),
    ],
)
def test_an_unknown_id_is_nobodys_sibling(sheet: PriceSheet, list_id: str, model_id: str) -> None:
    """A longer or shorter id, another size, another service: unknown, rather than priced as what it resembles."""
    assert sheet.find(list_id, model_id) is None


def test_every_id_that_the_package_finds_is_found_alike(sheet: PriceSheet) -> None:
    """On all ids and spellings in the price lists, ours is the row that the package itself finds."""
    from genai_prices.data import providers

    for provider in providers:
        for row in sheet.lists[provider.id].rows:
            for name in {row.id, *pricesheet._equals(row.match)}:
                expected = provider.find_model(name, all_providers=providers)
                ours = sheet.find(provider.id, name)
                assert expected is None or expected.id == (ours and ours.id), (provider.id, name)


def test_a_deployment_is_priced_as_the_model_it_is_said_to_be(sheet: PriceSheet) -> None:
    """The names of Azure deployments are the user's own; the user says what they are."""
    notes = ProviderNotes(overrides={"team-chat": ModelNotes(like="openai/gpt-4o")})
    known = Catalogue(sheet, Overrides(providers={"azure-openai-responses": notes}))
    usage = Usage.of(1_000, 1_000)
    assert known.cost(usage, "gpt-4o", "openai") == known.cost(usage, "team-chat", "azure-openai-responses") is not None
    described = known.describe("azure-openai-responses", "team-chat")
    assert described is not None
    assert ("team-chat", "azure-openai-responses", 128_000) == (
        described.id,
        described.provider,
        described.context_window,
    )


def test_likeness_in_a_circle_ends(sheet: PriceSheet) -> None:
    """Two models that are each like the other are both unknown."""
    notes = ProviderNotes(api="x", overrides={"a": ModelNotes(like="me/b"), "b": ModelNotes(like="me/a")})
    known = Catalogue(sheet, Overrides(providers={"me": notes}))
    assert known.cost(Usage.of(1), "a", "me") is None


def counted(rows: int) -> tuple[PriceSheet, list[int]]:
    """A sheet of many loose rules, and how often one of them was asked."""
    asked = [0]

    class Rule(str):
        def __hash__(self) -> int:
            return super().__hash__()

        def __eq__(self, other: object) -> bool:
            asked[0] += other == "starts_with" if type(other) is str else 0
            return super().__eq__(other)

    each = tuple(PriceRow(f"m{at}", None, None, False, [Rule("starts_with"), f"model-{at}-"], ()) for at in range(rows))
    return PriceSheet((PriceList("openai", each),)), asked


def test_a_model_is_looked_up_once() -> None:
    """The second cost of the same model asks no rule; nor does the second of one that is not known."""
    sheet, asked = counted(500)
    known = Catalogue(sheet)
    for model_id in ("model-499-x", "nothing"):
        known.cost(Usage.of(1), model_id, "openai")
        first = asked[0]
        for _ in range(50):
            known.cost(Usage.of(1), model_id, "openai")
        assert first == asked[0] > 0
    assert 2 == sheet.find.cache_info().misses


def test_an_exact_id_asks_no_rule() -> None:
    """It is found by its name."""
    sheet, asked = counted(500)
    found = sheet.find("openai", "m7")
    assert found is not None
    assert 0 == asked[0]


AT = datetime(2026, 3, 13, tzinfo=UTC)
CHANGED = PriceRow(
    "m",
    None,
    None,
    False,
    ["equals", "m"],
    (Dated({"input": ((0, 1.0),)}), Dated({"input": ((0, 2.0),)}, since="2026-03-13")),
    {"flex": (Dated({"input": ((0, 0.5),)}, since="2026-10-12"),)},
)


@pytest.mark.parametrize(
    ("at", "price"),
    [
        (datetime(2026, 3, 12, 23, 59, 59, tzinfo=UTC), 1.0),
        (datetime(2026, 3, 13, tzinfo=UTC), 2.0),
        (datetime(2020, 1, 1, tzinfo=UTC), 1.0),
    ],
)
def test_a_price_holds_from_its_day_on(at: datetime, price: float) -> None:
    """Old answers keep the price of their time."""
    assert {"input": ((0, price),)} == CHANGED.rates(at)


@pytest.mark.parametrize(
    ("hour", "minute", "cheap"), [(0, 29, True), (0, 30, False), (16, 29, False), (16, 30, True), (23, 0, True)]
)
def test_a_price_may_hold_at_certain_hours(hour: int, minute: int, cheap: bool) -> None:
    """Between two times of the day, in UTC; the other price holds outside."""
    row = PriceRow(
        "m", None, None, False, ["equals", "m"], (Dated({"a": ((0, 1.0),)}), Dated({}, daily=("00:30:00", "16:30:00")))
    )
    assert cheap == bool(row.rates(datetime(2026, 1, 1, hour, minute, tzinfo=UTC)))
    night = Dated({}, daily=("16:30:00", "00:30:00"))
    assert cheap == night.holds(datetime(2026, 1, 1, hour, minute, tzinfo=UTC))


def test_a_service_tier_has_prices_where_the_list_says_so() -> None:
    """From their day on; before it, and for other tiers, the list has none."""
    assert {"input": ((0, 0.5),)} == CHANGED.rates(datetime(2026, 10, 12, tzinfo=UTC), "flex")
    assert CHANGED.rates(datetime(2026, 10, 11, tzinfo=UTC), "flex") is None
    assert CHANGED.rates(AT, "priority") is None


@pytest.mark.parametrize("list_id", ["aws", "fireworks", "mistral"])
def test_listed_ids_are_ids_that_the_provider_takes(sheet: PriceSheet, list_id: str) -> None:
    """A row that stands for several regions, or lacks its path, is listed under an id that means it."""
    for row in sheet.lists[list_id].rows:
        assert not row.api_id.startswith("regional."), row.id
        assert list_id != "fireworks" or row.api_id.startswith("accounts/"), row.id
        assert sheet.find(list_id, row.api_id) is not None
