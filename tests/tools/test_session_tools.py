"""The tools of agents among agents, and the one that writes to people: arguments, refusals, answers."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from agent.making import AT_ONCE, Asked, call, calling, client_of, texts, waiting
from interlingua.host import AgentHost
from interlingua.host.channels import Channels, Receipt, TerminalSink
from interlingua.host.directory import Caller
from interlingua.host.runs import AgentRun, Spawning
from interlingua.host.session_tools import message_tool
from interlingua.tools.calling import call_tool
from interlingua.tools.catalog import discover_core_tools
from interlingua.tools.fs import memory_bridge
from interlingua.tools.registry import ToolRegistry
from interlingua.tools.tool import MissingContext, Tool, ToolContext, ToolResult
from interlingua.values.errors import ToolAuthorizationError, ToolInputError, TransportError
from interlingua.values.messages import ReplyPayload

KEY = "agent:main:main"
NAMES = ["sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "subagents", "session_status"]


def tools_of(context: ToolContext) -> list[Tool]:
    """The session tools from the catalogue."""
    registry = ToolRegistry()
    discover_core_tools(registry, include=["group:sessions"])
    return list(registry.resolve_all(context))


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Callable[..., AgentHost]]:
    hosts: list[AgentHost] = []

    def host(script: Any = None, **how: Any) -> AgentHost:
        client = client_of(script or (lambda request: "done"))
        options = {"home": tmp_path, "client": client, "retries": AT_ONCE, **how}
        hosts.append(AgentHost("debug/script", options.pop("tools", tools_of), **options))
        return hosts[-1]

    yield host
    for one in hosts:
        await one.close()


async def use(host: AgentHost, name: str, *, key: str = KEY, sandboxed: bool = False, **params: Any) -> Any:
    """Calls a tool as an agent would, and gives its details."""
    result = await used(host, name, key=key, sandboxed=sandboxed, **params)
    assert not result.is_error, result.text
    return result.details


async def used(host: AgentHost, name: str, *, key: str = KEY, sandboxed: bool = False, **params: Any) -> ToolResult:
    context = ToolContext(sessions=host, session_key=key, sandboxed=sandboxed)
    tool = next(tool for tool in tools_of(context) if tool.name == name)
    return await call_tool(tool, "c", params, context=context)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


def run_of(host: AgentHost, output: Any) -> AgentRun:
    return host.runs[output["runId"]]


def test_the_tools_are_in_the_catalogue_and_need_a_host_and_a_session() -> None:
    """Without them they are not made, and that is said."""
    registry = ToolRegistry()
    discover_core_tools(registry, include=["group:sessions", "message"])
    assert [] == registry.resolve_all()
    missing = {skipped.id: skipped.missing for skipped in registry.skipped}
    assert {**dict.fromkeys(NAMES, ("sessions", "session_key")), "message": ("channel",)} == missing
    assert ["session_status"] == [meta.id for meta in registry.select("minimal")]
    assert {*NAMES, "message"} - {"sessions_spawn", "subagents"} == {meta.id for meta in registry.select("messaging")}


# --- looking ---------------------------------------------------------------------------------------------------------


async def test_sessions_list_shows_what_the_session_sees(make: Any) -> None:
    """Its own and those below it, with their last messages where asked for."""
    host = make()
    await host.run("hello", "main")
    await host.run("hidden", "other")
    output = await use(host, "sessions_list", messageLimit=2)
    assert (1, KEY, "main") == (output["count"], output["sessions"][0]["key"], output["sessions"][0]["kind"])
    assert ["user", "assistant"] == [message["role"] for message in output["sessions"][0]["messages"]]
    assert 1 == (await use(host, "sessions_list", kinds=["main", "nonsense"]))["count"]
    assert 0 == (await use(host, "sessions_list", kinds=["cron"]))["count"]


@pytest.mark.parametrize(
    "params", [{"limit": 0}, {"messageLimit": 21}, {"activeMinutes": 0}, {"kinds": ["nonsense"]}, {"agentId": "nobody"}]
)
async def test_sessions_list_refuses_nonsense(make: Any, params: Any) -> None:
    """By the schema, or by name."""
    assert (await used(make(), "sessions_list", **params)).is_error


async def test_sessions_history_reads_and_answers_refusals_as_values(make: Any) -> None:
    """Unknown and invisible sessions are answers with a status, not failures."""
    host = make(spawning=Spawning(depth=1))
    await host.run("hello", "main")
    await host.run("hidden", "other")
    output = await use(host, "sessions_history", sessionKey="main", limit=1)
    assert ["done", True] == [output["messages"][0]["content"][0]["text"], output["hasMore"]]
    assert "forbidden" == (await use(host, "sessions_history", sessionKey="other"))["status"]
    assert "forbidden" == (await use(host, "sessions_history", sessionKey="nowhere"))["status"]
    assert "error" == (await use(host, "sessions_history", key="agent:main:fresh", sessionKey="current"))["status"]
    assert (await used(host, "sessions_history")).is_error


async def test_session_status_shows_a_card_and_switches_the_model(make: Any) -> None:
    """Its own session without a key; unknown models and sessions are told."""
    host = make()
    await host.run("hello", "main")
    result = await used(host, "session_status")
    assert (
        "Session: agent:main:main\nState: done, 0 waiting, 0 sub-agents at work\nModel: debug/script\n" in result.text
    )
    assert "Tokens: " in result.text and "Cost: $" in result.text
    assert (KEY, False) == (result.details["sessionKey"], result.details["modelOverride"])
    output = await use(host, "session_status", sessionKey="current", model="debug/inspect-echo-1")
    assert ("debug/inspect-echo-1", True) == (output["model"], output["modelOverride"])
    assert ("debug/script", False) == (
        (output := await use(host, "session_status", model="default"))["model"],
        output["modelOverride"],
    )
    assert (await used(host, "session_status", model="nowhere/x")).is_error
    assert (
        "forbidden"
        == (await use(make(models=["debug/script"]), "session_status", model="debug/inspect-echo-1"))["status"]
    )
    assert "forbidden" == (await use(host, "session_status", sessionKey="nowhere"))["status"]


# --- sending ---------------------------------------------------------------------------------------------------------


async def test_sessions_send_waits_for_the_answer_by_key_or_label(make: Any) -> None:
    """The answer comes back."""
    host = make(Asked("child", "thanks", "one", "two"))
    child = run_of(host, await use(host, "sessions_spawn", task="a", label="helper"))
    assert await child.wait(20)
    await until(lambda: not host._lane(KEY).busy)
    assert ("ok", "one") == (
        (output := await use(host, "sessions_send", sessionKey=child.key, message="x"))["status"],
        output["reply"],
    )
    assert ("ok", "two") == (
        (output := await use(host, "sessions_send", label="helper", message="y"))["status"],
        output["reply"],
    )
    assert child.key == output["sessionKey"] and output["runId"]


async def test_sessions_send_can_return_without_waiting(make: Any) -> None:
    """Accepted; the run goes on."""
    script = Asked("child", "thanks", "later")
    host = make(script)
    child = run_of(host, await use(host, "sessions_spawn", task="a"))
    await child.wait(20)
    assert (
        "accepted" == (await use(host, "sessions_send", sessionKey=child.key, message="x", timeoutSeconds=0))["status"]
    )
    await until(lambda: len(script.requests) == 3)


@pytest.mark.parametrize(
    "params",
    [
        {"message": "x"},
        {"message": "x", "sessionKey": "a", "label": "b"},
        {"sessionKey": "a"},
        {"sessionKey": KEY, "message": "to myself"},
        {"sessionKey": "a", "message": "x", "timeoutSeconds": -1},
    ],
)
async def test_sessions_send_refuses_nonsense(make: Any, params: Any) -> None:
    """One of key and label, words, a time; and never to itself."""
    host = make()
    await host.run("hi", "main")
    assert (await used(host, "sessions_send", **params)).is_error


async def test_sessions_send_answers_unknown_sessions_as_values(make: Any) -> None:
    """Not seen, or not there."""
    host = make()
    await host.run("hi", "other")
    assert "forbidden" == (await use(host, "sessions_send", sessionKey="other", message="x"))["status"]
    assert "error" == (await use(host, "sessions_send", label="nobody", message="x"))["status"]


# --- spawning --------------------------------------------------------------------------------------------------------


async def test_sessions_spawn_returns_at_once_and_the_result_comes_later(make: Any) -> None:
    """Through a whole run: the model calls the tool, ends its turn, and is told."""
    script = Asked(calling(call("sessions_spawn", task="count", label="counter")), "begun", "three", "It is three.")
    host = make(script)
    result = await host.run("go", "main")
    (run,) = host.runs.values()
    await run.wait(20)
    await until(lambda: len(script.requests) == 4 and not host._lane(KEY).busy)
    output = host.history("main", include_tools=True)["messages"]
    assert "accepted" in str(output[2]["content"]) and run.key in str(output[2]["content"])
    assert "begun" in texts(result.messages) and "It is three." == output[-1]["content"][0]["text"]
    offered = [[tool.name for tool in request.context.tools or ()] for request in script.requests]
    assert NAMES == offered[0] and [name for name in NAMES if name != "sessions_spawn"] == offered[2]


@pytest.mark.parametrize(
    "key", ["target", "transport", "channel", "to", "threadId", "replyTo", "thread_id", "reply_to"]
)
async def test_sessions_spawn_refuses_keys_of_delivery(make: Any, key: str) -> None:
    """It reports to the session, nowhere else."""
    host = make()
    tool = next(tool for tool in tools_of(ToolContext(sessions=host, session_key=KEY)) if tool.name == "sessions_spawn")
    with pytest.raises(ToolInputError, match=f"takes no {key}"):
        await tool.execute("c", {"task": "a", key: "x"})
    assert {} == host.runs


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({}, "task"),
        ({"task": "  "}, "blank"),
        ({"task": "a", "mode": "session"}, "needs thread"),
        ({"task": "a", "streamTo": "parent"}, "acp"),
        ({"task": "a", "thread": True, "cleanup": "delete"}, "cannot be deleted"),
        ({"task": "a", "model": "nowhere/x"}, "unknown provider"),
        ({"task": "a", "runTimeoutSeconds": -1}, "runTimeoutSeconds"),
        ({"task": "a", "attachments": [{"name": "../x", "content": "y"}]}, "is not a file name"),
        ({"task": "a", "attachments": [{"name": "x", "content": "?", "encoding": "base64"}]}, "base64"),
        ({"task": "a", "attachments": [{"name": "x", "content": "y"}] * 2}, "is not a file name"),
        ({"task": "a", "attachments": [{"name": str(at), "content": ""} for at in range(51)]}, "attachments"),
        ({"task": "a", "cwd": "/etc"}, "cwd"),
    ],
)
async def test_sessions_spawn_refuses_nonsense(make: Any, params: Any, why: str) -> None:
    """In words that say what to change; nothing is begun."""
    host = make()
    result = await used(host, "sessions_spawn", **params)
    assert (True, {}) == (result.is_error, host.runs) and why in result.text


@pytest.mark.parametrize(
    ("params", "status"),
    [({"runtime": "acp"}, "error"), ({"sandbox": "require"}, "forbidden"), ({"agentId": "other"}, "forbidden")],
)
async def test_sessions_spawn_answers_what_is_not_to_be_had_as_values(make: Any, params: Any, status: str) -> None:
    """With the reason."""
    output = await use(make(), "sessions_spawn", task="a", **params)
    assert status == output["status"] and output["error"]


@pytest.mark.parametrize("kind", ["replay", "script"])
@pytest.mark.parametrize(("tool", "params"), [("sessions_spawn", {"task": "a"}), ("session_status", {})])
async def test_a_model_that_reads_a_file_must_be_named_by_the_host(
    make: Any, tmp_path: Path, kind: str, tool: str, params: Any
) -> None:
    """A model could read any file with it, such as the sessions of others."""
    (tmp_path / "private.json").write_text('[{"role": "assistant", "content": "secret", "text": "secret"}]')
    model = f"debug/{kind}:{tmp_path / 'private.json'}"
    host = make()
    await host.run("hello", "main")
    output = await use(host, tool, model=model, **params)
    assert ("forbidden", {}) == (output["status"], host.runs) and "must be named in `models`" in output["error"]
    allowing = make(models=["debug/script", model])
    assert (output := await use(allowing, tool, model=model, **params)).get("status") != "forbidden"
    assert all([await run.wait(20) for run in allowing.runs.values()])


async def test_sessions_spawn_answers_its_limits_as_values(make: Any) -> None:
    """Depth and number."""
    wait, _ = waiting()
    host = make(lambda request: calling(call("wait")), tools=[wait], spawning=Spawning(children=1))
    first = await use(host, "sessions_spawn", task="a")
    assert "forbidden" == (await use(host, "sessions_spawn", task="b"))["status"]
    assert "forbidden" == (await use(host, "sessions_spawn", key=first["childSessionKey"], task="c"))["status"]


async def test_sessions_spawn_hands_its_arguments_on(make: Any, tmp_path: Path) -> None:
    """The timeout under either name, the mode, the files."""
    (tmp_path / "w").mkdir()
    host = make(context=ToolContext(root=str(tmp_path / "w")))
    files = [{"name": "a.bin", "content": base64.b64encode(b"\0\1").decode(), "encoding": "base64", "mimeType": "x/y"}]
    output = await use(
        host, "sessions_spawn", task="a", thread=True, timeoutSeconds=7, attachments=files, attachAs={"mountPath": "in"}
    )
    task = run_of(host, output).task
    assert ("session", 7.0, "session") == (task.mode, task.seconds, output["mode"])
    assert b"\0\1" == (tmp_path / "w" / "in" / "a.bin").read_bytes()
    assert 5.0 == run_of(host, await use(host, "sessions_spawn", task="b", runTimeoutSeconds=5)).task.seconds
    await run_of(host, output).wait(20)


# --- subagents -------------------------------------------------------------------------------------------------------


async def test_subagents_lists_those_that_work_and_those_that_ended(make: Any) -> None:
    """With what they found; another session's are not there."""
    wait, begun = waiting()
    script = Asked("found it", "ok", calling(call("wait")))
    host = make(script, tools=[wait])
    done = run_of(host, await use(host, "sessions_spawn", task="a", label="quick"))
    await done.wait(20)
    await until(lambda: len(script.requests) == 2)
    await use(host, "sessions_spawn", task="b", label="slow")
    await asyncio.wait_for(begun.wait(), 20)
    output = await use(host, "subagents")
    assert ["slow"] == [row["label"] for row in output["active"]]
    assert [("quick", "done", "found it")] == [(r["label"], r["status"], r["result"]) for r in output["recent"]]
    assert "1. quick: done\n2. slow: running" == output["text"]
    assert "no sub-agents" == (await use(host, "subagents", key="agent:main:other"))["text"]


