"""Embeddings at Amazon Bedrock, by `InvokeModel`: each maker's models have a body of their own.

docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-titan-embed-text.html takes one text;
docs.aws.amazon.com/bedrock/latest/userguide/model-parameters-embed.html (Cohere) takes 96.
"""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from ..wire import EmbeddingRoute


def _encode(model: str, texts: Sequence[str], dimensions: int | None) -> dict[str, Any]:
    if "cohere." in model:
        body: dict[str, Any] = {"texts": list(texts), "input_type": "search_document"}
        return body if dimensions is None else {**body, "output_dimension": dimensions}
    (text,) = texts
    return {"inputText": text} if dimensions is None else {"inputText": text, "dimensions": dimensions}


def _decode(body: Any) -> tuple[list[list[float]], int | None]:
    rows = body["embeddings"] if "embeddings" in body else [body["embedding"]]
    if isinstance(rows, dict):  # Cohere's answer where several types were asked for
        rows = rows["float"]
    return [[float(one) for one in row] for row in rows], body.get("inputTextTokenCount")


EMBEDDINGS = EmbeddingRoute(
    path=lambda model: f"/model/{quote(model, safe='')}/invoke",
    encode=_encode,
    decode=_decode,
    batch=lambda model: 96 if "cohere." in model else 1,
)
