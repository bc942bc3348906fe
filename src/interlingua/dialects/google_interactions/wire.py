"""The `Wire` of Google's Interactions API."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...values import jsontext
from .. import google_interactions, shapes
from ..framing import write_sse
from ..limits import PDF, NameRule, TargetLimits
from ..wire import Evidence, Http, UsageDetail, Wire, sum_where

API = google_interactions.API

_EVENTS = ("interaction.", "step.", "content.")
# Option names that no other wire with `input` has.
_OWN = frozenset(("generation_config", "system_instruction", "previous_interaction_id", "agent", "agent_config"))
_STEPS = frozenset(("user_input", "model_output", "function_result", "thought"))


def _models(names: Sequence[str]) -> dict[str, Any]:
    return {"models": [{"name": f"models/{name}", "displayName": name} for name in names]}


def _is_event(value: Any) -> bool:
    return isinstance(value, dict) and value["event_type"].startswith(_EVENTS)


def _is_answer(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("status") not in google_interactions.STOP_REASONS:
        return False
    return value.get("object") == "interaction" or isinstance(value.get("steps"), list)


def _is_request(value: Any) -> bool:
    if not isinstance(value, dict):
        steps = shapes.messages(value)
        return any(step.get("type") in _STEPS for step in steps) and not any("role" in step for step in steps)
    if "input" not in value or "messages" in value:
        return False
    return (
        shapes.has_any(value, _OWN)
        or str(value.get("model", "")).startswith("gemini")
        or any(isinstance(step, dict) and step.get("type") in _STEPS for step in _input(value))
    )


def _input(value: Mapping[str, Any]) -> list[Any]:
    return value["input"] if isinstance(value["input"], list) else []


def _usage_detail(usage: Mapping[str, Any]) -> UsageDetail:
    # ai.google.dev/api/interactions-api, `Usage`: counts by modality are parts of the totals; those of the input
    # include cached tokens.
    def of(details: str, modality: str) -> int:
        return sum_where(usage.get(details), "modality", modality, "tokens")

    cached_audio = of("cached_tokens_by_modality", "audio")
    return UsageDetail(
        input_audio=of("input_tokens_by_modality", "audio") - cached_audio,
        cache_read_audio=cached_audio,
        output_audio=of("output_tokens_by_modality", "audio"),
        output_image=of("output_tokens_by_modality", "image"),
        web_searches=sum_where(usage.get("grounding_tool_count"), "type", "google_search", "count"),
    )


GOOGLE_INTERACTIONS = Wire(
    api=API,
    codec=google_interactions,
    # The limits of the models are those of generateContent: see `google.wire` for the sources.
    limits=TargetLimits(
        api=API,
        names=NameRule(r"[A-Za-z_][A-Za-z0-9_.:-]*", 64),
        blank_text=False,
        blank_system=True,
        # ai.google.dev/gemini-api/docs/interactions, Stateful conversation: the server has the steps before.
        server_history=("previous_interaction_id",),
        images=("data", "url"),
        # `ImageContent.mime_type`
        image_types=tuple(f"image/{kind}" for kind in ("png", "jpeg", "webp", "heic", "heif", "gif", "bmp", "tiff")),
        max_images=3600,
        documents=("data", "text", "url"),
        document_types=(PDF, "text/*", "video/*"),
        audio=("data", "url"),
        media_bytes=100_000_000,
        url_schemes=("https", "http", "gs"),
        answer_media=True,
        server_tools="own",
        families=("gemini",),
        reasoning=("effort",),  # `thinking_level`; there is no budget
        schema="gemini",
        max_stop_sequences=5,
        max_temperature=2,
        # `ServiceTier`.
        tiers=("flex", "standard", "priority", "deferred"),
    ),
    vendor="gemini",
    http=Http(
        input_field="input",
        input_references=("previous_interaction_id",),
        route=r"/interactions",
        base="/v1beta",
        auth="x-goog-api-key",
        # ai.google.dev/gemini-api/docs/interactions-breaking-changes: the revision with steps; before it, answers had
        # `outputs`.
        headers={"Api-Revision": "2026-05-20"},
        models_path="/models?pageSize=1",
        list_models=_models,
        request_id="x-goog-request-id",
        # `ErrorEvent`: an error ends the stream, with the HTTP status 200.
        error_event=lambda error, sent, body: write_sse(jsontext.write({**body, "event_type": "error"}), "error"),
        # The model is at the top of an answer, and under `interaction` in events.
        model_paths=(("model",), ("interaction", "model")),
    ),
    evidence=(
        Evidence("event", 25, "events of an interaction", _is_event),
        Evidence("chunk", 25, "events of an interaction", _is_event),
        Evidence("response", 25, "an interaction with its steps", _is_answer),
        Evidence("request", 25, "`input` with Interactions' steps, options or models", _is_request),
    ),
    telemetry="gcp.gemini",
    usage_detail=_usage_detail,
)
