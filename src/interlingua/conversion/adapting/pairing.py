"""Pairs calls and results: drops failed turns, and puts each result after its call."""

from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any, NamedTuple

from ...dialects.registry import WIRES
from ...values.messages import AssistantMessage, TextBlock, ThinkingBlock, ToolCall, ToolResultMessage
from .work import NO_RESULT, SYNTHETIC, Turn, Work

# Reasons of losses that `check` leaves out where they do not apply.
UNASKED = "no open call has this id"
UNANSWERED = "none for the call"


def drop_failed(work: Work) -> None:
    """Drops turns that failed or were aborted, with their results: providers refuse requests with half a turn."""
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


def _has_failed(turn: Turn) -> bool:
    return isinstance(turn.message, AssistantMessage) and not is_sent(turn.message)


def is_sent(answer: AssistantMessage) -> bool:
    return answer.stop_reason not in ("error", "aborted")


# Every provider wants one result for each call, directly after it: Anthropic's are the first blocks of the next message
# (platform.claude.com/docs/en/agents-and-tools/tool-use/implement-tool-use); OpenAI: "An assistant message with
# 'tool_calls' must be followed by tool messages"; Gemini wants as many function responses as calls
# (ai.google.dev/gemini-api/docs/function-calling).
def pair(work: Work) -> None:
    """Puts the results of each step after it, one per call, in call order; then the other messages.

    A step is a sequence of assistant messages up to the first result of one of them. The calls of one response may be
    in one message or in several, and their results before, between or long after them.
    """
    in_place = _results_in_place(work.turns)
    if in_place is not None:
        for turn, call in in_place:
            _name_after(turn, call, work)
        return
    answers = _match_results(work.turns)
    callers = {result: turn for (turn, _), result in answers.items()}
    turns: list[Turn] = []
    step: list[Turn] = []
    others: list[Turn] = []
    unasked: list[Turn] = []
    answered = False  # a result of the step was seen: the next assistant message begins another step
    for turn in work.turns:
        if isinstance(turn.message, ToolResultMessage):
            answered = answered or callers.get(turn) in step
            # The call is in a response that the provider has stored.
            if turn not in callers and work.has_server_history:
                others.append(turn)
            elif turn not in callers:
                unasked.append(turn)
        elif not isinstance(turn.message, AssistantMessage):
            others.append(turn)
        else:
            if answered or others:
                ahead = _next_step_reasoning(step) if not others else []
                turns += [*_with_results(step[: len(step) - len(ahead)], answers, work), *others]
                step, others, answered = ahead, [], False
            step.append(turn)
    work.turns = [*turns, *_with_results(step, answers, work), *others]
    for turn in unasked:
        work.lost(turn.path, "tool result", UNASKED, "dropped")
    _report_moves(work)


def _results_in_place(turns: list[Turn]) -> list[tuple[Turn, ToolCall]] | None:
    """Returns each result with its call, if every message with calls is followed by their results in call order and
    by nothing else, as clients send it; otherwise None.
    """
    found: list[tuple[Turn, ToolCall]] = []
    pending: list[ToolCall] = []  # calls without a result yet, the first one last
    for turn in turns:
        message = turn.message
        if type(message) is ToolResultMessage:
            if not pending or pending[-1].id != message.tool_call_id:
                return None
            found.append((turn, pending.pop()))
        elif pending:
            return None
        elif type(message) is AssistantMessage:
            pending = [block for block in reversed(turn.blocks) if type(block) is ToolCall]
    return None if pending else found


def _next_step_reasoning(step: list[Turn]) -> list[Turn]:
    """Returns the reasoning at the end of a step whose results came in between: it belongs to the next step.

    Before it is a call that has a result.
    """
    at = len(step)
    while step[at - 1].blocks and is_reasoning(step[at - 1]):
        at -= 1
    return step[at:]


class _OpenCall(NamedTuple):
    turn: "Turn"
    at: int
    ids: tuple[str, ...]  # a call of the Responses wire has two ids; a result may use either
    row: int
    sent: bool


