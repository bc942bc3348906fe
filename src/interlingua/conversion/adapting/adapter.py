"""adapt: hand a conversation to another model. The only place that repairs, on a copy, with everything it did reported.

The passes run in one order and each leaves a request that the later ones do not disturb: running them twice changes
nothing, and a longer history never changes how a shorter one was adapted (providers cache by prefix).
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from itertools import accumulate, pairwise
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from ...dialects.foreign_blocks import understood
from ...dialects.generations import UNKNOWN, bare, generation
from ...dialects.limits import Limits, NameRule
from ...dialects.reasoning import is_on
from ...dialects.registry import WIRES
from ...dialects.results import PLACEHOLDER, label
from ...dialects.targets import family, limits_of, owner, vendor
from ...values import jsontext
from ...values.errors import InterlinguaError
from ...values.folding import parse_arguments
from ...values.losses import Loss, Severity
from ...values.messages import (
    AssistantMessage,
    Block,
    CustomMessage,
    DocumentBlock,
    Message,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
)
from ...values.request import ModelDescriptor, OutputSchema, Request, ToolSpec
from .. import schemas
from ..media import MEDIA, MediaFitter
from ..tokens import taken
from . import custom_tools
from .cache_markers import fit_markers, place_markers
from .options import fit_options

NO_RESULT = "No result was recorded for this call. Do not assume that the tool ran or what it did."
NO_OUTPUT = "(no output)"
FAILED = "Error: "
CONTINUED = "(the conversation continues)"
DOCUMENTS = "(see the documents)"
RECEIVED = "I have the results."
GO_ON = "Go on from where your last message ends, without repeating any of it."
SHAPE = "shape"
SYNTHETIC = {"interlingua": {"synthetic": True}}
INVALID_ARGUMENTS = "invalid_arguments"  # the key under which a model sees arguments that are no JSON object


class Adapted(tuple[Request, tuple[Loss, ...]]):
    """`(request, losses)`, and the way back: from ids, tool names and places on the wire to the conversation's own."""

    ids: dict[str, str]
    names: dict[str, str]
    warnings: tuple[Loss, ...]  # what may be lost at the target, and that no repair can help
    places: tuple[int | None, ...]  # of each message its place in the source; None where it was added
    _blocks: tuple[list[str], ...]
    _tools: list[int] | None
    _system_moved: bool
    _custom: dict[str, str]

    def __new__(cls, work: "_Work") -> "Adapted":
        made = super().__new__(cls, (work.request(), tuple(dict.fromkeys(work.losses))))
        made.ids = work.ids
        made.names = work.names
        made.warnings = tuple(work.warnings)
        made._custom = work.restored
        made.places = tuple(turn.at for turn in work.turns)
        made._blocks = tuple(turn.places for turn in work.turns)
        made._tools = work.tool_places
        made._system_moved = work.system != work.source.context.system
        return made

    @property
    def request(self) -> Request:
        return self[0]

    @property
    def losses(self) -> tuple[Loss, ...]:
        return self[1]

    def source(self, path: str) -> str | None:
        """Where in the source is what has this path in the adapted request; None for what was added."""
        match = _IN_MESSAGES.fullmatch(path)
        if match is None:
            return self._source_elsewhere(path)
        turn, block, rest = int(match[1]), match[2], match[3]
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

    def restore(self, message: AssistantMessage) -> AssistantMessage:
        """An answer to the adapted request, with the conversation's own tool names and kinds of tools."""
        if not any(call.name in self.names or call.name in self._custom for call in message.tool_calls):
            return message
        return replace(message, content=tuple(map(self._restored, blocks_of(message.content))))

    def _restored(self, block: Block) -> Block:
        block = _renamed(block, self.names)
        if isinstance(block, ToolCall) and block.name in self._custom:
            return custom_tools.marked(block, self._custom[block.name])
        return block


_IN_MESSAGES = re.compile(r"\$\.messages\[(\d+)\](?:\.content\[(\d+)\])?(.*)", re.DOTALL)
_IN_TOOLS = re.compile(r"\$\.tools\[(\d+)\](.*)", re.DOTALL)


def adapt(
    request: Request,
    target: ModelDescriptor | str,
    *,
    thinking: Literal["drop", "text"] = "drop",
    caching: bool = False,
) -> Adapted:
    """The request as `target` (a model, or the name of a dialect) can take it, and what that cost.

    `thinking` says what becomes of reasoning that the target cannot verify: dropped, or turned into plain text. With
    `caching`, `options.cache_retention` becomes cache markers where the provider caches only what is marked.
    """
    work = _Work(request, target, thinking)
    work.caching = caching
    for repair in _PASSES:
        repair(work)
    return Adapted(work)


def structural_repairs(request: Request) -> tuple[Loss, ...]:
    """What any target would want mended: calls without results, results without calls, order, ids."""
    work = _Work(request, ModelDescriptor(id="", api=""), "drop")
    _drop_failed(work)
    # A record of what failed is right in a transcript, and so are roles of an application's own.
    work.losses = [loss for loss in work.losses if loss.what == SHAPE]
    _pair(work)
    _rename_ids(work)
    return tuple(work.losses)


class _Turn:
    """A message under repair: its blocks, where in the source each of them is, and whether anything was changed."""

    __slots__ = ("at", "blocks", "changed", "message", "places")

    def __init__(self, at: int | None, message: Message, places: tuple[int | None, ...] | None = None) -> None:
        """`places` are those of the blocks in the source, where they are not the same; None for what was not there."""
        self.at = at
        self.message: Any = message
        content = message.content
        self.blocks: list[Block] = list(blocks_of(content))
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
        """Leaves out all blocks but these."""
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
        if isinstance(message.content, str) and len(content) == 1 and _is_plain(content[0]):
            content = content[0].text
        return replace(message, content=content)


def _is_plain(block: Block) -> bool:
    return isinstance(block, TextBlock) and block == TextBlock(text=block.text)


