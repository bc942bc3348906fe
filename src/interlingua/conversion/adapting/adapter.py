"""`adapt`: makes a request valid for another model. The only place that repairs, on a copy, and every change is
reported.

The passes run in a fixed order, and none undoes an earlier one: running them twice changes nothing, and a longer
history never changes how a shorter one was adapted (providers cache by prefix).
"""

import functools
import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Literal, NamedTuple, get_args

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...values import jsontext
from ...values.losses import Loss
from ...values.messages import (
    AssistantMessage,
    Block,
    CacheMarker,
    Content,
    DocumentBlock,
    OpaqueBlock,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
    shown,
)
from ...values.request import ModelDescriptor, Options, OutputSchema, Request, ToolChoice, ToolSpec
from ...values.tokens import taken
from ..inputs import Given, request_of
from ..media import MEDIA
from .blocks import (
    accompany_documents,
    clean_text,
    drop_unsupported,
    fit_arguments,
    fit_media,
    mark_failures,
    move_result_media,
)
from .cache_markers import FIT_MARKERS, move_from_thinking, place_markers
from .options import fit_options
from .pairing import drop_failed, pair
from .tools import fit_schemas, marked_custom, rename_ids, rename_tools
from .turns import end_with_user, part_results_from_user, place_system, take_turns, verify_thinking
from .work import SHAPE, Earlier, HistoryTotals, Work


class Adapted(tuple[Request, tuple[Loss, ...]]):
    """`(request, losses)`, and the way back: from ids, tool names and paths on the wire to the conversation's own."""

    ids: dict[str, str]
    names: dict[str, str]
    warnings: tuple[Loss, ...]  # what may be lost at the target, and no repair can prevent
    places: tuple[int | None, ...]  # the source index of each message; None if it was added
    _blocks: tuple[list[str], ...] | None  # None: every block is at its original index
    _tools: list[int] | None
    _system_moved: bool
    _custom: dict[str, str]
    before: int = 0  # messages before the piece of a history that this is, which are none of it
    work: Work | None = None  # for the pieces after it
    stages: tuple[int, ...] = ()  # for each loss of a piece, the pass that reported it
    _first: int = 0
    _shift: int = 0  # of the messages of an unchanged piece

    def __new__(cls, work: Work) -> "Adapted":
        made = super().__new__(cls, (work.request(), tuple(dict.fromkeys(work.losses)) if work.losses else ()))
        made.ids = work.ids
        made.names = work.names
        made.warnings = tuple(work.warnings)
        made._custom = work.restored
        made.places = tuple([turn.at for turn in work.turns])
        made._blocks = tuple([turn.places for turn in work.turns])
        made._tools = work.tool_places
        made._system_moved = work.system != work.source.context.system
        return made

    @classmethod
    def with_same_messages(cls, request: Request, losses: tuple[Loss, ...]) -> "Adapted":
        """Returns a copy with another request, of which only options were changed."""
        made = super().__new__(cls, (request, losses))
        made.ids, made.names, made._custom = {}, {}, {}
        made.warnings = ()
        made.places = tuple(range(len(request.context.messages)))
        made._blocks, made._tools, made._system_moved = None, None, False
        return made

    def __repr__(self) -> str:
        return shown(tuple(self))

    @property
    def request(self) -> Request:
        return self[0]

    @property
    def losses(self) -> tuple[Loss, ...]:
        return self[1]

    def source(self, path: str) -> str | None:
        """Maps a path in the adapted request to the source; None for what was added."""
        match = _IN_MESSAGES.fullmatch(path)
        if match is None:
            return self._source_elsewhere(path)
        turn, block, rest = int(match[1]), match[2], match[3]
        if self._blocks is None:
            path = f"$.messages[{turn + self._shift}]{path[path.index(']') + 1 :]}" if self._shift else path
            is_text = block is not None and isinstance(self.request.context.messages[turn].content, str)
            return f"$.messages[{turn + self._shift}].content{rest}" if is_text else path
        if block is not None:
            place = self._blocks[turn][int(block)]
            return place + rest if place else None
        at = self.places[turn]
        return None if at is None else f"$.messages[{at}]{rest}"

    def _source_elsewhere(self, path: str) -> str | None:
        if self._system_moved and path.startswith("$.system["):
            return "$.system"
        match = _IN_TOOLS.fullmatch(path)
        if match is None or self._tools is None:
            return path
        at = int(match[1])
        return f"$.tools[{self._tools[at]}]{match[2]}" if at < len(self._tools) else None

    def is_own(self, path: str) -> bool:
        """Whether a path of the source is none of a message before the piece."""
        match = _IN_MESSAGES.fullmatch(path)
        return not path.startswith("$.messages[-") and (match is None or int(match[1]) >= self._first)

    def restore(self, message: AssistantMessage) -> AssistantMessage:
        """Restores the conversation's own tool names and tool kinds in a response to the adapted request."""
        restore = self.restore_block
        if restore is None or not any(restore(call) is not call for call in message.tool_calls):
            return message
        return replace(message, content=tuple(map(restore, blocks_of(message.content))))

    @property
    def restore_block(self) -> Callable[[Block], Block] | None:
        """Returns what `restore` does to each block of a response; None if it does nothing."""
        return self._restored if self.names or self._custom else None

    def _restored(self, block: Block) -> Block:
        if not isinstance(block, ToolCall):
            return block
        if block.name in self.names:
            block = replace(block, name=self.names[block.name])
        return marked_custom(block, self._custom[block.name]) if block.name in self._custom else block


