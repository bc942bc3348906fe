"""Commands that mean harm: to our keys, to our machine, and to whoever reads their output."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from interlingua.tools.processes import marked, process_table
from interlingua.tools.sandbox import looks_secret, sandbox_status, scrubbed
from interlingua.values.errors import ToolAuthorizationError

KEYS = {
    "OPENAI_API_KEY": "leak-1",
    "ANTHROPIC_AUTH_TOKEN": "leak-2",
    "AWS_SECRET_ACCESS_KEY": "leak-3",
    "AWS_PROFILE": "leak-4",
    "GITHUB_TOKEN": "leak-5",
    "DB_PASSWORD": "leak-6",
    "DATABASE_URL": "postgres://user:leak-7@host/db",
    "https_proxy": "http://user:leak-8@proxy:3128",
    "MY_SERVICE": "sk-leak-9",
    "SOMETHING_ELSE": "leak-10",
    "LC_PROXY": "http://user:leak-11@proxy",
}


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("keys")
async def test_no_key_is_in_the_environment_of_a_command(place: Any) -> None:
    """Neither `env` nor any way the kernel has of telling it, of the command or of its supervisor."""
    result = await place.run(
        "env; export -p; tr '\\0' '\\n' < /proc/self/environ; tr '\\0' '\\n' < /proc/$PPID/environ; "
        "tr '\\0' '\\n' < /proc/$PPID/cmdline"
    )
    assert "PATH=" in result.text
    assert "leak" not in result.text


@pytest.mark.usefixtures("keys")
async def test_in_the_sandbox_no_process_shows_a_key(place: Any) -> None:
    """Outside a sandbox a command of the same user may read our own environment; inside it sees only itself."""
    if not place.sandboxed:
        pytest.skip("unsandboxed commands may read /proc of the same user: said in the documentation")
    result = await place.run("cat /proc/[0-9]*/environ | tr '\\0' '\\n'")
    assert "PATH=" in result.text
    assert "leak" not in result.text


@pytest.mark.usefixtures("keys")
@pytest.mark.parametrize("settings", [{"env": ["GITHUB_TOKEN", "DB_*", "SOMETHING_*"]}])
async def test_a_key_passes_only_when_it_is_named(place: Any) -> None:
    """A pattern lets nothing through that looks secret; a name written out does."""
    result = await place.run("env | grep -o 'leak-.*' | sort")
    assert "leak-10\nleak-5" == result.text


@pytest.mark.parametrize(
    "name",
    [
        *("PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "PYTHONSTARTUP", "PYTHONPATH", "BASH_ENV"),
        *("ENV", "IFS", "PS4", "SHELLOPTS", "PROMPT_COMMAND", "NODE_OPTIONS", "PERL5OPT", "RUBYOPT", "GIT_SSH_COMMAND"),
        *("GIT_CONFIG_GLOBAL", "JAVA_TOOL_OPTIONS", "GCONV_PATH", "ld_preload", "PAGER", "EDITOR", "HOME"),
        *("INTERLINGUA_EXEC", "INTERLINGUA_HOME"),
    ],
)
async def test_variables_that_change_which_program_runs_are_refused(place: Any, name: str) -> None:
    """A loader or start-up variable is a security error, not a setting."""
    with pytest.raises(ToolAuthorizationError, match=name):
        await place.run("true", env={name: "/tmp/evil"})


def test_relative_parts_of_the_search_path_are_dropped() -> None:
    """`.` in PATH would let a file of the workspace stand in for a program."""
    assert "/usr/bin:/bin" == scrubbed({"PATH": ".:/usr/bin::bin:/bin:"})["PATH"]
    assert "/usr/bin" in scrubbed({})["PATH"]


def test_secrets_are_known_by_name_and_by_value() -> None:
    """What looks like a key is one."""
    assert all(looks_secret(name, value) for name, value in KEYS.items() if name != "SOMETHING_ELSE")
    assert not any(looks_secret(name, "C.UTF-8") for name in ("PATH", "HOME", "LANG", "LC_ALL", "TERM", "USER", "TZ"))


@pytest.mark.parametrize("path", ["..", "../..", "/", "/etc", "link", "sub/../../outside", "link/deeper", "~"])
async def test_the_working_directory_stays_inside_the_root(place: Any, tmp_path: Path, path: str) -> None:
    """No spelling and no symbolic link makes a command begin outside."""
    (tmp_path / "outside" / "deeper").mkdir(parents=True)
    (place.root / "sub").mkdir()
    (place.root / "link").symlink_to(tmp_path / "outside")
    with pytest.raises(Exception, match=r"outside the root|No such file"):
        await place.run("pwd", workdir=path)


async def test_a_working_directory_swapped_while_we_start_leads_nowhere(place: Any, tmp_path: Path) -> None:
    """The directory that was checked is the one that is entered, whatever becomes of its name."""
    (tmp_path / "outside").mkdir()
    (place.root / "real").mkdir()
    link = place.root / "door"
    stop = asyncio.Event()

    def swap() -> None:
        for at in range(3000):
            if stop.is_set():
                return
            target = place.root / "real" if at % 2 else tmp_path / "outside"
            spare = place.root / "spare"
            spare.unlink(missing_ok=True)
            spare.symlink_to(target)
            spare.rename(link)

    swapping = asyncio.ensure_future(asyncio.to_thread(swap))
    try:
        for _ in range(12):
            try:
                result = await place.run("pwd -P", workdir="door")
            except Exception as error:
                assert "outside the root" in str(error) or "No such file" in str(error)
            else:
                assert str(tmp_path / "outside") != result.text
    finally:
        stop.set()
        await swapping


# Just so long sleeps nobody else: the tests of other workers run beside these.
SLEEP = f"sleep 600.{os.getpid()}"
ESCAPES = {
    "setsid": f"setsid {SLEEP} & ",
    "nohup": f"nohup {SLEEP} >/dev/null 2>&1 & ",
    "disown": f"{SLEEP} & disown; ",
    "double fork": f"( ( setsid {SLEEP} & ) & ) ; ",
    "closed output": f"setsid {SLEEP} <&- >&- 2>&- & ",
    "without our mark": f"env -i setsid /bin/{SLEEP} & ",
    "ignoring signals": f"(trap '' TERM INT HUP; setsid sh -c \"trap '' TERM; while :; do {SLEEP}; done\") & ",
    "its own group": f"set -m; {SLEEP} & ",
}


def sleepers() -> list[int]:
    """Processes that run `SLEEP`."""
    ending = SLEEP.replace(" ", "\0").encode() + b"\0"
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if entry.read_bytes().endswith(ending):
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


@pytest.mark.parametrize("trick", ESCAPES)
async def test_a_timeout_ends_children_that_got_away(place: Any, trick: str) -> None:
    """Whatever a child does to detach itself, it ends with its command."""
    result = await place.run(ESCAPES[trick] + f"echo begun; {SLEEP}", timeout=1)
    assert result.details["timedOut"]
    assert "begun" in result.text
    assert [] == sleepers()


@pytest.mark.parametrize("trick", ["setsid", "nohup", "double fork", "without our mark"])
async def test_what_a_finished_command_left_behind_is_ended(place: Any, trick: str) -> None:
    """The end of the command is the end of its children; outside the sandbox the result says how many there were."""
    result = await place.run(ESCAPES[trick] + "true")
    assert "completed" == result.details["status"]
    assert [] == sleepers()
    if not place.sandboxed:
        assert 1 <= result.details["leftBehind"]
        assert "background: true" in result.text


async def test_sigterm_may_be_ignored_sigkill_not(place: Any) -> None:
    """A command that does not want to end is given a moment and then no choice."""
    session = await place.start("trap '' TERM INT HUP; while :; do sleep 0.2; done")
    assert not (await place.act("kill", sessionId=session)).is_error
    assert "killed" == place.table.get(session).exit.reason


async def test_a_command_may_clean_up_when_it_is_ended(place: Any) -> None:
    """SIGTERM comes first, and there is time to answer it."""
    session = await place.start("trap 'echo tidy > tidied; exit' TERM; echo ready; while :; do sleep 0.05; done")
    await place.read_until(session, "ready")
    await place.act("kill", sessionId=session)
    assert "tidy\n" == (place.root / "tidied").read_text()


async def test_a_command_that_kills_its_supervisor_gains_nothing(place: Any) -> None:
    """Should the one who watches be killed, what carries our mark is found and killed."""
    await place.run(f"setsid {SLEEP} & kill -9 $PPID; {SLEEP}", timeout=5)
    assert [] == sleepers()


@pytest.mark.parametrize("settings", [{"maxProcesses": 60, "graceSec": 0.3}])
async def test_a_fork_bomb_is_stopped(place: Any) -> None:
    """More processes than allowed end the command, for root too, whom the kernel does not limit."""
    result = await place.run(f"while :; do {SLEEP} & done 2>/dev/null", timeout=20)
    assert result.is_error
    assert "processes" in result.text
    assert [] == sleepers()


async def test_a_chain_of_forks_is_caught(place: Any) -> None:
    """A process that forks and exits without end has no number to aim at; it is caught all the same."""
    chain = "import os\nwhile True:\n    if os.fork(): os._exit(0)\n    os.setsid()\n"
    (place.root / "chain.py").write_text(chain)
    python = "/usr/bin/python3" if place.sandboxed else sys.executable
    if not Path(python).exists():
        pytest.skip(f"{python} is not there to run the chain")
    result = await place.run(f"exec {python} chain.py", timeout=1)
    assert result.details["durationMs"] < 15_000
    assert [] == marked(result.details["sessionId"])


@pytest.mark.parametrize("settings", [{"logBytes": 1_000_000, "graceSec": 0.3}])
async def test_a_flood_fills_neither_memory_nor_disk(place: Any) -> None:
    """The flood runs on and is counted; the log stops at its limit, and the result says all of it."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = await place.run("yes 0123456789 | head -c 200000000; echo; echo last words")
    assert 200_000_012 == result.details["totalBytes"]
    assert 1_000_000 == Path(result.details["logPath"]).stat().st_size
    assert (0, True, False) == tuple(result.details[key] for key in ("exitCode", "truncated", "logComplete"))
    assert len(result.text) < 40_000
    assert result.text.startswith("0123456789\n")
    assert result.text.endswith("last words")
    assert "the log has only the first 1,000,000 of" in result.text
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
    tail = await place.act("log", sessionId=result.details["sessionId"])
    assert "last words" in tail.text


