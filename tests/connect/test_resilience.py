"""Trying again, elsewhere, or not at all; and whatever happens, one well-formed stream."""

import asyncio
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import interlingua as il
from connect.talking import API, KEY, QUICK, Own, ask, events_of, options, own, saying, until
from interlingua.connect.client import Client
from interlingua.connect.registry import ConnectorRegistry
from interlingua.connect.retry import Breaker, CallTarget, Retry, elsewhere, overflow_wording, overflowed, passing
from interlingua.dialects.provider_errors import OVERFLOW, retry_after
from interlingua.dialects.registry import WIRES as ALL_WIRES
from interlingua.testing import (
    Corrupt,
    Cut,
    Empty,
    ErrorEvent,
    Garbage,
    Html,
    NoTerminal,
    Pace,
    RateLimit,
    Refuse,
    Repeat,
    Server,
    Split,
    Stall,
    Status,
)
from interlingua.values.errors import Aborted
from interlingua.values.events import Done, Error, Start, TextDelta, TextEnd, TextStart
from laws.grammar import faults

# --- which failures ---------------------------------------------------------------------------------------------------

PASSING = [
    il.RateLimited("slow down", status=429),
    il.Overloaded("busy", status=529),
    il.Overloaded("busy inside the stream"),
    il.ProviderError("broken", status=500),
    il.ProviderError("broken", status=520),
    il.TransportError("cut"),
    il.TimedOut("silence"),
    il.BadWire("x", "nonsense"),
]
LASTING = [
    il.AuthFailed("who?", status=401),
    il.AuthFailed("no", status=403),
    il.BadRequest("what?", status=400),
    il.BadRequest("where?", status=404),
    il.ContextTooLong("long", status=400),
    il.ContentFiltered("no", status=400),
    il.RateLimited("spent", status=429, code="insufficient_quota"),
    il.ProviderError("odd", status=302),
    il.ProviderError("inside the stream, for a reason nobody told"),
    Aborted("enough"),
    il.InterlinguaError("mine"),
    il.FormatError("mine"),
    il.Unsupported("x", "mine"),
]


@pytest.mark.parametrize(
    "failure", PASSING + LASTING, ids=lambda f: f"{type(f).__name__}-{getattr(f, 'status', '')}-{f}"
)
def test_only_failures_of_the_moment_are_tried_again(failure: il.InterlinguaError) -> None:
    """Overload, rate limits, broken connections, the server's own errors; not what would fail again."""
    assert (failure in PASSING) == passing(failure) == Retry().again(failure)


@pytest.mark.parametrize(
    ("failure", "else_where"),
    [
        *((failure, True) for failure in PASSING),
        (il.AuthFailed("who?", status=401), True),
        (il.ContextTooLong("long", status=400), True),
        (il.RateLimited("spent", status=429, code="insufficient_quota"), True),
        (il.BadRequest("no such model", status=404), True),
        (il.BadRequest("no such model", status=400, code="model_not_found"), True),
        (il.BadRequest("what?", status=502), False),
        (il.BadRequest("what?", status=400), False),
        (il.ContentFiltered("no"), False),
        (Aborted("enough"), False),
        (il.FormatError("mine"), False),
    ],
    ids=str,
)
def test_which_failures_another_model_may_not_share(failure: il.InterlinguaError, else_where: bool) -> None:
    """A bad request is bad everywhere; a refusal is not shopped around."""
    assert else_where == elsewhere(failure)


@pytest.mark.parametrize(
    ("status", "requests"),
    [
        (408, 3),
        (429, 3),
        (500, 3),
        (502, 3),
        (503, 3),
        (504, 3),
        (529, 3),
        (400, 1),
        (401, 1),
        (403, 1),
        (404, 1),
        (413, 1),
    ],
)
async def test_a_status_decides_how_often_it_is_tried(server: Server, status: int, requests: int) -> None:
    """Three attempts for what may pass; one for what will not."""
    server.answer("never", fault=Status(status, times=9))
    stream = ask(server, retry=QUICK)
    events = await events_of(stream)
    assert [Start, Error] == [type(event) for event in events]
    assert requests == len(server.requests)
    assert status == getattr(stream.failure, "status", None)


BEFORE_ANYTHING: list[Any] = [
    Status(503, times=1),
    RateLimit(times=1),
    Refuse(times=1),
    Refuse(reset=True, times=1),
    Empty(times=1),
    Html(times=1),
    Html(status=502, times=1),
    Garbage(times=1),
    Garbage(http=False, times=1),
    Cut(after_events=0, times=1),
    Cut(after_events=1, times=1),
    Cut(after_events=1, reset=True, times=1),
    Cut(after_events=1, neat=True, times=1),
    ErrorEvent(after_events=0, times=1),
    ErrorEvent(after_events=1, times=1),
    Corrupt(at_event=0, times=1),
]


@pytest.mark.parametrize("fault", BEFORE_ANYTHING, ids=str)
@pytest.mark.parametrize("api", ["anthropic-messages", "openai-completions"])
async def test_a_failure_before_the_first_word_is_tried_again_unseen(server: Server, api: str, fault: Any) -> None:
    """The caller sees one stream, of the attempt that worked."""
    server.say("Second time lucky", fault=fault)
    provider = "anthropic" if api == API else "groq"
    stream = Client().stream(f"{provider}/m", "Hi", **options(server, api, retry=QUICK))
    events = await events_of(stream)
    assert [] == faults(events)
    assert "Second time lucky" == (await stream.result()).text
    assert 2 == len(server.requests)
    assert stream.failure is None


