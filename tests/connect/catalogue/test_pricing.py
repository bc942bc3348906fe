"""The arithmetic of cost: disjoint buckets, steps by the true size of the input, and nothing made up."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlingua.connect import prices as pricing
from interlingua.connect.prices import RATES, PriceSheet
from interlingua.dialects.wire import UsageDetail
from interlingua.values.messages import Cost, Usage
from interlingua.values.request import ModelCost

RATES_OF_A_MODEL: pricing.Rates = {
    "input": ((0, 3.0), (200_000, 6.0)),
    "output": ((0, 15.0), (200_000, 22.5)),
    "cache_read": ((0, 0.3), (200_000, 0.6)),
    "cache_write": ((0, 3.75), (200_000, 7.5)),
    "cache_write_1h": ((0, 6.0), (200_000, 12.0)),
}
tokens = st.integers(0, 2_000_000)
usages = st.builds(lambda a, b, c, d: Usage.of(a, b, cache_read=c, cache_write=d), tokens, tokens, tokens, tokens)
flat = {name: rate[:1] for name, rate in RATES_OF_A_MODEL.items()}


def dollars(usage: Usage, rates: pricing.Rates = RATES_OF_A_MODEL) -> Cost:
    found = pricing.total(usage, rates)
    assert found is not None
    return found


def test_each_bucket_has_its_own_price() -> None:
    """Fresh input, cache reads, cache writes and output are charged apart and once."""
    found = dollars(Usage.of(1_000, 2_000, cache_read=10_000, cache_write=4_000))
    assert Cost(input=0.003, output=0.03, cache_read=0.003, cache_write=0.015, total=0.051) == found


@pytest.mark.parametrize(
    ("usage", "price"),
    [
        (Usage.of(200_000), 3.0),
        (Usage.of(200_001), 6.0),
        (Usage.of(100_000, cache_read=100_000), 3.0),
        (Usage.of(100_000, cache_read=100_001), 6.0),
        (Usage.of(100_000, cache_read=50_000, cache_write=50_000), 3.0),
        (Usage.of(100_000, cache_read=50_000, cache_write=50_001), 6.0),
        (Usage.of(1, 900_000), 3.0),
    ],
)
def test_a_step_is_taken_above_its_threshold_of_all_input(usage: Usage, price: float) -> None:
    """Cached input counts for the size of a request, output does not, and the threshold itself is still below."""
    assert price * usage.input / 1_000_000 == dollars(usage).input


@pytest.mark.parametrize(("size", "price"), [(0, 1), (10, 1), (11, 2), (20, 2), (21, 3), (10**9, 3)])
def test_of_several_steps_the_highest_that_is_passed_counts(size: int, price: float) -> None:
    """Steps do not add up."""
    assert price == pricing.at_size(((0, 1.0), (10, 2.0), (20, 3.0)), size)


@given(usages)
def test_cost_is_the_sum_over_the_buckets(usage: Usage) -> None:
    """At flat prices, a request costs what its buckets cost alone."""
    alone = (
        Usage.of(usage.input),
        Usage.of(0, usage.output),
        Usage.of(cache_read=usage.cache_read),
        Usage.of(cache_write=usage.cache_write),
    )
    assert sum(dollars(one, flat).total for one in alone) == pytest.approx(dollars(usage, flat).total)


@given(usages)
def test_the_parts_add_up_to_the_total(usage: Usage) -> None:
    """Also with steps."""
    found = dollars(usage)
    parts = (found.input, found.output, found.cache_read, found.cache_write)
    assert found.total == pytest.approx(sum(part for part in parts if part is not None))


@given(usages, usages)
def test_more_tokens_never_cost_less(less: Usage, more: Usage) -> None:
    """Cost grows with every bucket, over the steps as well."""
    both = Usage.of(
        less.input + more.input,
        less.output + more.output,
        cache_read=less.cache_read + more.cache_read,
        cache_write=less.cache_write + more.cache_write,
    )
    assert dollars(both).total >= dollars(less).total


def test_no_tokens_cost_nothing_where_prices_are_known() -> None:
    """Zero is a price then; where none is known, it is not."""
    assert 0 == dollars(Usage.of()).total
    assert pricing.total(Usage.of(), {}) is None


@pytest.mark.parametrize("bucket", ["input", "output", "cache_read", "cache_write"])
def test_a_bucket_without_a_price_makes_the_cost_unknown_only_if_it_holds_tokens(bucket: str) -> None:
    """A model without a cache price has a cost as long as nothing was cached."""
    rates = {name: rate for name, rate in flat.items() if name != bucket}
    full = {"input": 5, "output": 5, "cache_read": 5, "cache_write": 5}
    assert pricing.total(Usage.of(**full), rates) is None
    assert pricing.total(Usage.of(**{**full, bucket: 0}), rates) is not None


def anthropic(**residual: Any) -> dict[str, Any]:
    return {"anthropic-messages": residual}


@pytest.mark.parametrize(
    "extra",
    [
        anthropic(cache_creation={"ephemeral_5m_input_tokens": 1_000, "ephemeral_1h_input_tokens": 3_000}),
        {"bedrock-converse-stream": {"cacheDetails": [{"ttl": "1h", "inputTokens": 3_000}, {"ttl": "5m"}]}},
    ],
    ids=["anthropic", "bedrock"],
)
def test_long_cache_writes_have_their_own_price(extra: dict[str, Any]) -> None:
    """Where the wire tells how much was written for an hour, that much is charged as such."""
    usage = Usage.of(cache_write=4_000, extra=extra)
    assert (1_000 * 3.75 + 3_000 * 6.0) / 1_000_000 == pytest.approx(dollars(usage).cache_write)


def test_long_cache_writes_without_a_price_are_unknown() -> None:
    """They are dearer than short ones; by how much is not guessed."""
    rates = {name: rate for name, rate in flat.items() if name != "cache_write_1h"}
    usage = Usage.of(cache_write=4_000, extra=anthropic(cache_creation={"ephemeral_1h_input_tokens": 1}))
    assert pricing.total(usage, rates) is None


def test_a_part_is_never_more_than_its_bucket() -> None:
    """A wire that tells more long writes than writes adds none."""
    usage = Usage.of(cache_write=10, extra=anthropic(cache_creation={"ephemeral_1h_input_tokens": 1_000}))
    assert 10 * 6.0 / 1_000_000 == dollars(usage).cache_write


@pytest.mark.parametrize(
    "extra",
    [
        {
            "openai-completions": {
                "prompt_tokens_details": {"audio_tokens": 20},
                "~": {"completion_tokens_details": {"in": {"audio_tokens": 5}}},
            }
        },
        {
            "google-generative-ai": {
                "promptTokensDetails": [
                    {"modality": "TEXT", "tokenCount": 80},
                    {"modality": "AUDIO", "tokenCount": 20},
                ],
                "candidatesTokensDetails": [{"modality": "AUDIO", "tokenCount": 5}],
            }
        },
    ],
    ids=["openai", "google"],
)
def test_sound_has_its_own_price_where_the_model_has_one(extra: dict[str, Any]) -> None:
    """Else it costs what the bucket does."""
    usage = Usage.of(100, 10, extra=extra)
    rates = flat | {"input_audio": ((0, 40.0),), "output_audio": ((0, 80.0),)}
    assert (80 * 3 + 20 * 40) / 1e6 == pytest.approx(dollars(usage, rates).input)
    assert (5 * 15 + 5 * 80) / 1e6 == pytest.approx(dollars(usage, rates).output)
    assert 100 * 3 / 1e6 == dollars(usage, flat).input


def test_searches_that_the_provider_ran_are_in_the_total() -> None:
    """They belong to no bucket, so they are told beside them; without a price the cost is unknown."""
    usage = Usage.of(1_000_000, extra=anthropic(server_tool_use={"web_search_requests": 3}))
    found = dollars(usage, flat | {"web_search": ((0, 10.0),)})
    assert (3.0, 3.03, {"catalogue": {"fees": 0.03}}) == (found.input, found.total, found.extra)
    assert pricing.total(usage, flat) is None


@pytest.mark.parametrize(
    "residual", [None, 1, [], "x", {"cache_creation": 3}, {"server_tool_use": {"web_search_requests": "2"}}]
)
def test_odd_extras_count_nothing(residual: Any) -> None:
    """What is not in the wire's own shape is not read."""
    extra = {
        "anthropic-messages": residual,
        "google-generative-ai": {"promptTokensDetails": [1, {"modality": "AUDIO"}]},
    }
    assert UsageDetail() == pricing.usage_detail(Usage.of(1, extra=extra))


