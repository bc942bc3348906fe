"""Ollama's embeddings: github.com/ollama/ollama/blob/main/docs/api.md#generate-embeddings."""

from collections.abc import Sequence
from typing import Any

from ..wire import EmbeddingRoute


def _encode(model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, Any]:
    body: dict[str, Any] = {"model": model, "input": list(texts)}
    return body if dimensions is None else {**body, "dimensions": dimensions}


def _decode(body: Any) -> tuple[list[list[float]], int | None]:
    return [[float(one) for one in row] for row in body["embeddings"]], body.get("prompt_eval_count")


EMBEDDINGS = EmbeddingRoute(path=lambda model: "/api/embed", encode=_encode, decode=_decode, batch=lambda model: 256)
