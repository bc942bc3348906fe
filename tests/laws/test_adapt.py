"""Law 7: adapting mends everything, once, in the open, and never touches what is stored."""

import json
import re
from collections import Counter
from typing import Any

from hypothesis import given, note
from hypothesis import strategies as st
from msgspec.structs import replace

import interlingua as il
from interlingua.conversion.adapting.adapter import PASSES, Adapted, adapt
from interlingua.conversion.adapting.work import NO_RESULT, SYNTHETIC, Work
from interlingua.dialects import dialect
from interlingua.dialects.foreign_blocks import meant
from interlingua.dialects.registry import limits_of
from interlingua.values.canonical import dump
from interlingua.values.messages import AssistantMessage, TextBlock, ToolResultMessage
from interlingua.values.request import ModelDescriptor, Request
from laws.differences import differing, is_under, view
from laws.wires import every_dialect, owner
from strategies import mistaken_messages, requests, scattered_requests, wellformed_requests

MODELS = [
    *("", "claude-opus-4-5", "gpt-5", "gemini-3-pro", "mistral-large", "amazon.nova-pro", "some-model"),
    *("claude-3-5-haiku", "claude-opus-4-6", "claude-opus-5", "claude-sonnet-5-5", "claude-opus-5-5", "gpt-5.1"),
    *("gpt-5.6-sol", "gemini-2.5-pro", "gemini-2.0-flash", "gpt-oss:20b", "qwen3:8b", "grok-4", "amazon.nova-2-lite"),
]


@st.composite
def targets(draw: st.DrawFn, name: str) -> ModelDescriptor | str:
    """A wire by its name, or a model that is served over it."""
    if draw(st.booleans()):
        return name
    return ModelDescriptor(
        id=draw(st.sampled_from(MODELS)),
        api=name,
        max_tokens=draw(st.sampled_from([None, 100, 8192])),
        reasoning=draw(st.sampled_from([None, True, False])),
        input=draw(st.sampled_from([None, ("text",), ("text", "image")])),
    )


def histories(name: str) -> st.SearchStrategy[Request]:
    return st.one_of(
        requests(owner(name), name, 6),
        requests(None, None, 6),
        wellformed_requests(own=name),
        scattered_requests(own=name),
        mistaken_messages().map(lambda messages: il.decode(messages, "clawtools").request()),
    )


@every_dialect
@given(data=st.data())
def test_what_was_adapted_has_no_faults_left(name: str, data: st.DataObject) -> None:
    """
    Whatever the history holds, the adapted request has no error for the target.
    """
    target = data.draw(targets(name))
    adapted = il.adapt(data.draw(histories(name)), target)
    note(f"adapted: {dump(adapted.request).decode()}")
    assert [finding for finding in il.check(adapted.request, target=target) if finding.severity == "error"] == []


@every_dialect
@given(data=st.data())
def test_a_pass_that_is_left_out_would_have_changed_nothing(name: str, data: st.DataObject) -> None:
    """
    Passes run only for requests with the kinds of values that they repair; running all of them gives the same.
    """
    target, request = data.draw(targets(name)), data.draw(histories(name))
    work = Work(request, target, "drop")
    work.caching = True
    for repair, _ in PASSES:
        repair(work)
    expected, adapted = Adapted(work), adapt(request, target, caching=True)
    assert expected == adapted
    assert (expected.places, expected.ids, expected.names) == (adapted.places, adapted.ids, adapted.names)


@every_dialect
@given(data=st.data())
def test_adapting_twice_is_adapting_once(name: str, data: st.DataObject) -> None:
    """
    The second time there is nothing to do and nothing to report.
    """
    target = data.draw(targets(name))
    once = il.adapt(data.draw(histories(name)), target, thinking=data.draw(st.sampled_from(["drop", "text"])))
    note(f"once: {dump(once.request).decode()}")
    twice = il.adapt(once.request, target)
    assert once.request == twice.request
    assert twice.losses == ()


@every_dialect
@given(data=st.data())
def test_the_source_is_left_as_it_was(name: str, data: st.DataObject) -> None:
    """
    Repairs are made on a copy, nested values included.
    """
    source = data.draw(histories(name))
    before = dump(source)
    il.adapt(source, data.draw(targets(name)))
    assert before == dump(source)