async def test_binary_output_is_named_not_shown(place: Any) -> None:
    """Bytes that are no text do not reach the model; the log has them."""
    result = await place.run(r"head -c 4096 /dev/urandom; printf '\0\1\2'")
    assert "(binary output, 4,099 bytes)" == result.text
    assert 4099 == Path(result.details["logPath"]).stat().st_size


async def test_terminal_sequences_do_not_reach_the_reader(place: Any) -> None:
    """Colours, titles, clipboards, cursor moves and their one-byte forms are taken out; the log keeps them."""
    sent = r"\033[31mred\033[0m \033]0;title\007\033]52;c;ZXZpbA==\033\\t\033[2J\033[1;1H\302\2331mu"
    sent += r"\033P+q\033\\v \010w\a\n"
    result = await place.run(f"printf '{sent}'")
    assert "red tuvw" == result.text
    assert b"\x1b]52;c;" in Path(result.details["logPath"]).read_bytes()


async def test_a_progress_bar_shows_its_last_state(place: Any) -> None:
    """Overwritten lines would be noise, and may hide words from a person that the model reads."""
    assert "100%\ndone" == (await place.run(r"printf '1%%\r50%%\r100%%\r\ndone\r\n'")).text


async def test_closing_the_output_does_not_end_the_watch(place: Any) -> None:
    """A command that closes its output and runs on is still waited for."""
    result = await place.run("exec >&- 2>&-; sleep 0.5; exit 7")
    assert 7 == result.details["exitCode"]


