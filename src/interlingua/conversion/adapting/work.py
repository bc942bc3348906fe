"""The mutable state of a request while it is adapted: its messages, the changes, and the losses."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from operator import is_
from typing import Any, NamedTuple

from msgspec.structs import replace

from ...dialects import Wire
from ...dialects.foreign_blocks import understood
from ...dialects.generations import UNKNOWN, Generation, generation
from ...dialects.limits import TargetLimits
from ...dialects.registry import WIRES, canonical, family, limits_of, vendor
from ...values.compact import IdNumbers, IdSet, StringTable
from ...values.errors import InterlinguaError, unknown
from ...values.losses import Loss, Severity
from ...values.messages import (
    AssistantMessage,
    Block,
    CacheMarker,
    CustomMessage,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
)
from ...values.request import ModelDescriptor, OutputSchema, Request, ToolChoice, ToolSpec
from ..media import MediaFitter

# Texts that adapting inserts, and how they are marked.
NO_RESULT = "No result was recorded for this call. Do not assume that the tool ran or what it did."
NO_OUTPUT = "(no output)"
FAILED = "Error: "
CONTINUED = "(the conversation continues)"
RECEIVED = "I have the results."
GO_ON = "Go on from where your last message ends, without repeating any of it."
DOCUMENTS = "(see the documents)"
INVALID_ARGUMENTS = "invalid_arguments"  # the key under which a model sees arguments that are not a JSON object
SYNTHETIC = {"interlingua": {"synthetic": True}}
SHAPE = "shape"


class Turn:
    """A message under repair: its blocks, their positions in the source, and whether anything was changed."""

    __slots__ = ("at", "blocks", "changed", "message", "places")

    def __init__(self, at: int | None, message: Message, places: tuple[int | None, ...] | None = None) -> None:
        """`places` are the source positions of the blocks, if they differ; None for a block that was added."""
        self.at = at
        self.message: Any = message
        content = message.content
        self.blocks: list[Block] = [TextBlock(text=content)] if isinstance(content, str) else list(content or ())
        if at is None:
            self.places = [""] * len(self.blocks)
        elif places is not None:
            self.places = ["" if place is None else f"$.messages[{at}].content[{place}]" for place in places]
        elif isinstance(content, str):
            self.places = [f"$.messages[{at}].content"]
        else:
            self.places = [f"$.messages[{at}].content[{place}]" for place in range(len(self.blocks))]
        self.changed = False

    @property
    def path(self) -> str:
        return "$.messages" if self.at is None else f"$.messages[{self.at}]"

    @property
    def calls(self) -> list[ToolCall]:
        if not isinstance(self.message, AssistantMessage):
            return []
        return [block for block in self.blocks if isinstance(block, ToolCall)]

    def put(self, at: int, block: Block) -> None:
        self.blocks[at] = block
        self.changed = True

    def keep(self, kept: Collection[int]) -> None:
        """Drops all blocks except these."""
        if len(kept) < len(self.blocks):
            self.blocks, self.places = [self.blocks[at] for at in kept], [self.places[at] for at in kept]
            self.changed = True

    def set(self, **fields: Any) -> None:
        self.message = replace(self.message, **fields)

    def closed(self) -> Message:
        message: Message = self.message
        if not self.changed:
            return message
        content: Any = tuple(self.blocks)
        if isinstance(message.content, str) and len(content) == 1 and is_plain(content[0]):
            content = content[0].text
        return replace(message, content=content)


def is_plain(block: Block) -> bool:
    return isinstance(block, TextBlock) and block == TextBlock(text=block.text)


class EarlierIds:
    """The ids of calls in the pieces of a history before one: those that were given, and those that are sent."""

    def __init__(self, ids: StringTable) -> None:
        self._sent, self._given = IdSet(ids), IdNumbers(ids)

    def __contains__(self, id: object) -> bool:
        """Whether a call is sent with this id."""
        return id in self._sent

    def count(self, id: str) -> int:
        """Returns the number of calls with this id."""
        return self._given.get(id) or 0

    def add(self, messages: Iterable[Message], renamed: Mapping[str, str]) -> None:
        """Adds the calls of adapted messages; `renamed` maps new ids to those that were given."""
        for message in messages:
            for block in blocks_of(message.content) if isinstance(message, AssistantMessage) else ():
                if isinstance(block, ToolCall):
                    given = renamed.get(block.id, block.id)
                    self._sent.add(block.id)
                    self._given[given] = self.count(given) + 1


class Markers(NamedTuple):
    """The cache markers of a history up to a place in it."""

    before: int | None = None  # those of tools and system text; None before the first piece
    own: int = 0  # those of messages
    longest: CacheMarker | None = None  # the last one: no lifetime after it may be longer


class HistoryTotals(NamedTuple):
    """What a history has as a whole."""

    markers: int = 0  # in messages, as sent
    sent: int = 0  # tokens
    given: int = 0  # tokens before it was adapted


class Earlier:
    """What the pieces of a history before one leave to it; `totals` is None while they are counted."""

    def __init__(self, ids: StringTable, totals: HistoryTotals | None) -> None:
        self.totals = totals
        self.ids = EarlierIds(ids)
        self.media: MediaFitter | None = None
        self.markers = Markers()
        self.called: dict[str, None] = {}  # names of tools, where calls need definitions
        self.is_foreign: bool | None = None  # the turn that goes on; see `Work.is_foreign`

    def add(self, work: "Work", messages: Sequence[Message]) -> None:
        """Adds a piece, and the messages that were made of it."""
        self.ids.add(messages, work.ids)
        self.media, self.markers, self.called = work.media, work.markers, work.called
        self.is_foreign = work.is_foreign(work.turns[work.before : work.before + len(messages)])


class Work:
    """A request under repair, and the changes so far. `first` is the index of the first message in the source.

    `earlier` is given for a piece of a history.
    """

    def __init__(
        self,
        request: Request,
        target: ModelDescriptor | str,
        thinking: str,
        first: int = 0,
        earlier: Earlier | None = None,
    ) -> None:
        self.source = request
        self.model = _model(request, target)
        facts = _facts_of(self.model)
        self.rules, self.home, self.generation = facts.limits, facts.home, facts.generation
        if isinstance(target, str) and request.model.api != target:
            self.home = vendor(target) or self.home  # still the id of the model that is being replaced
            if request.model.api and family(self.model.id, None) not in self.rules.families:
                self.generation = UNKNOWN
        self.caching = False
        self.earlier = earlier
        self.before = 0  # messages that are none of the piece
        # What the target's limits on media leave.
        self.media = None if earlier is None or earlier.media is None else earlier.media.copy()
        self.markers = Markers() if earlier is None else earlier.markers
        self.called: dict[str, None] = {} if earlier is None else earlier.called
        self.is_marked = False  # whether there are markers to be adjusted
        self.custom: dict[str, str] = {}  # custom tools: the wire that supports them, "" where they are functions
        self.restored: dict[str, str] = {}  # of those that are functions, the wire that they come from
        self.warnings: list[Loss] = []
        self.thinking = thinking
        self.losses: list[Loss] = []
        self.turns: list[Turn] = []
        self.system = request.context.system
        self.tools = request.context.tools
        self.tool_places: list[int] | None = None  # if they were changed
        self.options = request.options
        self.foreign: set[Turn] = set()  # with thinking that the target cannot verify
        self.ids: dict[str, str] = {}
        self.names: dict[str, str] = {}
        for at, message in enumerate(request.context.messages, first):
            meant = understood(message)
            if meant is not None:
                self.lost(f"$.messages[{at}]", SHAPE, f"{meant.what}: read as what it means in other formats")
                self.turns += [Turn(at, given, places) for given, places in meant.messages]
            elif isinstance(message, CustomMessage):
                self.lost(f"$.messages[{at}]", "role", f"no model reads messages of the role {message.role}", "dropped")
            else:
                self.turns.append(Turn(at, message))

    def kinds(self) -> frozenset[type]:
        """The types of the request's messages and blocks, which select the passes to run."""
        found: set[type] = set()
        for turn in self.turns:
            found.add(type(turn.message))
            found.update(map(type, turn.blocks))
        if self.options.cache_retention is not None or self.has_markers():
            found.add(CacheMarker)
        if self.tools is not None or self.called:
            found.add(ToolSpec)
        if self.options.tool_choice is not None:
            found.add(ToolChoice)
        if self.options.output_schema is not None:
            found.add(OutputSchema)
        return frozenset(found)

    def has_markers(self) -> bool:
        """Whether anything has a cache marker."""
        for turn in self.turns:
            for block in turn.blocks:
                if getattr(block, "cache", None) is not None:
                    return True
            if type(turn.message) is ToolResultMessage and turn.message.cache is not None:
                return True
        holders = (*(self.tools or ()), *(self.system if isinstance(self.system, tuple) else ()))
        return bool(holders) and any(getattr(holder, "cache", None) is not None for holder in holders)

    def request(self) -> Request:
        source, context = self.source, self.source.context
        messages = tuple([turn.closed() for turn in self.turns])
        is_same = len(messages) == len(context.messages) and all(map(is_, messages, context.messages))
        if not (is_same and self.system is context.system and self.tools is context.tools):
            context = replace(context, system=self.system, messages=messages, tools=self.tools)
        if context is source.context and self.model is source.model and self.options is source.options:
            return source
        return replace(source, model=self.model, context=context, options=self.options)

    @property
    def open_foreign_turn(self) -> bool:
        """Whether results await a response in a turn whose thinking the target cannot verify, or that has none.

        The turn may have none because its beginning was compacted, or because thinking was enabled only later.
        """
        if not self.turns or not isinstance(self.turns[-1].message, ToolResultMessage):
            return False
        return self.is_foreign(self.turns[self.before :]) is not False

    def is_foreign(self, turns: Sequence[Turn]) -> bool | None:
        """Whether the target cannot verify the answers since the last user message; None if there are none."""
        users = (at for at in range(len(turns) - 1, -1, -1) if isinstance(turns[at].message, UserMessage))
        at = next(users, None)
        known = self.earlier.is_foreign if self.earlier is not None and at is None else None
        turn = turns if at is None else turns[at + 1 :]
        first = next((one for one in turn if isinstance(one.message, AssistantMessage)), None)
        if known or first is None:
            return known
        begins = known is False or (bool(first.blocks) and isinstance(first.blocks[0], ThinkingBlock))
        return not begins or not self.foreign.isdisjoint(turn)

    @property
    def has_server_history(self) -> bool:
        """Whether the target stores the earlier messages itself."""
        # OpenAI's `previous_response_id` and `conversation`, Google's `previous_interaction_id`: results may refer to
        # calls there.
        kept = self.source.extra.get(self.rules.api) or {}
        return any(kept.get(key) is not None for key in self.rules.server_history)

    def tool(self, at: int) -> str:
        """Returns the source path of a tool that is still offered."""
        return f"$.tools[{at if self.tool_places is None else self.tool_places[at]}]"

    def lost(self, path: str, what: str, why: str, severity: Severity = "weakened") -> None:
        if path.startswith("$"):  # without a place in the source it was added on the way, and loses nothing
            self.losses.append(Loss(path, what, why, severity))


