"""Agents over sessions: lanes, sub-agents and their limits, who sees whom, and what a crash leaves."""

import asyncio
import json
import os
import signal as signals
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from agent.grammar import check_pairing
from agent.making import AT_ONCE, Asked, call, calling, client_of, noted, text_result, texts, tool_of, waiting
from interlingua.agent import Agent
from interlingua.connect.client import Client
from interlingua.connect.debug import DebugConnector, Step
from interlingua.connect.registry import ConnectorRegistry
from interlingua.connect.retry import NEVER
from interlingua.host import AgentHost
from interlingua.host.directory import AgentSetup, Caller, Forbidden
from interlingua.host.runs import AgentRun, Spawning, Task
from interlingua.sessions import Session
from interlingua.sessions.store import SessionNotFound
from interlingua.tools.tool import Tool, ToolContext, ToolResult
from interlingua.values.errors import InterlinguaError, ToolInputError
from interlingua.values.messages import AgentMessage

MAIN = "agent:main:main"


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Callable[..., AgentHost]]:
    """Makes hosts whose model follows a script; all are closed at the end."""
    hosts: list[AgentHost] = []

    def host(script: Any = None, **how: Any) -> AgentHost:
        client = client_of(script or (lambda request: "done"))
        made = AgentHost("debug/script", **{"home": tmp_path, "client": client, "retries": AT_ONCE, **how})
        hosts.append(made)
        return made

    yield host
    for one in hosts:
        await one.close()


def by(key: str = MAIN, **how: Any) -> Caller:
    return Caller(key=key, **how)


async def ended(run: AgentRun) -> AgentRun:
    assert await run.wait(20)
    return run


async def until(condition: Callable[[], bool]) -> None:
    """Waits for something that will come."""
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


def opened(home: Path, key: str) -> Session:
    _, agent, id = key.split(":", 2)
    return Session.open(id, agent=agent, home=home, read_only=True, create=False)


def provenance(message: AgentMessage) -> dict[str, Any]:
    assert isinstance(message, il.UserMessage)
    found: dict[str, Any] = message.extra["interlingua"]["provenance"]
    return found


def two_of(script: Any) -> Client:
    """A client with two providers that follow one script: `debug/script` and `other/script`."""
    connectors = [DebugConnector(script), DebugConnector(script, provider="other")]
    return Client(connectors=ConnectorRegistry(connectors), retry=NEVER)


def last_text(request: il.Request) -> str:
    return texts(request.context.messages)[-1]


# --- lanes -----------------------------------------------------------------------------------------------------------


async def test_a_run_is_kept_in_its_session(make: Any, tmp_path: Path) -> None:
    """The next run in the session goes on from there, and another host does too."""
    host = make(lambda request: f"answer {len(request.context.messages)}")
    assert "answer 1" == (await host.run("one", "chat")).text
    assert "answer 3" == (await host.run("two", "agent:main:chat")).text
    assert "answer 5" == (await make(lambda request: f"answer {len(request.context.messages)}").run("3", "chat")).text
    with opened(tmp_path, "agent:main:chat") as session:
        assert ["one", "answer 1", "two", "answer 3", "3", "answer 5"] == texts(session.messages)


async def test_one_run_at_a_time_in_a_session_and_others_beside_it(make: Any) -> None:
    """What comes meanwhile waits its turn; another session does not wait."""
    wait, begun = waiting()
    host = make(lambda request: calling(call("wait")) if last_text(request) == "stay" else "ok", tools=[wait])
    first = asyncio.ensure_future(host.run("stay", "a"))
    await asyncio.wait_for(begun.wait(), 20)
    second = asyncio.ensure_future(host.run("then", "a"))
    await host.run("beside", "b")
    assert not second.done()
    assert ("running", 1) == (host.status("a")["status"], host.status("a")["queued"])
    host.abort("a", "enough")
    assert "aborted" == (await first).reason
    assert ("done", "ok") == ((await second).reason, second.result().text)


async def test_a_lane_takes_so_many_messages_and_no_more(make: Any) -> None:
    """The one too many is refused with a remedy."""
    wait, begun = waiting()
    host = make(lambda request: calling(call("wait")), tools=[wait], queue=1)
    first = asyncio.ensure_future(host.run("stay", "a"))
    await asyncio.wait_for(begun.wait(), 20)
    second = asyncio.ensure_future(host.run("next", "a"))
    await asyncio.sleep(0)
    with pytest.raises(InterlinguaError, match="1 messages are queued"):
        await host.run("too many", "a")
    await host.close()
    assert "aborted" == (await first).reason
    with pytest.raises(InterlinguaError, match="closed"):
        await second


