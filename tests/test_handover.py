"""adapt, case by case: situations that broke other systems, what `check` says of them, and what `adapt` makes of them.

The numbers are those of a list of such situations, told in the docstrings.
"""

import base64
import json
import struct
from typing import Any

import pytest
from msgspec.structs import replace

import interlingua as il
from interlingua.conversion import schemas
from interlingua.conversion.adapting.adapter import structural_repairs
from interlingua.conversion.adapting.work import CONTINUED, NO_OUTPUT, NO_RESULT
from interlingua.dialects import WIRES
from interlingua.dialects.results import PLACEHOLDER
from interlingua.values.messages import (
    AssistantMessage,
    AudioBlock,
    CacheMarker,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
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
from sdk.validators import VALIDATORS
from strategies import PNG

CLAUDE = ModelDescriptor(id="claude-sonnet-4-5", api="anthropic-messages")
BEDROCK_CLAUDE = ModelDescriptor(id="us.anthropic.claude-sonnet-4-5", api="bedrock-converse-stream")
GPT = ModelDescriptor(id="gpt-5", api="openai-responses")
CHAT = ModelDescriptor(id="gpt-4o", api="openai-completions")
GEMINI = ModelDescriptor(id="gemini-2.5-pro", api="google-generative-ai")
GEMINI_3 = ModelDescriptor(id="gemini-3-pro", api="google-generative-ai")
MISTRAL = ModelDescriptor(id="mistral-large", api="openai-completions")
STRICT_CHAT = ModelDescriptor(id="some-model", api="openai-completions", compat={"mergeTurns": True})
LLAMA = ModelDescriptor(id="llama3.3", api="ollama-chat")
ALL = [CLAUDE, BEDROCK_CLAUDE, GPT, CHAT, GEMINI, GEMINI_3, MISTRAL, LLAMA]
every_target = pytest.mark.parametrize("target", ALL, ids=lambda target: target.id)

HI = UserMessage(content="Hello")
SEARCH = ToolSpec(name="search", description="Searches", input_schema={"type": "object", "properties": {}})


def request(*messages: Any, tools: Any = (SEARCH,), system: Any = None, **options: Any) -> Request:
    options = {"max_tokens": 8000, **options}
    return Request(
        model=ModelDescriptor(id=""),
        context=Context(messages=messages, tools=tools, system=system),
        options=Options(**options),
    )


def call(id: str = "c1", name: str = "search", **fields: Any) -> ToolCall:
    return ToolCall(id=id, name=name, arguments={"q": 1}, **fields)


def result(id: str = "c1", text: str = "found", **fields: Any) -> ToolResultMessage:
    return ToolResultMessage(**{"tool_call_id": id, "content": (TextBlock(text=text),), "is_error": False, **fields})


def answer_from(model: ModelDescriptor, *blocks: Any, **fields: Any) -> AssistantMessage:
    return AssistantMessage(content=blocks, api=model.api, model=model.id, **fields)


def repaired(source: Request, target: ModelDescriptor, **how: Any) -> Request:
    """The request as the target gets it; the vendor's own types accept it, and nothing is left to mend."""
    adapted = il.adapt(source, target, **how).request
    body = json.loads(json.dumps(il.dialect(target.api).encode_request(adapted).body))
    if target is MISTRAL:
        body["messages"][-1].pop("prefix", None)  # Mistral's own word, which OpenAI's types do not know
    assert VALIDATORS[target.api](body) == []
    assert il.adapt(adapted, target).losses == ()
    return adapted


def body_of(source: Request, target: ModelDescriptor) -> Any:
    return il.dialect(target.api).encode_request(repaired(source, target)).body


def faults(source: Request, target: ModelDescriptor | None = None) -> list[tuple[str, str]]:
    return [(f.severity, f.path) for f in il.check(source, target=target)]


def blocks_of(source: Request) -> list[Any]:
    return [block for message in source.context.messages for block in il.values.messages.blocks_of(message.content)]


def thinking_in(source: Request) -> list[str]:
    return [block.thinking for block in blocks_of(source) if isinstance(block, ThinkingBlock)]


# --- thinking and signatures -----------------------------------------------------------------------------------------

SIGNED = ThinkingBlock(thinking="Let me see.", thinking_signature="c2lnbmVk")


@pytest.mark.parametrize("target", [t for t in ALL if t not in (CLAUDE, BEDROCK_CLAUDE)], ids=lambda t: t.id)
def test_case_01_foreign_thinking_is_dropped_and_never_encoded_in_tags(target: ModelDescriptor) -> None:
    """
    Reasoning of another vendor does not go into the model's own words, unless one asks for it as plain text.
    """
    source = request(HI, answer_from(CLAUDE, SIGNED, TextBlock(text="Hm.")), HI)
    assert "Let me see." not in str(body_of(source, target))
    assert ("warning", "$.messages[1].content[0]") in faults(source, target)
    asked = repaired(source, target, thinking="text").context.messages[1].content
    assert asked == (TextBlock(text="Let me see."), TextBlock(text="Hm."))


def test_case_01_thinking_that_lost_its_signature_is_dropped() -> None:
    """
    Claude refuses its own thinking without the signature.
    """
    source = request(HI, answer_from(CLAUDE, replace(SIGNED, thinking_signature=None), TextBlock(text="Hm.")), HI)
    assert thinking_in(repaired(source, CLAUDE)) == []


@pytest.mark.parametrize(("signer", "target"), [(BEDROCK_CLAUDE, CLAUDE), (CLAUDE, BEDROCK_CLAUDE), (CLAUDE, CLAUDE)])
def test_case_02_one_claude_verifies_what_another_signed(signer: ModelDescriptor, target: ModelDescriptor) -> None:
    """
    The family decides, not the host: the block stays, and so does 'must start with thinking'.
    """
    source = request(HI, answer_from(signer, SIGNED, call()), result(), reasoning=Reasoning(budget=2000))
    adapted = repaired(source, target)
    assert thinking_in(adapted) == ["Let me see."]
    assert adapted.options.reasoning == Reasoning(budget=2000)


def test_case_02_another_family_on_the_same_host_does_not() -> None:
    """
    Claude's signature means nothing to Nova, though both speak Converse.
    """
    nova = ModelDescriptor(id="amazon.nova-pro-v1:0", api="bedrock-converse-stream")
    assert (
        thinking_in(repaired(request(HI, answer_from(BEDROCK_CLAUDE, SIGNED, TextBlock(text="Hm.")), HI), nova)) == []
    )


@pytest.mark.parametrize("target", [CLAUDE, BEDROCK_CLAUDE], ids=lambda t: t.id)
def test_case_03_thinking_goes_off_while_the_tool_turn_of_another_model_is_open(target: ModelDescriptor) -> None:
    """
    The foreign block is stripped and the request is still valid; once the loop is closed, thinking is on again.
    """
    source = request(HI, answer_from(GPT, SIGNED, call()), result(), reasoning=Reasoning(budget=2000))
    assert repaired(source, target).options.reasoning == Reasoning(enabled=False)
    assert ("error", "$.options.reasoning") in faults(source, target)
    closed = replace(source, context=replace(source.context, messages=(*source.context.messages, HI)))
    assert repaired(closed, target).options.reasoning == Reasoning(budget=2000)


def test_calls_of_one_id_get_the_same_ids_each_time() -> None:
    """
    On the wires that pair within a step also if the step has several messages.
    """
    results = [result("c", text=text) for text in "123"]
    source = request(HI, answer_from(CHAT, call("c"), call("c"), call("c")), *results, HI)
    asked, *answered = repaired(source, CLAUDE).context.messages[1:5]
    ids = ["c", "c_6b96aa814af3", "c_3c5801b455b6"]
    assert [one.id for one in asked.tool_calls] == ids == [one.tool_call_id for one in answered]
    step = request(HI, answer_from(CHAT, call("c")), answer_from(CHAT, call("c")), *results[:2], HI)
    messages = il.adapt(step, GEMINI).request.context.messages
    assert [one.id for message in messages[1:3] for one in message.tool_calls] == ids[:2]


def test_a_result_belongs_to_the_last_call_before_it() -> None:
    ask = answer_from(CHAT, call("c"))
    messages = repaired(request(HI, ask, HI, ask, result("c")), CHAT).context.messages
    texts = [message.content for message in messages if isinstance(message, ToolResultMessage)]
    assert texts == [(TextBlock(text=NO_RESULT),), (TextBlock(text="found"),)]


@pytest.mark.parametrize("target", [BEDROCK_CLAUDE, STRICT_CHAT], ids=lambda t: t.id)
def test_only_a_user_message_joins_the_results_before_it(target: ModelDescriptor) -> None:
    """
    Where turns alternate; what else is known of it is kept.
    """
    ask = answer_from(target, call("c1"), call("c2"))
    extra = {target.api: {"a": 1}, "elsewhere": {"b": 2}}
    done = (ask, result("c1"), result("c2"), answer_from(target, TextBlock(text="Yes.")))
    source = request(HI, *done, HI, answer_from(target, call()), result(), replace(HI, extra=extra))
    messages = il.adapt(source, target).request.context.messages
    assert [message.extra for message in messages[:-1]] == [{}] * 8
    assert messages[-1].extra == {**extra, target.api: {"a": 1, "~joined": True}}


def test_case_05_a_call_without_signature_gets_the_documented_marker_and_no_invented_one() -> None:
    """
    Gemini 3 wants signed calls; of parallel ones only the first.
    """
    source = request(HI, answer_from(CLAUDE, call("c1"), call("c2")), result("c1"), result("c2"))
    calls = repaired(source, GEMINI_3).context.messages[1].tool_calls
    assert [c.thought_signature for c in calls] == ["skip_thought_signature_validator", None]
    assert [c.thought_signature for c in repaired(source, GEMINI).context.messages[1].tool_calls] == [None, None]


def test_case_06_reasoning_that_nothing_follows_is_not_sent() -> None:
    """
    A turn cut off while thinking leaves a reasoning item alone, which the Responses wire and Claude refuse.
    """
    for model in (GPT, CLAUDE):
        cut = answer_from(model, TextBlock(text="So:"), SIGNED, stop_reason="length")
        assert thinking_in(repaired(request(HI, cut, HI), model)) == []
        assert repaired(request(HI, answer_from(model, SIGNED), HI), model).context.messages[0] == HI


def test_case_07_a_call_without_its_reasoning_stands_alone() -> None:
    """
    Where the reasoning item goes, the item ids that belong to it go too; together they stay.
    """
    item = {"openai-responses": {"id": "fc_1"}}
    thought = ThinkingBlock(thinking="", thinking_signature="c2VhbGVk", extra={"openai-responses": {"id": "rs_1"}})
    kept = body_of(request(HI, answer_from(GPT, thought, call(extra=item)), result()), GPT)["input"]
    assert [entry.get("id") for entry in kept[1:3]] == ["rs_1", "fc_1"]
    lost = request(HI, answer_from(GPT, replace(thought, thinking_signature=None), call(extra=item)), result())
    assert all("id" not in entry for entry in body_of(lost, GPT)["input"])


@pytest.mark.parametrize("target", [CLAUDE, BEDROCK_CLAUDE], ids=lambda t: t.id)
def test_case_15_a_tool_cannot_be_forced_while_claude_thinks(target: ModelDescriptor) -> None:
    """
    Check says so before the call; adapt keeps the thinking and leaves the choice to the model.
    """
    source = request(HI, reasoning=Reasoning(budget=2000), tool_choice=ToolChoice(mode="required"), temperature=0.5)
    assert ("error", "$.options.toolChoice") in faults(source, target)
    options = repaired(source, target).options
    assert (options.tool_choice, options.temperature) == (ToolChoice(mode="auto"), None)
    assert options.reasoning == Reasoning(budget=2000)


def test_a_thinking_budget_fits_into_the_limit_of_the_answer() -> None:
    """
    Claude's limit holds thinking and answer; where there is no room to think, thinking goes off.
    """
    source = request(HI, reasoning=Reasoning(budget=9000))
    assert repaired(source, CLAUDE).options.reasoning == Reasoning(budget=7999)
    small = replace(source, options=replace(source.options, max_tokens=500))
    assert repaired(small, CLAUDE).options.reasoning == Reasoning(enabled=False)


# --- ids, names, pairing, order --------------------------------------------------------------------------------------

LONG = "call_" + "x" * 450
OTHER_LONG = LONG + "|fc_1"


@every_target
@pytest.mark.parametrize("id", [LONG, "", "::", "call_1|fc_2", "a b", "ünïcode"])
def test_case_20_to_23_ids_are_such_as_the_target_takes(target: ModelDescriptor, id: str) -> None:
    """
    Long, empty and illegal ids are rewritten the same way each time, call and result together, never to nothing.
    """
    source = request(HI, answer_from(CLAUDE, call(id), call(OTHER_LONG)), result(OTHER_LONG), result(id))
    adapted = il.adapt(source, target)
    calls = repaired(source, target).context.messages[1].tool_calls
    results = [m.tool_call_id for m in adapted.request.context.messages if isinstance(m, ToolResultMessage)]
    assert results == [c.id for c in calls]
    assert len(set(results)) == 2
    assert [adapted.ids.get(new, new) for new in results] == [id, OTHER_LONG]
    assert all(results)
    rule = il.dialects.registry.limits_of(target).ids
    assert rule is None or all(map(rule.allows, results))


def test_case_20_mistral_takes_nine_letters_and_digits() -> None:
    """
    By the model's name on the chat wire, or by what its host says of itself.
    """
    source = request(HI, answer_from(CLAUDE, call("toolu_01ABC")), result("toolu_01ABC"))
    short_ids = replace(CHAT, compat={"toolCallIdLength": 9})
    for target in (MISTRAL, short_ids):
        (made,) = repaired(source, target).context.messages[1].tool_calls
        assert made.id.isalnum()
        assert len(made.id) == 9
    assert ("error", "$.messages[1].content[0].id") in faults(source, MISTRAL)


def test_case_22_empty_ids_are_a_fault_without_any_target() -> None:
    """
    A stored call needs an id.
    """
    source = request(HI, answer_from(LLAMA, call("")), result(""))
    assert faults(source) == [("error", "$.messages[1].content[0].id"), ("error", "$.messages[2].toolCallId")]


def test_case_24_a_result_may_name_either_id_of_its_call() -> None:
    """
    Calls of the Responses wire have two ids, and a result that refers to the item's is no orphan.
    """
    source = request(HI, answer_from(GPT, call("call_1", extra={"openai-responses": {"id": "fc_1"}})), result("fc_1"))
    assert repaired(source, CLAUDE).context.messages[2].tool_call_id == "call_1"


PARALLEL = request(
    HI,
    answer_from(CHAT, call("c1"), call("c2"), call("c3")),
    result("c3", "three"),
    UserMessage(content="Are you there?"),
    result("c1", "one"),
    result("c2", "two"),
)


@every_target
def test_case_26_results_follow_their_calls_in_call_order(target: ModelDescriptor) -> None:
    """
    However the tools finished, and whatever was said meanwhile, which comes after.
    """
    messages = repaired(PARALLEL, target).context.messages
    assert [m.content[0].text for m in messages[2:5]] == ["one", "two", "three"]
    assert isinstance(messages[6 if target is MISTRAL else 5], UserMessage)
    assert ("error", "$.messages[2]") in faults(PARALLEL)


@pytest.mark.parametrize("target", [GEMINI, BEDROCK_CLAUDE, CLAUDE], ids=lambda t: t.id)
def test_case_25_parallel_results_travel_in_one_turn(target: ModelDescriptor) -> None:
    """
    As many results as calls, in one message, with the user's words behind them.
    """
    body = body_of(PARALLEL, target)
    turns = body.get("contents") or body["messages"]
    assert [turn["role"] for turn in turns[:3]] == ["user", turns[1]["role"], "user"]
    parts = turns[2].get("parts") or turns[2]["content"]
    kinds = [next(iter(part)) if "type" not in part else part["type"] for part in parts[:3]]
    assert len(set(kinds)) == 1
    assert kinds[0] in ("functionResponse", "toolResult", "tool_result")


@every_target
def test_case_27_28_a_call_without_result_gets_one_that_says_so(target: ModelDescriptor) -> None:
    """
    In neutral words, marked as made up; at the end of the history too; the second time nothing changes.
    """
    source = request(HI, answer_from(CHAT, call("c1")), HI, answer_from(CHAT, call("c2")))
    messages = repaired(source, target).context.messages
    added = [m for m in messages if isinstance(m, ToolResultMessage)]
    assert [c.id for m in messages if isinstance(m, AssistantMessage) for c in m.tool_calls] == [
        m.tool_call_id for m in added
    ]
    assert all(m.content == (TextBlock(text=NO_RESULT),) and m.is_error for m in added)
    assert all(m.extra["interlingua"] == {"synthetic": True} for m in added)
    assert faults(source) == [("error", "$.messages[1].content[0]"), ("error", "$.messages[3].content[0]")]


@every_target
def test_case_29_results_without_calls_are_removed_and_missing_ones_added(target: ModelDescriptor) -> None:
    """
    Ids with nothing in common do not add up to more results than calls.
    """
    source = request(result("zz"), HI, answer_from(CHAT, call("c1")), result("x1"), result("c1"), result("c1"), HI)
    results = [m for m in repaired(source, target).context.messages if isinstance(m, ToolResultMessage)]
    assert len(results) == 1
    assert [path for _, path in faults(source)] == ["$.messages[0]", "$.messages[3]", "$.messages[5]"]


@every_target
def test_failed_turns_go_with_their_results(target: ModelDescriptor) -> None:
    """
    Errored and aborted turns are kept in the transcript and not sent, nor are results of their calls.
    """
    source = request(HI, answer_from(CHAT, call("c1"), stop_reason="aborted"), result("c1"), HI)
    assert not any(isinstance(m, ToolResultMessage) for m in repaired(source, target).context.messages)
    assert faults(source) == []


NAMES = ["mcp.server:tool/one", "x" * 200, "two words", "1st", "ünï", "mcp_server_tool_one"]


@every_target
def test_case_32_33_tool_names_are_mapped_one_to_one_and_back(target: ModelDescriptor) -> None:
    """
    In definitions, calls, results and the forced choice alike; no two tools share a name; answers get theirs back.
    """
    tools = tuple(ToolSpec(name=name, input_schema={"type": "object"}) for name in NAMES)
    history = (HI, answer_from(CHAT, call("c1", NAMES[0])), result("c1", tool_name=NAMES[0]))
    source = request(*history, tools=tools, tool_choice=ToolChoice(mode="required", names=(NAMES[0],)))
    adapted = il.adapt(source, target)
    names = [tool.name for tool in repaired(source, target).context.tools or ()]
    assert len(set(names)) == len(NAMES)
    assert [adapted.names.get(name, name) for name in names] == NAMES
    used = adapted.request.context.messages[1].tool_calls[0].name
    assert used == adapted.request.context.messages[2].tool_name == names[0]
    assert adapted.request.options.tool_choice.names == (names[0],)
    answer = adapted.restore(answer_from(target, TextBlock(text="."), call("c9", names[1])))
    assert answer.tool_calls[0].name == NAMES[1]


@every_target
def test_case_33_of_two_tools_with_one_name_the_first_is_offered(target: ModelDescriptor) -> None:
    """
    Duplicates are refused by providers; check names the second one.
    """
    source = request(HI, tools=(SEARCH, replace(SEARCH, description="Another")))
    assert repaired(source, target).context.tools == (SEARCH,)
    assert ("error", "$.tools[1]") in faults(source, target)


def test_case_34_tool_history_comes_with_definitions_where_it_must() -> None:
    """
    Bedrock refuses tool blocks without a tool configuration; plain chats stay without one.
    """
    source = request(HI, answer_from(CHAT, call()), result(), tools=None)
    assert [tool.name for tool in repaired(source, BEDROCK_CLAUDE).context.tools] == ["search"]
    assert ("error", "$.tools") in faults(source, BEDROCK_CLAUDE)
    assert "toolConfig" not in body_of(request(HI, tools=None), BEDROCK_CLAUDE)


@every_target
def test_case_38_past_calls_are_replayed_as_calls(target: ModelDescriptor) -> None:
    """
    No call and no result is told as prose.
    """
    source = request(HI, answer_from(CLAUDE, TextBlock(text="I look."), call()), result(), HI)
    messages = repaired(source, target).context.messages
    assert messages[1].text == "I look."
    assert len(messages[1].tool_calls) == 1
    assert isinstance(messages[2], ToolResultMessage)


@pytest.mark.parametrize("target", [GPT, CHAT, MISTRAL, LLAMA], ids=lambda t: t.id)
def test_a_failure_is_written_as_text_where_there_is_no_flag(target: ModelDescriptor) -> None:
    """
    Else the model takes what went wrong for the answer; once is enough.
    """
    source = request(HI, answer_from(CLAUDE, call()), result(text="no such file", is_error=True), HI)
    assert repaired(source, target).context.messages[2].content == (TextBlock(text="Error: no such file"),)
    assert ("warning", "$.messages[2].content") in faults(source, target)
    with_error = request(HI, answer_from(CLAUDE, call()), result(text="ERROR 404", is_error=True), HI)
    assert repaired(with_error, target).context.messages[2].content == (TextBlock(text="ERROR 404"),)
    assert repaired(source, CLAUDE).context.messages[2] == replace(source.context.messages[2], tool_name="search")


# --- content ---------------------------------------------------------------------------------------------------------


def png(width: int, height: int) -> str:
    return base64.b64encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + b"\x08\x06").decode()