@pytest.mark.parametrize("rates", [RATES_OF_A_MODEL, flat, {"input": ((0, 1.0),), "output": ((0, 2.0),)}])
def test_a_descriptor_says_all_rates_again(rates: pricing.Rates) -> None:
    """Steps, long writes and what is unknown survive in the descriptor of a model."""
    cost = pricing.model_cost(rates)
    assert cost is not None
    assert rates == pricing.rates_of(cost)


def test_plain_prices_of_a_descriptor_are_rates() -> None:
    """The four numbers that people write are the prices."""
    cost = ModelCost(input=1, output=2, cache_read=0, cache_write=4)
    assert {"input": 1, "output": 2, "cache_read": 0, "cache_write": 4} == {
        name: rate[0][1] for name, rate in pricing.rates_of(cost).items()
    }


ORACLE_AT = datetime(2026, 11, 1, 12, tzinfo=UTC)


def test_the_package_comes_to_the_same_totals(sheet: PriceSheet) -> None:
    """For every model whose prices we know in full, genai-prices' own calculation gives the same sum."""
    import genai_prices
    from genai_prices.data import providers

    usage = Usage.of(150_000, 5_000, cache_read=120_000, cache_write=30_000)
    theirs = genai_prices.Usage(
        input_tokens=300_000, cache_read_tokens=120_000, cache_write_tokens=30_000, output_tokens=5_000
    )
    compared = 0
    for provider in providers:
        rows = {row.id: row for row in sheet.lists[provider.id].rows}
        for model in provider.models:
            ours = pricing.total(usage, rows[model.id].rates(ORACLE_AT) or {})
            if ours is not None and vars(model.get_prices(ORACLE_AT)).keys() <= RATES.keys():
                expected = model.calc_price(theirs, provider, genai_request_timestamp=ORACLE_AT).total_price
                assert float(expected) == pytest.approx(ours.total), (provider.id, model.id)
                compared += 1
    assert compared > 100
