"""An error that is told on means the same to its next reader."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlingua.dialects import WIRES, Dialect, dialect
from interlingua.dialects.provider_errors import provider_error
from interlingua.values.errors import (
    Aborted,
    AuthFailed,
    BadRequest,
    BadWire,
    ContentFiltered,
    ContextTooLong,
    FormatError,
    InterlinguaError,
    Overloaded,
    ProviderError,
    RateLimited,
    TimedOut,
    ToolAuthorizationError,
    TransportError,
    Unsupported,
)
from interlingua.values.events import Error, Start, TextDelta, TextStart
from interlingua.values.folding import fold
from interlingua.values.messages import AssistantMessage
from laws.grammar import faults
from laws.wires import every_dialect, through_json
from strategies import texts

KINDS = {401: AuthFailed, 403: AuthFailed, 400: BadRequest, 404: BadRequest, 429: RateLimited, 503: Overloaded}


@every_dialect
@given(status=st.sampled_from([*KINDS, 500, 418]), message=texts().filter(str.strip))
def test_an_error_keeps_its_status_and_its_words(name: str, status: int, message: str) -> None:
    """
    An error written by a gateway and read by a client of the same wire has the same status and message.
    """
    wire = dialect(name)
    status_code, body = wire.encode_error(ProviderError(message, status=status))
    again = wire.decode_error(status_code, through_json(body))
    assert (status, message) == (status_code, again.message)


@every_dialect
@pytest.mark.parametrize("status", sorted(KINDS))
def test_an_error_keeps_its_kind(name: str, status: int) -> None:
    """
    What was a wrong key, too many requests or a busy server is still that.
    """
    wire = dialect(name)
    status_code, body = wire.encode_error(KINDS[status]("no", status=status))
    assert isinstance(wire.decode_error(status_code, through_json(body)), KINDS[status])


@every_dialect
@pytest.mark.parametrize("status", [402, 405, 409, 410, 413, 415, 422, 431])
def test_a_fault_of_the_client_is_not_named_as_one_of_the_server(name: str, status: int) -> None:
    """
    Clients retry by the name of an error: `server_error`, `InternalServerException`.
    """
    wire = dialect(name)
    refused, broken = (wire.encode_error(ProviderError("no", status=one))[1] for one in (status, 500))
    kinds = [wire.encode_error(kind("no", status=one))[1] for one, kind in KINDS.items()]
    names_none = all(body == broken for body in kinds)  # the error is a text alone
    assert (refused == broken) is names_none


@every_dialect
@pytest.mark.parametrize("body", [{}, {"other": 1}])
def test_an_object_that_is_neither_an_answer_nor_an_error_is_named_as_such(name: str, body: dict[str, int]) -> None:
    """
    It is no error of the provider with an empty text, nor "HTTP 0".
    """
    try:
        answer = dialect(name).decode_response(body)
    except BadWire as error:
        assert name in str(error) or WIRES[name].base in str(error)
    else:
        assert "error" == answer.stop_reason and not answer.content


@every_dialect
@pytest.mark.parametrize("kind", sorted(set(KINDS.values()), key=lambda kind: kind.__name__))
def test_an_error_that_came_inside_a_stream_gets_a_status(name: str, kind: type[ProviderError]) -> None:
    """
    An error without a status is answered with the one that says the same.
    """
    wire = dialect(name)
    status_code, body = wire.encode_error(kind("no"))
    assert 400 <= status_code < 600
    assert isinstance(wire.decode_error(status_code, through_json(body)), kind)


@every_dialect
@pytest.mark.parametrize("kind", [ContentFiltered, ContextTooLong])
@given(
    status=st.sampled_from([0, 400, 403, 413, 500, 503]), message=texts().filter(str.strip), code=st.none() | texts()
)
def test_a_filter_and_an_overflow_keep_their_kind(
    name: str, kind: type[ProviderError], status: int, message: str, code: str | None
) -> None:
    """
    What was refused or too long is still that, in the code of the wire or in its words, and says what it said.
    """
    if kind is ContextTooLong and status == 403:
        return  # a key that may not do this: no wire says otherwise
    wire = dialect(name)
    status_code, body = wire.encode_error(kind(message, status=status, code=code))
    again = wire.decode_error(status_code, through_json(body))
    assert kind is type(again)
    assert again.message.endswith(message)


@every_dialect
@pytest.mark.parametrize(
    ("error", "status"),
    [
        (TransportError("refused"), 502),
        (TimedOut("nothing came"), 504),
        (BadWire("x", "no JSON"), 502),
        (Unsupported("x", "no such block"), 400),
        (FormatError("no"), 400),
        (ToolAuthorizationError("no"), 403),
        (Aborted("left"), 499),
        (InterlinguaError("odd"), 500),
        (ProviderError("in an answer with 200", status=200), 500),
    ],
    ids=repr,
)
def test_every_error_of_ours_can_be_answered(name: str, error: InterlinguaError, status: int) -> None:
    """
    A gateway tells its client of any failure, in the client's own wire and with a status that fits.
    """
    wire = dialect(name)
    status_code, body = wire.encode_error(error)
    assert status == status_code
    assert str(getattr(error, "reason", error)) in wire.decode_error(status_code, through_json(body)).message


TYPED = [AuthFailed, RateLimited, Overloaded, ContextTooLong, ContentFiltered, BadRequest]


@every_dialect
@pytest.mark.parametrize("kind", TYPED)
@pytest.mark.parametrize("begun", [False, True])
def test_a_failure_inside_a_stream_keeps_its_kind(name: str, kind: type[ProviderError], begun: bool) -> None:
    """
    An overload in the middle of an answer is one to the client, whatever wire the provider spoke.
    """
    wire = dialect(name)
    encoder = wire.StreamEncoder()
    before = [Start(AssistantMessage(content=())), TextStart(0), TextDelta(0, "So")] if begun else []
    encoded = b"".join(map(encoder.feed, before)) + encoder.fail(kind("no luck today")) + encoder.close()
    assert encoder.fail(kind("again")) == b""
    framing, decoder = wire.framing(), wire.StreamDecoder()
    events = [event for frame in framing.feed(encoded) + framing.close() for event in decoder.feed(frame)]
    events += decoder.close()
    assert faults(events) == []
    failed = fold(events)
    assert ("error", "So" if begun else "") == (failed.stop_reason, failed.text)
    assert "no luck today" in (failed.error_message or "")
    if kind in (ANSWERS["text"] if is_text(wire) else ANSWERS.get(name.partition("-")[0], TYPED)):
        assert type(decoder.failure) is kind


def is_text(wire: Dialect) -> bool:
    """Whether the wire's errors are text alone, as Ollama's and Cohere's are: no field of theirs tells the kind."""
    return list(wire.encode_error(RateLimited("slow down"))[1].values()) == ["slow down"]