def test_case_60_the_21st_picture_does_not_change_how_the_earlier_ones_are_sent() -> None:
    """
    Past twenty pictures a request takes only smaller ones. What cannot be made smaller keeps its place among the
    first twenty, and it is the later ones that are told in words.
    """
    large, small = (ImageBlock(data=png(side, 10), mime_type="image/png") for side in (3000, 1000))
    few = request(UserMessage(content=(large, small)))
    assert blocks_of(repaired(few, CLAUDE)) == [large, small]
    many = request(UserMessage(content=(large, *[small] * 20)))
    *first, last = blocks_of(repaired(many, CLAUDE))
    assert first == [large, *[small] * 19]
    assert "(image omitted: one of 20 images before it has more than 2000 pixels" in last.text
    assert ("error", "$.messages[0].content[20]") in faults(many, CLAUDE)
    *first, last = blocks_of(repaired(request(UserMessage(content=(*[small] * 20, large))), CLAUDE))
    assert first == [small] * 20
    assert last == TextBlock(text="(image omitted: 3000 by 10 pixels, where 2000 are the most)")
    assert blocks_of(repaired(request(UserMessage(content=(replace(large, data=png(9000, 1)),))), GPT))[0].data


def test_case_61_limits_are_measured_on_what_is_sent() -> None:
    """
    The limit is on base64, a third more than the file.
    """
    size = 5 * 1024 * 1024
    fits, not_quite = (UserMessage(content=(ImageBlock(data=PNG + "A" * n, mime_type="image/png"),)) for n in (0, size))
    assert isinstance(blocks_of(repaired(request(fits), CLAUDE))[0], ImageBlock)
    assert "omitted" in blocks_of(il.adapt(request(not_quite), CLAUDE).request)[0].text


