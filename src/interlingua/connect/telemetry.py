"""OpenTelemetry spans and metrics, following the GenAI conventions. Off until `enable` is called; no content by
default.

Requires the extra `otel`. One client span per call, with its tokens; histograms of tokens, of the duration and of the
time to the first chunk. Agent runs and tool calls have spans, too, around theirs.
opentelemetry.io/docs/specs/semconv/gen-ai
"""

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Any

from .._version import __version__
from ..dialects import WIRES
from ..values.errors import InterlinguaError, ProviderError
from ..values.jsontext import compact
from ..values.messages import (
    AgentMessage,
    AssistantMessage,
    AudioBlock,
    Block,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    Usage,
    text_of,
)
from ..values.request import ModelDescriptor, Request
from .providers import PROVIDERS
from .stream import EventSource, StreamObserver

_OPTIONS = ("max_tokens", "temperature", "top_p", "top_k", "seed")

_telemetry: "_Telemetry | None" = None


def enable(*, content: bool = False, tracer_provider: Any = None, meter_provider: Any = None) -> None:
    """Creates a span and metrics for every call. `content` adds prompts and responses to the spans."""
    global _telemetry
    _telemetry = _Telemetry(content, tracer_provider, meter_provider)


def disable() -> None:
    """Disables telemetry."""
    global _telemetry
    _telemetry = None


def is_enabled() -> bool:
    """Whether telemetry is on."""
    return _telemetry is not None


def has_provider() -> bool:
    """Whether the process has a global tracer provider: without one, OpenTelemetry drops every span."""
    from opentelemetry import trace

    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def observer_of(source: EventSource, request: Request) -> StreamObserver | None:
    """Returns the observer of a call; None if telemetry is off."""
    return None if _telemetry is None else _Observed(_telemetry, source, request)


def record(
    model: ModelDescriptor,
    request: Request,
    message: AssistantMessage | None,
    failure: InterlinguaError | None,
    *,
    started: float,
    first: float | None,
    finished: float,
) -> None:
    """Creates the span and metrics of one ended call, if telemetry is on. Times are seconds since 1970."""
    telemetry = _telemetry
    if telemetry is None:
        return
    about = _about(model)
    span = telemetry.tracer.start_span(
        f"chat {model.id}",
        kind=telemetry.kind,
        attributes={**about, **_given(request)},
        start_time=int(started * 1e9),
    )
    if first is not None:
        telemetry.first.record(first - started, about)
    telemetry.finish(span, about, request, message, failure, finished - started, end_time=int(finished * 1e9))


# --- agents and tools -------------------------------------------------------------------------------------------------


class RunSpan:
    """The span of an agent run or a tool call; inner spans are its children."""

    def __init__(self, telemetry: "_Telemetry", span: Any) -> None:
        self._telemetry = telemetry
        self._span = span

    def fail(self, kind: str) -> None:
        self._span.set_status(self._telemetry.failed)
        self._span.set_attribute("error.type", kind)

    def set(self, **attributes: Any) -> None:
        """Sets `gen_ai.…` attributes; a double underscore means a dot."""
        named = {f"gen_ai.{name.replace('__', '.')}": value for name, value in attributes.items()}
        self._span.set_attributes({name: value for name, value in named.items() if value is not None})

    def set_content(self, **contents: Any) -> None:
        """Sets attributes with message content, if that is enabled: messages, or JSON."""
        if self._telemetry.content:
            self.set(**{name: written(value) for name, value in contents.items()})

    def set_usage(self, usage: Usage) -> None:
        """Sets the total usage of the inner calls, under a separate name, so that it is not counted twice."""
        counts = {name.replace("usage", "aggregated_usage", 1): count for name, count in _usage(usage).items()}
        self._span.set_attributes(counts)


@contextlib.contextmanager
def agent_span(model: ModelDescriptor, conversation: str | None) -> Iterator[RunSpan | None]:
    """A span around the run of an agent; None if telemetry is off."""
    about = {"gen_ai.provider.name": _system(model), "gen_ai.request.model": model.id}
    with _around("invoke_agent", "invoke_agent", {**about, "gen_ai.conversation.id": conversation}) as span:
        yield span


