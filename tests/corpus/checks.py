"""The checks that every recorded exchange passes through.

Each gives its findings, none of them when the case passes, or None when it has nothing to say about the case.
"""

import json
import random
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import Any

from interlingua.dialects.wire import Dialect, Encoding
from interlingua.values.canonical import dump, load
from interlingua.values.errors import (
    AuthFailed,
    BadRequest,
    ContentFiltered,
    ContextTooLong,
    InterlinguaError,
    Overloaded,
    ProviderError,
    RateLimited,
)
from interlingua.values.events import Error, StreamEvent
from interlingua.values.folding import fold, unfold
from interlingua.values.messages import AssistantMessage, ToolCall
from interlingua.values.request import Request

from . import grammar
from .cases import Case
from .differences import differences, shown
from .expectations import against_expected, free_text, is_generated, plain_text, refusal, thinking
from .sdks import UNSEEN, FreeText, Given, arguments_of, reader

Findings = list[str] | None

SMALL = 6_000  # bytes: streams up to here are also fed one byte at a time


def check_request(case: Case) -> Findings:
    """A recorded request comes back as it was, through our own JSON."""
    if case.request is None:
        return None
    request = case.dialect.decode_request(case.request)
    encoded = case.dialect.encode_request(load(dump(request), Request))
    return differences(case.request, encoded.body)


def check_answer(case: Case) -> Findings:
    """A whole answer means what the vendor's package says it means."""
    if case.failed or case.is_stream:
        return None
    if case.is_error_in_disguise:
        return _refused(case)
    return against_expected(case, case.dialect.decode_response(case.body))


def check_answer_back(case: Case) -> Findings:
    """A whole answer comes back as it was, through our own JSON."""
    if case.failed or case.is_stream or case.is_error_in_disguise:
        return None
    message = case.dialect.decode_response(case.body)
    return differences(case.wire, case.dialect.encode_response(load(dump(message), AssistantMessage)).body)


def check_stream(case: Case) -> Findings:
    """A stream amounts to what the vendor's package says."""
    return against_expected(case, fold(decoded(case))) if case.is_stream else None


def check_grammar(case: Case) -> Findings:
    """The events of a stream are well-formed."""
    return grammar.faults(decoded(case)) if case.is_stream else None


def check_cuts(case: Case) -> Findings:
    """However the bytes are cut, the same events come out."""
    if not case.is_stream:
        return None
    whole = decoded(case)
    return [
        f"other events when cut {how}: {_first_difference(whole, events)}"
        for how, chunks in _cuts(case)
        if (events := decode_stream(case.dialect, chunks, case.content_type)) != whole
    ]


def check_sdk(case: Case) -> Findings:
    """The vendor's package reads our rendering of an answer as a stream and finds the same in it.

    Or raises with the provider's words, where that is how the answer ended.
    """
    if case.failed or case.is_error_in_disguise or not case.expected:
        return None
    events = _events_of(case)
    message = fold(events)
    body = encode_stream(case.dialect, events)
    read = reader(case.api, case.dialect_name)
    try:
        with warnings.catch_warnings(
            action="ignore"
        ):  # a package's serialiser complains of hosts that stretch its types
            reported = read(body)
    except Exception as error:  # the packages have no common class for what a stream may end in
        if isinstance(events[-1], Error) and (message.error_message or "") in str(error):
            return []
        if _crashed_before(case, error):
            return []
        raise
    return _differences(reported, message, case.dialect_name)


def check_own(case: Case) -> Findings:
    """Our own rendering of an answer as a stream, decoded again, is the same message."""
    if case.failed or case.is_error_in_disguise:
        return None
    events = _events_of(case)
    before = fold(events)
    after = fold(decode_stream(case.dialect, [encode_stream(case.dialect, events)], None))
    fields = ("content", "usage", "stop_reason", "stop_detail", "error_message")
    return [
        found
        for name in fields
        if getattr(before, name) != getattr(after, name)
        for found in _apart(getattr(before, name), getattr(after, name), name)
    ]


def check_error(case: Case) -> Findings:
    """An error answer becomes a typed error with the provider's words."""
    if not case.failed:
        return None
    error = case.dialect.decode_error(case.status, case.body, {})
    found = differences(case.status, error.status, "status")
    if not error.message.strip():
        found.append("message: empty")
    message = _message_of(case)
    if message not in error.message:
        found.append(f"message: expected {shown(message)} in it, got {shown(error.message)}")
    if not isinstance(error, _FITTING.get(case.status, ProviderError)):
        found.append(f"class: {type(error).__name__} does not fit status {case.status}: {error.message}")
    return found


CHECKS: dict[str, Callable[[Case], Findings]] = {
    "request": check_request,
    "answer": check_answer,
    "answer back": check_answer_back,
    "stream": check_stream,
    "grammar": check_grammar,
    "cuts": check_cuts,
    "sdk": check_sdk,
    "own": check_own,
    "error": check_error,
}


def findings(case: Case, name: str) -> Findings:
    """What one check finds; whatever is raised on the way is a finding."""
    try:
        return CHECKS[name](case)
    except InterlinguaError as error:
        return [f"{type(error).__name__}: {error}"]
    except Exception as error:  # the runner must report every case, whoever broke
        return [f"{type(error).__module__}.{type(error).__qualname__}: {error}", *_where(error)]


