"""A wire is one value: whatever the package wants to know about a provider's wire format, it asks the `Wire`.

A `Wire` holds the codec (pure translation), the limits of the target, the facts of its HTTP side, the tests that
recognise its bodies, its name in telemetry and how its usage is read beyond the four buckets. No other module has a
table keyed by the name of a wire, so a wire that a plugin registers works everywhere a built-in one does:

    il.wire("ollama-chat").variant("my-wire", http={"base": "/llm"})

A `FileFormat` is the same for a format that holds conversations and makes no calls.
"""

import functools
import re
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath
from types import ModuleType
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias
from urllib.parse import unquote

from msgspec import Struct
from msgspec.structs import replace

from ..values import jsontext
from ..values.errors import InterlinguaError, ProviderError
from ..values.events import StreamEvent
from ..values.losses import Encoded, Loss, SupportTable
from ..values.messages import AgentMessage, AssistantMessage, Block
from ..values.request import Conversation, ModelDescriptor, Request
from .framing import Frame, write_sse
from .limits import Refinement, TargetLimits, compat_limits

# What a codec offers, as protocols: modules satisfy them (mypy accepts that), and so do variants of modules.


class Framing(Protocol):
    """Bytes to frames, however the bytes are cut."""

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
    """Events to bytes. `losses` is what the wire could not carry of the message so far."""

    @property
    def losses(self) -> Sequence[Loss]: ...
    def fail(self, error: InterlinguaError) -> bytes: ...
    def feed(self, event: StreamEvent, /) -> bytes: ...
    def close(self) -> bytes: ...


class Dialect(Protocol):
    """What a wire dialect offers. A module satisfies it; so does a Variant of one."""

    API: str
    FIELD_SUPPORT: SupportTable
    UNEVEN: tuple[str, ...]

    def decode_request(self, body: Any, *, model: Any = None, stream: bool | None = None) -> Request: ...
    def encode_request(self, request: Request, *, strict: bool = False) -> Encoded: ...
    def decode_response(
        self, body: Any, *, model: str | None = None, provider: str | None = None, timestamp: int | None = None
    ) -> AssistantMessage: ...
    def encode_response(self, message: AssistantMessage, *, request: Request | None = None) -> Encoded: ...
    def framing(self, content_type: str | None = None) -> Framing: ...
    @property
    def StreamDecoder(self) -> Any: ...
    @property
    def StreamEncoder(self) -> Any: ...
    def decode_error(self, status: int, body: Any, headers: Any = ...) -> ProviderError: ...
    def encode_error(self, error: InterlinguaError) -> tuple[int, Any]: ...
    def path(self, model: str, stream: bool) -> str: ...
    def decode(self, data: Any) -> Conversation: ...
    def encode(self, conversation: Conversation) -> Encoded: ...


# The same wire under another name: other quirks, another framing, or an envelope around every body.


class Variant:
    """A module's dialect with its `api`, `quirks` and `framing` exchanged. All of the module's names are here."""

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
    """Takes the base encoder's bytes apart into frames and writes each in the variant's own way."""

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
    """One test by which a wire is recognised.

    `shape` says what the test is given: one AWS frame or one event of a recorded stream, one element of a list of
    chunks, a whole answer, a request body or bare list of messages, or (`plain`) messages of nothing but text, which
    several wires share. Tests of one shape are tried by `rank`, lowest first:
    the more particular a test, the lower its rank.
    """

    shape: Shape
    rank: int
    reason: str
    test: Callable[[Any], Any]


class Count(Struct, frozen=True, kw_only=True):
    """Counting the tokens of a request: its path, the request in the body of such a call, and the answer to it."""

    route: str
    request: Callable[[Any], Any] = lambda body: body
    answer: Callable[[int], dict[str, Any]]


class EmbeddingRoute(Struct, frozen=True, kw_only=True):
    """How a wire makes vectors of texts. `encode` takes the model's id, the texts and the wanted number of dimensions;
    `decode` gives the vectors and the tokens that were read, None where the wire does not tell. `batch` is how many
    texts one request for a model may have."""

    path: Callable[[str], str]
    encode: Callable[[str, Sequence[str], int | None], dict[str, Any]]
    decode: Callable[[Any], tuple[list[list[float]], int | None]]
    batch: Callable[[str], int]


class Rephrased(Struct, frozen=True, kw_only=True):
    """Another path of a wire for the same calls: its body as that of a call, each value of an answer as it says it."""

    route: str
    request: Callable[[Any], Any]
    answer: Callable[[Any], Any]


