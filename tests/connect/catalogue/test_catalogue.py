"""What is known of models, what messages cost, and when the price lists are loaded."""

import asyncio
import itertools
import json
import subprocess
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import interlingua as il
from interlingua.connect import models as catalogue
from interlingua.connect import prices as pricesheet
from interlingua.connect.models import Catalogue, openrouter_generation
from interlingua.connect.prices import Dated, PriceList, PriceRow, PriceSheet
from interlingua.values.errors import ProviderError
from interlingua.values.messages import AssistantMessage, Cost, Usage
from interlingua.values.request import ModelCost, ModelDescriptor

RATES = {
    "input": ((0, 2.0),),
    "output": ((0, 8.0),),
    "cache_read": ((0, 0.5),),
    "cache_write": ((0, 2.5),),
}
OLD = {**RATES, "input": ((0, 4.0),)}
FLEX = {"input": ((0, 0.5),), "output": ((0, 3.0),)}


def row(name: str, rates: dict[str, Any] = RATES, tiers: dict[str, Any] | None = None) -> PriceRow:
    return PriceRow(name, name.title(), 64_000, False, ["equals", name], (Dated(rates),), tiers or {})


@pytest.fixture
def small() -> Catalogue:
    """A catalogue of a few made-up models, whose prices do not change with the package."""
    changed = PriceRow(
        "changed", None, None, False, ["equals", "changed"], (Dated(OLD), Dated(RATES, since="2026-03-01"))
    )
    openai = PriceList(
        "openai", (row("plain"), row("tiered", tiers={"flex": (Dated(FLEX),)}), changed, row("free", {}))
    )
    return Catalogue(PriceSheet((openai, PriceList("openrouter", (row("lab/model"),)))))


def asked(model_id: str, provider: str = "openai", **more: Any) -> ModelDescriptor:
    return ModelDescriptor(id=model_id, provider=provider, **more)


def answer(usage: Usage | None, **more: Any) -> AssistantMessage:
    return AssistantMessage(content="Hi", usage=usage, **more)


def total(cost: Cost | None) -> float | int | None:
    return None if cost is None else cost.total


MILLION = Usage.of(1_000_000)

# --- descriptions ---


def test_a_model_is_described_from_lists_and_generations(known: Catalogue) -> None:
    """Prices and window from the list, the rest from the table of generations; the wire is left open."""
    model = known.describe("anthropic", "claude-opus-4-6")
    assert model is not None
    assert ("anthropic", 1_000_000, 128_000, ("text", "image", "document"), True, "", None) == (
        model.provider,
        model.context_window,
        model.max_tokens,
        model.input,
        model.reasoning,
        model.api,
        model.base_url,
    )
    assert ("low", "medium", "high", "max") == catalogue.levels(model)
    assert model.cost is not None
    assert 0 < model.cost.cache_read < model.cost.input < model.cost.cache_write < model.cost.output


def test_nothing_known_is_nothing_said(known: Catalogue) -> None:
    """An unknown model has no description, rather than one with defaults."""
    assert known.describe("openai", "gpt-99") is None
    assert known.describe("ollama", "my-finetune") is None
    assert known.describe("nobody", "nothing") is None


def test_what_the_lists_do_not_tell_stays_unknown(known: Catalogue) -> None:
    """A model of no known generation has prices and no guessed limits; one without a price list has no price."""
    priced_only = known.describe("google", "gemini-robotics-er-2-preview")
    assert priced_only is not None
    assert (None, None, None) == (priced_only.max_tokens, priced_only.input, priced_only.reasoning)
    unpriced = known.describe("ollama", "gpt-oss:20b")
    assert unpriced is not None
    assert (None, None, True) == (unpriced.cost, unpriced.context_window, unpriced.reasoning)


