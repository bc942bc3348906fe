"""Repairs of a history in pieces are those of the whole."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import interlingua as il
from interlingua.conversion.adapting import pieces as cutting
from interlingua.conversion.adapting.adapter import adapt, structural_repairs
from interlingua.conversion.adapting.pieces import (
    CallPlaces,
    FirstPass,
    StructuralRepairs,
    TargetRepairs,
    TooLong,
    adapt_pieces,
    count_totals,
    pieces,
)
from interlingua.conversion.adapting.work import Earlier
from interlingua.dialects import WIRES
from interlingua.values.messages import (
    AgentMessage,
    CacheMarker,
    CustomMessage,
    ImageBlock,
    OpaqueBlock,
    ServerToolCall,
)
from interlingua.values.request import Context, ModelDescriptor, Options, Reasoning, Request, ToolChoice, ToolSpec

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


PICTURE = ImageBlock(data="iVBORw0KGgo=", mime_type="image/png")
SIGNED = il.ThinkingBlock(thinking="Hm", thinking_signature="c2lnbmVk")
AUTHORS = st.sampled_from([{}, {"model": "claude-sonnet-4-5", "api": "anthropic-messages"}])


@st.composite
def rounds(draw: st.DrawFn) -> list[AgentMessage]:
    """Calls and their results, as in a run without user messages. An empty id is replaced by one that is used once."""
    ids = draw(st.lists(st.sampled_from(["", "", "", "", "a", "b|c"]), min_size=1, max_size=3))
    calls = [il.ToolCall(id=f"{id}#{at}", name="read file", arguments={}) for at, id in enumerate(ids)]
    lead = draw(st.lists(st.sampled_from([SIGNED, THOUGHT, il.TextBlock(text="Well"), SERVER]), max_size=2))
    stop = draw(st.sampled_from(["toolUse"] * 4 + ["aborted"]))
    author = draw(AUTHORS)
    if draw(st.integers(0, 3)):
        answers = [il.AssistantMessage(content=(*lead, *calls), stop_reason=stop, **author)]
    else:  # in several messages
        parts = [*([tuple(lead)] if lead else []), *((call,) for call in calls)]
        answers = [il.AssistantMessage(content=part, stop_reason=stop, **author) for part in parts]
    contents = st.sampled_from(["ok", "ok", "", (PICTURE,), (il.TextBlock(text="see"), PICTURE)])
    results = [
        il.ToolResultMessage(tool_call_id=call.id, content=draw(contents), is_error=draw(st.booleans()))
        for call in (draw(st.permutations(calls)) if draw(st.booleans()) else calls)
    ]
    made: list[AgentMessage] = [*answers, *results]
    odd = draw(st.integers(0, 9))
    if odd == 0:
        made.pop()
    elif odd == 1:
        made.insert(draw(st.integers(0, len(made))), draw(MESSAGES))
    elif odd == 2:
        made.append(draw(st.sampled_from([CustomMessage("note", {}), il.SystemMessage(content="Be short.")])))
    return made


THOUGHT = il.ThinkingBlock(thinking="Hm")
SERVER = ServerToolCall(id="srv", name="web_search", arguments={}, extra={"anthropic-messages": {}})


@st.composite
def runs(draw: st.DrawFn) -> list[AgentMessage]:
    """Long runs: rounds, with user messages and others here and there."""
    steps = st.one_of(rounds(), rounds(), rounds(), MESSAGES.map(lambda message: [message]))
    found: list[AgentMessage] = [il.UserMessage(content="Hi")] if draw(st.booleans()) else []
    for number, step in enumerate(draw(st.lists(steps, max_size=8))):
        found += [_numbered(message, number) for message in step]
    return found


def _numbered(message: AgentMessage, number: int) -> AgentMessage:
    """Writes ids of a round, such as `#0` and `a#0`, so that only those with a name of their own are used again."""

    def id_of(id: str) -> str:
        name, mark, at = id.partition("#")
        return id if not mark else name or f"c{number}-{at}"

    if isinstance(message, il.ToolResultMessage):
        return replace(message, tool_call_id=id_of(message.tool_call_id))
    if isinstance(message, il.AssistantMessage) and isinstance(message.content, tuple):
        blocks = (replace(one, id=id_of(one.id)) if isinstance(one, il.ToolCall) else one for one in message.content)
        return replace(message, content=tuple(blocks))
    return message


HISTORIES = st.lists(MESSAGES, max_size=30) | runs()
MODELS = st.sampled_from(
    [
        ModelDescriptor(id="m"),
        ModelDescriptor(id="mistral-large-latest"),
        ModelDescriptor(id="claude-sonnet-4-5", api="anthropic-messages"),
        ModelDescriptor(id="m", context_window=150, max_tokens=80),
    ]
)


TOOLS = (ToolSpec(name="read file", input_schema={"type": "object"}),)
OPTIONS = st.builds(
    Options,
    max_tokens=st.sampled_from([None, 3000]),
    reasoning=st.sampled_from([None, Reasoning(budget=2000), Reasoning(effort="high")]),
    tool_choice=st.sampled_from([None, ToolChoice(mode="required", names=("read file",))]),
    cache_retention=st.sampled_from([None, "long"]),
)


@given(HISTORIES, MODELS, st.sampled_from([None, " ", "Be short."]), st.sampled_from([None, TOOLS]), OPTIONS)
def test_adapted_pieces_are_the_adapted_whole(
    messages: list[AgentMessage],
    model: ModelDescriptor,
    system: str | None,
    tools: tuple[ToolSpec, ...] | None,
    options: Options,
) -> None:
    """For every wire, with the same losses in the same order, and the same options."""
    context = Context(system=system, messages=tuple(messages), tools=tools)  # type: ignore[arg-type]
    for target in BASES:
        adapts_the_same(Request(model=model, context=context, options=options), target)


BASES = sorted(name for name, wire in WIRES.items() if wire.base == wire.api)


def adapts_the_same(request: Request, target: str) -> int:
    """Compares the two ways to adapt a history; returns the number of pieces."""
    messages = request.context.messages
    places = CallPlaces()
    for at, message in enumerate(messages):
        places.add(at, message)

    def cut() -> Iterator[list[AgentMessage]]:
        return pieces(enumerate(messages), places, least=1)

    totals = count_totals(request, target, cut(), places.ids)
    repairs, made, requests = TargetRepairs(), list[AgentMessage](), list[Request]()
    for piece in adapt_pieces(request, target, cut(), Earlier(places.ids, totals)):
        assert len(made) == piece.first
        repairs.add(piece)
        made += piece.messages
        requests.append(piece.adapted.request)
    whole = adapt(request, target)
    assert whole.request.context.messages == tuple(made)
    assert (*whole.losses, *whole.warnings) == repairs.losses
    assert whole.request.context.system == requests[0].context.system
    assert whole.request.context.tools == requests[-1].context.tools
    assert whole.request.options == requests[-1].options
    return len(requests)


def _run(*, first: Any = (), content: Any = "ok", cache: CacheMarker | None = None) -> list[AgentMessage]:
    """Three rounds of a Claude with its own thinking; the first answer may be another one's."""
    answer = {"model": "claude-sonnet-4-5", "api": "anthropic-messages", "stop_reason": "toolUse"}
    found: list[AgentMessage] = [il.UserMessage(content=(il.TextBlock(text="Hi", cache=cache),))]
    for at in range(3):
        call = il.ToolCall(id=f"c{at}", name="read file", arguments={})
        found += [
            il.AssistantMessage(content=(SIGNED, call), **(answer | dict(first if at == 0 else ()))),
            il.ToolResultMessage(tool_call_id=call.id, content=content, is_error=False),
        ]
    return found