def _match_results(turns: list[Turn]) -> dict[tuple[Turn, int], Turn]:
    """Maps each call, by message and block index, to its result. No result is left over while a call lacks one.

    Ids may repeat, since some wires have none and ours are generated. A result belongs to the latest row of assistant
    messages before it that has an open call with its id, and in the row to the first; to a failed turn only if there is
    no other. A result before its call belongs to the first call that has no other result.
    """
    answers: dict[tuple[Turn, int], Turn] = {}
    open_calls: dict[str, list[_OpenCall]] = {}
    early: list[Turn] = []

    def answer(result: Turn, likely: Callable[[_OpenCall], Any]) -> bool:
        id = result.message.tool_call_id
        candidates = open_calls.get(id)
        if not candidates:
            return False
        call = candidates[0]
        if len(candidates) > 1:
            call = max(candidates, key=lambda call: (call.ids[0] == id, call.sent, likely(call)))
        answers[call.turn, call.at] = result
        for id in call.ids:
            open_calls[id].remove(call)
        return True

    for row, turn in rows(turns):
        if isinstance(turn.message, ToolResultMessage) and not answer(turn, lambda call: call.row):
            early.append(turn)
        for at, block in enumerate(turn.blocks if isinstance(turn.message, AssistantMessage) else ()):
            if isinstance(block, ToolCall):
                call = _OpenCall(turn, at, call_ids(block), row, not _has_failed(turn))
                for id in call.ids:
                    open_calls.setdefault(id, []).append(call)
    for turn in early:
        answer(turn, lambda call: 0)
    return answers


def rows(turns: list[Turn]) -> Iterator[tuple[int, Turn]]:
    """Yields the turns, each with the number of its row of assistant messages."""
    row, was_assistant = 0, False
    for turn in turns:
        is_assistant = isinstance(turn.message, AssistantMessage)
        if is_assistant and not was_assistant:
            row += 1
        was_assistant = is_assistant
        yield row, turn


def steps(turns: list[Turn]) -> list[list[Turn]]:
    """Returns the rows of assistant messages: the steps of the model, once results follow their calls."""
    found: dict[int, list[Turn]] = {}
    for row, turn in rows(turns):
        if isinstance(turn.message, AssistantMessage):
            found.setdefault(row, []).append(turn)
    return [*found.values()]


def call_ids(call: ToolCall) -> tuple[str, ...]:
    """Returns a call's id, and its item id where the source wire has both: a result may use either."""
    for api, residual in call.extra.items():
        item = residual.get("id") if isinstance(residual, dict) else None
        # platform.openai.com/docs/guides/function-calling: results name `call_id`; some clients send the item's `fc_…`
        # id.
        if isinstance(item, str) and item != call.id and (wire := WIRES.get(api)) and wire.limits.item_ids:
            return call.id, item
    return (call.id,)


def _with_results(step: list[Turn], answers: dict[tuple[Turn, int], Turn], work: Work) -> Iterator[Turn]:
    """Returns the step followed by the results of its calls in call order; a missing result is replaced by a notice."""
    yield from step
    for turn in step:
        for at, block in enumerate(turn.blocks):
            if not isinstance(block, ToolCall):
                continue
            result = answers.get((turn, at))
            # A result that says so, since providers refuse a call without one, and the call may have had its effect.
            if result is None:
                work.lost(turn.places[at], "tool result", f"{UNANSWERED} of {block.name}: one was added")
                result = Turn(None, _no_result(block))
            else:
                _name_after(result, block, work)
            yield result


def _report_moves(work: Work) -> None:
    turns = [turn for turn in work.turns if turn.at is not None]
    places = [turn.at or 0 for turn in turns]
    if places == sorted(places):
        return
    furthest = [-1, *accumulate(places, max)]  # of earlier
    nearest = [*reversed([*accumulate(reversed(places), min)]), max(places) + 1][1:]  # of later
    for at, turn in enumerate(turns):
        if isinstance(turn.message, ToolResultMessage) and (furthest[at] > places[at] or nearest[at] < places[at]):
            work.lost(turn.path, "order", "results follow their calls at once, in call order")


def _name_after(turn: Turn, call: ToolCall, work: Work) -> None:
    """Sets the id and name of the call on its result; a missing name is no loss."""
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


def is_reasoning(turn: Turn) -> bool:
    return all(isinstance(block, ThinkingBlock) for block in turn.blocks)
