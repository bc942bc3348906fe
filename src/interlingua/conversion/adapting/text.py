"""Text: blank or invalid text, and failures that can only be expressed as text."""

from typing import Any

from msgspec.structs import replace

from ...values import jsontext
from ...values.losses import Severity
from ...values.messages import Block, TextBlock, ToolResultMessage
from .work import FAILED, NO_OUTPUT, NO_RESULT, Turn, Work, system_blocks


def clean_text(work: Work) -> None:
    """Replaces unpaired surrogates by U+FFFD; drops blank blocks where the target refuses them, and empty turns."""
    kept = []
    for turn in work.turns:
        for at, block in enumerate(turn.blocks):
            if isinstance(block, TextBlock) and not (block.text.isascii() or jsontext.is_clean(block.text)):
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
