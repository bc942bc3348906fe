"""What `exec` does for a caller who means well."""

import asyncio
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interlingua.tools import sandbox
from interlingua.tools.core.exec import exec_tool
from interlingua.tools.processes import ProcessTable, process_table
from interlingua.tools.sandbox import SandboxStatus
from interlingua.tools.tool import MissingContext, ToolContext, ToolResult
from interlingua.values.abort import Abort
from interlingua.values.errors import FormatError, ToolAuthorizationError, ToolInputError


async def test_output_and_exit_code_come_back(place: Any) -> None:
    """Both streams are one text; success is no error, and the details tell the rest."""
    result = await place.run("echo out; echo err >&2; pwd")
    assert f"out\nerr\n{place.root}" == result.text
    assert not result.is_error
    kept = ("status", "exitCode", "timedOut", "aborted", "truncated", "cwd", "leftBehind")
    assert ["completed", 0, False, False, False, str(place.root), 0] == [result.details[key] for key in kept]
    assert result.text == result.details["aggregated"]
    assert result.details["sandbox"].startswith("sandboxed" if place.sandboxed else "not sandboxed")
    log = Path(result.details["logPath"])
    assert f"out\nerr\n{place.root}\n" == log.read_text()
    assert 0o700 == log.parent.stat().st_mode & 0o777


async def test_failure_is_an_error_with_its_code(place: Any) -> None:
    """A code other than zero makes the result an error that says the code."""
    result = await place.run("echo before; exit 3")
    assert ("before\n\n(exit code 3)", True, 3, "failed") == (
        result.text,
        result.is_error,
        result.details["exitCode"],
        result.details["status"],
    )


async def test_a_command_without_output_is_reported(place: Any) -> None:
    """No output is a text of its own, not an empty one."""
    assert "(no output)" == (await place.run("true")).text


async def test_a_foreground_command_has_no_input(place: Any) -> None:
    """A program that reads its input meets its end at once instead of waiting for ever."""
    assert "[]" == (await place.run("read x; echo [$x]")).text


async def test_workdir_is_relative_to_the_workspace_and_may_be_absolute(place: Any) -> None:
    """A directory inside the root is taken in either form."""
    (place.root / "sub").mkdir()
    for workdir in ("sub", "./sub/../sub", str(place.root / "sub")):
        assert str(place.root / "sub") == (await place.run("pwd", workdir=workdir)).text


async def test_variables_reach_the_command(place: Any) -> None:
    """What the call sets is set."""
    assert "hello wörld" == (await place.run('echo "$GREETING"', env={"GREETING": "hello wörld"})).text


async def test_updates_show_the_tail_while_it_runs(place: Any) -> None:
    """Updates come while the command runs, with what it has printed so far."""
    seen: list[ToolResult] = []
    await place.run("echo one; sleep 0.6; echo two; sleep 0.6", on_update=seen.append)
    texts = [update.text for update in seen]
    assert "one\n" == texts[0]
    assert "one\ntwo\n" == texts[-1]
    assert all(update.details["status"] == "running" for update in seen)


async def test_updates_come_at_most_ten_times_a_second(place: Any) -> None:
    """A command that prints without pause does not flood the caller."""
    seen: list[ToolResult] = []
    result = await place.run("for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 0.1; done", on_update=seen.append)
    assert len(seen) <= result.details["durationMs"] / 100 + 1


async def test_a_long_command_goes_on_in_the_background(place: Any) -> None:
    """After yieldMs the result says that the command runs on, and how to follow it; it is not ended by that."""
    result = await place.run("echo begun; until [ -e go ]; do sleep 0.05; done; echo ended", yieldMs=300)
    session = result.details["sessionId"]
    assert ("running", False) == (result.details["status"], result.is_error)
    assert session in result.text
    if "begun" not in result.text:
        await place.read_until(session, "begun")
    (place.root / "go").touch()
    assert "ended" in await place.read_until(session, "ended")


async def test_a_timeout_ends_the_command_and_says_so(place: Any) -> None:
    """What was printed before is kept; the result is an error that names the timeout."""
    result = await place.run("echo begun; sleep 60", timeout=2)
    assert result.is_error
    assert result.text.startswith("begun\n\n(timeout after ")
    assert (True, "failed") == (result.details["timedOut"], result.details["status"])