def _where(error: Exception) -> Iterator[str]:
    step = error.__traceback__
    while step is not None and step.tb_next is not None:
        step = step.tb_next
    if step is not None:
        code = step.tb_frame.f_code
        yield f"raised in {code.co_qualname}, line {step.tb_lineno} of {code.co_filename}"


# --- streams ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1)  # the checks of one case follow one another
def decoded(case: Case) -> list[StreamEvent]:
    """The events of a recorded stream, fed at once."""
    return decode_stream(case.dialect, [case.body], case.content_type)


def _events_of(case: Case) -> list[StreamEvent]:
    """The events of an answer: as it streamed, or as it would have."""
    return decoded(case) if case.is_stream else list(unfold(case.dialect.decode_response(case.body), size=40))


def decode_stream(dialect: Dialect, chunks: Iterable[bytes], content_type: str | None) -> list[StreamEvent]:
    framing, decoder = dialect.framing(content_type), dialect.StreamDecoder()
    events: list[StreamEvent] = []
    for chunk in chunks:
        for frame in framing.feed(chunk):
            events += decoder.feed(frame)
    for frame in framing.close():
        events += decoder.feed(frame)
    events += decoder.close()
    return events


def encode_stream(dialect: Dialect, events: Iterable[StreamEvent]) -> bytes:
    encoder: Encoding = dialect.StreamEncoder()
    return b"".join(map(encoder.feed, events)) + encoder.close()


def _cuts(case: Case) -> Iterator[tuple[str, list[bytes]]]:
    """Ways to cut a body: single bytes if it is short, and at random places, more and fewer of them."""
    body = case.body
    if len(body) <= SMALL:
        yield "into single bytes", [body[at : at + 1] for at in range(len(body))]
    for size in (9, 100, 1500):
        dice = random.Random(f"{case.id} {size}")
        chunks, at = [], 0
        while at < len(body):
            step = dice.randint(1, 2 * size)
            chunks.append(body[at : at + step])
            at += step
        yield f"at random, about every {size} bytes", chunks


def _first_difference(expected: list[StreamEvent], actual: list[StreamEvent]) -> str:
    for at, (a, b) in enumerate(zip(expected, actual, strict=False)):
        if a != b:
            return f"event {at}: expected {shown(a)}, got {shown(b)}"
    return f"expected {len(expected)} events, got {len(actual)}"


# --- what a package says, against what we say ------------------------------------------------------------------------


def _differences(reported: Given, message: AssistantMessage, dialect: str) -> list[str]:
    found = differences(plain_text(message), reported.text, "text")
    found += differences(refusal(message), reported.refusal, "refusal")
    found += differences(thinking(message, dialect), reported.thinking, "thinking")
    found += differences(message.stop_detail or None, reported.stop or None, "stop")
    ours: list[tuple[Any, ...]] = [_call(call) for call in message.tool_calls]
    theirs: list[tuple[Any, ...]] = [(id or None, name, arguments_of(given)) for id, name, given in reported.calls]
    for at, (call, other) in enumerate(zip(message.tool_calls, theirs, strict=False)):
        if isinstance(other[2], FreeText):
            ours[at] = (*ours[at][:2], free_text(call))
    if any(call[0] is UNSEEN for call in theirs):
        ours, theirs = [call[1:] for call in ours], [call[1:] for call in theirs]
    return found + differences(ours, theirs, "tool calls")


def _call(call: ToolCall) -> tuple[str | None, str, Any]:
    """A call as a package shows it: an id that we generated is not encoded in the wire that had none."""
    return (
        None if is_generated(call) else call.id,
        call.name,
        call.arguments_text if call.parse_error else call.arguments,
    )


def _crashed_before(case: Case, error: Exception) -> bool:
    """Whether the package broke on the recording in the very same way: then we have said it as it was."""
    crash = case.expected.get("error") or {}
    return crash.get("exception") == f"builtins.{type(error).__name__}" and crash["message"] == str(error)


def _apart(before: Any, after: Any, name: str) -> list[str]:
    return differences(json.loads(dump(before)), json.loads(dump(after)), name) or [
        f"{name}: {shown(before)} is not {shown(after)}"
    ]


# --- errors ----------------------------------------------------------------------------------------------------------

_FITTING: dict[int, type[ProviderError] | tuple[type[ProviderError], ...]] = {
    400: (BadRequest, ContextTooLong, ContentFiltered, AuthFailed),
    401: AuthFailed,
    403: AuthFailed,
    404: BadRequest,
    413: ContextTooLong,
    429: RateLimited,
    **dict.fromkeys((503, 529), Overloaded),
}


def _refused(case: Case) -> list[str]:
    """An error that came with a good status is raised all the same, in the provider's words."""
    try:
        case.dialect.decode_response(case.body)
    except ProviderError as error:
        return [] if _message_of(case) in error.message else [f"expected {_message_of(case)!r} in {error.message!r}"]
    return ["expected a ProviderError, got a message"]


def _message_of(case: Case) -> str:
    """The provider's own message in the body of an error: `error.message`, `error`, `message` or `detail`."""
    try:
        body = json.loads(case.body)
    except ValueError:
        return case.body.decode("utf-8", "replace").strip()
    body = body[0] if isinstance(body, list) else body
    error = body.get("error", body)
    if isinstance(error, str):
        return error
    message = error.get("message") or error.get("detail") or ""
    return message if isinstance(message, str) else ""
