"""GitHub Copilot Chat in VS Code: a session of `requests`, exported or as VS Code stores it.

A request is what a person asked (`message`) with the answer to it. The rounds of an answer, each a response of the
model with its calls, are in `result.metadata.toolCallRounds` and what the tools gave in `toolCallResults`; where there
are none, the answer is the markdown of `response`, whose parts have no `kind`. Newer versions of VS Code store the
session as a log of lines: a first state, then values that are set or appended at a path in it.
"""

import itertools
from array import array
from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from ...values.errors import BadWire
from ...values.losses import Lines
from ...values.messages import AssistantMessage, Block, ImageBlock, TextBlock, ThinkingBlock
from ...values.request import Conversation, Entry
from ..codec import USER
from ..residual import fields_of, list_of, optional, reading
from ..wire import ListedSession, SessionStream
from . import templates
from .line_sessions import ReadAgain, Reader, Record, TemplateStream, TreeReader, read
from .reading import Pairing, document_of, json_value, rounds, seconds

API = "copilot-chat"


# --- requests --------------------------------------------------------------------------------------------------------


def _messages(request: dict[str, Any], pairs: Pairing) -> Iterator[Any]:
    when = seconds(request.get("timestamp"))
    metadata = fields_of(fields_of(request.get("result")).get("metadata"))
    context = [*_rendered(metadata.get("renderedGlobalContext"))]
    if context:
        yield replace(USER, extra={}, content=tuple(context), timestamp=when, origin="program")
    yield replace(USER, extra={}, content=(*_pictures(request), *_asked(request.get("message"))), timestamp=when)
    failure = fields_of(fields_of(request.get("result")).get("errorDetails"))
    model = optional(request.get("modelId"))
    fields: dict[str, Any] = {"model": model, "error_message": optional(failure.get("message"))}
    listed = [item for item in list_of(metadata.get("toolCallRounds")) if isinstance(item, dict)]
    found: list[Any] = []
    for item in listed:
        blocks = [*_round(item, pairs)]
        if blocks:
            found += rounds([*blocks, *_results(blocks, metadata, pairs, when)], timestamp=when, **fields)
    shown = _with_references(list_of(request.get("response")), pairs)
    if not found and (shown or isinstance(request.get("result"), dict)):  # else it was never answered
        found = rounds(shown, timestamp=when, **fields)
    if found and isinstance(found[-1], AssistantMessage):
        stopped = "aborted" if _is_cancelled(request) else "error" if failure.get("message") else None
        found[-1] = replace(found[-1], stop_reason=stopped)
    yield from found


def _is_cancelled(request: dict[str, Any]) -> bool:
    """Whether the user stopped the answer; 2 is `ResponseModelState.Cancelled`."""
    return request.get("isCanceled") is True or fields_of(request.get("modelState")).get("value") == 2


def _is_taken_back(request: dict[str, Any]) -> bool:
    """Whether the user went back to before a request, which the next one removes; or to within it."""
    removed = request.get("shouldBeRemovedOnSend")
    return request.get("isHidden") is True or (isinstance(removed, dict) and "afterUndoStop" not in removed)


def _asked(message: Any) -> Iterator[Block]:
    if isinstance(message, str):
        yield TextBlock(text=message)
    elif isinstance(message, dict) and isinstance(message.get("text"), str):
        yield TextBlock(text=message["text"])
    elif isinstance(message, dict):
        for part in list_of(message.get("parts")):
            if isinstance(fields_of(part).get("text"), str):
                yield TextBlock(text=part["text"])


