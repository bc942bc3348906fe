"""`interlingua chat --acp`: an editor that speaks the Agent Client Protocol, line by line over standard streams."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("acp")

ENDLESS = 60.0  # seconds until a test is given up


class Editor:
    """A client of the protocol: requests by number, and what the agent sent meanwhile."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._count = 0
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self.updates: list[dict[str, Any]] = []
        self.asked: list[dict[str, Any]] = []
        self.answer = "once"
        self.on_update: Any = None
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            message = json.loads(line)
            if message.get("method") == "session/update":
                self.updates.append(message["params"]["update"])
                if self.on_update is not None:
                    self.on_update(message["params"]["update"])
            elif message.get("method") == "session/request_permission":
                self.asked.append(message["params"])
                outcome = {"outcome": "selected", "optionId": self.answer}
                if self.answer == "cancelled":
                    outcome = {"outcome": "cancelled"}
                self._send({"id": message["id"], "result": {"outcome": outcome}})
            else:
                self._waiting.pop(message["id"]).set_result(message)
        for future in self._waiting.values():
            future.set_exception(EOFError("the agent ended"))

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def notify(self, method: str, **params: Any) -> None:
        self._send({"method": method, "params": params})

    async def request(self, method: str, **params: Any) -> dict[str, Any]:
        self._count += 1
        future = self._waiting[self._count] = asyncio.get_running_loop().create_future()
        self._send({"id": self._count, "method": method, "params": params})
        found: dict[str, Any] = await asyncio.wait_for(future, ENDLESS)
        return found

    async def opened(self, cwd: Path) -> str:
        await self.request("initialize", protocolVersion=1, clientCapabilities={})
        made = await self.request("session/new", cwd=str(cwd), mcpServers=[])
        return str(made["result"]["sessionId"])

    async def prompt(self, session: str, text: str = "go", **more: Any) -> dict[str, Any]:
        content = [{"type": "text", "text": text}, *more.pop("blocks", [])]
        return await self.request("session/prompt", sessionId=session, prompt=content)

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(one["content"]["text"] for one in self.updates if one["sessionUpdate"] == kind)


@contextlib.asynccontextmanager
async def editor(folder: Path, script: list[Any], *options: str) -> AsyncIterator[Editor]:
    """An editor that has started the agent, with a model that follows a script."""
    place = folder / "script.json"
    place.write_text(json.dumps(script))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from interlingua.cli import main; main()", "chat", "--acp"),
        *("-m", f"debug/script:{place}", *options),
        env={**os.environ, "INTERLINGUA_HOME": str(folder / "home")},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None and process.stderr is not None
    try:
        yield Editor(process)
        process.stdin.close()
        errors = (await asyncio.wait_for(process.stderr.read(), ENDLESS)).decode()
        assert 0 == await asyncio.wait_for(process.wait(), ENDLESS), errors
        assert "Traceback" not in errors, errors
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"name": name, "arguments": arguments}]}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    place = tmp_path / "root"
    place.mkdir()
    (place / "a.txt").write_text("alpha")
    return place


async def test_a_prompt_is_answered_with_tools_and_text(tmp_path: Path, root: Path) -> None:
    """The editor sees each call with its kind and result, then the answer; reading asks nobody."""
    async with editor(tmp_path, [call("read", path="a.txt"), "It says alpha."]) as client:
        made = await client.request("initialize", protocolVersion=1, clientCapabilities={})
        assert made["result"]["agentCapabilities"]["loadSession"] and 1 == made["result"]["protocolVersion"]
        session = await client.opened(root)
        done = await client.prompt(session)
        assert "end_turn" == done["result"]["stopReason"]
        kinds = [one["sessionUpdate"] for one in client.updates if "tool" in one["sessionUpdate"]]
        assert "tool_call" == kinds[0] and "tool_call_update" == kinds[-1]
        first = next(one for one in client.updates if one["sessionUpdate"] == "tool_call")
        assert ("read", "read a.txt") == (first["kind"], first["title"])
        last = [one for one in client.updates if one["sessionUpdate"] == "tool_call_update"][-1]
        assert "completed" == last["status"] and "alpha" in json.dumps(last["content"])
        assert "It says alpha." == client.text() and [] == client.asked


@pytest.mark.parametrize("answer, written", [("once", True), ("always", True), ("no", False), ("cancelled", False)])
async def test_the_editors_user_decides_about_changes(tmp_path: Path, root: Path, answer: str, written: bool) -> None:
    """A call that writes is put to the user; only a yes runs it."""
    async with editor(tmp_path, [call("write", path="b.txt", content="beta"), "Done."]) as client:
        client.answer = answer
        session = await client.opened(root)
        assert "end_turn" == (await client.prompt(session))["result"]["stopReason"]
        (asked,) = client.asked
        assert "edit" == asked["toolCall"]["kind"]
        assert written == (root / "b.txt").exists()


