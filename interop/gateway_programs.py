"""Coding agents as clients of the gateway: Codex, Gemini CLI, opencode and Claude Code, as their registries have them.

Each reads a file with its own tool, edits it, and is resumed in a second process, in front of all six upstream wires.
The model is a script: it calls the tools that the program offers and repeats what they returned: an answer shows what
arrived. All runs in a network namespace that has only loopback: a program that reaches for another host fails.

Run by `make interop`; `gateway_programs.py codex openai-completions` runs one cell of the table.
"""

import fcntl
import os
import re
import socket
import struct
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from serving import HERE, Checks

import interlingua as il
from interlingua.gateway import Alias, Exchange, Gateway, Listen, ProviderSettings, Settings, Target
from interlingua.gateway.replay import Replay, replay_gateway
from interlingua.gateway.service import Service
from interlingua.gateway.settings_file import RecordingSettings, ServeSettings
from interlingua.sessions import Session
from interlingua.testing import Server
from interlingua.testing.threads import LoopThread
from interlingua.values.messages import text_of

PROGRAMS = HERE / ".envs" / "gateway-programs" / "node_modules" / ".bin"
UPSTREAMS = (
    "openai-completions",
    "openai-responses",
    "anthropic-messages",
    "google-generative-ai",
    "bedrock-converse-stream",
    "ollama-chat",
)
RESPONSES = il.dialect("openai-responses")
TIMEOUT = 90.0  # seconds for one run of a program
PROMPT = "TASK-ONE: replace the fruit in notes.txt by a plum."
RESUMED = "TASK-TWO: which fruit was in notes.txt before?"
BEFORE, AFTER = "The fruit is: quince\n", "The fruit is: plum\n"


class Program(NamedTuple):
    """One program: how it is started and resumed, what it needs around it, and its tools for reading and editing."""

    start: list[str]
    resume: list[str]
    env: Callable[[str], Mapping[str, str]]  # of the gateway's address
    files: Callable[[str], Mapping[str, str]]  # below its home folder
    read: Callable[[Path], tuple[str, dict[str, Any]]]
    edit: Callable[[Path], tuple[str, dict[str, Any]]]


_CODEX = """
model_provider = "gateway"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[model_providers.gateway]
name = "gateway"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "GATEWAY_KEY"
"""
_OPENCODE = """{{"autoupdate": false, "share": "disabled", "provider": {{"gateway": {{
  "npm": "@ai-sdk/openai-compatible", "options": {{"baseURL": "{url}/v1", "apiKey": "client-key"}},
  "models": {{{models}}}}}}}}}
"""
_PATCH = f"*** Begin Patch\n*** Update File: notes.txt\n@@\n-{BEFORE}+{AFTER}*** End Patch\n"


def _opencode(url: str) -> str:
    models = ", ".join(f'"{name}": {{"limit": {{"context": 100000, "output": 4000}}}}' for name in UPSTREAMS)
    return _OPENCODE.format(url=url, models=models)