def _pictures(request: dict[str, Any]) -> Iterator[Block]:
    for item in list_of(fields_of(request.get("variableData")).get("variables")):
        item = fields_of(item)
        if item.get("kind") != "image":
            continue
        if isinstance(item.get("value"), str):
            yield ImageBlock(data=item["value"], mime_type=optional(item.get("mimeType")))
        elif isinstance(fields_of(item.get("value")).get("$base64"), str):
            yield ImageBlock(data=item["value"]["$base64"], mime_type=optional(item.get("mimeType")))
        elif (data := _bytes_in(item.get("value"))) is not None:
            yield ImageBlock(data=b64encode(data).decode(), mime_type=optional(item.get("mimeType")))
        else:
            yield ImageBlock(file_id=optional(item.get("id")) or optional(item.get("name")) or "")


def _bytes_in(value: Any) -> bytes | None:
    """A `Uint8Array` as `JSON.stringify` writes it: `{"0": 137, "1": 80, …}`; None if the value is none."""
    if not isinstance(value, dict) or "0" not in value or not all(type(byte) is int for byte in value.values()):
        return None
    is_row = all(key == str(at) for at, key in enumerate(value))
    return bytes(value.values()) if is_row and all(0 <= byte < 256 for byte in value.values()) else None


def _rendered(parts: Any) -> Iterator[Block]:
    for part in list_of(parts):
        if isinstance(fields_of(part).get("text"), str):
            yield TextBlock(text=part["text"])


def _round(item: dict[str, Any], pairs: Pairing) -> Iterator[Block]:
    thought = item.get("thinking")
    for given in list_of(thought) or [thought]:
        text = given.get("text") if isinstance(given, dict) else given
        text = "".join(part for part in text if isinstance(part, str)) if isinstance(text, list) else text
        sealed = optional(fields_of(given).get("encrypted"))
        if (isinstance(text, str) and text) or sealed:
            yield ThinkingBlock(thinking=optional(text) or "", thinking_signature=sealed, redacted=not text)
    if isinstance(item.get("response"), str) and item["response"]:
        yield TextBlock(text=item["response"])
    for call in list_of(item.get("toolCalls")):
        if isinstance(call, dict):
            yield pairs.call(call.get("id"), call.get("name"), call.get("arguments"))


def _results(blocks: list[Any], metadata: dict[str, Any], pairs: Pairing, when: int | None) -> Iterator[Any]:
    results = fields_of(metadata.get("toolCallResults"))
    for block in blocks:
        given = results.get(getattr(block, "id", ""))
        if isinstance(given, dict):
            content = tuple(found for part in list_of(given.get("content")) for found in _given(part))
            yield pairs.result(block.id, block.name, content, given.get("isError"), timestamp=when)


def _given(part: Any) -> Iterator[Block]:
    """A part of a result: text, a tree of prompt pieces, or data."""
    value = fields_of(part).get("value")
    if isinstance(value, str):
        yield TextBlock(text=value)
    elif isinstance(value, dict) and isinstance(value.get("node"), dict):
        yield TextBlock(text="".join(_pieces(value["node"])).removeprefix("\n"))
    data, mime = fields_of(part).get("data"), optional(fields_of(part).get("mimeType"))
    data = data.get("$base64") if isinstance(data, dict) else data
    if isinstance(data, str) and (mime or "").startswith("image/"):
        yield ImageBlock(data=data, mime_type=mime)


def _pieces(node: dict[str, Any]) -> Iterator[str]:
    """The texts of a prompt-tsx tree: nodes of type 2 are text, the others hold children."""
    if isinstance(node.get("text"), str):
        yield ("\n" if node.get("lineBreakBefore") else "") + node["text"]
    for child in list_of(node.get("children")):
        if isinstance(child, dict):
            yield from _pieces(child)


def _with_references(parts: list[Any], pairs: Pairing) -> list[Any]:
    """What the program shows as the answer. A reference stands within a text, whose parts it divides in the file."""
    found: list[Any] = []
    within = False
    for part in parts:
        name = _reference(part)
        shown: Iterable[Any] = _shown(part, pairs) if name is None else (TextBlock(text=name),)
        for item in shown:
            if (within or name is not None) and found and type(item) is type(found[-1]) is TextBlock:
                found[-1] = TextBlock(text=found[-1].text + item.text)
            else:
                found.append(item)
            within = name is not None
    return found


