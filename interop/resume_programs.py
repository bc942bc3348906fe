"""Sessions across programs: ours resumed in Claude Code, Codex and opencode, theirs continued in `interlingua chat`.

A conversation of another provider, with parallel calls and a failed one, is written as the program's own session and
resumed there; then the program works on a task of its own, and its session goes on in `interlingua chat` on another
provider. The model is a script that repeats what the results of tools said, so an answer shows which of them arrived.

Run by `make interop`; `resume_programs.py codex` runs one program.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from gateway_programs import (
    BEFORE,
    CLAUDE,
    CODEX,
    PROMPT,
    RESUMED,
    TABLE,
    TIMEOUT,
    Model,
    loopback_only,
    run,
)
from serving import Checks

import interlingua as il
from interlingua.testing import Server

NO_RESULT = "No result was recorded"
KNOWN = "There was a quince before."


class Resumed(NamedTuple):
    """How a program takes up a session that it did not write, and where it writes its own."""

    format: str
    api: str  # the wire that it speaks
    place: Callable[[str, Path], str]  # of a session's id and the folder of the work, below its home folder
    start: list[str]
    own: str  # its own session files, below its home folder
    before: list[str] = []  # run first, with the session's file


def _claude_place(id: str, folder: Path) -> str:
    return f".claude/projects/{re.sub('[^a-zA-Z0-9]', '-', str(folder))}/{id}.jsonl"


PROGRAMS = {
    "claude": Resumed(
        format="claude-code",
        api="anthropic-messages",
        place=_claude_place,
        start=[*CLAUDE, "--resume", "{id}", "--", "{prompt}"],
        own=".claude/projects/*/*.jsonl",
    ),
    "codex": Resumed(
        format="codex-cli",
        api="openai-responses",
        place=lambda id, folder: f".codex/sessions/2025/01/01/rollout-2025-01-01T00-00-00-{id}.jsonl",
        start=[*CODEX, "--model", "{model}", "resume", "{id}", "{prompt}"],
        own=".codex/sessions/*/*/*/rollout-*.jsonl",
    ),
    "opencode": Resumed(
        format="opencode",
        api="openai-completions",
        place=lambda id, folder: "session.json",
        before=["opencode", "import", "{file}"],
        start=["opencode", "run", "--session", "{id}", "--model", "gateway/openai-completions", "{prompt}"],
        own=".local/share/opencode/opencode*.db",
    ),
}


def foreign(folder: Path) -> il.Conversation:
    """A conversation that another provider had: two calls at once, of which one failed, then one more."""

    def answer(*content: Any) -> il.AssistantMessage:
        return il.AssistantMessage(
            content=content,
            api="google-generative-ai",
            provider="google",
            model="gemini-2.5-flash",
            stop_reason="toolUse",
        )

    def call(id: str, name: str) -> il.ToolCall:
        return il.ToolCall(id=id, name="read_file", arguments={"path": name})

    def result(id: str, text: str, is_error: bool = False) -> il.ToolResultMessage:
        return il.ToolResultMessage(tool_call_id=id, tool_name="read_file", content=text, is_error=is_error)

    messages = (
        il.UserMessage(content="TASK-ONE: what is in the notes?"),
        answer(il.TextBlock(text="I look."), call("call-1", "notes.txt"), call("call-2", "missing.txt")),
        result("call-1", BEFORE),
        result("call-2", "RESULT-TWO: no such file", is_error=True),
        answer(call("call-3", "list.txt")),
        result("call-3", "RESULT-THREE: a list"),
        answer(il.TextBlock(text="A quince is in one of them.")),
    )
    return il.Conversation(
        entries=tuple(il.Entry(message=message) for message in messages), extra={"work": {"cwd": str(folder)}}
    )


def session_id(body: Any) -> str:
    """The id in a session that was written."""
    if isinstance(body, dict):
        return str(body["info"]["id"])
    first = body[0]
    return str(first["payload"]["id"] if "payload" in first else first["sessionId"])


def resumed(checks: Checks, name: str, upstream: Server) -> None:
    """A session that we wrote, resumed in the program: every result reaches the model."""
    program, row = PROGRAMS[name], TABLE[name]
    with tempfile.TemporaryDirectory() as place:
        home, folder = Path(place, "home"), Path(place, "work")
        folder.mkdir()
        home.mkdir()
        written = il.encode(foreign(folder), program.format)
        id = session_id(written.body)
        files = {program.place(id, folder): written.bytes(), **_settings(name, upstream)}
        for path, data in files.items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_bytes(data)
        upstream.clear()
        upstream.answer(Model(row, folder))
        env, words = row.env(upstream.url), {"id": id, "file": str(home / program.place(id, folder))}
        printed = ""
        if program.before:
            printed = run(_filled(program.before, words), program.api, RESUMED, home, folder, env)
        printed += run(_filled(program.start, words), program.api, RESUMED, home, folder, env)
        checks.same(
            f"{name}: resumed, it knows what our session says", KNOWN, KNOWN if KNOWN in printed else printed[-1500:]
        )
        asked = [one.request for one in upstream.requests if one.request is not None and _is_task(one.request)]
        texts = [_results(request) for request in asked]
        said = " ".join(texts[-1]) if texts else ""
        wanted = [text for text in (BEFORE.strip(), "RESULT-TWO", "RESULT-THREE") if text not in said]
        checks.same(f"{name}: every result of our session is in its request", [], wanted)
        checks.same(f"{name}: none is made up", False, NO_RESULT in said)


def _filled(command: list[str], words: dict[str, str]) -> list[str]:
    return [word.format(**words, model="{model}", prompt="{prompt}") for word in command]


def _settings(name: str, upstream: Server) -> dict[str, bytes]:
    return {path: text.encode() for path, text in TABLE[name].files(upstream.url).items()}


def _is_task(request: il.Request) -> bool:
    return any("TASK-TWO" in message.text for message in request.context.messages)


def _results(request: il.Request) -> list[str]:
    return [message.text for message in request.context.messages if isinstance(message, il.ToolResultMessage)]


def continued(checks: Checks, name: str, upstream: Server) -> None:
    """A session of the program's own, read and continued in `interlingua chat` on another provider."""
    program, row = PROGRAMS[name], TABLE[name]
    with tempfile.TemporaryDirectory() as place:
        home, folder = Path(place, "home"), Path(place, "work")
        folder.mkdir()
        (folder / "notes.txt").write_text(BEFORE)
        for path, data in _settings(name, upstream).items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_bytes(data)
        upstream.clear()
        upstream.answer(Model(row, folder))
        printed = run(row.start, program.api, PROMPT, home, folder, row.env(upstream.url))
        files = sorted(home.glob(program.own), key=lambda path: path.stat().st_mtime)
        checks.same(f"{name}: it wrote a session", True, bool(files) or printed[-1500:])
        if not files:
            return
        conversation = list(il.read(files[-1]))[-1]
        calls = {call.id for m in conversation.messages if isinstance(m, il.AssistantMessage) for call in m.tool_calls}
        results = [m for m in conversation.messages if isinstance(m, il.ToolResultMessage)]
        answered = [result.tool_call_id in calls for result in results]
        checks.same(f"{name}: its session is read with both results", [True, True], answered)
        upstream.clear()
        upstream.answer(Model(row, folder))
        archived = interlingua(place, upstream, "archive", "add", str(files[-1]))
        found = json.loads(interlingua(place, upstream, "archive", "search", "--json", "quince") or "{}").get(
            "hits", []
        )
        checks.same(f"{name}: the archive finds it", True, bool(found) or archived[-1500:])
        if found:
            options = ["-m", "openai-chat/test-model", "--base-url", upstream.base_url("openai-completions")]
            printed = interlingua(place, upstream, "archive", "chat", found[0]["id"], RESUMED, *options)
            checks.same(
                f"{name}: its session goes on in `interlingua chat`",
                KNOWN,
                KNOWN if KNOWN in printed else printed[-1500:],
            )
            request = upstream.last.request
            given = _results(request) if request is not None else []
            checks.same(f"{name}: with every result in place", [result.text for result in results], given)


def interlingua(place: str, upstream: Server, *arguments: str) -> str:
    """What our command line printed."""
    env = {**os.environ, "INTERLINGUA_HOME": f"{place}/interlingua", "OPENAI_API_KEY": "key", "TERM": "dumb"}
    command = [str(Path(sys.executable).with_name("interlingua")), *arguments]
    done = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT, cwd=place
    )
    return done.stdout if done.returncode == 0 else done.stdout + done.stderr


def main() -> None:
    loopback_only()
    checks = Checks("sessions across programs")
    with Server(keep=10_000) as upstream:
        for name in [name for name in sys.argv[1:] if name in PROGRAMS] or list(PROGRAMS):
            resumed(checks, name, upstream)
            continued(checks, name, upstream)
    checks.finish()


if __name__ == "__main__":
    main()
