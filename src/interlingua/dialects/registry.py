"""Every wire and every file format by name: the built-in ones, loaded on first use, and those that plugins register."""

import functools
import importlib
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeVar, cast, get_args

from msgspec.structs import replace

from ..values.errors import FormatError, InterlinguaError, unknown
from ..values.request import ModelDescriptor
from .limits import TargetLimits, compat_limits
from .wire import AWS, SSE, Dialect, Evidence, FileFormat, Shape, Wire

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
    "langsmith": "files.langsmith:FORMAT",
    "promptfoo": "files.promptfoo:FORMAT",
    "tau-bench": "files.tau_bench:FORMAT",
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
    "vibe": "files.vibe:FORMAT",
    "adk": "files.adk:FORMAT",
    "text-generation-webui": "files.text_generation_webui:FORMAT",
    "semantic-kernel": "files.semantic_kernel:FORMAT",
    "llama-index": "files.llama_index:FORMAT",
    "autogen": "files.autogen:FORMAT",
    "smolagents": "files.smolagents:FORMAT",
    "dspy": "files.dspy:FORMAT",
    "haystack": "files.haystack:FORMAT",
    "ollama-app": "files.ollama_app:FORMAT",
    "anything-llm": "files.anything_llm:FORMAT",
    "big-agi": "files.big_agi:FORMAT",
    "cherry-studio": "files.cherry_studio:FORMAT",
    "agno": "files.agno:FORMAT",
    "letta": "files.letta:FORMAT",
    "jan": "files.jan:FORMAT",
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
        found = self.get(name)
        if found is None:
            raise UnknownName(unknown(self._kind, str(name), self))
        return found

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


class DetectionOrder(NamedTuple):
    """The order of detection, most specific first; cached until something is registered."""

    formats: tuple[FileFormat, ...]
    evidence: Mapping[str, tuple[tuple[str, Evidence], ...]]  # by shape, with the name of the wire or format


@functools.cache  # detection runs for each row of a file
def ordered() -> DetectionOrder:
    """The formats and the tests of each shape, by rank."""
    formats = tuple(sorted(FORMATS.values(), key=lambda form: form.rank))
    tests = [(wire.api, one) for wire in WIRES.values() if wire.is_detected for one in wire.evidence]
    tests += [(form.name, one) for form in FORMATS.values() for one in form.evidence]
    tests.sort(key=lambda pair: pair[1].rank)
    return DetectionOrder(formats, {shape: tuple(t for t in tests if t[1].shape == shape) for shape in get_args(Shape)})


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


# --- families and limits of models ------------------------------------------------------------------------------------
# Models of one family can verify each other's signatures: another Claude verifies what one signed, on any provider.

CLAUDE = "claude"
MISTRAL = r"mi[sx]tral|codestral|pixtral|devstral|magistral|ministral"

# The first pattern that matches a model id gives its family.
FAMILIES: tuple[tuple[str, str], ...] = (
    (r"claude", CLAUDE),
    (r"gemini", "gemini"),
    (r"gpt|codex|(?:^|[/.])o[134](?:-|$)", "openai"),
    (r"deepseek", "deepseek"),
    (r"qwen|qwq", "qwen"),
    (MISTRAL, "mistral"),
    (r"grok", "grok"),
    (r"kimi|moonshot", "kimi"),
    (r"glm", "glm"),
    (r"minimax", "minimax"),
    (r"nova", "nova"),
    (r"llama", "llama"),
)


def family(model: str | None, api: str | None) -> str | None:
    """The family of a model, if it can be determined: by its id, else by the vendor of the wire."""
    return (_family_of(model) if model else None) or vendor(api) or model or None


@functools.cache
def _family_of(model: str) -> str | None:
    return next((name for pattern, name in FAMILIES if re.search(pattern, model, re.IGNORECASE)), None)


def vendor(api: str | None) -> str | None:
    """The family of the models of a wire, if there is only one."""
    wire = WIRES.get(api or "")
    return wire.vendor if wire is not None else None


def owner(api: str | None) -> str | None:
    """The key of a wire in `extra`: the wire that it is a variant of, or its own name."""
    wire = WIRES.get(api or "")
    return wire.base if wire is not None else api


def limits_of(target: ModelDescriptor) -> TargetLimits:
    """The limits of a target: its wire's, refined by the model and by its `compat`."""
    wire = WIRES.get(target.api)
    if wire is not None:
        return wire.limits_for(target)
    return replace(TargetLimits(api=target.api), **compat_limits(target.compat or {}))


# --- request paths and frames -----------------------------------------------------------------------------------------
# By the facts in `Wire.http`.


class PathRoute(NamedTuple):
    """The route of a path. `model` and `stream` are None if the body decides; `api` is empty if no wire matches."""

    api: str
    listing: bool = False
    known: bool = True
    model: str | None = None
    stream: bool | None = None


def route(raw_path: str, headers: Mapping[str, str] | None = None) -> PathRoute:
    """The route of a path: by an api name as its first segment, else by its end.

    Several wires may match. The longest match wins, then the lowest rank; for a list of models, first a wire whose own
    headers, or the one with its key, are present.
    """
    first, _, rest = raw_path.lstrip("/").partition("/")
    if first in WIRES:
        found = _call(WIRES[first], f"/{rest}")
        if found is not None:
            return found[1]
        return PathRoute(first, listing=True) if _lists(WIRES[first], f"/{rest}") else PathRoute(first, known=False)
    calls = [(found[0], wire.http.route_rank, found[1]) for wire in WIRES.values() if (found := _call(wire, raw_path))]
    if calls:
        return min(calls, key=lambda call: call[:2])[2]
    lists = [(_listing_rank(wire, raw_path, headers or {}), wire) for wire in WIRES.values() if _lists(wire, raw_path)]
    return PathRoute(min(lists, key=lambda pair: pair[0])[1].api, listing=True) if lists else PathRoute("", known=False)


def _call(wire: Wire, path: str) -> tuple[int, PathRoute] | None:
    """The index in the path where the wire's route begins, and the route."""
    http = wire.http
    asked = re.search(f"{http.route}/?$", path)
    if asked is None:
        return None
    if http.streaming is None:
        return asked.start(), PathRoute(wire.api)
    name, verb = asked.groups()
    return asked.start(), PathRoute(
        wire.api, model=http.model_in(name) if name else None, stream=verb == http.streaming
    )


def _lists(wire: Wire, path: str) -> bool:
    return re.search(f"{wire.http.models_route}/?$", path) is not None


def _listing_rank(wire: Wire, path: str, headers: Mapping[str, str]) -> tuple[int, int, int]:
    http = wire.http
    own = [name in headers for name in http.headers]  # Anthropic's and OpenAI's lists have the same path
    if not own and http.auth in headers:  # so has Google's, which is below /v1 as well as /v1beta
        own = [True]
    matched = re.search(f"(?:{re.escape(http.base)})?{http.models_route}/?$", path)
    return (1 if not own else 0 if all(own) else 2), matched.start() if matched else 0, http.route_rank


def cut_frames(data: bytes, content_type: str) -> Iterator[bytes]:
    """Splits the bytes of a stream encoder into frames."""
    if content_type == AWS:
        at = 0
        while at < len(data):
            length = int.from_bytes(data[at : at + 4])
            yield data[at : at + length]
            at += length
    else:
        border = b"\n\n" if content_type == SSE else b"\n"
        for frame in data.split(border)[:-1]:
            yield frame + border
