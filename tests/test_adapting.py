"""Adapting, condition by condition: boundaries and exceptions of single passes, and the way back to the source."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

import interlingua as il
from interlingua.conversion.adapting.adapter import RepeatedAdapter
from interlingua.conversion.adapting.tools import fitting
from interlingua.conversion.adapting.work import Work
from interlingua.dialects import WIRES
from interlingua.dialects.registry import register, unregister
from interlingua.values.messages import (
    AssistantMessage,
    Block,
    CacheMarker,
    Citation,
    DocumentBlock,
    ImageBlock,
    Message,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
)
from interlingua.values.request import (
    Context,
    ModelDescriptor,
    Options,
    OutputSchema,
    Reasoning,
    Request,
    ToolChoice,
    ToolSpec,
)
from interlingua.values.tokens import taken
from laws.test_cost import calls_of
from strategies import PNG

CLAUDE = ModelDescriptor(id="claude-sonnet-4-5", api="anthropic-messages")
BEDROCK_CLAUDE = ModelDescriptor(id="us.anthropic.claude-sonnet-4-5", api="bedrock-converse-stream")
GPT = ModelDescriptor(id="gpt-5", api="openai-responses")
CHAT = ModelDescriptor(id="gpt-4o", api="openai-completions")
LLAMA = ModelDescriptor(id="llama3.3", api="ollama-chat")
HI = UserMessage(content="Hello")
THINKING = Reasoning(budget=2000)


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
    said = TextBlock(text="I look")
    beside = replace(restored, content=(said, *called(renamed).tool_calls))
    assert [said, *called("look up!").tool_calls] == list(adapted.restore(beside).content)


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


def test_a_blank_text_leaves_its_marker_only_where_there_is_none() -> None:
    hour, mark = CacheMarker(ttl="1h"), CacheMarker()
    for before, kept in ((None, mark), (hour, hour)):
        texts = (TextBlock(text="Long.", cache=before), TextBlock(text=" ", cache=mark))
        (message,) = il.adapt(request(UserMessage(content=texts)), CLAUDE).request.context.messages
        assert message.content == (TextBlock(text="Long.", cache=kept),)


def test_a_result_with_a_blank_text_keeps_its_others() -> None:
    for texts, expected in ((("12", " "), "12"), ((" ",), "(no output)")):
        result = ToolResultMessage(tool_call_id="c0", content=tuple(TextBlock(text=text) for text in texts))
        *_, message = il.adapt(request(HI, called("look"), result), CLAUDE).request.context.messages
        assert [block.text for block in blocks_of(message.content)] == [expected]  # type: ignore[union-attr]


def test_a_forced_tool_is_a_choice_while_a_model_thinks() -> None:
    """For models that are not known, too, and whatever the amount of thinking is said in."""
    tools = (ToolSpec(name="look", input_schema={"type": "object"}),)
    for reasoning, mode in ((Reasoning(effort="high"), "auto"), (Reasoning(budget=2048), "auto"), (None, "required")):
        source = request(HI, tools=tools, tool_choice=ToolChoice(mode="required"), reasoning=reasoning)
        adapted = il.adapt(source, ModelDescriptor(id="some-model", api=CLAUDE.api)).request
        assert adapted.options.tool_choice is not None
        assert adapted.options.tool_choice.mode == mode


def test_a_limit_of_zero_is_no_limit() -> None:
    source = request(HI, max_tokens=500)
    assert il.adapt(source, replace(CHAT, max_tokens=0)).request.options.max_tokens == 500
    assert il.adapt(source, replace(CHAT, max_tokens=100)).request.options.max_tokens == 100


def test_a_smaller_limit_names_the_tokens_that_are_taken() -> None:
    source = request(UserMessage(content="word " * 400), max_tokens=900)
    adapted = il.adapt(source, replace(CHAT, context_window=1000))
    (loss,) = adapted.losses
    room = adapted.request.options.max_tokens
    assert room is not None
    assert loss.why == f"about {1000 - room} of the model's 1000 tokens are taken"


@pytest.mark.parametrize(("given", "sent"), [(0.5, 0.5), (1.0, 1.0), (1.5, 1.0), (None, None)])
def test_a_temperature_is_at_most_that_of_the_target(given: float | None, sent: float | None) -> None:
    adapted = il.adapt(request(HI, temperature=given), replace(BEDROCK_CLAUDE, id="some-model"))
    assert adapted.request.options.temperature == sent
    assert [loss.path for loss in adapted.losses] == (["$.options.temperature"] if given != sent else [])


def test_options_that_the_target_takes_are_left_alone() -> None:
    for name, wire in WIRES.items():
        for tier in wire.limits.tiers or ():
            adapted = il.adapt(request(HI, service_tier=tier), ModelDescriptor(id="some-model", api=name))
            assert adapted.request.options.service_tier == tier
        schema = OutputSchema(schema={"type": "object"})
        output = il.adapt(request(HI, output_schema=schema), ModelDescriptor(id="some-model", api=name))
        named = output.request.options.output_schema
        assert named is None or bool(named.name) == wire.limits.named_schemas
    off = request(HI, reasoning=Reasoning(enabled=False), max_tokens=100)
    for model in (CLAUDE, BEDROCK_CLAUDE):
        assert il.adapt(off, model).losses == ()


def test_how_thinking_is_off_is_left_as_it_is_said() -> None:
    own = {BEDROCK_CLAUDE.api: {"~off": "between_tools"}}
    source = request(HI, reasoning=Reasoning(enabled=False, extra=own), max_tokens=100)
    adapted = il.adapt(source, BEDROCK_CLAUDE)
    assert (adapted.losses, adapted.request.options.reasoning) == ((), source.options.reasoning)


@pytest.mark.parametrize("model", [CLAUDE, CHAT, GPT], ids=lambda model: model.api)
def test_results_that_come_before_their_calls_are_named(model: ModelDescriptor) -> None:
    """Also where the result is the very first message."""
    result = ToolResultMessage(tool_call_id="c0", content="12")
    for before in ((), (HI,)):
        adapted = il.adapt(request(*before, result, called("look")), model)
        assert f"$.messages[{len(before)}]" in {loss.path for loss in adapted.losses if loss.what == "order"}


def test_calls_are_followed_by_their_results_beside_those_of_stored_calls() -> None:
    """The provider has the calls of other results."""
    results = [ToolResultMessage(tool_call_id=id, content="12") for id in ("stored", "c0")]
    source = request(results[0], called("look"), HI, results[1], extra={GPT.api: {"previous_response_id": "resp_1"}})
    roles = [message.role for message in il.adapt(source, GPT).request.context.messages]
    assert roles == ["toolResult", "assistant", "toolResult", "user"]


CUSTOM = {
    "none": ({}, {}, "The whole input, as free text."),
    "text": ({"format": {"type": "text"}}, {"format": {"type": "text"}}, "The whole input, as free text."),
    "grammar": (
        {"format": {"type": "grammar", "syntax": "lark", "definition": "start: A"}},
        {"format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: A"}}},
        "The whole input, in this lark grammar:\nstart: A",
    ),
}


@pytest.mark.parametrize("format", CUSTOM)
def test_a_custom_tool_has_the_form_of_each_wire(format: str) -> None:
    """Both of OpenAI's, and a function elsewhere."""
    flat, nested, described = CUSTOM[format]
    by_wire = {
        GPT.api: {"type": "custom", "name": "sql", **flat},
        CHAT.api: {"type": "custom", "custom": {"name": "sql", **nested}},
    }
    for api, value in by_wire.items():
        tool = ToolSpec(name="sql", dialect=api, value=value)
        for model in (GPT, replace(CHAT, id="gpt-5")):
            (sent,) = il.adapt(request(HI, tools=(tool,)), model).request.context.tools or ()
            assert (sent.dialect, sent.value) == (model.api, by_wire[model.api or ""])
        (function,) = il.adapt(request(HI, tools=(tool,)), CLAUDE).request.context.tools or ()
        assert function.input_schema["properties"]["input"]["description"] == described  # type: ignore[index]


