"""Blocks: text, media, blocks that a role or a target does not support, and arguments that are not a JSON object."""

from typing import Any

from msgspec.structs import replace

from ...dialects.limits import TargetLimits
from ...dialects.registry import owner
from ...dialects.results import PLACEHOLDER, label
from ...values import jsontext
from ...values.folding import parse_arguments
from ...values.losses import Severity
from ...values.messages import (
    AssistantMessage,
    Block,
    DocumentBlock,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from ..media import MEDIA, MediaFitter
from .pairing import steps
from .work import DOCUMENTS, FAILED, INVALID_ARGUMENTS, NO_OUTPUT, NO_RESULT, SYNTHETIC, Turn, Work, system_blocks


def clean_text(work: Work) -> None:
    """Replaces unpaired surrogates by U+FFFD; drops blank blocks where the target refuses them, and empty turns."""
    kept = []
    for turn in work.turns:
        for at, block in enumerate(turn.blocks):
            # RFC 8259, 8.2: such text has no UTF-8, so that no body can carry it.
            if isinstance(block, TextBlock) and not (block.text.isascii() or jsontext.is_clean(block.text)):
                work.lost(f"{turn.places[at]}.text", "text", "halves of surrogate pairs are no Unicode")
                turn.put(at, replace(block, text=jsontext.clean(block.text)))
        # Anthropic: "text content blocks must contain non-whitespace text"; Bedrock: "The text field in the
        # ContentBlock object is blank".
        if not work.rules.blank_text:
            _drop_blanks(turn, work)
        if turn.blocks or isinstance(turn.message, ToolResultMessage):
            kept.append(turn)
        else:
            work.lost(turn.path, "message", "nothing is left to send", "dropped")
    work.turns = kept
    _clean_system(work)


def is_blank(block: Block) -> bool:
    return isinstance(block, TextBlock) and (not block.text or block.text.isspace()) and block.text_signature is None


def _drop_blanks(turn: Turn, work: Work) -> None:
    if turn.blocks and not any(map(is_blank, turn.blocks)):
        return
    kept: list[int] = []
    for at, block in enumerate(turn.blocks):
        if not is_blank(block):
            kept.append(at)
            continue
        work.lost(turn.places[at], "text", "the target refuses blank text")
        before = turn.blocks[kept[-1]] if kept else None
        if block.cache is not None and before is not None and getattr(before, "cache", block.cache) is None:  # type: ignore[union-attr]
            work.lost(f"{turn.places[kept[-1]]}.cache", "cache", "moved here from a blank block")
            turn.put(kept[-1], replace(before, cache=block.cache))  # type: ignore[union-attr]
    if len(kept) < len(turn.blocks):
        turn.keep(kept)
    if not turn.blocks and isinstance(turn.message, ToolResultMessage):
        work.lost(f"{turn.path}.content", "text", "the target refuses an empty result")
        turn.blocks, turn.places, turn.changed = [TextBlock(text=NO_OUTPUT)], [""], True


def _clean_system(work: Work) -> None:
    system = work.system
    # Wires with system blocks accept an empty list of them.
    if system is None or system == () or work.rules.blank_text:
        return
    blocks = system_blocks(system)
    kept = tuple(block for block in blocks if block.text.strip())
    if len(kept) < len(blocks) or not blocks:
        severity: Severity = "record" if work.rules.blank_system else "weakened"
        work.lost("$.system", "system", "a blank system text is left out", severity)
        work.system = kept or None


def mark_failures(work: Work) -> None:
    """Puts failure into the result's text where the wire has no flag for it, so that the model does not mistake it
    for output.
    """
    if work.rules.error_flag:
        return
    for turn in work.turns:
        if not isinstance(turn.message, ToolResultMessage) or not turn.message.is_error:
            continue
        at = next((at for at, block in enumerate(turn.blocks) if isinstance(block, TextBlock)), None)
        if turn.at is None or _reports_failure(turn, at):
            continue
        work.lost(f"{turn.path}.content", "failure", "the target has no flag for it: written in the text")
        if at is None:
            turn.blocks.insert(0, TextBlock(text=FAILED.strip()))
            turn.places.insert(0, "")
        else:
            block: Any = turn.blocks[at]
            turn.put(at, replace(block, text=FAILED + block.text))
        turn.changed = True


def _reports_failure(turn: Turn, at: int | None) -> bool:
    block = turn.blocks[at] if at is not None else None
    if not isinstance(block, TextBlock):
        return False
    return block.text == NO_RESULT or block.text.lstrip("[( ").lower().startswith(("error", "failed"))


_ALLOWED: dict[type, tuple[type, ...]] = {
    UserMessage: (TextBlock, *MEDIA),
    AssistantMessage: (TextBlock, ThinkingBlock, ToolCall, ServerToolCall, ServerToolResult, *MEDIA),
    ToolResultMessage: (TextBlock, *MEDIA),
    SystemMessage: (TextBlock,),
}
# Of those, the ones that every target has.
_COMMON = {role: frozenset(kinds) - {ServerToolCall, ServerToolResult} for role, kinds in _ALLOWED.items()}


def drop_unsupported(work: Work) -> None:
    """Drops blocks that a role does not support, and those of other wires."""
    doubtful = [turn for turn in work.turns if not _COMMON[type(turn.message)].issuperset(map(type, turn.blocks))]
    if not doubtful:
        return
    tools = {turn: found for step in steps(work.turns) for found in (_ServerTools(step, work.rules),) for turn in step}
    last = next((turn for turn in reversed(work.turns) if not isinstance(turn.message, ToolResultMessage)), None)
    api = work.rules.api
    for turn in doubtful:
        allowed = _ALLOWED[type(turn.message)]
        may_pend = turn is last and isinstance(turn.message, AssistantMessage) and owner(turn.message.api) == api
        pending = _first_pending(turn) if may_pend else len(turn.blocks)
        kept = []
        for at, block in enumerate(turn.blocks):
            if isinstance(block, OpaqueBlock):
                known = work.rules.opaque and block.dialect == api
                why = None if known else f"only {block.dialect} supports it"
            elif not isinstance(block, allowed):
                why = f"not a block of {type(turn.message).__name__}"
            elif isinstance(block, ServerToolCall | ServerToolResult):
                ran = _ran_here(block, tools[turn], at >= pending, work)
                why = None if ran else "the target's provider did not run it"
            else:
                why = None
            if why is None:
                kept.append(at)
            else:
                work.lost(turn.places[at], "block", why, "dropped")
        turn.keep(kept)


class _ServerTools:
    """The ids of the calls in one step of the model that the target may have executed, and whose results there are."""

    def __init__(self, step: list[Turn], rules: TargetLimits) -> None:
        self.calls: set[str] = set()
        self.results: dict[str, set[str]] = {}  # the wires of the results, by the id of the call
        for turn in step:
            for block in turn.blocks:
                if isinstance(block, ServerToolCall) and (rules.server_tools == "paired" or rules.api in block.extra):
                    self.calls.add(block.id)
                elif isinstance(block, ServerToolResult):
                    self.results.setdefault(block.tool_call_id, set()).add(block.dialect)


def _first_pending(turn: Turn) -> int:
    """From where on calls may be without a result: the model says nothing more until it has the results."""
    # A paused turn ends anywhere: the provider goes on where it stopped.
    if turn.message.stop_detail == "pause_turn":
        return 0
    at = len(turn.blocks)
    while at and isinstance(turn.blocks[at - 1], ServerToolCall | ToolCall):
        at -= 1
    return at


def _ran_here(block: ServerToolCall | ServerToolResult, tools: _ServerTools, is_pending: bool, work: Work) -> bool:
    """Whether the target's provider executed this call. Providers require their own calls and results in pairs; only a
    paused turn ends without its results.
    """
    kind, api = work.rules.server_tools, work.rules.api
    if kind is None:
        return False
    if isinstance(block, ServerToolResult):
        return kind != "single" and block.dialect == api and block.tool_call_id in tools.calls
    if kind != "paired" and api not in block.extra:
        return False
    # The Responses wire: the item of a call holds its result.
    if kind == "single":
        return True
    results = tools.results.get(block.id)
    return api in results if results else is_pending


def fit_arguments(work: Work) -> None:
    """Wraps arguments that are not a JSON object in one that holds their text, so that the model sees what it wrote.

    Chat hosts that parse the string (vLLM, Mistral) refuse every later request over an invalid one; Anthropic, Google,
    Bedrock and Ollama accept only objects. The record keeps the original text.
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


# --- media ------------------------------------------------------------------------------------------------------------


def fit_media(work: Work) -> None:
    """Replaces media that the target does not accept by a description in text."""
    # The fitter of the pieces before counts on: limits are for a whole request.
    fitter = work.media = work.media or MediaFitter(work.rules, work.model)
    for turn in work.turns:
        for at, block in enumerate(turn.blocks):
            if isinstance(block, MEDIA):
                fitted, changes = fitter.fit(block, turn.message)
                for change in changes:
                    work.lost(f"{turn.places[at]}{change.field}", change.what, change.why, change.severity)
                if changes:
                    turn.put(at, fitted)


def accompany_documents(work: Work) -> None:
    """Adds a text before a document, where the target requires one in the same message."""
    # docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Message.html: "If you include a ContentBlock with a
    # document field in the array, you must also include a ContentBlock with a text field."
    if not work.rules.document_text:
        return
    for turn in work.turns:
        kinds = {type(block) for block in turn.blocks}
        if isinstance(turn.message, UserMessage) and DocumentBlock in kinds and TextBlock not in kinds:
            work.lost(f"{turn.path}.content", "document text", "a document needs a text beside it: one was added")
            turn.blocks.insert(0, TextBlock(text=DOCUMENTS))
            turn.places.insert(0, "")
            turn.changed = True


def move_result_media(work: Work) -> None:
    """Moves media of consecutive results into a user message after them, labelled per result: see `result_media`."""
    if work.rules.result_media:
        return
    turns: list[Turn] = []
    behind: list[Turn] = []
    number = 0
    for turn in work.turns:
        if isinstance(turn.message, ToolResultMessage):
            number += 1
            media = _take_media(turn, work)
            if media and (not behind or not work.rules.mixed_content):
                behind.append(Turn(None, UserMessage(content=(), extra=SYNTHETIC)))
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


def _take_media(turn: Turn, work: Work) -> list[tuple[Block, str]]:
    kept = [at for at, block in enumerate(turn.blocks) if not isinstance(block, MEDIA)]
    taken = [(turn.blocks[at], turn.places[at]) for at in range(len(turn.blocks)) if at not in kept]
    for _, place in taken:
        work.lost(place, "media", "a result cannot hold it: moved behind the results")
    turn.keep(kept)
    if taken and not kept:
        work.lost(f"{turn.path}.content", "media", "all of the result moved: a placeholder text stands in its place")
        turn.blocks, turn.places = [TextBlock(text=PLACEHOLDER)], [""]
    return taken