def test_an_unknown_cache_price_is_marked(small: Catalogue) -> None:
    """The format wants a number; that it is none is written beside it, and nothing is computed from it."""
    sheet = PriceSheet((PriceList("openai", (row("m", {"input": ((0, 1.0),), "output": ((0, 2.0),)}),)),))
    model = Catalogue(sheet).describe("openai", "m")
    assert model is not None
    assert model.cost is not None
    assert ["cache_read", "cache_write"] == model.cost.extra["catalogue"]["unknown"]
    assert small.cost(Usage.of(1, cache_read=1), replace(model, id="gone")) is None
    assert small.cost(Usage.of(1), replace(model, id="gone")) is not None


def test_a_description_survives_as_json(known: Catalogue) -> None:
    """Steps and all, so that a stored conversation still knows its model's prices."""
    model = known.describe("google", "gemini-2.5-pro")
    assert model is not None
    conversation = il.Conversation(model=model)
    assert model == il.load(il.dump(conversation), il.Conversation).model


def test_a_host_that_trims_models_has_unknown_limits(known: Catalogue) -> None:
    """The maker's longest answer is not promised where the host allows less."""
    at_maker, at_host = known.describe("openai", "gpt-5.4"), known.describe("github-copilot", "gpt-5.4")
    assert at_maker is not None
    assert at_host is not None
    assert (128_000, None) == (at_maker.max_tokens, at_host.max_tokens)


def test_models_are_listed_and_filtered(small: Catalogue) -> None:
    """By provider, and by words that provider, id or name must all have."""
    assert ["changed", "free", "plain", "tiered"] == [model.id for model in small.models("openai")]
    assert ["lab/model"] == [model.id for model in small.models(filter="OPENROUTER lab")]
    assert [] == small.models(filter="plain lab")
    assert [] == small.models("ollama")


def test_what_is_not_for_talking_is_not_listed(known: Catalogue) -> None:
    """Embeddings have no price for output; Claude is sold by Google, but not at the door of the Gemini API."""
    openai, google, vertex = (
        {model.id for model in known.models(name)} for name in ("openai", "google", "google-vertex")
    )
    assert "gpt-4o" in openai
    assert not any("embedding" in name for name in openai)
    assert not any("claude" in name for name in google)
    assert any("claude" in name for name in vertex)


# --- cost ---


def test_cost_by_name_or_by_descriptor(small: Catalogue) -> None:
    """`provider/model`, a name with its provider, or a description give the same."""
    expected = Cost(input=2.0, output=0.0, cache_read=0.0, cache_write=0.0, total=2.0)
    assert expected == small.cost(MILLION, "openai/plain")
    assert expected == small.cost(MILLION, "plain", "openai")
    assert expected == small.cost(MILLION, asked("plain"))


def test_an_unknown_price_is_unknown(small: Catalogue) -> None:
    """Never zero: for an unknown model, an unnamed provider, a row without prices, a provider without a list."""
    for reference in ("openai/other", "plain", "openai/free", "ollama/plain"):
        assert small.cost(MILLION, reference) is None
        assert small.cost(Usage.of(), reference) is None


def test_prices_that_a_descriptor_brings_count_first(small: Catalogue) -> None:
    """A caller who says the price is believed."""
    own = ModelCost(input=100, output=0, cache_read=0, cache_write=0)
    assert 100 == total(small.cost(MILLION, asked("plain", cost=own)))
    assert 100 == total(small.cost(MILLION, asked("other", provider="", cost=own)))


@pytest.mark.parametrize(
    ("at", "price"),
    [
        (datetime(2026, 2, 28, 23, 59, tzinfo=UTC), 4.0),
        (datetime(2026, 3, 1), 2.0),
        (1_772_000_000_000, 4.0),
        (1_773_000_000_000, 2.0),
        (None, 2.0),
        (10**20, 2.0),
    ],
)
def test_the_price_is_that_of_the_time(small: Catalogue, at: Any, price: float) -> None:
    """Of a moment, of a time stamp in milliseconds, or of now; a description made today changes nothing about it."""
    assert price == total(small.cost(MILLION, "openai/changed", at=at))
    described = small.describe("openai", "changed")
    assert described is not None
    assert price == total(small.cost(MILLION, described, at=at))


