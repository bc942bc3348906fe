"""Half a surrogate pair, in an answer or in the text of a call's arguments, is reported wherever it is lost."""

import base64
import re
from collections.abc import Iterator
from dataclasses import dataclass
from dataclasses import replace as with_fields
from typing import ClassVar

import pytest

import interlingua as il
from interlingua.dialects import dialect
from interlingua.dialects.framing import AWSEventStream, write_aws
from interlingua.dialects.wire import AWS
from interlingua.testing import Server
from interlingua.testing.faults import Answer, Piece, Step
from interlingua.values import jsontext
from interlingua.values.folding import fold, parse_arguments, unfold
from interlingua.values.losses import REPLACED
from laws.wires import decode_stream, every_dialect, fields_outside, stream_of

MARK, HALF, TEXT = b"~half~", rb"\ud83d", r'{"a":["\ud83d"],"b":1}'
ARGUMENTS, SPELLED, _ = parse_arguments(TEXT)
CALL = il.ToolCall(id="call_1", name="f", arguments=ARGUMENTS, arguments_text=SPELLED)
MESSAGE = il.AssistantMessage(content=(CALL,), stop_reason="toolUse")


@dataclass(frozen=True)
class Halved:
    """The provider writes half a surrogate pair for `MARK`."""

    times: int | None = None
    replaces: ClassVar[bool] = False

    def apply(self, answer: Answer) -> Answer:
        return with_fields(answer, steps=self._halved(answer))

    def _halved(self, answer: Answer) -> Iterator[Step]:
        for step in answer.steps:
            if not isinstance(step, Piece):
                yield step
            elif answer.streamed and answer.content_type == AWS:  # which has checksums
                for frame in AWSEventStream().feed(step.data):
                    yield Piece(write_aws(frame.event, halved(frame.data)), step.terminal)
            else:
                yield Piece(halved(step.data), step.terminal)


def halved(data: bytes) -> bytes:
    """JSON text with half a pair, also in JSON that is in base64, as InvokeModel of Bedrock has it."""
    inner = re.fullmatch(rb'(\{"bytes":")([^"]+)(".*)', data)
    if inner is None:
        return data.replace(MARK, HALF)
    return inner[1] + base64.b64encode(halved(base64.b64decode(inner[2]))) + inner[3]


def reported(losses: object) -> list[str]:
    """The paths of what was read as U+FFFD."""
    return [loss.path for loss in losses if loss.why == REPLACED]  # type: ignore[attr-defined]


@every_dialect
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("text", ["a", "~half~"])
def test_half_a_pair_in_an_answer_is_among_the_losses_of_the_call(name: str, stream: bool, text: str) -> None:
    """
    Whole and streamed; an answer that is Unicode has no such loss.
    """
    with Server(chunk=100) as server:
        server.say(f'{{"b": "{text}"}}', fault=Halved())
        model = il.ModelDescriptor(id="m", api=name, base_url=server.base_url(name))
        result = il.sync.complete(model, "Hi", output=dict[str, str], stream=stream, api_key="k")
    assert {"b": text.replace("~half~", "\ufffd")} == result.output
    paths = reported(result.losses)
    assert bool(paths) == (text != "a") and all(path.startswith("$.") for path in paths)


@every_dialect
def test_half_a_pair_in_arguments_is_a_loss_where_their_text_is_not_kept(name: str) -> None:
    """
    In a request and in an answer: there is a loss at its path, or the text is the same again. Strict mode refuses it.
    """
    wire = dialect(name)
    messages = (il.UserMessage(content="a"), MESSAGE)
    request = il.Request(model=il.ModelDescriptor(id="m"), context=il.Context(messages=messages))
    sent, answered = wire.encode_request(request), wire.encode_response(MESSAGE)
    returned = wire.decode_request(sent.bytes(), **fields_outside(wire, request)).context.messages[1]
    for encoded, again, path in (
        (sent, returned, "$.messages[1].content[0].arguments.a[0]"),
        (answered, wire.decode_response(answered.bytes()), "$.content[0].arguments.a[0]"),
    ):
        is_kept = [TEXT] == [call.arguments_text for call in again.tool_calls]
        assert ([] if is_kept else [path]) == reported(encoded.losses)
        assert [call.arguments for call in again.tool_calls] == [ARGUMENTS]
    if reported(sent.losses):
        with pytest.raises(il.Unsupported, match="U\\+FFFD"):
            wire.encode_request(request, strict=True)


@every_dialect
@pytest.mark.parametrize("size", [None, 3])
def test_half_a_pair_in_streamed_arguments_is_kept_or_reported(name: str, size: int | None) -> None:
    """
    However the fragments cut it.
    """
    wire = dialect(name)
    with jsontext.Repairs() as repaired:
        (call,) = fold(decode_stream(wire, [stream_of(wire, MESSAGE, size)])).tool_calls
    encoder = wire.StreamEncoder()
    for event in unfold(MESSAGE):
        encoder.feed(event)
    assert ARGUMENTS == call.arguments
    assert TEXT == call.arguments_text or repaired or reported(encoder.losses)


def test_problems_name_the_arguments() -> None:
    """
    `decode` tells it although the text is kept; `convert` only if the target loses it.
    """
    path = "$.messages[1].content[0].arguments.a[0]"
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": TEXT}}
    messages = [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [call]}]
    body = jsontext.write({"model": "m", "messages": messages})
    assert [f"{REPLACED} (at {path})"] == [one.message for one in il.decode(body, "openai-completions").problems]
    for target, paths in {"openai-responses": [], "anthropic-messages": [path], "openclaw": [path]}.items():
        assert paths == reported(il.convert(body, target, "openai-completions").losses)
    assert body == il.convert(body, "openai-completions", "openai-completions", strict=True).bytes()
