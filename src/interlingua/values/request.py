"""Requests to a model: context, options, tools and model descriptor; and the conversation they come from."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from msgspec import field
from msgspec.structs import force_setattr

from .errors import FormatError
from .messages import (
    AgentMessage,
    CacheMarker,
    Content,
    CustomMessage,
    Extra,
    Message,
    TextBlock,
    Usage,
    Value,
    text_of,
)

if TYPE_CHECKING:
    from .compact import IdNumbers

KnownApi: TypeAlias = Literal[
    "openai-completions",
    "openai-responses",
    "azure-openai-responses",
    "openai-codex-responses",
    "anthropic-messages",
    "bedrock-converse-stream",
    "google-generative-ai",
    "google-gemini-cli",
    "google-vertex",
    "google-interactions",
    "ollama-chat",
    "cohere-chat",
]
Api: TypeAlias = str  # open-ended: any string is valid, KnownApi lists the built-in ones

System: TypeAlias = str | tuple[TextBlock, ...] | None


def is_system(content: Content) -> bool:
    """Whether the content of a message can be the system text: text blocks, and nothing else."""
    return isinstance(content, str) or (
        isinstance(content, tuple) and all(isinstance(block, TextBlock) for block in content)
    )


class ModelCost(Value, frozen=True, kw_only=True):
    """Dollars per million tokens."""

    input: float | int
    output: float | int
    cache_read: float | int
    cache_write: float | int
    extra: Extra = {}


class ModelDescriptor(Value, frozen=True, kw_only=True):
    """A model, where it is served and what it supports. `compat` holds the quirks of its host, as data."""

    id: str
    name: str | None = None
    api: Api = ""
    provider: str = ""
    base_url: str | None = None
    reasoning: bool | None = None
    input: tuple[str, ...] | None = None
    cost: ModelCost | None = None
    context_window: int | None = None
    max_tokens: int | None = None
    headers: dict[str, str] | None = None
    compat: dict[str, Any] | None = None
    extra: Extra = {}


class ProviderConfig(Value, frozen=True, kw_only=True):
    """A provider's address and its models."""

    base_url: str | None = None
    api: Api | None = None
    models: tuple[ModelDescriptor, ...] | None = None
    extra: Extra = {}


AuthMode: TypeAlias = Literal["api-key", "oauth", "token", "mixed", "aws-sdk", "unknown"]


class ResolvedAuth(Value, frozen=True, kw_only=True):
    """A credential and its source (`env:ANTHROPIC_API_KEY`); `repr` never shows the key."""

    api_key: str | None = None
    profile_id: str | None = None
    source: str | None = None
    mode: AuthMode

    def __repr__(self) -> str:
        return f"ResolvedAuth(mode={self.mode!r}, source={self.source!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [("mode", self.mode), ("source", self.source)]


class ToolSpec(Value, frozen=True, kw_only=True):
    """A tool definition. A tool that the provider executes has `dialect` and `value`: that wire's own definition."""

    name: str
    description: str | None = None
    input_schema: Any = field(default=None, name="input_schema")
    strict: bool | None = None
    cache: CacheMarker | None = None
    dialect: str | None = None
    value: Any = None
    extra: Extra = {}


class ToolChoice(Value, frozen=True, kw_only=True):
    """Whether the model may, must or must not call a tool; `names` restricts the choice to these tools."""

    mode: Literal["auto", "none", "required"]
    names: tuple[str, ...] = ()
    extra: Extra = {}

    @classmethod
    def of(cls, choice: "str | ToolChoice") -> "ToolChoice":
        """Parses `auto`, `none`, `required` (or `any`); any other string is the name of the one tool to call."""
        if isinstance(choice, ToolChoice):
            return choice
        if choice in ("auto", "none", "required"):
            return cls(mode=choice)  # type: ignore[arg-type]
        if choice == "any":
            return cls(mode="required")
        return cls(mode="required", names=(choice,))


class Reasoning(Value, frozen=True, kw_only=True):
    """How much to reason: an `effort` level, a `budget` in tokens, or on or off; and how much of it to show."""

    effort: str | None = None
    budget: int | None = None
    enabled: bool | None = None
    summary: str | None = None
    extra: Extra = {}

    @classmethod
    def of(cls, reasoning: "str | int | bool | Reasoning") -> "Reasoning":
        """Parses an effort level, a token budget, or on/off."""
        if isinstance(reasoning, Reasoning):
            return reasoning
        if isinstance(reasoning, bool):
            return cls(enabled=reasoning)
        if isinstance(reasoning, int):
            return cls(budget=reasoning)
        return cls(enabled=False) if reasoning == "off" else cls(effort=reasoning)