TITLES = ["report v1.2 (final)!.pdf", "a  b", "名前", "", None, "report v1.2 (final)?.pdf", "document", "x" * 300]


def test_case_62_63_documents_have_clean_names_each_once() -> None:
    """
    Bedrock's few characters, single spaces, a length, a numbered name where nothing is left; the source keeps its own.
    """
    documents = [DocumentBlock(data="UERG", mime_type="application/pdf", title=title) for title in TITLES]
    source = request(UserMessage(content=(TextBlock(text="Read"), *documents)))
    roomy = replace(BEDROCK_CLAUDE, compat={"maxDocuments": 10})
    titles = [block.title for block in blocks_of(repaired(source, roomy))[1:]]
    assert titles[:7] == [
        "report v1 2 (final) pdf",
        "a b",
        "document",
        "document 2",
        "document 3",
        "report v1 2 (final) pdf 2",
        "document 4",
    ]
    assert len(titles[7]) <= 200
    assert [block.title for block in blocks_of(source)[1:]] == TITLES


@every_target
def test_case_65_a_media_type_may_have_parameters(target: ModelDescriptor) -> None:
    """
    Parameters, capitals, nicknames and a missing type do not stop a picture.
    """
    for given in ("image/png; charset=binary", "IMAGE/PNG", None):
        (made,) = blocks_of(repaired(request(UserMessage(content=(ImageBlock(data=PNG, mime_type=given),))), target))
        assert (made.mime_type, made.data) == ("image/png", PNG)