async def test_waiting_for_subagents_never_stops_them(make: Any) -> None:
    """Timeout says who still works; ok has the results."""
    host = make(lambda request: "found")
    output = await use(host, "sessions_spawn", task="a")
    waited = await use(host, "subagents", action="wait", runIds=[output["runId"]], timeoutSeconds=20)
    assert ("ok", "done", "found") == (waited["status"], waited["runs"][0]["status"], waited["runs"][0]["result"])
    wait, _ = waiting()
    other = make(lambda request: calling(call("wait")), tools=[wait])
    output = await use(other, "sessions_spawn", task="a")
    waited = await use(other, "subagents", action="wait", runId=output["runId"], timeoutSeconds=0)
    assert ("timeout", True) == (waited["status"], run_of(other, output).active)


@pytest.mark.parametrize("target", ["1", "one", "all", "key", "id"])
async def test_subagents_are_cancelled_by_any_name(make: Any, target: str) -> None:
    """Number, label, key, id, or all."""
    wait, begun = waiting()
    host = make(lambda request: calling(call("wait")), tools=[wait])
    run = run_of(host, await use(host, "sessions_spawn", task="a", label="one"))
    await asyncio.wait_for(begun.wait(), 20)
    name = {"key": run.key, "id": run.id}.get(target, target)
    output = await use(host, "subagents", action="cancel", target=name)
    assert ([run.id], "killed") == (output["cancelled"], run.status)
    assert [] == (await use(host, "subagents", action="kill", target=name))["cancelled"]