class _Work:
    """A request under repair, and what has been done to it."""

    def __init__(self, request: Request, target: ModelDescriptor | str, thinking: str) -> None:
        self.source = request
        self.model = _model(request, target)
        self.rules: Limits = limits_of(self.model)
        self.home = family(self.model.id, self.model.api)
        self.generation = generation(self.model)
        if isinstance(target, str) and request.model.api != target:
            self.home = vendor(target) or self.home  # the id is still that of the model which is left behind
            if request.model.api and family(self.model.id, None) not in self.rules.families:
                self.generation = UNKNOWN
        self.caching = False
        self.custom: dict[str, str] = {}  # custom tools: the wire that has them as such, "" where they are functions
        self.restored: dict[str, str] = {}  # of those that are functions, the wire that they come from
        self.warnings: list[Loss] = []
        self.thinking = thinking
        self.losses: list[Loss] = []
        self.turns: list[_Turn] = []
        self.system = request.context.system
        self.tools = request.context.tools
        self.tool_places: list[int] | None = None  # where they were changed
        self.options = request.options
        self.foreign: set[_Turn] = set()  # whose thinking the target cannot verify
        self.ids: dict[str, str] = {}
        self.names: dict[str, str] = {}
        for at, message in enumerate(request.context.messages):
            meant = understood(message)
            if meant is not None:
                self.lost(f"$.messages[{at}]", SHAPE, f"{meant.what}: read as what it means in other formats")
                self.turns += [_Turn(at, given, places) for given, places in meant.messages]
            elif isinstance(message, CustomMessage):
                self.lost(f"$.messages[{at}]", "role", f"no model reads messages of the role {message.role}", "dropped")
            else:
                self.turns.append(_Turn(at, message))

    def request(self) -> Request:
        messages = tuple(turn.closed() for turn in self.turns)
        context = replace(self.source.context, system=self.system, messages=messages, tools=self.tools)
        return replace(self.source, model=self.model, context=context, options=self.options)

    @property
    def open_foreign_turn(self) -> bool:
        """Whether results wait for an answer in a turn whose thinking the target cannot verify, or that has none.

        The turn may have none because its beginning was summed up, or because thinking was asked for only after that.
        """
        turns = self.turns
        if not turns or not isinstance(turns[-1].message, ToolResultMessage):
            return False
        asked = (at for at in range(len(turns) - 1, -1, -1) if isinstance(turns[at].message, UserMessage))
        turn = turns[next(asked, -1) + 1 :]
        first = next((one for one in turn if isinstance(one.message, AssistantMessage)), None)
        begins = first is not None and bool(first.blocks) and isinstance(first.blocks[0], ThinkingBlock)
        return not begins or not self.foreign.isdisjoint(turn)

    @property
    def has_server_history(self) -> bool:
        """Whether the target holds the messages before these."""
        kept = self.source.extra.get(self.rules.api) or {}
        return any(kept.get(key) is not None for key in self.rules.server_history)

    def tool(self, at: int) -> str:
        """Where in the source a tool is that still is on offer."""
        return f"$.tools[{at if self.tool_places is None else self.tool_places[at]}]"

    def lost(self, path: str, what: str, why: str, severity: Severity = "weakened") -> None:
        if path.startswith("$"):  # what has no place in the source was added on the way, and loses nothing
            self.losses.append(Loss(path, what, why, severity))


def _model(request: Request, target: ModelDescriptor | str) -> ModelDescriptor:
    if isinstance(target, ModelDescriptor):
        return target
    if target not in WIRES:
        raise InterlinguaError(f"unknown target {target!r}; valid targets: {', '.join(sorted(WIRES))}")
    return replace(request.model, api=target)


# --- turns that failed -----------------------------------------------------------------------------------------------


def _drop_failed(work: _Work) -> None:
    """Turns that errored or were aborted, with their results: half a turn makes providers refuse the rest."""
    failed = {turn for turn in work.turns if _has_failed(turn)}
    if not failed:
        return
    results = {result for (turn, _), result in _match_results(work.turns).items() if turn in failed}
    for turn in work.turns:
        if turn in failed:
            work.lost(turn.path, "turn", f"it ended in {turn.message.stop_reason} and is not sent", "dropped")
        elif turn in results:
            work.lost(turn.path, "turn", "the result of a call in a turn that is not sent", "dropped")
    work.turns = [turn for turn in work.turns if turn not in failed and turn not in results]


def _has_failed(turn: _Turn) -> bool:
    return isinstance(turn.message, AssistantMessage) and turn.message.stop_reason in ("error", "aborted")


# --- calls and results -----------------------------------------------------------------------------------------------


def _pair(work: _Work) -> None:
    """Behind each step of the model the results of its calls, one per call, in call order; then what else was said.

    A step is a row of assistant messages up to the first result of one of them. The calls of one answer may stand in
    one message or in several, and their results before, between or long after them.
    """
    answers = _match_results(work.turns)
    callers = {result: turn for (turn, _), result in answers.items()}
    turns: list[_Turn] = []
    step: list[_Turn] = []
    others: list[_Turn] = []
    answered = False  # a result of the step was seen: the next assistant message begins another
    for turn in work.turns:
        if isinstance(turn.message, ToolResultMessage):
            answered = answered or callers.get(turn) in step
            if turn not in callers and work.has_server_history:
                others.append(turn)
            elif turn not in callers:
                work.lost(turn.path, "tool result", "no call is without a result that has its id", "dropped")
        elif not isinstance(turn.message, AssistantMessage):
            others.append(turn)
        else:
            if answered or others:
                ahead = _ahead(step) if not others else []
                turns += [*_with_results(step[: len(step) - len(ahead)], answers, work), *others]
                step, others, answered = ahead, [], False
            step.append(turn)
    work.turns = [*turns, *_with_results(step, answers, work), *others]
    _report_moves(work)