@pytest.mark.parametrize("target", BASES)
@pytest.mark.parametrize(
    "model",
    [
        ModelDescriptor(id="claude-sonnet-4-5", api="anthropic-messages"),
        ModelDescriptor(id="mistral-large-latest"),
    ],
    ids=lambda model: model.id,
)
@pytest.mark.parametrize(
    "messages",
    [
        _run(),
        _run(first={"model": "gpt-5", "api": "openai-responses"}),
        _run(content=(PICTURE,)),
        _run(cache=CacheMarker(ttl="5m")),
        _run(content=""),
    ],
    ids=["own", "foreign", "pictures", "marked", "blank"],
)
def test_the_rounds_of_a_run_are_adapted_apart(
    messages: list[AgentMessage], model: ModelDescriptor, target: str
) -> None:
    """What depends on the beginning or the end of the turn, as whether the model may think, is that of the whole."""
    for options in (Options(), Options(reasoning=Reasoning(effort="high"), cache_retention="long", max_tokens=3000)):
        context = Context(system=" ", messages=tuple(messages))  # type: ignore[arg-type]
        assert 3 == adapts_the_same(Request(model=model, context=context, options=options), target)


@pytest.mark.parametrize("target", BASES)
def test_an_id_that_an_earlier_piece_is_sent_with_is_not_used_again(target: str) -> None:
    """Each call gets an id of its own where ids may not be used twice."""
    messages = (il.UserMessage(content="Hi"), *_called("c"), *_called("c"), *_called("c"))
    request = Request(model=ModelDescriptor(id="m"), context=Context(messages=messages))  # type: ignore[arg-type]
    assert 3 == adapts_the_same(request, target)


