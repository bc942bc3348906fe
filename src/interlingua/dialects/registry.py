"""Every wire and every file format by name: the built-in ones, loaded on first use, and those that plugins register."""

import functools
import importlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar, cast, get_args

from ..values.errors import FormatError, InterlinguaError
from ..values.spelling import unknown
from .wire import Dialect, Evidence, FileFormat, Shape, Wire

# name -> "module:attribute" inside this package.
_WIRES: dict[str, str] = {
    "anthropic-messages": "anthropic.wire:ANTHROPIC",
    "openai-completions": "openai_chat.wire:OPENAI_CHAT",
    "openai-responses": "openai_responses.wire:OPENAI_RESPONSES",
    "azure-openai-responses": "openai_responses.wire:AZURE",
    "openai-codex-responses": "openai_responses.wire:CODEX",
    "openai-responses-websocket": "openai_responses.wire:WEBSOCKET",
    "google-generative-ai": "google.wire:GOOGLE",
    "google-vertex": "google.wire:VERTEX",
    "google-gemini-cli": "google.wire:GEMINI_CLI",
    "google-interactions": "google_interactions.wire:GOOGLE_INTERACTIONS",
    "bedrock-converse-stream": "bedrock.wire:BEDROCK",
    "bedrock-invoke-anthropic": "anthropic.wire:BEDROCK_INVOKE",
    "vertex-anthropic": "anthropic.wire:VERTEX",
    "ollama-chat": "ollama.wire:OLLAMA",
    "cohere-chat": "cohere.wire:COHERE",
}
_FORMATS: dict[str, str] = {
    "transcript": "files.transcript:FORMAT",
    "clawtools": "files.clawtools:FORMAT",
    "openclaw": "files.openclaw:FORMAT",
    "attocode": "files.attocode:FORMAT",
    "llm-canvas": "files.llm_canvas:FORMAT",
    "claude-code": "files.claude_code:FORMAT",
    "codex-cli": "files.codex_cli:FORMAT",
    "gemini-cli": "files.gemini_cli:FORMAT",
    "gemini-stream": "files.gemini_stream:FORMAT",
    "codex-exec-stream": "files.codex_exec:FORMAT",
    "chatgpt-export": "files.chatgpt_export:FORMAT",
    "inspect-ai": "files.inspect_ai:FORMAT",
    "openai-finetune": "files.openai_finetune:FORMAT",
    "sharegpt": "files.sharegpt:FORMAT",
    "vercel-ui": "files.vercel_ui:FORMAT",
    "swe-agent": "files.swe_agent:FORMAT",
    "atif": "files.atif:FORMAT",
    "continue": "files.continue_dev:FORMAT",
    "kimi": "files.kimi:FORMAT",
    "cline": "files.cline:FORMAT",
    "opencode": "files.opencode:FORMAT",
    "antigravity": "files.antigravity:FORMAT",
    "aider": "files.aider:FORMAT",
    "goose": "files.goose:FORMAT",
    "grok": "files.grok:FORMAT",
    "openhands": "files.openhands:FORMAT",
    "kiro": "files.kiro:FORMAT",
    "droid": "files.droid:FORMAT",
    "amp": "files.amp:FORMAT",
    "qwen-code": "files.qwen_code:FORMAT",
    "claude-web-export": "files.claude_web_export:FORMAT",
    "deepseek-export": "files.deepseek_export:FORMAT",
    "grok-export": "files.grok_export:FORMAT",
    "aistudio": "files.aistudio:FORMAT",
    "open-webui": "files.open_webui:FORMAT",
    "librechat": "files.librechat:FORMAT",
    "cursor": "files.cursor:FORMAT",
    "copilot-chat": "files.copilot_chat:FORMAT",
    "copilot-cli": "files.copilot_cli:FORMAT",
    "specstory": "files.specstory:FORMAT",
    "openai-batch": "files.openai_batch:FORMAT",
    "anthropic-batch": "files.anthropic_batch:FORMAT",
    "litellm-log": "files.litellm_log:FORMAT",
    "langfuse": "files.langfuse:FORMAT",
    "otel": "files.otel:FORMAT",
    "alpaca": "files.alpaca:FORMAT",
    "llama-factory": "files.llama_factory:FORMAT",
    "llamafactory-messages": "files.llamafactory_messages:FORMAT",
    "trl": "files.trl:FORMAT",
    "bedrock-finetune": "files.bedrock_finetune:FORMAT",
    "langchain": "files.langchain:FORMAT",
    "openai-assistants": "files.openai_assistants:FORMAT",
    "lm-studio": "files.lm_studio:FORMAT",
    "silly-tavern": "files.silly_tavern:FORMAT",
    "chatbot-ui": "files.chatbot_ui:FORMAT",
    "chat-arena": "files.chat_arena:FORMAT",
    "oasst": "files.oasst:FORMAT",
    "pydantic-ai": "files.pydantic_ai:FORMAT",
    "cloud-batch": "files.cloud_batch:FORMAT",
    "next-chat": "files.next_chat:FORMAT",
    "typing-mind": "files.typing_mind:FORMAT",
    "chatbox": "files.chatbox:FORMAT",
    "lobe-chat": "files.lobe_chat:FORMAT",
    "qodo": "files.qodo:FORMAT",
    "hugging-chat": "files.hugging_chat:FORMAT",
    "le-chat": "files.le_chat:FORMAT",
    "gptme": "files.gptme:FORMAT",
    "hermes": "files.hermes:FORMAT",
    "zed": "files.zed:FORMAT",
    "gemini-apps": "files.gemini_apps:FORMAT",
    "llm-logs": "files.llm_logs:FORMAT",
    "iflow": "files.iflow:FORMAT",
    "agents-sdk": "files.agents_sdk:FORMAT",
    "amazon-q": "files.amazon_q:FORMAT",
}
_BUILT_IN = _WIRES | _FORMATS
# Aliases: names of providers.
_ALIASES: dict[str, str] = {
    "anthropic": "anthropic-messages",
    "claude": "anthropic-messages",
    "openai": "openai-completions",
    "openai-chat": "openai-completions",
    "responses": "openai-responses",
    "azure": "azure-openai-responses",
    "google": "google-generative-ai",
    "gemini": "google-generative-ai",
    "interactions": "google-interactions",
    "google-antigravity": "google-gemini-cli",
    "vertex": "google-vertex",
    "bedrock": "bedrock-converse-stream",
    "amazon-bedrock": "bedrock-converse-stream",
    "ollama": "ollama-chat",
    "cohere": "cohere-chat",
}
DEFAULT_WIRE = "anthropic-messages"  # for views of a conversation without a wire
_loaded: dict[str, Wire | FileFormat] = {}
_registered: dict[str, Wire | FileFormat] = {}  # by plugins, for the whole process


