"""A server that says each call twice, as a tool call and as a function call of the old kind."""

import interlingua as il
from interlingua.dialects.framing import Frame
from interlingua.values import jsontext

CHAT = il.dialect("openai-completions")


def test_a_call_encoded_in_both_kinds_is_whole_in_both() -> None:
    """The old kind grows beside the new one and is not cut off when the new one opens."""
    pieces = ['{"city"', ': "Os', 'lo"}']
    decoder = CHAT.StreamDecoder(model="m")
    events = []
    for at, piece in enumerate(pieces):
        name = {"name": "weather"} if at == 0 else {}
        function = {**name, "arguments": piece}
        call = {"index": 0, **({"id": "c1", "type": "function"} if at == 0 else {}), "function": function}
        delta = {"function_call": function, "tool_calls": [call]}
        chunk = {"id": "1", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta}]}
        events += decoder.feed(Frame(jsontext.write(chunk)))
    end = {
        "id": "1",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}],
    }
    events += decoder.feed(Frame(jsontext.write(end)))
    events += decoder.close()
    message = il.fold(events)
    assert [{"city": "Oslo"}] == [call.arguments for call in message.tool_calls]
    encoded = CHAT.encode_response(message).body["choices"][0]["message"]
    assert {"name": "weather", "arguments": '{"city": "Oslo"}'} == encoded["function_call"]


def test_a_call_encoded_in_both_kinds_is_one_call_in_the_next_request() -> None:
    """A second one would have no result, and the model would be told that its tool did not run."""
    function = {"name": "weather", "arguments": '{"city": "Oslo"}'}
    said = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": function}],
        "function_call": function,
    }
    answer = CHAT.decode_response({"choices": [{"index": 0, "message": said, "finish_reason": "tool_calls"}]})
    asked, result = il.UserMessage(content="?"), il.ToolResultMessage(tool_call_id="c1", content="ok", is_error=False)
    for api in ("openai-completions", "anthropic-messages"):
        model = il.ModelDescriptor(id="m", api=api)
        request = il.Request(model=model, context=il.Context(messages=(asked, answer, result)))
        messages = il.adapt(request, model).request.context.messages
        assert ["c1"] == [call.id for call in messages[1].tool_calls]
        assert 3 == len(messages)
    assert said == CHAT.encode_response(answer).body["choices"][0]["message"]