@pytest.mark.parametrize("target", [CLAUDE, BEDROCK_CLAUDE, GEMINI], ids=lambda t: t.id)
def test_case_66_blank_text_is_left_out_and_its_cache_marker_moves(target: ModelDescriptor) -> None:
    """
    Beside calls, alone, as a string, in results and in the system text.
    """
    marker = CacheMarker(ttl="5m")
    source = request(
        UserMessage(content=(TextBlock(text="Hello"), TextBlock(text=" \n", cache=marker))),
        answer_from(CHAT, TextBlock(text=""), call()),
        result(text=""),
        answer_from(CHAT, TextBlock(text=" ")),
        UserMessage(content="  "),
        UserMessage(content="Go on"),
        system="  ",
    )
    adapted = repaired(source, target)
    first, second, third, last = adapted.context.messages
    assert first.content == (TextBlock(text="Hello", cache=marker),)
    assert (second.content, third.content) == ((call(),), (TextBlock(text=NO_OUTPUT),))
    assert last.content == "Go on"
    assert adapted.context.system is None
    found = {path: severity for severity, path in faults(source, target)}
    assert {found["$.messages[1].content[0]"], found["$.messages[4]"]} == {"error"}
    # Google answers requests with a blank system text.
    assert found["$.system"] == ("warning" if WIRES[target.api].limits.blank_system else "error")


def test_a_blank_system_text_stays_where_it_is_accepted_and_its_blank_blocks_go_elsewhere() -> None:
    assert repaired(request(HI, system=" "), CHAT).context.system == " "
    blocks = (TextBlock(text=" "), TextBlock(text="Be short."))
    source = request(HI, system=blocks)
    assert repaired(source, CLAUDE).context.system == blocks[1:]
    assert [(loss.path, loss.severity) for loss in il.adapt(source, CLAUDE).losses] == [("$.system", "weakened")]
    assert il.adapt(request(HI, system=()), CLAUDE).losses == ()


@every_target
def test_case_67_68_halves_of_surrogates_go_and_emoji_stay(target: ModelDescriptor) -> None:
    """
    Only what is no Unicode is touched.
    """
    source = request(UserMessage(content="broken \ud83d here"), answer_from(CHAT, TextBlock(text="🙂👩‍👩‍👧")), HI)
    messages = repaired(source, target).context.messages
    assert messages[0].content == "broken \ufffd here"
    assert messages[1].text == "🙂👩‍👩‍👧"
    assert ("error", "$.messages[0].content.text") in faults(source, target)


@pytest.mark.parametrize("target", [CHAT, LLAMA, GEMINI], ids=lambda t: t.id)
def test_pictures_in_results_follow_the_run_of_results(target: ModelDescriptor) -> None:
    """
    In one message of the user's after the last result, never between results.
    """
    picture = ImageBlock(data=PNG, mime_type="image/png")
    source = request(
        HI, answer_from(CLAUDE, call("c1"), call("c2")), result("c1", content=(picture,)), result("c2"), tools=(SEARCH,)
    )
    messages = repaired(source, target).context.messages
    assert [type(m) for m in messages[2:]] == [ToolResultMessage, ToolResultMessage, UserMessage]
    assert messages[4].content[1] == picture
    assert il.adapt(source, target).source("$.messages[4].content[1]") == "$.messages[2].content[0]"


@pytest.mark.parametrize("target", [CHAT, LLAMA], ids=lambda t: t.id)
def test_a_result_of_pictures_alone_gets_a_text_and_an_empty_one_stays_empty(target: ModelDescriptor) -> None:
    """
    The picture and the text in its place are reported.
    """
    picture = ImageBlock(data=PNG, mime_type="image/png")
    both = answer_from(CLAUDE, call("c1"), call("c2"))
    source = request(HI, both, result("c1", content=(picture,)), result("c2", content=()))
    assert [message.content for message in repaired(source, target).context.messages[2:4]] == [
        (TextBlock(text=PLACEHOLDER),),
        (),
    ]
    lost = [(loss.path, loss.what) for loss in il.adapt(source, target).losses]
    assert lost == [("$.messages[2].content[0]", "media"), ("$.messages[2].content", "media")]