@every_dialect
@given(data=st.data())
def test_a_longer_history_begins_with_the_shorter_one(name: str, data: st.DataObject) -> None:
    """
    Up to the first call whose result may still come, or the last step of the model, later messages change nothing.
    """
    source, target = data.draw(histories(name)), data.draw(targets(name))
    messages = source.context.messages
    cut = data.draw(st.integers(0, len(messages)))
    shorter = replace(source, context=replace(source.context, messages=messages[:cut]))
    early, late = (unmarked(il.adapt(request, target).request.context.messages) for request in (shorter, source))
    settled = min(last_step(early), first_open(early))
    note(f"early: {early}\nlate: {late}")
    assert early[:settled] == late[:settled]


def last_step(messages: list[Any]) -> int:
    """Where the last row of assistant messages begins, or the call of the last row of results."""
    spoken = [at for at, message in enumerate(messages) if isinstance(message, AssistantMessage)]
    at = spoken[-1] if spoken else 0
    while at and isinstance(messages[at - 1], AssistantMessage):
        at -= 1
    return at


def first_open(messages: list[Any]) -> int:
    """Where the first row of assistant messages begins that has a call without a result."""
    for at, message in enumerate(messages):
        if isinstance(message, ToolResultMessage) and message.extra == SYNTHETIC:
            before = [n for n, m in enumerate(messages[:at]) if not isinstance(m, AssistantMessage | ToolResultMessage)]
            return before[-1] + 1 if before else 0
    return len(messages)


def unmarked(messages: tuple[Any, ...]) -> list[Any]:
    """Without cache markers, of which the last few count, wherever they are."""
    out = []
    for message in messages:
        if isinstance(message.content, tuple):
            blocks = tuple(replace(b, cache=None) if getattr(b, "cache", None) else b for b in message.content)
            message = replace(message, content=blocks)
        out.append(replace(message, cache=None) if getattr(message, "cache", None) else message)
    return out


@every_dialect
@given(data=st.data())
def test_calls_and_results_are_paired_one_to_one(name: str, data: st.DataObject) -> None:
    """
    Behind each turn come the results of its calls, in call order, and no others; ids lead back to the source.
    """
    source, target = data.draw(histories(name)), data.draw(targets(name))
    adapted = il.adapt(source, target)
    open_calls: list[Any] = []
    rules = limits_of(target if isinstance(target, ModelDescriptor) else ModelDescriptor(id="", api=name))
    in_one = rules.joined_calls or rules.alternating
    before: Any = None
    for message in adapted.request.context.messages:
        if isinstance(message, ToolResultMessage):
            assert open_calls
            call = open_calls.pop(0)
            assert (call.id, call.name) == (message.tool_call_id, message.tool_name)
        else:
            same_step = isinstance(message, AssistantMessage) and isinstance(before, AssistantMessage)
            assert open_calls == [] or (same_step and not in_one)
            open_calls += message.tool_calls if isinstance(message, AssistantMessage) else []
        before = message
    assert open_calls == []
    ids_lead_back(source, adapted, target, name)


@every_dialect
@given(data=st.data())
def test_no_result_that_was_given_is_replaced_by_a_placeholder(name: str, data: st.DataObject) -> None:
    """
    However turns and results are spread, a result is left over only when every call of its id has one.
    """
    source, target = data.draw(scattered_requests(own=name)), data.draw(targets(name))
    adapted = il.adapt(source, target)
    body = json.dumps(dialect(name).encode_request(adapted.request).body, ensure_ascii=False)
    note(f"adapted: {dump(adapted.request).decode()}\nlosses: {adapted.losses}\nbody: {body}")
    calls: dict[str, Counter[str]] = {}
    for at, message in enumerate(source.context.messages):
        if isinstance(message, AssistantMessage):
            kind = "failed" if message.stop_reason in ("error", "aborted") else "called"
            for call in message.tool_calls:
                calls.setdefault(call.id, Counter())[kind] += 1
        elif isinstance(message, ToolResultMessage):
            calls.setdefault(message.tool_call_id, Counter())[what_became(at, message, adapted, body)] += 1
    for count in calls.values():
        assert count["failed result"] <= count["failed"]
        assert count["sent"] <= count["called"]
        if count["left over"]:
            assert (count["sent"], count["failed result"]) == (count["called"], count["failed"])
    assert body.count(NO_RESULT) == sum(count["called"] - count["sent"] for count in calls.values())