def _ahead(step: list[_Turn]) -> list[_Turn]:
    """The reasoning at the end of a step whose results came in between: it belongs to what the model did next."""
    at = len(step)
    while at and step[at - 1].blocks and _is_reasoning(step[at - 1]):
        at -= 1
    return step[at:]


class _OpenCall(NamedTuple):
    turn: "_Turn"
    at: int
    ids: tuple[str, ...]  # a call of the Responses wire has two ids; a result may name either
    row: int
    sent: bool


def _match_results(turns: list[_Turn]) -> dict[tuple[_Turn, int], _Turn]:
    """The results of the calls, by the call's message and its place there. None is left over while a call lacks one.

    Ids may repeat, since some wires have none and ours are generated: a result belongs to the latest row of assistant
    messages before it that has an open call of its id, and in the row to the first; to a turn that failed only if
    there is no other. A result that stands before its call belongs to the first call that nothing else answers.
    """
    answers: dict[tuple[_Turn, int], _Turn] = {}
    open_calls: dict[str, list[_OpenCall]] = {}
    early: list[_Turn] = []

    def answer(result: _Turn, likely: Callable[[_OpenCall], Any]) -> bool:
        id = result.message.tool_call_id
        call = max(open_calls.get(id, ()), key=lambda call: (call.ids[0] == id, call.sent, likely(call)), default=None)
        if call is None:
            return False
        answers[call.turn, call.at] = result
        for id in call.ids:
            open_calls[id].remove(call)
        return True

    for row, turn in _rows(turns):
        if isinstance(turn.message, ToolResultMessage) and not answer(turn, lambda call: call.row):
            early.append(turn)
        for at, block in enumerate(turn.blocks):
            if isinstance(block, ToolCall) and isinstance(turn.message, AssistantMessage):
                call = _OpenCall(turn, at, _ids_of(block), row, not _has_failed(turn))
                for id in call.ids:
                    open_calls.setdefault(id, []).append(call)
    for turn in early:
        answer(turn, lambda call: 0)
    return answers


def _rows(turns: list[_Turn]) -> Iterator[tuple[int, _Turn]]:
    """The turns, each with the number of the row of assistant messages that it belongs to or follows."""
    row = 0
    for before, turn in pairwise([None, *turns]):
        assert turn is not None
        if isinstance(turn.message, AssistantMessage) and not (before and isinstance(before.message, AssistantMessage)):
            row += 1
        yield row, turn


def _steps(turns: list[_Turn]) -> list[list[_Turn]]:
    """The rows of assistant messages. Once results are behind their calls, these are the steps of the model."""
    rows: dict[int, list[_Turn]] = {}
    for row, turn in _rows(turns):
        if isinstance(turn.message, AssistantMessage):
            rows.setdefault(row, []).append(turn)
    return [*rows.values()]


def _ids_of(call: ToolCall) -> tuple[str, ...]:
    """A call's id, and the id of its item where the wire that it came from has both: a result may name either."""
    for api, residual in call.extra.items():
        item = residual.get("id") if isinstance(residual, dict) else None
        if isinstance(item, str) and item != call.id and (wire := WIRES.get(api)) and wire.limits.item_ids:
            return call.id, item
    return (call.id,)


def _with_results(step: list[_Turn], answers: dict[tuple[_Turn, int], _Turn], work: _Work) -> Iterator[_Turn]:
    """The step, and behind it the results of its calls in call order; for a call without one a result that says so."""
    yield from step
    for turn in step:
        for at, block in enumerate(turn.blocks):
            if not isinstance(block, ToolCall):
                continue
            result = answers.get((turn, at))
            if result is None:
                work.lost(turn.places[at], "tool result", f"none for the call of {block.name}: one was added")
                result = _Turn(None, _no_result(block))
            else:
                _name_after(result, block, work)
            yield result


def _report_moves(work: _Work) -> None:
    turns = [turn for turn in work.turns if turn.at is not None]
    places = [turn.at or 0 for turn in turns]
    furthest = [-1, *accumulate(places, max)]  # of those before
    nearest = [*reversed([*accumulate(reversed(places), min)]), len(work.source.context.messages)][1:]  # of those after
    for at, turn in enumerate(turns):
        if isinstance(turn.message, ToolResultMessage) and (furthest[at] > places[at] or nearest[at] < places[at]):
            work.lost(turn.path, "order", "results follow their calls at once, in call order")


def _name_after(turn: _Turn, call: ToolCall, work: _Work) -> None:
    """The result says the id and the name of its call; that it did not say the name is no loss."""
    result = turn.message
    if result.tool_call_id != call.id:
        work.lost(f"{turn.path}.toolCallId", "id", "the call's other id: the target knows one")
    if result.tool_name is not None and result.tool_name != call.name:
        work.lost(f"{turn.path}.toolName", "tool name", "not the name of its call")
    if result.tool_call_id != call.id or result.tool_name != call.name:
        turn.set(tool_call_id=call.id, tool_name=call.name)


def _no_result(call: ToolCall) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call.id, tool_name=call.name, content=(TextBlock(text=NO_RESULT),), is_error=True, extra=SYNTHETIC
    )


# --- blocks that have no business where they are ---------------------------------------------------------------------


_SPOKEN: dict[type, tuple[type, ...]] = {
    UserMessage: (TextBlock, *MEDIA),
    AssistantMessage: (TextBlock, ThinkingBlock, ToolCall, ServerToolCall, ServerToolResult, *MEDIA),
    ToolResultMessage: (TextBlock, *MEDIA),
    SystemMessage: (TextBlock,),
}


def _drop_strange(work: _Work) -> None:
    """Blocks that a role cannot say, and what only another wire can."""
    steps = {turn: [block for other in step for block in other.blocks] for step in _steps(work.turns) for turn in step}
    for turn in work.turns:
        spoken = _SPOKEN[type(turn.message)]
        kept = []
        for at, block in enumerate(turn.blocks):
            why = _strange(block, turn, spoken, steps.get(turn, []), work)
            if why is None:
                kept.append(at)
            else:
                work.lost(turn.places[at], "block", why, "dropped")
        turn.keep(kept)