class OutputSchema(Value, frozen=True, kw_only=True):
    """Structured output: a JSON Schema, or any JSON object when `schema` is absent."""

    schema: Any = None
    name: str | None = None
    description: str | None = None
    strict: bool | None = None
    extra: Extra = {}


class Options(Value, frozen=True, kw_only=True):
    """Request options that a wire can carry. `reasoning` and `tool_choice` also accept short forms."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            max_tokens: int | None = None,
            temperature: float | int | None = None,
            top_p: float | int | None = None,
            top_k: int | None = None,
            stop: str | Sequence[str] | None = None,
            seed: int | None = None,
            reasoning: str | int | bool | Reasoning | None = None,
            tool_choice: str | ToolChoice | None = None,
            parallel_tools: bool | None = None,
            output_schema: Mapping[str, Any] | OutputSchema | None = None,
            cache_retention: Literal["none", "short", "long"] | None = None,
            session_id: str | None = None,
            service_tier: str | None = None,
            metadata: dict[str, Any] | None = None,
            stream: bool | None = None,
            extra: Extra = {},  # noqa: B006
        ) -> None: ...

    max_tokens: int | None = None
    temperature: float | int | None = None
    top_p: float | int | None = None
    top_k: int | None = None
    stop: tuple[str, ...] | None = None
    seed: int | None = None
    reasoning: Reasoning | None = None
    tool_choice: ToolChoice | None = None
    parallel_tools: bool | None = None
    output_schema: OutputSchema | None = None
    cache_retention: Literal["none", "short", "long"] | None = None
    session_id: str | None = None
    service_tier: str | None = None
    metadata: dict[str, Any] | None = None
    stream: bool | None = None
    extra: Extra = {}

    def __post_init__(self) -> None:
        # Short forms are for Python callers; values from JSON already have their final type.
        if self.reasoning is not None and not isinstance(self.reasoning, Reasoning):
            force_setattr(self, "reasoning", Reasoning.of(self.reasoning))
        if self.tool_choice is not None and not isinstance(self.tool_choice, ToolChoice):
            force_setattr(self, "tool_choice", ToolChoice.of(self.tool_choice))
        if isinstance(self.output_schema, dict):
            force_setattr(self, "output_schema", OutputSchema(schema=self.output_schema))
        if isinstance(self.stop, str):
            force_setattr(self, "stop", (self.stop,))


class CallOptions(Value, frozen=True, kw_only=True):
    """How to make the call; codecs never see it, and `repr` never shows the key or the headers.

    `timeout` is in seconds, for the first event and every gap between events (or a `Timeouts`); `settings` fill the
    placeholders of a provider's URL (region, project, …); `env` replaces the environment; `on_payload` may replace the
    body before it is sent, `on_response` receives the status and the headers. `thinking="text"` sends reasoning that
    the model cannot verify as text; it is dropped otherwise.
    """

    api_key: str | None = None
    headers: dict[str, str] | None = None
    signal: Any = None
    timeout: Any = None
    base_url: str | None = None
    settings: dict[str, str] | None = None
    env: Any = None
    on_payload: Any = None
    on_response: Any = None
    thinking: Literal["drop", "text"] | None = None

    def __repr__(self) -> str:
        shown = [f for f in self.__struct_fields__ if getattr(self, f) is not None]
        return f"{type(self).__name__}({', '.join(f'{f}=…' for f in shown)})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        return [(name, "…") for name in self.__struct_fields__ if getattr(self, name) is not None]


class StreamOptions(Options, frozen=True, kw_only=True):
    """clawtools' options: both kinds in one value. `split()` separates request options from call options."""

    api_key: str | None = None
    headers: dict[str, str] | None = None
    signal: Any = None
    timeout: Any = None
    base_url: str | None = None
    settings: dict[str, str] | None = None
    env: Any = None
    on_payload: Any = None
    on_response: Any = None
    thinking: Literal["drop", "text"] | None = None

    @classmethod
    def of(cls, options: Options, call: CallOptions) -> "StreamOptions":
        """Joins both kinds."""
        return cls(
            **{name: getattr(options, name) for name in Options.__struct_fields__},
            **{name: getattr(call, name) for name in CallOptions.__struct_fields__},
        )

    def split(self) -> tuple[Options, CallOptions]:
        return (
            Options(**{name: getattr(self, name) for name in Options.__struct_fields__}),
            CallOptions(**{name: getattr(self, name) for name in CallOptions.__struct_fields__}),
        )

    def __repr__(self) -> str:
        options, call = self.split()
        return f"StreamOptions({options!r}, {call!r})"

    def __rich_repr__(self) -> list[tuple[str, Any]]:
        options, call = self.split()
        return [("options", options), ("call", call)]