CODEX = ["codex", "exec", "--skip-git-repo-check"]
GEMINI = ["gemini", "--yolo", "--skip-trust", "--model", "{model}"]
CLAUDE = ["claude", "-p", "--model", "{model}", "--permission-mode", "acceptEdits", "--allowedTools", "Read,Edit,Bash"]
TABLE = {
    "codex": Program(
        start=[*CODEX, "--model", "{model}", "{prompt}"],
        resume=[*CODEX, "--model", "{model}", "resume", "--last", "{prompt}"],
        env=lambda url: {"GATEWAY_KEY": "client-key"},
        files=lambda url: {".codex/config.toml": _CODEX.format(url=url)},
        read=lambda folder: ("exec_command", {"cmd": "cat notes.txt"}),
        edit=lambda folder: ("exec_command", {"cmd": f"apply_patch <<'EOF'\n{_PATCH}EOF"}),
    ),
    "gemini": Program(
        start=[*GEMINI, "--prompt", "{prompt}"],
        resume=[*GEMINI, "--resume", "latest", "--prompt", "{prompt}"],
        env=lambda url: {"GEMINI_API_KEY": "client-key", "GOOGLE_GEMINI_BASE_URL": url},
        files=lambda url: {
            ".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}},'
            ' "privacy": {"usageStatisticsEnabled": false}, "general": {"disableAutoUpdate": true}}'
        },
        read=lambda folder: ("read_file", {"file_path": str(folder / "notes.txt")}),
        edit=lambda folder: (
            "replace",
            {
                "file_path": str(folder / "notes.txt"),
                "instruction": "Replace the fruit.",
                "old_string": BEFORE,
                "new_string": AFTER,
            },
        ),
    ),
    "opencode": Program(
        start=["opencode", "run", "--model", "gateway/{model}", "{prompt}"],
        resume=["opencode", "run", "--continue", "--model", "gateway/{model}", "{prompt}"],
        env=lambda url: {"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_AUTOUPDATE": "1"},
        files=lambda url: {".config/opencode/opencode.json": _opencode(url)},
        read=lambda folder: ("read", {"filePath": str(folder / "notes.txt")}),
        edit=lambda folder: (
            "edit",
            {"filePath": str(folder / "notes.txt"), "oldString": BEFORE, "newString": AFTER},
        ),
    ),
    "claude": Program(
        start=[*CLAUDE, "--", "{prompt}"],
        resume=[*CLAUDE, "--continue", "--", "{prompt}"],
        env=lambda url: {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_AUTH_TOKEN": "client-key",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        },
        files=lambda url: {},
        read=lambda folder: ("Read", {"file_path": str(folder / "notes.txt")}),
        edit=lambda folder: (
            "Edit",
            {"file_path": str(folder / "notes.txt"), "old_string": BEFORE, "new_string": AFTER},
        ),
    ),
}


class Model:
    """The script of the model, for one program in one folder."""

    def __init__(self, program: Program, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self.missing: set[str] = set()  # tools that it would call and was not offered

    def __call__(self, request: il.Request) -> Any:
        messages = request.context.messages
        tasks = [at for at, m in enumerate(messages) if isinstance(m, il.UserMessage) and "TASK-" in text_of(m.content)]
        offered = {tool.name for tool in request.context.tools or ()}
        if not tasks or not offered:
            return "A title"  # what programs ask beside the conversation
        results = [text_of(m.content) for m in messages if isinstance(m, il.ToolResultMessage)]
        fruits = re.findall(r"fruit is: (\w+)", " ".join(results))
        if "TASK-TWO" in text_of(messages[tasks[-1]].content):
            return f"There was a {fruits[0] if fruits else 'nothing'} before."
        step = sum(isinstance(m, il.ToolResultMessage) for m in messages[tasks[-1] :])
        if step >= 2:
            return f"The {fruits[0] if fruits else 'nothing'} is a plum now."
        name, arguments = (self._program.read, self._program.edit)[step](self._folder)
        if name not in offered:
            self.missing |= {name, *offered}
        call = il.ToolCall(id=f"call_{step}", name=name, arguments=arguments)
        return [il.TextBlock(text="One moment."), call]


def settings(upstream: Server) -> Settings:
    providers = [
        ProviderSettings(id=f"up-{api}", api=api, base_url=upstream.base_url(api), api_keys=("upstream-key",))
        for api in UPSTREAMS
    ]
    aliases = [Alias(name=api, targets=(Target(model=f"up-{api}/test-model"),), retries=0) for api in UPSTREAMS]
    return Settings(providers=tuple(providers), aliases=tuple(aliases), listen=Listen(port=0))


def run(command: list[str], model: str, prompt: str, home: Path, folder: Path, more: Mapping[str, str]) -> str:
    """What a program printed."""
    words = [word.format(model=model, prompt=prompt) for word in command]
    env = {"HOME": str(home), "PATH": f"{PROGRAMS}:{os.environ['PATH']}", "TERM": "dumb", "CI": "1", **more}
    with tempfile.TemporaryFile() as printed:
        try:
            subprocess.run(
                [PROGRAMS / words[0], *words[1:]],
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            printed.write(f"\n(ended after {TIMEOUT} s)".encode())
        printed.seek(0)
        return printed.read().decode(errors="replace")


def journey(checks: Checks, name: str, upstream: Server, api: str, url: str) -> None:
    """A task with a read and an edit, then a second process that goes on with the conversation."""
    program, what = TABLE[name], f"{name} in front of {api}"
    with tempfile.TemporaryDirectory() as place:
        home, folder = Path(place, "home"), Path(place, "work")
        folder.mkdir()
        notes = folder / "notes.txt"
        notes.write_text(BEFORE)
        for path, text in program.files(url).items():
            (home / path).parent.mkdir(parents=True, exist_ok=True)
            (home / path).write_text(text)
        upstream.clear()
        model = Model(program, folder)
        upstream.answer(model)
        first = run(program.start, api, PROMPT, home, folder, program.env(url))
        checks.same(f"{what}: the tools that the script calls are offered", set(), model.missing)
        told = "The quince is a plum now."
        checks.same(f"{what}: what was read reaches the model", told, told if told in first else first[-1500:])
        checks.same(f"{what}: the file is edited", AFTER, notes.read_text())
        second = run(program.resume, api, RESUMED, home, folder, program.env(url))
        told = "There was a quince before."
        checks.same(f"{what}: resumed, it knows the conversation", told, told if told in second else second[-1500:])


class Bodies:
    """What the clients sent, as it came, for the path that it came on."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, str]] = []

    async def observe(self, exchange: Exchange) -> None:
        if exchange.answer is not None:
            self.sent.append((exchange.body, exchange.answer.text))


def replayed(url: str, body: bytes) -> str:
    """The text that a gateway answers to the body of a Responses request."""
    request = urllib.request.Request(f"{url}/v1/responses", body, {"Content-Type": "application/json"})
    frames, decoder = RESPONSES.framing(), RESPONSES.StreamDecoder()
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as answer:
        events = [event for frame in frames.feed(answer.read()) for event in decoder.feed(frame)]
    return il.fold([*events, *decoder.close()]).text


def recorded(checks: Checks, upstream: Server) -> None:
    """A recorded run of Codex: one session, continued on another provider, and answered again offline."""
    thread, bodies = LoopThread("gateway"), Bodies()
    with tempfile.TemporaryDirectory() as home:
        serve = ServeSettings(gateway=settings(upstream), recording=RecordingSettings(enabled=True, home=home))
        service = Service(serve, Path(home) / "gateway")
        service.gateway.observers.append(bodies)
        thread.start(service.start())
        url = service.gateway.url
        journey(checks, "codex", upstream, "anthropic-messages", url)
        assert service.recorder is not None
        thread.run(service.recorder.flush())
        sessions = [path.stem for path in Path(home).rglob("sessions/*.jsonl")]
        checks.same("a recorded run of Codex is one session", 1, len(sessions))
        with Session.open(sessions[0], agent="gateway", home=home, read_only=True) as session:
            conversation = session.conversation()
        asked = il.UserMessage(content="TASK-TWO: once more, which fruit was there before?")
        context = conversation.request().context
        context = il.Context(system=context.system, messages=(*context.messages, asked), tools=context.tools)
        row = il.ModelDescriptor(
            id="test-model",
            provider="other",
            api="google-generative-ai",
            base_url=upstream.base_url("google-generative-ai"),
        )
        answer = il.sync.complete(row, context, api_key="none")
        checks.same("it is continued on another provider", "There was a quince before.", answer.text)
        upstream.clear()
        with Session.open(sessions[0], agent="gateway", home=home, read_only=True) as session:
            replay = replay_gateway(Replay([session]))
        thread.run(replay.start())
        told = [(text, replayed(replay.url, body)) for body, text in bodies.sent]
        checks.same(
            "it is answered again offline, the same requests", [one for one, _ in told], [two for _, two in told]
        )
        checks.same("no provider was asked", 0, len(upstream.requests))
        thread.run(replay.stop())
        thread.run(service.stop())
        thread.stop()


def loopback_only() -> None:
    """Goes on in a network namespace of its own, in which only the loopback device is up."""
    if os.environ.get("INTEROP_NAMESPACE") != "1":
        os.environ["INTEROP_NAMESPACE"] = "1"
        os.execvp("unshare", ["unshare", "--map-root-user", "--net", sys.executable, *sys.argv])
    with socket.socket() as probe:
        fcntl.ioctl(probe, 0x8914, struct.pack("16sh", b"lo", 0x1 | 0x40))  # SIOCSIFFLAGS: IFF_UP | IFF_RUNNING


def main() -> None:
    loopback_only()
    names = [name for name in sys.argv[1:] if name in TABLE] or list(TABLE)
    upstreams = [api for api in sys.argv[1:] if api in UPSTREAMS] or list(UPSTREAMS)
    checks = Checks("coding agents through the gateway")
    thread = LoopThread("gateway")
    with Server(strict=True, keep=10_000) as upstream:
        gateway = Gateway(settings(upstream))
        thread.start(gateway.start())
        for name in names:
            for api in upstreams:
                journey(checks, name, upstream, api, gateway.url)
        thread.run(gateway.stop())
        thread.stop()
        if "codex" in names:
            recorded(checks, upstream)
    checks.finish()


if __name__ == "__main__":
    main()