UNSEEN = [
    (
        ImageBlock(data="PHN2Zz4=", mime_type="image/svg+xml"),
        "(image omitted: the target takes no image/svg+xml)",
        CLAUDE,
    ),
    (ImageBlock(url="https://example.org/a.png"), "(image omitted: the target takes no images by address)", LLAMA),
    (ImageBlock(), "(image omitted: it is empty)", GPT),
    (DocumentBlock(data="aGk=", mime_type="text/csv"), "hi", CLAUDE),
    (DocumentBlock(text="words"), "words", LLAMA),
    (AudioBlock(data="aGk=", mime_type="audio/wav", transcript="Hi!"), "Hi!", CLAUDE),
    (AudioBlock(data="aGk=", mime_type="audio/ogg"), "(audio omitted: the target takes no audio/ogg)", CHAT),
]


@pytest.mark.parametrize(("block", "text", "target"), UNSEEN)
def test_media_that_the_target_does_not_accept_become_text(block: Any, text: str, target: ModelDescriptor) -> None:
    """
    The document's own words if it has any; else that something was left out, and why.
    """
    source = request(UserMessage(content=(TextBlock(text="See"), block)))
    assert blocks_of(repaired(source, target))[1] == TextBlock(text=text)
    assert ("error", "$.messages[0].content[1]") in faults(source, target)


def test_a_model_that_takes_no_images_is_sent_none() -> None:
    """
    What a model takes is part of its description.
    """
    blind = replace(CHAT, input=("text",))
    source = request(UserMessage(content=(ImageBlock(data=PNG, mime_type="image/png"),)))
    assert blocks_of(repaired(source, blind)) == [TextBlock(text="(image omitted: the model takes no images)")]


@every_target
def test_what_only_other_wires_can_say_leaves_no_empty_turn(target: ModelDescriptor) -> None:
    """
    Opaque blocks, other providers' own calls and unknown roles go, with the message if nothing else is in it.
    """
    opaque = OpaqueBlock(dialect="some-other", value={"type": "x"})
    ran = (
        ServerToolCall(id="s1", name="web_search", arguments={}),
        ServerToolResult(tool_call_id="s1", tool_name="web_search", dialect="some-other", content=[]),
    )
    source = request(
        HI, answer_from(CHAT, opaque), CustomMessage("note", {}), answer_from(CHAT, *ran, TextBlock(text="Hm.")), HI
    )
    assert [m.content for m in repaired(source, target).context.messages[1:2]] == [(TextBlock(text="Hm."),)]


@pytest.mark.parametrize("target", [CLAUDE, BEDROCK_CLAUDE, GEMINI], ids=lambda t: t.id)
def test_later_system_messages_are_encoded_where_the_target_has_a_place(target: ModelDescriptor) -> None:
    """
    The first ones join the system text, later ones are said as the user's words; both are reported.
    """
    source = request(
        SystemMessage(content="Be brief."), HI, SystemMessage(content="Now in French."), system="You help."
    )
    adapted = repaired(source, target)
    assert adapted.context.system == (TextBlock(text="You help."), TextBlock(text="Be brief."))
    assert "Now in French." in str(adapted.context.messages[-1])
    assert {"$.messages[0]", "$.system", "$.messages[2]"} <= {path for _, path in faults(source, target)}
    assert repaired(source, CHAT).context.messages == source.context.messages


@every_target
def test_a_history_without_a_beginning_gets_one(target: ModelDescriptor) -> None:
    """
    An empty request is answered nowhere; some targets want the user to begin.
    """
    assert repaired(request(), target).context.messages[0].content == CONTINUED
    begun = repaired(request(answer_from(CHAT, TextBlock(text="Hi"))), target).context.messages[0]
    assert (begun.content == CONTINUED) == WIRES[target.api].limits.user_first


@pytest.mark.parametrize("target", [BEDROCK_CLAUDE, STRICT_CHAT], ids=lambda t: t.id)
def test_neighbours_become_one_where_turns_alternate(target: ModelDescriptor) -> None:
    """
    String content and blocks are joined alike, and the places lead back.
    """
    source = request(HI, UserMessage(content=(TextBlock(text="And?"),)), answer_from(target, TextBlock(text="Yes")))
    adapted = il.adapt(source, target)
    assert repaired(source, target).context.messages[0].content == (TextBlock(text="Hello"), TextBlock(text="And?"))
    assert adapted.source("$.messages[0].content[1].text") == "$.messages[1].content[0].text"
    assert adapted.places == (0, 2)


# --- several assistant messages in a row are one turn ----------------------------------------------------------------

SPREAD = request(
    HI, answer_from(CHAT, call("c1")), answer_from(CHAT, call("c2")), result("c1", "one"), result("c2", "two"), HI
)


def test_a_call_that_the_provider_has_not_answered_yet_stays_with_a_call_to_the_client() -> None:
    """
    The provider goes on with its own call once it has the result of the other one.
    """
    own = ServerToolCall(id="s1", name="web_search", arguments={}, extra={CLAUDE.api: {}})
    source = request(HI, answer_from(CLAUDE, own, call("c1"), stop_reason="toolUse"), result("c1"))
    assert (own, call("c1")) == il.adapt(source, CLAUDE).request.context.messages[1].content
    ended = request(HI, answer_from(CLAUDE, own, TextBlock(text="So")), HI)
    assert (TextBlock(text="So"),) == il.adapt(ended, CLAUDE).request.context.messages[1].content


def results_in(source: Request) -> list[tuple[str, str]]:
    """Call ids and texts of the results, in order."""
    results = [message for message in source.context.messages if isinstance(message, ToolResultMessage)]
    return [(message.tool_call_id, il.values.messages.text_of(message.content)) for message in results]


@every_target
def test_the_calls_of_a_turn_may_be_spread_over_messages(target: ModelDescriptor) -> None:
    """
    Every call is sent with its own result, wherever the wire wants them.
    """
    source = replace(
        SPREAD, context=replace(SPREAD.context, messages=tuple(map(signed_like(target), SPREAD.context.messages)))
    )
    adapted = repaired(source, target)
    assert [text for _, text in results_in(adapted)] == ["one", "two"]
    calls = [block.id for block in blocks_of(adapted) if isinstance(block, ToolCall)]
    assert [id for id, _ in results_in(adapted)] == calls


def signed_like(target: ModelDescriptor) -> Any:
    return lambda message: (
        replace(message, api=target.api, model=target.id) if isinstance(message, AssistantMessage) else message
    )


@pytest.mark.parametrize("target", [None, CLAUDE, GEMINI, GPT, LLAMA], ids=str)
def test_a_turn_in_several_messages_is_not_wrong_where_it_is_accepted(target: ModelDescriptor | None) -> None:
    """
    Anthropic and Google answer requests with neighbouring messages of the model and of the user; so they are sent.
    """
    source = replace(SPREAD, context=replace(SPREAD.context, messages=(*SPREAD.context.messages, HI)))
    assert faults(source, target) == []