@pytest.mark.parametrize(
    "fault", [Cut(after_events=4), Cut(after_events=4, reset=True), ErrorEvent(after_events=4)], ids=str
)
async def test_case_95_after_the_first_word_nothing_is_tried_again(server: Server, fault: Any) -> None:
    """One start, one error that keeps what came; not a second beginning, nor another model's."""
    server.say("Once upon a time", fault=[Stall(after_events=4, seconds=0.2), fault])
    stream = ask(server, retry=QUICK, fallbacks=["debug/parrot-1"])
    events = await events_of(stream)
    assert [] == faults(events)
    assert isinstance(events[-1], Error)
    assert "Once" == events[-1].error.text[:4]
    assert 1 == len(server.requests)


async def test_case_101_a_failure_before_the_first_event_is_never_an_empty_success(server: Server) -> None:
    """200 and nothing: an error reaches the caller."""
    server.answer("never", fault=Empty())
    stream = ask(server)
    assert "error" == (await stream.result()).stop_reason
    assert stream.failure is not None


async def test_attempts_and_callback_are_told(server: Server) -> None:
    """`on_retry` hears of each failure and the wait before the next attempt."""
    server.answer("never", fault=Status(503, times=9))
    received: list[tuple[str, bool]] = []
    stream = ask(
        server, retry=QUICK, on_retry=lambda failure, wait: received.append((type(failure).__name__, wait < 1))
    )
    await stream.result()
    assert [("Overloaded", True)] * 2 == received
    assert 3 == len(server.requests)


async def test_retry_may_be_a_number(server: Server) -> None:
    """So many tries after the first; 0 is none."""
    for number in (0, 1):
        server.clear()
        server.answer("never", fault=RateLimit(ms=1, times=9))
        await ask(server, retry=number).result()
        assert number + 1 == len(server.requests)


async def test_a_callback_that_fails_ends_the_call(server: Server) -> None:
    """In the stream, like every failure."""
    server.answer("never", fault=Status(503, times=9))

    def fail(*_: Any) -> None:
        raise LookupError("my own mistake")

    stream = ask(server, retry=QUICK, on_retry=fail)
    assert [] == faults(await events_of(stream))
    assert "my own mistake" in str(stream.failure)
    assert stream.message is getattr(stream.failure, "partial", None)


# --- how long ---------------------------------------------------------------------------------------------------------


def test_waits_grow_up_to_the_cap_and_differ() -> None:
    """Doubled each time, with jitter, so that many callers do not come back at once."""
    retry = Retry(base=1, cap=5)
    failure = il.Overloaded("busy")
    for attempt, most in ((1, 1), (2, 2), (3, 4), (4, 5), (9, 5)):
        waits = [retry.wait(failure, attempt) for _ in range(50)]
        assert all(0.5 <= wait <= most for wait in waits)
        assert len(set(waits)) > 10


def test_what_the_provider_asks_for_counts() -> None:
    """Never less than asked, hardly more."""
    waits = [Retry().wait(il.RateLimited("later", retry_after=7.0), attempt) for attempt in range(1, 9)]
    assert all(7 <= wait <= 7.25 for wait in waits)


def test_too_long_a_wait_is_not_waited() -> None:
    """Beyond `longest` the failure is reported at once."""
    assert Retry(longest=60).again(il.RateLimited("later", retry_after=60))
    assert not Retry(longest=60).again(il.RateLimited("later", retry_after=61))


@pytest.mark.parametrize(
    ("limit", "least", "most"),
    [
        (RateLimit(2), 2, 2.5),
        (RateLimit("0.5"), 0.5, 1),
        (RateLimit(ms=1500), 1.5, 2),
        (RateLimit(30, ms=250), 0.25, 0.5),
        (RateLimit(datetime.now(UTC) + timedelta(seconds=36_000)), 60, 36_000),
    ],
    ids=["seconds", "fraction", "ms", "ms before seconds", "date"],
)
async def test_case_94_retry_after_is_read_and_exposed(
    server: Server, limit: RateLimit, least: float, most: float
) -> None:
    """Seconds, a date, milliseconds: on the error of a streamed call."""
    server.answer("never", fault=limit)
    stream = ask(server)
    await stream.result()
    assert isinstance(stream.failure, il.RateLimited)
    assert stream.failure.retry_after is not None
    assert least <= stream.failure.retry_after <= most


@pytest.mark.parametrize("limit", [RateLimit(0.2), RateLimit(ms=200)], ids=["seconds", "ms"])
async def test_case_94_retry_after_is_honoured(server: Server, limit: RateLimit) -> None:
    """The second request comes no sooner than asked."""
    server.say("Welcome back", fault=limit)
    assert "Welcome back" == (await ask(server, retry=2).result()).text
    first, second = (received.time for received in server.requests)
    assert second - first >= 0.19


async def test_case_94_a_wait_beyond_the_cap_is_reported_at_once(server: Server) -> None:
    """An hour is not waited: the error tells it."""
    server.answer("never", fault=RateLimit(3600, times=9))
    stream = ask(server, retry=3)
    await stream.result()
    assert 1 == len(server.requests)
    assert isinstance(stream.failure, il.RateLimited)
    assert 3600 == stream.failure.retry_after


NONSENSE = ["soon", "", "1e999", "inf", "-inf", "nan", "Wed, 99 Foo 2020", "9" * 400, "1 2", "٣", "Infinity", "0x10"]


@pytest.mark.parametrize("nonsense", NONSENSE)
async def test_case_94_a_retry_after_that_makes_no_sense_is_none(server: Server, nonsense: str) -> None:
    """The usual wait, then; and no harm done."""
    assert retry_after({"Retry-After": nonsense}) is None
    assert retry_after({"retry-after-ms": nonsense}) is None
    assert 7 == retry_after({"retry-after-ms": nonsense, "retry-after": "7"})
    if nonsense.isascii():
        server.say("Welcome back", fault=RateLimit(nonsense))
        assert "Welcome back" == (await ask(server, retry=QUICK).result()).text


HALF_A_MINUTE = timedelta(seconds=30)


def _later(wait: timedelta) -> datetime:
    return datetime.now(UTC) + wait


