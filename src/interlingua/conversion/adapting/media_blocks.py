"""Images, documents and audio, in the form and position that the target accepts."""

from ...dialects.results import PLACEHOLDER, label
from ...values.messages import Block, DocumentBlock, TextBlock, ToolResultMessage, UserMessage
from ..media import MEDIA, MediaFitter
from .work import DOCUMENTS, SYNTHETIC, Turn, Work


def fit_media(work: Work) -> None:
    """Replaces media that the target does not accept by a description in text."""
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
