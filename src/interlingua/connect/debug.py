"""The debug provider: deterministic offline responses from a script, a recording, or built-in behaviours.

A script is a list of replies, one per response. The current one is derived from the context (the number of responses in
it), so a run that is interrupted and resumed by another process continues where it was.
"""

import asyncio
import functools
import os
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from ..dialects.provider_errors import provider_error
from ..values import jsontext
from ..values.abort import Abort
from ..values.canonical import plain
from ..values.errors import Aborted, BadRequest, InterlinguaError, ProviderError, unknown
from ..values.folding import EventRecorder, emptied, parse_arguments, settle
from ..values.messages import (
    AssistantMessage,
    Block,
    Cost,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    Usage,
    UserMessage,
    blocks_of,
    text_of,
)
from ..values.regular import read_regular
from ..values.request import Context, ModelCost, ModelDescriptor, Request, StreamOptions, ToolSpec
from .connector import stream_arguments
from .stream import AttemptWatch, Batch, Stream, Timeouts

EMBEDDING = "embed-1"  # the model of `il.embed` that works offline
SCRIPT_VARIABLE = "INTERLINGUA_DEBUG_SCRIPT"


class Step(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One scripted response: thinking, then text, then calls; or an error, after the content before it.

    Text given in pieces streams in these pieces; `delay` is the seconds before each delta, `chunk` the default size in
    characters; calls with `interleaved` stream concurrently. `stop` is the provider's stop reason if it is not the
    natural one (`length`).
    """

    text: "str | tuple[str, ...] | None" = None
    thinking: "str | tuple[str, ...] | None" = None
    calls: tuple["ScriptedCall", ...] = ()
    error: str | None = None
    status: int = 0
    delay: float = 0.0
    chunk: int | None = None
    interleaved: bool = False
    stop: str | None = None
    usage: dict[str, int] | None = None

    @classmethod
    def of(cls, value: Any) -> "Step":
        """Builds a step from its JSON: a string is its text."""
        from msgspec import ValidationError, convert

        if isinstance(value, str):
            return cls(text=value)
        try:
            return convert(value, cls)
        except ValidationError as error:
            raise InterlinguaError(f"not a step of a debug script: {error}") from None


class ScriptedCall(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A call in a script; `text` are the arguments as the model would spell them, valid or not."""

    name: str
    arguments: dict[str, Any] = {}
    id: str | None = None
    text: str | None = None


Reply: TypeAlias = str | Step | AssistantMessage | ProviderError | Sequence[Block]
Script: TypeAlias = Sequence[Reply | Callable[[Request], Reply]] | Callable[[Request], Reply]

# --- the fixed habits -------------------------------------------------------------------------------------------------

_ACKNOWLEDGED = (
    "Understood; here is what reached me.",
    "Noted. This model repeats what it is told.",
    "Message received, loud and clear.",
    "Yes, I am here, and I am only an echo.",
    "Thank you. Nothing was sent anywhere.",
)
_THINKING_TEXTS = (
    "Let me look at what was asked. ",
    "First, the words themselves. ",
    "Then, what stands behind them. ",
    "There is no network here, so there is nothing to look up. ",
    "Whatever I answer must be the same each time. ",
    "That settles how to answer. ",
)


def last_user_text(context: Context) -> str:
    """The last user text: a string, or the first text of the blocks."""
    for message in reversed(context.messages):
        if isinstance(message, UserMessage):
            texts = [block.text for block in blocks_of(message.content) if isinstance(block, TextBlock)]
            return texts[0] if texts else ""
    return "(no message)"


def string_hash(text: str) -> int:
    """A signed 32-bit hash over UTF-16 units: h * 31 + unit."""
    units = text.encode("utf-16-le", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (value * 31 + int.from_bytes(units[at : at + 2], "little")) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value


def _dummy_echo(request: Request) -> Step:
    given = last_user_text(request.context)
    return Step(text=f'{_ACKNOWLEDGED[abs(string_hash(given)) % 5]}\n\nYou said: "{given}"')


def _sys_echo(request: Request) -> Step:
    context = request.context
    system = "(no system prompt)" if context.system is None else context.system_prompt.strip()
    tools = context.tools or ()
    listed = "\n".join(f"- {tool.name}: {tool.description or ''}".rstrip(": ") for tool in tools) or "(no tools)"
    return Step(text=f"System prompt:\n{system}\n\nTools ({len(tools)}):\n{listed}")


def _inspect(request: Request) -> Step:
    context = request.context
    tools = "(none)" if context.tools is None else ", ".join(tool.name for tool in context.tools)
    lines = (
        f"messages: {len(context.messages)}",
        f"last_user: {last_user_text(context)}",
        f"tools: {tools}",
        f"has_system_prompt: {'yes' if context.system is not None else 'no'}",
    )
    return Step(text="\n".join(f"[inspect] {line}" for line in lines))


def _thinking_stream(request: Request) -> Step:
    given = last_user_text(request.context)
    system = request.context.system_prompt[:80] if request.context.system is not None else "(none)"
    return Step(
        thinking=(*_THINKING_TEXTS, f'The user asked: "{given}". ', f"The system prompt begins: {system}"),
        text=("I have thought about it. ", f'You asked: "{given}". ', "That is all there is to say."),
    )


def _call_of(tool: ToolSpec, request: Request) -> ScriptedCall:
    """A call with the minimum of arguments that the tool's schema requires."""
    return ScriptedCall(name=tool.name, arguments=least(tool.input_schema, last_user_text(request.context)))


def least(schema: Any, text: str = "") -> Any:
    """The smallest value that a plain schema allows; strings are `text`."""
    schema = schema if isinstance(schema, dict) else {}
    choices = schema.get("enum")
    choices = choices if isinstance(choices, list) else []
    if "default" in schema or "const" in schema or choices:
        return schema.get("default", schema.get("const", (choices or [None])[0]))
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) and kind else kind
    if kind == "object" or "properties" in schema:
        properties = schema.get("properties") or {}
        required = schema.get("required")
        if not isinstance(properties, dict) or not isinstance(required, list):
            return {}
        return {name: least(properties.get(name), text) for name in required if isinstance(name, str)}
    return {"integer": 0, "number": 0, "boolean": False, "array": [], "null": None}.get(str(kind), text)


def _answered(request: Request) -> bool:
    return bool(request.context.messages) and not isinstance(request.context.messages[-1], UserMessage)


def _calls(request: Request, count: int, **how: Any) -> Step:
    tools = (request.context.tools or ())[:count]
    if _answered(request) or not tools:
        return Step(text="All calls are answered." if tools else "There are no tools to call.")
    return Step(calls=tuple(_call_of(tool, request) for tool in tools), **how)


Responder: TypeAlias = Callable[[Request], Step]

# The eight models that clawtools' users know, then ours.
ECHOES: dict[str, Responder] = {
    "dummy-echo-1": _dummy_echo,
    "sys-echo-1": _sys_echo,
    "parrot-1": lambda request: Step(text=last_user_text(request.context)),
    "silent-1": lambda request: Step(text="(silent)", usage={"input": 0}),
    "upper-parrot-1": lambda request: Step(text=last_user_text(request.context).upper()),
    "tagged-parrot-1": lambda request: Step(text=f"[relay] {last_user_text(request.context)}"),
    "inspect-echo-1": _inspect,
    "thinking-stream-1": _thinking_stream,
}
RESPONDERS: dict[str, Responder] = {
    **ECHOES,
    "echo": _dummy_echo,
    "tool-call-1": lambda request: _calls(request, 1),
    "parallel-tools-1": lambda request: _calls(request, 99),
    "interleaved-tools-1": lambda request: _calls(request, 99, interleaved=True, chunk=4),
    "bad-arguments-1": lambda request: (
        Step(text="I will not try again.")
        if _answered(request) or not request.context.tools
        else Step(calls=(ScriptedCall(name=request.context.tools[0].name, text='{"unfinished": '),))
    ),
    "length-1": lambda request: Step(text=f"{last_user_text(request.context)} and so", stop="length"),
    "slow-1": lambda request: Step(text=f"Slowly: {last_user_text(request.context)}", delay=0.2, chunk=4),
    "error-1": lambda request: Step(error="the debug provider was asked to be overloaded", status=529),
    "error-midstream-1": lambda request: Step(text="It began well, but", error="the debug provider broke off"),
}
_REASONING = frozenset({"thinking-stream-1"})
_FREE = ModelCost(input=0, output=0, cache_read=0, cache_write=0)


def _described(id: str, provider: str) -> ModelDescriptor:
    return ModelDescriptor(
        id=id,
        name=id,
        api=provider,
        provider=provider,
        base_url=f"local://{provider}",
        reasoning=id in _REASONING,
        input=("text",),
        cost=_FREE,
        context_window=100_000,
        max_tokens=16_000,
    )


class DebugConnector:
    """Responds without a network. `script` is for the model `script`, else the file in INTERLINGUA_DEBUG_SCRIPT.

    Other models: the behaviours above, `script:FILE` (JSON, a list of steps) and `replay:FILE` (the responses of a
    recorded conversation in any dialect).
    """

    def __init__(
        self, script: Script | None = None, *, provider: str = "debug", label: str = "Debug (offline)"
    ) -> None:
        self.id = f"builtin/{provider}"
        self.label = label
        self.provider = provider
        self.api = provider
        self.env_vars: tuple[str, ...] = ()
        self.models = [_described(id, provider) for id in (RESPONDERS if provider == "debug" else ECHOES)]
        self._script = script

    def stream(
        self,
        model: ModelDescriptor | Mapping[str, Any],
        context: Context | Mapping[str, Any],
        options: StreamOptions | Mapping[str, Any] | None = None,
    ) -> Stream:
        model, context, options = stream_arguments(model, context, options)
        wire_options, call = options.split()
        request = Request(model=model, context=context, options=wire_options)
        base = AssistantMessage(
            content=(), api=self.api, provider=self.provider, model=model.id, timestamp=int(time.time() * 1000)
        )
        source = _Playback(base, lambda: self._reply(request), request, call.signal, Timeouts.of(call.timeout))
        return Stream(source, base)

    def _reply(self, request: Request) -> Reply:
        kind, _, path = request.model.id.partition(":")
        if kind == "replay" and path:
            return _due(_recorded(path), request)
        if kind == "script":
            script = _written(path) if path else self._script or _written(os.environ.get(SCRIPT_VARIABLE, ""))
            return script(request) if callable(script) else _due(script, request)
        self.check_model(request.model.id)
        if request.model.id == EMBEDDING and self.provider == "debug":
            raise BadRequest(f"debug/{EMBEDDING} makes vectors, not answers; use il.embed", status=400)
        return RESPONDERS.get(request.model.id, _dummy_echo)(request)

    def check_model(self, id: str) -> None:
        """Raises `BadRequest` for an unknown id. Under another name than `debug` it is an echo, as in clawtools."""
        if self.provider != "debug" or id in RESPONDERS:
            return
        if id.partition(":")[0] not in ("script", "replay", EMBEDDING):
            names = (*(model.id for model in self.models), "script", "replay:FILE")
            raise BadRequest(unknown(f"{self.provider} model", id, names), status=404, code="model_not_found")


def names_file(id: str) -> bool:
    """Whether a model of the debug provider is a file on this machine: `script:FILE`, `replay:FILE`."""
    kind, _, path = id.partition(":")
    return kind in ("script", "replay") and bool(path)


def _due(script: Sequence[Any], request: Request) -> Reply:
    """Returns the current reply: the nth, if the context has n responses."""
    answers = sum(isinstance(message, AssistantMessage) for message in request.context.messages)
    if answers >= len(script):
        return Step(text="(the script has no more to say)")
    due = script[answers]
    reply: Reply = due(request) if callable(due) else due
    return reply


@functools.lru_cache(maxsize=16)
def _written(path: str) -> tuple[Step, ...]:
    if not path:
        raise InterlinguaError(f"no debug script; name one, as in debug/script:FILE, or set {SCRIPT_VARIABLE}")
    steps = jsontext.read(_file(path))
    if not isinstance(steps, list):
        raise InterlinguaError(f"{path} is not a debug script; use a JSON list of steps")
    return tuple(map(Step.of, steps))


@functools.lru_cache(maxsize=4)
def _recorded(path: str) -> tuple[AssistantMessage, ...]:
    from ..conversion import decode

    return tuple(m for m in decode(_file(path)).messages if isinstance(m, AssistantMessage))


def _file(path: str) -> bytes:
    try:
        return read_regular(Path(path).expanduser())
    except OSError as error:
        raise InterlinguaError(f"the debug provider cannot read {path}: {error.strerror}") from None


class _Playback:
    """A reply while it streams, delta by delta."""

    def __init__(
        self,
        base: AssistantMessage,
        reply: Callable[[], Reply],
        request: Request,
        signal: Abort | None,
        timeouts: Timeouts,
    ) -> None:
        self._record = EventRecorder(base)
        self._reply = reply
        self._request = request
        self._signal = signal
        self._timeouts = timeouts
        self._read = 0  # characters of the context
        self._watch: AttemptWatch | None = None
        self.failure: InterlinguaError | None = None
        self.losses: Any = ()

    async def batches(self) -> AsyncGenerator[Batch, None]:
        watch = self._watch = AttemptWatch(self._signal, self._timeouts)
        try:
            if watch.why is not None:
                raise watch.why
            reply = self._reply()
            step = reply if isinstance(reply, Step) else None
            self._read = _length(self._request.context)
            self._record.note(usage=_usage(self._read, (), step.usage if step is not None else None))
            if isinstance(reply, ProviderError):
                raise reply
            for batch in self._events(reply):
                if not batch and step is not None and step.delay:
                    await watch.during(asyncio.sleep(step.delay))
                if watch.why is not None:
                    raise watch.why
                if batch:
                    watch.pause()
                    yield batch
                    watch.resume()
            if step is not None and step.error is not None:
                raise provider_error(step.error, status=step.status)
        except InterlinguaError as failure:
            self.failure = failure
            self._record.fail(str(failure), aborted=isinstance(failure, Aborted))
            yield self._record.take()
        finally:
            watch.finish()

    def cut(self, why: str) -> Batch:
        if self._watch is not None:
            self._watch.end(Aborted(why))
        self._record.fail(why, aborted=True)
        return self._record.take()

    def _events(self, reply: Reply) -> Iterator[Batch]:
        """Yields the events in batches, each created on demand; an empty one before a delayed delta."""
        record = self._record
        if not isinstance(reply, Step):
            message = _message(reply, record.base, self._read)
            yield from _in_turn(record, blocks_of(message.content), size=24)
            record.end(message)
            yield record.take()
            return
        if reply.error is not None and reply.text is None and reply.thinking is None and not reply.calls:
            return
        blocks = _blocks(reply)
        if reply.interleaved:
            yield from _interleaved(record, blocks, reply.chunk or 8)
        else:
            yield from _in_turn(record, blocks, _given_pieces(reply), reply.chunk)
        if reply.error is None:
            record.note(usage=_usage(self._read, record.content, reply.usage))
            record.finish("length" if reply.stop == "length" else None if reply.stop is None else "stop", reply.stop)
            yield record.take()


def _message(reply: Any, base: AssistantMessage, read: int) -> AssistantMessage:
    if isinstance(reply, str):
        reply = (TextBlock(text=reply),)
    if not isinstance(reply, AssistantMessage):
        reply = AssistantMessage(content=tuple(reply))
    message: AssistantMessage = reply
    content = blocks_of(message.content)
    return replace(
        message,
        api=base.api,
        provider=base.provider,
        model=base.model,
        timestamp=base.timestamp,
        usage=message.usage or _usage(read, content, None),
        stop_reason=message.stop_reason or settle(None, content),
    )


def _blocks(step: Step) -> list[Block]:
    blocks: list[Block] = []
    if step.thinking is not None:
        blocks.append(ThinkingBlock(thinking="".join(step.thinking)))
    if step.text is not None:
        blocks.append(TextBlock(text="".join(step.text)))
    return blocks + [_call(call, number) for number, call in enumerate(step.calls)]


def _call(call: ScriptedCall, number: int) -> ToolCall:
    arguments, text, problem = parse_arguments(call.text) if call.text is not None else (call.arguments, None, None)
    return ToolCall(
        id=call.id or f"call_{call.name}_{number}",
        name=call.name,
        arguments=arguments,
        arguments_text=text,
        parse_error=problem,
    )


def _given_pieces(step: Step) -> dict[type, tuple[str, ...]]:
    fields = {ThinkingBlock: step.thinking, TextBlock: step.text}
    return {kind: pieces for kind, pieces in fields.items() if isinstance(pieces, tuple)}


def _in_turn(
    record: EventRecorder,
    blocks: Sequence[Block],
    given: Mapping[type, tuple[str, ...]] = {},
    size: int | None = None,
) -> Iterator[Batch]:
    """One block after the other. Nothing is recorded before it is emitted, so that a stop loses only the rest."""
    for key, block in enumerate(blocks):
        empty, text = emptied(block)
        record.open(key, empty)
        yield record.take()
        for piece in given.get(type(block)) or _cut(text, size):
            yield []
            record.delta(key, piece)
            yield record.take()
        record.close(key, block)
        yield record.take()


def _cut(text: str, size: int | None) -> list[str]:
    return [text[at : at + (size or len(text))] for at in range(0, len(text), size or len(text) or 1)]


def _interleaved(record: EventRecorder, blocks: list[Block], size: int) -> Iterator[Batch]:
    """All blocks at once, a piece of each in turn."""
    texts: dict[int, str] = {}
    for key, block in enumerate(blocks):
        if isinstance(block, ToolCall):
            record.open(key, replace(block, arguments={}, arguments_text=None))
            texts[key] = block.arguments_text or jsontext.compact(block.arguments)
        else:
            record.whole(key, block)
        yield record.take()
    for at in range(0, max(map(len, texts.values()), default=0), size):
        for key, text in texts.items():
            yield []
            record.delta(key, text[at : at + size])
            yield record.take()
    for key in texts:
        record.close(key, blocks[key])
        yield record.take()


def _usage(read: int, content: Sequence[Block], fields: Mapping[str, int] | None) -> Usage:
    """About four characters to a token, as the clawtools models count."""
    fields = fields or {}
    return Usage.of(
        input=fields["input"] if "input" in fields else -(-read // 4),
        output=fields["output"] if "output" in fields else -(-sum(len(_text(block)) for block in content) // 4),
        cache_read=fields.get("cacheRead", 0),
        cache_write=fields.get("cacheWrite", 0),
        cost=Cost(input=0, output=0, cache_read=0, cache_write=0, total=0),
    )


def _length(context: Context) -> int:
    return len(context.system_prompt) + len(jsontext.compact([plain(message) for message in context.messages]))


def _text(block: Block) -> str:
    if isinstance(block, ToolCall):
        return block.name + jsontext.compact(block.arguments)
    return block.thinking if isinstance(block, ThinkingBlock) else text_of((block,))
