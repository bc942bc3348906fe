"""Adapting, condition by condition: boundaries and exceptions of single passes, and the way back to the source."""

from typing import Any

import pytest
from msgspec.structs import replace

import interlingua as il
from interlingua.conversion.adapting.ids import fitting
from interlingua.conversion.adapting.work import Work
from interlingua.dialects import WIRES
from interlingua.dialects.registry import register, unregister
from interlingua.values.messages import (
    AssistantMessage,
    CacheMarker,
    OpaqueBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from interlingua.values.request import Context, ModelDescriptor, Options, Reasoning, Request, ToolSpec
from interlingua.values.tokens import taken

CLAUDE = ModelDescriptor(id="claude-sonnet-4-5", api="anthropic-messages")
BEDROCK_CLAUDE = ModelDescriptor(id="us.anthropic.claude-sonnet-4-5", api="bedrock-converse-stream")
GPT = ModelDescriptor(id="gpt-5", api="openai-responses")
CHAT = ModelDescriptor(id="gpt-4o", api="openai-completions")
LLAMA = ModelDescriptor(id="llama3.3", api="ollama-chat")
HI = UserMessage(content="Hello")


def request(*messages: Any, extra: Any = None, **fields: Any) -> Request:
    context = Context(messages=messages, tools=fields.pop("tools", None), system=fields.pop("system", None))
    return Request(model=ModelDescriptor(id=""), context=context, options=Options(**fields), extra=extra or {})


def called(*names: str) -> AssistantMessage:
    calls = [ToolCall(id=f"c{at}", name=name, arguments={}) for at, name in enumerate(names)]
    return AssistantMessage(content=calls, api=CLAUDE.api, model=CLAUDE.id)


# --- the way back ----------------------------------------------------------------------------------------------------


def test_renamed_calls_are_restored_beside_others() -> None:
    tools = tuple(ToolSpec(name=name, input_schema={"type": "object"}) for name in ("look", "look up!"))
    adapted = il.adapt(request(HI, tools=tools), GPT)
    renamed = (adapted.request.context.tools or ())[1].name
    assert renamed != "look up!"
    restored = adapted.restore(called("look", renamed))
    assert [call.name for call in restored.tool_calls] == ["look", "look up!"]


def test_an_added_result_has_no_source() -> None:
    adapted = il.adapt(request(HI, called("look"), HI), CHAT)
    (at,) = [at for at, message in enumerate(adapted.request.context.messages) if message.role == "toolResult"]
    assert adapted.source(f"$.messages[{at}]") is None
    assert adapted.source(f"$.messages[{at}].content[0].text") is None


def test_added_tool_definitions_have_no_source() -> None:
    adapted = il.adapt(request(HI, called("look"), HI), BEDROCK_CLAUDE)
    assert [tool.name for tool in adapted.request.context.tools or ()] == ["look"]
    assert adapted.source("$.tools[0].name") is None


def test_the_source_of_a_system_text_is_a_block_unless_messages_joined_it() -> None:
    system = (TextBlock(text="Be brief."),)
    assert il.adapt(request(HI, system=system), CLAUDE).source("$.system[0].text") == "$.system[0].text"
    adapted = il.adapt(request(SystemMessage(content="Be kind."), HI, system=system), CLAUDE)
    assert adapted.source("$.system[1].text") == "$.system"


# --- single conditions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("room", "warned"), [(0, False), (-1, True)])
def test_a_host_that_truncates_is_warned_of_only_beyond_its_window(room: int, warned: bool) -> None:
    source = request(UserMessage(content="word " * 400))
    model = replace(LLAMA, context_window=taken(source.context) + room)
    assert bool(il.adapt(source, model).warnings) is warned


def test_a_bare_cache_point_marks_the_text_before_it_without_any_thinking() -> None:
    point = OpaqueBlock(dialect=BEDROCK_CLAUDE.api, value={"cachePoint": {"type": "default"}})
    adapted = il.adapt(request(UserMessage(content=(TextBlock(text="Long."), point))), BEDROCK_CLAUDE)
    assert adapted.request.context.messages[0].content == (TextBlock(text="Long.", cache=CacheMarker()),)


def test_a_failed_result_is_text_where_the_provider_stores_its_call() -> None:
    failed = ToolResultMessage(tool_call_id="c1", content="no such file", is_error=True)
    source = request(failed, extra={GPT.api: {"previous_response_id": "resp_1"}})
    assert il.adapt(source, GPT).request.context.messages[0].text == "Error: no such file"


def test_a_failed_answer_takes_its_results_along_and_no_others() -> None:
    failed = replace(called("look"), stop_reason="error")
    results = [ToolResultMessage(tool_call_id="c0", content=text, is_error=False) for text in ("old", "new")]
    adapted = il.adapt(request(HI, failed, results[0], called("look"), results[1]), CHAT)
    assert [message.text for message in adapted.request.context.messages if message.role == "toolResult"] == ["new"]


def test_a_result_prefers_the_call_that_is_sent() -> None:
    """Both calls have its id: the failed one is the later, and is not sent."""
    failed = replace(called("look"), stop_reason="aborted")
    found = ToolResultMessage(tool_call_id="c0", content="found", is_error=False)
    adapted = il.adapt(request(HI, called("look"), HI, failed, found), CHAT)
    assert [message.text for message in adapted.request.context.messages if message.role == "toolResult"] == ["found"]


def test_a_result_belongs_to_the_call_with_its_id_before_one_with_its_item_id() -> None:
    first = AssistantMessage(content=[ToolCall(id="x", name="first", arguments={})], api=GPT.api, model=GPT.id)
    item = {GPT.api: {"id": "x"}}
    second = replace(first, content=(ToolCall(id="y", name="second", arguments={}, extra=item),))
    results = [ToolResultMessage(tool_call_id=id, content=f"for {id}", is_error=False) for id in ("x", "y")]
    messages = il.adapt(request(HI, first, HI, second, *results), CHAT).request.context.messages
    found = {m.tool_name: m.text for m in messages if isinstance(m, ToolResultMessage)}
    assert found == {"first": "for x", "second": "for y"}


def test_a_result_that_moves_forward_is_reported() -> None:
    late = ToolResultMessage(tool_call_id="c0", content="found", is_error=False)
    losses = il.adapt(request(HI, called("look"), HI, late), CHAT).losses
    assert ("$.messages[3]", "order") in {(loss.path, loss.what) for loss in losses}


def test_a_generated_id_is_never_one_that_a_later_call_has() -> None:
    rule = WIRES[CLAUDE.api].limits.ids
    taken_already = fitting("no id!", 0, rule, set())
    calls = [ToolCall(id=id, name="look", arguments={}) for id in ("no id!", taken_already)]
    message = AssistantMessage(content=calls, api=CLAUDE.api, model=CLAUDE.id)
    sent = il.adapt(request(HI, message, HI), CLAUDE).request.context.messages[1]
    assert isinstance(sent, AssistantMessage)
    assert len({call.id for call in sent.tool_calls}) == 2


def test_blank_thinking_without_a_signature_is_dropped_on_every_wire() -> None:
    content = (ThinkingBlock(thinking=" "), TextBlock(text="Yes."))
    message = AssistantMessage(content=content, api=LLAMA.api, model=LLAMA.id)
    assert il.adapt(request(HI, message, HI), LLAMA).request.context.messages[1].content == (TextBlock(text="Yes."),)


def test_signatures_of_another_model_of_the_family_are_kept_unless_they_are_bound() -> None:
    content = (ThinkingBlock(thinking="Hm.", thinking_signature="c2ln"), TextBlock(text="Yes."))
    message = AssistantMessage(content=content, api=CLAUDE.api, model="claude-opus-4-1")
    assert il.adapt(request(HI, message, HI), CLAUDE).request.context.messages[1].content == content


def test_a_tool_turn_that_began_without_thinking_ends_without_it() -> None:
    found = ToolResultMessage(tool_call_id="c0", content="found", is_error=False)
    source = request(HI, called("look"), found, reasoning=Reasoning(budget=2048), max_tokens=8000)
    assert il.adapt(source, CLAUDE).request.options.reasoning == Reasoning(enabled=False)


def test_claude_continues_no_answer_while_it_thinks() -> None:
    begun = AssistantMessage(content="It is", api=CLAUDE.api, model=CLAUDE.id)
    source = request(HI, begun, max_tokens=8000)
    assert il.adapt(source, CLAUDE).request.context.messages[-1].role == "assistant"
    thinking = replace(source, options=replace(source.options, reasoning=Reasoning(budget=2048)))
    assert il.adapt(thinking, CLAUDE).request.context.messages[-1].role == "user"


def test_tools_get_no_marker_beside_one_of_the_caller_on_the_system_text() -> None:
    tools = (ToolSpec(name="look", input_schema={"type": "object"}),)
    system = (TextBlock(text="Be brief.", cache=CacheMarker()),)
    source = request(HI, tools=tools, system=system, cache_retention="short")
    adapted = il.adapt(source, CLAUDE, caching=True).request.context
    assert [tool.cache for tool in adapted.tools or ()] == [None]


@pytest.mark.parametrize(("temperature", "severity"), [(1, "record"), (0.5, "dropped")])
def test_leaving_out_a_default_temperature_loses_nothing(temperature: float, severity: str) -> None:
    losses = il.adapt(request(HI, temperature=temperature), GPT).losses
    assert [loss.severity for loss in losses if loss.path == "$.options.temperature"] == [severity]


def test_a_temperature_of_one_is_sent_while_claude_thinks() -> None:
    source = request(HI, temperature=1, reasoning=Reasoning(budget=2048), max_tokens=8000)
    assert il.adapt(source, CLAUDE).request.options.temperature == 1


def test_a_blank_stop_sequence_is_sent_where_blank_text_is() -> None:
    assert il.adapt(request(HI, stop=("\n\n", "END")), CHAT).request.options.stop == ("\n\n", "END")
    assert il.adapt(request(HI, stop=("\n\n", "END")), CLAUDE).request.options.stop == ("END",)


def test_a_blank_block_without_a_marker_moves_none() -> None:
    source = request(UserMessage(content=(TextBlock(text="Hello"), TextBlock(text=" "))))
    assert {loss.what for loss in il.adapt(source, CLAUDE).losses} == {"text", "no limit"}


# --- what is kept of a model's description ---------------------------------------------------------------------------


def test_a_change_of_compat_counts_although_the_description_is_the_same() -> None:
    model = ModelDescriptor(id="some-model", api="openai-completions", compat={"mergeTurns": False})
    source = request(HI, HI)
    assert len(il.adapt(source, model).request.context.messages) == 2
    assert model.compat is not None
    model.compat["mergeTurns"] = True
    assert len(il.adapt(source, model).request.context.messages) == 1


def test_a_change_of_extra_counts_although_the_description_is_the_same() -> None:
    model = ModelDescriptor(id="some-model", api="openai-completions")
    assert Work(request(HI), model, "drop").generation.efforts is None
    model.extra["catalogue"] = {"levels": ["low", "high"]}
    assert Work(request(HI), model, "drop").generation.efforts == ("low", "high")
    model.extra["catalogue"]["levels"].append("max")
    assert Work(request(HI), model, "drop").generation.efforts == ("low", "high", "max")


def test_a_wire_that_is_registered_again_brings_its_own_limits() -> None:
    model, source = ModelDescriptor(id="some-model", api="own-chat"), request(HI, HI)
    try:
        register(WIRES["openai-completions"].variant("own-chat"))
        assert len(il.adapt(source, model).request.context.messages) == 2
        register(WIRES["openai-completions"].variant("own-chat", limits={"alternating": True}))
        assert len(il.adapt(source, model).request.context.messages) == 1
    finally:
        unregister("own-chat")


def test_results_in_place_are_treated_like_those_that_have_to_be_matched() -> None:
    """A result without a call has every result matched by its id; the others come out the same."""

    def result(id: str, name: str | None) -> il.ToolResultMessage:
        return il.ToolResultMessage(tool_call_id=id, tool_name=name, content="x", is_error=False)

    def calls(*names: str) -> il.AssistantMessage:
        blocks = [il.ToolCall(id=f"call_{at}", name=name, arguments={}) for at, name in enumerate(names)]
        return il.AssistantMessage(content=(il.TextBlock(text="so"), *blocks), stop_reason="toolUse")

    in_place = (
        il.UserMessage(content="go"),
        calls("f", "g"),
        result("call_0", None),
        result("call_1", "other"),
        calls("f"),  # the same id again
        result("call_0", "f"),
        il.UserMessage(content="and?"),
    )
    model = il.ModelDescriptor(id="m", api="anthropic-messages")
    for messages in (in_place, in_place[:4], in_place[:2] + in_place[3:2:-1] + in_place[2:3]):
        found = []
        for given in (messages, (*messages, result("unknown", "f"))):
            adapted = il.adapt(il.Request(model=model, context=il.Context(messages=given)), model)
            dropped = f"$.messages[{len(messages)}]"
            found.append((adapted.request, [loss for loss in adapted.losses if loss.path != dropped]))
        assert found[0] == found[1]
        assert ["f", "g"] == [m.tool_name for m in found[0][0].context.messages if m.role == "toolResult"][:2]