def _reference(part: Any) -> str | None:
    """The name of a file or symbol, as the program shows it (`IChatContentInlineReference`); None for other parts."""
    if fields_of(part).get("kind") != "inlineReference":
        return None
    target = fields_of(part.get("inlineReference"))
    path = optional(fields_of(target.get("uri") or target).get("path")) or ""
    return optional(part.get("name")) or optional(target.get("name")) or path.rpartition("/")[2] or None


def _shown(part: Any, pairs: Pairing) -> Iterator[Any]:
    """What is shown of a part; of calls, their input and output as far as they are shown."""
    kind = fields_of(part).get("kind")
    value = part.get("value") if isinstance(part, dict) else part
    if kind is None and isinstance(value, str):
        yield TextBlock(text=value)
    elif kind in ("markdownContent", "markdownVuln"):
        if isinstance(fields_of(part.get("content")).get("value"), str):
            yield TextBlock(text=part["content"]["value"])
    elif kind == "toolInvocationSerialized" and isinstance(part.get("toolId"), str):
        details = fields_of(part.get("resultDetails"))
        call = pairs.call(part.get("toolCallId"), part["toolId"], json_value(details.get("input")))
        yield call
        texts = [optional(fields_of(item).get("value")) for item in list_of(details.get("output"))]
        if any(texts):
            text = "\n".join(text for text in texts if text)
            yield pairs.result(call.id, call.name, text, details.get("isError"))
    elif kind == "thinking" and isinstance(value, str) and value:
        yield ThinkingBlock(thinking=value)


# --- the log ---------------------------------------------------------------------------------------------------------

STATE, SET, APPEND, DELETE = 0, 1, 2, 3  # kinds of lines


class _Log:
    """The session as of the lines so far. Texts are shared with the lines; objects and lists are copies of theirs."""

    def __init__(self) -> None:
        self.state: Any = None

    def feed(self, line: Record) -> None:
        kind, value = line.get("kind"), line.get("v")
        if kind == STATE:
            self.state = to_builtins(value)
            return
        path = line.get("k")
        if kind not in (SET, APPEND, DELETE) or not isinstance(path, list) or not path:
            return
        where: Any = self.state
        for step in path[:-1]:
            where = where[step]
        if kind == SET:
            where[path[-1]] = to_builtins(value)
        elif kind == DELETE:
            where.pop(path[-1], None)
        else:
            items = where.setdefault(path[-1], []) if isinstance(where, dict) else where[path[-1]]
            if isinstance(line.get("i"), int):
                del items[line["i"] :]
            items.extend(to_builtins(value) if isinstance(value, list) else [])


def _is_log(value: Any) -> bool:
    first = value[0] if isinstance(value, list) and value else None
    return isinstance(first, dict) and first.get("kind") == STATE and _is_session(first.get("v"))


# --- sessions --------------------------------------------------------------------------------------------------------


def _is_session(value: Any) -> bool:
    requests = value.get("requests") if isinstance(value, dict) else None
    if not isinstance(requests, list):
        return False
    named = any(key in value for key in ("responderUsername", "initialLocation", "sessionId", "requesterUsername"))
    return named and all(isinstance(item, dict) and "message" in item for item in requests)


class _Reader(TreeReader):
    """Reads the requests of a session, which is given without them. Those that were taken back are off the path."""

    def __init__(self, session: Record) -> None:
        super().__init__()
        self._session = session

    def messages(self, records: Iterable[Record]) -> Iterator[Any]:
        pairs, shown = Pairing(), 0
        model: str | None = None
        for request in records:
            model = optional(request.get("modelId")) or model
            if not _is_taken_back(request):
                self.tree.cut(shown)
            for message in _messages(request, pairs):
                yield self.tree.add(message)
            shown = shown if _is_taken_back(request) else len(self.tree.path)
        self.tree.cut(shown)
        self.fields = {"title": _title(self._session), "model": model}