async def test_a_running_subagent_can_be_steered(make: Any) -> None:
    """It reads it at its next turn; one that has ended cannot."""
    gate = asyncio.Event()

    async def hold(*_: Any) -> ToolResult:
        await gate.wait()
        return ToolResult()

    tool = Tool(name="hold", description="hold", parameters={"type": "object"}, execute=hold)
    script = Asked(calling(call("hold")), "done", "thanks")
    host = make(script, tools=[tool])
    run = run_of(host, await use(host, "sessions_spawn", task="a"))
    await until(lambda: host.status(run.key)["status"] == "running" and len(script.requests) == 1)
    assert [run.id] == (await use(host, "subagents", action="steer", target="1", message="hurry"))["steered"]
    gate.set()
    await run.wait(20)
    assert texts(script.requests[1].context.messages)[-1].endswith("\nhurry")
    assert (await used(host, "subagents", action="steer", target="1", message="again")).is_error


@pytest.mark.parametrize(
    "params",
    [
        {"action": "cancel"},
        {"action": "dance"},
        {"action": "wait", "runIds": []},
        {"action": "wait", "runIds": ["x"] * 33},
        {"action": "wait", "runId": "x", "timeoutSeconds": 61},
        {"recentMinutes": 0},
    ],
)
async def test_subagents_refuses_nonsense(make: Any, params: Any) -> None:
    """Who is meant, what is to be done, how long."""
    assert (await used(make(), "subagents", **params)).is_error