def test_a_paused_turn_keeps_calls_whose_results_are_to_come() -> None:
    """The provider goes on where it stopped, even if a text followed the call."""
    call = ServerToolCall(id="s1", name="web_search", arguments={"query": "x"}, extra={CLAUDE.api: {}})
    for detail, count in (("pause_turn", 2), (None, 1)):
        blocks = (call, TextBlock(text="I search."))
        answer = AssistantMessage(
            content=blocks, api=CLAUDE.api, model=CLAUDE.id, stop_reason="stop", stop_detail=detail
        )
        adapted = il.adapt(request(HI, answer), CLAUDE)
        assert len(blocks_of(adapted.request.context.messages[1].content)) == count


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


def test_a_tool_turn_that_another_model_took_over_ends_without_thinking() -> None:
    """Though it began with Claude's own: what Claude would have to continue is not its own."""
    first, second = (ToolCall(id=id, name="look", arguments={}) for id in ("c1", "c2"))
    thought = ThinkingBlock(thinking="Hm", thinking_signature="c2ln")
    own = AssistantMessage(content=(thought, first), api=CLAUDE.api, model=CLAUDE.id, stop_reason="toolUse")
    other = AssistantMessage(content=(second,), api=GPT.api, model=GPT.id, stop_reason="toolUse")
    found = [ToolResultMessage(tool_call_id=id, tool_name="look", content="x", is_error=False) for id in ("c1", "c2")]
    for last, reasoning in ((other, Reasoning(enabled=False)), (replace(own, content=(thought, second)), THINKING)):
        adapted = il.adapt(request(HI, own, found[0], last, found[1], reasoning=THINKING), CLAUDE).request
        assert (adapted.options.reasoning, adapted.context.messages[1]) == (reasoning, own)