class _ContextType(type(Value)):  # type: ignore[misc]
    """Accepts the argument forms of the clawtools documents. Decoding does not pass through here."""

    if not TYPE_CHECKING:  # type checkers read the signature of the class

        def __call__(cls, *messages: Any, system_prompt: Any = None, **fields: Any) -> Any:
            if messages:
                if len(messages) > 1 or "messages" in fields:
                    raise FormatError("a context has one list of messages; write Context([…])", "messages")
                fields["messages"] = messages[0]
            if system_prompt is not None:
                if fields.get("system") is not None:
                    raise FormatError("a context has one system text; give system or system_prompt, not both", "system")
                fields["system"] = system_prompt
            for name in ("messages", "tools"):
                value = fields.get(name)
                if isinstance(value, list):
                    fields[name] = tuple(value)
                elif value is not None and not isinstance(value, tuple):
                    raise FormatError(f"{name} of a context must be a list, not {type(value).__name__}", name)
            return super().__call__(**fields)


class Context(Value, frozen=True, kw_only=True, metaclass=_ContextType):
    """What the model reads: the system text, the messages, the tools.

    Pass the system text as `system`, or as `system_prompt`, its name in the clawtools documents. Messages and tools may
    be JSON, as these documents show them; they are parsed when they are sent. `system_role` is the wire's role for the
    system message if it is not the default (`developer`).
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            messages: Sequence[Message | Mapping[str, Any]],
            *,
            system: System = None,
            system_prompt: System = None,
            tools: Sequence[ToolSpec | Mapping[str, Any]] | None = None,
            system_role: str | None = None,
            extra: Extra = {},  # noqa: B006
        ) -> None: ...

    system: System = field(default=None, name="systemPrompt")
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] | None = None
    system_role: str | None = None
    extra: Extra = {}

    @property
    def system_prompt(self) -> str:
        """The system text, joined."""
        return text_of(self.system)


StreamContext = Context


class Request(Value, frozen=True, kw_only=True):
    """One call: the model, its context, and the options."""

    model: ModelDescriptor
    context: Context
    options: Options = Options()
    extra: Extra = {}


class Entry(Value, frozen=True, kw_only=True):
    """A message with its place in the tree: ids and parents belong to the transcript, not to the message.

    `parents` are the further parents of a merge, beside `parent_id`; no path follows them.
    """

    message: Message
    id: str | None = None
    parent_id: str | None = None
    parents: tuple[str, ...] = ()
    extra: Extra = {}


class Problem(Value, frozen=True, kw_only=True):
    """A part of a file that could not be read, with its line number (from 1) if the file has lines."""

    message: str
    line: int | None = None

    def __str__(self) -> str:
        return self.message if self.line is None else f"line {self.line}: {self.message}"


class Conversation(Value, frozen=True, kw_only=True):
    """A tree of entries. An entry without `id` or `parent_id` follows the entry before it.

    `head` is the id of the current entry; the last one if absent. `usage` is the total that the file itself states, if
    it states one; `problems` are the parts of the file that could not be read.
    """

    entries: tuple[Entry, ...] = ()
    head: str | None = None
    system: System = field(default=None, name="systemPrompt")
    tools: tuple[ToolSpec, ...] | None = None
    model: ModelDescriptor | None = None
    options: Options = Options()
    system_role: str | None = None
    title: str | None = None
    usage: Usage | None = None
    problems: tuple[Problem, ...] = ()
    extra: Extra = {}

    def __repr__(self) -> str:
        about = {"title": self.title, "model": self.model.id if self.model is not None else None, "head": self.head}
        given = [f"{name}={value!r}" for name, value in about.items() if value]
        return f"Conversation({', '.join([f'{len(self.entries)} entries', *given])})"

    @property
    def messages(self) -> tuple[AgentMessage, ...]:
        """The path from the root to the head."""
        return tuple(entry.message for entry in self.path())

    def path(self) -> tuple[Entry, ...]:
        """The entries from the root to the head, each the parent of the next."""
        if self.head is None and not any(map(_has_a_place, self.entries)):
            return self.entries
        tree = self.tree()
        at = tree.head
        path = []
        while at is not None:
            path.append(self.entries[at])
            at = tree.parents[at]
        return tuple(reversed(path))

    def _repr_html_(self) -> str:
        from .showing import messages_html  # only for notebooks

        return messages_html(self.messages, self.title)

    def _repr_markdown_(self) -> str:
        from .showing import messages_markdown

        return messages_markdown(self.messages, self.title)

    def tree(self) -> "EntryTree":
        """The parent of each entry, by index."""
        stated = ((entry.message, entry.id, _stated_parent(entry)) for entry in self.entries)
        return arrange(stated, self.head)

    def request(self) -> Request:
        """Returns the next request: the path to the head, with the conversation's system text, tools and options."""
        return Request(
            model=self.model or ModelDescriptor(id=""),
            context=Context(
                system=self.system,
                messages=self.messages,  # type: ignore[arg-type]
                tools=self.tools,
                system_role=self.system_role,
                extra=self.extra.get("context", {}),
            ),
            options=self.options,
            extra={k: v for k, v in self.extra.items() if k != "context"},
        )

    @classmethod
    def of(cls, request: Request) -> "Conversation":
        """Returns the conversation that `request()` turns into this request."""
        context = request.context
        extra = request.extra | ({"context": context.extra} if context.extra else {})
        return cls(
            entries=tuple(Entry(message=message) for message in context.messages),
            system=context.system,
            tools=context.tools,
            model=request.model,
            options=request.options,
            system_role=context.system_role,
            extra=extra,
        )