class _LogReader(Reader):
    """Reads the lines of a log. A request waits for the last line that changes it.

    `ends`: the place of that line for each request; None if all of them wait for the end.
    """

    def __init__(self, ends: "array[int] | None") -> None:
        self._ends = ends

    def entries(self, records: Iterable[Record]) -> Iterator[Entry]:
        log, reader = _Log(), _Reader({})
        yield from reader.entries(self._requests(log, records))
        if not _is_session({**fields_of(log.state), "requests": []}):
            raise _not_a_session()
        self.about = replace(reader.about, title=_title(log.state))
        self.parents, self.head = reader.parents, reader.head

    def _requests(self, log: _Log, lines: Iterable[Record]) -> Iterator[Record]:
        done = 0
        for at, line in enumerate(lines):
            log.feed(line)
            while self._ends is not None and done < len(self._ends) and self._ends[done] <= at:
                request, log.state["requests"][done] = log.state["requests"][done], None
                done += 1
                yield _checked(request)
        given = fields_of(log.state).get("requests")
        yield from map(_checked, given[done:] if isinstance(given, list) else ())


def _checked(request: Any) -> Record:
    if not isinstance(request, dict) or "message" not in request:
        raise _not_a_session()
    return request


def _not_a_session() -> BadWire:
    return BadWire(API, "expected a session with `requests`", "$.requests")


def _title(session: Record) -> str | None:
    return optional(session.get("customTitle")) or optional(session.get("title"))


def _ends_of(lines: Iterable[Record]) -> "array[int] | None":
    """The place of the last line that changes each request; None if requests are taken back."""
    ends = array("q")
    for at, line in enumerate(lines):
        kind, path, value = line.get("kind"), line.get("k"), line.get("v")
        if kind == STATE:
            if at:
                return None
            ends.extend([0] * len(list_of(fields_of(value).get("requests"))))
        elif kind in (SET, APPEND, DELETE) and isinstance(path, list) and path[:1] == ["requests"]:
            if len(path) > 1 and isinstance(path[1], int) and 0 <= path[1] < len(ends):
                ends[path[1]] = at
            elif path == ["requests"] and kind == APPEND and not isinstance(line.get("i"), int):
                ends.extend([at] * len(list_of(value)))
            else:
                return None
    return ends


@reading(API)
def decode(data: Any) -> Conversation:
    """One session."""
    body = _body_of(data)
    if _is_log(body):
        return templates.keep(read(_LogReader(None), body), body, API, lines=True)
    if not _is_session(body):
        raise _not_a_session()
    return templates.keep(read(_Reader(body), body["requests"]), body, API)


@reading(API)
def stream(lines: ReadAgain) -> SessionStream | None:
    """A log, one entry at a time."""
    ends = _ends_of(lines()) if _is_log(list(itertools.islice(lines(), 1))) else None
    return None if ends is None else TemplateStream(_LogReader(ends), lines, API)


@reading(API)
def listed(header: Record, requests: ReadAgain) -> SessionStream:
    """A session, one entry at a time."""
    if not _is_session({**header, "requests": []}):
        raise _not_a_session()
    return TemplateStream(_Reader(header), lambda: map(_checked, requests()), API, "requests", header)


def _body_of(data: Any) -> Any:
    body = document_of(data, API)
    return Lines([body]) if isinstance(body, dict) and _is_log([body]) else body


def detect(value: Any) -> str | None:
    """Whether a document is a session, or the log of one."""
    if _is_session(value):
        return "`requests` of a chat session"
    if _is_log(value if isinstance(value, list) else [value]):
        return "a log whose first state has `requests`"
    return None


FORMAT = templates.file_format(
    API, decode, detect=detect, lines=True, rank=20, stream=stream, listed=ListedSession(("requests",), listed)
)
