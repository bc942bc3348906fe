"""The `Wire`: one value with everything that the package knows about a provider's wire format.

It has the codec, the limits of the target, the HTTP facts, the tests that detect its bodies, its name in telemetry, and
a reader for usage beyond the four buckets. No other module has a table keyed by the name of a wire, so a wire that a
plugin registers works wherever a built-in one does:

    il.wire("ollama-chat").variant("my-wire", http={"base": "/llm"})

A `FileFormat` is the same for a file format.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePath
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from ..values import jsontext
from ..values.errors import BadRequest, InterlinguaError, ProviderError
from ..values.events import StreamEvent
from ..values.losses import Encoded, Loss, Reporter, SupportTable
from ..values.messages import AssistantMessage, Block, Extra, Usage
from ..values.request import Conversation, Entry, ModelDescriptor, Request
from .framing import Frame, write_sse
from .limits import Refinement, TargetLimits, compat_limits

if TYPE_CHECKING:
    import sqlite3

    from .files.line_readers import LineReader

# The interface of a codec, as protocols. Modules satisfy them, and so do variants of modules.


class FrameReader(Protocol):
    """Bytes to frames, independent of chunk boundaries."""

    name: ClassVar[str]

    def feed(self, chunk: bytes, /) -> list[Frame]: ...
    def close(self) -> list[Frame]: ...


class Decoding(Protocol):
    """Frames to events. `close` gives the terminal event unless `feed` already did; later input is ignored."""

    failure: InterlinguaError | None

    def restoring(self, restore: Callable[[Block], Block] | None) -> None: ...
    def feed(self, frame: Frame, /) -> list[StreamEvent]: ...
    def close(self, error: str | None = None, *, aborted: bool = False) -> list[StreamEvent]: ...


class Encoding(Protocol):
    """Events to bytes. `losses` are those of the message so far."""

    @property
    def losses(self) -> Sequence[Loss]: ...
    def fail(self, error: InterlinguaError) -> bytes: ...
    def feed(self, event: StreamEvent, /) -> bytes: ...
    def close(self) -> bytes: ...


class Dialect(Protocol):
    """The interface of a wire codec: a module, or a `Variant` of one."""

    API: str
    FIELD_SUPPORT: SupportTable
    UNEVEN: tuple[str, ...]

    def decode_request(self, body: Any, *, model: Any = None, stream: bool | None = None) -> Request: ...
    def encode_request(self, request: Request, *, strict: bool = False) -> Encoded: ...
    def decode_response(
        self, body: Any, *, model: str | None = None, provider: str | None = None, timestamp: int | None = None
    ) -> AssistantMessage: ...
    def encode_response(self, message: AssistantMessage, *, request: Request | None = None) -> Encoded: ...
    def framing(self, content_type: str | None = None) -> FrameReader: ...
    @property
    def StreamDecoder(self) -> Any: ...
    @property
    def StreamEncoder(self) -> Any: ...
    def decode_error(self, status: int, body: Any, headers: Any = ...) -> ProviderError: ...
    def encode_error(self, error: InterlinguaError) -> tuple[int, Any]: ...
    def path(self, model: str, stream: bool) -> str: ...
    def decode(self, data: Any) -> Conversation: ...
    def encode(self, conversation: Conversation) -> Encoded: ...


# The same wire under another name, with other quirks or another framing.


class Variant:
    """A codec module with another `api`, `quirks` and `framing`. All other names are those of the module."""

    def __init__(
        self,
        module: ModuleType,
        api: str,
        *,
        quirks: Mapping[str, Any] | None = None,
        framing: Callable[[str | None], Any] | None = None,
        reframe: Callable[[Frame], bytes] | None = None,
    ) -> None:
        self.module = module
        self.API = api
        self.quirks = {"api": api, **(quirks or {})}
        self._framing = framing
        self._reframe = reframe

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.module, name)
        if name in _TAKES_QUIRKS:
            return functools.partial(found, quirks=self.quirks)
        return found

    def __repr__(self) -> str:
        return f"Variant({self.module.__name__.rpartition('.')[2]}, {self.API!r})"

    def framing(self, content_type: str | None = None) -> Any:
        return (self._framing or self.module.framing)(content_type)

    def StreamEncoder(self, *, request: Any = None) -> Any:
        encoder = self.module.StreamEncoder(request=request, quirks=self.quirks)
        return encoder if self._reframe is None else _Reframed(encoder, self.module.framing(None), self._reframe)


_TAKES_QUIRKS = frozenset(
    {
        "decode_request",
        "encode_request",
        "decode_response",
        "encode_response",
        "StreamDecoder",
        "path",
        "decode",
        "encode",
    }
)


class _Reframed:
    """Splits the bytes of the base encoder into frames and writes each in the variant's framing."""

    def __init__(self, encoder: Any, frames: Any, write: Callable[[Frame], bytes]) -> None:
        self._encoder = encoder
        self._frames = frames
        self._write = write

    @property
    def losses(self) -> Any:
        return self._encoder.losses

    def fail(self, error: Any) -> bytes:
        return b"".join(map(self._write, self._frames.feed(self._encoder.fail(error))))

    def feed(self, event: Any) -> bytes:
        return b"".join(map(self._write, self._frames.feed(self._encoder.feed(event))))

    def close(self) -> bytes:
        frames = self._frames.feed(self._encoder.close()) + self._frames.close()
        return b"".join(map(self._write, frames))


