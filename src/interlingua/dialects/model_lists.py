"""The list of models as OpenAI's endpoint gives it; two wires and many hosts share it."""

from collections.abc import Sequence
from typing import Any


def openai_models(names: Sequence[str]) -> dict[str, Any]:
    entries = [{"id": name, "object": "model", "created": 1700000000, "owned_by": "interlingua"} for name in names]
    return {"object": "list", "data": entries}