@pytest.mark.parametrize(
    ("headers", "least", "most"),
    [
        ({"x-ratelimit-reset-requests": "1s"}, 1, 1),
        ({"X-RateLimit-Reset-Tokens": "6m0s"}, 360, 360),
        ({"x-ratelimit-reset-tokens": "1h2m3.5s"}, 3723.5, 3723.5),
        ({"x-ratelimit-reset-tokens": "20ms"}, 0.02, 0.02),
        ({"x-ratelimit-reset-tokens": "7.66"}, 7.66, 7.66),
        ({"x-ratelimit-reset-tokens": "-3s"}, 0, 0),
        ({"x-ratelimit-reset": str(int(_later(HALF_A_MINUTE).timestamp() * 1000))}, 0, 31),
        ({"x-ratelimit-reset": str(int(_later(HALF_A_MINUTE).timestamp()))}, 0, 31),
        ({"x-ratelimit-reset": "1000000000"}, 0, 0),
        ({"anthropic-ratelimit-tokens-reset": _later(HALF_A_MINUTE).strftime("%Y-%m-%dT%H:%M:%SZ")}, 0, 31),
        ({"anthropic-ratelimit-requests-reset": "1970-01-01T00:00:00Z"}, 0, 0),
        ({"retry-after": "2", "x-ratelimit-reset-requests": "9s"}, 2, 2),
        ({"retry-after-ms": "250", "x-ratelimit-reset-requests": "9s"}, 0.25, 0.25),
        ({"retry-after": "soon", "x-ratelimit-reset-requests": "9s"}, 9, 9),
        ({"x-ratelimit-reset-requests": "soon", "x-ratelimit-reset-tokens": "9s"}, 9, 9),
        ({"x-ratelimit-reset-requests": "3s", "x-ratelimit-reset-tokens": "9s"}, 3, 3),
        (
            {
                "x-ratelimit-reset-requests": "3s",
                "x-ratelimit-remaining-requests": "7",
                "x-ratelimit-reset-tokens": "9s",
                "x-ratelimit-remaining-tokens": "0",
            },
            9,
            9,
        ),
    ],
)
@pytest.mark.parametrize("api", ["anthropic-messages", "openai-completions", "ollama-chat"])
def test_when_a_limit_counts_anew_is_read_where_no_wait_is_told(
    api: str, headers: dict[str, str], least: float, most: float
) -> None:
    """In the spelling of each provider; a limit that is used up counts before others, and `retry-after` before all."""
    wait = il.dialect(api).decode_error(429, b"{}", headers).retry_after
    assert wait is not None
    assert least <= wait <= most


@pytest.mark.parametrize("status", [400, 401, 500, 503])
def test_when_a_limit_counts_anew_is_no_wait_for_other_failures(status: int) -> None:
    """These headers come with every answer: a broken server is tried again as usual."""
    headers = {"x-ratelimit-reset-requests": "6m0s", "anthropic-ratelimit-tokens-reset": "2999-01-01T00:00:00Z"}
    assert il.dialect("openai-completions").decode_error(status, b"{}", headers).retry_after is None


@given(
    name=st.sampled_from(
        [
            "retry-after",
            "retry-after-ms",
            "x-ratelimit-reset",
            "x-ratelimit-reset-tokens",
            "anthropic-ratelimit-input-tokens-reset",
        ]
    ),
    value=st.one_of(
        st.text(max_size=30),
        st.from_regex(r"-?[0-9]{1,400}(ms|s|m|h|d)?([0-9]+(ms|s))?", fullmatch=True),
        st.datetimes().map(datetime.isoformat),
        st.sampled_from(NONSENSE),
    ),
)
def test_no_header_makes_a_wait_that_is_negative_or_endless(name: str, value: str) -> None:
    """Whatever it says: a finite number of seconds, or the usual wait."""
    failure = il.dialect("openai-completions").decode_error(429, b"{}", {name: value})
    assert failure.retry_after is None or 0 <= failure.retry_after < math.inf
    assert 0 <= Retry().wait(failure, 1) < math.inf


@pytest.mark.parametrize(
    "past", ["-5", "-0.5", "0", "Thu, 01 Jan 1970 00:00:00 GMT", "Thu, 01 Jan 1970 00:00:00 -0000"]
)
def test_a_wait_that_is_negative_or_past_is_none_at_all(past: str) -> None:
    """Zero seconds: the next attempt may follow at once."""
    assert 0 == retry_after({"retry-after": past})
    if past[-1].isdigit() and "," not in past:
        assert 0 == retry_after({"retry-after-ms": past})


@given(st.text(st.characters(codec="ascii")) | st.floats().map(str) | st.integers().map(str))
def test_no_header_makes_a_wait_that_cannot_be_waited(value: str) -> None:
    """Whatever it says: a finite number of seconds, not below zero, or none."""
    for name in ("retry-after", "Retry-After-Ms"):
        delay = retry_after({name: value})
        assert delay is None or (math.isfinite(delay) and delay >= 0)


@given(st.floats() | st.integers() | st.text() | st.booleans() | st.none())
def test_no_error_asks_for_a_wait_that_cannot_be_waited(value: Any) -> None:
    """Whoever made it, and also when it was changed afterwards: the back-off is a time that passes."""
    made = il.RateLimited("later", retry_after=value)
    assert made.retry_after is None or (math.isfinite(made.retry_after) and made.retry_after >= 0)
    made.retry_after = value
    waits = [Retry().wait(made, attempt) for attempt in (1, 2)]
    assert all(math.isfinite(wait) and wait >= 0 for wait in waits)
    breaker = Breaker(clock=lambda: 0.0)
    breaker.failed(CallTarget("p", "m"), made)
    breaker.failed(CallTarget("p", "m"), il.Overloaded("busy", retry_after=value))
    breaker.check(CallTarget("p", "m"))


