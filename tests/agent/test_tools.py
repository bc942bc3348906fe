"""Calls: side by side or in turn, checked, hooked, approved, and always answered."""

import asyncio
import contextlib
import threading
import time
from typing import Any

import pytest

import interlingua as il
from agent.grammar import check_events, check_pairing, check_wires
from agent.making import (
    agent_of,
    call,
    calling,
    events_of,
    labels_of,
    noted,
    results,
    text_result,
    texts,
    tool_of,
    waiting,
)
from interlingua.agent import AfterCall, BeforeCall, Limits, Verdict
from interlingua.testing import Server
from interlingua.tools import calling as tool_calling
from interlingua.tools.policy import ASK, ApprovalRequest, Policy
from interlingua.tools.tool import Tool, ToolResult, ToolUpdateCallback
from interlingua.values.events import AgentEvent, ToolExecutionEnd, ToolExecutionUpdate

NUMBER = {"type": "integer"}


def meeting(name: str = "meet", count: int = 2, **how: Any) -> tuple[Tool, list[int]]:
    """A tool that waits for `count` calls to be under way at once, and how many were at each beginning."""
    running: list[int] = []
    together = asyncio.Event()
    now = 0

    async def run(id: str, params: dict[str, Any], signal: Any = None, on_update: Any = None) -> ToolResult:
        nonlocal now
        now += 1
        running.append(now)
        if now >= count:
            together.set()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(together.wait(), 0.05 if count > 99 else 10)
        now -= 1
        return text_result(id)

    return tool_of(name, run, **how), running


async def test_calls_run_side_by_side_and_are_answered_in_call_order() -> None:
    """Each call waits for the other: only overlapping calls get through."""
    meet, running = meeting()
    agent = agent_of(calling(call("meet", "a"), call("meet", "b")), "done", tools=[meet])
    check_events(await events_of(agent))
    assert [1, 2] == running
    assert ["a", "b"] == texts(results(agent.messages))