@pytest.mark.parametrize("settings", [{"graceSec": 0.3, "timeoutSec": 0.5}])
async def test_a_command_that_does_not_yield_has_the_foreground_timeout(place: Any) -> None:
    """With yieldMs 0 the default limit holds."""
    assert (await place.run("sleep 60", yieldMs=0)).details["timedOut"]


async def test_case_93_an_abort_ends_a_foreground_command(place: Any) -> None:
    """The signal reaches a running tool: the command ends, and the result says why."""
    signal = Abort()
    asyncio.get_running_loop().call_later(0.4, signal.abort)
    result = await place.run("echo begun; sleep 60", signal)
    assert (True, True) == (result.is_error, result.details["aborted"])
    assert "aborted" in result.text
    assert [] == [session for session in place.table.sessions() if session.exit is None]


async def test_an_abort_leaves_a_background_command_alone(place: Any) -> None:
    """What went to the background belongs to the table, no longer to the call."""
    signal = Abort()
    result = await place.run("sleep 60", signal, background=True)
    signal.abort()
    await asyncio.sleep(0.3)
    assert place.table.get(result.details["sessionId"]).exit is None


async def test_an_aborted_signal_starts_nothing(place: Any) -> None:
    """A call that is over before it begins runs no command."""
    signal = Abort()
    signal.abort()
    with pytest.raises(ToolInputError, match="aborted"):
        await place.run("touch made", signal)
    assert [] == list(place.root.iterdir())


async def test_cancelling_the_task_ends_the_command(place: Any) -> None:
    """Cancellation is an abort too."""
    task = asyncio.ensure_future(place.run("sleep 60"))
    while not (sessions := place.table.sessions()):
        await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await sessions[0].wait(20)


async def test_a_terminal_is_one(place: Any) -> None:
    """With pty the command has a terminal of a known size."""
    assert "40 120" == (await place.run("test -t 0 && test -t 1 && stty size", pty=True)).text


async def test_what_bash_does_not_wait_for_still_gets_its_say(place: Any) -> None:
    """A process substitution ends a moment after its shell; its output is not lost."""
    assert "Hi" == (await place.run("echo hi > >(sed s/h/H/)")).text