def _strange(block: Block, turn: _Turn, spoken: tuple[type, ...], step: list[Block], work: _Work) -> str | None:
    if isinstance(block, OpaqueBlock):
        known = work.rules.opaque and block.dialect == work.rules.api
        return None if known else f"only {block.dialect} can say it"
    if not isinstance(block, spoken):
        return f"not a block of {type(turn.message).__name__}"
    if isinstance(block, ServerToolCall | ServerToolResult) and not _ran_here(block, turn, step, work):
        return "the target's provider did not run it"
    return None


def _ran_here(block: ServerToolCall | ServerToolResult, turn: _Turn, step: list[Block], work: _Work) -> bool:
    """Providers want their own calls and results in pairs; only a turn that was paused ends without its result."""
    if not work.rules.server_tools:
        return False
    if isinstance(block, ServerToolResult):
        calls = {other.id for other in step if isinstance(other, ServerToolCall)}
        return block.dialect == work.rules.api and block.tool_call_id in calls
    results = [other for other in step if isinstance(other, ServerToolResult) and other.tool_call_id == block.id]
    if results:
        return any(result.dialect == work.rules.api for result in results)
    last = next(turn for turn in reversed(work.turns) if not isinstance(turn.message, ToolResultMessage))
    return turn is last and owner(turn.message.api) == work.rules.api


# --- system messages -------------------------------------------------------------------------------------------------


def _place_system(work: _Work) -> None:
    """Where system messages may not stand between others, leading ones join the system text, later ones the user's."""
    if work.rules.later_system:
        return
    kept: list[_Turn] = []
    for turn in work.turns:
        if not isinstance(turn.message, SystemMessage):
            kept.append(turn)
        elif kept:
            work.lost(turn.path, "system message", "the target has none here: said as the user's words")
            turn.message = UserMessage(content=turn.message.content, timestamp=turn.message.timestamp)
            kept.append(turn)
        else:
            work.lost(turn.path, "system message", "joined to the system text")
            texts = [block for block in turn.blocks if isinstance(block, TextBlock) and block.text.strip()]
            if texts:
                work.lost("$.system", "system message", "the first messages joined it")
                work.system = (*_system_blocks(work.system), *texts)
    work.turns = kept


def _system_blocks(system: Any) -> tuple[TextBlock, ...]:
    return tuple(block for block in blocks_of(system) if isinstance(block, TextBlock))


# --- thinking and signatures -----------------------------------------------------------------------------------------


def _judge_thinking(work: _Work) -> None:
    """Reasoning that the target cannot verify is dropped (or said as text); so are foreign signatures."""
    for step in _steps(work.turns):
        if _judge_step(step, work):
            work.foreign.update(step)


def _judge_step(step: list[_Turn], work: _Work) -> bool:
    """Whether any of it is another model's, or had thinking that had to go."""
    foreign = dropped = False
    for at, turn in enumerate(step):
        native = _is_native(turn.message, work)
        leads_on = any(_remains(block, work.rules) for later in step[at + 1 :] for block in later.blocks)
        dropped = _judge(turn, native, leads_on, work) or dropped
        foreign = foreign or dropped or not native
        if dropped:
            _stand_alone(turn, work)
        _mark_call(turn, work)
    return foreign


def _is_native(message: AssistantMessage, work: _Work) -> bool:
    """Whether the target can verify what this message signed."""
    generated, here = family(message.model, message.api), owner(message.api) == work.rules.api
    if generated is None or work.home is None:
        return here
    if work.generation.bound_thinking and bare(message.model or "") != bare(work.model.id):
        return False  # what another model signed is refused, be it of the same family
    return generated == work.home and (here or generated in work.rules.families)


def _judge(turn: _Turn, native: bool, leads_on: bool, work: _Work) -> bool:
    """Whether any thinking had to go."""
    kept, dropped = [], False
    for at, block in enumerate(turn.blocks):
        if isinstance(block, ThinkingBlock):
            follows = leads_on or any(_remains(later, work.rules) for later in turn.blocks[at:])
            why = _unverifiable(block, follows, native, work.rules)
            if why is not None:
                work.lost(turn.places[at], "thinking", why, "dropped")
                dropped = True
                if work.thinking != "text" or not block.thinking.strip():
                    continue
                turn.put(at, TextBlock(text=block.thinking))
        elif not native:
            _unsign(turn, at, work)
        kept.append(at)
    turn.keep(kept)
    return dropped


def _remains(block: Block, rules: Limits) -> bool:
    """Whether a block is sent, and is something that reasoning led to."""
    return not isinstance(block, ThinkingBlock) and (rules.blank_text or not _is_blank(block))


def _unverifiable(block: ThinkingBlock, follows: bool, native: bool, rules: Limits) -> str | None:
    if not native:
        return "minted by another model: the target cannot verify it"
    if block.thinking_signature is None and (rules.signed_thinking or not block.thinking.strip()):
        return "unsigned: the target cannot verify it"
    # The Responses wire refuses reasoning "without its required following item", Claude a turn that ends in thinking.
    return None if follows else "nothing follows it"


def _unsign(turn: _Turn, at: int, work: _Work) -> None:
    block, place = turn.blocks[at], turn.places[at]
    if isinstance(block, TextBlock) and block.text_signature is not None:
        work.lost(f"{place}.textSignature", "signature", "minted by another model", "dropped")
        turn.put(at, replace(block, text_signature=None))
    elif isinstance(block, ToolCall) and block.thought_signature not in (None, work.rules.unsigned_call):
        work.lost(f"{place}.thoughtSignature", "signature", "minted by another model", "dropped")
        turn.put(at, replace(block, thought_signature=None))


