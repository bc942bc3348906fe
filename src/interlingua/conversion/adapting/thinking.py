"""Reasoning and signatures: only what the target can verify is sent."""

from msgspec.structs import replace

from ...dialects.generations import bare
from ...dialects.limits import TargetLimits
from ...dialects.targets import family, owner
from ...values.messages import AssistantMessage, Block, TextBlock, ThinkingBlock, ToolCall
from .pairing import steps
from .text import is_blank
from .work import Turn, Work


# Signatures are opaque, and only the model family that made them verifies them: thinking returns to Claude unchanged or
# not at all (platform.claude.com/docs/en/build-with-claude/extended-thinking), encrypted reasoning to OpenAI
# (platform.openai.com/docs/guides/reasoning), thought signatures to Gemini
# (ai.google.dev/gemini-api/docs/thought-signatures).
def verify_thinking(work: Work) -> None:
    """Drops reasoning that the target cannot verify (or sends it as text), and foreign signatures."""
    native: dict[tuple[str | None, str | None], bool] = {}  # by model and api: few have written a conversation
    for step in steps(work.turns):
        for turn in step:
            author = (turn.message.model, turn.message.api)
            if author not in native:
                native[author] = is_native(turn.message, work)
        if _verify_step(step, native, work):
            work.foreign.update(step)


def _verify_step(step: list[Turn], natives: dict[tuple[str | None, str | None], bool], work: Work) -> bool:
    """Whether any of it is another model's, or had thinking that was dropped."""
    foreign = dropped = False
    for at, turn in enumerate(step):
        native = natives[turn.message.model, turn.message.api]
        dropped = _verify(turn, native, step[at + 1 :], work) or dropped
        foreign = foreign or dropped or not native
        if dropped:
            _stand_alone(turn, work)
        _mark_call(turn, work)
    return foreign


def is_native(message: AssistantMessage, work: Work) -> bool:
    """Whether the target can verify the signatures of this message."""
    generated, here = family(message.model, message.api), owner(message.api) == work.rules.api
    if generated is None or work.home is None:
        return here
    if work.generation.bound_thinking and bare(message.model or "") != bare(work.model.id):
        return False  # signatures of another model are refused, even of the same family
    return generated == work.home and (here or generated in work.rules.families)


def _verify(turn: Turn, native: bool, later: list[Turn], work: Work) -> bool:
    """Returns whether any thinking was dropped. `later`: the rest of its step."""
    kept, dropped = [], False
    for at, block in enumerate(turn.blocks):
        if isinstance(block, ThinkingBlock):
            rest = [*turn.blocks[at:], *(block for one in later for block in one.blocks)]
            follows = any(_remains(block, work.rules) for block in rest)
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


def _remains(block: Block, rules: TargetLimits) -> bool:
    """Whether a block is sent, and is content that follows reasoning."""
    return not isinstance(block, ThinkingBlock) and (rules.blank_text or not is_blank(block))


def _unverifiable(block: ThinkingBlock, follows: bool, native: bool, rules: TargetLimits) -> str | None:
    if not native:
        return "signed by another model: the target cannot verify it"
    if block.thinking_signature is None and (rules.signed_thinking or not block.thinking.strip()):
        return "unsigned: the target cannot verify it"
    # The Responses wire refuses reasoning "without its required following item", Claude a turn that ends in thinking.
    return None if follows else "nothing follows it"


def _unsign(turn: Turn, at: int, work: Work) -> None:
    block, place = turn.blocks[at], turn.places[at]
    if isinstance(block, TextBlock) and block.text_signature is not None:
        work.lost(f"{place}.textSignature", "signature", "signed by another model", "dropped")
        turn.put(at, replace(block, text_signature=None))
    elif isinstance(block, ToolCall) and block.thought_signature not in (None, work.rules.unsigned_call):
        work.lost(f"{place}.thoughtSignature", "signature", "signed by another model", "dropped")
        turn.put(at, replace(block, thought_signature=None))


def _stand_alone(turn: Turn, work: Work) -> None:
    """Drops the id of a Responses item whose reasoning item is not sent.

    OpenAI: "Item 'fc_…' of type 'function_call' was provided without its required 'reasoning' item".
    """
    api = work.rules.api
    for at, block in enumerate(turn.blocks if work.rules.item_ids else ()):
        residual = block.extra.get(api)
        if residual and "id" in residual:
            work.lost(f"{turn.places[at]}.extra", "item id", "it belongs to reasoning that is not sent", "record")
            rest = {key: value for key, value in residual.items() if key != "id"}
            turn.put(at, replace(block, extra={**block.extra, api: rest}))


def _mark_call(turn: Turn, work: Work) -> None:
    """Adds the documented marker to an unsigned call where calls must be signed; never invents a signature."""
    # ai.google.dev/gemini-api/docs/thought-signatures: Gemini 3 refuses unsigned calls, but for this documented value.
    marker = work.rules.unsigned_call
    if marker is None or any(call.thought_signature for call in turn.calls):
        return  # of parallel calls only the first is signed
    for at, block in enumerate(turn.blocks):
        if isinstance(block, ToolCall):
            work.lost(f"{turn.places[at]}.thoughtSignature", "signature", "unsigned: marked to skip validation")
            turn.put(at, replace(block, thought_signature=marker))
            return
