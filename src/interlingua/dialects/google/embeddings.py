"""Gemini's embeddings: ai.google.dev/api/embeddings."""

from collections.abc import Sequence
from typing import Any

from ..wire import EmbeddingRoute


def _encode(model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, Any]:
    wanted = {} if dimensions is None else {"outputDimensionality": dimensions}
    name = model if model.startswith("models/") else f"models/{model}"
    return {"requests": [{"model": name, "content": {"parts": [{"text": text}]}, **wanted} for text in texts]}


def _decode(body: Any) -> tuple[list[list[float]], int | None]:
    usage = body.get("usageMetadata") or {}
    return [[float(one) for one in row["values"]] for row in body["embeddings"]], usage.get("promptTokenCount")


EMBEDDINGS = EmbeddingRoute(
    path=lambda model: f"/models/{model.removeprefix('models/')}:batchEmbedContents",
    encode=_encode,
    decode=_decode,
    batch=lambda model: 100,
)