def _stand_alone(turn: _Turn, work: _Work) -> None:
    """Without the reasoning item that it followed, an item of the Responses wire must not carry its id."""
    api = work.rules.api
    for at, block in enumerate(turn.blocks if work.rules.item_ids else ()):
        residual = block.extra.get(api)
        if residual and "id" in residual:
            work.lost(f"{turn.places[at]}.extra", "item id", "it belongs to reasoning that is not sent", "record")
            rest = {key: value for key, value in residual.items() if key != "id"}
            turn.put(at, replace(block, extra={**block.extra, api: rest}))


def _mark_call(turn: _Turn, work: _Work) -> None:
    """Where calls must be signed, an unsigned one carries the documented marker; a signature is never made up."""
    marker = work.rules.unsigned_call
    if marker is None or any(call.thought_signature for call in turn.calls):
        return  # of parallel calls only the first is signed
    for at, block in enumerate(turn.blocks):
        if isinstance(block, ToolCall):
            work.lost(f"{turn.places[at]}.thoughtSignature", "signature", "none: marked as not to be checked")
            turn.put(at, replace(block, thought_signature=marker))
            return


# --- arguments -------------------------------------------------------------------------------------------------------


def _fit_arguments(work: _Work) -> None:
    """Arguments that are no JSON object are sent as one that holds their text: the model sees what it wrote.

    Chat hosts that parse the string (vLLM, Mistral) refuse every later request over a broken one; Anthropic, Google,
    Bedrock and Ollama have only objects. The record keeps the text as it came.
    """
    for turn in work.turns:
        for at, block in enumerate(turn.blocks):
            if not isinstance(block, ToolCall) or (block.arguments_text is None and block.parse_error is None):
                continue
            text = block.arguments_text
            arguments, _, error = parse_arguments(text or "")
            if block.parse_error is not None or error is not None:
                work.lost(turn.places[at], "arguments", "not a JSON object: sent as one that holds the text")
                given = block.arguments if text is None else {INVALID_ARGUMENTS: text}
            elif arguments != block.arguments or not (text or "").strip():
                work.lost(
                    f"{turn.places[at]}.argumentsText",
                    "arguments",
                    "blank, or not what the arguments are: written anew",
                    "record",
                )
                given = block.arguments
            else:
                continue
            turn.put(at, replace(block, arguments=given, arguments_text=None, parse_error=None))


# --- pictures, files, sounds -----------------------------------------------------------------------------------------


def _fit_media(work: _Work) -> None:
    """What the target cannot see is said in words, so that the model knows something was there."""
    fitter = MediaFitter(work.rules, work.model)
    for turn in work.turns:
        for at, block in enumerate(turn.blocks):
            if isinstance(block, MEDIA):
                fitted, changes = fitter.fit(block, turn.message)
                for change in changes:
                    work.lost(f"{turn.places[at]}{change.field}", change.what, change.why, change.severity)
                if changes:
                    turn.put(at, fitted)


def _accompany_documents(work: _Work) -> None:
    """Where a message with a document needs a text too, one is put before it."""
    if not work.rules.document_text:
        return
    for turn in work.turns:
        kinds = {type(block) for block in turn.blocks}
        if isinstance(turn.message, UserMessage) and DocumentBlock in kinds and TextBlock not in kinds:
            work.lost(f"{turn.path}.content", "document text", "a document needs a text beside it: one was added")
            turn.blocks.insert(0, TextBlock(text=DOCUMENTS))
            turn.places.insert(0, "")
            turn.changed = True


def _move_result_media(work: _Work) -> None:
    """Media of a run of results follow the run as the user's, under a label for each result: see `result_media`."""
    if work.rules.result_media:
        return
    turns: list[_Turn] = []
    behind: list[_Turn] = []
    number = 0
    for turn in work.turns:
        if isinstance(turn.message, ToolResultMessage):
            number += 1
            media = _take_media(turn, work)
            if media and (not behind or not work.rules.mixed_content):
                behind.append(_Turn(None, UserMessage(content=(), extra=SYNTHETIC)))
            if media:
                shown = behind[-1]
                shown.blocks += [TextBlock(text=label(number, turn.message.tool_name)), *(block for block, _ in media)]
                shown.places += ["", *(place for _, place in media)]
                shown.changed = True
        else:
            turns += behind
            behind, number = [], 0
        turns.append(turn)
    work.turns = turns + behind


def _take_media(turn: _Turn, work: _Work) -> list[tuple[Block, str]]:
    kept = [at for at, block in enumerate(turn.blocks) if not isinstance(block, MEDIA)]
    taken = [(turn.blocks[at], turn.places[at]) for at in range(len(turn.blocks)) if at not in kept]
    for _, place in taken:
        work.lost(place, "media", "a result cannot hold it: moved behind the results")
    turn.keep(kept)
    if taken and not kept:
        work.lost(f"{turn.path}.content", "media", "all of the result moved: words stand in its place")
        turn.blocks, turn.places = [TextBlock(text=PLACEHOLDER)], [""]
    return taken


# --- words that are blank or broken ----------------------------------------------------------------------------------


def _clean_text(work: _Work) -> None:
    """Halves of surrogate pairs become U+FFFD; where the target refuses blanks, blank blocks go; so do empty turns."""
    kept = []
    for turn in work.turns:
        for at, block in enumerate(turn.blocks):
            if isinstance(block, TextBlock) and not jsontext.is_clean(block.text):
                work.lost(f"{turn.places[at]}.text", "text", "halves of surrogate pairs are no Unicode")
                turn.put(at, replace(block, text=jsontext.clean(block.text)))
        if not work.rules.blank_text:
            _drop_blanks(turn, work)
        if turn.blocks or isinstance(turn.message, ToolResultMessage):
            kept.append(turn)
        else:
            work.lost(turn.path, "message", "nothing is left to say", "dropped")
    work.turns = kept
    _clean_system(work)


def _is_blank(block: Block) -> bool:
    return isinstance(block, TextBlock) and not block.text.strip() and block.text_signature is None


