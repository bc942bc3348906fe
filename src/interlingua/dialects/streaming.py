"""Base classes of the stream decoders and encoders: one terminal event in any case, and nothing after it."""

import abc
import contextlib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, TypeVar

import msgspec
from msgspec.structs import replace

from ..values import jsontext
from ..values.errors import BadWire, FormatError, InterlinguaError, ProviderError, TransportError
from ..values.events import (
    BlockEnd,
    BlockStart,
    Done,
    Error,
    Start,
    StreamEvent,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    message_in,
)
from ..values.folding import CUT_OFF, EventRecorder, parse_arguments
from ..values.losses import Encoded, Loss
from ..values.messages import AssistantMessage, Block, TextBlock, ThinkingBlock, ToolCall, blocks_of
from ..values.request import Request
from .codec import ANSWER
from .framing import Frame
from .provider_errors import as_provider_error, failure_of
from .residual import named

_decode = msgspec.json.Decoder().decode


class Decoder(abc.ABC):
    """Base of the stream decoders. A dialect implements `_read` for one frame, and `_finish` for the end."""

    API = ""

    def __init__(
        self,
        *,
        model: str | None = None,
        provider: str | None = None,
        timestamp: int | None = None,
        mint: Any = None,
        quirks: Mapping[str, Any] | None = None,
    ) -> None:
        api = quirks["api"] if quirks else self.API
        self._given = replace(ANSWER, extra={}, api=api, provider=provider, model=model, timestamp=timestamp)
        self._record = EventRecorder(self._given)
        self._mint = _numbered(mint)
        self._quirks = quirks
        self._frames = 0
        self.repaired: list[str] = []  # the paths of texts in frames that are no Unicode
        # The typed error of a stream that failed, unless the caller aborted it.
        self.failure: InterlinguaError | None = None

    def restoring(self, restore: Callable[[Block], Block] | None) -> None:
        """Sets a function that maps each block to the conversation's own form: see `Adapted.restore_block`."""
        self._record.restore = restore

    def scrubbing(self, scrub: Callable[[AssistantMessage], AssistantMessage]) -> None:
        """Sets a function that removes keys from each partial and from the final message, except the content."""
        self._record.scrub = scrub

    def feed(self, frame: Frame) -> list[StreamEvent]:
        """The events of this frame. A malformed frame ends the stream with an error event."""
        return self.feed_all((frame,))

    def feed_all(self, frames: Iterable[Frame]) -> list[StreamEvent]:
        """The events of several frames that arrived together."""
        record = self._record
        for frame in frames:
            if record.finished:
                break
            self._frames += 1
            data = frame.data
            try:
                try:  # as `jsontext.read`, without a call: a short frame cannot be nested too deeply
                    value = _decode(data)
                    if len(data) > jsontext.DEPTH_LIMIT:
                        jsontext.refuse_deep(value, data)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    if self._is_marker(data.strip()):
                        continue
                    with jsontext.Repairs() as repaired:
                        value = jsontext.read(data)
                    self._note_repairs(repaired)
                self._read(value, frame)
            except FormatError as error:
                self._unreadable(frame, error)
            except (KeyError, TypeError, AttributeError, ValueError, IndexError, RecursionError) as error:
                self._end_invalid(f"frame {self._frames} is malformed: {error!r}")
        events, record.out = record.out, []
        return events

    def _note_repairs(self, paths: Sequence[str]) -> None:
        self.repaired += paths
        jsontext.repairs().extend(paths)

    def _object_arguments(self, text: str, place: str) -> tuple[dict[str, Any], str | None]:
        """Arguments and parse error of a text that whole answers have as an object: the text itself is not kept."""
        arguments, spelled, broken = parse_arguments(text)
        if spelled is not None and broken is None:
            self._note_repairs(jsontext.repaired_in(text.encode(), place))
        return arguments, broken

    def close(self, error: str | None = None, *, aborted: bool = False) -> list[StreamEvent]:
        """The terminal event, unless `feed` gave it: the end of a complete answer, else an error."""
        self._conclude(error, aborted)
        return self._record.take()

    def _conclude(self, error: str | None = None, aborted: bool = False) -> None:
        if not self._record.finished:
            try:
                if error is None and not aborted and self._complete():
                    self._finish()
                else:
                    if error is None and not aborted:
                        self.failure = TransportError(CUT_OFF)
                    self._fail(error or ("aborted" if aborted else CUT_OFF), aborted=aborted)
            except (FormatError, KeyError, TypeError, AttributeError, ValueError, IndexError) as problem:
                self._end_invalid(f"malformed end of the stream: {problem!r}")

    @abc.abstractmethod
    def _read(self, value: Any, frame: Frame) -> None:
        """Handles one frame."""

    def _is_marker(self, text: bytes) -> bool:
        """Whether this is no JSON on purpose: `[DONE]`, with which OpenAI and many proxies end a stream."""
        return text == b"[DONE]"

    def _unreadable(self, frame: Frame, error: FormatError) -> None:
        """A frame that is not JSON."""
        self._end_invalid(f"frame {self._frames}: {error}")

    @abc.abstractmethod
    def _complete(self) -> bool:
        """Whether the answer is complete if no more frames come."""

    @abc.abstractmethod
    def _finish(self) -> None:
        """Ends the message with the content so far."""

    def _close_blocks(self) -> None:  # noqa: B027 - optional
        """Closes all open blocks."""

    def _answered(self, message: AssistantMessage) -> None:
        """Delivers an answer that came whole although a stream was requested."""
        for key, block in enumerate(blocks_of(message.content)):
            self._record.whole(key, block)
        self._record.end(message)

    def _failed(self, error: ProviderError) -> None:
        """Ends the stream with an error of the provider."""
        self.failure = error
        self._fail(error.message, detail=error.code)

    def _end_invalid(self, problem: str) -> None:
        """Ends a stream that violates its format."""
        self.failure = BadWire(self.API, problem)
        self._fail(f"{self.API}: {problem}")

    def _fail(self, message: str, *, aborted: bool = False, detail: str | None = None) -> None:
        # The recorder closes a malformed block with what was received.
        with contextlib.suppress(KeyError, TypeError, AttributeError, ValueError, IndexError):
            self._close_blocks()
        self._record.fail(message, aborted=aborted, detail=detail)