async def test_a_session_controls_only_what_is_below_it(make: Any) -> None:
    """To another, the run is not there."""
    host = make()
    run = await host.spawn("a", by=Caller(key="agent:main:other"))
    output = await use(host, "subagents", action="cancel", runId=run.id)
    assert "error" == output["status"] and "no sub-agent" in output["error"]


# --- message ---------------------------------------------------------------------------------------------------------


class Recording:
    """A sink that remembers; it can do what it is told it can."""

    def __init__(self, name: str = "chat", actions: Any = ("send", "reply"), fails: Exception | None = None) -> None:
        self.name = name
        self.actions = actions
        self.fails = fails
        self.sent: list[tuple[ReplyPayload, str | None]] = []
        self.reactions: list[Any] = []

    async def send(
        self, payload: ReplyPayload, *, target: Any = None, files: Any = None, signal: Any = None
    ) -> Receipt:
        if self.fails is not None and target != "good":
            raise self.fails
        self.sent.append((payload, target))
        return Receipt(channel=self.name, target=target, message_id="m1")

    async def react(self, message_id: str, emoji: str, **how: Any) -> Receipt:
        self.reactions.append((message_id, emoji, how["remove"], how["target"]))
        return Receipt(channel=self.name)


def tool_for(channel: Any, **context: Any) -> Tool:
    return message_tool(ToolContext(channel=channel, **context))