@pytest.mark.parametrize(
    ("delay", "expected"),
    [("37.5s", 37.5), ("-5s", 0), ("infs", None), ("soon", None), (f"{'9' * 400}s", None), (5, None)],
)
def test_googles_retry_delay_is_read_like_a_header(delay: Any, expected: float | None) -> None:
    """Negative is none at all, nonsense is not there."""
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": delay}
    body = {"error": {"code": 429, "message": "later", "status": "RESOURCE_EXHAUSTED", "details": [info]}}
    assert expected == il.dialect("google-generative-ai").decode_error(429, body).retry_after


@pytest.mark.parametrize("code", ["insufficient_quota", "billing_hard_limit_reached", "credit_balance_too_low"])
async def test_a_spent_quota_is_not_tried_again(server: Server, code: str) -> None:
    """A rate limit that no waiting lifts."""
    server.answer(il.RateLimited("you are out of credit", status=429, code=code))
    stream = Client().stream("groq/m", "Hi", **options(server, "openai-completions", retry=QUICK))
    await stream.result()
    assert isinstance(stream.failure, il.RateLimited)
    assert 1 == len(server.requests)


# --- elsewhere --------------------------------------------------------------------------------------------------------


def _two(server: Server, first: str = API, second: str = "openai-completions") -> tuple[il.ModelDescriptor, ...]:
    return tuple(
        il.ModelDescriptor(id=f"model-{number}", api=api, provider=f"host-{number}", base_url=server.base_url(api))
        for number, api in enumerate((first, second), 1)
    )


HISTORY = il.Context(
    messages=(
        il.UserMessage(content="Look it up"),
        il.AssistantMessage(
            content=(
                il.ThinkingBlock(thinking="I should look.", thinking_signature="sig-of-the-first"),
                il.ToolCall(id="toolu_with|odd chars*and-a-tail-" + "x" * 60, name="look", arguments={"at": "it"}),
            ),
            api=API,
            provider="host-1",
            model="model-1",
            stop_reason="toolUse",
        ),
        il.ToolResultMessage(
            tool_call_id="toolu_with|odd chars*and-a-tail-" + "x" * 60, tool_name="look", content="seen", is_error=False
        ),
    ),
    tools=(il.ToolSpec(name="look", description="Looks.", input_schema={"type": "object", "properties": {}}),),
)


async def test_a_fallback_gets_the_conversation_in_its_own_terms(server: Server) -> None:
    """The thinking of the first model is not sent to the second, ids are ones it takes, and results still pair."""
    first, second = _two(server)
    server.answer(il.Overloaded("busy", status=529), times=1)
    server.say("From the second")
    calls: list[str] = []
    stream = Client().stream(
        first, HISTORY, fallbacks=[second], retry=0, api_key=KEY, on_retry=lambda failure, _: calls.append(str(failure))
    )
    events = await events_of(stream)
    assert [] == faults(events)
    message = await stream.result()
    assert ("From the second", "model-2", "host-2") == (message.text, message.model, message.provider)
    assert [API, "openai-completions"] == [received.api for received in server.requests]
    assert ["busy"] == calls
    first_body, second_body = (received.body.decode() for received in server.requests)
    assert "sig-of-the-first" in first_body
    assert "sig-of-the-first" not in second_body
    assert "I should look" not in second_body
    asked = server.last.request
    assert asked is not None
    (call,) = asked.context.messages[1].tool_calls  # type: ignore[union-attr]
    assert call.id == asked.context.messages[2].tool_call_id  # type: ignore[union-attr]
    assert len(call.id) <= 40
    assert isinstance(events[0], Start)
    assert "model-2" == (events[0].partial.model if events[0].partial else None)


async def test_fallbacks_are_asked_in_turn(server: Server) -> None:
    """Until one answers; each is tried as often as the first."""
    first, second = _two(server)
    server.answer(il.Overloaded("busy", status=529))
    stream = Client(retry=QUICK).stream(first, "Hi", fallbacks=[second, "debug/parrot-1"], api_key=KEY)
    assert "Hi" == (await stream.result()).text
    assert [API] * 3 + ["openai-completions"] * 3 == [received.api for received in server.requests]
    assert stream.failure is None


async def test_when_all_fail_the_last_failure_is_told(server: Server) -> None:
    """One error."""
    first, second = _two(server)
    server.answer(il.Overloaded("first", status=529), times=1)
    server.answer(il.AuthFailed("second", status=401))
    stream = Client().stream(first, "Hi", fallbacks=[second], retry=0, api_key=KEY)
    events = await events_of(stream)
    assert [Start, Error] == [type(event) for event in events]
    assert isinstance(stream.failure, il.AuthFailed)


async def test_a_bad_request_is_not_sent_elsewhere(server: Server) -> None:
    """It would be as bad there."""
    server.answer(il.BadRequest("no", status=400))
    stream = Client().stream(_two(server)[0], "Hi", fallbacks=["debug/parrot-1"], api_key=KEY)
    await stream.result()
    assert isinstance(stream.failure, il.BadRequest)


async def test_a_missing_key_leads_to_the_fallback() -> None:
    """The first model cannot even be asked."""
    stream = Client().stream("anthropic/m", "Hi", fallbacks=["debug/parrot-1"], env={})
    assert "Hi" == (await stream.result()).text


# --- the breaker ------------------------------------------------------------------------------------------------------


