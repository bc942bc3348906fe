"""The dialects: one module per wire format, one table of them all."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, cast

from ..values.errors import InterlinguaError, ProviderError
from ..values.events import StreamEvent
from ..values.losses import Encoded, Loss, SupportTable
from ..values.messages import AssistantMessage
from ..values.request import Conversation, Request
from .framing import Frame


class Framing(Protocol):
    """Bytes to frames, however the bytes are cut."""

    name: ClassVar[str]

    def feed(self, chunk: bytes, /) -> list[Frame]: ...
    def close(self) -> list[Frame]: ...


class Decoding(Protocol):
    """Frames to events. `close` gives the terminal event unless `feed` already did; later input is ignored."""

    failure: InterlinguaError | None

    def renaming(self, names: Mapping[str, str]) -> None: ...
    def feed(self, frame: Frame, /) -> list[StreamEvent]: ...
    def close(self, error: str | None = None, *, aborted: bool = False) -> list[StreamEvent]: ...


class Encoding(Protocol):
    """Events to bytes. `losses` is what the wire could not carry of the message so far."""

    @property
    def losses(self) -> Sequence[Loss]: ...
    def fail(self, error: InterlinguaError) -> bytes: ...
    def feed(self, event: StreamEvent, /) -> bytes: ...
    def close(self) -> bytes: ...


class Dialect(Protocol):
    """What a wire dialect offers. A module satisfies it; so does a Variant of one."""

    API: str
    FIELD_SUPPORT: SupportTable
    UNEVEN: tuple[str, ...]

    def decode_request(self, body: Any, *, model: Any = None, stream: bool | None = None) -> Request: ...
    def encode_request(self, request: Request, *, strict: bool = False) -> Encoded: ...
    def decode_response(
        self, body: Any, *, model: str | None = None, provider: str | None = None, timestamp: int | None = None
    ) -> AssistantMessage: ...
    def encode_response(self, message: AssistantMessage, *, request: Request | None = None) -> Encoded: ...
    def framing(self, content_type: str | None = None) -> Framing: ...
    @property
    def StreamDecoder(self) -> Any: ...
    @property
    def StreamEncoder(self) -> Any: ...
    def decode_error(self, status: int, body: Any, headers: Any = ...) -> ProviderError: ...
    def encode_error(self, error: InterlinguaError) -> tuple[int, Any]: ...
    def path(self, model: str, stream: bool) -> str: ...
    def decode(self, data: Any) -> Conversation: ...
    def encode(self, conversation: Conversation) -> Encoded: ...


# name -> "module" or "module:attribute" inside this package; loaded on first use.
WIRES: dict[str, str] = {
    "anthropic-messages": "anthropic",
    "openai-completions": "openai_chat",
    "openai-responses": "openai_responses",
    "azure-openai-responses": "openai_responses:AZURE",
    "openai-codex-responses": "openai_responses:CODEX",
    "google-generative-ai": "google",
    "google-vertex": "google:VERTEX",
    "google-gemini-cli": "google:GEMINI_CLI",
    "bedrock-converse-stream": "bedrock",
    "bedrock-invoke-anthropic": "anthropic:BEDROCK",
    "ollama-chat": "ollama.codec",
}

# Formats that hold conversations and make no calls: `decode` and `encode` alone.
FILES: dict[str, str] = {
    "transcript": "files.transcript",
    "clawtools": "files.clawtools",
    "openclaw": "files.openclaw",
    "attocode": "files.attocode",
    "llm-canvas": "files.llm_canvas",
    "claude-code": "files.claude_code",
    "codex-cli": "files.codex_cli",
    "gemini-cli": "files.gemini_cli",
    "chatgpt-export": "files.chatgpt_export",
    "inspect-ai": "files.inspect_ai",
    "openai-finetune": "files.openai_finetune",
    "sharegpt": "files.sharegpt",
    "vercel-ui": "files.vercel_ui",
}
DIALECTS: dict[str, str] = {**WIRES, **FILES}

_ADDED: dict[str, Any] = {}  # by plugins, for the whole process
_ELSEWHERE = ""


def added(name: str) -> Any | None:
    """The dialect that a plugin added under this name."""
    return _ADDED.get(name)


def add(name: str, dialect: Any) -> None:
    """Makes a dialect known under a name. It has at least `decode` and `encode`; with `sniff` it can be detected."""
    _ADDED[name] = dialect
    if DIALECTS.setdefault(name, _ELSEWHERE) == _ELSEWHERE:
        FILES[name] = _ELSEWHERE


def remove(name: str) -> None:
    """Takes back what `add` did; a built-in dialect that was covered counts again."""
    _ADDED.pop(name, None)
    if DIALECTS.get(name) == _ELSEWHERE:
        del DIALECTS[name], FILES[name]


def dialect(name: str) -> Dialect:
    """The dialect of this name: a module, or a Variant of one with the same names."""
    added_here = added(name)
    if added_here is not None:
        return cast(Dialect, added_here)
    where = DIALECTS.get(name)
    if where is None:
        raise InterlinguaError(f"no dialect is called {name!r}; there are: {', '.join(sorted(DIALECTS))}")
    module, _, attribute = where.partition(":")
    found = importlib.import_module(f".{module}", __name__)
    return getattr(found, attribute) if attribute else found