async def test_closing_waits_for_a_run_that_somebody_else_waits_for(make: Any, tmp_path: Path) -> None:
    """The run is over, and what it said is saved, before the store is closed."""
    wait, begun = waiting()
    host = make(lambda request: calling(call("wait")), tools=[wait], store=f"sqlite:{tmp_path / 's.db'}")
    running = asyncio.ensure_future(host.run("stay", "a"))
    await asyncio.wait_for(begun.wait(), 20)
    await asyncio.wait_for(host.close(), 20)
    assert running.done()
    assert "aborted" == (await running).reason
    with Session.open("a", store=f"sqlite:{tmp_path / 's.db'}", read_only=True) as session:
        assert ["stay", "", "stopped in order"] == texts(session.messages)


async def test_a_run_whose_tools_are_being_made_does_not_begin_after_closing(make: Any) -> None:
    """It is refused, and closing waits until it is."""
    making, made = asyncio.Event(), asyncio.Event()

    async def tools(context: ToolContext) -> list[Tool]:
        making.set()
        await made.wait()
        return []

    script = Asked("never")
    host = make(script, tools=tools)
    running = asyncio.ensure_future(host.run("go", "a"))
    await asyncio.wait_for(making.wait(), 20)
    closing = asyncio.ensure_future(host.close())
    await asyncio.wait({closing}, timeout=0.05)
    assert not closing.done()
    made.set()
    await asyncio.wait_for(closing, 20)
    with pytest.raises(InterlinguaError, match="closed"):
        await asyncio.wait_for(running, 20)
    assert [] == script.requests


async def test_tools_are_made_for_the_session_that_uses_them(make: Any) -> None:
    """The context says whose they are, and that the host is behind them; a factory may be asynchronous."""
    seen: list[ToolContext] = []

    async def tools(context: ToolContext) -> list[Tool]:
        seen.append(context)
        return []

    host = make(tools=tools, context=ToolContext(workspace_dir="/w"))
    await host.run("hi", "chat")
    context = seen[0]
    assert ("main", "agent:main:chat", "/w") == (context.agent_id, context.session_key, context.workspace_dir)
    assert host is context.sessions


# --- sub-agents ------------------------------------------------------------------------------------------------------


async def test_a_sub_agent_works_beside_its_parent_and_reports(make: Any, tmp_path: Path) -> None:
    """Its session says who began it; an idle parent is told by a run of its own, with provenance."""
    script = Asked("hello", "the sum is 4", "thank you")
    host = make(script)
    await host.run("hi", "main")
    run = await host.spawn("add 2 and 2", by=by(), label="sums")
    assert run.status in ("queued", "running") and run.key.startswith("agent:main:sub-")
    await ended(run)
    assert ("done", "the sum is 4", None) == (run.status, run.text, run.error)
    await until(lambda: len(script.requests) == 3 and host.status("main")["status"] == "done")
    with opened(tmp_path, run.key) as child, opened(tmp_path, MAIN) as parent:
        assert (MAIN, "sums") == (child.about["spawnedBy"], child.title)
        assert {"kind": "inter_session", "sourceTool": "sessions_spawn", "runId": run.id, "sourceSessionKey": MAIN} == (
            provenance(child.messages[0])
        )
        report = parent.messages[2]
        assert ("inter_session", run.key) == (provenance(report)["kind"], provenance(report)["sourceSessionKey"])
        text = texts([report])[0]
        assert "'sums'" in text and "is done" in text and "the sum is 4" in text and "UNTRUSTED" in text
        assert "thank you" == texts(parent.messages)[-1]