async def sent(tool: Tool, **params: Any) -> Any:
    return (await tool.execute("c", params)).details


async def test_message_sends_to_the_channel_at_hand() -> None:
    """And says under which id it is known there."""
    sink = Recording()
    output = await sent(tool_for(sink), message="Hello", replyTo="7", asVoice=True, silent=True)
    payload, target = sink.sent[0]
    assert ("Hello", "7", None) == (payload.text, payload.reply_to_id, target)
    assert {"audioAsVoice": True, "silent": True} == payload.extra["interlingua"]
    assert ("sent", "m1", "chat", True) == (output["status"], output["messageId"], output["channel"], output["here"])


def test_message_offers_what_its_channels_can_do() -> None:
    """The actions, and the arguments that belong to them; without a channel there is no tool."""
    plain, rich = tool_for(Recording(actions=("send",))), tool_for([Recording(actions=("send", "reply", "react"))])
    assert (["send"], ["send", "reply", "react"]) == (
        plain.parameters["properties"]["action"]["enum"],
        rich.parameters["properties"]["action"]["enum"],
    )
    assert not {"emoji", "messageId", "replyTo"} & {*plain.parameters["properties"]}
    with pytest.raises(MissingContext):
        message_tool(ToolContext())


async def test_message_reacts_where_the_channel_can() -> None:
    """And says so where it cannot."""
    sink = Recording(actions=("send", "react"))
    await sent(tool_for(sink), action="react", messageId="5", emoji="+1", target="room", remove=True)
    assert [("5", "+1", True, "room")] == sink.reactions
    with pytest.raises(ToolInputError, match="needs messageId and emoji"):
        await sent(tool_for(sink), action="react", emoji="+1")
    with pytest.raises(ToolInputError, match="cannot react"):
        await sent(tool_for(Recording()), action="react", messageId="5", emoji="+1")
    with pytest.raises(ToolInputError, match="a cannot react"):
        await sent(tool_for([sink, Recording("a")]), action="react", channel="a", messageId="5", emoji="+1")


