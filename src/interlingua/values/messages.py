"""The conversation format: content blocks, messages, usage. Plain frozen values; equal content is equal.

Python names are snake_case, JSON names camelCase. `extra` holds what only one dialect supports, under that dialect's
name, and nothing else. Identity (ids, parents) belongs to the transcript entry, not here.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

from msgspec import NODEFAULT, Struct, StructMeta
from msgspec.structs import FieldInfo
from msgspec.structs import fields as struct_fields

from .errors import FormatError

Extra: TypeAlias = dict[str, Any]
StopReason: TypeAlias = Literal["stop", "length", "toolUse", "error", "aborted"]
_SHOWN = 200  # characters of a text that a `repr` shows whole
_HEAD = 80  # of a longer one
_MAX_REPR = 1000  # characters of a whole `repr`, about
_DEEPEST_SHOWN = 12  # levels of it


def shown(value: Any) -> str:
    """Returns a short `repr`: long strings are truncated, further items are counted."""
    return _Shown().text(value)


class _Shown:
    """Writes one `repr`."""

    def __init__(self) -> None:
        self._room = _MAX_REPR
        self._depth = 0

    def text(self, value: Any) -> str:
        self._depth += 1
        try:
            return self._text(value) if self._depth <= _DEEPEST_SHOWN else "…"
        finally:
            self._depth -= 1

    def _text(self, value: Any) -> str:
        kind: Any = type(value)
        if isinstance(value, Struct) and kind.__repr__ in (shown, Struct.__repr__):  # it has none of its own
            self._room -= len(kind.__name__) + 2
            return f"{kind.__name__}({', '.join(self._each(given_fields(value), self._field))})"
        if kind in (tuple, list):
            opening, closing = "()" if kind is tuple else "[]"
            inner = ", ".join(self._each(value, self.text))
            return f"{opening}{inner}{',' if kind is tuple and len(value) == 1 else ''}{closing}"
        if kind is dict:
            return f"{{{', '.join(self._each(value.items(), self._item))}}}"
        text = repr(_cut(value)) if kind is str else repr(value)
        if kind is not str and len(text) > _MAX_REPR:
            text = _cut(text)
        self._room -= len(text)
        return text

    def _field(self, pair: tuple[str, Any]) -> str:
        self._room -= len(pair[0]) + 3
        return f"{pair[0]}={self.text(pair[1])}"

    def _item(self, pair: tuple[Any, Any]) -> str:
        return f"{self.text(pair[0])}: {self.text(pair[1])}"

    def _each(self, items: Collection[Any], write: Callable[[Any], str]) -> Iterator[str]:
        for at, item in enumerate(items):
            if self._room <= 0:
                yield f"… {len(items) - at:,} more"
                return
            yield write(item)


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_HEAD]}… ({len(text):,} characters)"


def given_fields(value: Struct) -> list[tuple[str, Any]]:
    """Returns the fields by name, without defaults for types with `repr_omit_defaults`."""
    known = {one.name: one for one in struct_fields(type(value))} if value.__struct_config__.repr_omit_defaults else {}
    return [
        (name, current)
        for name in value.__struct_fields__
        if not _is_default(current := getattr(value, name), known.get(name))
    ]


def _is_default(current: Any, field: FieldInfo | None) -> bool:
    if field is None or field.required:
        return False
    default = field.default_factory() if field.default is NODEFAULT else field.default
    return type(current) is type(default) and bool(current == default)


class Value(
    Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True, repr_omit_defaults=True
):
    """Base of everything that crosses a wire or a file: snake_case here, camelCase there.

    Strict on purpose: what this refuses is read again by the slow path (`canonical.load`), which stores unknown fields
    under `extra`.
    """

    __repr__ = shown

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(name, _cut(value) if isinstance(value, str) else value) for name, value in given_fields(self)]


class CacheMarker(Value, frozen=True, kw_only=True):
    """A prompt-cache breakpoint: everything up to and with the marked block may be cached."""

    ttl: str | None = None
    extra: Extra = {}


class Citation(Value, frozen=True, kw_only=True):
    """A source that a text block refers to. `start` and `end` are offsets into the citing text."""

    title: str | None = None
    url: str | None = None
    cited_text: str | None = None
    start: int | None = None
    end: int | None = None
    extra: Extra = {}


class _WithText(Value, frozen=True):
    """The field that `TextBlock("…")` takes by position."""

    text: str


class TextBlock(_WithText, frozen=True, kw_only=True, tag_field="type", tag="text"):
    """Text, positional or by name. `refusal` marks text in which the model declines to answer."""

    type: ClassVar[Literal["text"]] = "text"
    text_signature: str | None = None
    citations: tuple[Citation, ...] = ()
    refusal: bool = False
    cache: CacheMarker | None = None
    extra: Extra = {}


class _WithThinking(Value, frozen=True):
    """The field that `ThinkingBlock("…")` takes by position."""

    thinking: str


class ThinkingBlock(_WithThinking, frozen=True, kw_only=True, tag_field="type", tag="thinking"):
    """The model's reasoning. When `redacted`, the text is empty and the signature is the provider's sealed payload."""

    type: ClassVar[Literal["thinking"]] = "thinking"
    thinking_signature: str | None = None
    redacted: bool = False
    extra: Extra = {}


class ImageBlock(Value, frozen=True, kw_only=True, tag_field="type", tag="image"):
    """An image: base64 `data` with `mime_type`, or a `url`, or the `file_id` of an upload."""

    type: ClassVar[Literal["image"]] = "image"
    data: str | None = None
    mime_type: str | None = None
    url: str | None = None
    file_id: str | None = None
    detail: str | None = None
    cache: CacheMarker | None = None
    extra: Extra = {}


class AudioBlock(Value, frozen=True, kw_only=True, tag_field="type", tag="audio"):
    """Audio: base64 `data` with `mime_type`, or a `url`, or the `file_id` of an upload; `transcript` if known."""

    type: ClassVar[Literal["audio"]] = "audio"
    data: str | None = None
    mime_type: str | None = None
    url: str | None = None
    file_id: str | None = None
    transcript: str | None = None
    cache: CacheMarker | None = None
    extra: Extra = {}


class DocumentBlock(Value, frozen=True, kw_only=True, tag_field="type", tag="document"):
    """Any other file (PDF, plain text, video, …): base64 `data`, or `text`, or a `url`, or the `file_id` of an upload.

    `citations` requests citations from the model.
    """

    type: ClassVar[Literal["document"]] = "document"
    data: str | None = None
    mime_type: str | None = None
    text: str | None = None
    url: str | None = None
    file_id: str | None = None
    title: str | None = None
    context: str | None = None
    citations: bool | None = None
    cache: CacheMarker | None = None
    extra: Extra = {}


class ToolCall(Value, frozen=True, kw_only=True, tag_field="type", tag="toolCall"):
    """A tool call for us to execute.

    `arguments_text` is the wire's own spelling, kept if it differs from compact JSON. With `parse_error`, that text is
    not a JSON object: `arguments` is `{}` and the call must not be executed.
    """

    type: ClassVar[Literal["toolCall"]] = "toolCall"
    id: str
    name: str
    arguments: dict[str, Any]
    arguments_text: str | None = None
    parse_error: str | None = None
    thought_signature: str | None = None
    cache: CacheMarker | None = None
    extra: Extra = {}


class ServerToolCall(Value, frozen=True, kw_only=True, tag_field="type", tag="serverToolCall"):
    """A call that the provider executes itself (web search, code execution, …)."""

    type: ClassVar[Literal["serverToolCall"]] = "serverToolCall"
    id: str
    name: str
    arguments: Any = None
    cache: CacheMarker | None = None
    extra: Extra = {}


class ServerToolResult(Value, frozen=True, kw_only=True, tag_field="type", tag="serverToolResult"):
    """The result of a provider's own tool. `content` is the provider's JSON, in the terms of `dialect`."""

    type: ClassVar[Literal["serverToolResult"]] = "serverToolResult"
    tool_call_id: str
    tool_name: str
    dialect: str
    content: Any = None
    is_error: bool = False
    cache: CacheMarker | None = None
    extra: Extra = {}


class OpaqueBlock(Value, frozen=True, kw_only=True, tag_field="type", tag="opaque"):
    """A block of `dialect` that is not modelled here: returned unchanged to that dialect, and to no other."""

    type: ClassVar[Literal["opaque"]] = "opaque"
    dialect: str
    value: Any
    extra: Extra = {}


Block: TypeAlias = (
    TextBlock
    | ThinkingBlock
    | ImageBlock
    | AudioBlock
    | DocumentBlock
    | ToolCall
    | ServerToolCall
    | ServerToolResult
    | OpaqueBlock
)
Content: TypeAlias = str | tuple[Block, ...] | None
Given: TypeAlias = str | Sequence[Block] | None  # accepted as content when a message is constructed
_BLOCKS = frozenset(get_args(Block))


class Cost(Value, frozen=True, kw_only=True):
    """Cost in dollars. The parts are absent if only the total is known."""

    input: float | int | None = None
    output: float | int | None = None
    cache_read: float | int | None = None
    cache_write: float | int | None = None
    total: float | int
    extra: Extra = {}


class Usage(Value, frozen=True, kw_only=True):
    """Tokens in disjoint buckets: `input` excludes cache reads and writes.

    `total_tokens` is all input plus output; `reasoning` is the part of `output` spent on thinking, where reported. An
    absent `cost` means unknown, never zero.
    """

    input: int
    output: int
    cache_read: int
    cache_write: int
    total_tokens: int
    cost: Cost | None = None
    reasoning: int | None = None
    extra: Extra = {}

    @classmethod
    def of(
        cls,
        input: int = 0,
        output: int = 0,
        *,
        cache_read: int = 0,
        cache_write: int = 0,
        total_tokens: int | None = None,
        reasoning: int | None = None,
        cost: Cost | None = None,
        extra: Extra | None = None,
    ) -> "Usage":
        """Returns a Usage, with the total computed if the source has none."""
        if total_tokens is None:
            total_tokens = input + cache_read + cache_write + output
        return cls(
            input=input,
            output=output,
            cache_read=cache_read,
            cache_write=cache_write,
            total_tokens=total_tokens,
            reasoning=reasoning,
            cost=cost,
            extra=extra or {},
        )


_make: Any = StructMeta.__call__


class _MessageType(StructMeta):
    """Accepts content as the first argument, and validates it when a message is constructed in Python.

    Decoding does not pass through here.
    """

    if not TYPE_CHECKING:  # type checkers read the signature of the class

        def __call__(cls, *contents: Any, **fields: Any) -> Any:
            if contents:
                if len(contents) > 1 or "content" in fields:
                    raise FormatError(
                        f"{cls.__name__} has one content; give blocks as a list: {cls.__name__}([…])", "content"
                    )
                fields["content"] = contents[0]
            if cls is ToolResultMessage:
                fields.setdefault("is_error", False)
            content = fields.get("content")
            if content is not None and type(content) is not str:
                fields["content"] = checked_content(content, cls.__name__)
            return _make(cls, **fields)


def checked_content(content: Any, owner: str) -> Any:
    """Returns content as a string, None or a tuple of blocks; a list becomes a tuple."""
    if (
        content is None
        or isinstance(content, str)
        or (type(content) is tuple and _BLOCKS.issuperset(map(type, content)))
    ):
        return content
    if not isinstance(content, (list, tuple)):
        what = type(content).__name__
        raise FormatError(f"content of {owner} must be a string or blocks, not {what}; write a TextBlock(…)", "content")
    for at, block in enumerate(content):
        if not isinstance(block, Value) or type(block) not in _BLOCKS:
            what = type(block).__name__
            raise FormatError(f"{what} is not a block; write TextBlock(…), image(…) or document(…)", f"content[{at}]")
    return tuple(content)


class MessageBase(Value, frozen=True, kw_only=True, metaclass=_MessageType):
    """Base of the messages: `role` is the role in JSON, `text` all text blocks, joined."""

    @property
    def role(self) -> str:
        return str(self.__struct_config__.tag)

    @property
    def text(self) -> str:
        return text_of(self.content)  # type: ignore[attr-defined]

    def _repr_html_(self) -> str:
        from .showing import message_html  # only for notebooks

        return message_html(self)

    def _repr_markdown_(self) -> str:
        from .showing import message_markdown

        return message_markdown(self)


class UserMessage(MessageBase, frozen=True, kw_only=True, tag_field="role", tag="user"):
    """A user's message, or one that a program added for the model to read: `origin` is then "program"."""

    if TYPE_CHECKING:

        def __init__(
            self,
            content: Given,
            *,
            timestamp: int | None = None,
            origin: str | None = None,
            extra: Extra = {},  # noqa: B006
        ) -> None: ...

    content: Content
    timestamp: int | None = None
    origin: str | None = None
    extra: Extra = {}