async def test_a_parent_that_works_reads_the_report_in_its_own_run(make: Any, tmp_path: Path) -> None:
    """As steering: no second run begins."""
    child_done = asyncio.Event()

    async def hold(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        run = await host.spawn("child task", by=by())
        await ended(run)
        child_done.set()
        return text_result("held")

    def script(request: il.Request) -> Any:
        if last_text(request) == "child task":
            return "child says hi"
        return calling(call("hold")) if last_text(request) == "go" else "got it"

    host = make(script, tools=[tool_of("hold", hold)])
    result = await host.run("go", "main")
    assert child_done.is_set() and "got it" == result.text
    spoken = texts(result.messages)
    assert ["go", "", "held"] == spoken[:3] and "child says hi" in spoken[3] and "got it" == spoken[4]
    check_pairing(result.messages)


async def test_the_report_of_a_failed_sub_agent_says_why(make: Any) -> None:
    """With what it had said."""
    script = Asked(Step(text="half", error="the model broke", status=400), "I see")
    host = make(script)
    run = await ended(await host.spawn("do it", by=by()))
    assert "failed" == run.status and "the model broke" in str(run.error)
    await until(lambda: len(script.requests) == 2)
    assert "failed" in last_text(script.last) and "the model broke" in last_text(script.last)


async def test_a_sub_agent_that_takes_too_long_is_stopped_and_that_is_reported(make: Any) -> None:
    """Its status is timeout."""
    wait, _ = waiting()
    script = Asked(calling(call("wait")), "pity")
    host = make(script, tools=[wait])
    run = await ended(await host.spawn("wait", by=by(), seconds=0.2))
    assert "timeout" == run.status
    await until(lambda: len(script.requests) == 2)
    assert "ran out of time" in last_text(script.last)


async def test_zero_seconds_means_no_limit_even_where_the_host_has_one(make: Any) -> None:
    """The task's own word counts."""
    host = make(lambda request: Step(text="slow", delay=0.3), spawning=Spawning(seconds=0.05))
    assert "done" == (await ended(await host.spawn("a", seconds=0))).status
    assert "timeout" == (await ended(await host.spawn("b"))).status


@pytest.mark.parametrize(("cleanup", "there"), [("keep", True), ("delete", False)])
async def test_the_session_of_a_sub_agent_is_kept_or_deleted(make: Any, cleanup: str, there: bool) -> None:
    """As asked; the result is known either way."""
    host = make()
    run = await ended(await host.spawn("a", cleanup=cleanup))
    await host.close()
    assert ("done", there) == (run.text, any(row["key"] == run.key for row in host.list()))


async def test_the_abort_of_a_parent_reaches_its_sub_agents_and_wakes_nobody(make: Any, tmp_path: Path) -> None:
    """Those below them too; their sessions stay valid, and no report starts the parent again."""
    wait, _ = waiting()
    below: list[AgentRun] = []
    all_begun = asyncio.Event()

    async def spread(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        below.append(await host.spawn(params["task"], by=by(params["key"])))
        return text_result("begun")

    def script(request: il.Request) -> Any:
        text = last_text(request)
        if text == "go":
            return calling(call("spread", task="child", key=MAIN))
        if text == "child":
            return calling(call("spread", task="grandchild", key=below[0].key))
        if text == "grandchild":
            all_begun.set()
        return calling(call("wait"))

    host = make(script, tools=[tool_of("spread", spread), wait], spawning=Spawning(depth=2))
    parent = asyncio.ensure_future(host.run("go", "main"))
    await asyncio.wait_for(all_begun.wait(), 20)
    host.abort("main", "stop all")
    assert "aborted" == (await parent).reason
    assert ["killed", "killed"] == [(await ended(run)).status for run in below]
    for key in (MAIN, *(run.key for run in below)):
        with opened(tmp_path, key) as session:
            check_pairing(session.messages)
    await asyncio.sleep(0.05)
    assert "killed" == host.status("main")["status"]


async def test_a_sub_agent_that_waits_its_turn_can_be_killed(make: Any) -> None:
    """So many work at once; the others are queued, and one of them may never begin."""
    wait, begun = waiting()
    host = make(lambda request: calling(call("wait")), tools=[wait], spawning=Spawning(concurrent=1))
    first, second, third = [await host.spawn(name, by=by()) for name in "abc"]
    await asyncio.wait_for(begun.wait(), 20)
    assert ["running", "queued", "queued"] == [run.status for run in (first, second, third)]
    second.kill("not needed")
    assert ("killed", None) == ((await ended(second)).status, second.started)
    first.kill()
    await until(lambda: third.status == "running")
    third.kill()
    assert ["killed", "killed"] == [(await ended(run)).status for run in (first, third)]


async def test_the_number_of_sub_agents_of_a_session_is_limited(make: Any) -> None:
    """The sixth is refused, another session's is not, and one that ended makes room."""
    wait, _ = waiting()
    host = make(lambda request: calling(call("wait")), tools=[wait])
    runs = [await host.spawn(str(at), by=by()) for at in range(5)]
    with pytest.raises(Forbidden, match="5 running sub-agents"):
        await host.spawn("6", by=by())
    await host.spawn("other", by=by("agent:main:other"))
    runs[0].kill()
    await ended(runs[0])
    await host.spawn("6", by=by())


async def test_sub_agents_go_one_deep_unless_the_host_says_more(make: Any) -> None:
    """At the last level the tool is not offered, and asking past it is refused; after a restart too."""
    spawn, _ = noted("sessions_spawn")
    other, _ = noted("other")
    script = Asked("done")
    host = make(script, tools=[spawn, other])
    run = await ended(await host.spawn("a", by=by()))
    assert ["other"] == [tool.name for tool in script.requests[0].context.tools or ()]
    with pytest.raises(Forbidden, match="limited to depth 1"):
        await host.spawn("b", by=by(run.key))
    await host.close()
    with pytest.raises(Forbidden, match="limited to depth 1"):
        await make().spawn("b", by=by(run.key))
    await make().spawn("ok", by=by("agent:main:other"))


async def test_a_sub_agent_is_done_when_those_below_it_are(make: Any) -> None:
    """Its report has what it said after it read theirs."""

    async def spread(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        await host.spawn("grandchild", by=by(child.key))
        return text_result("begun")

    def script(request: il.Request) -> Any:
        text = last_text(request)
        if text == "child":
            return calling(call("spread"))
        if text == "grandchild":
            return Step(text="deep result", delay=0.05)
        return "I read it" if "deep result" in text else "waiting for it"

    host = make(script, tools=[tool_of("spread", spread)], spawning=Spawning(depth=2, concurrent=1))
    child = await host.spawn("child")
    assert ("done", "I read it") == ((await ended(child)).status, child.text)


@pytest.mark.parametrize(
    ("task", "why"),
    [
        ({"text": "  "}, "blank"),
        ({"text": "a", "mode": "session", "cleanup": "delete"}, "cannot be deleted"),
        ({"text": "a", "model": "nowhere/model"}, "unknown provider"),
        ({"text": "a", "sandbox": "require"}, "no sandbox"),
        ({"text": "a", "agent_id": "research"}, "is not allowed"),
        ({"text": "a", "cwd": "/etc"}, "no local files"),
        ({"text": "a", "attachments": (("a.txt", b"x"),)}, "no local files available"),
    ],
)
async def test_a_task_that_cannot_be_is_refused_and_leaves_nothing(make: Any, task: Any, why: str) -> None:
    """With what to do instead."""
    host = make()
    with pytest.raises(ToolInputError, match=why):
        await host.spawn(Task(**task), by=by())
    assert ({}, []) == (host.runs, host.list())


async def test_a_sub_agent_gets_its_directory_its_files_and_its_model(make: Any, tmp_path: Path) -> None:
    """A directory below the parent's and no other; attachments are where its task says."""
    (tmp_path / "work" / "part").mkdir(parents=True)
    contexts: list[ToolContext] = []

    def tools(context: ToolContext) -> list[Tool]:
        contexts.append(context)
        return []

    script = Asked("done")
    host = make(script, tools=tools, context=ToolContext(root=str(tmp_path / "work")))
    how = {
        "cwd": "part",
        "attachments": (("a.txt", b"hello"),),
        "mount": "in",
        "model": "debug/script",
        "thinking": "low",
    }
    await ended(await host.spawn("look", **how))
    assert str(tmp_path / "work" / "part") == contexts[0].root
    assert b"hello" == (tmp_path / "work" / "part" / "in" / "a.txt").read_bytes()
    assert "look\n\nAttached files: in/a.txt" == last_text(script.requests[0])
    assert "low" == getattr(script.requests[0].options.reasoning, "effort", script.requests[0].options.reasoning)
    with pytest.raises(ToolInputError):
        await host.spawn("out", cwd="../..")


async def test_a_sub_agent_may_begin_with_what_its_parent_knows(make: Any) -> None:
    """Up to where every call has its result."""

    async def spread(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        await ended(await host.spawn("now you", by=by(), context="fork"))
        return text_result("begun")

    def script(request: il.Request) -> Any:
        inputs = texts(request.context.messages)
        if inputs[-1] == "now you":
            seen.append(inputs)
            return "child"
        return calling(call("spread")) if inputs[-1] == "second" else "first answer"

    seen: list[list[str]] = []
    host = make(script, tools=[tool_of("spread", spread)])
    await host.run("first", "main")
    await host.run("second", "main")
    assert [["first", "first answer", "second", "now you"]] == seen


async def test_a_sub_agent_of_a_sandboxed_caller_is_sandboxed(make: Any) -> None:
    """Where there is a sandbox; without one it does not run at all."""
    contexts: list[ToolContext] = []

    def tools(context: ToolContext) -> list[Tool]:
        contexts.append(context)
        return []

    def sandbox(context: ToolContext) -> ToolContext:
        return ToolContext(sandboxed=True, root="/sandbox")

    host = make(tools=tools, sandbox=sandbox)
    await ended(await host.spawn("a", by=by(sandboxed=True)))
    await ended(await host.spawn("b", by=by(), sandbox="require"))
    await ended(await host.spawn("c", by=by()))
    assert [(True, "/sandbox"), (True, "/sandbox"), (None, None)] == [
        (context.sandboxed, context.root) for context in contexts if "sub-" in str(context.session_key)
    ]
    with pytest.raises(Forbidden, match="sandbox"):
        await make().spawn("a", by=by(sandboxed=True))


async def test_another_agent_may_be_used_where_it_is_reachable(make: Any, tmp_path: Path) -> None:
    """With its own model, tools and words."""
    note, _ = noted("note")
    script = Asked("found")
    research = AgentSetup(model="debug/script", tools=[note], system="You look things up.")
    host = make(script, agents={"research": research}, reachable=["research"])
    run = await ended(await host.spawn("look", by=by(), agent_id="research"))
    request = script.requests[0]
    assert ("You look things up.", ["note"]) == (
        request.context.system_prompt,
        [tool.name for tool in request.context.tools or ()],
    )
    assert run.key.startswith("agent:research:sub-")
    assert (tmp_path / "agents" / "research" / "sessions").is_dir()


async def test_an_agent_that_others_run_takes_part_when_it_is_attached(make: Any, tmp_path: Path) -> None:
    """A report waits in its queue and its program is told; its abort reaches its sub-agents."""
    wait, begun = waiting()
    script = Asked("child result", "read it", calling(call("wait")), calling(call("wait")))
    host = make(script, tools=[wait])
    received = asyncio.Event()
    with Session.open("main", home=tmp_path) as session:
        agent = Agent("debug/script", [wait], client=client_of(script), session=session)
        detach = host.attach(agent, "main", on_message=received.set)
        await ended(await host.spawn("task", by=by()))
        await asyncio.wait_for(received.wait(), 20)
        assert agent.has_queued
        agent.follow_up("go on")
        await agent.prompt(agent.take_queued()[:1])
        assert "read it" == texts(agent.messages)[-1] and "child result" in texts(agent.messages)[0]
        with pytest.raises(InterlinguaError, match="its own program"):
            await host.run("no", "main")
        working = asyncio.ensure_future(agent.prompt("wait"))
        await asyncio.wait_for(begun.wait(), 20)
        run = await host.spawn("long", by=by())
        agent.abort("enough")
        assert "aborted" == (await working).reason
        assert "killed" == (await ended(run)).status
        detach()


async def test_events_of_all_sessions_reach_the_host(make: Any) -> None:
    """With the key of their session."""
    received: list[tuple[str, str]] = []
    host = make(on_event=lambda key, event: received.append((key, event.type)))
    await host.run("hi", "chat")
    assert ("agent:main:chat", "agent_start") == received[0] and ("agent:main:chat", "agent_end") == received[-1]


# --- sending ---------------------------------------------------------------------------------------------------------


async def test_sending_waits_for_the_answer(make: Any, tmp_path: Path) -> None:
    """The other session reads who wrote, and that it was not the user."""
    script = Asked("first", "it is noon")
    host = make(script, visibility="all")
    await host.run("hi", "clock")
    output = await host.send("clock", "what time is it?", by=by())
    assert ("ok", "it is noon", "agent:main:clock") == (output["status"], output["reply"], output["sessionKey"])
    assert f"[Message from the session {MAIN}; the user did not write it.]\nwhat time is it?" == last_text(script.last)
    with opened(tmp_path, "agent:main:clock") as session:
        assert ("sessions_send", MAIN) == (
            provenance(session.messages[2])["sourceTool"],
            provenance(session.messages[2])["sourceSessionKey"],
        )


async def test_sending_may_not_wait_or_not_long_enough(make: Any) -> None:
    """Accepted, or timed out; either way the other session goes on by itself."""
    script = Asked("hi", Step(text="slow", delay=0.3), "third")
    host = make(script)
    await host.run("hi", "b")
    assert "timeout" == (await host.send("b", "one", seconds=0.05))["status"]
    assert "accepted" == (await host.send("b", "two", seconds=0))["status"]
    await until(lambda: len(script.requests) == 3 and host.status("b")["status"] == "done")


async def test_an_error_over_there_and_silence_are_distinguished(make: Any) -> None:
    """The reason, or an empty reply."""
    host = make(Asked("hi", Step(error="broken", status=400), "NO_REPLY"))
    await host.run("hi", "b")
    output = await host.send("b", "one")
    assert "error" == output["status"] and "broken" in output["error"]
    assert ("ok", "") == ((silent := await host.send("b", "two"))["status"], silent["reply"])


async def test_what_cannot_be_sent_is_refused(make: Any) -> None:
    """To oneself, nothing at all, or to nobody."""
    host = make()
    await host.run("hi", "main")
    with pytest.raises(ToolInputError, match="itself"):
        await host.send("current", "echo", by=by())
    with pytest.raises(ToolInputError, match="blank"):
        await host.send("main", " ")
    with pytest.raises(SessionNotFound):
        await host.send("nobody", "hi")


# --- seeing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("visibility", "sandboxed", "expected"),
    [
        ("self", False, {"main"}),
        ("tree", False, {"main", "child"}),
        ("all", False, {"main", "child", "other"}),
        ("all", True, {"main", "child"}),
        ("self", True, {"main"}),
    ],
)
async def test_a_session_sees_what_the_host_lets_it_see(
    make: Any, visibility: Any, sandboxed: bool, expected: set[str]
) -> None:
    """Itself, those below it, or all of its agent; one in a sandbox never more than the tree. After a restart too."""
    first = make()
    await first.run("hi", "main")
    await first.run("hi", "other")
    run = await ended(await first.spawn("a", by=by()))
    await until(lambda: not first._lane(MAIN).busy)
    await first.close()
    host = make(visibility=visibility)
    names = {MAIN: "main", "agent:main:other": "other", run.key: "child"}
    assert expected == {names[row["key"]] for row in host.list(by(sandboxed=sandboxed))}
    for key, name in names.items():
        assert (name in expected) == host.is_visible(key, by(sandboxed=sandboxed))
        if name not in expected:
            with pytest.raises(Forbidden):
                host.history(key, by=by(sandboxed=sandboxed))
            with pytest.raises(Forbidden):
                await host.send(key, "hi", by=by(sandboxed=sandboxed))
            with pytest.raises(Forbidden):
                host.status(key, by=by(sandboxed=sandboxed))
    assert {"main", "other", "child"} == {names[row["key"]] for row in host.list()}


async def test_a_child_does_not_see_its_parent_nor_its_siblings(make: Any) -> None:
    """The tree goes down."""
    host = make()
    one, two = [await ended(await host.spawn(name, by=by())) for name in "ab"]
    assert [one.key] == [row["key"] for row in host.list(by(one.key))]
    assert not host.is_visible(two.key, by(one.key)) and not host.is_visible(MAIN, by(one.key))
    assert [one, two] == host.descendants(by()) and [] == host.descendants(by(one.key))


async def test_the_sessions_of_another_agent_are_seen_where_it_is_reachable(make: Any) -> None:
    """And not otherwise, even where all is visible."""
    agents = {"research": AgentSetup(model="debug/script")}
    for reachable in ([], ["research"]):
        host = make(agents=agents, reachable=reachable, visibility="all")
        await host.run("hi", "agent:research:x")
        assert bool(reachable) == ("agent:research:x" in {row["key"] for row in host.list(by())})


async def test_a_session_that_only_looks_spawned_is_nobodys_child(make: Any, tmp_path: Path) -> None:
    """The first line is the proof, not the name."""
    host = make()
    await host.run("hi", "sub-fake")
    assert not host.is_visible("agent:main:sub-fake", by())


@pytest.mark.parametrize(
    "name", ["/etc/x.jsonl", "sub-/../../x", "~/x", "x.jsonl", "agent:../up:x", "agent:main:../x", "..", "", "a\nb"]
)
async def test_a_path_is_no_name_of_a_session(make: Any, tmp_path: Path, name: str) -> None:
    """No file is read or written that is not a session of an agent, whoever asks."""
    host = make(visibility="all")
    for ask in (host.history, host.status):
        with pytest.raises(SessionNotFound):
            ask(name, by=by())
    for work in (host.send(name, "hi", by=by()), host.run("hi", name)):
        with pytest.raises(SessionNotFound):
            await work
    assert [] == [*tmp_path.rglob("*.jsonl")]


async def test_a_list_has_rows_that_can_be_chosen(make: Any, tmp_path: Path) -> None:
    """By kind, label, words, time and number; the latest first."""
    host = make()
    for id in ("main", "cron-1", "group:x", "chat"):
        await host.run(f"hello {id}", id)
    with Session.open("chat", home=tmp_path) as session:
        session.label(None, "my talk")
    rows = {row["sessionId"]: row for row in host.list()}
    assert {"main": "main", "cron-1": "cron", "group:x": "group", "chat": "other"} == {
        id: row["kind"] for id, row in rows.items()
    }
    chat = rows["chat"]
    assert ("my talk", "my talk", "done", "script") == (
        chat["label"],
        chat["displayName"],
        chat["status"],
        chat["model"],
    )
    assert chat["contextTokens"] > 0 and Path(chat["transcriptPath"]).is_file() and "label" not in rows["main"]
    assert ["cron-1"] == [row["sessionId"] for row in host.list(kinds=["cron"])]
    assert ["chat"] == [row["sessionId"] for row in host.list(label="my talk")]
    assert [] == host.list(label="hello main")
    assert ["group:x"] == [row["sessionId"] for row in host.list(search="HELLO GROUP")]
    assert 2 == len(host.list(limit=2)) and 4 == len(host.list(active_minutes=5))
    assert [["user", "assistant"]] == [
        [m["role"] for m in row["messages"]] for row in host.list(label="my talk", message_limit=5)
    ]
    assert "agent:main:chat" == host.labelled("my talk", None)
    with pytest.raises(SessionNotFound):
        host.labelled("hello main", None)


async def test_a_history_is_bounded_and_redacted(make: Any, tmp_path: Path) -> None:
    """Long text is cut, data and signatures are out, the oldest go first; tools only where asked for."""
    with Session.open("chat", home=tmp_path) as session:
        session.append(
            il.UserMessage(content=(il.TextBlock(text="x" * 9000), il.ImageBlock(data="QUJD", mime_type="image/png")))
        )
        session.append(
            il.AssistantMessage(
                content=(
                    il.ThinkingBlock(thinking="hm", thinking_signature="sealed"),
                    il.ToolCall(id="c", name="t", arguments={}, thought_signature="sealed"),
                ),
                usage=il.Usage.of(1, 2),
                stop_reason="toolUse",
            )
        )
        session.append(il.ToolResultMessage(tool_call_id="c", content="out", details={"secret": 1}, is_error=False))
        session.append(il.AssistantMessage(content="end", stop_reason="stop"))
    host = make()
    output = host.history("chat")
    assert ["user", "assistant"] == [message["role"] for message in output["messages"]]
    text, image = output["messages"][0]["content"]
    assert text["text"].startswith("x" * 4000 + "… (5000 more") and {"bytes": 3} == {
        key: image[key] for key in ("bytes", "data") if key in image
    }
    assert (True, True, True, 0) == (
        output["truncated"],
        output["contentTruncated"],
        output["contentRedacted"],
        output["droppedMessages"],
    )
    whole = json.dumps(host.history("chat", include_tools=True))
    assert "sealed" not in whole and "secret" not in whole and "usage" not in whole and '"toolResult"' in whole
    assert ["end"] == [m["content"] for m in host.history("chat", limit=1)["messages"]]
    paged = host.history("chat", limit=1, offset=1)
    assert ("user", False) == (paged["messages"][0]["role"], paged["hasMore"])
    assert (True, 1) == (host.history("chat", limit=1)["hasMore"], host.history("chat", limit=1)["nextOffset"])


async def test_a_history_is_never_larger_than_it_may_be(make: Any, tmp_path: Path) -> None:
    """80 KiB, whatever it holds; at worst a placeholder."""
    with Session.open("chat", home=tmp_path) as session:
        for at in range(60):
            session.append(il.UserMessage(content=f"{at} " + "é" * 3900))
    with Session.open("one", home=tmp_path) as session:
        session.append(il.UserMessage(content=tuple(il.TextBlock(text="y" * 3900) for _ in range(40))))
    host = make()
    output = host.history("chat", limit=60)
    assert output["bytes"] <= 80 * 1024 and output["droppedMessages"] == 60 - len(output["messages"]) > 0
    assert output["messages"][-1]["content"].startswith("59 ") and output["hasMore"]
    assert "too large" in host.history("one")["messages"][0]["content"]


async def test_a_database_keeps_the_sessions_of_a_host_as_well(make: Any, tmp_path: Path) -> None:
    """Lists, histories, sub-agents and their origin."""
    where = f"sqlite:{tmp_path / 'sessions.db'}"
    host = make(Asked("hello", "child", "thanks"), store=where)
    await host.run("hi", "main")
    run = await ended(await host.spawn("a", by=by(), label="one"))
    await until(lambda: not host._lane(MAIN).busy)
    await host.close()
    other = make(store=where)
    assert {MAIN: None, run.key: MAIN} == {row["key"]: row.get("spawnedBy") for row in other.list(by())}
    assert "child" == other.history(run.key, by=by())["messages"][-1]["content"][0]["text"]
    assert run.key == other.labelled("one", by())


# --- models ----------------------------------------------------------------------------------------------------------


async def test_the_model_of_a_session_can_be_switched_and_switched_back(make: Any, tmp_path: Path) -> None:
    """It holds for the session alone, from the next answer on, and after a restart."""
    script = Asked(*["ok"] * 5)
    host = make(script, client=two_of(script), models=["other/script"])
    await host.run("hi", "main")
    assert "other/script" == host.set_model("main", "other/script")
    await host.run("hi", "main")
    await host.run("hi", "b")
    assert ["debug", "other", "debug"] == [request.model.provider for request in script.requests]
    assert ("other/script", True) == ((output := host.status("main"))["model"], output["modelOverride"])
    await host.close()
    again = make(client=two_of(script), models=["other/script"])
    await again.run("hi", "main")
    assert "other" == script.last.model.provider
    again.set_model("main", "default")
    await again.run("hi", "main")
    assert "debug" == script.last.model.provider
    with pytest.raises(Forbidden, match="allowed models: other/script"):
        again.set_model("main", "debug/third")
    with pytest.raises(ToolInputError, match="unknown provider"):
        make().set_model("main", "nowhere/x")


async def test_a_model_that_is_switched_while_it_works_holds_from_the_next_answer_on(make: Any) -> None:
    """And what was said stays paired."""

    async def switch(id: str, params: Any, signal: Any = None, on_update: Any = None) -> ToolResult:
        host.set_model("main", "other/script")
        return text_result("switched")

    script = Asked(calling(call("switch")), "ok")
    host = make(client=two_of(script), tools=[tool_of("switch", switch)])
    result = await host.run("hi", "main")
    assert ["debug", "other"] == [request.model.provider for request in script.requests]
    check_pairing(result.messages)
    output = host.status("main")
    assert output["totalTokens"] > 0 and "cost" in output and output["contextTokens"] > 0


# --- after a crash ---------------------------------------------------------------------------------------------------

CRASH = """
    import asyncio, os, sys
    from interlingua.host import AgentHost
    from interlingua.host.directory import Caller
    from interlingua.connect.client import Client
    from interlingua.connect.debug import DebugConnector, ScriptedCall, Step
    from interlingua.connect.registry import ConnectorRegistry
    from interlingua.tools.tool import Tool

    async def hang(*_):
        print(run.key, flush=True)
        await asyncio.sleep(600)

    async def main():
        global run
        script = lambda request: Step(calls=(ScriptedCall(name="hang", id="c1"),))
        tool = Tool(name="hang", description="hang", parameters={"type": "object"}, execute=hang)
        client = Client(connectors=ConnectorRegistry([DebugConnector(script)]))
        host = AgentHost("debug/script", [tool], home=sys.argv[1], client=client)
        run = await host.spawn("hang there", by=Caller(key="agent:main:main"), label="crash")
        await asyncio.sleep(600)

    asyncio.run(main())
"""


async def test_a_killed_process_leaves_sessions_of_sub_agents_that_go_on(make: Any, tmp_path: Path) -> None:
    """Whose they are is known, what they were doing is unknown and not repeated, and they can be taken up."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(CRASH), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        key = (await asyncio.to_thread(process.stdout.readline)).strip()
    finally:
        os.kill(process.pid, signals.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    tool, seen = noted("hang")
    host = make(lambda request: "I went on", tools=[tool])
    (row,) = host.list(by())[:1] or [{}]
    assert (key, MAIN, "crash", "paused") == (row["key"], row["spawnedBy"], row["label"], row["status"])
    result = await host.run(None, key)
    assert ("done", "I went on", []) == (result.reason, result.text, seen)
    with opened(tmp_path, key) as session:
        assert "not known whether this call took effect" in texts(session.messages)[2]
        check_pairing(session.messages)


async def test_a_host_can_be_closed_from_within_a_run(tmp_path: Path) -> None:
    """It stops the run; it does not wait for itself."""
    host = AgentHost("debug/parrot-1", home=tmp_path)

    async def leave(event: object) -> None:
        if type(event).__name__ == "AgentStart":
            await asyncio.wait_for(host.close(), 20)

    result = await asyncio.wait_for(host.run("hello", "s", listener=leave), 30)
    assert "aborted" == result.reason