def _drop_blanks(turn: _Turn, work: _Work) -> None:
    kept: list[int] = []
    for at, block in enumerate(turn.blocks):
        if not _is_blank(block):
            kept.append(at)
            continue
        work.lost(turn.places[at], "text", "the target refuses blank text")
        before = turn.blocks[kept[-1]] if kept else None
        if block.cache is not None and before is not None and getattr(before, "cache", block.cache) is None:  # type: ignore[union-attr]
            work.lost(f"{turn.places[kept[-1]]}.cache", "cache", "moved here from a blank block")
            turn.put(kept[-1], replace(before, cache=block.cache))  # type: ignore[union-attr]
    turn.keep(kept)
    if not turn.blocks and isinstance(turn.message, ToolResultMessage):
        work.lost(f"{turn.path}.content", "text", "the target refuses an empty result")
        turn.blocks, turn.places, turn.changed = [TextBlock(text=NO_OUTPUT)], [""], True


def _clean_system(work: _Work) -> None:
    system = work.system
    if system is None or work.rules.blank_text:
        return
    blocks = _system_blocks(system)
    kept = tuple(block for block in blocks if block.text.strip())
    if len(kept) < len(blocks) or not blocks:
        work.lost("$.system", "system", "the target refuses blank text")
        work.system = kept or None


# --- failures --------------------------------------------------------------------------------------------------------


def _say_failures(work: _Work) -> None:
    """Where a result has no flag for failure its text says it, or the model takes what went wrong for the answer."""
    if work.rules.error_flag:
        return
    for turn in work.turns:
        if not isinstance(turn.message, ToolResultMessage) or not turn.message.is_error:
            continue
        at = next((at for at, block in enumerate(turn.blocks) if isinstance(block, TextBlock)), None)
        if turn.at is None or _reports_failure(turn, at):
            continue
        work.lost(f"{turn.path}.content", "failure", "the target has no flag for it: said in the text")
        if at is None:
            turn.blocks.insert(0, TextBlock(text=FAILED.strip()))
            turn.places.insert(0, "")
        else:
            block: Any = turn.blocks[at]
            turn.put(at, replace(block, text=FAILED + block.text))
        turn.changed = True


def _reports_failure(turn: _Turn, at: int | None) -> bool:
    block = turn.blocks[at] if at is not None else None
    text = block.text if isinstance(block, TextBlock) else ""
    return text == NO_RESULT or text.lstrip("[( ").lower().startswith(("error", "failed"))


# --- ids and names ---------------------------------------------------------------------------------------------------


def _rename_ids(work: _Work) -> None:
    """Call ids that the target takes: the same for the same, never two for one, never empty; results follow."""
    used: set[str] = set()
    seen: Counter[str] = Counter()
    pending: list[tuple[str, str]] = []
    step = 0
    for row, turn in _rows(work.turns):
        if isinstance(turn.message, ToolResultMessage):
            _follow(turn, pending, work)
            continue
        if row != step:
            step, pending = row, []
            if work.rules.ids is None:  # these wires pair within the step
                used, seen = set(), Counter()
        for at, block in enumerate(turn.blocks):
            if isinstance(block, ToolCall) and isinstance(turn.message, AssistantMessage):
                new = _fitting(block.id, seen[block.id], work.rules.ids, used)
                seen[block.id] += 1
                used.add(new)
                pending.append((block.id, new))
                if new != block.id:
                    work.ids[new] = block.id
                    work.lost(f"{turn.places[at]}.id", "id", "not an id that the target takes")
                    turn.put(at, replace(block, id=new))


def _follow(turn: _Turn, pending: list[tuple[str, str]], work: _Work) -> None:
    for place, (old, new) in enumerate(pending):
        if old == turn.message.tool_call_id:
            del pending[place]
            if old != new:
                if turn.at is not None:
                    work.lost(f"{turn.path}.toolCallId", "id", "follows the id of its call")
                turn.set(tool_call_id=new)
            return


_ANY_ID = NameRule(r"[A-Za-z0-9_-]+", 64)


def _fitting(name: str, nth: int, rule: NameRule | None, used: Collection[str]) -> str:
    if name and nth == 0 and name not in used and (rule is None or rule.allows(name)):
        return name
    attempt = 0
    while (new := _hashed(name, f"{nth}.{attempt}", rule or _ANY_ID)) in used:
        attempt += 1
    return new