@pytest.mark.parametrize(
    ("model_id", "tier", "price"),
    [
        ("plain", None, 2.0),
        ("plain", "default", 2.0),
        ("plain", "auto", 2.0),
        ("plain", "flex", 1.0),
        ("plain", "priority", 4.0),
        ("tiered", "flex", 0.5),
        ("tiered", "priority", 4.0),
        ("plain", "batch", 1.0),
        ("plain", "FLEX", 1.0),
        ("plain", "scale", None),
    ],
)
def test_service_tiers_have_their_price(small: Catalogue, model_id: str, tier: str | None, price: float | None) -> None:
    """The list's own price for the tier, else the known factor, else unknown."""
    assert price == total(small.cost(MILLION, f"openai/{model_id}", service_tier=tier))


GEMINI = PriceList("google", (row("plain"), row("tiered", tiers={"flex": (Dated(FLEX),)})))


@pytest.mark.parametrize(
    ("reported", "price"),
    [
        ({}, 2.0),
        ({"trafficType": "ON_DEMAND"}, 2.0),
        ({"trafficType": "TRAFFIC_TYPE_UNSPECIFIED"}, 2.0),
        ({"serviceTier": "standard"}, 2.0),
        ({"trafficType": "ON_DEMAND_FLEX"}, 1.0),
        ({"trafficType": 4}, 1.0),
        ({"serviceTier": "flex"}, 1.0),
        ({"serviceTier": "batch"}, 1.0),
        ({"serviceTier": "priority"}, None),
        ({"trafficType": "ON_DEMAND_PRIORITY"}, None),
        ({"trafficType": "PROVISIONED_THROUGHPUT"}, None),
        ({"trafficType": "ON_DEMAND_OFFPEAK"}, None),
        ({"trafficType": "A_WORD_OF_TOMORROW"}, None),
        ({"serviceTier": "flex", "trafficType": "PROVISIONED_THROUGHPUT"}, None),
    ],
)
@pytest.mark.parametrize("api", ["google-generative-ai", "google-vertex"])
def test_gemini_is_priced_as_it_was_served(api: str, reported: dict[str, Any], price: float | None) -> None:
    """Half for flex and batches, as Google documents it; what was provisioned, or is not known, has no price."""
    usage = {"promptTokenCount": 1_000_000, "totalTokenCount": 1_000_000, **reported}
    body = {"candidates": [{"content": {"role": "model", "parts": []}, "finishReason": "STOP"}], "usageMetadata": usage}
    message = il.dialect(api).decode_response(body)
    priced = Catalogue(PriceSheet((GEMINI,))).priced(message, asked("plain", "google")).usage
    assert priced is not None
    assert price == total(priced.cost)


def test_what_google_does_not_tell_of_a_tier_is_unknown() -> None:
    """Whether cached tokens are cheaper there depends on the model; the list's own prices count where there are any."""
    known = Catalogue(PriceSheet((GEMINI,)))
    cached = Usage.of(10, 10, cache_read=1)
    assert known.cost(cached, "google/plain", service_tier="flex") is None
    assert known.cost(cached, "google/tiered", service_tier="flex") is not None
    assert 0.5 == total(known.cost(MILLION, "google/tiered", service_tier="flex"))