class Http(Struct, frozen=True, kw_only=True):
    """One wire over HTTP: what a client and a server must know beside the bodies.

    `route` matches the end of a path; its groups are the model and the verb, where the path has them. `base` goes
    between a server's own address and the codec's `path`; `streaming` is the verb that asks for a stream where the path
    says so; `stream_default` is what a body without `stream` means. `error_event` writes a failure in the middle of a
    stream: given the error, the number of events sent so far, and the body that the codec writes for the error.
    """

    route: str
    route_rank: int = 50  # among wires whose routes match the same part of a path, lowest first
    base: str = ""
    model_prefixes: tuple[str, ...] = ()  # before a model's name in a path
    auth: AuthStyle = "bearer"
    headers: Mapping[str, str] = {}  # sent with every request
    models_route: str = r"/models"
    models_path: str | None = None  # a cheap GET that only a valid key may make; None where there is none
    list_models: Callable[[Sequence[str]], dict[str, Any]]
    content_type: str = SSE
    charset: str = ""
    json_streams: bool = False  # a stream is a JSON array unless the query asks for server-sent events
    streaming: str | None = None
    stream_default: bool = False
    request_id: str = "x-request-id"
    response_id: str = ""
    ping: bytes = b": ping\n\n"
    usage_first: bool = False
    only_streams: bool = False  # the service gives no answer in one piece
    # What a call adds to a body that is neither the conversation's nor an option's, given the request as it was asked.
    complete_body: Callable[[Request, dict[str, Any]], dict[str, Any]] | None = None
    # Of a credential that is more than a key: the key alone, and the body with the rest of it.
    unpack_key: Callable[[str, dict[str, Any]], tuple[str, dict[str, Any]]] | None = None
    error_event: Callable[[ProviderError, int, Any], bytes] = lambda error, sent, body: write_sse(jsontext.write(body))
    error_headers: Callable[[Any], dict[str, str]] | None = None  # of an error's own, given its body
    embeddings: EmbeddingRoute | None = None
    # What a client has left of its limits, given `limit`, `remaining` and `reset` (seconds) of `requests`, `tokens`.
    rate_headers: Callable[[Mapping[str, Any]], dict[str, str]] | None = None
    # Where an answer, or an event of a stream, names the model: paths of keys.
    model_paths: tuple[tuple[str, ...], ...] = ()
    # The option by which a stream is asked to tell its usage, where it does not by itself; and what removes that again
    # from a frame of a stream (all of it, where it says nothing else).
    usage_option: tuple[str, str] | None = None
    without_usage: Callable[[bytes], bytes] | None = None
    request_headers: tuple[str, ...] = ()  # that belong to one request, and go on with it where the wire is the same
    count: "Count | None" = None  # asking how many tokens a request has
    rephrased: "Rephrased | None" = None
    # Answers that need no model, by method and path: given the names of the models and the body.
    fixed: Mapping[str, Callable[[Sequence[str], Any], Any]] = {}
    opening_event: bytes | None = None  # the name of an event that begins something, and comes once for each
    stored_route: str | None = None  # of an answer that is kept under its id; the groups are the id and what of it

    def model_in(self, path_part: str) -> str:
        """The model's name, out of what a path says."""
        name = unquote(path_part)
        for prefix in self.model_prefixes:
            name = name.removeprefix(prefix)
        return name