# Roles of entries beside the tree: they describe the session, and nothing follows them.
_ASIDES = frozenset({"session", "head", "label", "journal"})
_MARKS = frozenset({"branch", "note", "revision"})  # other programs have messages with such roles: ours have a `target`
FOLLOWS: Any = object()  # instead of a parent's id: follows the current entry


def is_aside(entry: Entry) -> bool:
    """Whether an entry describes the session and is not part of its conversation."""
    return _is_aside(entry.message, entry.id)


def _is_aside(message: AgentMessage, id: str | None) -> bool:
    if not isinstance(message, CustomMessage):
        return False
    return message.role in _ASIDES or (message.role in _MARKS and id is None and "target" in message.fields)


class EntryTree(NamedTuple):
    """The tree by index: the parent of each entry, the head before each entry, and the final head."""

    parents: list[int | None]
    stands: list[int | None]
    head: int | None


def arrange(
    entries: Iterable[tuple[AgentMessage, str | None, Any]], head: str | None = None, names: Mapping[str, int] = {}
) -> EntryTree:
    """Builds the tree from messages, their ids and the ids of their parents (None: a root, or FOLLOWS).

    A parent is always an earlier entry: an entry that names itself, a later entry or a missing one follows the entry
    before, so no path is circular. Entries beside the tree have no children. `names` are aliases of entries.
    """
    placer = Placer(names)
    parents: list[int | None] = []
    stands: list[int | None] = []
    for message, id, stated in entries:
        stands.append(placer.stand)
        parents.append(placer.add(message, id, stated))
    return EntryTree(parents, stands, placer.stand if head is None else placer.find(head))


class Placer:
    """The tree of `arrange`, one entry at a time. `stand` is the index of the current entry.

    `places` is an empty map for the indices of the entries by id, for trees that are too large for a `dict`.
    """

    __slots__ = ("_count", "_names", "_places", "stand")

    def __init__(self, names: Mapping[str, int] = {}, places: "IdNumbers | None" = None) -> None:
        self.stand: int | None = None
        self._names = names
        self._places: IdNumbers | dict[str, int | None] = {} if places is None else places
        self._count = 0

    def add(self, message: AgentMessage, id: str | None, stated: Any) -> int | None:
        """Returns the parent of the next entry."""
        at = self._count
        parent = self.stand if stated is FOLLOWS else None if stated is None else self.find(stated)
        self._count = at + 1
        if not _is_aside(message, id):
            self.stand = at
            if id is not None:
                self._places[id] = at
            return parent
        target = _target(message)
        if target is not FOLLOWS:
            self.stand = None if target is None else self.find(target)
        elif message.role == "journal":
            self.stand = parent
        if id is not None:
            self._places[id] = parent
        return parent

    def add_entry(self, entry: Entry) -> int | None:
        """Returns the parent of the next entry."""
        return self.add(entry.message, entry.id, _stated_parent(entry))

    def find(self, id: str) -> int | None:
        """Returns the entry with an id among those so far; the current one if there is none."""
        if id in self._places:
            return self._places[id]
        named = self._names.get(id, self._count)
        return named if named < self._count else self.stand


def _target(aside: Any) -> Any:
    """Returns the entry to which an entry beside the tree moves the head; None is before the first.

    A `head` entry names it; a second `session` line begins another conversation.
    """
    target = aside.fields.get("target", FOLLOWS) if aside.role == "head" else FOLLOWS
    return None if aside.role == "session" else target if isinstance(target, str | None) else FOLLOWS


def _has_a_place(entry: Entry) -> bool:
    """Whether an entry may be elsewhere than after the previous one; those of data sets may not."""
    return entry.id is not None or entry.parent_id is not None or isinstance(entry.message, CustomMessage)


def _stated_parent(entry: Entry) -> Any:
    """An entry with an id and no parent is a root; one without either, and one beside the tree, follows."""
    if entry.parent_id is not None:
        return entry.parent_id
    return FOLLOWS if entry.id is None or is_aside(entry) else None
