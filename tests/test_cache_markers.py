"""Cache markers: an ability of the target, with lifetimes that never rise, and none where it is refused."""

import json
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import interlingua as il
from interlingua.connect.client import Client, builtin_connectors
from interlingua.connect.connector import HttpConnector
from interlingua.connect.providers import ROWS
from interlingua.conversion.adapting.cache_markers import seconds
from interlingua.dialects import dialect
from interlingua.dialects.registry import limits_of
from interlingua.testing import Server
from interlingua.values.messages import (
    AssistantMessage,
    CacheMarker,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from interlingua.values.request import Context, ModelDescriptor, Options, Request, ToolSpec
from strategies import wellformed_requests

CLAUDE = ModelDescriptor(id="claude-opus-4-6", api="anthropic-messages")
BEDROCK = ModelDescriptor(id="us.anthropic.claude-opus-4-6-v1", api="bedrock-converse-stream")
MARK, HOUR = CacheMarker(), CacheMarker(ttl="1h")
LOOK = ToolSpec(name="look", description="Looks.", input_schema={"type": "object", "properties": {}})


def text(content: str = "x", cache: CacheMarker | None = None) -> TextBlock:
    return TextBlock(text=content, cache=cache)


def request(*messages: Any, system: Any = None, tools: Any = None, **options: Any) -> Request:
    return Request(
        model=ModelDescriptor(id=""),
        context=Context(messages=messages or (UserMessage(content="Hi"),), system=system, tools=tools),
        options=Options(**{"max_tokens": 9000, **options}),
    )


def body(source: Request, target: ModelDescriptor, **how: Any) -> str:
    adapted = il.adapt(source, target, **how).request
    assert il.adapt(adapted, target).losses == ()
    return json.dumps(dialect(target.api).encode_request(adapted).body)


def lost(source: Request, target: ModelDescriptor | str) -> dict[str, str]:
    return {loss.path: loss.severity for loss in il.adapt(source, target).losses if loss.what == "cache"}


MARKED = request(
    UserMessage(content=(text("a", MARK), text("b"))),
    AssistantMessage(content=(text("c", MARK), ToolCall(id="c1", name="look", arguments={}))),
    ToolResultMessage(tool_call_id="c1", content=(text("d", MARK),), is_error=False),
    system=(text("e", MARK), text("f")),
    tools=(replace(LOOK, cache=MARK),),
)
PATHS = {
    "$.tools[0].cache",
    "$.system[0].cache",
    "$.messages[0].content[0].cache",
    "$.messages[1].content[0].cache",
    "$.messages[2].content[0].cache",
}


@pytest.mark.parametrize("row", [row for row in ROWS if row.api == "openai-completions"], ids=lambda row: row.id)
def test_hosts_without_markers_get_none_and_each_is_named(row: Any) -> None:
    """OpenAI, Azure, Groq, Mistral, xAI, DeepSeek and all other chat hosts that do not say that they take them."""
    target = HttpConnector(row).complete(ModelDescriptor(id="some-model"))
    assert "cache_control" not in body(MARKED, target)
    assert {path for path, severity in lost(MARKED, target).items() if severity == "dropped"} == PATHS
    findings = {finding.path for finding in il.check(MARKED, target=target) if "cache" in finding.message}
    assert findings >= PATHS


def test_a_marker_of_a_result_alone_is_named_too() -> None:
    call = AssistantMessage(content=(ToolCall(id="c1", name="look", arguments={}),))
    result = ToolResultMessage(tool_call_id="c1", content="d", is_error=False, cache=MARK)
    source = request(UserMessage(content="Hi"), call, result, tools=(LOOK,))
    target = ModelDescriptor(id="gpt-4o", api="openai-completions")
    assert lost(source, target) == {"$.messages[2].cache": "dropped"}
    assert il.adapt(source, target).request.context.messages[2].cache is None  # type: ignore[union-attr]


def test_tools_and_texts_beside_a_marked_one_stay() -> None:
    tools = tuple(replace(LOOK, name=name) for name in ("a", "b", "c"))
    marked = (replace(tools[0], cache=MARK), *tools[1:])
    target = ModelDescriptor(id="gpt-4o", api="openai-completions")
    assert il.adapt(request(tools=marked), target).request.context.tools == tools
    adapted = il.adapt(request(system=(text("a"), text("b")), cache_retention="short"), CLAUDE, caching=True).request
    system: Any = adapted.context.system
    assert [block.text for block in system] == ["a", "b"]


def test_system_text_with_fields_of_the_wire_stays_in_blocks() -> None:
    """A plain text has no place for them."""
    target = ModelDescriptor(id="gpt-4o", api="openai-completions")
    other = TextBlock(text="b", extra={"openai-completions": {"x": 1}})
    adapted = il.adapt(request(system=(text("a", MARK), other)), target).request
    assert adapted.context.system == (text("a"), other)
    assert il.adapt(request(system=(text("a", MARK), text("b"))), target).request.context.system == "ab"


def test_models_that_cache_by_themselves_are_sent_no_markers() -> None:
    nova = ModelDescriptor(id="amazon.nova-pro-v1:0", api="bedrock-converse-stream")
    adapted = il.adapt(request(system="a", cache_retention="short"), nova, caching=True).request
    assert (adapted.options.cache_retention, adapted.context.system) == (None, "a")
    assert "cachePoint" not in body(request(system="a", cache_retention="short"), nova, caching=True)


def test_text_has_the_shape_of_marked_text_also_where_no_marker_is_left() -> None:
    """The same prefix gives the same bytes."""
    messages = (UserMessage(content=tuple(text(str(at), MARK) for at in range(4))),)
    adapted = il.adapt(request(*messages, system="a", cache_retention="short"), CLAUDE, caching=True).request
    assert adapted.context.system == (text("a"),)
    row = next(row for row in ROWS if row.id == "openrouter")
    target = HttpConnector(row).complete(ModelDescriptor(id="anthropic/claude-opus-4.6"))
    source = request(UserMessage(content="Hi"), AssistantMessage(content="So"), UserMessage(content="And?"))
    with_retention = replace(source, options=replace(source.options, cache_retention="short"))
    adapted = il.adapt(with_retention, target, caching=True).request
    assert [message.extra for message in adapted.context.messages] == [{}, {}, {}]


def test_the_last_text_is_marked_that_may_be() -> None:
    point = OpaqueBlock(dialect=CLAUDE.api, value={"type": "container_upload", "file_id": "f"})
    source = request(UserMessage(content=(text("a"), text("b"), point)), cache_retention="short")
    (message,) = il.adapt(source, CLAUDE, caching=True).request.context.messages
    assert [getattr(block, "cache", None) for block in message.content] == [None, MARK, None]  # type: ignore[union-attr]


def test_every_lifetime_that_is_too_long_is_shortened() -> None:
    """Whatever stands before the marker."""
    target = ModelDescriptor(id="anthropic.claude-3-7-sonnet-20250219-v1:0", api="bedrock-converse-stream")
    source = request(UserMessage(content=(text("a"), text("b", HOUR), text("c"), text("d", HOUR))))
    (message,) = il.adapt(source, target).request.context.messages
    assert [getattr(block, "cache", None) for block in message.content] == [None, MARK, None, MARK]  # type: ignore[union-attr]
    assert set(lost(source, target)) == {"$.messages[0].content[1].cache", "$.messages[0].content[3].cache"}


def test_text_in_pieces_for_markers_is_encoded_as_one_where_there_are_none() -> None:
    """Attocode's structured content: plain strings for a host without markers, and the loss is told."""
    piece = {"type": "text", "text": "Stable.", "cache_control": {"type": "ephemeral"}}
    call = {"id": "call_1", "name": "look", "arguments": {}}
    chat = [
        {"role": "system", "content": [piece, {"type": "text", "text": " Now."}]},
        {"role": "user", "content": [piece]},
        {"role": "assistant", "content": [piece, {"type": "text", "text": " Go."}], "toolCalls": [call]},
        {"role": "tool", "toolCallId": "call_1", "content": [piece, {"type": "text", "text": " Done."}]},
    ]
    encoded, losses = il.convert(chat, "openai-completions", "attocode")
    messages = encoded if isinstance(encoded, list) else encoded["messages"]
    assert [m["content"] for m in messages] == ["Stable. Now.", "Stable.", "Stable. Go.", "Stable. Done."]
    gone = {loss.path for loss in losses if loss.severity == "dropped" and loss.path.endswith(".cache")}
    assert gone == {"$.system[0].cache", *(f"$.messages[{at}].content[0].cache" for at in range(3))}


def test_markers_reach_claude_through_openrouter() -> None:
    """The row says which models take them there."""
    row = next(row for row in ROWS if row.id == "openrouter")
    connector = HttpConnector(row)
    taken = {
        id: body(MARKED, connector.complete(ModelDescriptor(id=id))).count("cache_control")
        for id in ("anthropic/claude-opus-4.6", "openai/gpt-5", "x-ai/grok-4")
    }
    assert taken == {"anthropic/claude-opus-4.6": 4, "openai/gpt-5": 0, "x-ai/grok-4": 0}


def test_openais_own_markers_go_to_models_that_know_them() -> None:
    """From GPT-5.6 on, as breakpoints on what the model reads; before that none are sent."""
    for api in ("openai-responses", "openai-completions"):
        new, old = (ModelDescriptor(id=id, api=api) for id in ("gpt-5.6-sol", "gpt-5.4"))
        assert "prompt_cache_breakpoint" in body(MARKED, new)
        assert "cache_control" not in body(MARKED, new)
        assert "cache" not in body(MARKED, old)


@pytest.mark.parametrize("target", [CLAUDE, BEDROCK], ids=lambda target: target.api)
def test_a_lifetime_is_never_followed_by_a_longer_one(target: ModelDescriptor) -> None:
    """In the order tools, system, messages; what is lowered is reported."""
    rising = request(UserMessage(content=(text("a", HOUR),)), system=(text("s", MARK),))
    assert '"1h"' not in body(rising, target)
    assert lost(rising, target) == {"$.messages[0].content[0].cache": "weakened"}
    falling = request(UserMessage(content=(text("a", MARK),)), system=(text("s", HOUR),))
    assert lost(falling, target) == {}
    tool = request(system=(text("s", HOUR),), tools=(replace(LOOK, cache=MARK),))
    assert lost(tool, target) == {"$.system[0].cache": "weakened"}


def test_the_providers_own_marker_at_the_end_counts() -> None:
    """Automatic caching takes one of the four places, and its lifetime may not rise either."""
    four = request(
        UserMessage(content=tuple(text("a", MARK) for _ in range(4))), cache_retention="long", system="Be brief."
    )
    sent = json.loads(body(four, CLAUDE))
    assert json.dumps(sent).count("cache_control") == 4
    assert sent["cache_control"] == {"type": "ephemeral"}
    assert {"$.messages[0].content[0].cache", "$.options.cacheRetention"} == set(lost(four, CLAUDE))


def test_an_hour_is_asked_for_only_where_it_is_known() -> None:
    """Bedrock's older Claudes keep caches for five minutes."""
    source = request(UserMessage(content=(text("a", HOUR),)))
    old = replace(BEDROCK, id="anthropic.claude-3-7-sonnet-20250219-v1:0")
    assert ('"1h"' in body(source, BEDROCK), '"1h"' in body(source, old)) == (True, False)
    assert lost(source, old) == {"$.messages[0].content[0].cache": "weakened"}


def test_bedrock_models_without_caching_get_no_cache_points() -> None:
    """Llama and others refuse them; Nova takes none behind tools."""
    llama = replace(BEDROCK, id="meta.llama3-3-70b-instruct-v1:0")
    nova = replace(BEDROCK, id="amazon.nova-pro-v1:0")
    assert "cachePoint" not in body(MARKED, llama)
    sent = json.loads(body(MARKED, nova))
    assert "cachePoint" not in json.dumps(sent["toolConfig"])
    assert "cachePoint" in json.dumps(sent["system"])


SIGNED = ThinkingBlock(thinking="Hm.", thinking_signature="c2ln")


def test_a_marker_on_thinking_moves_to_what_can_carry_it() -> None:
    """As Anthropic's field on the block, or as Bedrock's point behind it; none is sent on thinking."""
    own = replace(SIGNED, extra={"anthropic-messages": {"cache_control": {"type": "ephemeral", "ttl": "1h"}}})
    answer = AssistantMessage(content=(own, text("Yes")), api=CLAUDE.api, model=CLAUDE.id)
    source = request(UserMessage(content="Hi"), answer, UserMessage(content="Go on"))
    thinking, text_block = json.loads(body(source, CLAUDE))["messages"][1]["content"]
    assert ("cache_control" in thinking, text_block["cache_control"]) == (False, {"type": "ephemeral", "ttl": "1h"})
    point = OpaqueBlock(dialect=BEDROCK.api, value={"cachePoint": {"type": "default"}})
    answer = AssistantMessage(content=(SIGNED, point, text("Yes")), api=BEDROCK.api, model=BEDROCK.id)
    source = request(UserMessage(content="Hi"), answer, UserMessage(content="Go on"))
    blocks = json.loads(body(source, BEDROCK))["messages"][1]["content"]
    assert [next(iter(block)) for block in blocks] == ["reasoningContent", "text", "cachePoint"]


def test_a_bedrock_body_with_a_point_behind_reasoning_is_repaired() -> None:
    """Read from the wire and adapted to it again: the point stands behind the text."""
    reasoning = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}}
    point = {"cachePoint": {"type": "default"}}
    spoken = {"role": "assistant", "content": [reasoning, point, {"text": "Yes"}]}
    hello = {"role": "user", "content": [{"text": "Hi"}]}
    source = dialect(BEDROCK.api).decode_request({"messages": [hello, spoken, hello]}, model=BEDROCK)
    adapted = il.adapt(source, BEDROCK)
    encoded = dialect(BEDROCK.api).encode_request(adapted.request).body["messages"][1]["content"]
    assert encoded == [reasoning, {"text": "Yes"}, point]
    assert adapted.losses