AuthStyle: TypeAlias = Literal["bearer", "x-api-key", "api-key", "x-goog-api-key", "aws", "google", "none"]

SSE = "text/event-stream"
NDJSON = "application/x-ndjson"
AWS = "application/vnd.amazon.eventstream"
JSON = "application/json"

Shape: TypeAlias = Literal["frame", "event", "chunk", "response", "request", "plain"]


class Evidence(NamedTuple):
    """One test that detects a wire.

    `shape` is the input of the test: one AWS frame or one event of a recorded stream, one element of a list of chunks,
    a response, a request body or bare list of messages, or (`plain`) messages with nothing but text, which several
    wires share. Tests of one shape run by `rank`, lowest first: the more specific a test, the lower its rank.
    """

    shape: Shape
    rank: int
    reason: str
    test: Callable[[Any], Any]


class Count(Struct, frozen=True, kw_only=True):
    """The endpoint that counts tokens: its route, the request inside its body, and its response."""

    route: str
    request: Callable[[Any], Any] = lambda body: body
    answer: Callable[[int], dict[str, Any]]


class EmbeddingRoute(Struct, frozen=True, kw_only=True):
    """The embeddings endpoint.

    `encode` takes the model id, the texts and the number of dimensions; `decode` returns the vectors and the number of
    input tokens (None if not reported); `batch` is the maximum number of texts per request.
    """

    path: Callable[[str], str]
    encode: Callable[[str, Sequence[str], int | None], dict[str, Any]]
    decode: Callable[[Any], tuple[list[list[float]], int | None]]
    batch: Callable[[str], int]


class Rephrased(Struct, frozen=True, kw_only=True):
    """A second endpoint for the same calls: functions that convert its request body and each response value to the
    main form and from it. `own_fields` of its request have no equivalent there: only this endpoint knows them.
    """

    route: str
    input_field: str
    request: Callable[[Any], Any]
    answer: Callable[[Any], Any]
    own_fields: tuple[str, ...] = ()
    encode_request: Callable[[Any], Any] = lambda body: body
    decode_answer: Callable[[Any], Any] = lambda value: value