@pytest.mark.parametrize(
    ("reported", "price"),
    [
        ({"service_tier": "standard", "inference_geo": "not_available"}, 2.0),
        ({"service_tier": "standard", "inference_geo": "global"}, 2.0),
        ({"service_tier": "batch"}, 1.0),
        ({"service_tier": "standard", "inference_geo": "us"}, 2.2),
        ({"service_tier": "priority"}, None),
        ({"service_tier": "standard", "speed": "fast"}, None),
        ({"service_tier": "batch", "inference_geo": "us"}, None),
    ],
)
def test_claude_is_priced_as_it_was_served(reported: dict[str, Any], price: float | None) -> None:
    """A batch costs half and inference in the US a tenth more; speed, and two of these at once, are unknown."""
    known = Catalogue(PriceSheet((PriceList("anthropic", (row("plain"),)),)))
    message = answer(Usage.of(1_000_000, extra={"anthropic-messages": reported}))
    priced = known.priced(message, asked("plain", "anthropic")).usage
    assert priced is not None
    assert price == (None if priced.cost is None else pytest.approx(priced.cost.total))


@pytest.mark.parametrize(("asked_for", "price"), [(None, 2.0), ("auto", 2.0), ("flex", 1.0), ("scale", None)])
def test_where_the_answer_does_not_tell_the_tier_that_was_asked_for_counts(
    small: Catalogue, asked_for: str | None, price: float | None
) -> None:
    """It is never taken for the ordinary service; an answer that tells has the last word."""
    silent, explicit = openai_answer(), openai_answer(service_tier="default")
    decode = il.dialect("openai-completions").decode_response
    prices = [small.priced(decode(body), asked("plain"), asked_for).usage for body in (silent, explicit)]
    assert [price, 2.0] == [total(usage.cost) for usage in prices if usage is not None]


@pytest.mark.parametrize("tier", [None, "flex", "priority", "batch", "unknown"])
@pytest.mark.parametrize(
    "name",
    [
        "openai/gpt-5",
        "openai/gpt-4o",
        "anthropic/claude-sonnet-4-5",
        "google/gemini-2.5-pro",
        "google/gemini-2.5-flash",
        "google/gemini-2.5-flash-image",
        "deepseek/deepseek-chat",
    ],
)
def test_no_request_costs_more_than_its_highest_cost(name: str, tier: str | None, known: Catalogue) -> None:
    """However its tokens are split, in the tier that was asked for or in the ordinary one; unknown prices have none."""
    provider, _, id = name.partition("/")
    model = known.describe(provider, id) or asked(id, provider)
    for size in (1000, 250_000):
        highest = known.highest_cost(model, size, 500, tier)
        splits = [{"input": size}, {"input": size // 2, "cache_read": size - size // 2}, {"cache_write": size}]
        extras: list[dict[str, Any]] = [
            {},
            {"anthropic-messages": {"cache_creation": {"ephemeral_1h_input_tokens": size}}},
            {"google-generative-ai": {"promptTokensDetails": [{"modality": "AUDIO", "tokenCount": size}]}},
            {"google-generative-ai": {"candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": 500}]}},
        ]
        for split, extra, served in itertools.product(splits, extras, {tier, None}):
            usage = Usage.of(
                split.get("input", 0), 500, **{k: v for k, v in split.items() if k != "input"}, extra=extra
            )
            cost = total(known.cost(usage, model, service_tier=served))
            if highest is not None:
                assert (cost or 0.0) <= highest * 1.000001, (split, extra, served)
            elif served is tier and not extra:
                assert cost is None


def test_factors_are_not_for_other_providers(small: Catalogue) -> None:
    """Half price for patience is not everybody's custom."""
    assert small.cost(MILLION, "openrouter/lab/model", service_tier="flex") is None


def test_batches_have_their_own_price(known: Catalogue) -> None:
    """Anthropic says in the usage that an answer was made in a batch, and the price list has that price."""
    at = datetime(2026, 11, 1, tzinfo=UTC)
    message = answer(
        Usage.of(1_000, extra={"anthropic-messages": {"service_tier": "batch"}}), timestamp=int(at.timestamp() * 1000)
    )
    batch = known.priced(message, asked("claude-opus-4-6", "anthropic")).usage
    standard = total(known.cost(Usage.of(1_000), "anthropic/claude-opus-4-6", at=at))
    assert batch is not None
    assert standard is not None
    assert 0 < (total(batch.cost) or 0) < standard