class AssistantMessage(MessageBase, frozen=True, kw_only=True, tag_field="role", tag="assistant"):
    """One response. `api`, `provider` and `model` identify the source; `stop_detail` is the provider's own stop reason.

    `model` is the requested model; `response_model` the one that responded, where the wire reports another.
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            content: Given,
            *,
            api: str | None = None,
            provider: str | None = None,
            model: str | None = None,
            usage: Usage | None = None,
            stop_reason: StopReason | None = None,
            stop_detail: str | None = None,
            error_message: str | None = None,
            timestamp: int | None = None,
            response_id: str | None = None,
            response_model: str | None = None,
            extra: Extra = {},  # noqa: B006
        ) -> None: ...

    content: Content
    api: str | None = None
    provider: str | None = None
    model: str | None = None
    usage: Usage | None = None
    stop_reason: StopReason | None = None
    stop_detail: str | None = None
    error_message: str | None = None
    timestamp: int | None = None
    response_id: str | None = None
    response_model: str | None = None
    extra: Extra = {}

    @property
    def thinking(self) -> str:
        """All thinking of the response, joined by blank lines."""
        return "\n\n".join(b.thinking for b in blocks_of(self.content) if isinstance(b, ThinkingBlock) and b.thinking)

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple([b for b in blocks_of(self.content) if isinstance(b, ToolCall)])


class ToolResultMessage(MessageBase, frozen=True, kw_only=True, tag_field="role", tag="toolResult"):
    """The result of a tool call. `details` is for programs and never sent to a model."""

    if TYPE_CHECKING:

        def __init__(
            self,
            content: Given,
            *,
            tool_call_id: str,
            tool_name: str | None = None,
            details: Any = None,
            is_error: bool = False,
            timestamp: int | None = None,
            cache: CacheMarker | None = None,
            extra: Extra = {},  # noqa: B006
        ) -> None: ...

    tool_call_id: str
    tool_name: str | None = None
    content: Content
    details: Any = None
    is_error: bool  # required in JSON, so that a plain `false` is still written; defaults to False in Python
    timestamp: int | None = None
    cache: CacheMarker | None = None
    extra: Extra = {}


class SystemMessage(MessageBase, frozen=True, kw_only=True, tag_field="role", tag="system"):
    """Instructions after the system prompt. `developer` if the wire's role is `developer`."""

    if TYPE_CHECKING:

        def __init__(
            self,
            content: Given,
            *,
            developer: bool = False,
            timestamp: int | None = None,
            extra: Extra = {},  # noqa: B006
        ) -> None: ...

    content: Content
    developer: bool = False
    timestamp: int | None = None
    extra: Extra = {}