@pytest.mark.parametrize("target", [CHAT, BEDROCK_CLAUDE], ids=lambda t: t.id)
def test_a_turn_in_several_messages_is_joined_where_the_wire_wants_it(target: ModelDescriptor) -> None:
    """
    A chat message with calls wants their results right behind it: the calls go into one message, which is reported.
    """
    adapted = il.adapt(SPREAD, target)
    assert [call.id for call in adapted.request.context.messages[1].tool_calls] == ["c1", "c2"]
    joined = [loss.path for loss in adapted.losses if loss.what == "neighbours"]
    assert [path.partition(".content")[0] for path in sorted(joined)] == ["$.messages[1]", "$.messages[2]"]


@pytest.mark.parametrize(
    ("order", "why"),
    [
        ((0, 1, 3, 2), "answers in another order"),
        ((0, 3, 1, 2), "a result before its call"),
        ((0, 2, 1, 3), "one after the other"),
        ((0, HI, 1, 2, 3), "the user speaks in between"),
        ((0, 1, HI, 2, HI, 3), "results long after"),
        ((0, 1, 2, 2, 3, 3), "results twice"),
        ((0, 1, 3, 0, 2), "an answer between the results"),
        ((3, 2, HI, 0, 1), "all results before all calls"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
@every_target
def test_no_result_is_replaced_wherever_it_stands(target: ModelDescriptor, order: Any, why: str) -> None:
    """
    A result is that of the call with its id, and a placeholder stands only where none was given.
    """
    parts = (answer_from(CHAT, call("c1")), answer_from(CHAT, call("c2")), result("c1", "one"), result("c2", "two"))
    source = request(HI, *(parts[part] if isinstance(part, int) else part for part in order))
    adapted = il.adapt(source, target)
    given = [(adapted.ids.get(id, id), text) for id, text in results_in(repaired(source, target))]
    assert sorted(pair for pair in given if pair[1] != NO_RESULT) == [("c1", "one"), ("c2", "two")]
    assert len(given) == (3 if order.count(0) == 2 else 2)


def test_reasoning_in_a_message_of_its_own_is_kept_with_what_follows() -> None:
    """
    The Responses wire has reasoning, calls and text in items of their own; files keep each as a message.
    """
    source = request(
        HI,
        answer_from(GPT, SIGNED),
        answer_from(GPT, call("c1")),
        result("c1"),
        answer_from(GPT, SIGNED),
        answer_from(GPT, call("c2")),
    )
    assert thinking_in(il.adapt(source, GPT).request) == ["Let me see.", "Let me see."]
    late = request(
        HI, answer_from(GPT, call("c1")), answer_from(GPT, SIGNED), result("c1"), answer_from(GPT, call("c2"))
    )
    assert thinking_in(il.adapt(late, GPT).request) == ["Let me see."]
    assert thinking_in(il.adapt(request(HI, answer_from(GPT, SIGNED), HI), GPT).request) == []


def test_all_reasoning_behind_a_call_goes_with_the_next_one() -> None:
    """
    But no call does, and a message that says nothing stays.
    """
    first, second = answer_from(GPT, call("c1")), answer_from(GPT, call("c2"))
    said, thought = answer_from(GPT, TextBlock(text="I look.")), answer_from(GPT, SIGNED)
    source = request(HI, said, first, thought, thought, result("c1"), second, result("c2"))
    assert il.adapt(source, GPT).places == (0, 1, 2, 5, 3, 4, 6, 7)
    (loss,) = il.adapt(request(HI, first, answer_from(GPT), result("c1"), second, result("c2")), GPT).losses
    assert (loss.path, loss.what) == ("$.messages[2]", "message")


def test_a_call_in_a_message_of_the_user_is_none() -> None:
    """
    It has no result, and its id does not matter.
    """
    source = request(UserMessage(content=(call(""), TextBlock(text="Hi"))), result(""))
    assert [(loss.path, loss.what) for loss in structural_repairs(source)] == [("$.messages[1]", "tool result")]


def test_reasoning_of_a_chat_model_travels_with_the_call_that_follows_it() -> None:
    """
    A chat message must have content or calls: reasoning alone is joined to them.
    """
    kimi = ModelDescriptor(id="kimi-k2-thinking", api="openai-completions")
    source = request(HI, answer_from(kimi, ThinkingBlock(thinking="Hm.")), answer_from(kimi, call("c1")), result("c1"))
    (spoken,) = [m for m in il.adapt(source, kimi).request.context.messages if isinstance(m, AssistantMessage)]
    assert [type(block) for block in spoken.content] == [ThinkingBlock, ToolCall]


def test_a_failed_turn_takes_only_its_own_results_along() -> None:
    """
    The model was asked again and used the same id: the result is that of the call which is sent.
    """
    source = request(
        HI, answer_from(CHAT, call(), stop_reason="error"), answer_from(CHAT, call()), result("c1", "found")
    )
    assert results_in(repaired(source, CHAT)) == [("c1", "found")]


def test_what_a_provider_ran_may_be_spread_over_the_messages_of_a_turn() -> None:
    """
    Session files write each block of an answer as a line: a search and what it found are still a pair.
    """
    run = ServerToolCall(id="s1", name="web_search", arguments={"query": "x"})
    found = ServerToolResult(tool_call_id="s1", tool_name="web_search", dialect=CLAUDE.api, content=[])
    source = request(
        HI, answer_from(CLAUDE, run), answer_from(CLAUDE, found), answer_from(CLAUDE, TextBlock(text="Found.")), HI
    )
    assert il.adapt(source, CLAUDE).losses == ()


@pytest.mark.parametrize("field", ["previous_response_id", "conversation"])
def test_a_result_whose_call_the_provider_keeps_is_sent(field: str) -> None:
    """
    With a response to continue, the call is on the provider's side; elsewhere the result has no call.
    """
    body = {
        "model": "gpt-5",
        field: "resp_1",
        "input": [{"type": "function_call_output", "call_id": "c1", "output": "x"}],
    }
    source = il.dialect("openai-responses").decode_request(body)
    assert il.adapt(source, GPT).losses == ()
    assert il.check(source, target=GPT) == ()
    assert [loss.what for loss in il.adapt(source, CHAT).losses] == ["tool result", "beginning"]


@pytest.mark.parametrize("reasoning", [Reasoning(), Reasoning(enabled=True), Reasoning(effort="low")])
@pytest.mark.parametrize("last", [(), (UserMessage(content=" "),)], ids=["open", "blank"])
def test_thinking_is_off_while_the_turn_of_another_model_waits_for_results(reasoning: Reasoning, last: Any) -> None:
    """
    Also when the result that makes the turn an open one was added, or what stood behind it was left out.
    """
    source = request(HI, answer_from(GPT, call("c1")), *last, reasoning=reasoning)
    asks_nothing = reasoning == Reasoning()
    assert repaired(source, CLAUDE).options.reasoning == (reasoning if asks_nothing else Reasoning(enabled=False))


# --- arguments that are no JSON object -------------------------------------------------------------------------------

BROKEN = ['{"city": "Par', "[1, 2]", '"Paris"', "not json", "{'city': 'Paris'}", '{"a":1}{"a":1}']


def broken(text: str) -> Request:
    wire = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": text}}
    messages = [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": None, "tool_calls": [wire]},
        {"role": "tool", "tool_call_id": "c1", "content": "Error: no JSON"},
    ]
    return il.dialect("openai-completions").decode_request({"model": "gpt-4o", "messages": messages, "max_tokens": 9})


@pytest.mark.parametrize("text", BROKEN)
@every_target
def test_broken_arguments_are_sent_as_an_object_that_shows_them(target: ModelDescriptor, text: str) -> None:
    """
    Strict hosts refuse a conversation with a broken string for ever, and the model should see what it wrote.
    """
    source = broken(text)
    adapted = il.adapt(source, target)
    (made,) = [block for block in blocks_of(repaired(source, target)) if isinstance(block, ToolCall)]
    assert (made.arguments, made.arguments_text, made.parse_error) == ({"invalid_arguments": text}, None, None)
    assert ("$.messages[1].content[0]", "arguments", "weakened") in [
        (x.path, x.what, x.severity) for x in adapted.losses
    ]


@pytest.mark.parametrize("text", [*BROKEN, "", " "])
def test_broken_arguments_come_back_as_they_were_by_the_codec_alone(text: str) -> None:
    """
    Only `adapt` repairs: the record, and what the same dialect makes of it, keep the text.
    """
    body = il.dialect("openai-completions").encode_request(broken(text)).body
    assert body["messages"][1]["tool_calls"][0]["function"]["arguments"] == text


@pytest.mark.parametrize("text", ["", " ", "{broken", "[]"])
def test_no_text_is_sent_that_is_not_what_the_arguments_are(text: str) -> None:
    """
    A call that was built by hand or changed since has no say in what its old text means; blank text is an object.
    """
    made = ToolCall(id="c1", name="search", arguments={}, arguments_text=text)
    body = body_of(request(HI, answer_from(CHAT, made), result()), CHAT)
    sent = json.loads(body["messages"][1]["tool_calls"][0]["function"]["arguments"])
    assert sent == ({} if not text.strip() else {"invalid_arguments": text})


# --- schemas ---------------------------------------------------------------------------------------------------------

TREE = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "title": "Tree",
    "properties": {
        "title": {"type": "string", "examples": ["x"]},
        "pattern": {"const": 3},
        "default": {"oneOf": [{"type": "string"}, {"$ref": "#/$defs/Node"}]},
    },
    "required": ["title", "nowhere"],
    "propertyNames": {"pattern": "^a"},
    "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "unevaluatedItems": False}},
}


def test_case_73_to_77_schemas_are_written_in_gemini_s_words() -> None:
    """
    References inline and bounded, unknown keywords out at every depth, names of parameters untouched; all reported.
    """
    before = json.dumps(TREE)
    source = request(HI, tools=(ToolSpec(name="plant", input_schema=TREE),))
    fitted = repaired(source, GEMINI).context.tools[0].input_schema
    text = json.dumps(fitted)
    assert not any(word in text for word in ("$ref", "$defs", "$schema", "propertyNames", "examples", "const", "oneOf"))
    assert list(fitted["properties"]) == ["title", "pattern", "default"]
    assert fitted["properties"]["pattern"] == {"type": "integer", "description": "One of: 3"}
    assert fitted["properties"]["default"]["anyOf"][0] == {"type": "string"}
    assert fitted["required"] == ["title"]
    (loss,) = il.adapt(source, GEMINI).losses
    assert loss.path == "$.tools[0].input_schema"
    assert "properties.title.examples" in loss.why
    assert "properties.default.anyOf[1].unevaluatedItems" in loss.why
    assert json.dumps(TREE) == before
    assert repaired(source, CLAUDE).context.tools[0].input_schema == TREE


SCHEMAS: list[tuple[Any, Any, list[str]]] = [
    ({"type": ["string", "null"]}, {"type": ["string", "null"]}, []),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}, []),
    (
        {"allOf": [{"type": "object", "required": []}, {"title": "x"}]},
        {"type": "object", "required": [], "title": "x"},
        [],
    ),
    ({"type": "string", "allOf": [{"type": "integer"}]}, {"type": "string"}, ["allOf[0].type"]),
    ({"$ref": "#"}, {}, ["$ref"]),
    ({"$ref": "https://example.org/s"}, {}, ["$ref"]),
    ({"properties": {"a": True}}, {"properties": {"a": True}}, []),
    (True, True, []),
]


