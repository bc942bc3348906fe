"""Turn order: position of system messages, first and last message, alternation of roles."""

from itertools import pairwise

from msgspec.structs import replace

from ...dialects.limits import TargetLimits
from ...dialects.reasoning import is_on
from ...values.messages import (
    AssistantMessage,
    Message,
    ServerToolCall,
    ServerToolResult,
    SystemMessage,
    TextBlock,
    ToolResultMessage,
    UserMessage,
)
from .pairing import is_reasoning
from .thinking import is_native
from .work import CONTINUED, GO_ON, RECEIVED, SYNTHETIC, Turn, Work, system_blocks


# Anthropic, Gemini and Bedrock have one system text outside the messages, and no such role among them.
def place_system(work: Work) -> None:
    """Where system messages may not appear between others, moves leading ones to the system text, later ones to the
    user.
    """
    if work.rules.later_system:
        return
    kept: list[Turn] = []
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
                work.system = (*system_blocks(work.system), *texts)
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
    paused = turn.message.stop_detail == "pause_turn"
    return paused or (bool(turn.blocks) and isinstance(turn.blocks[-1], ServerToolCall | ServerToolResult))


def _trim_end(turn: Turn, work: Work) -> None:
    """Anthropic: "final assistant content cannot end with trailing whitespace"."""
    at, block = len(turn.blocks) - 1, turn.blocks[-1] if turn.blocks else None
    if isinstance(block, TextBlock) and block.text != block.text.rstrip():
        work.lost(f"{turn.places[at]}.text", "text", "a prefill may not end with whitespace")
        turn.put(at, replace(block, text=block.text.rstrip()))
