"""The recorded exchanges, and which dialect each belongs to."""

import base64
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from interlingua.dialects import Dialect, dialect

# Directory of the corpus -> dialect.
DIALECT_OF = {
    "anthropic-messages": "anthropic-messages",
    "bedrock-converse-stream": "bedrock-converse-stream",
    "bedrock-invoke-anthropic": "bedrock-invoke-anthropic",
    "cohere": "cohere-chat",
    "google-generative-ai": "google-generative-ai",
    "google-interactions": "google-interactions",
    "google-vertex": "google-vertex",
    "groq": "openai-completions",
    "mistral": "openai-completions",
    "ollama": "ollama-chat",
    "openai-completions": "openai-completions",
    "openai-responses": "openai-responses",
    "openrouter": "openai-completions",
}
# Wires whose streams may come as plain JSON: an array of chunks, or lines with the type of a document.
_STREAMS_AS_JSON = ("google-generative-ai", "google-vertex", "ollama-chat")


@dataclass(frozen=True, eq=False)
class Case:
    """One recorded exchange. `expected` is what the vendor's own package made of the answer."""

    id: str
    api: str
    path: str
    status: int
    content_type: str
    body: bytes
    request: Any
    streaming: bool
    expected: dict[str, Any]

    @property
    def dialect_name(self) -> str:
        return DIALECT_OF[self.api]

    @property
    def dialect(self) -> Dialect:
        return dialect(self.dialect_name)

    @property
    def is_ours(self) -> bool:
        """Whether it is of the wire that its directory stands for."""
        return self.path not in _OTHER_WIRES

    @property
    def failed(self) -> bool:
        return self.status >= 400

    @property
    def is_stream(self) -> bool:
        """Whether the answer is a stream, and no error or whole answer that came in its place."""
        if self.failed or not self.streaming:
            return False
        return "application/json" not in self.content_type or self.dialect_name in _STREAMS_AS_JSON

    @property
    def is_error_in_disguise(self) -> bool:
        """Whether the status says that all is well and the body is an error."""
        return not self.failed and not self.is_stream and "choices" not in self.wire and bool(self.wire.get("error"))

    @property
    def content_is_object(self) -> bool:
        """Whether a chat answer has a parsed value where its text should be."""
        if self.dialect_name != "openai-completions" or self.is_stream or not self.wire.get("choices"):
            return False
        return isinstance(self.wire["choices"][0]["message"].get("content"), dict)

    @cached_property
    def wire(self) -> Any:
        """The body of a whole answer as JSON values."""
        return json.loads(self.body)


def corpus() -> Path:
    """Where the corpus is, or would be."""
    named = os.environ.get("INTERLINGUA_CORPUS")
    return Path(named) if named else Path(__file__).parents[3] / "shared" / "corpus"


def cases(api: str) -> Iterator[Case]:
    """The cases of one directory of the corpus, in the order of their ids."""
    for path in sorted((corpus() / api).glob("*.json")):
        case = read_case(path)
        if case.is_ours:
            yield case


_OTHER_WIRES = ("/v1/chat",)  # Cohere's first version, which is another wire


def read_case(path: Path) -> Case:
    record = json.loads(path.read_bytes())
    response = record["response"]
    body = response["body"]
    return Case(
        id=record["id"],
        api=record["api"],
        path=record["url_path"],
        status=response["status"],
        content_type=response["content_type"] or "",
        body=base64.b64decode(body) if response["encoding"] == "base64" else body.encode("utf-8", "surrogatepass"),
        request=record["request"],
        streaming=record["streaming"],
        expected=record["expected"] or {},
    )


def find_case(id: str) -> Case:
    for path in corpus().glob(f"*/{id}.json"):
        return read_case(path)
    raise SystemExit(f"no case is called {id!r} in {corpus()}")