def test_a_blank_text_is_not_marked_on_any_wire() -> None:
    """Anthropic refuses it, also behind another host's door."""
    host = ModelDescriptor(id="anthropic/claude-opus-4.6", api="openai-completions", compat={"cacheMarkers": 4})
    source = request(UserMessage(content=(text("a"), text(" ", MARK))))
    assert "cache_control" not in body(source, host)
    assert "$.messages[0].content[1].cache" in lost(source, host)


markers = st.sampled_from([None, MARK, HOUR, CacheMarker(ttl="5m")])


@given(
    tools=st.lists(markers, max_size=3),
    system=st.lists(markers, max_size=3),
    turns=st.lists(st.lists(markers, min_size=1, max_size=3), max_size=4),
    retention=st.sampled_from([None, "short", "long", "none"]),
    target=st.sampled_from([CLAUDE, BEDROCK, replace(BEDROCK, id="amazon.nova-lite-v1:0"), replace(CLAUDE, id="x")]),
    caching=st.booleans(),
)
def test_what_is_sent_keeps_the_rules(
    tools: Any, system: Any, turns: Any, retention: Any, target: ModelDescriptor, caching: bool
) -> None:
    """At most four, none longer than one before it, whoever placed them."""
    source = request(
        *(UserMessage(content=tuple(text("a", cache) for cache in turn)) for turn in turns),
        system=tuple(text("s", cache) for cache in system) or None,
        tools=tuple(replace(LOOK, name=f"t{at}", cache=cache) for at, cache in enumerate(tools)) or None,
        cache_retention=retention,
    )
    adapted = il.adapt(source, target, caching=caching).request
    assert il.adapt(adapted, target).losses == ()
    found = list(lifetimes(dialect(target.api).encode_request(adapted).body))
    assert len(found) <= (limits_of(target).cache_markers or 0)
    assert found == sorted(found, reverse=True)