def test_claude_continues_no_answer_while_it_thinks() -> None:
    begun = AssistantMessage(content="It is", api=CLAUDE.api, model=CLAUDE.id)
    source = request(HI, begun, max_tokens=8000)
    assert il.adapt(source, CLAUDE).request.context.messages[-1].role == "assistant"
    thinking = replace(source, options=replace(source.options, reasoning=Reasoning(budget=2048)))
    assert il.adapt(thinking, CLAUDE).request.context.messages[-1].role == "user"


def test_the_beginning_of_an_answer_ends_without_blanks_for_claude() -> None:
    """Anthropic refuses trailing whitespace there."""
    begun = AssistantMessage(content="It is \n", api=CLAUDE.api, model=CLAUDE.id)
    adapted = il.adapt(request(HI, begun, max_tokens=99), CLAUDE)
    assert adapted.request.context.messages[-1].text == "It is"
    assert [(loss.path, loss.what) for loss in adapted.losses] == [("$.messages[1].content.text", "text")]
    assert il.adapt(request(HI, replace(begun, content="It is"), max_tokens=99), CLAUDE).losses == ()
    assert il.adapt(request(HI, begun, HI, max_tokens=99), CLAUDE).losses == ()


def test_the_beginning_of_an_answer_is_marked_for_mistral() -> None:
    """With `prefix`, beside what the message has already."""
    mistral = ModelDescriptor(id="mistral-large", api="openai-completions")
    begun = AssistantMessage(content="It is", extra={mistral.api: {"x": 1}, "other": {"y": 2}})
    sent = il.adapt(request(HI, begun), mistral).request.context.messages[-1]
    assert sent.extra == {mistral.api: {"x": 1, "prefix": True}, "other": {"y": 2}}


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


def test_a_message_without_renamed_calls_is_restored_as_it_is() -> None:
    tools = (ToolSpec(name="look up!", input_schema={"type": "object"}),)
    adapted = il.adapt(request(HI, tools=tools), GPT)
    message = called("look")
    assert adapted.names
    assert adapted.restore(message) is message


def test_a_block_that_a_role_cannot_have_is_dropped() -> None:
    source = request(UserMessage(content=(ThinkingBlock(thinking="Hm."), TextBlock(text="Hello"))))  # type: ignore[arg-type]
    adapted = il.adapt(source, CHAT)
    assert adapted.request.context.messages[0].content == (TextBlock(text="Hello"),)
    assert [(loss.path, loss.what, loss.severity) for loss in adapted.losses] == [
        ("$.messages[0].content[0]", "block", "dropped")
    ]