async def test_a_quick_call_ends_at_once_and_its_result_waits_for_its_turn() -> None:
    """End events come when each call ends; result messages in call order, also behind a call that was blocked."""
    quick_ended = asyncio.Event()

    async def slow(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        await quick_ended.wait()
        return text_result("slow")

    async def quick(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        return text_result("quick")

    agent = agent_of(
        calling(call("slow"), call("quick"), call("nobody")),
        "done",
        tools=[tool_of("slow", slow), tool_of("quick", quick)],
    )

    def hear(event: AgentEvent) -> None:
        if isinstance(event, ToolExecutionEnd) and event.tool_call_id == "quick":
            quick_ended.set()

    agent.subscribe(hear)
    events = await events_of(agent)
    check_events(events)
    ends = [event.tool_call_id for event in events if isinstance(event, ToolExecutionEnd)]
    assert "slow" == ends[-1]
    assert ["slow", "quick", "nobody"] == [result.tool_call_id for result in results(agent.messages)]


async def test_sequential_mode_runs_one_call_at_a_time() -> None:
    """In call order, start to end."""
    meet, running = meeting(count=100)
    agent = agent_of(calling(call("meet", "a"), call("meet", "b")), "done", tools=[meet], tool_execution="sequential")
    labels = [word for word in labels_of(await events_of(agent)) if word.startswith("tool_")]
    assert [1, 1] == running
    assert [f"tool_execution_{what} {id}" for id in "ab" for what in ("start", "end")] == labels


async def test_a_tool_marked_sequential_runs_alone() -> None:
    """Calls before it have ended when it begins, calls after it begin when it has ended."""
    side, beside = meeting("side")
    alone, by_itself = meeting("alone", count=100, sequential=True)
    calls = (call("side", "a"), call("side", "b"), call("alone", "c"), call("side", "d"))
    agent = agent_of(calling(*calls), "done", tools=[side, alone])
    labels = [word for word in labels_of(await events_of(agent)) if word.startswith("tool_")]
    assert ([1, 2, 1], [1]) == (beside, by_itself)
    assert [f"tool_execution_{what} {id}" for id in "cd" for what in ("start", "end")] == labels[-4:]


# --- updates ----------------------------------------------------------------------------------------------------------


async def test_updates_are_delivered_before_the_end_and_late_ones_are_ignored() -> None:
    """All updates of a call are told, in order, before its end; what comes after the result is not told."""
    report: list[ToolUpdateCallback] = []

    async def run(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        report.append(on_update)
        for at in range(3):
            on_update(text_result(f"step {at}"))
        return text_result("done")

    agent = agent_of(calling(call("x", "a")), "done", tools=[tool_of("x", run)])

    async def slow(event: AgentEvent) -> None:
        if isinstance(event, ToolExecutionUpdate):
            await asyncio.sleep(0.005)
        if isinstance(event, ToolExecutionEnd):
            report[0](text_result("too late"))

    agent.subscribe(slow)
    events = await events_of(agent)
    check_events(events)
    updates = [event.partial_result for event in events if isinstance(event, ToolExecutionUpdate)]
    assert ["step 0", "step 1", "step 2"] == [update["content"][0]["text"] for update in updates]


async def test_a_sync_tool_runs_in_a_thread_and_may_report() -> None:
    """It may block, without holding up the loop, and its updates arrive."""
    threads: list[int] = []

    @il.tool
    def work(steps: int, report: ToolUpdateCallback) -> str:
        """Works."""
        threads.append(threading.get_ident())
        for at in range(steps):
            time.sleep(0.001)
            report(text_result(str(at)))
        return "worked"

    agent = agent_of(calling(call("work", "a", steps=3)), "done", tools=[work])
    events = await events_of(agent)
    check_events(events)
    assert ["tool_execution_start a", *["tool_execution_update a"] * 3, "tool_execution_end a"] == labels_of(events)[
        6:11
    ]
    assert threads != [threading.get_ident()]


# --- hooks ------------------------------------------------------------------------------------------------------------


async def one_call(**how: Any) -> tuple[il.ToolResultMessage, list[Any]]:
    """The result of one call of `note` with `n: "1"`, and what reached the tool."""
    note, seen = noted(n=NUMBER)
    agent = agent_of(calling(call("note", "a", n="1")), "done", tools=[note], **how)
    check_events(await events_of(agent))
    check_pairing(agent.messages)
    assert "done" == texts(agent.messages)[-1]
    return results(agent.messages)[0], seen


async def test_a_hook_may_block_a_call_with_or_without_a_reason() -> None:
    """The reason is the result; the tool does not run."""
    result, seen = await one_call(before_tool_call=lambda call: Verdict(block=True, reason="not on Sundays"))
    assert (["not on Sundays"], True, []) == (texts([result]), result.is_error, seen)
    result, seen = await one_call(before_tool_call=lambda call: Verdict(block=True))
    assert (["note was blocked"], True, []) == (texts([result]), result.is_error, seen)


async def test_a_hook_sees_valid_arguments_and_may_change_them() -> None:
    """It may be a coroutine; what it says goes to the tool; the history keeps what the model said."""
    given: list[BeforeCall] = []

    async def double(before: BeforeCall) -> Verdict:
        given.append(before)
        return Verdict(arguments={"n": before.arguments["n"] * 2})

    result, seen = await one_call(before_tool_call=double)
    assert ([{"n": 2}], False) == (seen, result.is_error)
    assert ({"n": 1}, {"n": "1"}) == (given[0].arguments, given[0].call.arguments)
    assert given[0].message.tool_calls == (given[0].call,)


async def test_a_hook_that_says_nothing_changes_nothing() -> None:
    """None lets the call run and the result stand."""
    result, seen = await one_call(before_tool_call=lambda call: None, after_tool_call=lambda call: None)
    assert ("noted", [{"n": 1}]) == (texts([result])[0], seen)


def broken_hook(_: Any) -> None:
    raise ValueError("a bug in a hook")


async def test_a_hook_before_a_call_that_fails_keeps_it_from_running() -> None:
    """A failing hook has not allowed anything; the model reads what happened."""
    result, seen = await one_call(before_tool_call=broken_hook)
    assert (True, []) == (result.is_error, seen)
    assert "a bug in a hook" in texts([result])[0]


async def test_a_hook_after_a_call_may_replace_its_result() -> None:
    """All of it, or a part by copying the rest."""
    seen: list[AfterCall] = []

    def mark(after: AfterCall) -> ToolResult:
        seen.append(after)
        return ToolResult(content=after.result.content, details={"marked": True}, is_error=True)

    result, ran = await one_call(after_tool_call=mark)
    assert (["noted"], {"marked": True}, True) == (texts([result]), result.details, result.is_error)
    assert ("note", "noted", [{"n": 1}]) == (seen[0].call.name, seen[0].result.text, ran)


async def test_a_hook_after_a_call_that_fails_leaves_the_result(caplog: pytest.LogCaptureFixture) -> None:
    """The call has run, and what came of it is not replaced; that the hook failed is logged."""
    result, seen = await one_call(after_tool_call=broken_hook)
    assert ("noted", False, [{"n": 1}]) == (texts([result])[0], result.is_error, seen)
    assert "a bug in a hook" in caplog.text


@pytest.mark.parametrize("error", [SystemExit(2), asyncio.CancelledError(), BaseException("odd")])
@pytest.mark.parametrize("hook", ["before_tool_call", "after_tool_call"])
@pytest.mark.parametrize("asynchronous", [True, False])
async def test_a_hook_cannot_end_the_host(hook: str, error: BaseException, asynchronous: bool) -> None:
    """Not by `SystemExit`, nor by a cancellation that nobody asked for."""

    def fail(_: Any) -> None:
        raise error

    async def fail_later(_: Any) -> None:
        fail(_)

    result, seen = await one_call(**{hook: fail_later if asynchronous else fail})
    assert (hook == "before_tool_call", [{"n": 1}] if hook == "after_tool_call" else []) == (result.is_error, seen)


async def test_a_verdict_may_be_a_mapping_and_is_never_ignored() -> None:
    """A block is a block; what cannot be understood has not allowed anything."""
    result, seen = await one_call(before_tool_call=lambda call: {"block": True, "reason": "not today"})
    assert (["not today"], []) == (texts([result]), seen)
    result, seen = await one_call(before_tool_call=lambda call: {"arguments": {"n": 5}})
    assert [{"n": 5}] == seen
    for odd in (False, {"blocked": True}):
        result, seen = await one_call(before_tool_call=lambda call, odd=odd: odd)
        assert (True, []) == (result.is_error, seen)


async def test_a_result_of_a_hook_may_be_a_mapping() -> None:
    """As the documents write a tool's result."""
    result, _ = await one_call(after_tool_call=lambda call: {"content": [{"type": "text", "text": "other"}]})
    assert ["other"] == texts([result])


@pytest.mark.parametrize("name", ["transform_context", "convert", "get_api_key", "approve", "policy"])
@pytest.mark.parametrize("error", [SystemExit(2), asyncio.CancelledError()])
async def test_no_other_callback_ends_the_host(name: str, error: BaseException) -> None:
    """The run ends in an error that names it, or the call is refused; nothing is raised."""

    def fail(*_: Any) -> Any:
        raise error

    class Failing:
        decide = staticmethod(fail)

    how = {"policy": Failing()} if name == "policy" else {name: fail}
    if name == "approve":
        how["policy"] = ASK
    note, seen = noted(n=NUMBER)
    agent = agent_of(calling(call("note", "a", n="1")), "done", tools=[note], **how)
    result = await agent.prompt("go")
    assert [] == seen
    assert result.reason == ("done" if name in ("approve", "policy") else "error")


# --- approval ---------------------------------------------------------------------------------------------------------


async def test_approval_is_asked_for_one_call_at_a_time() -> None:
    """However many calls run side by side, there is one question on the screen. A no is a result."""
    note, seen = noted()
    open_questions = 0

    async def ask(request: ApprovalRequest) -> bool:
        nonlocal open_questions
        open_questions += 1
        assert 1 == open_questions
        await asyncio.sleep(0.002)
        open_questions -= 1
        return request.tool_call_id != "b"

    agent = agent_of(
        calling(*(call("note", id, who=id) for id in "abc")),
        "done",
        tools=[note],
        policy=Policy.of({"default": "ask"}),
        approve=ask,
    )
    check_events(await events_of(agent))
    assert [{"who": "a"}, {"who": "c"}] == seen
    assert [False, True, False] == [result.is_error for result in results(agent.messages)]
    assert "not approved" in texts(results(agent.messages))[1]


async def test_nobody_to_ask_means_no() -> None:
    """A policy that asks, without anybody who answers, allows nothing."""
    result, seen = await one_call(policy=Policy.of({"default": "ask"}))
    assert (True, []) == (result.is_error, seen)
    assert "no approver is available" in texts([result])[0]


async def test_a_question_that_is_open_when_the_run_is_aborted_is_a_no() -> None:
    """The call does not run, and the run ends."""
    asked = asyncio.Event()
    note, seen = noted()

    async def ask(request: ApprovalRequest) -> bool:
        asked.set()
        await asyncio.sleep(30)
        return True

    agent = agent_of(calling(call("note")), tools=[note], policy=Policy.of({"default": "ask"}), approve=ask)
    tool_calling.GRACE, grace = 0.01, tool_calling.GRACE
    try:
        running = asyncio.ensure_future(agent.prompt("go"))
        await asked.wait()
        agent.abort()
        assert "aborted" == (await running).reason
    finally:
        tool_calling.GRACE = grace
    assert [] == seen
    check_pairing(agent.messages)


# --- arguments --------------------------------------------------------------------------------------------------------


async def test_arguments_are_repaired_for_the_tool_and_kept_as_they_came() -> None:
    """A number as text reaches the tool as a number; history and events have the text."""
    note, seen = noted(n=NUMBER)
    agent = agent_of(calling(call("note", "a", n="7")), "done", tools=[note])
    events = await events_of(agent)
    assert [{"n": 7}] == seen
    start = next(event for event in events if "tool_execution_start a" in labels_of([event]))
    assert {"n": "7"} == start.args  # type: ignore[union-attr]
    answer = agent.messages[1]
    assert isinstance(answer, il.AssistantMessage)
    assert {"n": "7"} == answer.tool_calls[0].arguments


async def test_wrong_arguments_are_explained_and_the_model_may_try_again() -> None:
    """Every mistake with its place, what was received and what is allowed."""
    note, seen = noted(n=NUMBER)
    agent = agent_of(calling(call("note", "a", n="many")), calling(call("note", "b", n=2)), "done", tools=[note])
    assert "done" == (await agent.prompt("go")).reason
    wrong, right = results(agent.messages)
    assert (True, False, [{"n": 2}]) == (wrong.is_error, right.is_error, seen)
    assert "n" in texts([wrong])[0] and "many" in texts([wrong])[0]


async def test_an_unknown_tool_is_answered_with_the_tools_there_are() -> None:
    """And with the one that was probably meant."""
    note, _ = noted()
    agent = agent_of(calling(call("notes")), "done", tools=[note])
    check_events(await events_of(agent))
    result = results(agent.messages)[0]
    assert result.is_error
    assert "Unknown tool 'notes'. Did you mean note? Available tools: note." == texts([result])[0]


async def test_arguments_that_are_no_json_are_answered_and_not_run() -> None:
    """The model reads what is wrong; the history can be said on every wire."""
    note, seen = noted()
    agent = agent_of(calling(call("note", text='{"n": ')), "done", tools=[note])
    check_events(await events_of(agent))
    result = results(agent.messages)[0]
    assert (True, []) == (result.is_error, seen)
    assert "not a JSON object" in texts([result])[0]
    assert """Received: "{\\"n\\": \"""" in texts([result])[0]
    check_wires(agent.messages)


async def test_case_35_a_call_without_arguments_is_a_call_with_none() -> None:
    """Blank argument text is `{}`: the tool runs."""
    note, seen = noted()
    agent = agent_of(calling(call("note", text="")), "done", tools=[note])
    await agent.prompt("go")
    assert ([{}], False) == (seen, results(agent.messages)[0].is_error)


async def test_case_36_large_integers_reach_the_tool_unrounded() -> None:
    """2**53 + 1 is 2**53 + 1, in the tool, the history and the next request."""
    note, seen = noted(n=NUMBER)
    agent = agent_of(calling(call("note", text='{"n": 9007199254740993}')), "done", tools=[note])
    await agent.prompt("go")
    assert [{"n": 9007199254740993}] == seen
    request = il.Request(model=il.ModelDescriptor(id="m"), context=il.Context(messages=tuple(agent.messages)))  # type: ignore[arg-type]
    body = il.dialect("openai-completions").encode_request(il.adapt(request, "openai-completions").request)
    assert b"9007199254740993" in body.bytes()


async def test_a_call_cut_by_the_length_limit_is_never_run() -> None:
    """Complete or not, no call of such an answer runs; each has a result that says so, and the model goes on."""
    note, seen = noted()
    cut = calling(call("note", "a", n=1), call("note", "b", text='{"n": 2'), stop="length")
    agent = agent_of(cut, "done", tools=[note])
    events = await events_of(agent)
    check_events(events)
    assert [] == seen
    assert [True, True] == [result.is_error for result in results(agent.messages)]
    assert "cut off by the output limit" in texts(results(agent.messages))[0]
    assert "done" == texts(agent.messages)[-1]
    check_wires(agent.messages)


@pytest.mark.parametrize("word", ["length", "max_tokens", "MAX_TOKENS", "model_length"])
async def test_no_call_runs_that_a_chat_host_cut_in_its_own_words(word: str) -> None:
    """The call looks complete; the word says that the answer was cut. The next request goes out as usual."""
    note, seen = noted()
    made = {"id": "c1", "type": "function", "function": {"name": "note", "arguments": '{"n": 1}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [made]}
    with Server() as server:
        server.route("POST", "/chat/completions", {"choices": [{"message": message, "finish_reason": word}]})
        how = {"base_url": server.url, "api_key": "none", "limits": Limits(turns=2)}
        agent = il.Agent("openai-compatible/m", [note], **how)  # type: ignore[arg-type]
        await agent.prompt("go")
    assert [] == seen
    assert ["length", "length"] == [m.stop_reason for m in agent.messages if isinstance(m, il.AssistantMessage)]
    assert all("cut off by the output limit" in text for text in texts(results(agent.messages)))
    check_wires(agent.messages)


# --- outcomes ---------------------------------------------------------------------------------------------------------


async def test_a_tool_that_raises_is_a_result() -> None:
    """The model reads the message of the exception."""

    async def broken(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        raise RuntimeError("the disk is on fire")

    agent = agent_of(calling(call("x")), "done", tools=[tool_of("x", broken)])
    check_events(await events_of(agent))
    result = results(agent.messages)[0]
    assert result.is_error
    assert "the disk is on fire" in texts([result])[0]


async def test_a_tool_may_return_that_it_failed() -> None:
    """`is_error` of a result reaches the event and the message."""

    async def failed(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        return text_result("no such file", is_error=True, details={"path": "x"})

    agent = agent_of(calling(call("x")), "done", tools=[tool_of("x", failed)])
    events = await events_of(agent)
    assert [True] == [event.is_error for event in events if isinstance(event, ToolExecutionEnd)]
    assert {"path": "x"} == results(agent.messages)[0].details


@pytest.mark.parametrize(
    "details", [float("nan"), object(), {1: {2, 3}}, b"bytes", [[[[[]]]]] * 2], ids=lambda value: type(value).__name__
)
async def test_details_of_any_kind_can_be_kept(details: Any, tmp_path: Any) -> None:
    """What JSON has no word for is kept as its `repr`; the run and its session go on."""
    from interlingua.sessions import Session

    async def run(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        return text_result("ok", details=details)

    with Session.open(tmp_path / "s.jsonl") as session:
        agent = agent_of(calling(call("x")), "done", tools=[tool_of("x", run)], session=session)
        assert "done" == (await agent.prompt("go")).reason
    with Session.open(tmp_path / "s.jsonl") as session:
        assert results(agent.messages) == results(session.messages)


async def test_details_nested_too_deep_to_read_again_are_kept_as_text(tmp_path: Any) -> None:
    """A line that could not be read back would lose the result."""
    from interlingua.sessions import Session

    deep: Any = []
    for _ in range(498):
        deep = [deep]

    async def run(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        return text_result("ok", details=deep)

    with Session.open(tmp_path / "s.jsonl") as session:
        agent = agent_of(calling(call("x")), "done", tools=[tool_of("x", run)], session=session)
        assert "done" == (await agent.prompt("go")).reason
    with Session.open(tmp_path / "s.jsonl") as session:
        assert () == session.problems
        assert 4 == len(session.messages)


async def test_a_run_ends_after_a_batch_if_all_its_results_ask_for_it() -> None:
    """`terminate` of every result ends the run without another answer; of some, it does not."""

    async def last(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        return text_result("that was all", terminate=True)

    note, _ = noted()
    tools = [tool_of("last", last), note]
    agent = agent_of(calling(call("last", "a"), call("last", "b")), "never said", tools=tools)
    check_events(await events_of(agent))
    assert "that was all" == texts(agent.messages)[-1]
    mixed = agent_of(calling(call("last"), call("note")), "said", tools=tools)
    assert "said" == (await mixed.prompt("go")).text


async def test_a_tool_that_ignores_the_signal_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has a moment to end by itself; then it is cancelled, and its result says that it was stopped."""
    monkeypatch.setattr(tool_calling, "GRACE", 0.02)
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def stubborn(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            cancelled.set()
        return text_result("never")

    agent = agent_of(calling(call("x")), "never said", tools=[tool_of("x", stubborn)])
    running = asyncio.ensure_future(events_of(agent))
    await begun.wait()
    agent.abort()
    check_events(await running)
    assert cancelled.is_set()
    assert "was stopped" in texts(results(agent.messages))[0]


async def test_case_93_abort_reaches_a_running_tool_and_ends_the_run_as_elsewhere() -> None:
    """The tool ends by itself, its result is kept, no further answer is asked for, and the run ends."""
    wait, begun = waiting()
    note, seen = noted(sequential=True)
    agent = agent_of(calling(call("wait"), call("note")), "never said", tools=[wait, note])
    running = asyncio.ensure_future(events_of(agent))
    await begun.wait()
    agent.abort("enough")
    events = await running
    check_events(events)
    assert "aborted" == events[-1].reason  # type: ignore[union-attr]
    assert ["stopped in order", "This call was not run: the run was aborted before it started."] == texts(
        results(agent.messages)
    )
    assert ([], 4) == (seen, len(agent.messages))


async def test_tools_may_be_changed_in_the_middle_of_a_run() -> None:
    """A tool that brings another: the next request offers it, and it can be called."""
    later, seen = noted("later")

    async def bring(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        agent.tools.append(later)
        return text_result("brought")

    agent = agent_of(calling(call("bring")), calling(call("later", n=1)), "done", tools=[tool_of("bring", bring)])
    await agent.prompt("go")
    assert [{"n": 1}] == seen


async def test_hooks_have_any_number_of_listeners() -> None:
    """They run in order, each with what the one before left; the first that blocks decides for all."""
    seen: list[Any] = []

    def more(given: BeforeCall) -> Verdict:
        seen.append(given.arguments["n"])
        return Verdict(arguments={"n": given.arguments["n"] + 1})

    def none(given: BeforeCall) -> None:
        seen.append("none")

    def marked(given: AfterCall) -> ToolResult:
        return text_result(f"{given.result.text}!")

    async def run(id: str, params: dict[str, Any], signal: Any = None, on_update: Any = None) -> ToolResult:
        return text_result(str(params["n"]))

    count = tool_of("count", run, n=NUMBER)
    agent = agent_of(calling(call("count", "a", n=1)), "done", tools=[count])
    agent.before_tool_call = [more, none, more]
    agent.after_tool_call = (marked, marked)
    agent.transform_context = [lambda messages, signal: messages] * 2
    await agent.prompt("go")
    assert [1, "none", 2] == seen
    assert ["3!!"] == texts(results(agent.messages))

    agent = agent_of(calling(call("count", "a", n=1)), "done", tools=[count])
    agent.before_tool_call = (lambda given: {"block": True, "reason": "first"}, more)
    await agent.prompt("go")
    assert ["first"] == texts(results(agent.messages)) and [1, "none", 2] == seen