async def test_an_unsandboxed_command_may_leave_its_directory_a_sandboxed_one_sees_nothing_there(
    place: Any, tmp_path: Path
) -> None:
    """The working directory confines nobody; the sandbox does."""
    (tmp_path / "neighbour").write_text("private")
    result = await place.run("cd ..; cat neighbour")
    assert result.is_error if place.sandboxed else result.text == "private"


async def test_when_we_are_killed_nothing_of_ours_stays(tmp_path: Path, sandboxed: bool) -> None:
    """The host dies without a word (SIGKILL); its commands die with it, detached ones too."""
    program = textwrap.dedent(
        f"""
        import asyncio, time
        from interlingua.tools.core.exec import exec_tool
        from interlingua.tools.tool import ToolContext
        tool = exec_tool(ToolContext(root={str(tmp_path)!r}, sandboxed={sandboxed}))
        call = {{"command": "setsid {SLEEP} & touch started; {SLEEP}", "background": True}}
        print(asyncio.run(tool.execute("call", call)).details["sessionId"], flush=True)
        time.sleep(600)
        """
    )
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=env) as host:
        assert host.stdout is not None
        session = host.stdout.readline().strip()
        await until(lambda: (tmp_path / "started").exists())
        assert marked(session)
        host.send_signal(signal.SIGKILL)
        host.wait()
    await until(lambda: not marked(session))