async def test_login_files_are_not_read(place: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No profile, no rc file, no BASH_ENV: a command means the same for everyone."""
    for name in (".bashrc", ".profile", ".bash_profile", "env"):
        (tmp_path / name).write_text("echo FROM A FILE\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BASH_ENV", str(tmp_path / "env"))
    monkeypatch.setenv("ENV", str(tmp_path / "env"))
    assert "clean" == (await place.run("echo clean")).text


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({"command": ""}, "empty"),
        ({"command": " \n"}, "empty"),
        ({"command": "echo \0"}, "NUL"),
        ({"command": "echo \ud800"}, "surrogate"),
        ({"command": "#" * 200_000}, "write it to a file"),
        ({"command": "ls", "timeout": 0}, "timeout"),
        ({"command": "ls", "workdir": "nowhere"}, "nowhere"),
        ({"command": "ls", "workdir": "a\0b"}, "NUL"),
        ({"command": "ls", "env": {"A B": "1"}}, "A B"),
        ({"command": "ls", "env": {"A": "1\0"}}, "NUL"),
        ({"command": "ls", "env": []}, "env"),
        ({}, "command"),
    ],
)
async def test_nonsense_is_refused_with_a_reason(place: Any, params: dict[str, Any], expected: str) -> None:
    """A call that cannot be run says what is wrong with it."""
    with pytest.raises(ToolInputError, match=expected):
        await place.exec.execute("call", params)


def test_a_context_without_a_root_is_named() -> None:
    """Without a root there is no exec; the missing field is told."""
    with pytest.raises(MissingContext, match="root"):
        exec_tool(ToolContext())


def test_a_misspelt_setting_is_an_error(tmp_path: Path) -> None:
    """A setting that does nothing would be a hole, so it is refused."""
    with pytest.raises(FormatError, match="sandbx"):
        exec_tool(ToolContext(root=str(tmp_path), config={"tools": {"exec": {"sandbx": "required"}}}))


async def test_without_bubblewrap_a_context_that_wants_it_gets_no_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`sandboxed=True` is a demand, not a wish; otherwise the description and the details say that there is none."""
    monkeypatch.setattr(sandbox.shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(sandbox.confinement, "landlock_abi", lambda: 0)
    sandbox.sandbox_status.cache_clear()
    try:
        reason = "not sandboxed: bubblewrap is not installed"
        assert SandboxStatus(available=False, reason=reason) == sandbox.sandbox_status()
        strict = exec_tool(ToolContext(root=str(tmp_path), sandboxed=True))
        loose = exec_tool(ToolContext(root=str(tmp_path)))
        assert strict is not None
        assert loose is not None
        with pytest.raises(ToolAuthorizationError, match=reason):
            await strict.execute("call", {"command": "touch made"})
        assert [] == list(tmp_path.iterdir())
        assert reason in loose.description
        assert reason == (await loose.execute("call", {"command": "true"})).details["sandbox"]
    finally:
        sandbox.sandbox_status.cache_clear()
        await process_table(ToolContext(root=str(tmp_path))).close()


CROWDED = """
import asyncio, os, resource, sys
from interlingua.tools.core.exec import exec_tool
from interlingua.tools.tool import ToolContext
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
tool = exec_tool(ToolContext(root=sys.argv[1], sandboxed=sys.argv[2] == "True"))
result = asyncio.run(asyncio.wait_for(tool.execute("call", {"command": "echo out; exit 3"}), 30))
print(max(held) > 1023, repr(result.text), result.details["exitCode"])
"""


@pytest.mark.skipif(
    -1 < resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 4096, reason="this process may not open 4096 files"
)
def test_a_program_with_many_open_files_runs_commands(tmp_path: Path, sandboxed: bool) -> None:
    """As a server has them: the descriptors of a command are then higher than `select` takes."""
    argv = [sys.executable, "-W", "error", "-c", CROWDED, str(tmp_path), str(sandboxed)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert ("True 'out\\n\\n(exit code 3)' 3\n", "") == (done.stdout, done.stderr)


def test_a_table_belongs_to_an_agent_a_conversation_and_a_root(tmp_path: Path) -> None:
    """The tools of one context share a table; another conversation has another."""
    context = ToolContext(root=str(tmp_path), agent_id="a", session_key="s")
    table = process_table(context)
    assert table is process_table(ToolContext(root=str(tmp_path), agent_id="a", session_key="s"))
    others = [
        process_table(ToolContext(root=str(tmp_path), agent_id="a", session_key="t")),
        process_table(ToolContext(root=str(tmp_path), agent_id="b", session_key="s")),
        process_table(ToolContext(root=str(tmp_path / "x"), agent_id="a", session_key="s")),
    ]
    assert 4 == len({id(table), *map(id, others)})


async def test_a_running_command_outlives_the_tools_that_started_it(tmp_path: Path) -> None:
    """A host that makes its tools anew for each turn finds its processes again, from another event loop even."""
    context = ToolContext(root=str(tmp_path), sandboxed=False, session_key="kept")

    def first_turn() -> str:
        async def turn() -> str:
            tool = exec_tool(context)
            assert tool is not None
            return str((await tool.execute("call", {"command": "sleep 60", "background": True})).details["sessionId"])

        return asyncio.run(turn())

    session = await asyncio.to_thread(first_turn)
    table = process_table(context)
    assert [session] == [found.id for found in table.sessions()]
    await table.close()


async def test_finished_commands_are_forgotten_in_time_and_number(tmp_path: Path) -> None:
    """A table keeps a bounded number of finished commands for a bounded time, and deletes the logs of the others."""
    from interlingua.tools.processes import Launch

    descriptor = os.open(tmp_path, os.O_RDONLY)
    table = ProcessTable(keep_finished=2)
    try:
        sessions = []
        for _ in range(4):
            launch = Launch(command="true", argv=["/bin/true"], directory=str(tmp_path), descriptor=descriptor, env={})
            sessions.append(table.start(launch))
            assert await sessions[-1].wait(20)
        assert [session.id for session in sessions[2:]] == [session.id for session in table.sessions()]
        assert [False, False, True, True] == [session.output.path.exists() for session in sessions]
    finally:
        os.close(descriptor)
        await table.close()
    assert [False] * 4 == [session.output.path.exists() for session in sessions]
    assert not sessions[0].output.path.parent.exists()