# --- messages ---


def test_a_message_is_priced(small: Catalogue) -> None:
    """At its own time, with nothing else changed."""
    message = answer(MILLION, timestamp=1_772_000_000_000)
    done = small.priced(message, asked("changed"))
    assert done.usage is not None
    assert 4.0 == total(done.usage.cost)
    assert message == replace(done, usage=MILLION)


def test_a_recorded_cost_is_never_computed_again(small: Catalogue) -> None:
    """What was written down, or told by the provider, stays, zero included."""
    for recorded in (Cost(total=0), Cost(total=0.123, input=0.1, output=0.023)):
        message = answer(replace(MILLION, cost=recorded))
        assert message is small.priced(message, asked("plain"))


def test_a_message_without_usage_or_price_is_left_alone(small: Catalogue) -> None:
    """Unknown stays unknown."""
    for message, model in ((answer(None), asked("plain")), (answer(MILLION), asked("other"))):
        assert message is small.priced(message, model)


def test_a_router_is_priced_by_the_model_that_answered(small: Catalogue) -> None:
    """`auto` has no price; the model that it chose has."""
    message = answer(MILLION, response_model="lab/model")
    done = small.priced(message, asked("openrouter/auto", "openrouter"))
    assert done.usage is not None
    assert 2.0 == total(done.usage.cost)


def openai_answer(**more: Any) -> dict[str, Any]:
    return {
        "id": "gen-1",
        "object": "chat.completion",
        "created": 1,
        "model": "plain",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hi"}}],
        "usage": {"prompt_tokens": 1_000_000, "completion_tokens": 0, "total_tokens": 1_000_000},
        **more,
    }


@pytest.mark.parametrize("reported", [0, 0.00125])
def test_openrouters_own_cost_wins(small: Catalogue, reported: float) -> None:
    """The cost inside its usage is the cost, also when it is zero."""
    usage = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10, "cost": reported}
    message = il.dialect("openai-completions").decode_response(openai_answer(usage=usage))
    done = small.priced(message, asked("lab/model", "openrouter"))
    assert done.usage is not None
    assert Cost(total=reported) == done.usage.cost


def test_openrouters_own_cost_wins_on_other_wires(small: Catalogue) -> None:
    """Also where the wire has no place for it."""
    body = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "lab/model",
        "content": [{"type": "text", "text": "Hi"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 9, "output_tokens": 1, "cost": 0.25},
    }
    done = small.priced(il.dialect("anthropic-messages").decode_response(body), asked("lab/model", "openrouter"))
    assert done.usage is not None
    assert Cost(total=0.25) == done.usage.cost


def test_the_tier_that_answered_decides(small: Catalogue) -> None:
    """The answer's word counts, on both of OpenAI's wires."""
    chat = il.dialect("openai-completions").decode_response(openai_answer(service_tier="flex"))
    response = {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": "plain",
        "service_tier": "priority",
        "output": [],
        "usage": {"input_tokens": 1_000_000, "output_tokens": 0, "total_tokens": 1_000_000},
    }
    responses = il.dialect("openai-responses").decode_response(response)
    prices = [small.priced(message, asked("plain")).usage for message in (chat, responses)]
    assert [1.0, 4.0] == [total(usage.cost) for usage in prices if usage is not None]


# --- OpenRouter's generation endpoint ---


def fetching(*bodies: Any) -> tuple[Any, list[str]]:
    paths: list[str] = []
    given = iter(bodies)

    async def fetch(path: str) -> Any:
        paths.append(path)
        body = next(given)
        if isinstance(body, Exception):
            raise body
        return body

    return fetch, paths