@pytest.mark.parametrize("target", BASES)
@pytest.mark.parametrize("id", ["m", "claude-opus-4-6"])
def test_the_room_in_the_window_is_what_all_pieces_leave(id: str, target: str) -> None:
    """Also where the model is asked to go on; a host that cuts what is too long off is warned of once."""
    rounds = [one for at in range(4) for one in _called(f"c{at}", "x" * 1000)]
    messages = (il.UserMessage(content="Hi"), *rounds, il.AssistantMessage(content="So", stop_reason="stop"))
    context = Context(messages=messages)  # type: ignore[arg-type]
    for window in (500, 2000):
        model = ModelDescriptor(id=id, context_window=window, max_tokens=1900)
        assert 4 == adapts_the_same(Request(model=model, context=context, options=Options(max_tokens=1900)), target)


def _called(id: str, text: str = "ok") -> list[AgentMessage]:
    call = il.ToolCall(id=id, name="read", arguments={})
    return [
        il.AssistantMessage(content=(call,), stop_reason="toolUse"),
        il.ToolResultMessage(tool_call_id=call.id, content=text, is_error=False),
    ]


@given(HISTORIES)
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


@given(HISTORIES)
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
    rounds = FirstPass(least=1)
    for at, message in enumerate([il.UserMessage(content="Hi"), *_round(0), *_round(1), *_round(2)]):
        rounds.add(at, message)
    assert rounds.is_valid
    first.add(12, il.ToolResultMessage(tool_call_id="c0", content="again", is_error=False))
    assert not first.is_valid


def test_a_run_is_cut_between_its_rounds_in_the_first_pass() -> None:
    first = FirstPass(least=1)
    messages = [il.UserMessage(content="Hi"), *_round(0), *_round(1), *_round(2)]
    cut = [found for at, message in enumerate(messages) if (found := first.add(at, message)) is not None]
    assert [3, 2, 2] == [len(piece) for piece in (*cut, first.close())]
    assert first.is_valid


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


def _round(at: int, text: str = "ok") -> list[AgentMessage]:
    return _called(f"c{at}", text)


def _cut(messages: list[AgentMessage], least: int | None = 1) -> list[int]:
    places = CallPlaces()
    for at, message in enumerate(messages):
        places.add(at, message)
    return [len(piece) for piece in pieces(enumerate(messages), places, least)]


def test_a_run_without_user_messages_is_cut_between_its_rounds() -> None:
    """Not before an answer that may be joined to one before it: behind a failed one, or reasoning alone."""
    ask: AgentMessage = il.UserMessage(content="Hi")
    assert [3, 2, 2] == _cut([ask, *_round(0), *_round(1), *_round(2)])
    assert [3, 3] == _cut([ask, *_round(0), *_round(1), il.AssistantMessage(content="Done", stop_reason="stop")])
    failed = il.AssistantMessage(content=(il.ToolCall(id="f", name="read", arguments={}),), stop_reason="error")
    result = il.ToolResultMessage(tool_call_id="f", content="ok", is_error=False)
    assert [3, 4] == _cut([ask, *_round(0), *_round(1), failed, result])
    assert [5, 2] == _cut([ask, failed, result, *_round(0), *_round(1)])
    thought = il.AssistantMessage(content=(il.ThinkingBlock(thinking="Hm"),), stop_reason="toolUse")
    call, answer = _round(0)
    assert [6] == _cut([ask, call, thought, answer, *_round(1)])
    late, unanswered = _round(1)[1], _round(2)[0]
    assert [6] == _cut([_round(1)[0], ask, unanswered, late, *_round(3)])
    assert [3, 3] == _cut([ask, *_round(0), *_round(1), il.AssistantMessage(content=None)])


def test_a_history_is_not_cut_before_an_answer_with_a_role_of_another_wire() -> None:
    """What follows a piece is one of our messages; the answer is read as one, and is adapted with the round before."""
    result = _round(1)[1]
    item = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    answer = CustomMessage("model", {"content": "Yes", "tool_calls": [item]})
    messages = [il.UserMessage(content="Hi"), *_round(0), answer, result, *_round(2)]
    assert [5, 2] == _cut(messages)
    context = Context(messages=tuple(messages))  # type: ignore[arg-type]
    assert 2 == adapts_the_same(Request(model=ModelDescriptor(id="m"), context=context), "anthropic-messages")


def test_large_messages_are_cut_into_pieces_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "CHARACTERS", 10_000)
    messages = [il.UserMessage(content="Hi"), *(one for at in range(9) for one in _round(at, "x" * 5_000))]
    assert [5, 4, 4, 4, 2] == _cut(messages, least=None)


def test_a_history_that_cannot_be_cut_is_refused_from_some_size_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call without a result at the beginning, whose id is there again at the end."""
    monkeypatch.setattr(cutting, "MAX_CHARACTERS", 100_000)
    rounds = [one for at in range(100) for one in _round(at, "x" * 900)]
    assert 100 == len(_cut(rounds))
    open_call = _round(100)[0]
    with pytest.raises(TooLong):
        _cut([open_call, il.UserMessage(content="Hi"), *rounds, open_call])
