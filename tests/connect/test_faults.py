"""Whatever goes wrong on the way, on whatever wire: one well-formed stream, one typed error, nothing left behind.

`CASES` is also the table in docs/connectors.md: a test compares them.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import interlingua as il
from connect.asking import events_of
from interlingua.connect.client import Client
from interlingua.connect.retry import NEVER, Retry
from interlingua.connect.stream import Stream, Timeouts
from interlingua.connect.transport import HttpTransport
from interlingua.dialects import WIRES
from interlingua.testing import (
    Corrupt,
    Cut,
    Empty,
    ErrorEvent,
    Fault,
    Garbage,
    Html,
    NoTerminal,
    Pace,
    RateLimit,
    Refuse,
    Repeat,
    Server,
    SlowHeaders,
    Split,
    Stall,
    Status,
)
from interlingua.values.events import Done, Error
from interlingua.values.messages import text_of
from laws.grammar import faults

PAGE = Path(__file__).parents[2] / "docs/connectors.md"
TEXT = "The quick brown fox jumps over the lazy dog, and so on. " * 3
LATER = 9  # events after which every wire has said some words
ONCE_MORE = Retry(attempts=2, base=0.01)
PATIENT = Timeouts(first=30, idle=30)
NO_BEGINNING = Timeouts(first=0.2, idle=30)
NO_GOING_ON = Timeouts(first=30, idle=0.4)

NOTHING, SOME, ALL = "nothing", "what had come", "all of it"
OPENAI = ("openai-completions", "openai-responses", "azure-openai-responses", "openai-codex-responses")
GOOGLE = ("google-generative-ai", "google-vertex", "google-gemini-cli")
SSE = ("anthropic-messages", "vertex-anthropic", *OPENAI, *GOOGLE, "google-interactions", "cohere-chat")


class Case(NamedTuple):
    """A fault, and what the caller sees of it. `error` None: the answer comes all the same."""

    fault: Callable[[int | None], Fault]  # of how many requests are struck
    what: str
    error: type[il.InterlinguaError] | None
    kept: str
    again: bool
    timeouts: Timeouts = PATIENT
    # Wires on which it looks different, and the name they go by in the table.
    other: tuple[str, ...] = ()
    other_name: str = ""
    other_error: type[il.InterlinguaError] | None = None

    def expected(self, name: str, api: str) -> tuple[type[il.InterlinguaError] | None, bool]:
        """The error on this wire, and whether it is tried again."""
        return ODD.get((name, api)) or (self.other_error if api in self.other else self.error, self.again)


OVERLOADED = il.Overloaded("the server is overloaded")
CASES = {
    "Status(400)": Case(lambda n: Status(400, times=n), "the request is refused", il.BadRequest, NOTHING, False),
    "Status(401)": Case(lambda n: Status(401, times=n), "the key is wrong", il.AuthFailed, NOTHING, False),
    "Status(403)": Case(lambda n: Status(403, times=n), "the key may not do this", il.AuthFailed, NOTHING, False),
    "Status(404)": Case(lambda n: Status(404, times=n), "there is no such model", il.BadRequest, NOTHING, False),
    'Status(413, "too large")': Case(
        lambda n: Status(413, "too large", times=n), "the request is too large", il.ContextTooLong, NOTHING, False
    ),
    "Status(429)": Case(lambda n: Status(429, times=n), "too many requests", il.RateLimited, NOTHING, True),
    "RateLimit(ms=20)": Case(
        lambda n: RateLimit(ms=20, times=n), "too many requests, come back soon", il.RateLimited, NOTHING, True
    ),
    "RateLimit(3600)": Case(
        lambda n: RateLimit(3600, times=n), "too many requests, come back in an hour", il.RateLimited, NOTHING, False
    ),
    "Status(500)": Case(lambda n: Status(500, times=n), "the server fails", il.ProviderError, NOTHING, True),
    'Status(500, "oops")': Case(
        lambda n: Status(500, "oops", times=n),
        "the server fails, without the wire's form",
        il.ProviderError,
        NOTHING,
        True,
    ),
    "Status(503)": Case(lambda n: Status(503, times=n), "the server is overloaded", il.Overloaded, NOTHING, True),
    "Status(529)": Case(lambda n: Status(529, times=n), "the server is overloaded", il.Overloaded, NOTHING, True),
    "Html(status=502)": Case(
        lambda n: Html(status=502, times=n), "a proxy's page says that the server is away", il.Overloaded, NOTHING, True
    ),
    "Html()": Case(lambda n: Html(times=n), "a page for people instead of an answer", il.BadWire, NOTHING, True),
    "Refuse()": Case(lambda n: Refuse(times=n), "the connection closes at once", il.TransportError, NOTHING, True),
    "Refuse(reset=True)": Case(
        lambda n: Refuse(True, times=n), "the connection is reset at once", il.TransportError, NOTHING, True
    ),
    "Empty()": Case(lambda n: Empty(times=n), "200, and no body", il.TransportError, NOTHING, True),
    "Garbage()": Case(
        lambda n: Garbage(times=n),
        "a body that means nothing",
        il.TransportError,
        NOTHING,
        True,
        other=tuple(api for api in WIRES if api not in SSE),
        other_name="Bedrock, Ollama",
        other_error=il.BadWire,
    ),
    "Garbage(http=False)": Case(
        lambda n: Garbage(http=False, times=n), "an answer that is no HTTP", il.TransportError, NOTHING, True
    ),
    "SlowHeaders(60)": Case(
        lambda n: SlowHeaders(60, times=n), "no status line comes", il.TimedOut, NOTHING, True, NO_BEGINNING
    ),
    "Stall(after_events=0)": Case(
        lambda n: Stall(after_events=0, times=n), "no event comes", il.TimedOut, NOTHING, True, NO_BEGINNING
    ),
    "Stall(after_events=0, pings=True)": Case(
        lambda n: Stall(after_events=0, pings=True, times=n),
        "only pings come",
        il.TimedOut,
        NOTHING,
        True,
        NO_BEGINNING,
    ),
    "Stall(after_events=9)": Case(
        lambda n: Stall(after_events=LATER, times=n), "silence in the middle", il.TimedOut, SOME, False, NO_GOING_ON
    ),
    "Stall(after_events=9, pings=True)": Case(
        lambda n: Stall(after_events=LATER, pings=True, times=n),
        "only pings in the middle",
        il.TimedOut,
        SOME,
        False,
        NO_GOING_ON,
    ),
    "Cut(after_events=0)": Case(
        lambda n: Cut(after_events=0, times=n),
        "the connection closes after the headers",
        il.TransportError,
        NOTHING,
        True,
    ),
    "Cut(after_bytes=20)": Case(
        lambda n: Cut(after_bytes=20, times=n), "the connection closes inside a frame", il.TransportError, NOTHING, True
    ),
    "Cut(after_events=9)": Case(
        lambda n: Cut(after_events=LATER, times=n),
        "the connection closes in the middle",
        il.TransportError,
        SOME,
        False,
    ),
    "Cut(after_events=9, reset=True)": Case(
        lambda n: Cut(after_events=LATER, reset=True, times=n),
        "the connection is reset in the middle",
        il.TransportError,
        SOME,
        False,
    ),
    "Cut(after_events=9, neat=True)": Case(
        lambda n: Cut(after_events=LATER, neat=True, times=n),
        "the body ends in the middle as if it were whole",
        il.TransportError,
        SOME,
        False,
    ),
    "NoTerminal()": Case(
        lambda n: NoTerminal(times=n),
        "all events are sent, but not the end of the stream",
        il.TransportError,
        ALL,
        False,
    ),
    "ErrorEvent(after_events=0)": Case(
        lambda n: ErrorEvent(OVERLOADED, after_events=0, times=n),
        "an error inside the stream, first of all",
        il.Overloaded,
        NOTHING,
        True,
    ),
    "ErrorEvent(after_events=9)": Case(
        lambda n: ErrorEvent(OVERLOADED, after_events=LATER, times=n),
        "an error inside the stream, in the middle",
        il.Overloaded,
        SOME,
        False,
        other=("ollama-chat", "cohere-chat"),
        other_name="Ollama, Cohere",
        other_error=il.ProviderError,
    ),
    'Corrupt(0, "json")': Case(
        lambda n: Corrupt(0, "json", times=n), "broken JSON, first of all", il.BadWire, NOTHING, True
    ),
    'Corrupt(9, "json")': Case(
        lambda n: Corrupt(LATER, "json", times=n), "broken JSON in the middle", il.BadWire, SOME, False
    ),
    'Corrupt(0, "frame")': Case(
        lambda n: Corrupt(0, "frame", times=n), "a broken frame, first of all", il.BadWire, NOTHING, True
    ),
    'Corrupt(9, "frame")': Case(
        lambda n: Corrupt(LATER, "frame", times=n), "a broken frame in the middle", il.BadWire, SOME, False
    ),
    'Corrupt(9, "utf8")': Case(
        lambda n: Corrupt(LATER, "utf8", times=n), "a byte that is no UTF-8; it becomes U+FFFD", None, ALL, False
    ),
    "Repeat()": Case(lambda n: Repeat(times=n), "every frame comes twice", None, ALL, False),
    "Split(1)": Case(lambda n: Split(1, times=n), "byte by byte", None, ALL, False),
    "Split(100000)": Case(lambda n: Split(100_000, times=n), "all in one piece", None, ALL, False),
    "Pace(0.002)": Case(lambda n: Pace(0.002, times=n), "a pause before each event", None, ALL, False),
}
ODD: dict[tuple[str, str], tuple[type[il.InterlinguaError], bool]] = {
    # The errors of Ollama and Cohere have no kind, so nobody can know whether to try again.
    ("ErrorEvent(after_events=0)", "ollama-chat"): (il.ProviderError, False),
    ("ErrorEvent(after_events=0)", "cohere-chat"): (il.ProviderError, False),
    # Here, an event is base64 inside JSON: a byte that is no UTF-8 breaks it.
    ('Corrupt(9, "utf8")', "bedrock-invoke-anthropic"): (il.BadWire, False),
}


@pytest.fixture(scope="module")
def running() -> Iterator[Server]:
    with Server(chunk=4) as server:
        yield server


@pytest.fixture
def server(running: Server) -> Server:
    running.clear()
    return running


@pytest.fixture(scope="module")
def transport() -> HttpTransport:
    return HttpTransport()


def struck(case: Case, times: int | None) -> list[Fault]:
    """The faults to ask for. Where something is to be heard first, there is time to hear it."""
    fault = case.fault(times)
    pause = Stall(after_events=LATER - 1, seconds=0.1, times=times)
    return [pause, fault] if case.kept == SOME or isinstance(fault, Corrupt) else [fault]


def ask(server: Server, api: str, case: Case, retry: Retry, transport: HttpTransport, **options: Any) -> Stream:
    model = il.ModelDescriptor(id="m", api=api, provider="somewhere", base_url=server.base_url(api))
    client = Client(transport=transport)
    return client.stream(model, "Go", api_key="key-1", retry=retry, timeout=case.timeouts, **options)


def kept(message: il.AssistantMessage) -> str:
    received = text_of(message.content)
    if not received:
        return NOTHING
    if _runs_through(TEXT, received):
        return ALL
    return SOME if TEXT.startswith(received) else f"something else: {received!r}"


def _runs_through(text: str, received: str) -> bool:
    """Whether all the text was said, in order; some of it may have been said twice."""
    letters = iter(received)
    return all(letter in letters for letter in text)


async def settled(condition: Callable[[], bool], seconds: float = 60) -> bool:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        await asyncio.sleep(0.01)
    return condition()


@pytest.mark.parametrize("api", WIRES)
@pytest.mark.parametrize("name", CASES)
async def test_a_fault_ends_in_one_typed_error(server: Server, transport: HttpTransport, name: str, api: str) -> None:
    """Once, with what had come, which is why nobody tries again; and nothing is left behind."""
    case = CASES[name]
    error, _ = case.expected(name, api)
    server.answer(TEXT, fault=struck(case, None))
    before = asyncio.all_tasks()
    retries: list[Any] = []
    retry = NEVER if case.kept == NOTHING else ONCE_MORE
    stream = ask(server, api, case, retry, transport, on_retry=lambda *retry: retries.append(retry))
    events = await events_of(stream)
    message = await stream.result()

    assert [] == faults(events)
    assert [events[-1]] == [event for event in events if isinstance(event, Done | Error)]
    assert error is (type(stream.failure) if stream.failure else None)
    assert ("error" if error else "stop") == message.stop_reason
    if stream.failure is not None:
        assert message.error_message and stream.failure.partial == message
    assert (SOME if error and not case.error else case.kept) == kept(message)
    assert [] == retries

    assert await settled(lambda: asyncio.all_tasks() <= before)
    assert await settled(lambda: server.open_streams == 0)
    await transport.aclose()
    assert await settled(lambda: server.open_connections == 0)


@pytest.mark.parametrize("api", WIRES)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.kept == NOTHING])
async def test_a_fault_before_the_answer_is_tried_again(
    server: Server, transport: HttpTransport, name: str, api: str
) -> None:
    """If the same request may succeed later: then the caller sees nothing of the fault."""
    case = CASES[name]
    error, again = case.expected(name, api)
    server.answer(TEXT, fault=struck(case, 1))
    retries: list[type[BaseException]] = []
    stream = ask(server, api, case, ONCE_MORE, transport, on_retry=lambda why, _: retries.append(type(why)))
    events = await events_of(stream)
    assert [] == faults(events)
    assert ([error] if again else []) == retries
    if not again:
        assert error is type(stream.failure)
    elif case.timeouts is PATIENT:  # with the others, the second attempt may time out as well on a slow machine
        assert 2 == len(server.requests)
        assert (TEXT, None) == (text_of((await stream.result()).content), stream.failure)
    await transport.aclose()


async def test_nobody_at_the_address_is_an_error_that_names_it(server: Server) -> None:
    """A port on which nobody listens any more."""
    with Server() as gone:
        address = gone.url
    model = il.ModelDescriptor(id="m", api="ollama-chat", provider="x", base_url=address)
    stream = Client().stream(model, "Go", retry=0, timeout=20)
    await stream.result()
    assert type(stream.failure) is il.TransportError
    assert address in str(stream.failure)


async def test_an_error_page_is_told_in_its_words(server: Server, transport: HttpTransport) -> None:
    """On one line, without its markup."""
    page = "<html><head><style>b {color: red}</style></head>\n<body><h1>502</h1>\n<b>Bad gateway</b></body></html>"
    case = Case(lambda n: Html(page, 502, times=n), "", il.Overloaded, NOTHING, True)
    server.answer(TEXT, fault=case.fault(None))
    stream = ask(server, "openai-completions", case, NEVER, transport)
    await stream.result()
    assert "502 Bad gateway" == str(stream.failure)
    await transport.aclose()


def test_every_fault_of_the_server_is_here() -> None:
    """A new fault is under test by being in the table."""
    import interlingua.testing as testing

    used = {type(case.fault(1)) for case in CASES.values()}
    known = {getattr(testing, name) for name in testing.__all__}
    assert used == {kind for kind in known if isinstance(kind, type) and callable(getattr(kind, "apply", None))} - {
        Fault
    }


def table() -> str:
    """The cases for readers."""
    lines = ["| Fault | On the wire | Error | Kept | Tried again |", "| --- | --- | --- | --- | --- |"]
    for name, case in CASES.items():
        error = _given(case.error)
        if case.other:
            error += f" ({case.other_name}: {_given(case.other_error)})"
        lines.append(f"| `{name}` | {case.what} | {error} | {case.kept} | {'yes' if case.again else 'no'} |")
    return "\n".join(lines)


def _given(error: Any) -> str:
    return f"`{error.__name__}`" if error else "none: the answer comes"


def test_the_table_of_faults_in_the_documentation_is_this_one() -> None:
    """What readers are told is what the tests above saw."""
    assert table() in PAGE.read_text(), f"put this into {PAGE.name}:\n\n{table()}"