def lifetimes(wire: Any) -> Iterator[int]:
    """The lifetimes of all markers of a body, in the order in which a provider reads."""
    parts = [wire.get("toolConfig", {}).get("tools"), wire.get("tools"), wire.get("system"), wire.get("messages")]
    for value in (*parts, {"cache_control": wire.get("cache_control")}):
        yield from _lifetimes(value)


def _lifetimes(value: Any) -> Iterator[int]:
    if isinstance(value, list):
        for item in value:
            yield from _lifetimes(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in ("cache_control", "cachePoint") and item is not None:
                yield 3600 if item.get("ttl") == "1h" else 300
            else:
                yield from _lifetimes(item)


# --- caching for agents -----------------------------------------------------------------------------------------------


def unmarked(value: Any) -> Any:
    """A body without its markers."""
    if isinstance(value, list):
        return [unmarked(item) for item in value if not (isinstance(item, dict) and item.keys() == {"cachePoint"})]
    if isinstance(value, dict):
        return {key: unmarked(item) for key, item in value.items() if key != "cache_control"}
    return value


def last_marker(messages: list[Any]) -> int:
    """The index of the last message that is marked."""
    return max(at for at, message in enumerate(messages) if "cache" in json.dumps(message).replace("cached", ""))


def placed(source: Request, target: ModelDescriptor) -> dict[str, str | None]:
    """The lifetime of each marker of the adapted request, by its place."""
    context = il.adapt(source, target, caching=True).request.context
    values: dict[str, Any] = {f"tools[{at}]": tool for at, tool in enumerate(context.tools or ())}
    values |= {f"system[{at}]": block for at, block in enumerate(context.system or ()) if isinstance(block, TextBlock)}
    for at, message in enumerate(context.messages):
        values[f"messages[{at}]"] = message
        values |= {f"messages[{at}][{n}]": block for n, block in enumerate(message.content) if block is not str}
    return {path: cache.ttl for path, value in values.items() if (cache := getattr(value, "cache", None)) is not None}


HI, YES = UserMessage(content="Hi"), AssistantMessage(content="Yes", api=CLAUDE.api, model=CLAUDE.id)
OTHER = replace(LOOK, name="other")


@pytest.mark.parametrize(
    ("target", "ends"),
    [
        (CLAUDE, ("messages[3][0]", "messages[5][0]")),
        (BEDROCK, ("messages[2][1]", "messages[4][0]")),  # which takes no neighbours of one role
    ],
    ids=["anthropic", "bedrock"],
)
@pytest.mark.parametrize(("retention", "ttl"), [("short", None), ("long", "1h")])
def test_tools_system_and_the_ends_of_two_requests_are_marked(
    target: ModelDescriptor, ends: tuple[str, ...], retention: str, ttl: str | None
) -> None:
    """The last tool, the system text, and the last message of this request and of the previous one."""
    source = request(HI, YES, HI, HI, YES, HI, system="Be.", tools=(LOOK, OTHER), cache_retention=retention)
    assert placed(source, target) == dict.fromkeys(("tools[1]", "system[0]", *ends), ttl)
    assert il.adapt(source, target, caching=True).request.options.cache_retention is None


def test_only_what_may_carry_a_marker_becomes_blocks() -> None:
    """Text of the system and of users; answers and results keep their strings."""
    call = AssistantMessage(content=(ToolCall(id="a", name="look", arguments={}),))
    found = ToolResultMessage(tool_call_id="a", content="found", is_error=False)
    source = request(HI, YES, HI, call, found, system="Be.", cache_retention="short")
    context = il.adapt(source, CLAUDE, caching=True).request.context
    assert context.system == (text("Be.", MARK),)
    first, answer, second, _, result = (message.content for message in context.messages)
    assert (first, answer, second, result) == ((text("Hi"),), "Yes", (text("Hi", MARK),), "found")


def test_a_result_is_marked_as_a_whole_or_in_its_last_part() -> None:
    """Anthropic and Bedrock mark the result; the chat wire has markers on content parts only."""
    calls = AssistantMessage(content=tuple(ToolCall(id=id, name="look", arguments={}) for id in "ab"))
    results = [ToolResultMessage(tool_call_id=id, content="1", is_error=False) for id in "ab"]
    source = request(HI, calls, *results, cache_retention="short")
    row = next(row for row in ROWS if row.id == "openrouter")
    openrouter = HttpConnector(row).complete(ModelDescriptor(id="anthropic/claude-opus-4.6"))
    assert {*placed(source, CLAUDE)} == {"messages[0][0]", "messages[3]"}
    assert {*placed(source, openrouter)} == {"messages[0][0]", "messages[3][0]"}
    sent = il.adapt(source, openrouter, caching=True).request
    chat = dialect(openrouter.api).encode_request(sent).body["messages"]
    # The first result has parts as well: it keeps its shape when the marker moves on.
    assert [type(message["content"]) for message in chat if message["role"] == "tool"] == [list, list]


def test_markers_of_the_caller_take_precedence() -> None:
    """A marker in a message replaces ours there, one before the messages replaces ours there; four at most."""
    marked = UserMessage(content=(text("a", HOUR),))
    before = {"system": "Be.", "tools": (LOOK,), "cache_retention": "short"}
    assert placed(request(marked, YES, HI, **before), CLAUDE) == dict.fromkeys(
        ("tools[0]", "system[0]", "messages[0][0]"), "1h"
    )
    system = {**before, "system": (text("a", HOUR),)}
    assert placed(request(HI, YES, HI, **system), CLAUDE) == {
        "system[0]": "1h",
        "messages[0][0]": None,
        "messages[2][0]": None,
    }
    three = UserMessage(content=(text("1", MARK), text("2", MARK), text("3", MARK)))
    assert {*placed(request(three, **before), CLAUDE)} == {"system[0]", *(f"messages[0][{at}]" for at in range(3))}


def test_what_cannot_carry_a_marker_gets_none() -> None:
    """A blank text at the end of a message, and a system text that is missing."""
    blank = UserMessage(content=(text("a"), text(" ")))
    openrouter = replace(CLAUDE, api="openai-completions", compat={"cacheControlFormat": "anthropic"})
    for target in (CLAUDE, openrouter):
        assert "messages[0][1]" not in placed(request(blank, cache_retention="short"), target)
    assert placed(request(HI, tools=(LOOK,), cache_retention="short"), CLAUDE) == {
        "tools[0]": None,
        "messages[0][0]": None,
    }


@pytest.mark.parametrize(("retention", "left"), [("short", None), ("long", "long"), ("none", "none")])
def test_a_provider_that_caches_by_itself_is_asked_only_for_what_it_would_not_do(
    retention: str, left: str | None
) -> None:
    """Short caching is the default of OpenAI."""
    source = request(HI, YES, HI, system="Be.", tools=(LOOK,), cache_retention=retention)
    target = ModelDescriptor(id="gpt-5", api="openai-responses")
    assert placed(source, target) == {}
    assert il.adapt(source, target, caching=True).request.options.cache_retention == left
    assert il.adapt(source, target).request.options.cache_retention == retention


def test_openai_gets_markers_without_lifetimes_on_what_the_model_reads() -> None:
    """A marker on a call is dropped, and Anthropic's lifetimes are; both are reported."""
    call = ToolCall(id="c1", name="look", arguments={}, cache=HOUR)
    found = ToolResultMessage(tool_call_id="c1", content=(text("d", HOUR),), is_error=False)
    source = request(UserMessage(content=(text("a", HOUR),)), AssistantMessage(content=(call,)), found)
    target = ModelDescriptor(id="gpt-5.6-sol", api="openai-responses")
    assert lost(source, target) == {
        "$.messages[0].content[0].cache": "weakened",
        "$.messages[1].content[0].cache": "dropped",
        "$.messages[2].content[0].cache": "weakened",
    }
    assert "1h" not in body(source, target)


def test_only_the_marker_moves_from_thinking() -> None:
    """Other fields of the block, and those of other wires, stay where they are."""
    marker, others = {"cache_control": {"type": "ephemeral"}}, {"other": {"b": 2}}
    for kept in ({}, {"a": 1}):
        thought = replace(SIGNED, extra={CLAUDE.api: {**marker, **kept}, **others})
        answer = AssistantMessage(content=(thought, text("Yes")), api=CLAUDE.api, model=CLAUDE.id)
        content = il.adapt(request(HI, answer, HI), CLAUDE).request.context.messages[1].content
        extra = {**others, CLAUDE.api: kept} if kept else others
        assert content == (replace(SIGNED, extra=extra), text("Yes", MARK))


def test_a_marker_on_thinking_that_nothing_can_carry_is_dropped() -> None:
    """The text beside it has a marker of its own."""
    thought = ThinkingBlock(
        thinking="Hm.", thinking_signature="c2ln", extra={CLAUDE.api: {"cache_control": {"type": "ephemeral"}}}
    )
    answer = AssistantMessage(content=(thought, text("Yes", MARK)), api=CLAUDE.api, model=CLAUDE.id)
    assert lost(request(HI, answer, HI), CLAUDE) == {
        f"$.messages[1].content[0].extra.{CLAUDE.api}.cache_control": "dropped"
    }


SERVED = {
    "anthropic": ("anthropic/claude-opus-4-6", "anthropic-messages"),
    "bedrock": ("amazon-bedrock/us.anthropic.claude-opus-4-6-v1", "bedrock-converse-stream"),
    "openrouter": ("openrouter/anthropic/claude-opus-4.6", "openai-completions"),
}


@pytest.mark.parametrize("name", SERVED)
async def test_each_request_of_an_agent_begins_with_what_the_last_one_marked(name: str) -> None:
    """Byte for byte but for the markers themselves, over prompts, parallel calls and answers; four at most."""

    @il.tool
    def look(at: str) -> str:
        """Looks."""
        return f"seen {at}"

    model, api = SERVED[name]
    with Server(strict=name != "openrouter") as server:  # the strict chat server is OpenAI's, which has no markers
        for turn in range(3):
            calls = tuple(ToolCall(id=f"c{turn}{n}", name="look", arguments={"at": f"{turn}{n}"}) for n in range(3))
            server.answer(AssistantMessage(content=(TextBlock(text="Let me see."), *calls), stop_reason="toolUse"))
            server.say(f"Answer {turn}.")
        agent = il.Agent(
            model,
            [look],
            system="You look at things.",
            client=Client(connectors=builtin_connectors()),
            api_key="key-1",
            base_url=server.base_url(api),
        )
        for turn in range(3):
            result = await agent.prompt(f"Look {turn}.")
            assert result.reason == "done", result.failure
        bodies = [received.json for received in server.requests if received.json and "messages" in received.json]
    assert len(bodies) == 6
    for before, after in pairwise(bodies):
        assert 1 <= json.dumps(after).count('"cache') <= 4
        for key in ("system", "tools", "toolConfig"):
            assert json.dumps(before.get(key)) == json.dumps(after.get(key))
        end = last_marker(before["messages"]) + 1
        assert end == len(before["messages"])
        first, second = (json.dumps(unmarked(wire["messages"])[:end]) for wire in (before, after))
        assert first == second
        assert "cache" in json.dumps(after["messages"][end - 1])  # it is looked for where the last request put it


async def test_caching_is_off_when_asked_for() -> None:
    """`cache_retention="none"` marks nothing; providers that cache by themselves are told nothing either way."""
    with Server() as server:
        for model, api, how in (
            ("anthropic/claude-opus-4-6", "anthropic-messages", {"cache_retention": "none"}),
            ("openai/gpt-5", "openai-responses", {}),
            ("google/gemini-2.5-flash", "google-generative-ai", {}),
            ("groq/llama-3.3-70b-versatile", "openai-completions", {}),
        ):
            agent = il.Agent(model, api_key="key-1", base_url=server.base_url(api), **how)  # type: ignore[arg-type]
            await agent.prompt("Hi")
            assert "cache" not in json.dumps(server.last.json)


def test_no_marker_is_added_to_as_many_as_there_may_be() -> None:
    """Four of one's own leave none for the tools and the system text."""
    messages = [UserMessage(content=tuple(text(each, MARK) for each in "abcd"))]
    source = request(*messages, system="Be short.", tools=(LOOK,), cache_retention="short")
    adapted = il.adapt(source, CLAUDE, caching=True)
    assert [] == [loss for loss in adapted.losses if loss.what == "cache"]
    assert messages == list(adapted.request.context.messages)


@given(source=wellformed_requests(own="anthropic-messages"))
def test_placed_markers_do_not_shape_what_came_before(source: Request) -> None:
    """The messages of a shorter history are the same in the longer one, but for the markers."""
    source = replace(source, options=replace(source.options, cache_retention="short"))
    messages = source.context.messages
    bodies = []
    for end in range(len(messages) + 1):
        part = replace(source, context=replace(source.context, messages=messages[:end]))
        adapted = il.adapt(part, CLAUDE, caching=True).request
        bodies.append(unmarked(dialect(CLAUDE.api).encode_request(adapted).body["messages"]))
    settled = [at for at, message in enumerate(messages) if isinstance(message, AssistantMessage)]
    for at in settled:
        short, long = bodies[at], bodies[-1]
        if short and short == unmarked(short) and len(short) <= len(long) and short[-1]["role"] == "user":
            assert json.dumps(long)[: len(json.dumps(short[:-1])) - 1] == json.dumps(short[:-1])[:-1]


def test_a_marker_may_live_for_days() -> None:
    for ttl, expected in {"30s": 30, "5m": 300, "1h": 3600, "1d": 86_400, "soon": 300}.items():
        assert seconds(CacheMarker(ttl=ttl)) == expected
    assert seconds(CacheMarker()) == 300