def test_a_message_of_which_nothing_is_left_is_dropped() -> None:
    adapted = il.adapt(request(HI, AssistantMessage(content=" "), HI, max_tokens=99), CLAUDE)
    assert [message.text for message in adapted.request.context.messages] == ["Hello", "Hello"]
    assert ("$.messages[1]", "message", "dropped") in {(x.path, x.what, x.severity) for x in adapted.losses}


def test_a_result_gets_the_id_and_the_name_of_its_call() -> None:
    call = ToolCall(id="c1", name="look", arguments={}, extra={GPT.api: {"id": "item"}})
    answer = AssistantMessage(content=(call,), api=GPT.api, model=GPT.id)
    found = ToolResultMessage(tool_call_id="item", tool_name="other", content="found", is_error=False)
    adapted = il.adapt(request(HI, answer, found), CHAT)
    assert adapted.request.context.messages[2] == replace(found, tool_call_id="c1", tool_name="look")
    assert {(loss.path, loss.what) for loss in adapted.losses} == {
        ("$.messages[2].toolCallId", "id"),
        ("$.messages[2].toolName", "tool name"),
    }


def test_a_text_signature_of_another_model_is_dropped() -> None:
    content = (TextBlock(text="Yes.", text_signature="c2ln"),)
    foreign = AssistantMessage(content=content, api="google-generative-ai", model="gemini-3-pro")
    adapted = il.adapt(request(HI, foreign, HI), GPT)
    assert adapted.request.context.messages[1].content == (TextBlock(text="Yes."),)
    assert ("$.messages[1].content[0].textSignature", "dropped") in {(x.path, x.severity) for x in adapted.losses}


def test_thinking_before_a_signature_without_text_is_kept() -> None:
    """Gemini sends the signature of its answer in a last part with an empty text."""
    gemini = ModelDescriptor(id="gemini-3-pro", api="google-generative-ai")
    content = (ThinkingBlock(thinking="Hm"), TextBlock(text="", text_signature="c2ln"))
    source = request(HI, AssistantMessage(content=content, api=gemini.api, model=gemini.id), HI)
    adapted = il.adapt(source, gemini)
    assert (adapted.request.context.messages, adapted.losses) == (source.context.messages, ())


def test_a_tool_is_offered_once_and_only_where_it_can_run() -> None:
    own = ToolSpec(name="web_search", dialect=CLAUDE.api, value={"type": "web_search_20250305", "name": "web_search"})
    look = ToolSpec(name="look", description="first", input_schema={"type": "object", "properties": {}})
    source = request(HI, tools=(own, look, replace(look, description="second")))
    adapted = il.adapt(source, CHAT)
    assert adapted.request.context.tools == (look,)
    assert [(loss.path, loss.what, loss.severity) for loss in adapted.losses] == [
        ("$.tools[0]", "tool", "dropped"),
        ("$.tools[2]", "tool", "dropped"),
    ]
    assert adapted.source("$.tools[0].name") == "$.tools[1].name"
    assert [tool.name for tool in il.adapt(source, CLAUDE).request.context.tools or ()] == ["web_search", "look"]


def test_what_a_tool_loses_is_at_its_place_in_the_source() -> None:
    """Whatever was dropped before it."""
    own = ToolSpec(name="web_search", dialect=CLAUDE.api, value={"type": "web_search_20250305", "name": "web_search"})
    marked = ToolSpec(name="look", input_schema={"type": "object", "properties": {}}, cache=CacheMarker())
    adapted = il.adapt(request(HI, tools=(own, marked)), CHAT)
    assert [loss.path for loss in adapted.losses] == ["$.tools[0]", "$.tools[1].cache"]


