"""Google AI Studio: a prompt as it is saved in Google Drive, `chunkedPrompt.chunks` beside `runSettings`.

A chunk is a text, a thought (`isThought`), a file in Drive or inline data, of the user or the model. Chunks of the
model in a row are one answer.
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.errors import BadWire
from ...values.messages import (
    AssistantMessage,
    AudioBlock,
    Block,
    DocumentBlock,
    ImageBlock,
    OpaqueBlock,
    TextBlock,
    ThinkingBlock,
)
from ...values.request import Conversation, Entry, ModelDescriptor, Options
from ..residual import body_of, fields_of, number, optional, reading, whole
from ..wire import ListedSession, SessionStream
from . import templates
from .line_sessions import ReadAgain, Reader, Record, TemplateStream, read
from .reading import Pairing, asked, rounds
from .records import milliseconds

API = "aistudio"

FILES: dict[str, type] = {"Image": ImageBlock, "Audio": AudioBlock, "Video": DocumentBlock, "Document": DocumentBlock}


def _messages(chunks: Iterable[Any], model: str | None) -> Iterator[Any]:
    """One message of the user for each run of its chunks, one answer for each run of the model's."""
    run: list[Any] = []
    pairs, role, when = Pairing(), None, None
    ended: dict[str, Any] = {}  # how the last chunk of the run ended
    for chunk in itertools.chain(chunks, (None,)):
        next_role = "model" if fields_of(chunk).get("role") == "model" else "user"
        if run and (chunk is None or next_role != role):
            if role == "model":
                *others, last = rounds(run, timestamp=when, model=model)
                yield from others
                yield replace(last, **ended) if isinstance(last, AssistantMessage) else last
            else:
                yield from asked(run, timestamp=when)
            run, when = [], None
        if isinstance(chunk, dict):
            role = next_role
            run += _items(chunk, pairs)
            ended = _end(chunk)
            when = when or milliseconds(chunk.get("createTime"))


def _end(chunk: dict[str, Any]) -> dict[str, Any]:
    failure = optional(chunk.get("errorMessage"))
    if failure:
        return {"stop_reason": None if chunk.get("text") else "error", "error_message": failure}
    return {"stop_reason": "length"} if chunk.get("finishReason") == "MAX_TOKENS" else {}


def _items(chunk: dict[str, Any], pairs: Pairing) -> Iterator[Any]:
    text = chunk.get("text")
    if isinstance(text, str):
        yield ThinkingBlock(thinking=text) if chunk.get("isThought") is True else TextBlock(text=text)
    elif isinstance(chunk.get("parts"), list):
        for part in chunk["parts"]:
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                thought = part.get("thought") is True or chunk.get("isThought") is True
                yield ThinkingBlock(thinking=part["text"]) if thought else TextBlock(text=part["text"])
            yield from _calls(fields_of(part), pairs)
    yield from _calls(chunk, pairs)
    yield from _files(chunk)


def _calls(chunk: dict[str, Any], pairs: Pairing) -> Iterator[Any]:
    """A call, with its response beside it or in a chunk of its own."""
    call = fields_of(chunk.get("functionCall"))
    if isinstance(call.get("name"), str):
        yield pairs.call(call.get("id"), call["name"], call.get("args") if "args" in call else call.get("parameters"))
    given = fields_of(chunk.get("functionResponse"))
    if given:
        yield pairs.result(given.get("id"), given.get("name"), _response(given.get("response")))
    elif call and chunk.get("response") is not None:
        yield pairs.result(call.get("id"), call.get("name"), _response(chunk["response"]))


def _response(given: Any) -> str:
    return given if isinstance(given, str) else "" if given is None else jsontext.compact(given)


def _files(chunk: dict[str, Any]) -> Iterator[Block]:
    for kind, block in FILES.items():
        stored, inline = fields_of(chunk.get(f"drive{kind}")), fields_of(chunk.get(f"inline{kind}"))
        if isinstance(stored.get("id"), str):
            yield block(file_id=stored["id"])
        if isinstance(inline.get("data"), str):
            yield block(data=inline["data"], mime_type=optional(inline.get("mimeType")))
    for key in ("inlineFile", "inlineData"):
        inline = fields_of(chunk.get(key))
        if isinstance(inline.get("data"), str):
            mime = optional(inline.get("mimeType"))
            kind = (mime or "").partition("/")[0].capitalize()
            yield FILES.get(kind, DocumentBlock)(data=inline["data"], mime_type=mime)
    for key in ("executableCode", "codeExecutionResult", "youtubeVideo"):
        if key in chunk:
            yield OpaqueBlock(dialect=API, value={key: chunk[key]})


def _chunks(value: Any) -> list[Any] | None:
    chunks = fields_of(fields_of(value).get("chunkedPrompt")).get("chunks")
    return chunks if isinstance(chunks, list) else None


def _system(wire: Any) -> str | None:
    """The instructions: text, or parts of it."""
    if isinstance(wire, str):
        return wire or None
    parts = fields_of(wire).get("parts")
    texts = (
        [fields_of(part).get("text") for part in parts] if isinstance(parts, list) else [fields_of(wire).get("text")]
    )
    given = [text for text in texts if isinstance(text, str) and text]
    return given[0] if len(given) == 1 else "\n".join(given) or None


class _Reader(Reader):
    """Reads the chunks of a prompt, which is given with or without them."""

    def __init__(self, body: Record) -> None:
        settings = fields_of(body.get("runSettings"))
        self._model = model = optional(settings.get("model"))
        self.about = Conversation(
            system=_system(body.get("systemInstruction")),
            model=ModelDescriptor(id=model, provider="google") if model else None,
            title=optional(body.get("title")) or optional(body.get("name")),
            options=Options(
                temperature=number(settings.get("temperature")),
                top_p=number(settings.get("topP")),
                top_k=whole(settings.get("topK")),
                max_tokens=whole(settings.get("maxOutputTokens")),
            ),
        )

    def entries(self, records: Iterable[Any]) -> Iterator[Entry]:
        return (Entry(message=message) for message in _messages(records, self._model))


_PLACE = "chunkedPrompt.chunks"


@reading(API)
def decode(data: Any) -> Conversation:
    """The prompt of one file."""
    body = body_of(data, API)
    chunks = _chunks(body)
    if chunks is None:
        raise BadWire(API, "expected `chunkedPrompt` with `chunks`", "$.chunkedPrompt")
    return templates.keep(read(_Reader(body), chunks), body, API, places=(_PLACE,))


@reading(API)
def listed(header: Record, chunks: ReadAgain) -> SessionStream:
    """The prompt of one file, one entry at a time."""
    return TemplateStream(_Reader(header), chunks, API, _PLACE, header, places=(_PLACE,))


def detect(value: Any) -> str | None:
    """Whether a document is a saved prompt."""
    return "`chunkedPrompt` with `chunks`" if _chunks(value) is not None else None


FORMAT = templates.file_format(API, decode, detect=detect, rank=20, listed=ListedSession((_PLACE,), listed))