def _hashed(name: str, salt: str, rule: NameRule) -> str:
    """A legal name made from an illegal one: its readable part and a hash, so that two never meet by being cut."""
    digest = hashlib.blake2s(f"{salt}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()
    readable = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")[: max(0, rule.max_length - 13)]
    for new in (f"{readable}_{digest[:12]}" if readable else "", f"call_{digest[:12]}"):
        if rule.allows(new):
            return new
    return digest[: rule.max_length]


def _rename_tools(work: _Work) -> None:
    """Tool names that the target takes, in definitions, calls, results and the forced choice alike."""
    rule, taken = work.rules.names, {tool.name for tool in work.tools or ()}
    forward: dict[str, str] = {}

    def fit(name: str, path: str) -> str:
        if rule.allows(name):
            return name
        if name not in forward:
            forward[name] = _fitting(name, 0, rule, {*taken, *forward.values()})
            work.names[forward[name]] = name
        work.lost(path, "tool name", "not a name that the target takes")
        return forward[name]

    if work.tools is not None:
        work.tools = _named_once(work, fit)
        _mark_custom_calls(work)
        if not work.tools:
            work.lost("$.tools", "tools", "an empty list of tools is refused", "record")
            work.tools = None
    for turn in work.turns:
        if isinstance(turn.message, ToolResultMessage) and turn.message.tool_name is not None:
            name = fit(turn.message.tool_name, f"{turn.path}.toolName" if turn.at is not None else "")
            if name != turn.message.tool_name:
                turn.set(tool_name=name)
        for at, block in enumerate(turn.blocks):
            if isinstance(block, ToolCall) and not rule.allows(block.name):
                turn.put(at, replace(block, name=fit(block.name, f"{turn.places[at]}.name")))
    choice = work.options.tool_choice
    if choice is not None and not all(map(rule.allows, choice.names)):
        names = tuple(fit(name, "$.options.toolChoice.names") for name in choice.names)
        work.options = replace(work.options, tool_choice=replace(choice, names=names))


def _named_once(work: _Work, fit: Callable[[str, str], str]) -> tuple[ToolSpec, ...]:
    """Definitions under legal names; of several with one name the first, and none that only others can run."""
    kept: dict[str, ToolSpec] = {}
    work.tool_places = []
    for place, tool in enumerate(work.tools or ()):
        path = f"$.tools[{place}]"
        tool = _fit_custom(tool, path, work)
        if tool.dialect is not None and tool.dialect != work.rules.api:
            work.lost(path, "tool", f"only {tool.dialect} can run it", "dropped")
        elif tool.name in kept:
            work.lost(path, "tool", f"another tool is called {tool.name}", "dropped")
        else:
            name = tool.name if tool.dialect else fit(tool.name, f"{path}.name")
            kept[tool.name] = tool if name == tool.name else replace(tool, name=name)
            work.tool_places.append(place)
    return tuple(kept.values())


def _fit_custom(tool: ToolSpec, path: str, work: _Work) -> ToolSpec:
    """A tool that takes free text, as OpenAI's newer models do; for others it is a function with one text."""
    if custom_tools.definition(tool) is None:
        return tool
    api = work.rules.api
    if work.rules.custom_tools and work.home == "openai" and work.generation.custom_tools is not False:
        work.custom[tool.name] = api
        if tool.dialect == api:
            return tool
        work.lost(path, "tool", "said in the words of this wire", "record")
        return custom_tools.respelled(tool, api)
    work.custom[tool.name] = ""
    work.restored[tool.name] = tool.dialect or ""
    work.lost(path, "tool", "said as a function that takes one text")
    return custom_tools.as_function(tool)


def _mark_custom_calls(work: _Work) -> None:
    """Calls of custom tools in the form of the tool as the target knows it."""
    for turn in work.turns if work.custom else ():
        for at, block in enumerate(turn.blocks):
            if isinstance(block, ToolCall) and block.name in work.custom:
                api = work.custom[block.name]
                call = custom_tools.marked(block, api) if api else custom_tools.unmarked(block, work.rules.api)
                if call is not block:
                    turn.put(at, call)


def _renamed(block: Block, names: dict[str, str]) -> Block:
    if isinstance(block, ToolCall) and block.name in names:
        return replace(block, name=names[block.name])
    return block


# --- turns -----------------------------------------------------------------------------------------------------------


def _take_turns(work: _Work) -> None:
    """The user begins; where the target wants it, neighbours of one role become one."""
    turns: list[_Turn] = []
    for turn in work.turns:
        if not turns or not _must_join(turns[-1], turn, work.rules) or not _merged(turns[-1], turn, work):
            turns.append(turn)
    work.turns = turns
    if work.rules.alternating:
        for before, turn in pairwise(turns):
            _join_results(before, turn, work)
    if not work.turns and not work.has_server_history:
        work.lost("$.messages", "beginning", "there is nothing to answer: a placeholder was put there")
        work.turns = [_Turn(None, UserMessage(content=CONTINUED, extra=SYNTHETIC))]
    elif work.turns and work.rules.user_first and isinstance(work.turns[0].message, AssistantMessage):
        work.lost("$.messages", "beginning", "the user begins: a placeholder was put first")
        work.turns.insert(0, _Turn(None, UserMessage(content=CONTINUED, extra=SYNTHETIC)))


def _must_join(before: _Turn, turn: _Turn, rules: Limits) -> bool:
    """Where calls must be in the last message of a step, the messages from the first call or bare reasoning on."""
    if rules.alternating:
        return True
    spoken = isinstance(before.message, AssistantMessage) and isinstance(turn.message, AssistantMessage)
    return spoken and rules.joined_calls and (before.calls != [] or _is_reasoning(before))


def _is_reasoning(turn: _Turn) -> bool:
    return all(isinstance(block, ThinkingBlock) for block in turn.blocks)


def _merged(before: _Turn, turn: _Turn, work: _Work) -> bool:
    """Joins a turn to the one before it, if both are the user's or both the model's."""
    if type(before.message) is not type(turn.message) or isinstance(turn.message, ToolResultMessage):
        return False
    loser = turn
    if before.at is None or (isinstance(turn.message, AssistantMessage) and not _is_native(before.message, work)):
        loser = _Turn(before.at, before.message)
        before.at, before.message = turn.at, turn.message
    if loser.at is not None:
        work.lost(loser.path, "neighbours", "turns alternate: joined to its neighbour")
    if before.at is not None:
        work.lost(f"{before.path}.content", "neighbours", "turns alternate: its neighbour joined it")
    before.blocks += turn.blocks
    before.places += turn.places
    before.changed = True
    return True


def _join_results(before: _Turn, turn: _Turn, work: _Work) -> None:
    """The user's words after results travel in the results' own turn."""
    if not isinstance(before.message, ToolResultMessage) or not isinstance(turn.message, UserMessage):
        return
    residual = turn.message.extra.get(work.rules.api, {})
    if not residual.get("~joined"):
        turn.set(extra={**turn.message.extra, work.rules.api: {**residual, "~joined": True}})


# --- caching, schemas, options ---------------------------------------------------------------------------------------


def _fit_schemas(work: _Work) -> None:
    if work.tools:
        work.tools = tuple(
            tool
            if tool.dialect
            else _with_strictness(
                _with_schema(tool, "input_schema", f"{work.tool(at)}.input_schema", work),
                "input_schema",
                work.tool(at),
                work,
            )
            for at, tool in enumerate(work.tools)
        )
    elif work.rules.tools_with_history and any(turn.calls for turn in work.turns):
        work.lost("$.tools", "tools", "calls in the history need definitions: bare ones were added")
        names = dict.fromkeys(call.name for turn in work.turns for call in turn.calls)
        work.tools = tuple(ToolSpec(name=name, input_schema={"type": "object"}) for name in names)
        work.tool_places = []
    output = work.options.output_schema
    if output is not None and work.generation.strict is False and work.rules.strict == "closed":
        work.lost("$.options.outputSchema", "schema", "the model takes no schema for its answer", "dropped")
        work.options = replace(work.options, output_schema=None)
    elif output is not None:
        fitted = _with_schema(output, "schema", "$.options.outputSchema.schema", work)
        fitted = _with_strictness(fitted, "schema", "$.options.outputSchema", work)
        if fitted is not output:
            work.options = replace(work.options, output_schema=fitted)


def _with_strictness(holder: Any, field: str, path: str, work: _Work) -> Any:
    """A schema that is called strict must be: it is closed where that changes nothing, else the claim goes."""
    rule = work.rules.strict
    if not holder.strict or rule is None:
        return holder
    if work.generation.strict is False:
        work.lost(f"{path}.strict", "strict", "the model does not know strict schemas")
        return replace(holder, strict=None)
    fitted, why = schemas.strict(getattr(holder, field), rule)
    if why is not None:
        work.lost(f"{path}.strict", "strict", f"said without the claim: {why}")
        return replace(holder, strict=False)
    if fitted == getattr(holder, field):
        return holder
    work.lost(f"{path}.{field}", "schema", "closed, as a strict schema must be", "record")
    return replace(holder, **{field: fitted})


def _with_schema(holder: Any, field: str, path: str, work: _Work) -> Any:
    schema = getattr(holder, field)
    if work.rules.strict == "closed" and isinstance(holder, OutputSchema):
        fitted, removed = schemas.closed(schema)  # the schema of an answer is always strict there
    else:
        fitted, removed = schemas.fit(schema, work.rules.schema)
    if work.rules.typed_tools and isinstance(holder, ToolSpec) and "type" not in (fitted or {}):
        fitted = {"type": "object", **(fitted or {})}
    if fitted == schema:
        return holder
    if removed:
        work.lost(path, "schema", f"the target refuses {', '.join(removed)}")
    else:
        work.lost(path, "schema", "said in the target's words", "record")
    return replace(holder, **{field: fitted})


def _place_markers(work: _Work) -> None:
    if work.caching:
        place_markers(work)


# --- how a request ends, and whether it fits --------------------------------------------------------------------------


def _part_results_from_user(work: _Work) -> None:
    """Where no user message may follow results directly, the model acknowledges them in between."""
    if not work.rules.answer_after_results:
        return
    turns: list[_Turn] = []
    for turn in work.turns:
        if turns and isinstance(turns[-1].message, ToolResultMessage) and _is_asking(turn.message):
            work.lost("$.messages", "order", "an answer of the model stands between results and user: one was added")
            turns.append(_Turn(None, AssistantMessage(content=(TextBlock(text=RECEIVED),), extra=SYNTHETIC)))
        turns.append(turn)
    work.turns = turns


def _is_asking(message: Message) -> bool:
    return isinstance(message, UserMessage | SystemMessage)


def _end_with_user(work: _Work) -> None:
    """A last message of the model's is the beginning of its answer. Where that is refused, it is asked to go on."""
    last = work.turns[-1] if work.turns else None
    if last is None or not isinstance(last.message, AssistantMessage) or _is_paused(last):
        return
    thinks = is_on(work.options.reasoning, work.generation) and not work.rules.forced_with_thinking
    if work.generation.prefill is False or thinks:
        work.lost("$.messages", "prefill", "the target does not continue an answer: it is asked to go on")
        work.turns.append(_Turn(None, UserMessage(content=GO_ON, extra=SYNTHETIC)))
    elif work.rules.prefix_flag:
        own = last.message.extra.get(work.rules.api, {})
        last.set(extra={**last.message.extra, work.rules.api: {**own, "prefix": True}})
    elif work.rules.trimmed_end:
        _trim_end(last, work)


def _is_paused(turn: _Turn) -> bool:
    """Whether the provider runs a tool of its own and wants the turn back as it is."""
    paused = turn.message.stop_detail == "pause_turn"
    return paused or (bool(turn.blocks) and isinstance(turn.blocks[-1], ServerToolCall | ServerToolResult))


def _trim_end(turn: _Turn, work: _Work) -> None:
    """Anthropic: "final assistant content cannot end with trailing whitespace"."""
    at, block = len(turn.blocks) - 1, turn.blocks[-1] if turn.blocks else None
    if isinstance(block, TextBlock) and block.text != block.text.rstrip():
        work.lost(f"{turn.places[at]}.text" if turn.places[at] else "", "text", "no blanks at the end of a beginning")
        turn.put(at, replace(block, text=block.text.rstrip()))


def _warn_of_overflow(work: _Work) -> None:
    """A host that cuts off in silence what does not fit; others refuse it."""
    window = work.model.context_window or work.rules.default_window
    size = taken(work.source.context) if work.rules.default_window is not None else 0
    if window is not None and size > window:
        why = f"about {size} tokens, of which the host reads {window}: it leaves out the beginning in silence"
        work.warnings.append(Loss("$.messages", "window", why, "weakened"))


_PASSES: tuple[Callable[[_Work], None], ...] = (
    _drop_failed,
    _pair,
    _drop_strange,
    _place_system,
    _judge_thinking,
    _fit_arguments,
    _fit_media,
    _clean_text,
    _say_failures,
    _rename_ids,
    _rename_tools,
    _move_result_media,
    _take_turns,
    _part_results_from_user,
    _accompany_documents,
    _place_markers,
    fit_markers,
    _fit_schemas,
    fit_options,
    _end_with_user,
    _warn_of_overflow,
)