class Clock:
    """Time as the test tells it."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


BUSY = il.Overloaded("busy", status=529)


def _broken(times: int = 3, **how: Any) -> tuple[Breaker, Clock]:
    clock = Clock()
    breaker = Breaker(failures=3, cooldown=10, clock=clock, **how)
    for _ in range(times):
        breaker.failed(CallTarget("p", "m"), BUSY)
    return breaker, clock


def test_the_breaker_opens_after_so_many_failures_in_a_row() -> None:
    """For this provider and model alone; the error tells how long."""
    breaker, clock = _broken()
    clock.now = 4
    with pytest.raises(il.Overloaded) as open_:
        breaker.check(CallTarget("p", "m"))
    assert ("circuit_open", 6.0) == (open_.value.code, open_.value.retry_after)
    breaker.check(CallTarget("p", "other"))
    breaker.check(CallTarget("other", "m"))
    breaker.check(CallTarget("p", "m", "http://elsewhere"))


def test_the_breaker_lets_one_probe_through() -> None:
    """After the cooldown: one call, the others wait for it. It fails: open again. It succeeds: closed."""
    breaker, clock = _broken()
    clock.now = 10
    breaker.check(CallTarget("p", "m"))
    with pytest.raises(il.Overloaded):
        breaker.check(CallTarget("p", "m"))
    breaker.failed(CallTarget("p", "m"), BUSY)
    clock.now = 19
    with pytest.raises(il.Overloaded):
        breaker.check(CallTarget("p", "m"))
    clock.now = 20
    breaker.check(CallTarget("p", "m"))
    breaker.succeeded(CallTarget("p", "m"))
    breaker.check(CallTarget("p", "m"))
    breaker.check(CallTarget("p", "m"))


def test_a_success_in_between_starts_the_count_anew() -> None:
    """In a row means in a row."""
    breaker, _ = _broken(2)
    breaker.succeeded(CallTarget("p", "m"))
    breaker.failed(CallTarget("p", "m"), BUSY)
    breaker.failed(CallTarget("p", "m"), BUSY)
    breaker.check(CallTarget("p", "m"))


@pytest.mark.parametrize(
    "failure",
    [
        il.BadRequest("what?", status=400),
        il.AuthFailed("who?", status=401),
        il.RateLimited("later", status=429),
        il.ContextTooLong("long", status=400),
        il.ContentFiltered("no", status=400),
        Aborted("enough"),
        il.InterlinguaError("mine"),
    ],
    ids=lambda failure: type(failure).__name__,
)
def test_failures_of_ours_do_not_trip_the_breaker(failure: il.InterlinguaError) -> None:
    """Nor does a rate limit, which has its own wait."""
    breaker = Breaker(failures=3)
    for _ in range(10):
        breaker.failed(CallTarget("p", "m"), failure)
    breaker.check(CallTarget("p", "m"))


def test_an_answer_that_is_a_refusal_closes_the_breaker() -> None:
    """The probe got a 400: the target is there again."""
    breaker, clock = _broken()
    clock.now = 10
    breaker.check(CallTarget("p", "m"))
    breaker.failed(CallTarget("p", "m"), il.BadRequest("what?", status=400))
    breaker.check(CallTarget("p", "m"))


def test_case_119_the_breaker_remembers_a_bounded_number_of_targets() -> None:
    """The oldest are forgotten."""
    breaker = Breaker(failures=1, max_entries=100)
    for number in range(1000):
        breaker.failed(CallTarget("p", f"m{number}"), BUSY)
        breaker.failed(CallTarget("p", f"m{number}", "", "somebody"), il.RateLimited("later", retry_after=9))
        breaker.failed(CallTarget("p", f"m{number}"), BUSY)
    assert (100, 100, 100) == (len(breaker._counts), len(breaker._until), len(breaker._waits))
    breaker.check(CallTarget("p", "m0"))
    with pytest.raises(il.Overloaded):
        breaker.check(CallTarget("p", "m999"))


async def test_a_call_counts_once_however_often_it_was_tried(server: Server) -> None:
    """Two calls of three attempts leave a breaker of three closed; the third opens it, and nothing is sent then."""
    clock = Clock()
    client = Client(retry=QUICK, breaker=Breaker(failures=3, cooldown=10, clock=clock))
    server.answer(BUSY)
    for expected in (3, 6, 9, 9):
        stream = ask(server, client=client, retry=None)
        await stream.result()
        assert expected == len(server.requests)
    assert "circuit_open" == getattr(stream.failure, "code", None)
    clock.now = 10
    server.clear()
    server.say("Back again")
    assert "Back again" == (await ask(server, client=client).result()).text
    assert "Back again" == (await ask(server, client=client).result()).text


async def test_an_open_breaker_leads_to_the_fallback(server: Server) -> None:
    """At once, without a request."""
    client = Client(breaker=Breaker(failures=1))
    server.answer(BUSY)
    await ask(server, client=client).result()
    stream = ask(server, client=client, fallbacks=["debug/parrot-1"], retry=5)
    assert "Hi" == (await stream.result()).text
    assert 1 == len(server.requests)


async def test_failures_after_the_first_word_count(server: Server) -> None:
    """A target that always breaks off in the middle is failing, too."""
    client = Client(breaker=Breaker(failures=2))
    server.say("Once upon a time", fault=Cut(after_events=4))
    for _ in range(3):
        stream = ask(server, client=client)
        await stream.result()
    assert 2 == len(server.requests)
    assert "circuit_open" == getattr(stream.failure, "code", None)


async def test_a_dead_server_does_not_block_a_healthy_one(server: Server) -> None:
    """The same provider and model at another address is another target."""
    client = Client(breaker=Breaker(failures=1))
    with Server() as dead:
        dead.answer(BUSY)
        await ask(dead, client=client).result()
        stream = ask(dead, client=client)
        await stream.result()
        assert "circuit_open" == getattr(stream.failure, "code", None)
    server.say("Here I am")
    assert "Here I am" == (await ask(server, client=client).result()).text


# --- waits ------------------------------------------------------------------------------------------------------------


def _waiting(**how: Any) -> tuple[Client, Clock]:
    clock = Clock()
    return Client(breaker=Breaker(clock=clock, **how)), clock


async def _answered(server: Server, client: Client, **more: Any) -> str | None:
    stream = ask(server, client=client, fallbacks=["debug/parrot-1"], **{"retry": Retry(attempts=9), **more})
    return (await stream.result()).provider


@pytest.mark.parametrize("limit", [il.RateLimited, il.Overloaded], ids=lambda kind: kind.__name__)
async def test_a_limited_model_is_left_alone_while_another_can_answer(server: Server, limit: Any) -> None:
    """The fallback is asked at once, and the limited one again when its wait is over, not before."""
    client, clock = _waiting()
    server.answer(limit("later", status=429 if limit is il.RateLimited else 503, retry_after=50), times=1)
    server.say("Welcome back")
    assert ["debug"] * 3 == [await _answered(server, client) for _ in range(3)]
    assert 1 == len(server.requests)
    clock.now = 49
    assert "debug" == await _answered(server, client)
    clock.now = 51
    assert ["anthropic"] * 2 == [await _answered(server, client) for _ in range(2)]
    assert 3 == len(server.requests)


async def test_a_limit_without_a_time_is_left_alone_for_longer_each_time(server: Server) -> None:
    """Half a second, a second, two: the usual back-off."""
    client, clock = _waiting()
    server.answer(il.RateLimited("later", status=429))
    asked = []
    for quarter in range(20):
        clock.now = quarter / 4
        await _answered(server, client)
        asked.append(len(server.requests))
    assert [1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4] == asked


async def test_a_limit_is_that_of_an_account(server: Server) -> None:
    """Another key at the same address has its own."""
    client, _ = _waiting()
    server.answer(il.RateLimited("later", status=429, retry_after=50), times=1)
    server.say("Welcome")
    assert "debug" == await _answered(server, client)
    assert "anthropic" == await _answered(server, client, api_key="another-key")
    assert "debug" == await _answered(server, client)


async def test_a_limit_does_not_keep_a_call_from_the_only_model_it_has(server: Server) -> None:
    """Nor the last one of a chain: there is nobody else to ask."""
    client, _ = _waiting()
    server.answer(il.RateLimited("later", status=429, retry_after=50), times=1)
    server.say("Welcome back")
    assert "debug" == await _answered(server, client)
    assert "Welcome back" == (await ask(server, client=client).result()).text


async def test_when_a_limit_leads_to_the_fallback_the_caller_is_told(server: Server) -> None:
    """Each time, with the wait that is left, and that nothing is waited for."""
    client, _ = _waiting()
    server.answer(il.RateLimited("later", status=429, retry_after=50))
    calls: list[tuple[Any, float]] = []
    for _ in range(2):
        await _answered(server, client, on_retry=lambda failure, wait: calls.append((failure.retry_after, wait)))
    assert [(50, 0.0), (50, 0.0)] == calls


# --- windows ----------------------------------------------------------------------------------------------------------


def _windows(server: Server, *windows: int | None) -> list[il.ModelDescriptor]:
    return [
        il.ModelDescriptor(
            id=f"m{at}", api=API, provider=f"h{at}", base_url=server.base_url(API), context_window=window
        )
        for at, window in enumerate(windows)
    ]


@pytest.mark.parametrize(
    ("windows", "asked"),
    [
        ((100, 50, 100, 200, 150), ["m0", "m3"]),
        ((100, None, 50), ["m0", "m1"]),
        ((None, 50, 40, 60), ["m0", "m1", "m3"]),
        ((100, 100), ["m0"]),
    ],
)
async def test_what_does_not_fit_goes_to_the_next_larger_window(
    server: Server, windows: tuple[int | None, ...], asked: list[str]
) -> None:
    """Models whose window is known to be no larger are passed over; one that is not known may be large enough."""
    for _ in asked[:-1]:
        server.answer(il.ContextTooLong("prompt is too long", status=400), times=1)
    server.say("It fits") if len(asked) > 1 else server.answer(il.ContextTooLong("prompt is too long", status=400))
    first, *others = _windows(server, *windows)
    stream = Client().stream(first, "Hi", fallbacks=others, retry=0)
    await stream.result()
    assert asked == [received.json["model"] for received in server.requests]
    assert (len(asked) == 1) == isinstance(stream.failure, il.ContextTooLong)


# --- nothing shown yet ------------------------------------------------------------------------------------------------

REPLIES = {
    "text": (il.TextBlock(text="Once upon a time"),),
    "thinking": (il.ThinkingBlock(thinking="Hm, let me see."), il.TextBlock(text="Once")),
    "call": (il.ToolCall(id="call_1", name="look", arguments={"at": "it"}),),
}


@pytest.mark.parametrize("kind", REPLIES)
async def test_the_beginning_of_a_block_is_not_yet_an_answer(server: Server, kind: str) -> None:
    """A `content_block_start` without content, then a failure: tried again, as if nothing had come."""
    server.answer(REPLIES[kind], fault=Cut(after_events=2, times=1))
    events = await events_of(ask(server, retry=QUICK))
    assert [] == faults(events)
    assert (2, "done") == (len(server.requests), events[-1].type)


@pytest.mark.parametrize("kind", REPLIES)
async def test_a_fallback_may_answer_after_the_beginning_of_a_block(server: Server, kind: str) -> None:
    """Its stream is the only one that is seen."""
    server.answer(REPLIES[kind], fault=Cut(after_events=2))
    stream = ask(server, fallbacks=["debug/parrot-1"])
    events = await events_of(stream)
    assert [] == faults(events)
    assert "Hi" == (await stream.result()).text


@pytest.mark.parametrize("how", ["leave", "abort"])
async def test_leaving_an_answer_that_has_shown_nothing_leaves_a_well_formed_stream(server: Server, how: str) -> None:
    """What was kept back until then is told with the end."""
    server.answer(REPLIES["text"], fault=Stall(after_events=2))
    signal = il.Abort()
    stream = ask(server, signal=signal)
    reading = asyncio.ensure_future(events_of(stream))
    await until(lambda: len(stream.source._kept_back) == 1)  # type: ignore[attr-defined]
    stream.leave() if how == "leave" else signal.abort()
    events = await reading
    assert [] == faults(events)
    assert [Start, TextStart, TextEnd, Error] == [type(event) for event in events]
    assert "aborted" == getattr(stream.message, "stop_reason", None)


@settings(max_examples=60)
@given(
    api=st.sampled_from(["anthropic-messages", "openai-completions", "openai-responses", "google-generative-ai"]),
    blocks=st.lists(st.sampled_from([block for reply in REPLIES.values() for block in reply]), min_size=1, max_size=3),
    after=st.integers(0, 12),
    fault=st.sampled_from([Cut, ErrorEvent]),
)
async def test_either_something_was_shown_or_it_was_tried_again(
    api: str, blocks: list[Any], after: int, fault: Any, property_server: Server
) -> None:
    """Wherever an answer breaks: an error that reaches the caller keeps content, else the next attempt has answered."""
    server = property_server
    server.clear()
    server.answer(tuple(blocks), fault=[Pace(0.001), fault(after_events=after, times=1)])
    stream = Client(retry=QUICK).stream(f"{WIRES[api]}/m", "Hi", api_key=KEY, base_url=server.base_url(api), timeout=5)
    events = await events_of(stream)
    assert [] == faults(events)
    if stream.failure is not None:
        shown = [event for event in events if getattr(event, "delta", "") or event.type == "toolcall_end"]
        assert (1, True) == (len(server.requests), bool(shown))


# --- the start --------------------------------------------------------------------------------------------------------

# Wires whose first event has content already: nothing can be tried again after it.
AT_ONCE = {"google-generative-ai", "google-vertex", "google-gemini-cli", "ollama-chat"}
every_wire = pytest.mark.parametrize("api", sorted(ALL_WIRES))


def model_of(server: Server, api: str, id: str = "m") -> il.ModelDescriptor:
    return il.ModelDescriptor(id=id, api=api, provider="somewhere", base_url=server.base_url(api))


@every_wire
@pytest.mark.parametrize("how", ["leave", "abort"])
async def test_the_start_is_delivered_when_the_first_event_arrives(server: Server, api: str, how: str) -> None:
    """It does not wait for content; and whoever leaves then gets a well-formed stream."""
    server.answer(REPLIES["text"], fault=Stall(after_events=1))
    signal = il.Abort()
    stream = Client().stream(model_of(server, api), "Hi", api_key=KEY, signal=signal)
    events: list[Any] = []
    async with asyncio.timeout(60):
        async for event in stream:
            events.append(event)
            if isinstance(event, Start):
                stream.leave() if how == "leave" else signal.abort()
    assert [] == faults(events)
    assert ("somewhere", "m") == (events[0].partial.provider, events[0].partial.model)
    assert ("aborted", 1) == (events[-1].reason, len(server.requests))
    assert isinstance(stream.failure, Aborted)


@every_wire
async def test_a_retry_after_the_start_is_not_seen(server: Server, api: str) -> None:
    """The next attempt goes on after the start that was delivered; the message is that of the response that came."""
    server.answer(REPLIES["text"], fault=Cut(after_events=1, times=1))
    events: list[Any] = []
    before: list[Any] = []
    stream = Client().stream(
        model_of(server, api), "Hi", api_key=KEY, retry=QUICK, on_retry=lambda *_: before.extend(map(type, events))
    )
    async for event in stream:
        events.append(event)  # noqa: PERF401 - one by one: `on_retry` looks at them
    assert [] == faults(events)
    if api in AT_ONCE:
        assert (1, [], "error") == (len(server.requests), before, events[-1].type)
    else:
        assert (2, [Start], "done") == (len(server.requests), before, events[-1].type)
        assert "Once upon a time" == events[-1].message.text
        assert events[-1].message.response_id == events[-2].partial.response_id


@every_wire
async def test_an_error_after_the_start_ends_the_stream_once(server: Server, api: str) -> None:
    """However many attempts there were: one start, one error, and the failure of the last attempt."""
    server.answer(REPLIES["text"], fault=Cut(after_events=1), times=1)
    server.answer(REPLIES["text"], fault=Refuse())
    stream = Client().stream(model_of(server, api), "Hi", api_key=KEY, retry=QUICK)
    events = await events_of(stream)
    assert [] == faults(events)
    assert isinstance(stream.failure, il.TransportError)
    if api not in AT_ONCE:
        assert ([Start, Error], 3) == ([type(event) for event in events], len(server.requests))


@every_wire
async def test_the_start_names_the_model_that_responds(server: Server, api: str) -> None:
    """While another model may still take over, the start is kept back; that of the last one is not."""
    server.answer(REPLIES["text"], fault=Cut(after_events=1, times=3))
    first, second = model_of(server, api, "first"), model_of(server, api, "second")
    events: list[Any] = []
    before: list[list[Any]] = []
    stream = Client().stream(
        first,
        "Hi",
        api_key=KEY,
        fallbacks=[{"model": second, "api_key": KEY}],
        retry=Retry(attempts=2, base=0.001, cap=0.002),
        on_retry=lambda *_: before.append([*map(type, events)]),
    )
    async for event in stream:
        events.append(event)  # noqa: PERF401 - one by one: `on_retry` looks at them
    assert [] == faults(events)
    last = events[-1].message if api not in AT_ONCE else events[-1].error
    assert (events[0].partial.model, events[0].partial.provider) == (last.model, last.provider)
    if api not in AT_ONCE:
        assert ([[], [], [Start]], "second") == (before, last.model)


async def test_aborting_between_attempts_after_the_start_ends_the_stream_once(server: Server) -> None:
    """The wait before the next attempt, or the next attempt before it has started: no second start."""
    for fault in (RateLimit(ms=60_000), Stall(after_events=0)):
        server.clear()
        server.answer(REPLIES["text"], fault=Cut(after_events=1), times=1)
        server.answer(REPLIES["text"], fault=fault)
        stream = ask(server, retry=Retry(attempts=3, base=0.001, cap=0.002, longest=100))
        reading = asyncio.ensure_future(events_of(stream))
        await until(lambda: len(server.requests) == 2)
        stream.leave()
        events = await reading
        assert [] == faults(events)
        assert ([Start, Error], "aborted") == ([type(event) for event in events], stream.message.stop_reason)  # type: ignore[union-attr]


# --- overflow ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def wordings() -> Any:
    kept = list(OVERFLOW)
    yield
    OVERFLOW[:] = kept


async def test_case_96_users_may_teach_another_wording(server: Server, wordings: None) -> None:
    """A server's own words become the typed error."""
    server.answer(il.BadRequest("der Text passt nicht hinein", status=400))
    stream = ask(server)
    await stream.result()
    assert isinstance(stream.failure, il.BadRequest)
    overflow_wording(r"passt nicht (hinein|rein)")
    stream = ask(server)
    message = await stream.result()
    assert isinstance(stream.failure, il.ContextTooLong)
    assert overflowed(message)