@pytest.mark.parametrize(
    ("record", "cost"),
    [
        ({"total_cost": 0.5}, Cost(total=0.5)),
        ({"total_cost": 0}, Cost(total=0)),
        ({"usage": 0.25}, Cost(total=0.25)),
        ({"total_cost": None, "usage": 0.25}, Cost(total=0.25)),
        ({"total_cost": True}, None),
        ({"total_cost": "0.5"}, None),
        ({}, None),
    ],
)
async def test_the_generation_endpoint_tells_the_cost(record: Any, cost: Cost | None) -> None:
    """A free call costs 0; an answer without a number is no answer."""
    fetch, paths = fetching({"data": record})
    assert cost == await openrouter_generation(fetch, "gen 1/2", waits=())
    assert ["/generation?id=gen%201%2F2"] == paths


async def test_the_generation_endpoint_is_asked_again_while_it_does_not_know() -> None:
    """The record comes a moment after the answer; in the end, nobody told."""
    late = ProviderError("not found", status=404)
    fetch, paths = fetching(late, {"data": None}, {"data": {"total_cost": 1}})
    assert Cost(total=1) == await openrouter_generation(fetch, "g", waits=(0, 0.001))
    assert 3 == len(paths)
    fetch, paths = fetching(late, late)
    assert await openrouter_generation(fetch, "g", waits=(0.001,)) is None
    assert 2 == len(paths)


# --- loading ---


def child(home: Path, program: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"INTERLINGUA_HOME": str(home), "PATH": ""},
        capture_output=True,
        check=True,
        timeout=120,
    )
    return json.loads(done.stdout)


PRICED = """
import json, sys
from interlingua.connect import models as catalogue
from interlingua.values.messages import Usage
early = "genai_prices" in sys.modules
cost = catalogue.cost(Usage.of(5), "openai/gpt-4o")
print(json.dumps([early, cost is not None, "genai_prices" in sys.modules, "pydantic" in sys.modules]))
"""


def test_case_117_price_lists_are_read_on_use_and_once_per_version(tmp_path: Path) -> None:
    """Importing loads none; the first use reads the package, later processes the small file kept of it."""
    assert [False, True, True, True] == child(tmp_path, PRICED)
    assert [False, True, False, False] == child(tmp_path, PRICED)


async def test_case_121_loading_does_not_hold_up_the_event_loop(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the lists are loaded in a thread, the loop goes on; then they are there."""
    may_end, threads = threading.Event(), []
    real = pricesheet.from_package

    def slow() -> tuple[PriceList, ...]:
        threads.append(threading.current_thread())
        may_end.wait(30)
        return real()

    monkeypatch.setattr(pricesheet, "from_package", slow)
    loading = asyncio.create_task(catalogue.warm())
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert not loading.done()
    may_end.set()
    await loading
    assert threading.main_thread() not in threads
    await catalogue.warm()
    assert catalogue.cost(Usage.of(5), "openai/gpt-4o") is not None
    assert 1 == len(threads)


def test_many_threads_load_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All get the same catalogue."""
    loads: list[int] = []
    real = pricesheet.load
    monkeypatch.setattr(pricesheet, "load", lambda keep: loads.append(1) or real(keep))
    found: list[Catalogue] = []
    threads = [threading.Thread(target=lambda: found.append(catalogue.default())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ([1], 8, 1) == (loads, len(found), len({id(one) for one in found}))


def test_a_spoilt_file_is_read_anew(tmp_path: Path) -> None:
    """What was kept is only a copy: cut short, or of another version, it is made again."""
    sheet = pricesheet.load(tmp_path)
    (kept,) = tmp_path.iterdir()
    whole = kept.read_bytes()
    kept.write_bytes(whole[:1000])
    (tmp_path / "prices-0-old.msgpack").write_bytes(b"x")
    assert sheet.lists == pricesheet.load(tmp_path).lists
    assert [kept] == list(tmp_path.iterdir())
    assert whole == kept.read_bytes()


def test_a_home_that_cannot_be_written_is_no_hindrance(tmp_path: Path) -> None:
    """Then the lists are read from the package each time."""
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    assert pricesheet.load(blocked / "cache").lists == pricesheet.load().lists
