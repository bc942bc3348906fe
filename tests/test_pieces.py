"""Repairs of a history in pieces are those of the whole."""

from hypothesis import given
from hypothesis import strategies as st

import interlingua as il
from interlingua.conversion.adapting.adapter import structural_repairs
from interlingua.conversion.adapting.pieces import CallPlaces, FirstPass, StructuralRepairs, pieces
from interlingua.values.messages import AgentMessage, CustomMessage, OpaqueBlock
from interlingua.values.request import Context, ModelDescriptor, Request

IDS = st.sampled_from(["a", "b", "c", "d", ""])
# Calls of the Responses wire have two ids; results may have either.
CALLS = st.builds(
    lambda id, item: il.ToolCall(
        id=id, name="read", arguments={}, extra={} if item is None else {"openai-responses": {"id": item}}
    ),
    IDS,
    st.none() | IDS,
)
TEXTS = st.just(il.TextBlock(text="Yes"))
THOUGHTS = st.just(il.ThinkingBlock(thinking="Hm"))
FOREIGN = IDS.map(
    lambda id: OpaqueBlock(dialect="transcript", value={"type": "tool_use", "id": id, "name": "read", "input": {}})
)
MESSAGES: st.SearchStrategy[AgentMessage] = st.one_of(
    st.just(il.UserMessage(content="Hi")),
    st.just(il.UserMessage(content="Note", origin="program")),
    st.builds(
        lambda content, stop: il.AssistantMessage(content=tuple(content), stop_reason=stop),
        st.lists(CALLS | CALLS | TEXTS | THOUGHTS | FOREIGN, max_size=3),
        st.sampled_from(["stop", "toolUse", "error"]),
    ),
    st.builds(lambda id: il.ToolResultMessage(tool_call_id=id, content="ok", is_error=False), IDS),
    st.builds(lambda id: il.ToolResultMessage(tool_call_id=id, content="ok", is_error=False), IDS),
    st.just(CustomMessage("note", {})),
    IDS.map(lambda id: CustomMessage("tool", {"content": "ok", "tool_call_id": id})),
)


@given(st.lists(MESSAGES, max_size=30))
def test_structural_repairs_of_pieces_are_those_of_the_whole(messages: list[AgentMessage]) -> None:
    places, repairs = CallPlaces(), StructuralRepairs()
    for at, message in enumerate(messages):
        places.add(at, message)
    cut = list(pieces(enumerate(messages), places, least=1))
    assert messages == [message for piece in cut for message in piece]
    for piece in cut:
        repairs.add(piece)
    context = Context(messages=tuple(messages))  # type: ignore[arg-type]
    assert structural_repairs(Request(model=ModelDescriptor(id=""), context=context)) == repairs.losses


@given(st.lists(MESSAGES, max_size=30))
def test_so_are_those_of_pieces_that_are_cut_in_the_first_pass(messages: list[AgentMessage]) -> None:
    """Where no id returns after a cut; the places of the calls are those that `CallPlaces` finds."""
    first, places, repairs, cut = FirstPass(least=1), CallPlaces(), StructuralRepairs(), []
    for at, message in enumerate(messages):
        places.add(at, message)
        piece = first.add(at, message)
        cut += [] if piece is None else [piece]
    cut.append(first.close())
    assert list(pieces(enumerate(messages), first.places, least=1)) == list(
        pieces(enumerate(messages), places, least=1)
    )
    if first.is_valid:
        for piece in cut:
            repairs.add(piece)
        context = Context(messages=tuple(messages))  # type: ignore[arg-type]
        assert structural_repairs(Request(model=ModelDescriptor(id=""), context=context)) == repairs.losses


def test_a_history_with_its_own_ids_is_cut_in_the_first_pass() -> None:
    first = FirstPass(least=1)
    found = []
    for turn in range(4):
        call = il.ToolCall(id=f"c{turn}", name="read", arguments={})
        for at, message in enumerate(
            (
                il.UserMessage(content="Hi"),
                il.AssistantMessage(content=(call,), stop_reason="toolUse"),
                il.ToolResultMessage(tool_call_id=call.id, content="ok", is_error=False),
            )
        ):
            piece = first.add(3 * turn + at, message)
            found += [] if piece is None else [len(piece)]
    assert [3, 3, 3] == found and first.is_valid
    first.add(12, il.ToolResultMessage(tool_call_id="c0", content="again", is_error=False))
    assert not first.is_valid


def test_a_history_is_cut_where_calls_have_no_result_anywhere() -> None:
    """Interrupted calls, and lines of a program between turns, are common in session files."""
    answer = il.AssistantMessage(content=(il.ToolCall(id="a", name="read", arguments={}),), stop_reason="toolUse")
    messages: list[AgentMessage] = [il.UserMessage(content="Hi"), answer, *[il.UserMessage(content="Hi"), answer] * 3]
    messages[-1] = il.AssistantMessage(content="Yes", stop_reason="stop")
    messages[3] = messages[5] = messages[-1]
    messages.insert(4, CustomMessage("note", {}))
    places = CallPlaces()
    for at, message in enumerate(messages):
        places.add(at, message)
    assert [5, 2, 2] == [len(piece) for piece in pieces(enumerate(messages), places, least=1)]
