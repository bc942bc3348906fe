"""Turns: position of system messages, first and last message, alternation of roles; reasoning, as far as valid."""

from itertools import pairwise

from msgspec.structs import replace

from ...dialects.generations import bare
from ...dialects.limits import TargetLimits
from ...dialects.reasoning import is_on
from ...dialects.registry import family, owner
from ...values.messages import (
    AssistantMessage,
    Message,
    ServerToolCall,
    ServerToolResult,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from .blocks import is_blank
from .pairing import is_reasoning, steps
from .work import CONTINUED, GO_ON, RECEIVED, SYNTHETIC, Turn, Work, system_blocks


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
    ours = [natives[turn.message.model, turn.message.api] for turn in step]
    last = next((at for at in range(len(step) - 1, -1, -1) if _last_content(step[at], ours[at], work) is not None), -1)
    for at, (turn, native) in enumerate(zip(step, ours, strict=True)):
        dropped = _verify(turn, native, at < last, work) or dropped
        foreign = foreign or dropped or not native
        if dropped:
            _stand_alone(turn, work)
        _mark_call(turn, work)
    return foreign


def is_native(message: AssistantMessage, work: Work) -> bool:
    """Whether the target can verify the signatures of this message."""
    generated, here = family(message.model, message.api), owner(message.api) == work.rules.api
    # Unknown models: what a wire has signed is sent back on that wire only.
    if generated is None or work.home is None:
        return here
    if work.generation.bound_thinking and bare(message.model or "") != bare(work.model.id):
        return False  # signatures of another model are refused, even of the same family
    return generated == work.home and (here or generated in work.rules.families)


def _verify(turn: Turn, native: bool, followed: bool, work: Work) -> bool:
    """Returns whether any thinking was dropped. `followed`: the step has content after this turn."""
    kept, dropped = [], False
    last = _last_content(turn, native, work) or 0
    for at, block in enumerate(turn.blocks):
        if isinstance(block, ThinkingBlock):
            why = _unverifiable(block, followed or at < last, native, work.rules)
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


def _last_content(turn: Turn, native: bool, work: Work) -> int | None:
    """The index of the last block that is sent and is content that follows reasoning; None if there is none."""
    for at in range(len(turn.blocks) - 1, -1, -1):
        block = turn.blocks[at]
        if isinstance(block, TextBlock) and not native:
            block = replace(block, text_signature=None)  # blank text without a signature is left out
        if not isinstance(block, ThinkingBlock) and (work.rules.blank_text or not is_blank(block)):
            return at
    return None


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


# Gemini has one system text outside the messages; Anthropic and Bedrock have the role among them only for some newer
# models.
def place_system(work: Work) -> None:
    """Where system messages may not appear between others, moves leading ones to the system text, later ones to the
    user.
    """
    if work.rules.later_system:
        return
    kept: list[Turn] = []
    leading: list[TextBlock] = []
    for turn in work.turns:
        if not isinstance(turn.message, SystemMessage):
            kept.append(turn)
        elif kept:
            work.lost(turn.path, "system message", "the target has none here: sent as a user message")
            turn.message = UserMessage(content=turn.message.content, timestamp=turn.message.timestamp)
            kept.append(turn)
        else:
            work.lost(turn.path, "system message", "joined to the system text")
            texts = [block for block in turn.blocks if isinstance(block, TextBlock) and block.text.strip()]
            if texts:
                work.lost("$.system", "system message", "leading system messages were joined to it")
                leading += texts
    if leading:
        work.system = (*system_blocks(work.system), *leading)
    work.turns = kept


# Bedrock: "A conversation must start with a user message", "roles must alternate between user and assistant"
# (docs.aws.amazon.com/bedrock/latest/userguide/conversation-inference.html). Anthropic joins such messages itself.
def take_turns(work: Work) -> None:
    """Makes the user begin; where the target requires it, merges adjacent messages of one role."""
    turns: list[Turn] = []
    for turn in work.turns:
        if not turns or not _must_join(turns[-1], turn, work.rules) or not _merged(turns[-1], turn, work):
            turns.append(turn)
    work.turns = turns
    if work.rules.alternating:
        for before, turn in pairwise(turns):
            _join_results(before, turn, work)
    if not work.turns and not work.has_server_history:
        work.lost("$.messages", "beginning", "no messages: a placeholder was added")
        work.turns = [Turn(None, UserMessage(content=CONTINUED, extra=SYNTHETIC))]
    elif work.turns and work.rules.user_first and isinstance(work.turns[0].message, AssistantMessage):
        work.lost("$.messages", "beginning", "a user message must be first: a placeholder was added")
        work.turns.insert(0, Turn(None, UserMessage(content=CONTINUED, extra=SYNTHETIC)))


def _must_join(before: Turn, turn: Turn, rules: TargetLimits) -> bool:
    """Returns the messages to merge where calls must be in a step's last message: those from the first call or bare
    reasoning.
    """
    if rules.alternating:
        return True
    both_assistant = isinstance(before.message, AssistantMessage) and isinstance(turn.message, AssistantMessage)
    return both_assistant and rules.joined_calls and (before.calls != [] or is_reasoning(before))


def _merged(before: Turn, turn: Turn, work: Work) -> bool:
    """Merges a turn into the one before it, if both are the user's or both the model's."""
    if type(before.message) is not type(turn.message) or isinstance(turn.message, ToolResultMessage):
        return False
    loser = turn
    # The message of the target's own model stays, because its signatures hold only in it.
    if before.at is None or (isinstance(turn.message, AssistantMessage) and not is_native(before.message, work)):
        loser = Turn(before.at, before.message)
        before.at, before.message = turn.at, turn.message
    if loser.at is not None:
        work.lost(loser.path, "neighbours", "turns alternate: joined to its neighbour")
    if before.at is not None:
        work.lost(f"{before.path}.content", "neighbours", "turns alternate: its neighbour joined it")
    before.blocks += turn.blocks
    before.places += turn.places
    before.changed = True
    return True


def _join_results(before: Turn, turn: Turn, work: Work) -> None:
    """Merges a user message after results into the results' turn."""
    if not isinstance(before.message, ToolResultMessage) or not isinstance(turn.message, UserMessage):
        return
    residual = turn.message.extra.get(work.rules.api, {})
    if not residual.get("~joined"):
        turn.set(extra={**turn.message.extra, work.rules.api: {**residual, "~joined": True}})


# Mistral: "Unexpected role 'user' after role 'tool'".
def part_results_from_user(work: Work) -> None:
    """Inserts an acknowledgement of the model where no user message may follow results directly."""
    if not work.rules.answer_after_results:
        return
    turns: list[Turn] = []
    for turn in work.turns:
        if turns and isinstance(turns[-1].message, ToolResultMessage) and _is_asking(turn.message):
            work.lost("$.messages", "order", "an answer of the model stands between results and user: one was added")
            turns.append(Turn(None, AssistantMessage(content=(TextBlock(text=RECEIVED),), extra=SYNTHETIC)))
        turns.append(turn)
    work.turns = turns


def _is_asking(message: Message) -> bool:
    return isinstance(message, UserMessage | SystemMessage)


# Prefills are refused by newer Claude models, and by all while they think
# (platform.claude.com/docs/en/build-with-claude/extended-thinking); Mistral continues only a message with `prefix`.
def end_with_user(work: Work) -> None:
    """Handles a final assistant message, which is a prefill. Where that is refused, asks the model to continue."""
    last = work.turns[-1] if work.turns else None
    if last is None or not isinstance(last.message, AssistantMessage) or _is_paused(last):
        return
    thinks = is_on(work.options.reasoning, work.generation) and not work.rules.forced_with_thinking
    # A message of the user, since no wire has another way to ask for the rest of an answer.
    if work.generation.prefill is False or thinks:
        work.lost("$.messages", "prefill", "the target does not accept a prefill: it is asked to continue")
        work.turns.append(Turn(None, UserMessage(content=GO_ON, extra=SYNTHETIC)))
    elif work.rules.prefix_flag:
        own = last.message.extra.get(work.rules.api, {})
        last.set(extra={**last.message.extra, work.rules.api: {**own, "prefix": True}})
    elif work.rules.trimmed_end:
        _trim_end(last, work)


def _is_paused(turn: Turn) -> bool:
    """Whether the provider executes its own tool and expects the turn back unchanged."""
    # platform.claude.com/docs/en/build-with-claude/handling-stop-reasons: send the answer back as it is, and the turn
    # goes on.
    paused = turn.message.stop_detail == "pause_turn"
    return paused or (bool(turn.blocks) and isinstance(turn.blocks[-1], ServerToolCall | ServerToolResult))


def _trim_end(turn: Turn, work: Work) -> None:
    """Anthropic: "final assistant content cannot end with trailing whitespace"."""
    at, block = len(turn.blocks) - 1, turn.blocks[-1] if turn.blocks else None
    if isinstance(block, TextBlock) and block.text != block.text.rstrip():
        work.lost(f"{turn.places[at]}.text", "text", "a prefill may not end with whitespace")
        turn.put(at, replace(block, text=block.text.rstrip()))