def register(value: Wire | FileFormat) -> None:
    """Registers a wire or a file format under its name; replaces one with the same name."""
    _registered[value.name] = value
    ordered.cache_clear()


def unregister(name: str) -> None:
    """Undoes `register`; a built-in with the same name is visible again."""
    _registered.pop(name, None)
    ordered.cache_clear()


def registered(name: str) -> Wire | FileFormat | None:
    """What a plugin registered under this name."""
    return _registered.get(name)


def canonical(name: str) -> str:
    """The dialect name of an alias (`openai`, `anthropic`, `gemini`); any other name unchanged."""
    if not isinstance(name, str):
        raise FormatError(f"a dialect must be a name, such as 'ollama-chat', not {type(name).__name__}", "dialect")
    if name in _BUILT_IN or name in _registered:
        return name
    own = (wire.api for wire in _registered.values() if isinstance(wire, Wire) and name in wire.aliases)
    return next(own, _ALIASES.get(name, name))


def aliases() -> dict[str, str]:
    """Every alias and its dialect name."""
    own = {alias: one.api for one in _registered.values() if isinstance(one, Wire) for alias in one.aliases}
    return _ALIASES | own


def _find(name: str) -> Wire | FileFormat:
    found = _registered.get(name) or _loaded.get(name)
    if found is None:
        module, _, attribute = _BUILT_IN[name].partition(":")
        found = _loaded[name] = getattr(importlib.import_module(f".{module}", __package__), attribute)
    return found