async def test_message_picks_a_channel_by_name_or_from_the_context() -> None:
    """An unknown one is refused, with those that there are."""
    one, two = Recording("one"), Recording("two")
    tool = tool_for([one, two], message_channel="two")
    await sent(tool, message="a")
    await sent(tool, message="b", channel="one", target="x")
    assert (["b"], ["a"]) == ([p.text for p, _ in one.sent], [p.text for p, _ in two.sent])
    with pytest.raises(ToolInputError, match="known: one, two"):
        await sent(tool, message="c", channel="three")


async def test_message_of_a_bound_conversation_goes_there_and_nowhere_else() -> None:
    """Whatever channel or target the model names."""
    one, two = Recording("one"), Recording("two")
    tool = tool_for(Channels([one, two], bound=("one", "room")))
    assert True is (await sent(tool, message="a"))["here"]
    await sent(tool, message="b", channel="one", target="room")
    for params in ({"target": "other"}, {"channel": "two"}, {"targets": ["room", "other"]}):
        with pytest.raises(ToolAuthorizationError, match="only write to one:room"):
            await sent(tool, message="c", **params)
    assert (["room", "room"], []) == ([target for _, target in one.sent], two.sent)


async def test_message_goes_to_several_and_tells_who_was_not_reached() -> None:
    """One failure does not hide the others; alone it is raised."""
    sink = Recording(fails=TransportError("down"))
    output = await sent(tool_for(sink), message="a", targets=["good", "bad", "good"])
    assert ("partial", 1, [{"to": "chat:bad", "error": "down"}], False) == (
        output["status"],
        len(output["receipts"]),
        output["failed"],
        output["here"],
    )
    with pytest.raises(TransportError):
        await sent(tool_for(sink), message="a")


async def test_message_carries_media_from_the_web_and_from_the_root() -> None:
    """By URL or path; a caption is its text."""
    sink = Recording()
    tool = tool_for(sink, bridge=memory_bridge({"a.png": b"x", "b.txt": "y"}))
    await sent(tool, media="https://example.org/i.png", caption="See")
    await sent(tool, path="a.png", filePath="b.txt")
    assert [("See", ("https://example.org/i.png",)), (None, ("a.png", "b.txt"))] == [
        (payload.text, payload.media_urls) for payload, _ in sink.sent
    ]
    assert all(payload.media_url == (payload.media_urls or ("",))[0] for payload, _ in sink.sent)


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({}, "nothing to send"),
        ({"message": "<think>only reasoning</think>"}, "nothing to send"),
        ({"media": "data:image/png;base64,AAAA"}, "data: URLs are not sent"),
        ({"media": "DATA:text/plain,x"}, "data: URLs are not sent"),
        ({"media": "file:///etc/passwd"}, "file: is not sent"),
        ({"media": "missing.png"}, "no file"),
        ({"media": "../etc/passwd"}, "outside"),
        ({"message": "a", "target": "x", "targets": ["y"]}, "not both"),
        ({"message": "a", "action": "reply"}, "needs replyTo"),
        ({"message": "a", "action": "poll"}, "action"),
        ({"message": "a", "unknown": 1}, "unknown"),
        ({"message": "a", "targets": ["x"] * 21}, "targets"),
    ],
)
async def test_message_refuses_nonsense(params: Any, why: str) -> None:
    """And sends nothing."""
    sink = Recording()
    with pytest.raises(ToolInputError, match=why):
        await sent(tool_for(sink, bridge=memory_bridge({"a": "b"})), **params)
    assert [] == sink.sent


async def test_message_sends_no_files_where_there_are_none() -> None:
    """Without a root or a bridge, no path of this machine goes out."""
    with pytest.raises(ToolAuthorizationError, match="no files"):
        await sent(tool_for(Recording()), media="/etc/passwd")


async def test_message_strips_reasoning_and_can_try_without_sending() -> None:
    """A dry run tells what would be said, and where."""
    sink = Recording()
    output = await sent(tool_for(sink), message="<thinking>hm</thinking>Hello", target="x", dryRun=True)
    assert ({"status": "dryRun", "text": "Hello", "here": False, "to": ["chat:x"]}, []) == (output, sink.sent)


def test_the_sinks_of_this_package_are_sinks() -> None:
    """By the protocol."""
    assert ("send", "reply") == Channels([TerminalSink()]).actions