async def test_when_the_program_ends_nothing_of_ours_stays(tmp_path: Path, sandboxed: bool) -> None:
    """An ordinary end of the program closes every table: commands and logs are gone."""
    program = textwrap.dedent(
        f"""
        import asyncio
        from interlingua.tools.core.exec import exec_tool
        from interlingua.tools.tool import ToolContext
        tool = exec_tool(ToolContext(root={str(tmp_path)!r}, sandboxed={sandboxed}))
        details = asyncio.run(tool.execute("call", {{"command": "{SLEEP}", "background": True}})).details
        print(details["sessionId"], details["logPath"])
        """
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    session, log = done.stdout.split()
    assert "" == done.stderr
    assert [] == marked(session)
    assert not Path(log).parent.exists()


async def until(true: Any, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came true"
        await asyncio.sleep(0.05)


needs_sandbox = pytest.mark.skipif(
    not sandbox_status().available, reason=f"NOT TESTED in the sandbox: {sandbox_status().reason}"
)


@needs_sandbox
@pytest.mark.parametrize("sandboxed", [True])
@pytest.mark.parametrize(
    "attempt",
    [
        "cat /etc/shadow",
        "ls /home/* /root/.ssh /run/* /sys/*",
        "touch /usr/made",
        "touch /etc/made",
        "echo 60 > /proc/sys/vm/swappiness",
        "echo core > /proc/sys/kernel/core_pattern",
        "mount -t tmpfs none /mnt",
        "kill -0 {host}",
        "cat /proc/{host}/environ",
        "exec 3<>/dev/tcp/127.0.0.1/{port}",
        "mknod disk b 8 0",
        "chroot / true",
    ],
)
async def test_the_sandbox_holds(place: Any, attempt: str) -> None:
    """No secrets of the system, no writing outside the root, no kernel settings, no other process, no network."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        result = await place.run(f"({attempt.format(host=os.getpid(), port=port)}) && echo GOT THROUGH")
    assert "GOT THROUGH" not in result.text


@needs_sandbox
@pytest.mark.parametrize("sandboxed", [True])
async def test_the_sandbox_leaves_room_to_work(place: Any) -> None:
    """The root is writable and stays, /tmp and home are private and do not; no capability, no new privileges."""
    result = await place.run(
        "echo kept > kept; echo gone > /tmp/gone; echo gone > ~/gone; grep -E '^(CapEff|NoNewPrivs)' /proc/self/status"
    )
    assert "CapEff:\t0000000000000000\nNoNewPrivs:\t1" == result.text
    assert "kept\n" == (place.root / "kept").read_text()
    assert not Path("/tmp/gone").exists()


@needs_sandbox
@pytest.mark.parametrize("sandboxed", [True])
@pytest.mark.parametrize("settings", [{"network": True}])
async def test_network_is_there_when_it_is_allowed(place: Any) -> None:
    """`network: true` in the settings lets commands reach the net."""
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        result = await place.run(f"exec 3<>/dev/tcp/127.0.0.1/{port} && echo GOT THROUGH")
    assert "GOT THROUGH" == result.text


@needs_sandbox
async def test_a_root_of_everything_is_no_sandbox() -> None:
    """With `/` as root nothing would lie outside: a context that wants a sandbox is refused."""
    from interlingua.tools.core.exec import exec_tool
    from interlingua.tools.tool import ToolContext

    context = ToolContext(root="/", sandboxed=True)
    tool = exec_tool(context)
    assert tool is not None
    with pytest.raises(ToolAuthorizationError, match="the root is /"):
        await tool.execute("call", {"command": "true"})
    assert [] == process_table(context).sessions()