async def test_a_mode_changes_what_is_asked(tmp_path: Path, root: Path) -> None:
    """`edit` writes without a question, an unknown mode is refused by name."""
    async with editor(tmp_path, [call("write", path="b.txt", content="beta"), "Done."]) as client:
        session = await client.opened(root)
        wrong = await client.request("session/set_mode", sessionId=session, modeId="wild")
        assert "unknown mode 'wild'" in wrong["error"]["message"]
        await client.request("session/set_mode", sessionId=session, modeId="edit")
        await client.prompt(session)
        assert [] == client.asked and "beta" == (root / "b.txt").read_text()


async def test_a_session_is_loaded_with_its_conversation(tmp_path: Path, root: Path) -> None:
    """Another process of the editor lists the session, loads it, and is shown what was said."""
    async with editor(tmp_path, [call("ls"), "One file."]) as client:
        session = await client.opened(root)
        await client.prompt(session, "what is here?")
    async with editor(tmp_path, ["First.", "Second.", "Go on."]) as client:
        await client.request("initialize", protocolVersion=1, clientCapabilities={})
        listed = await client.request("session/list", cwd=str(root))
        assert [session] == [one["sessionId"] for one in listed["result"]["sessions"]]
        loaded = await client.request("session/load", sessionId=session, cwd=str(root), mcpServers=[])
        assert "error" not in loaded
        assert "what is here?" == client.text("user_message_chunk") and "One file." == client.text()
        assert {"pending", "completed"} == {one["status"] for one in client.updates if "tool" in one["sessionUpdate"]}
        await client.prompt(session, "more")
        assert "One file.Go on." == client.text()


async def test_a_closed_session_is_gone_until_it_is_loaded(tmp_path: Path, root: Path) -> None:
    """What is announced is there: an editor closes a session, and loads it again."""
    async with editor(tmp_path, ["One.", "Two."]) as client:
        session = await client.opened(root)
        await client.prompt(session)
        assert "error" not in await client.request("session/close", sessionId=session)
        assert "no session" in (await client.prompt(session))["error"]["message"]
        assert "error" not in await client.request("session/load", sessionId=session, cwd=str(root), mcpServers=[])
        assert "end_turn" == (await client.prompt(session))["result"]["stopReason"]


async def test_a_prompt_is_cancelled(tmp_path: Path, root: Path) -> None:
    """What runs is stopped, the prompt ends as cancelled, and the session takes the next one."""
    async with editor(tmp_path, [call("exec", command="sleep 600"), "Again."], "--yes") as client:
        session = await client.opened(root)

        def stop(update: dict[str, Any]) -> None:
            if update["sessionUpdate"] == "tool_call":
                client.notify("session/cancel", sessionId=session)

        client.on_update = stop
        assert "cancelled" == (await client.prompt(session))["result"]["stopReason"]
        client.on_update = None
        assert "end_turn" == (await client.prompt(session))["result"]["stopReason"]


async def test_files_and_pictures_of_the_editor_reach_the_model(tmp_path: Path, root: Path) -> None:
    """Embedded files, links and images are part of the stored message."""
    blocks = [
        {"type": "resource", "resource": {"uri": f"file://{root}/a%20b.txt", "text": "inside"}},
        {"type": "resource_link", "name": "a.txt", "uri": f"file://{root}/a.txt"},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
    ]
    async with editor(tmp_path, ["Seen."]) as client:
        session = await client.opened(root)
        assert "end_turn" == (await client.prompt(session, "look", blocks=blocks))["result"]["stopReason"]
    (file,) = (tmp_path / "home").glob("agents/main/sessions/*.jsonl")
    stored = file.read_text()
    assert "inside" in stored and "a b.txt" in stored and "image/png" in stored and f"{root}/a.txt" in stored


async def test_wrong_requests_are_errors_and_the_agent_goes_on(tmp_path: Path, root: Path) -> None:
    """Unknown sessions, folders and methods, an empty prompt, a line that is no JSON: said, and survived."""
    async with editor(tmp_path, ["Fine."]) as client:
        await client.request("initialize", protocolVersion=1, clientCapabilities={})
        for method, params, text in (
            ("session/prompt", {"sessionId": "none", "prompt": [{"type": "text", "text": "x"}]}, "no session 'none'"),
            ("session/load", {"sessionId": "none", "cwd": str(root), "mcpServers": []}, "no session 'none'"),
            ("session/new", {"cwd": "relative", "mcpServers": []}, "not a folder"),
            ("session/new", {"cwd": str(root / "missing"), "mcpServers": []}, "not a folder"),
            ("session/nonsense", {}, "Method not found"),
        ):
            answer = await client.request(method, **params)
            assert text in answer["error"]["message"], (method, answer)
        broken = {"name": "broken", "command": "no-such-program-at-all", "args": [], "env": []}
        answer = await client.request("session/new", cwd=str(root), mcpServers=[broken])
        assert "no-such-program-at-all" in answer["error"]["message"]
        session = await client.opened(root)
        empty = await client.request("session/prompt", sessionId=session, prompt=[])
        assert "empty prompt" in empty["error"]["message"]
        assert "end_turn" == (await client.prompt(session))["result"]["stopReason"]