_IN_MESSAGES = re.compile(r"\$\.messages\[(\d+)\](?:\.content\[(\d+)\])?(.*)", re.DOTALL)


_IN_TOOLS = re.compile(r"\$\.tools\[(\d+)\](.*)", re.DOTALL)


def adapt(
    request: Given,
    target: ModelDescriptor | str,
    *,
    thinking: Literal["drop", "text"] = "drop",
    caching: bool = False,
) -> Adapted:
    """Returns the request as `target` (a model, or the name of a dialect) accepts it, and the losses.

    Messages, a `Context` and a `Conversation` are accepted as requests.

    `thinking` decides what happens to reasoning that the target cannot verify: dropped, or turned into plain text. With
    `caching`, `options.cache_retention` becomes cache markers where the provider caches only what is marked.
    """
    work = Work(request if isinstance(request, Request) else request_of(request), target, thinking)
    work.caching = caching
    for repair in _passes_for(work.kinds()):
        repair(work)
    return Adapted(work)


def adapt_piece(request: Request, target: ModelDescriptor | str, first: int, before: int, earlier: Earlier) -> Adapted:
    """Adapts a piece of a history: `first` is its place there, and the first `before` messages are none of it."""
    work = Work(request, target, "drop", first - before, earlier)
    work.before = before
    stages = [-1] * len(work.losses)
    for repair in _passes_for(work.kinds()):
        repair(work)
        stages += [_STAGES[repair]] * (len(work.losses) - len(stages))
    made = Adapted(work)
    made.before, made._first, made.work = before, first, work
    reported = dict(zip(reversed(work.losses), reversed(stages), strict=True))  # the first of equal losses
    made.stages = tuple(reported[loss] for loss in made.losses)
    return made


def unchanged_piece(request: Request, first: int, before: int) -> Adapted:
    """A piece of a history that is not adapted; see `adapt_piece`."""
    made = Adapted.with_same_messages(request, ())
    made.before, made._first, made._shift = before, first, first - before
    return made


def structural_repairs(request: Request) -> tuple[Loss, ...]:
    """Repairs that every target needs: calls without results, results without calls, order, ids."""
    return tuple(repair_structure(request).work.losses)


class Structure(NamedTuple):
    """A request with structural repairs, and the number of losses before ids were renamed."""

    work: Work
    paired: int


def repair_structure(request: Request, first: int = 0) -> Structure:
    """Makes structural repairs; `first` is the index of the first message in the source."""
    work = Work(request, ModelDescriptor(id="", api=""), "drop", first)
    drop_failed(work)
    # Failed turns are valid in a transcript, and so are an application's own roles.
    work.losses = [loss for loss in work.losses if loss.what == SHAPE]
    pair(work)
    paired = len(work.losses)
    rename_ids(work)
    return Structure(work, paired)


def _warn_of_overflow(work: Work) -> None:
    """Warns if the host truncates the input silently; other hosts refuse it."""
    window = work.model.context_window or work.rules.default_window
    size = 0
    if work.rules.default_window is not None:
        size = taken(work.source.context) if work.earlier is None else (work.earlier.totals or HistoryTotals()).given
    if window is not None and size > window:
        why = f"about {size} tokens, of which the host reads {window}: it leaves out the beginning in silence"
        work.warnings.append(Loss("$.messages", "window", why, "weakened"))