class Http(Struct, frozen=True, kw_only=True):
    """The HTTP facts of a wire, for clients and servers.

    `route` matches the end of a path; its groups are the model and the verb, if the path has them. `base` is between
    the server's address and the codec's `path`. `streaming` is the verb that requests a stream, if the path decides;
    `stream_default` applies to a body without `stream`. `error_event` writes an error in the middle of a stream, from
    the error, the number of events sent so far, and the codec's body for the error.
    """

    route: str
    input_field: str = "messages"  # of a request: what the model is asked
    input_references: tuple[str, ...] = ()  # fields that name a stored input
    empty_loads: bool = False  # a request that asks nothing loads the model, and is answered with nothing
    route_rank: int = 50  # among wires whose routes match the same part of a path, lowest first
    base: str = ""
    model_prefixes: tuple[str, ...] = ()  # prefixes of the model name in a path
    auth: AuthStyle = "bearer"
    headers: Mapping[str, str] = {}  # sent with every request
    models_route: str = r"/models"
    models_path: str | None = None  # a cheap GET that needs a valid key; None if there is none
    list_models: Callable[[Sequence[str]], dict[str, Any]]
    # The names on the page that a query asks for, and fields of the list that name other pages.
    models_page: Callable[[Sequence[str], Mapping[str, str]], tuple[Sequence[str], dict[str, Any]]] | None = None
    content_type: str = SSE
    charset: str = ""
    json_streams: bool = False  # a stream is a JSON array unless the query asks for server-sent events
    streaming: str | None = None
    stream_default: bool = False
    request_id: str = "x-request-id"
    response_id: str = ""
    ping: bytes = b": ping\n\n"
    usage_first: bool = False
    only_streams: bool = False  # the service only streams
    # Adds to a body what comes from neither the conversation nor the options, given the original request.
    complete_body: Callable[[Request, dict[str, Any]], dict[str, Any]] | None = None
    # Splits a credential that has more than a key: returns the key, and the body with the rest.
    unpack_key: Callable[[str, dict[str, Any]], tuple[str, dict[str, Any]]] | None = None
    error_event: Callable[[ProviderError, int, Any], bytes] = lambda error, sent, body: write_sse(jsontext.write(body))
    error_headers: Callable[[Any], dict[str, str]] | None = None  # headers of an error response, given its body
    embeddings: EmbeddingRoute | None = None
    # Rate limit headers, given `limit`, `remaining` and `reset` (seconds) of `requests` and `tokens`.
    rate_headers: Callable[[Mapping[str, Any]], dict[str, str]] | None = None
    # Key paths of the model name in a response or a stream event.
    model_paths: tuple[tuple[str, ...], ...] = ()
    # Keys in stream events whose values differ from event to event, and of which only the last counts: counters,
    # times, padding.
    varying: tuple[str, ...] = ()
    # The option that requests usage in a stream, if it is optional; and a function that removes usage from frames (all
    # of a frame, if it has nothing else).
    usage_option: tuple[str, str] | None = None
    without_usage: Callable[[bytes], bytes] | None = None
    request_headers: tuple[str, ...] = ()  # client headers that a gateway passes on to the same wire
    count: "Count | None" = None  # the endpoint that counts tokens
    rephrased: "Rephrased | None" = None
    # Responses without a model, by method and path, given the model names and the body.
    fixed: Mapping[str, Callable[[Sequence[str], Any], Any]] = {}
    opening_event: bytes | None = None  # the name of the event that starts an item, once for each
    stored_route: str | None = None  # the route of a stored response; the groups are its id and the part of it
    # The blocks of a response by the id of their item, where clients refer to items that are stored.
    item_blocks: Callable[[AssistantMessage], Mapping[str, Sequence[Block]]] | None = None

    def model_in(self, path_part: str) -> str:
        """The model name from a part of a path."""
        name = unquote(path_part)
        for prefix in self.model_prefixes:
            name = name.removeprefix(prefix)
        return name