@contextlib.contextmanager
def tool_span(name: str, call_id: str, description: str | None) -> Iterator[RunSpan | None]:
    """A span around a call of a tool; None if telemetry is off."""
    about = {"name": name, "call.id": call_id, "description": description, "type": "function"}
    with _around("execute_tool", f"execute_tool {name}", {f"gen_ai.tool.{k}": v for k, v in about.items()}) as span:
        yield span


@contextlib.contextmanager
def _around(operation: str, name: str, attributes: dict[str, str | None]) -> Iterator[RunSpan | None]:
    telemetry = _telemetry
    if telemetry is None:
        yield None
        return
    given = {key: value for key, value in attributes.items() if value is not None}
    given["gen_ai.operation.name"] = operation
    # An exception's text may quote message content, so it is not recorded.
    with telemetry.tracer.start_as_current_span(name, attributes=given, record_exception=False) as span:
        yield RunSpan(telemetry, span)


# --- calls of models --------------------------------------------------------------------------------------------------


class _Telemetry:
    """The instruments."""

    def __init__(self, content: bool, tracer_provider: Any, meter_provider: Any) -> None:
        try:
            from opentelemetry import metrics, trace
        except ImportError:
            raise InterlinguaError('telemetry needs OpenTelemetry: pip install "interlingua[otel]"') from None
        self.content = content
        self.kind = trace.SpanKind.CLIENT
        self.failed = trace.Status(trace.StatusCode.ERROR)
        self.tracer = trace.get_tracer("interlingua", __version__, tracer_provider)
        meter = metrics.get_meter("interlingua", __version__, meter_provider)
        self.tokens = meter.create_histogram("gen_ai.client.token.usage", "{token}", "Tokens of a call")
        self.duration = meter.create_histogram("gen_ai.client.operation.duration", "s", "Duration of a call")
        self.first = meter.create_histogram(
            "gen_ai.client.operation.time_to_first_chunk", "s", "Time to the first chunk"
        )

    def finish(
        self,
        span: Any,
        about: dict[str, str],
        request: Request,
        message: AssistantMessage | None,
        failure: InterlinguaError | None,
        seconds: float,
        end_time: int | None = None,
    ) -> None:
        if failure is not None:
            # opentelemetry.io/docs/specs/semconv/general/recording-errors: `error.type` on the span and on the metrics,
            # of low cardinality.
            about = {**about, "error.type": _kind(failure)}
            span.set_status(self.failed)
            span.set_attribute("error.type", about["error.type"])
        usage = message.usage if message is not None else None
        if message is not None:
            span.set_attributes(_answer(message))
            if self.content:
                span.set_attributes(_content(request, message))
        if usage is not None:
            spent = (("input", usage.input + usage.cache_read + usage.cache_write), ("output", usage.output))
            for kind, count in spent:
                self.tokens.record(count, {**about, "gen_ai.token.type": kind})
        self.duration.record(seconds, about)
        span.end(end_time)


class _Observed:
    """One call, from the first look at its stream to its end."""

    def __init__(self, telemetry: _Telemetry, source: EventSource, request: Request) -> None:
        self._telemetry = telemetry
        self._source = source
        self._request = request
        self._began = time.perf_counter()
        model = request.model
        self._span = telemetry.tracer.start_span(
            f"chat {model.id}", kind=telemetry.kind, attributes={**self._about(), **_given(request)}
        )

    def _about(self) -> dict[str, str]:
        """The provider and model of the call, as known now: aliases are resolved, and fallbacks count."""
        return _about(getattr(self._source, "model", self._request.model))

    def began(self) -> None:
        self._telemetry.first.record(time.perf_counter() - self._began, self._about())

    def ended(self, message: AssistantMessage, failure: InterlinguaError | None) -> None:
        about = self._about()
        # The name has the model that answered, which an alias or a fallback decides after the span has begun.
        self._span.update_name(f"chat {about['gen_ai.request.model']}")
        self._span.set_attributes(about)
        seconds = time.perf_counter() - self._began
        self._telemetry.finish(self._span, about, self._request, message, failure, seconds)


def _about(model: ModelDescriptor) -> dict[str, str]:
    return {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _system(model),
        "gen_ai.request.model": model.id,
    }