def retry_headers(seconds: float | None) -> dict[str, str]:
    """`retry-after` in whole seconds, rounded up; the exact wait beside it where that differs."""
    if seconds is None:
        return {}
    whole = int(-(-seconds // 1))
    exact = {} if whole == seconds else {"retry-after-ms": str(round(seconds * 1000))}
    return {"retry-after": str(whole), **exact}


class UsageDetail(Struct, frozen=True):
    """What an answer's usage says beyond the four buckets; each count is a part of its bucket.

    `tiers` are the names of the service that answered, where the usage tells it.
    """

    cache_write_1h: int = 0
    input_audio: int = 0
    cache_read_audio: int = 0
    output_audio: int = 0
    output_image: int = 0
    web_searches: int = 0
    tiers: tuple[str, ...] = ()


def nested_count(usage: Mapping[str, Any], name: str, key: str) -> int:
    """A count inside one of the objects of a usage; zero where there is none."""
    inner = usage.get(name)
    number = inner.get(key) if isinstance(inner, dict) else None
    return number if isinstance(number, int) and number > 0 else 0


def sum_where(details: Any, key: str, value: str, counted: str) -> int:
    """The sum over the items of a list that have this value under this key."""
    if not isinstance(details, list):
        return 0
    found = (item.get(counted) for item in details if isinstance(item, dict) and item.get(key) == value)
    return sum(number for number in found if isinstance(number, int))


def tier_names(*given: Any) -> tuple[str, ...]:
    """Those of the values that name a service tier."""
    return tuple(value for value in given if isinstance(value, str) and value)


class Wire(Struct, frozen=True, kw_only=True):
    """Everything about one wire. See the module's docstring.

    `refinements` are limits that differ for some models, by a pattern over the model's id; `host_limits` gives those
    that a host of this wire sets through a model's `compat`, beside the ones that `compat` sets on every wire.
    """

    api: str
    codec: Any  # a Dialect: a module or a Variant of one
    limits: TargetLimits
    refinements: tuple[Refinement, ...] = ()
    host_limits: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None
    vendor: str | None = None  # the family of the models that it serves, where it serves one
    aliases: tuple[str, ...] = ()  # other names of a plugin's wire; those of the built-in ones are in `registry`
    calls_beside: bool = False  # a message has its calls in a field beside the content
    http: Http
    evidence: tuple[Evidence, ...] = ()
    is_detected: bool = True  # False: its bodies look like another wire's, which is named instead
    telemetry: str = ""  # gen_ai.provider.name, where the provider's row does not say
    # Reads what the codec keeps of a usage in `extra`; the buckets themselves never overlap, whatever the wire counts.
    usage_detail: Callable[[Mapping[str, Any]], UsageDetail] | None = None

    def __repr__(self) -> str:
        return f"Wire({self.api!r})"

    @property
    def name(self) -> str:
        return self.api

    @property
    def base(self) -> str:
        """The api whose codec this is: a variant's residuals are filed under the name of the original."""
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
        """A relative of this wire under another name: `quirks`, `framing` and `reframe` change the codec, `limits` and
        `http` single facts of theirs, and `changes` whole fields. The quirk `path` is the path of every request, with
        `{model}` where the model's name goes."""
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


class Skim(Protocol):
    """The messages of a file line by line, without what only a return trip needs.

    `state` is what it knows of the lines so far, as JSON; `title` is that of the lines read. An answer of several lines
    is several messages with one `response_id` or, where it `joins`, several in a row; usage that has a line of its own
    is an answer without content and id.
    """

    joins: bool
    state: dict[str, Any]
    title: str | None

    def read(self, line: dict[str, Any]) -> list[tuple[str, AgentMessage]]:
        """The messages of a line, each with the id of its entry, or ""."""
        ...


class Kin(NamedTuple):
    """Where a session belongs: its id, the id of the session that started it, and where files of sub-agents may be.

    `places` are folders with the patterns of file names in them.
    """

    id: str | None
    parent: str | None = None
    places: tuple[tuple[PurePath, str], ...] = ()


class FileFormat(Struct, frozen=True, kw_only=True):
    """A format that holds conversations and makes no calls.

    A document is the JSON value of a file (`Lines` if it is JSON lines), or a `str` where the format is `text`.
    `detect` gives the reason why a document is in this format, or something false; formats are asked by `rank`, lowest
    first: the more particular the test, the lower. `split` gives the conversations of a document that holds several,
    else None; each is then decoded by itself. `lines` says that a file is JSON lines which together make one
    conversation. `writable` says that any conversation can be written, not only one that was read from it.

    `archive` gives the documents in a zip, from its members by name, and `database` those in an SQLite file, from a
    connection that can only read; both give None where the container is not of this format. Each document is one
    conversation for `decode`.

    `write` makes a file of a conversation that was not read from one, for a format whose codec only returns its own;
    the conversation is adapted for the wire `adapted_for` before, where one is named.

    `mistakes` gives what a document has against the rules of its format: where, what, and what to write instead.

    `skim` looks at the first lines of a file and gives a reader of single lines, for an index of large and growing
    files; None for a file that only `decode` can read. A second argument is the state from which it goes on.

    `read` gives what `decode` would of the lines of a file, faster; None for a file that only `decode` can read.

    `kin` says where a conversation belongs that was read from the file at a path; programs write sub-agents to files of
    their own.

    `training` says of a format that is a trainer's own how grave it is to break each rule for training rows, where
    that differs from what is common ("error", "warning" or "off"; see `conversion.training`).
    """

    name: str
    codec: Any
    detect: Callable[[Any], Any] | None = None
    rank: int = 50
    split: Callable[[Any], Sequence[Any] | None] | None = None
    archive: Callable[[Mapping[str, bytes]], Iterable[Any] | None] | None = None
    database: Callable[[sqlite3.Connection], Iterable[Any] | None] | None = None
    evidence: tuple[Evidence, ...] = ()
    lines: bool = False
    text: bool = False
    writable: bool = True
    write: Callable[[Conversation], Encoded] | None = None
    adapted_for: str | None = None
    mistakes: Callable[[Any], Iterable[tuple[str, str, str]]] | None = None
    skim: Callable[[Sequence[Any], dict[str, Any] | None], "Skim | None"] | None = None
    read: Callable[[Iterable[bytes]], Conversation | None] | None = None
    kin: Callable[[Conversation, PurePath], Kin] | None = None
    training: Mapping[str, str] | None = None
    calls_beside: bool = False  # a message has its calls in a field beside the content