def retry_headers(seconds: float | None) -> dict[str, str]:
    """`retry-after` in whole seconds, rounded up, and `retry-after-ms` if the exact delay differs."""
    if seconds is None:
        return {}
    whole = int(-(-seconds // 1))
    exact = {} if whole == seconds else {"retry-after-ms": str(round(seconds * 1000))}
    return {"retry-after": str(whole), **exact}


class UsageDetail(Struct, frozen=True):
    """Usage beyond the four buckets; each count is part of its bucket. `tiers` are service tiers named in the usage."""

    cache_write_1h: int = 0
    input_audio: int = 0
    cache_read_audio: int = 0
    output_audio: int = 0
    output_image: int = 0
    web_searches: int = 0
    tiers: tuple[str, ...] = ()


def page_size(query: Mapping[str, str], name: str, usual: int) -> int:
    """The number of entries that a query asks for, up to 1000."""
    given = query.get(name, "")
    if not given:
        return usual
    if not given.isascii() or not given.isdigit() or int(given[:5]) < 1:
        raise BadRequest(f"{name}: expected a number from 1 to 1000, got {given[:80]!r}", status=400)
    return min(int(given[:5]), 1000)


def nested_count(usage: Mapping[str, Any], name: str, key: str) -> int:
    """A count inside a nested object of the usage; 0 if there is none."""
    inner = usage.get(name)
    number = inner.get(key) if isinstance(inner, dict) else None
    return number if isinstance(number, int) and number > 0 else 0


def sum_where(details: Any, key: str, value: str, counted: str) -> int:
    """The sum of `counted` over the items of a list where `key` has `value`."""
    if not isinstance(details, list):
        return 0
    found = (item.get(counted) for item in details if isinstance(item, dict) and item.get(key) == value)
    return sum(number for number in found if isinstance(number, int))


def tier_names(*given: Any) -> tuple[str, ...]:
    """The values that are non-empty strings."""
    return tuple(value for value in given if isinstance(value, str) and value)


class TextAnswer(NamedTuple):
    """What a proxy must know of an answer of plain text that it forwards: its usage, and the model that it names.

    Where clients refer to answers by id: its id, its text, and the ids of its items.
    """

    usage: Usage
    model: str | None = None
    id: str = ""
    text: str = ""
    items: tuple[str, ...] = ()


class Wire(Struct, frozen=True, kw_only=True):
    """Everything about one wire. See the module docstring.

    `refinements` are limits that differ for some models, by a pattern on the model id; `host_limits` are those that a
    host of this wire sets through a model's `compat`, in addition to those that `compat` sets on every wire.
    """

    api: str
    codec: Any  # a Dialect: a module or a Variant of one
    limits: TargetLimits
    refinements: tuple[Refinement, ...] = ()
    host_limits: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    vendor: str | None = None  # the family of its models, if there is only one
    aliases: tuple[str, ...] = ()  # of a plugin's wire; those of built-in wires are in `registry`
    calls_beside: bool = False  # messages have their calls in a field beside the content
    http: Http
    evidence: tuple[Evidence, ...] = ()
    is_detected: bool = True  # False if its bodies are indistinguishable from another wire's
    telemetry: str = ""  # gen_ai.provider.name, unless the provider row has one
    # Reads the residual of a usage in `extra`.
    usage_detail: Callable[[Mapping[str, Any]], UsageDetail] | None = None
    # Reads what changes the price, beside the service tier, from the residual of a request or of a response.
    modes: Callable[[Mapping[str, Any]], tuple[str, ...]] | None = None
    # Reads a whole answer that is plain text, ended as usual and has the ordinary price, without decoding it. None for
    # any other answer.
    text_answer: Callable[[bytes], TextAnswer | None] | None = None

    def __repr__(self) -> str:
        return f"Wire({self.api!r})"

    @property
    def name(self) -> str:
        return self.api

    @property
    def base(self) -> str:
        """The api of the codec: residuals of a variant are stored under the name of the original wire."""
        return self.limits.api

    def limits_for(self, model: ModelDescriptor) -> TargetLimits:
        """The limits of one model on this wire."""
        changes: dict[str, Any] = {}
        for pattern, refined in self.refinements:
            if re.search(pattern, model.id, re.IGNORECASE):
                changes |= refined
        if model.compat:
            changes |= self.host_limits(model.compat) if self.host_limits is not None else {}
            changes |= compat_limits(model.compat)
        return replace(self.limits, **changes) if changes else self.limits

    def error_response(self, error: ProviderError) -> tuple[int, bytes, dict[str, str]]:
        """An error as the provider sends it: status, body, and the headers that belong to it."""
        status, body = self.codec.encode_error(error)
        headers = retry_headers(error.retry_after)
        if self.http.error_headers is not None:
            headers |= self.http.error_headers(body)
        return status, jsontext.write(body), headers

    def variant(
        self,
        api: str,
        *,
        quirks: Mapping[str, Any] | None = None,
        framing: Callable[[str | None], Any] | None = None,
        reframe: Callable[[Any], bytes] | None = None,
        limits: Mapping[str, Any] | None = None,
        http: Mapping[str, Any] | None = None,
        **changes: Any,
    ) -> "Wire":
        """A variant of this wire under another name.

        `quirks`, `framing` and `reframe` change the codec; `limits` and `http` change single fields of theirs, and
        `changes` whole fields. The quirk `path` is the path of every request, with `{model}` for the model name.
        """
        module = self.codec.module if isinstance(self.codec, Variant) else self.codec
        own = self.codec.quirks if isinstance(self.codec, Variant) else {}
        codec = Variant(module, api, quirks={**own, **(quirks or {}), "api": api}, framing=framing, reframe=reframe)
        return replace(
            self,
            api=api,
            codec=codec,
            limits=replace(self.limits, **(limits or {})),
            http=replace(self.http, **(http or {})),
            **changes,
        )


class SessionStream(Protocol):
    """A session file as a stream of entries, for files that are too large to be in memory.

    `about` is what `decode` returns, without entries and head. `entries` reads the file again each time and yields the
    same entries as `decode`; `head` is known when it is exhausted.
    """

    about: Conversation
    head: str | None

    def entries(self) -> Iterator[Entry]:
        """The entries, in order."""
        ...


@runtime_checkable
class PartialStream(SessionStream, Protocol):
    """The same of a file that is kept as a template (`files.templates`), of which `about` has the beginning."""

    def extra(self) -> Extra:
        """That of the conversation: with all of the file, whose records are a `LongList`."""
        ...


class ListedSession(NamedTuple):
    """A file that is one JSON document with the list of its messages at the first of `keys`, or ("") that list itself.

    `stream` returns the same as `FileFormat.stream`, given the document without the items, and a function that reads
    the items again (`files.line_sessions.Listed`). `nodes` are keys of objects that have the messages as fields: their
    items are keys with values. `beside` are lists that repeat the messages: of these, the document has the first items.

    A key in an inner object is `outer.inner`; one in a list of one object begins with a dot.
    """

    keys: tuple[str, ...]
    stream: Callable[[Any, Callable[[], Iterable[Any]]], SessionStream | None]
    beside: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


class RecordLists(Protocol):
    """The lists of records in a file that holds several conversations (`files.reading.Tables`).

    A key of a list in an inner object is `outer.inner`, in the objects of a list `outer..inner`; "" is a file that is a
    list, or lines. `fields` are those of an object; for `name*`, those of the document that begin with the name.
    """

    def records(self, *keys: str) -> Iterator[Any]: ...
    def fields(self, node: str) -> Iterator[tuple[str, Any]]: ...
    def grouped(self, by: Callable[[Any], Any], *keys: str) -> Mapping[Any, list[Any]]: ...


class Parts(NamedTuple):
    """How the conversations of a large file are read one at a time, where one is not an item of an `array`.

    `read` yields them as `split` returns them, given the document without the records, and its `lists` and `nodes`.
    """

    read: Callable[[Any, RecordLists], Iterator[Any]]
    lists: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


class Relations(NamedTuple):
    """Where a session belongs: its id, the id of the session that started it, and where files of sub-agents may be.

    `places` are folders with the patterns of file names in them.
    """

    id: str | None
    parent: str | None = None
    places: tuple[tuple[PurePath, str], ...] = ()


class Rows(Struct, frozen=True, kw_only=True):
    """How the encoded pieces of a history make one JSON value: their items follow one another in its list.

    - `key`: that of the list, if more than the list differs between pieces.
    - `encoder` returns a function that encodes the pieces one after the other, given the conversation and its `Facts`
      (`files.new_sessions`); what is around the list is that of the last piece.
    - `number` returns an item that names its place in the list, at another one.
    - `last_apart`: an answer at the end of the history is not in the list.
    - `whole_turns`: one item has all rounds of calls and results of a turn, or a result is read by its order in it.
    - `beside`: the key of a second list, to whose items marks in those of the first refer by their order.
    - `fits`: whether an encoded piece has as many marks as items beside.
    """

    key: str | None = None
    encoder: Callable[[Conversation, Any], Callable[[Conversation], Encoded]] | None = None
    number: Callable[[Any, int], Any] | None = None
    last_apart: bool = False
    whole_turns: bool = False
    beside: str | None = None
    fits: Callable[[Any], bool] | None = None


class FileFormat(Struct, frozen=True, kw_only=True):
    """A file format: holds conversations and makes no calls.

    A document is the JSON value of a file (`Lines` for JSON lines), or a `str` if the format is `text`.

    - `detect` returns the reason why a document is in this format, or a false value. Formats are tried by `rank`, the
      most specific first.
    - `split` returns the conversations of a document that holds several, else None; each is decoded separately.
    - `array`: the key of the array that `split` divides (`outer.inner` in an inner object); the conversations of a
      large file are then read one by one.
    - `parts` does the same where the records of a conversation stand apart.
    - `sections` yields the conversations of a text that holds several, one at a time, given its lines.
    - `lines`: the file is JSON lines that form one conversation.
    - `mixed_lines`: lines name their conversation, so that those of several may stand in one file.
    - `writable`: any conversation can be encoded, not only one that was decoded from this format.
    - `archive` returns the documents in a zip, from its members by name, and `database` those in an SQLite file, from a
      read-only connection; both return None if the container is not of this format.
    - `write` encodes a conversation of another format where the codec only encodes its own; the conversation is first
      adapted for the wire `adapted_for`, if there is one.
    - `writer` is a class that writes the same as `write` message by message (`files.new_sessions.SessionWriter`).
    - `rows`: a conversation is a list of items or an object with one, and the items of each message depend on no other
      turn, but for what the `Rows` state.
    - `tree_writer` is a class that writes the same as the codec, with the branches, in three passes over the entries:
      `note` each (False if only the codec can write it), `look` at each and `close`, then the `parts` of the text
      (`TreeWriter` of `files.openclaw`, `CanvasWriter` of `files.llm_canvas`).
    - `copy` returns the lines that the codec encodes of a conversation of this format, given its entries one at a time;
      None if only the codec can. Losses of messages are reported without their places.
    - `mistakes` yields violations of the format's rules in a document: path, message, remedy.
    - `line_reader` returns a reader of single lines, given the first lines of a file, for indexing large files and
      files that are appended to; None if only `decode` can read the file. The second argument is the state to resume
      from.
    - `read` returns the same as `decode` from the lines of a file, faster; None if only `decode` can read the file.
    - `stream` returns the entries of a file one at a time, given a function that reads its lines again (those of a
      text with their ends); None if only `decode` can read the file.
    - `listed` does the same for files that are one JSON document with a list of messages.
    - `relations` returns how a conversation relates to others, given its path: programs write sub-agents to
      separate files.
    - `mask` is the field of an assistant's message that says with 0 or 1 whether it is trained on.
    - `training` maps rules for training rows to a severity ("error", "warning", "off") where a trainer's own format
      differs from the default (see `conversion.training`).
    """

    name: str
    codec: Any
    detect: Callable[[Any], Any] | None = None
    rank: int = 50
    split: Callable[[Any], Sequence[Any] | None] | None = None
    array: str | None = None
    parts: Parts | None = None
    sections: Callable[[Iterable[str]], Iterator[str]] | None = None
    archive: Callable[[Mapping[str, bytes]], Iterable[Any] | None] | None = None
    database: "Callable[[sqlite3.Connection], Iterable[Any] | None] | None" = None
    evidence: tuple[Evidence, ...] = ()
    lines: bool = False
    mixed_lines: bool = False
    text: bool = False
    writable: bool = True
    write: Callable[[Conversation], Encoded] | None = None
    adapted_for: str | None = None
    writer: Any = None
    rows: Rows | None = None
    tree_writer: Any = None
    copy: Callable[[Conversation, Iterable[Entry], Reporter], Iterator[dict[str, Any]] | None] | None = None
    mistakes: Callable[..., Iterable[tuple[str, str, str]]] | None = None
    line_reader: Callable[[Sequence[Any], dict[str, Any] | None], "LineReader | None"] | None = None
    read: Callable[[Iterable[bytes]], Conversation | None] | None = None
    stream: Callable[[Callable[[], Iterable[Any]]], SessionStream | None] | None = None
    listed: ListedSession | None = None
    relations: Callable[[Conversation, PurePath], Relations] | None = None
    mask: str | None = None
    training: Mapping[str, str] | None = None
    calls_beside: bool = False  # messages have their calls in a field beside the content
    stamps_ends: bool = False  # the time of a message is when it was complete

    @property
    def is_log(self) -> bool:
        """Whether the codec only encodes what it decoded: such files are the logs of another program."""
        return not self.writable or self.write is not None
