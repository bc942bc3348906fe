"""Who takes part: the package itself and its peers, each peer in an environment of its own, made from its lock file."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple

from conversation import WIRES

HERE = Path(__file__).parent
UV = Path(sys.executable).with_name("uv")
ANSWER_TIMEOUT = 300  # seconds
PROCESSORS = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


class Participant(NamedTuple):
    """Which wires it is measured on, and what makes it ready to call.

    `stream` rows end with a whole message; `raw` rows only go through the provider's events, so they are shown, but
    are no peer for the message.
    """

    name: str
    module: str
    ready: str
    request: tuple[str, ...] = ()
    stream: tuple[str, ...] = ()
    raw: tuple[str, ...] = ()

    @property
    def python(self) -> Path:
        return Path(sys.executable) if self is OURS else HERE / ".envs" / self.name / "bin" / "python"


OURS = Participant(
    "interlingua",
    "ours",
    "import interlingua",
    request=(*WIRES, "bedrock", "ollama"),
    stream=WIRES,
)
PEERS = (
    Participant(
        "anthropic",
        "peers.anthropic",
        "import anthropic; anthropic.Anthropic(api_key='none')",
        request=("anthropic",),
        stream=("anthropic",),
    ),
    Participant(
        "openai",
        "peers.openai",
        "import openai; openai.OpenAI(api_key='none').chat.completions",
        request=("openai", "responses"),
        stream=("openai", "responses"),
    ),
    Participant(
        "google-genai",
        "peers.google_genai",
        "from google import genai; genai.Client(api_key='none')",
        request=("gemini",),
        raw=("gemini",),
    ),
    Participant(
        "boto3",
        "peers.boto3",
        "import boto3; boto3.client('bedrock-runtime', region_name='us-east-1')",
        request=("bedrock",),
    ),
    Participant(
        "pydantic-ai",
        "peers.pydantic_ai",
        "from pydantic_ai.models.anthropic import AnthropicModel as M\n"
        "from pydantic_ai.providers.anthropic import AnthropicProvider as P\n"
        "M('m', provider=P(api_key='none'))",
        request=(*WIRES, "bedrock"),
        stream=WIRES,
    ),
    Participant(
        "litellm",
        "peers.litellm",
        "import litellm; litellm.acompletion",
        request=(*WIRES, "bedrock"),
        stream=WIRES,
        raw=("responses",),
    ),
)


def prepare(peer: Participant, lock: Path | None = None) -> None:
    """Makes the peer's environment from its lock file, unless it is there and the lock file has not changed."""
    lock, home = lock or HERE / "envs" / f"{peer.name}.lock", peer.python.parent.parent
    made = home / "made-from.lock"
    if made.exists() and made.read_bytes() == lock.read_bytes():
        return
    print(f"making the environment of {peer.name}", file=sys.stderr, flush=True)
    subprocess.run([UV, "venv", "--quiet", "--clear", "--python", sys.executable, home], check=True)
    install = [UV, "pip", "install", "--quiet", "--compile-bytecode", "--require-hashes", "--python", peer.python]
    subprocess.run([*install, "-r", lock], check=True)
    made.write_bytes(lock.read_bytes())


def relock() -> None:
    """Resolves all lock files anew, to the newest versions."""
    for source in sorted((HERE / "envs").glob("*.in")):
        compile = [UV, "pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes"]
        flags = ["--no-annotate", "--no-header", "--upgrade", "-o", source.with_suffix(".lock")]
        subprocess.run([*compile, *flags, source], check=True)


def version(participant: Participant) -> str:
    """The version that takes part, or "this tree" for the package itself."""
    if participant is OURS:
        return "this tree"
    name = {"pydantic-ai": "pydantic-ai-slim"}.get(participant.name, participant.name)
    code = f"import importlib.metadata as m; print(m.version({name!r}))"
    return subprocess.run([participant.python, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


def environment() -> dict[str, str]:
    """The environment of every measured process: no proxy, no download, no warnings."""
    inherited = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    return inherited | {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONWARNINGS": "ignore"}


def pin(which: int) -> None:
    """Keeps this process, and those that it starts from now on, on one processor: the first (0) or the last (-1).

    Otherwise the scheduler decides whether a caller sleeps while its server works on another processor, or the two take
    turns on one: the CPU time of a call then differs by half, whoever makes it.
    """
    if PROCESSORS:
        os.sched_setaffinity(0, {PROCESSORS[which]})


class Worker:
    """A process that answers tasks, one line of JSON each way. `source` is the `src` folder to import us from.

    A process that does not answer within `ANSWER_TIMEOUT` seconds is killed, and its task fails.
    """

    def __init__(self, python: str | Path, *arguments: str, source: Path | None = None) -> None:
        self._command = [str(python), *arguments]
        self._process = subprocess.Popen(
            self._command,
            cwd=HERE,
            env=environment() | ({"PYTHONPATH": str(source)} if source else {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def do(self, **task: Any) -> Any:
        assert self._process.stdin and self._process.stdout
        timer = threading.Timer(ANSWER_TIMEOUT, self._process.kill)
        timer.start()
        try:
            self._process.stdin.write(json.dumps(task) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        finally:
            timer.cancel()
        if not answer:
            again = f"echo '{json.dumps(task)}' | {' '.join(self._command)}"
            raise RuntimeError(f"no answer within {ANSWER_TIMEOUT} s; to reproduce, in {HERE.name}/: {again}")
        return json.loads(answer)

    def close(self) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait()
