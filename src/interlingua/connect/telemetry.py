"""OpenTelemetry spans and metrics after the GenAI conventions. Off until `enable` is called; no content unless asked.

Needs the extra `otel`. One client span per call, with the tokens it took; histograms of tokens, of the whole duration
and of the time to the first chunk.
"""

import time
from typing import Any

from .._version import __version__
from ..dialects import WIRES
from ..values.canonical import plain
from ..values.errors import InterlinguaError, ProviderError
from ..values.jsontext import compact
from ..values.messages import AssistantMessage
from ..values.request import ModelDescriptor, Request
from .providers import PROVIDERS
from .stream import Stream

_OPTIONS = ("max_tokens", "temperature", "top_p", "top_k", "seed")

_telemetry: "_Telemetry | None" = None


def enable(*, content: bool = False, tracer_provider: Any = None, meter_provider: Any = None) -> None:
    """Has every call make a span and measurements. `content` puts prompts and answers on the spans."""
    global _telemetry
    _telemetry = _Telemetry(content, tracer_provider, meter_provider)


def disable() -> None:
    """Ends it."""
    global _telemetry
    _telemetry = None


def observed(stream: Stream, request: Request) -> Stream:
    """The stream, watched if telemetry is on."""
    if _telemetry is not None:
        stream.observer = _Observed(_telemetry, stream, request)
    return stream


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
    """Has one call that is over make its span and measurements, if telemetry is on. Times are seconds since 1970."""
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

    def __init__(self, telemetry: _Telemetry, stream: Stream, request: Request) -> None:
        self._telemetry = telemetry
        self._stream = stream
        self._request = request
        self._began = time.perf_counter()
        model = request.model
        self._span = telemetry.tracer.start_span(
            f"chat {model.id}", kind=telemetry.kind, attributes={**self._about(), **_given(request)}
        )

    def _about(self) -> dict[str, str]:
        """Who is asked, as far as is known now: an alias has been looked up, or a fallback taken over."""
        return _about(getattr(self._stream.source, "model", self._request.model))

    def began(self) -> None:
        self._telemetry.first.record(time.perf_counter() - self._began, self._about())

    def ended(self, message: AssistantMessage, failure: InterlinguaError | None) -> None:
        about = self._about()
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
    """The conventions' name for who serves a model, else ours; where nobody is named, whose wire it is."""
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
        "gen_ai.response.finish_reasons": [message.stop_reason] if message.stop_reason else None,
    }
    if usage is not None:
        fields |= {
            "gen_ai.usage.input_tokens": usage.input + usage.cache_read + usage.cache_write,
            "gen_ai.usage.output_tokens": usage.output,
            "gen_ai.usage.cache_read.input_tokens": usage.cache_read or None,
            "gen_ai.usage.cache_creation.input_tokens": usage.cache_write or None,
        }
    return {name: value for name, value in fields.items() if value is not None}


def _content(request: Request, message: AssistantMessage) -> dict[str, str]:
    context = request.context
    return {
        "gen_ai.system_instructions": context.system_prompt,
        "gen_ai.input.messages": compact([plain(one) for one in context.messages]),
        "gen_ai.output.messages": compact([plain(message)]),
    }