Message: TypeAlias = UserMessage | AssistantMessage | ToolResultMessage | SystemMessage


class CustomMessage:
    """A message with an unknown role: `role`, and its other fields unchanged.

    Not a Struct: its JSON is flat, with the fields beside the role.
    """

    __slots__ = ("fields", "role")

    def __init__(self, role: str, fields: dict[str, Any] | None = None) -> None:
        self.role = role
        self.fields = fields or {}

    @property
    def text(self) -> str:
        """Its `content` if that is text: every message has `text`."""
        content = self.fields.get("content")
        return content if isinstance(content, str) else ""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CustomMessage):
            return NotImplemented
        return self.role == other.role and self.fields == other.fields

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"CustomMessage(role={self.role!r}, fields={shown(self.fields)})"


AgentMessage: TypeAlias = Message | CustomMessage


class ReplyPayload(Value, frozen=True, kw_only=True):
    """The payload returned to a channel after an agent run."""

    text: str | None = None
    media_url: str | None = None
    media_urls: tuple[str, ...] | None = None
    reply_to_id: str | None = None
    is_error: bool | None = None
    extra: Extra = {}


# Model names of text that programs insert as an assistant message: Claude Code for errors and notices, OpenClaw for
# copies of what it delivered and for what its gateway added.
PROGRAM_MARKS = frozenset({"<synthetic>", "delivery-mirror", "gateway-injected"})


def model_of(message: Any) -> str | None:
    """Returns the model that wrote a message; None if it has none, is not a response, or was written by a program."""
    model = message.model if isinstance(message, AssistantMessage) else None
    return None if model in PROGRAM_MARKS else model or None


def blocks_of(content: Content) -> tuple[Block, ...]:
    """Returns content as blocks, in either spelling."""
    if content is None:
        return ()
    if isinstance(content, str):
        return (TextBlock(text=content),)
    return content


def text_of(content: Content) -> str:
    """Returns the joined text of content."""
    if isinstance(content, str):
        return content
    return "".join(b.text for b in content or () if isinstance(b, TextBlock))


def error_beside(message: AssistantMessage) -> str | None:
    """Returns the error of an answer, None if there is none or its text says it already.

    Claude Code writes an error of the provider as an answer, whose text it is.
    """
    error = message.error_message
    return error if error and error.strip() != text_of(message.content).strip() else None


# The formal specification's names for the same values.
TextContent = TextBlock
ThinkingContent = ThinkingBlock
ImageContent = ImageBlock