class _Facts(NamedTuple):
    """What is derived from the description of a model, and copies of what it was derived from."""

    model: ModelDescriptor
    wire: Wire | None
    compat: dict[str, Any] | None
    extra: dict[str, Any]
    limits: TargetLimits
    home: str | None
    generation: Generation


_MAX_FACTS = 64
_FACTS: dict[int, _Facts] = {}  # by the identity of the model, which is kept and so stays unique


def _facts_of(model: ModelDescriptor) -> _Facts:
    """Returns the facts of a model. Connectors describe a model by the same value in every call, hence the cache."""
    wire, known = WIRES.get(model.api), _FACTS.get(id(model))
    if known is None or known.wire is not wire or known.compat != model.compat or known.extra != model.extra:
        known = _Facts(
            model=model,
            wire=wire,
            compat=deepcopy(model.compat),
            extra=deepcopy(model.extra),
            limits=limits_of(model),
            home=family(model.id, model.api),
            generation=generation(model),
        )
        if len(_FACTS) >= _MAX_FACTS:
            _FACTS.clear()
        _FACTS[id(model)] = known
    return known


def _model(request: Request, target: ModelDescriptor | str) -> ModelDescriptor:
    if isinstance(target, ModelDescriptor):
        return target
    target = canonical(target)
    if target not in WIRES:
        raise InterlinguaError(unknown("target", target, WIRES))
    return replace(request.model, api=target)


def system_blocks(system: Any) -> tuple[TextBlock, ...]:
    return tuple(block for block in blocks_of(system) if isinstance(block, TextBlock))