def test_case_96_a_wording_is_kept_once_and_must_be_a_pattern(wordings: None) -> None:
    """Teaching twice changes nothing; nonsense is refused."""
    before = len(OVERFLOW)
    overflow_wording("one more")
    overflow_wording("one more")
    assert before + 1 == len(OVERFLOW)
    with pytest.raises(il.InterlinguaError, match="not a regular expression"):
        overflow_wording("(")


def test_pi_13_33_overflow_shows_in_the_error_or_in_the_usage() -> None:
    """By wording; by more input than the window holds on a plain stop; not by throttling, nor without a window."""
    failed = il.AssistantMessage(content=(), stop_reason="error", error_message="prompt is too long: 9 > 8")
    assert overflowed(failed)
    assert not overflowed(replace(failed, error_message="429 too many tokens per minute, please wait"))
    assert not overflowed(replace(failed, stop_reason="aborted"))
    silent = il.AssistantMessage(content=(), stop_reason="stop", usage=il.Usage.of(900, 10, cache_read=200))
    assert overflowed(silent, 1000)
    assert not overflowed(silent, 1100)
    assert not overflowed(silent)
    assert not overflowed(replace(silent, stop_reason="length"), 1000)


# --- whatever happens -------------------------------------------------------------------------------------------------

some = st.integers(0, 6)
struck = st.integers(1, 3)
FAULTS = st.one_of(
    st.builds(Status, st.sampled_from([400, 401, 408, 429, 500, 503, 529]), times=struck),
    st.builds(RateLimit, ms=st.integers(0, 5), times=struck),
    st.builds(Refuse, reset=st.booleans(), times=struck),
    st.builds(Empty, times=struck),
    st.builds(Html, times=struck),
    st.builds(Garbage, size=st.integers(1, 600), http=st.booleans(), times=struck),
    st.builds(Cut, after_events=some, reset=st.booleans(), neat=st.booleans(), times=struck),
    st.builds(Cut, after_bytes=st.integers(0, 900), times=struck),
    st.builds(NoTerminal, times=struck),
    st.builds(ErrorEvent, after_events=some, times=struck),
    st.builds(Split, st.integers(1, 40), times=struck),
    st.builds(Repeat, st.none() | some, times=struck),
    st.builds(Corrupt, some, st.sampled_from(["json", "utf8", "frame"]), times=struck),
)
WIRES = {
    "anthropic-messages": "anthropic",
    "openai-completions": "groq",
    "openai-responses": "openai",
    "google-generative-ai": "google",
    "ollama-chat": "ollama",
}