@every_dialect
@given(messages=mistaken_messages(), form=st.sampled_from(["clawtools", "interlingua", "transcript", "openclaw"]))
def test_other_wires_words_are_read_as_what_they_mean(name: str, messages: list[Any], form: str) -> None:
    """
    In a context, a list of messages or a session file: no call and no result is lost, and it is reported.
    """
    is_file = form in ("transcript", "openclaw")
    conversation = il.decode("\n".join(map(json.dumps, messages)) if is_file else messages, form)
    body, losses = il.encode(conversation, name)
    text = json.dumps(body)
    note(f"body: {text}")
    assert [found for found in re.findall(r"result \d\.", json.dumps(messages)) if found not in text] == []
    assert NO_RESULT not in text
    assert "shape" in {loss.what for loss in losses}


def what_became(at: int, result: ToolResultMessage, adapted: Adapted, body: str) -> str:
    """Whether a result was sent with its call, or dropped, and why."""
    (block,) = result.content or ()
    assert isinstance(block, TextBlock)
    if block.text in body:
        ids = [m.tool_call_id for m in adapted.request.context.messages if block.text in str(m.content)]
        assert [result.tool_call_id] == [adapted.ids.get(id, id) for id in ids]
        return "sent"
    (why,) = [loss.why for loss in adapted.losses if (loss.path, loss.severity) == (f"$.messages[{at}]", "dropped")]
    return "failed result" if "turn that is not sent" in why else "left over"


def ids_lead_back(source: Request, adapted: Adapted, target: ModelDescriptor | str, name: str) -> None:
    rule = limits_of(target if isinstance(target, ModelDescriptor) else ModelDescriptor(id="", api=name)).ids
    made = [c.id for m in adapted.request.context.messages if isinstance(m, AssistantMessage) for c in m.tool_calls]
    had = [c.id for m in meant(source.context.messages) if isinstance(m, AssistantMessage) for c in m.tool_calls]
    assert not Counter(adapted.ids.get(id, id) for id in made) - Counter(had)
    if rule is not None:
        assert len(made) == len(set(made))
        assert all(map(rule.allows, made)) or isinstance(target, str)


@every_dialect
@given(data=st.data())
def test_no_blank_text_is_sent_where_it_is_refused(name: str, data: st.DataObject) -> None:
    """
    Blank blocks, empty messages and blank system texts are left out or filled.
    """
    request = il.adapt(data.draw(histories(name)), name).request
    for message in request.context.messages:
        assert message.content or isinstance(message, ToolResultMessage) or isinstance(message.content, str)
        if not limits_of(ModelDescriptor(id="", api=name)).blank_text:
            assert message.content
            blocks = (message.content,) if isinstance(message.content, str) else message.content
            assert not any(isinstance(b, str) and not b.strip() for b in blocks)
            assert not any(isinstance(b, TextBlock) and not b.text.strip() and not b.text_signature for b in blocks)


@every_dialect
@given(data=st.data())
def test_all_that_adapting_does_is_reported_and_all_that_is_reported_was_done(name: str, data: st.DataObject) -> None:
    """
    Source and adapted request differ exactly under the paths of the losses.
    """
    source, target = data.draw(histories(name)), data.draw(targets(name))
    adapted = il.adapt(source, target)
    note(f"adapted: {dump(adapted.request).decode()}\nlosses: {adapted.losses}")
    found = changes(source, adapted, owner(name))
    reported = [loss.path for loss in adapted.losses]
    assert sorted(path for path in found if not any(is_under(path, loss) for loss in reported)) == []
    assert [loss for loss in reported if not any(is_under(p, loss) or is_under(loss, p) for p in found)] == []