# Where errors are text, some kinds are told by it; OpenAI's streams have codes for some kinds, and a wrong key or
# request is told before.
ANSWERS = {
    "text": [ContextTooLong, ContentFiltered],
    "openai": [RateLimited, Overloaded, ContextTooLong],
    "azure": [RateLimited, Overloaded, ContextTooLong],
}


@every_dialect
@pytest.mark.parametrize(
    ("code", "word"),
    [("overloaded_error", Overloaded), ("rate_limit_exceeded", RateLimited), ("throttlingException", RateLimited)],
)
def test_an_error_event_keeps_the_kind_that_its_code_tells(name: str, code: str, word: type[ProviderError]) -> None:
    """
    The terminal event of another wire's stream says the same on this one, in this one's own word.
    """
    wire = dialect(name)
    encoder = wire.StreamEncoder()
    failed = AssistantMessage(content=(), stop_reason="error", stop_detail=code, error_message="no luck today")
    encoded = encoder.feed(Start(AssistantMessage(content=()))) + encoder.feed(Error("error", failed))
    decoder = wire.StreamDecoder()
    for frame in wire.framing().feed(encoded):
        decoder.feed(frame)
    if not is_text(wire):
        assert type(decoder.failure) is word
        own = {"anthropic-messages": "_error", "openai-completions": "_", "bedrock-converse-stream": "Exception"}
        assert own.get(name, "") in (decoder.failure.code or "")


@every_dialect
@pytest.mark.parametrize("status", [204, 302, 308])
def test_a_redirect_or_no_content_is_no_answer_and_has_a_remedy(name: str, status: int) -> None:
    """
    To a client of a gateway it is a bad answer of the provider's side.
    """
    wire = dialect(name)
    failure = wire.decode_error(status, b"", {"Location": "https://elsewhere.example"})
    assert f"HTTP {status}" in failure.message and "check the base URL" in failure.message
    assert 502 == wire.encode_error(failure)[0]


def test_a_long_quotation_does_not_hold_up_the_reader() -> None:
    """
    Providers quote what they refuse. A text that a search takes minutes for is read at its beginning and its end.
    """
    quoted = "input token count " * 60_000
    assert BadRequest is type(provider_error(quoted, status=400))
    assert ContextTooLong is type(provider_error(f"input token count 9 exceeds the maximum: {quoted}", status=400))
    assert ContextTooLong is type(provider_error(f"{quoted}: the prompt is too long", status=400))


@every_dialect
@pytest.mark.parametrize("phrase", ["prompt is too ", "input token count exceeds the ", "a_", " 401"])
def test_an_error_takes_time_in_proportion_to_its_length(name: str, phrase: str) -> None:
    """
    Providers quote what they refuse: no text makes an error slow to read or to write.
    """
    wire = dialect(name)

    def took(length: int) -> float:
        text = (phrase * length)[:length]
        begun = time.process_time()
        for error in (ContextTooLong(text, status=400), wire.decode_error(400, {"error": {"message": text}})):
            wire.encode_error(error)
        return time.process_time() - begun

    took(100)  # loads what is loaded once
    assert took(2000) < 100 * took(200) + 0.2