@settings(max_examples=60)
@given(faults_=st.lists(FAULTS, min_size=1, max_size=4), api=st.sampled_from(sorted(WIRES)), fallback=st.booleans())
async def test_whatever_goes_wrong_the_caller_sees_one_well_formed_stream(
    faults_: list[Any], api: str, fallback: bool, property_server: Server
) -> None:
    """Any sequence of faults, any wire: one start, blocks in order, one end; the result is the last event's message."""
    server = property_server
    server.clear()
    reply = (
        il.ThinkingBlock(thinking="Hm, let me see."),
        il.TextBlock(text="Once upon a time"),
        il.ToolCall(id="call_1", name="look", arguments={"at": "it"}),
    )
    server.answer(reply, fault=faults_)
    stream = Client(retry=QUICK).stream(
        f"{WIRES[api]}/m",
        replace(HISTORY, messages=HISTORY.messages[:1]),
        api_key=KEY,
        base_url=server.base_url(api),
        timeout=5,
        fallbacks=["debug/parrot-1"] if fallback else [],
    )
    events = await events_of(stream)
    assert [] == faults(events)
    last: Any = events[-1]
    assert stream.message is (last.message if isinstance(last, Done) else last.error)
    assert isinstance(last, Error) == (stream.failure is not None)
    assert 1 <= len(server.requests) <= 3


@pytest.fixture(scope="module")
def property_server() -> Any:
    with Server(chunk=4) as running:
        yield running


async def test_a_connector_of_one_s_own_is_tried_again_and_falls_back() -> None:
    """Resilience is the client's: it holds for every connector."""
    tries = []

    def flaky(*_: Any) -> Any:
        tries.append(1)
        message = il.AssistantMessage(content=())
        well = (Start(), TextStart(0), TextDelta(0, "ok"), TextEnd(0, "ok"), Done("stop", message))
        return saying(*(well if len(tries) == 3 else (Start(), ConnectionError("gone"))))()

    assert "ok" == (await own(flaky).stream("own/m", "Hi").result()).text
    assert 3 == len(tries)
    registry = ConnectorRegistry([Own(saying(il.Overloaded("busy"))), Own(flaky, id="own/two", provider="two")])
    stream = Client(connectors=registry, retry=QUICK).stream("own/m", "Hi", fallbacks=["two/m"])
    tries[:] = [1, 1]
    assert "ok" == (await stream.result()).text
