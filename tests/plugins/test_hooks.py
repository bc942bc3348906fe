"""The hooks of plugins: any number of listeners, in order of priority; a failing one stops nobody but a call."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.making import agent_of, call, calling, results, texts
from interlingua import tool
from interlingua.plugins import hooks, load_plugins
from interlingua.plugins.hooks import Hooks
from plugins.making import plugin


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


def hooked(folder: Path, *codes: str) -> Hooks:
    """The hooks of plugins with these bodies of `register`."""
    for at, code in enumerate(codes):
        body = "".join(f"    {line}\n" for line in code.strip().splitlines())
        plugin(folder, f"p{at}", f"SEEN = []\nasync def later(value):\n    return value\ndef register(api):\n{body}")
    loaded = load_plugins([folder])
    assert [] == loaded.problems
    return Hooks(loaded)


async def added(listeners: Hooks, **arguments: Any) -> list[str]:
    """What a run with one call of `add` gave as results."""
    agent = agent_of(calling(call("add", "1", **(arguments or {"a": 1, "b": 2}))), "done", tools=[add])
    listeners.attach(agent)
    await agent.prompt("add")
    return texts(results(agent.messages))


async def test_every_listener_runs_and_sees_what_the_one_before_left(tmp_path: Path) -> None:
    """Two plugins change the parameters one after the other, the one of higher priority first."""
    change = (
        'api.on("before_tool_call", lambda event: {{"params": {{**event["params"], "a": event["params"]["a"] {}}}}}{})'
    )
    listeners = hooked(tmp_path, change.format("* 10", ""), change.format("+ 1", ", {'priority': 5}"))
    assert ["22"] == await added(listeners)


async def test_a_listener_may_block_a_call_in_either_spelling(tmp_path: Path) -> None:
    """As a coroutine function, and for several hooks registered at once."""
    code = """
async def stop(event, context):
    return {"block": True, "blockReason": f"no {event['tool_name']} in {context['hook']}"}
api.registerHook(["before_tool_call", "llm_output"], stop)
"""
    assert ["no add in before_tool_call"] == await added(hooked(tmp_path, code))


async def test_a_listener_may_replace_a_result(tmp_path: Path) -> None:
    """`after_tool_call` and `tool_result_persist` both may; the second sees what the first made."""
    one = 'api.on("after_tool_call", lambda e: {"content": [{"type": "text", "text": e["result"].text + "!"}]})'
    two = 'api.on("tool_result_persist", lambda e: {"content": [{"type": "text", "text": e["result"].text + "?"}]})'
    assert ["3!?"] == await added(hooked(tmp_path, two, one))


async def test_observers_hear_the_run_and_their_failures_stay_with_them(tmp_path: Path) -> None:
    """Hooks that only observe get the events as JSON; one that raises, or exits, changes nothing."""
    names = ["agent_start", "before_agent_start", "message_received", "llm_input", "llm_output", "agent_end"]
    code = f"""
for name in {names!r}:
    api.register_hook(name, lambda event, context: SEEN.append((context["hook"], event)))
    api.register_hook(name, lambda event: exit(3))
api.SEEN = SEEN
"""
    folder = tmp_path / "p0"
    plugin(tmp_path, "p0", "SEEN = []\ndef register(api):\n" + "".join(f"    {li}\n" for li in code.splitlines()))
    loaded = load_plugins([folder])
    assert [] == loaded.problems
    assert ["3"] == await added(Hooks(loaded))
    module = loaded[0]._module
    assert module is not None
    assert set(names) == {name for name, _ in module.SEEN}
    (received,) = [event for name, event in module.SEEN if name == "message_received"]
    assert "add" == received["message"]["content"][0]["text"]


@pytest.mark.parametrize(
    "code",
    [
        'api.on("before_tool_call", lambda event: 1 / 0)',
        'api.on("before_tool_call", lambda event: "yes")',
        'api.on("before_tool_call", lambda event: __import__("threading").Event().wait())',
        'api.on("before_tool_call", lambda event: __import__("asyncio").sleep(1000))',
    ],
    ids=["raises", "nonsense", "blocks", "never-ends"],
)
async def test_a_failing_listener_has_allowed_nothing(
    tmp_path: Path, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call is not run, its result says whose hook it was, and the run goes on."""
    monkeypatch.setattr(hooks, "TIMEOUT", 0.2)
    (text,) = await asyncio.wait_for(added(hooked(tmp_path, code)), 20)
    assert "not run" in text and "p0" in text


async def test_odd_registrations_are_accepted_and_run_nothing(tmp_path: Path) -> None:
    """A hook without a function, or of an unknown name, stops no plugin and no run."""
    code = 'api.register_hook()\napi.on("before_tool_call")\napi.on("no_such_hook", print)\napi.on(3, 4)'
    assert ["3"] == await added(hooked(tmp_path, code))