@pytest.mark.parametrize(
    "custom",
    [None, "text", {"name": "patch", "description": "Patches."}, {"name": "patch", "format": {"type": "text"}}],
)
def test_a_custom_tool_of_the_chat_wire_needs_a_definition(custom: Any) -> None:
    """With one it becomes a function elsewhere; without, it is a tool that only its wire can run."""
    tool = ToolSpec(name="patch", dialect=CHAT.api, value={"type": "custom", "custom": custom})
    adapted = il.adapt(request(HI, tools=(tool,)), CLAUDE)
    tools = adapted.request.context.tools or ()
    if not isinstance(custom, dict):
        assert tools == ()
        return
    (function,) = tools
    assert (function.name, function.dialect, function.description) == ("patch", None, custom.get("description"))
    assert function.input_schema == {
        "type": "object",
        "properties": {"input": {"type": "string", "description": "The whole input, as free text."}},
        "required": ["input"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("name", ["no id!", "", "x" * 100])
def test_a_generated_id_avoids_those_in_use(name: str) -> None:
    rule = WIRES[CLAUDE.api].limits.ids
    assert rule is not None
    used: set[str] = set()
    for _ in range(3):
        used.add(fitting(name, 0, rule, used))
    assert len(used) == 3
    assert all(map(rule.allows, used))


@pytest.mark.parametrize(("given", "sent", "losses"), [(99, 99, 0), (100, 100, 0), (101, 100, 1)])
def test_a_limit_is_lowered_only_above_what_the_model_gives(given: int, sent: int, losses: int) -> None:
    adapted = il.adapt(request(HI, max_tokens=given), replace(CHAT, max_tokens=100))
    assert (adapted.request.options.max_tokens, len(adapted.losses)) == (sent, losses)


@pytest.mark.parametrize(("api", "kept"), [("", None), ("anthropic-messages", 0.5)])
def test_a_model_without_a_wire_is_one_of_the_target(api: str, kept: float | None) -> None:
    """The id of another wire's model is still to be replaced: its rules do not hold for what is sent."""
    source = replace(request(HI, temperature=0.5), model=ModelDescriptor(id="gpt-5", api=api))
    assert il.adapt(source, "openai-completions").request.options.temperature == kept


@pytest.mark.parametrize(("model", "kept"), [("o3", None), ("gpt-4o", False), ("gpt-5", False), ("some-model", False)])
def test_parallel_calls_are_no_option_of_some_models(model: str, kept: bool | None) -> None:
    tools = (ToolSpec(name="look", input_schema={"type": "object", "properties": {}}),)
    target = ModelDescriptor(id=model, api="openai-completions")
    adapted = il.adapt(request(HI, tools=tools, parallel_tools=False), target)
    assert adapted.request.options.parallel_tools is kept
    assert [loss.path for loss in adapted.losses] == ([] if kept is False else ["$.options.parallelTools"])


@pytest.mark.parametrize(
    ("target", "summary"),
    [
        (ModelDescriptor(id="claude-opus-4-7", api="anthropic-messages"), "auto"),
        (ModelDescriptor(id="us.anthropic.claude-opus-4-7", api="bedrock-converse-stream"), "auto"),
        (ModelDescriptor(id="anthropic/claude-opus-4.7", api="openai-completions"), None),
        (CLAUDE, None),
    ],
    ids=lambda value: getattr(value, "api", value),
)
def test_thinking_is_made_visible_where_it_is_hidden_by_default(target: ModelDescriptor, summary: str | None) -> None:
    """From Opus 4.7 on, where the wire has an option for it; a choice of the caller stays."""
    source = request(HI, reasoning=Reasoning(effort="high"), max_tokens=9000)
    reasoning = il.adapt(source, target).request.options.reasoning
    assert reasoning is not None and reasoning.summary == summary
    chosen = replace(source, options=replace(source.options, reasoning=Reasoning(effort="high", summary="none")))
    reasoning = il.adapt(chosen, target).request.options.reasoning
    assert reasoning is not None and reasoning.summary == "none"
    off = replace(source, options=replace(source.options, reasoning=Reasoning(enabled=False)))
    assert il.adapt(off, target).request.options.reasoning in (None, Reasoning(enabled=False))


# --- requests of one kind, adapted again and again -------------------------------------------------------------------

PLAIN = request(HI, AssistantMessage(content="Yes."), UserMessage(content="More."), system="Be brief.")
ANSWER = PLAIN.context.messages[1]


def spoiled(*messages: Any, **fields: Any) -> Request:
    """The plain request with other messages, or another context."""
    context = replace(PLAIN.context, **({"messages": messages} if messages else {}), **fields)
    return replace(PLAIN, context=context)


def marked(**fields: Any) -> Request:
    return spoiled(UserMessage(content=(TextBlock(**{"text": "a", **fields}),)))


@pytest.mark.parametrize("target", [CLAUDE, GPT, CHAT, BEDROCK_CLAUDE], ids=lambda target: target.api)
@pytest.mark.parametrize(
    "source",
    [
        PLAIN,
        spoiled(HI),
        spoiled(HI, ANSWER),
        spoiled(HI, HI, HI),
        spoiled(ANSWER, HI, ANSWER),
        spoiled(replace(HI, extra={CHAT.api: {"name": "x"}})),
        spoiled(HI, replace(ANSWER, stop_reason="error"), HI),
        spoiled(HI, replace(ANSWER, stop_reason="aborted"), HI),
        spoiled(UserMessage(content=" ")),
        spoiled(UserMessage(content="a\ud800")),
        spoiled(UserMessage(content=())),
        spoiled(system=" "),
        spoiled(system=(TextBlock(text="Be."), TextBlock(text=" "))),
        spoiled(system_role="developer"),
        spoiled(tools=(ToolSpec(name="look up!", input_schema={"type": "object"}),)),
        spoiled(extra={CHAT.api: {"x": 1}}),
        marked(),
        marked(text=" "),
        marked(text="\ud800"),
        marked(cache=CacheMarker()),
        marked(text_signature="c2ln"),
        marked(refusal=True),
        marked(citations=(Citation(cited_text="x"),)),
        marked(extra={CHAT.api: {"x": 1}}),
        spoiled(UserMessage(content=(ThinkingBlock(thinking="Hm."),))),  # type: ignore[arg-type]
        spoiled(UserMessage(content="word " * 100)),
        replace(PLAIN, extra={GPT.api: {"previous_response_id": "r"}}),
        replace(PLAIN, model=ModelDescriptor(id="other", api=CHAT.api)),
        replace(PLAIN, options=Options(temperature=0.5, max_tokens=10**30)),
        replace(PLAIN, options=Options(cache_retention="short")),
    ],
)
def test_what_is_remembered_of_plain_requests_holds_for_no_others(target: ModelDescriptor, source: Request) -> None:
    """Whatever was adapted before for the same target."""
    target = replace(target, context_window=8000, max_tokens=7900)
    adapter = RepeatedAdapter(target)
    for before in (PLAIN, spoiled(HI), spoiled(UserMessage(content=(TextBlock(text="long enough"),)))):
        adapter(before)
    for _ in range(2):
        expected, actual = il.adapt(source, target, caching=True), adapter(source)
        assert (expected.request, expected.losses) == (actual.request, actual.losses)
        assert (expected.places, expected.warnings, expected.names) == (actual.places, actual.warnings, actual.names)
        for path in ("$.messages[0]", "$.messages[0].content[0]", "$.messages[0].content[0].text", "$.system[0].text"):
            if path.startswith("$.system") or expected.request.context.messages[0].content:
                assert expected.source(path) == actual.source(path)


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


# --- calls of the provider -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("after", "last"),
    [
        ((), ServerToolCall),
        ((TextBlock(text="Or not"),), TextBlock),
        ((TextBlock(text=" "),), TextBlock),
        ((ThinkingBlock(thinking="Hm"),), TextBlock),
    ],
)
def test_a_call_of_the_provider_without_result_is_sent_only_at_the_end_of_a_turn(after: Any, last: type) -> None:
    """
    What follows it shows that the turn was not paused: the model is asked to go on, and the call has no result.
    """
    search = ServerToolCall(id="s1", name="web_search", arguments={"query": "x"})
    paused = AssistantMessage(content=(TextBlock(text="So"), search, *after), api=CLAUDE.api, model=CLAUDE.id)
    once = il.adapt(request(HI, paused, max_tokens=4000, reasoning=Reasoning(budget=2000)), CLAUDE)
    assert il.adapt(once.request, CLAUDE).losses == ()
    assert [found for found in il.check(once.request, target=CLAUDE) if found.severity == "error"] == []
    assert type(blocks_of(once.request.context.messages[1].content)[-1]) is last


def test_thinking_before_a_document_that_is_blank_is_dropped() -> None:
    """
    The document is sent as its text, which is left out: nothing follows the thinking.
    """
    thought = ThinkingBlock(thinking="Hm", thinking_signature="c2lnbmVk")
    blank = DocumentBlock(text=" ", mime_type="text/plain")
    turn = AssistantMessage(content=(TextBlock(text="So"), thought, blank), api=CLAUDE.api, model=CLAUDE.id)
    once = il.adapt(request(HI, turn, HI), CLAUDE)
    assert blocks_of(once.request.context.messages[1].content) == (TextBlock(text="So"),)
    assert il.adapt(once.request, CLAUDE).losses == ()


def test_thinking_before_a_blank_text_that_another_model_signed_is_dropped() -> None:
    """
    The signature is not sent, and so the text is left out.
    """
    thought = ThinkingBlock(thinking="Hm", thinking_signature="c2lnbmVk")
    turn = AssistantMessage(content=(TextBlock(text="So"), thought), api=CLAUDE.api, model=CLAUDE.id)
    other = AssistantMessage(content=(TextBlock(text=" ", text_signature="c2ln"),), api="google-generative-ai")
    once = il.adapt(request(HI, turn, other, HI), CLAUDE)
    assert blocks_of(once.request.context.messages[1].content) == (TextBlock(text="So"),)
    assert il.adapt(once.request, CLAUDE).losses == ()


# --- cost ------------------------------------------------------------------------------------------------------------


def searches(count: int) -> tuple[AssistantMessage, ...]:
    found = [{"type": "web_search_tool_result_error", "error_code": "unavailable"}]
    blocks: list[Block] = []
    for at in range(count):
        blocks += [
            ServerToolCall(id=f"s{at}", name="web_search", arguments={}),
            ServerToolResult(tool_call_id=f"s{at}", tool_name="web_search", dialect=CLAUDE.api, content=found),
        ]
    return (AssistantMessage(content=blocks, api=CLAUDE.api, model=CLAUDE.id),)


def pictures(count: int) -> tuple[Message, ...]:
    picture = ImageBlock(data=PNG, mime_type="image/png")
    results = [
        ToolResultMessage(tool_call_id=f"c{at}", tool_name="look", content=(picture,), is_error=False)
        for at in range(count)
    ]
    return called(*["look"] * count), *results


MANY: dict[str, Callable[[int], tuple[Message, ...]]] = {
    "searches": searches,
    "pending searches": lambda count: (replace(searches(count)[0], content=searches(count)[0].content[::2]),),  # type: ignore[index]
    "rows of searches": lambda count: tuple(searches(1)[0] for _ in range(count)),
    "thoughts": lambda count: (AssistantMessage(content=[ThinkingBlock(thinking="Hm") for _ in range(count)]),),
    "rows of thoughts": lambda count: tuple(
        AssistantMessage(content=[ThinkingBlock(thinking="Hm")]) for _ in range(count)
    ),
    "system messages": lambda count: tuple(SystemMessage(content="Be brief.") for _ in range(count)),
    "pictures in results": pictures,
}


@pytest.mark.parametrize("model", [CLAUDE, GPT, LLAMA], ids=lambda model: model.api)
@pytest.mark.parametrize("kind", MANY)
def test_four_times_the_blocks_cost_four_times_the_calls(kind: str, model: ModelDescriptor) -> None:
    """
    No pass looks at all blocks for each block; nor does decoding what was sent.
    """

    def work(count: int) -> Callable[[], Any]:
        source, wire = request(HI, *MANY[kind](count)), WIRES[model.api].codec

        def go() -> None:
            wire.decode_request(wire.encode_request(il.adapt(source, model).request).body)

        return go

    work(2)()
    few, many = (calls_of(work(count)).total() for count in (50, 200))
    assert many <= 4.5 * few