_CALLS = (ToolCall, ToolResultMessage)  # a call without a result gets one
# Each pass with the kinds of values that it is for; it does not run for requests that have none. None: any request.
PASSES: tuple[tuple[Callable[[Work], None], tuple[type, ...] | None], ...] = (
    (drop_failed, (AssistantMessage,)),
    (pair, _CALLS),
    (drop_unsupported, tuple({*get_args(Block)} - {TextBlock})),  # every role has text
    (place_system, (SystemMessage,)),
    (fit_media, MEDIA),
    (verify_thinking, (AssistantMessage,)),  # what follows it may be a text in place of media, and blank
    (fit_arguments, (ToolCall,)),
    (clean_text, None),
    (mark_failures, _CALLS),
    (rename_ids, _CALLS),
    (rename_tools, (ToolSpec, ToolChoice, *_CALLS)),
    (move_result_media, _CALLS),
    (take_turns, None),
    (part_results_from_user, _CALLS),
    (accompany_documents, (DocumentBlock,)),
    (place_markers, (CacheMarker,)),
    (move_from_thinking, (ThinkingBlock, OpaqueBlock)),
    *((repair, (CacheMarker, ThinkingBlock, OpaqueBlock)) for repair in FIT_MARKERS),  # thinking may have passed on one
    (fit_schemas, (ToolSpec, ToolCall, OutputSchema)),
    (fit_options, None),
    (end_with_user, (AssistantMessage,)),
    (_warn_of_overflow, None),
)


_STAGES = {repair: number for number, (repair, _) in enumerate(PASSES)}


@functools.lru_cache(maxsize=256)
def _passes_for(kinds: frozenset[type]) -> tuple[Callable[[Work], None], ...]:
    """The passes for a request that holds values of these kinds."""
    return tuple(repair for repair, types in PASSES if types is None or not kinds.isdisjoint(types))


# --- repeated requests ------------------------------------------------------------------------------------------------
# A request is plain if user and assistant alternate with text only, and there are no tools. What adapt does to it does
# not depend on the texts, except for their size: the context window limits the output. So the outcome holds for all
# plain requests with the same options that are not longer.

_REMEMBERED = 256  # cached kinds of requests, by options


class _Verdict(Struct, frozen=True):
    """The outcome of adapt for a plain request: its messages were unchanged."""

    size: int  # characters of the longest request for which this is known
    options: Options
    model: ModelDescriptor
    losses: tuple[Loss, ...]


class RepeatedAdapter:
    """`adapt(request, model, caching=True)`, faster for plain requests."""

    def __init__(self, model: ModelDescriptor) -> None:
        self._model = model
        self._verdicts: OrderedDict[bytes, _Verdict] = OrderedDict()

    def __call__(self, request: Request) -> Adapted:
        # The model is usually the target itself and need not be checked each time.
        measured = _plain(request, None if request.model is self._model else request.model)
        if measured is None:
            return adapt(request, self._model, caching=True)
        kind, size = measured
        verdict = self._verdicts.get(kind)
        if verdict is not None and size <= verdict.size:
            changed = replace(request, model=verdict.model, options=verdict.options)
            return Adapted.with_same_messages(changed, verdict.losses)
        made = adapt(request, self._model, caching=True)
        if self._holds_for_shorter(request, made):
            self._verdicts[kind] = _Verdict(size, made.request.options, made.request.model, made.losses)
            if len(self._verdicts) > _REMEMBERED:
                self._verdicts.popitem(last=False)
        return made

    def _holds_for_shorter(self, request: Request, made: Adapted) -> bool:
        """Whether only options were changed, and the window left room for the whole output."""
        if made.request.context != request.context or made.restore_block is not None or made.warnings:
            return False
        window, longest = self._model.context_window, made.request.options.max_tokens
        has_room = not window or longest is None or taken(request.context) + longest < window
        return has_room and all(loss.path.startswith("$.options") for loss in made.losses)


def _plain(request: Request, model: ModelDescriptor | None) -> tuple[bytes, int] | None:
    """Returns everything of a plain request except its texts, and their length; None if it is not plain."""
    context = request.context
    if context.tools or context.extra or len(context.messages) % 2 == 0:
        return None
    size = 0
    if context.system is not None:
        measured = _length(context.system)
        if measured is None:
            return None
        size += measured
    forms = set()
    for at, message in enumerate(context.messages):
        if type(message) is not (AssistantMessage if at % 2 else UserMessage) or message.extra:
            return None
        if isinstance(message, AssistantMessage) and message.stop_reason in ("error", "aborted"):
            return None
        measured = _length(message.content)
        if measured is None:
            return None
        forms.add((at % 2, type(message.content) is str))
        size += measured
    system = (context.system is None, type(context.system) is str, context.system_role)
    try:
        return msgspec.msgpack.encode((request.options, request.extra, model, system, sorted(forms))), size
    except (TypeError, OverflowError):  # values that JSON has and this encoding does not, such as huge numbers
        return None


def _length(content: Content | None) -> int | None:
    """Returns the characters of a plain text; None for anything else."""
    if type(content) is str:
        return len(content) if content.strip() and jsontext.is_clean(content) else None
    size = 0
    for block in content or ():
        if type(block) is not TextBlock or block.extra or block.cache or block.citations or block.refusal:
            return None
        if block.text_signature is not None or not block.text.strip() or not jsontext.is_clean(block.text):
            return None
        size += len(block.text)
    return size or None