_Block = TypeVar("_Block")


class OpenBlocks(dict[int, _Block]):
    """The state of an encoder for each open block, by content index."""

    def __missing__(self, index: int) -> _Block:
        raise FormatError(f"event for block {index}, which never started; pass the events from the start on")

    def end(self, index: int) -> _Block:
        """Removes a block that ends, and returns its state."""
        block = self[index]
        del self[index]
        return block


class Encoder(abc.ABC):
    """Base of the stream encoders: dispatches each event to the method that writes it.

    Blocks are given whole, whether or not the event carries one. `request` is the client's request, which has the model
    name and the settings that an answer repeats.
    """

    encode_response: ClassVar[Callable[..., Encoded]]  # the dialect's, as a static method

    def __init__(self, *, request: Request | None = None, quirks: Mapping[str, Any] | None = None) -> None:
        self._request = request
        self._quirks = quirks
        self._closed = False
        self._latest: StreamEvent | None = None  # the last event that is not a delta: it has the message so far

    @property
    def losses(self) -> Sequence[Loss]:
        """The losses of the message so far, up to the block that began or ended last.

        After the terminal event they are those that `encode_response` reports for the message.
        """
        message = None if self._latest is None else message_in(self._latest)
        if message is None:
            return ()
        return self.encode_response(message, **({"quirks": self._quirks} if self._quirks else {})).losses

    def feed(self, event: StreamEvent) -> bytes:
        """The bytes for this event; none after the terminal event."""
        if self._closed:
            return b""
        kind = type(event)
        # Nearly all events are deltas; comparing types costs a third of what `match` does.
        if kind is TextDelta:
            return self._text(event.content_index, event.delta)  # type: ignore[union-attr]
        if kind is ThinkingDelta:
            return self._thinking(event.content_index, event.delta)  # type: ignore[union-attr]
        if kind is ToolCallDelta:
            return self._arguments(event.content_index, event.delta)  # type: ignore[union-attr]
        self._latest = event
        return self._dispatch(event)

    def _dispatch(self, event: StreamEvent) -> bytes:
        match event:
            case Start():
                return self._start(self._named(event.partial))
            case TextStart():
                return self._open_text(event.content_index, event.block or TextBlock(text=""))
            case ThinkingStart():
                return self._open_thinking(event.content_index, event.block or ThinkingBlock(thinking=""))
            case ToolCallStart():
                return self._open_call(event.content_index, event.block or ToolCall(id="", name="", arguments={}))
            case BlockStart():
                return self._open_block(event.content_index)
            case TextEnd():
                return self._end_text(event.content_index, event.block or TextBlock(text=event.content))
            case ThinkingEnd():
                return self._end_thinking(event.content_index, event.block or ThinkingBlock(thinking=event.content))
            case ToolCallEnd():
                return self._end_call(event.content_index, event.tool_call)
            case BlockEnd():
                return self._end_block(event.content_index, event.block)
            case Done():
                return self._finish(event.message)
            case Error():
                return self._finish(event.error) if self._is_stop(event.error) else self._fail(event.error)
            case (
                TextDelta() | ThinkingDelta() | ToolCallDelta()
            ):  # buffered, where a wire sends blocks one after the other
                return self.feed(event)

    def close(self) -> bytes:
        """Nothing after the terminal event; a stream without one ends with an error."""
        return self.fail(ProviderError(CUT_OFF))

    def fail(self, error: InterlinguaError) -> bytes:
        """Ends the stream with an error, under the wire's own code for its kind."""
        if self._closed:
            return b""
        encoded = self._failure(as_provider_error(error))
        self._closed = True
        return encoded

    def _fail(self, message: AssistantMessage) -> bytes:
        return self.fail(failure_of(message))

    def _finish(self, message: AssistantMessage) -> bytes:
        self._closed = True
        return self._end(self._named(message))

    def _named(self, message: AssistantMessage | None) -> AssistantMessage:
        return named(message or _NOTHING, self._request)

    # A dialect writes these.

    @abc.abstractmethod
    def _start(self, message: AssistantMessage) -> bytes:
        """The start of the answer; `message` has what is known of it."""

    @abc.abstractmethod
    def _text(self, index: int, text: str) -> bytes:
        """A delta of text."""

    @abc.abstractmethod
    def _thinking(self, index: int, text: str) -> bytes:
        """A delta of thinking."""

    def _arguments(self, index: int, text: str) -> bytes:
        """A delta of the JSON text of arguments."""
        return b""

    def _open_text(self, index: int, block: TextBlock, /) -> bytes:
        return b""

    @abc.abstractmethod
    def _open_thinking(self, index: int, block: ThinkingBlock, /) -> bytes: ...

    def _open_call(self, index: int, call: ToolCall, /) -> bytes:
        return b""

    def _open_block(self, index: int, /) -> bytes:
        """A block of any other kind begins; it is known at its end."""
        return b""

    def _end_text(self, index: int, block: TextBlock, /) -> bytes:
        return b""

    def _end_thinking(self, index: int, block: ThinkingBlock, /) -> bytes:
        return b""

    @abc.abstractmethod
    def _end_call(self, index: int, call: ToolCall, /) -> bytes: ...

    @abc.abstractmethod
    def _end_block(self, index: int, block: Block, /) -> bytes: ...

    @abc.abstractmethod
    def _end(self, message: AssistantMessage) -> bytes:
        """The end of the answer: its stop reason, its usage, and what no event before could carry."""

    @abc.abstractmethod
    def _is_stop(self, message: AssistantMessage) -> bool:
        """Whether the wire has a stop reason for how this message failed (a refusal), so that it is not an error."""

    @abc.abstractmethod
    def _failure(self, error: ProviderError) -> bytes:
        """The end of a stream that failed."""


_NOTHING = AssistantMessage(content=())


def _numbered(mint: Callable[..., str] | None) -> Callable[[int], str] | None:
    """An id factory that takes the number of the call; a zero-argument factory is wrapped."""
    if mint is None:
        return None
    make = mint
    try:
        takes_number = _takes_number(make)
    except TypeError:  # unhashable
        takes_number = _takes_number.__wrapped__(make)
    return make if takes_number else lambda number: make()


@functools.lru_cache(maxsize=32)  # connectors pass the same function with every call
def _takes_number(make: Callable[..., str]) -> bool:
    try:
        inspect.signature(make).bind(0)
    except TypeError:
        return False
    except ValueError:  # a C function without a signature
        pass
    return True