@pytest.mark.parametrize(("schema", "fitted", "removed"), SCHEMAS)
def test_schemas_fit(schema: Any, fitted: Any, removed: list[str]) -> None:
    """
    What can be said otherwise is; what cannot is named.
    """
    assert schemas.fit(schema, "gemini") == (fitted, removed)


def test_case_78_strict_does_not_leak_to_targets_that_do_not_know_it() -> None:
    """
    A vendor's option is for that vendor.
    """
    source = request(HI, tools=(replace(SEARCH, strict=True),))
    for target in (GEMINI, LLAMA):
        assert "strict" not in str(body_of(source, target))


# --- caching, options ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", [CLAUDE, BEDROCK_CLAUDE], ids=lambda t: t.id)
def test_case_88_at_most_four_cache_markers_are_sent(target: ModelDescriptor) -> None:
    """
    Over tools, system and messages; the last ones stay, which cover the longest prefixes.
    """
    marked = TextBlock(text="x", cache=CacheMarker())
    source = request(
        UserMessage(content=(marked, marked, marked)),
        tools=(replace(SEARCH, cache=CacheMarker()),),
        system=(marked,),
    )
    body = json.dumps(body_of(source, target))
    assert body.count("cache_control") + body.count("cachePoint") == 4
    assert repaired(source, target).context.tools == (SEARCH,)
    assert ("error", "$.tools[0].cache") in faults(source, target)


def test_case_89_a_marker_on_a_result_is_one_marker() -> None:
    """
    Of parallel results only the marked one carries it.
    """
    results = (result("c1"), result("c2", cache=CacheMarker()))
    source = request(HI, answer_from(CLAUDE, call("c1"), call("c2")), *results)
    assert json.dumps(body_of(source, CLAUDE)).count("cache_control") == 1


@every_target
def test_case_90_the_same_request_gives_the_same_bytes(target: ModelDescriptor) -> None:
    """
    Ids and names are made by hashing, not by counting or chance.
    """
    source = request(HI, answer_from(CLAUDE, call(LONG, "a.b c")), result(LONG))
    encode = il.dialect(target.api).encode_request
    assert encode(repaired(source, target)).bytes() == encode(repaired(source, target)).bytes()


OPTIONS: list[tuple[dict[str, Any], ModelDescriptor, str, Any]] = [
    ({"max_tokens": None}, CLAUDE, "max_tokens", 4096),
    ({"max_tokens": None}, replace(CLAUDE, max_tokens=9), "max_tokens", 9),
    ({"max_tokens": 99999}, replace(CHAT, max_tokens=4096), "max_tokens", 4096),
    ({"temperature": 1.7}, CLAUDE, "temperature", 1),
    ({"stop": ("a", " ", "b")}, CLAUDE, "stop", ("a", "b")),
    ({"stop": tuple("abcde")}, CHAT, "stop", tuple("abcd")),
    ({"service_tier": "flex"}, CLAUDE, "service_tier", None),
    ({"reasoning": Reasoning(effort="high")}, replace(GPT, reasoning=False), "reasoning", None),
    ({"tool_choice": ToolChoice(mode="required", names=("other",))}, CHAT, "tool_choice", None),
]