def _given(request: Request) -> dict[str, Any]:
    options = {f"gen_ai.request.{name}": getattr(request.options, name) for name in _OPTIONS}
    return {name: value for name, value in options.items() if value is not None}


def _system(model: ModelDescriptor) -> str:
    """The conventions' name of a provider, else ours; without a provider, the name of the wire."""
    row = PROVIDERS.get(model.provider)
    if row is not None:
        return row.telemetry or row.id
    return model.provider or (WIRES[model.api].telemetry if model.api in WIRES else "") or "unknown"


def _kind(failure: InterlinguaError) -> str:
    if isinstance(failure, ProviderError) and (failure.code or failure.status):
        return failure.code or str(failure.status)
    return type(failure).__name__


def _answer(message: AssistantMessage) -> dict[str, Any]:
    usage = message.usage
    fields: dict[str, Any] = {
        "gen_ai.response.model": message.response_model or message.model,
        "gen_ai.response.id": message.response_id,
        "gen_ai.response.finish_reasons": [_finish_reason(message)] if message.stop_reason else None,
    }
    fields |= _usage(usage) if usage is not None else {}
    return {name: value for name, value in fields.items() if value is not None}


def _usage(usage: Usage) -> dict[str, int]:
    """The token counts. Input includes cache reads and writes, as the conventions define it."""
    fields = {
        "gen_ai.usage.input_tokens": usage.input + usage.cache_read + usage.cache_write,
        "gen_ai.usage.output_tokens": usage.output,
    }
    cached = {
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write,
    }
    return {**fields, **{name: count for name, count in cached.items() if count}}


def _content(request: Request, message: AssistantMessage) -> dict[str, str]:
    context = request.context
    system = {"gen_ai.system_instructions": compact([_text(context.system_prompt)])} if context.system_prompt else {}
    return {
        **system,
        "gen_ai.input.messages": written(context.messages),
        "gen_ai.output.messages": written([message]),
    }


# --- content, in the JSON of the conventions --------------------------------------------------------------------------

# gen-ai-input-messages.json, gen-ai-output-messages.json: a message is a role and parts.

_FINISH_REASONS = {"toolUse": "tool_call", "aborted": "error"}


def written(value: Any) -> str:
    """Messages as the conventions write them; a text, or any other JSON."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return compact([_message(one) for one in value if not isinstance(one, CustomMessage)])
    return value if isinstance(value, str) else compact(value)


def _message(message: AgentMessage) -> dict[str, Any]:
    assert not isinstance(message, CustomMessage)
    content = message.content or ()
    if isinstance(message, ToolResultMessage):
        result = {"type": "tool_call_response", "id": message.tool_call_id, "response": text_of(content)}
        return {"role": "tool", "parts": [result]}
    blocks = (TextBlock(text=content),) if isinstance(content, str) else content
    parts = [part for block in blocks if (part := _part(block)) is not None]
    if isinstance(message, AssistantMessage):
        return {"role": "assistant", "parts": parts, "finish_reason": _finish_reason(message)}
    return {"role": "system" if isinstance(message, SystemMessage) else "user", "parts": parts}


def _finish_reason(message: AssistantMessage) -> str:
    reason = message.stop_reason or "stop"
    return _FINISH_REASONS.get(reason, reason)


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "content": text}


def _part(block: Block) -> dict[str, Any] | None:
    match block:
        case TextBlock():
            return _text(block.text)
        case ThinkingBlock():
            return {"type": "reasoning", "content": block.thinking} if block.thinking else None
        case ToolCall():
            return {"type": "tool_call", "id": block.id, "name": block.name, "arguments": block.arguments}
        case DocumentBlock(text=str(text)):
            return _text(text)
        case ImageBlock() | AudioBlock() | DocumentBlock():
            modality = {"image": "image", "audio": "audio"}.get(block.type, "document")
            return {"modality": modality, "mime_type": block.mime_type, **_source(block)}
    return None  # a wire's own


def _source(block: ImageBlock | AudioBlock | DocumentBlock) -> dict[str, Any]:
    """Where the data is. The data itself is left out: spans have limits of a few kilobytes."""
    if block.url is not None and not block.url.startswith("data:"):
        return {"type": "uri", "uri": block.url}
    if block.file_id is not None:
        return {"type": "file", "file_id": block.file_id}
    return {"type": "blob", "content": ""}