_Value = TypeVar("_Value", bound=Wire | FileFormat)


class Registry(Mapping[str, _Value]):
    """The wires, the file formats, or both, by name. A value is imported when it is first read."""

    def __init__(self, kind: str, built_in: Mapping[str, str], types: tuple[type, ...]) -> None:
        self._kind = kind
        self._built_in = built_in
        self._types = types

    def __contains__(self, name: object) -> bool:
        covering = _registered.get(name) if isinstance(name, str) else None
        return name in self._built_in if covering is None else isinstance(covering, self._types)

    def __iter__(self) -> Iterator[str]:
        return (name for name in dict.fromkeys((*self._built_in, *_registered)) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> _Value:
        if name not in self:
            raise UnknownName(unknown(self._kind, str(name), self))
        return cast(_Value, _find(name))

    def get(self, name: str, default: None = None) -> _Value | None:  # type: ignore[override]
        """The value, or None; without a search for similar names."""
        found = _registered.get(name) or _loaded.get(name)  # the usual case, in one step
        if isinstance(found, self._types):
            return found  # type: ignore[return-value]  # `cast` takes as long as the rest
        return cast(_Value, _find(name)) if name in self else default

    def __repr__(self) -> str:
        return f"<{len(self)} {self._kind}s: {', '.join(self)}>"


class UnknownName(InterlinguaError, KeyError):
    """No wire or file format has this name."""

    __str__ = InterlinguaError.__str__


WIRES: Registry[Wire] = Registry("wire", _WIRES, (Wire,))
FORMATS: Registry[FileFormat] = Registry("file format", _FORMATS, (FileFormat,))
DIALECTS: Registry[Wire | FileFormat] = Registry("dialect", _BUILT_IN, (Wire, FileFormat))


class Order(NamedTuple):
    """The order of detection, most specific first; cached until something is registered."""

    formats: tuple[FileFormat, ...]
    evidence: Mapping[str, tuple[tuple[str, Evidence], ...]]  # by shape, with the name of the wire or format


@functools.cache  # detection runs for each row of a file
def ordered() -> Order:
    """The formats and the tests of each shape, by rank."""
    formats = tuple(sorted(FORMATS.values(), key=lambda form: form.rank))
    tests = [(wire.api, one) for wire in WIRES.values() if wire.is_detected for one in wire.evidence]
    tests += [(form.name, one) for form in FORMATS.values() for one in form.evidence]
    tests.sort(key=lambda pair: pair[1].rank)
    return Order(formats, {shape: tuple(t for t in tests if t[1].shape == shape) for shape in get_args(Shape)})


def wire(name: str) -> Wire:
    """The wire of this name: codec, limits, HTTP facts, detection."""
    return WIRES[canonical(name)]


def dialect(name: str) -> Dialect:
    """The codec of this name: a module, or an object with the same names."""
    codec: Dialect = DIALECTS[canonical(name)].codec
    return codec


def as_value(name: str, codec: Any) -> Wire | FileFormat:
    """A wire or file format unchanged; a module or object with `decode` and `encode` as a file format.

    It may also have `detect` (or `sniff`), `split` and `LINES`.
    """
    if isinstance(codec, Wire | FileFormat):
        return codec
    return FileFormat(
        name=name,
        codec=codec,
        detect=getattr(codec, "detect", None) or getattr(codec, "sniff", None),
        split=getattr(codec, "split", None),
        lines=bool(getattr(codec, "LINES", False)),
    )