def changes(source: Request, adapted: Adapted, own: str) -> set[str]:
    """The paths into the source of all that is different in the adapted request."""
    before, after = view(source, own), view(adapted.request, own)
    found = set()
    for part in ("system", "systemRole", "tools", "options", "extra", "context"):
        found |= differing(
            before.get(part, {}), after.get(part, {}), [x.path for x in adapted.losses], own, f"$.{part}"
        )
    found |= moved([at for at in adapted.places if at is not None], source)
    there = set()
    for at, (place, message) in enumerate(zip(adapted.places, after["messages"], strict=True)):
        there |= {adapted.source(f"$.messages[{at}].content[{n}]") for n, _ in enumerate(blocks_in(message))}
        if place is None:
            found |= added(at, message, adapted)
            continue
        envelope = [{k: v for k, v in m.items() if k != "content"} for m in (before["messages"][place], message)]
        found |= differing(*envelope, [], own, f"$.messages[{place}]")
        found |= changed_blocks(at, place, message, before, adapted, own)
    for at, message in enumerate(before["messages"]):
        if at not in adapted.places:
            found.add(f"$.messages[{at}]")
        paths = {f"$.messages[{at}].content[{n}]" for n, _ in enumerate(blocks_in(message))}
        if isinstance(message.get("content"), str):
            paths = {f"$.messages[{at}].content"}
        found |= paths - there
    return found


def blocks_in(message: dict[str, Any]) -> list[Any]:
    content = message.get("content")
    return [content] if isinstance(content, str) else content or []


def changed_blocks(at: int, place: int, message: dict[str, Any], before: Any, adapted: Adapted, own: str) -> set[str]:
    found = set()
    for n, block in enumerate(blocks_in(message)):
        path = adapted.source(f"$.messages[{at}].content[{n}]")
        if path is None:
            found.add(f"$.messages[{place}].content")
            continue
        first, _, last = path.removeprefix("$.messages[").partition("].content")
        content = before["messages"][int(first)]["content"]
        was = content if isinstance(content, str) else content[int(last[1:-1])]
        if isinstance(was, str) != isinstance(block, str):
            was, block = ({"": "text", "text": x} if isinstance(x, str) else x for x in (was, block))
        if int(first) != place:
            found |= {f"$.messages[{place}].content", path}
        found |= differing(was, block, [loss.path for loss in adapted.losses], own, path)
    return found


def moved(places: list[int], source: Request) -> set[str]:
    """The results that overtook another message, or were overtaken."""
    pairs = [(x, y) for a, x in enumerate(places) for y in places[a + 1 :] if x > y]
    results = {p for pair in pairs for p in pair if isinstance(source.context.messages[p], ToolResultMessage)}
    return {f"$.messages[{place}]" for place in results}


def added(at: int, message: dict[str, Any], adapted: Adapted) -> set[str]:
    """Why a message was added: for blocks that moved into it, for a call without a result, or at the beginning."""
    moved_here = {adapted.source(f"$.messages[{at}].content[{n}]") for n, _ in enumerate(blocks_in(message))} - {None}
    if moved_here or "toolCallId" not in message:
        return moved_here or {"$.messages"}
    for turn in range(at, -1, -1):
        for n, block in enumerate(adapted.request.context.messages[turn].content or ()):
            if getattr(block, "id", None) == message["toolCallId"]:
                return {adapted.source(f"$.messages[{turn}].content[{n}]")}
    raise AssertionError("a result was added for no call")


@every_dialect
@given(data=st.data())
def test_an_encoder_leaves_nothing_out_of_what_was_adapted(name: str, data: st.DataObject) -> None:
    """
    No message and no block of an adapted request is dropped on the wire: no turn becomes empty behind adapt's back.
    """
    request = il.adapt(data.draw(histories(name)), name).request
    body, losses = dialect(name).encode_request(request)
    note(f"adapted: {dump(request).decode()}\nbody: {body}")
    gone = [loss for loss in losses if loss.severity == "dropped" and loss.path.endswith("]")]
    assert [loss for loss in gone if not loss.path.startswith("$.system")] == []