@pytest.mark.parametrize(("given", "target", "field", "expected"), OPTIONS)
def test_options_fit_the_target(given: dict[str, Any], target: ModelDescriptor, field: str, expected: Any) -> None:
    """
    What a target refuses in an option is brought into its bounds, or left out.
    """
    source = request(HI, **given)
    assert getattr(repaired(source, target).options, field) == expected
    assert len(il.adapt(source, target).losses) == 1


def test_no_choice_among_no_tools() -> None:
    """
    A tool choice without tools is refused by most.
    """
    source = request(HI, tools=(), tool_choice="auto", parallel_tools=True)
    options = repaired(source, CHAT).options
    assert (options.tool_choice, options.parallel_tools) == (None, None)


def test_an_unknown_target_is_named() -> None:
    """
    The error lists the targets that there are.
    """
    with pytest.raises(il.InterlinguaError, match="unknown target 'nowhere'; valid targets: anthropic-messages"):
        il.adapt(request(HI), "nowhere")


# --- the traveller ---------------------------------------------------------------------------------------------------

ANSWERS: list[tuple[ModelDescriptor, dict[str, Any]]] = [
    (
        CLAUDE,
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": CLAUDE.id,
            "content": [
                {"type": "thinking", "thinking": "Search first.", "signature": "Q2xhdWRl"},
                {"type": "text", "text": "I search."},
                {"type": "tool_use", "id": "toolu_01", "name": "search", "input": {"q": "a"}},
                {"type": "tool_use", "id": "toolu_02", "name": "search", "input": {"q": "b"}},
            ],
            "stop_reason": "tool_use",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 2},
        },
    ),
    (
        GPT,
        {
            "id": "resp_1",
            "object": "response",
            "model": GPT.id,
            "status": "completed",
            "output": [
                {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "Z3B0"},
                {
                    "type": "function_call",
                    "id": "fc_1",
                    "call_id": "call_" + "z" * 59,
                    "name": "search",
                    "arguments": '{"q": "c"}',
                    "status": "completed",
                },
            ],
            "usage": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
        },
    ),
    (
        GEMINI_3,
        {
            "candidates": [
                {
                    "content": {
                        "role": "model",
                        "parts": [
                            {"text": "Thinking it over.", "thought": True},
                            {"functionCall": {"name": "search", "args": {"q": "d"}}, "thoughtSignature": "Z2VtaW5p"},
                            {"functionCall": {"name": "search", "args": {"q": "e"}}},
                        ],
                    },
                    "finishReason": "STOP",
                }
            ],
            "modelVersion": GEMINI_3.id,
        },
    ),
    (
        BEDROCK_CLAUDE,
        {
            "output": {
                "message": {
                    "role": "assistant",
                    "content": [
                        {"reasoningContent": {"reasoningText": {"text": "Once more.", "signature": "YmVkcm9jaw=="}}},
                        {"toolUse": {"toolUseId": "tooluse_1", "name": "search", "input": {"q": "f"}}},
                    ],
                }
            },
            "stopReason": "tool_use",
            "usage": {"inputTokens": 1, "outputTokens": 2, "totalTokens": 3},
        },
    ),
    (
        LLAMA,
        {
            "model": LLAMA.id,
            "message": {
                "role": "assistant",
                "content": "",
                "thinking": "Locally.",
                "tool_calls": [{"function": {"name": "search", "arguments": {"q": "g"}}}],
            },
            "done": True,
            "done_reason": "stop",
        },
    ),
    (
        MISTRAL,
        {
            "id": "x",
            "object": "chat.completion",
            "model": MISTRAL.id,
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "tool_calls",
                    "message": {
                        "role": "assistant",
                        "content": "",
                        "tool_calls": [
                            {"id": "D681PevKs", "type": "function", "function": {"name": "search", "arguments": "{}"}}
                        ],
                    },
                }
            ],
        },
    ),
]


def test_a_conversation_travels_from_model_to_model_and_back() -> None:
    """
    Each vendor accepts each stage; at home again, the request begins with exactly what was sent the first time.
    """
    stored: tuple[Any, ...] = (UserMessage(content="Find out."),)
    sent: list[Any] = []
    for model, answer in [*ANSWERS, ANSWERS[0]]:
        source = request(*stored, system="You search.", reasoning=Reasoning(budget=2000))
        sent.append(body_of(source, model))
        message = il.dialect(model.api).decode_response(answer, model=model.id)
        assert message.model == model.id
        results = tuple(result(c.id, tool_name="search") for c in message.tool_calls)
        stored = (*stored, message, *results, UserMessage(content="And then?"))
    home = body_of(request(*stored), CLAUDE)["messages"]
    assert home[: len(sent[0]["messages"])] == sent[0]["messages"]
    only_there = (UserMessage(content="Find out."), *stored[1:5])
    never_left = body_of(request(*only_there), CLAUDE)["messages"]
    assert home[: len(never_left)] == never_left
    signed = [
        part["signature"] for m in home for part in m["content"] if isinstance(part, dict) and "signature" in part
    ]
    assert signed == ["Q2xhdWRl", "YmVkcm9jaw==", "Q2xhdWRl"]
    assert len({part["id"] for m in home for part in m["content"] if isinstance(part, dict) and "id" in part}) == 10
    assert '"encrypted_content": "Z3B0"' in json.dumps(body_of(request(*stored), GPT))
    assert '"thoughtSignature": "Z2VtaW5p"' in json.dumps(body_of(request(*stored), GEMINI_3))


@pytest.mark.parametrize("target", ["openai-completions", "openai-responses"])
def test_a_schema_gets_a_name_where_one_is_required(target: str) -> None:
    """OpenAI's wires refuse a schema without a name; the others have no place for one."""
    request = il.Request(
        model=il.ModelDescriptor(id="m"),
        context=il.Context(messages=(il.UserMessage(content="Hello"),)),
        options=il.Options(output_schema=OutputSchema(schema={"type": "object"})),
    )
    adapted, losses = il.adapt(request, target)
    assert adapted.options.output_schema is not None
    assert adapted.options.output_schema.name == "answer"
    assert [loss.path for loss in losses] == ["$.options.outputSchema.name"]


def test_case_97_input_and_answer_share_the_window() -> None:
    """The input fits, the input and the answer asked for do not: the answer is asked for shorter, and that is said."""
    model = il.ModelDescriptor(id="claude-x", api="anthropic-messages", context_window=10_000)
    message = il.UserMessage(content="word " * 4_000)  # about 5,000 tokens
    request = il.Request(model=model, context=il.Context(messages=(message,)), options=il.Options(max_tokens=8_000))
    adapted, losses = il.adapt(request, model)
    assert 5_000 == adapted.options.max_tokens
    assert [("$.options.maxTokens", "weakened")] == [(loss.path, loss.severity) for loss in losses]
    assert il.adapt(adapted, model)[0] == adapted
    assert 3_000 == il.adapt(replace(request, options=il.Options(max_tokens=3_000)), model)[0].options.max_tokens
