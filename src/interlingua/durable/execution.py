"""Executes one run on its session, from the start or where another worker left off. Knows nothing of queues.

The session is the only record of what was done. For the queue a run is one unit: workflow steps would be a second
journal that could disagree with the first.
"""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from ..agent import Agent, Limits
from ..agent.batch import NOT_RUN, UNKNOWN, result_message
from ..agent.history import Stored
from ..connect.results import Spent
from ..sessions import Session, SessionError, SessionNotFound
from ..tools.tool import ToolResult
from ..values.abort import Abort
from ..values.canonical import build
from ..values.interop import must_propagate
from ..values.messages import AgentMessage, AssistantMessage, TextBlock, ToolResultMessage, text_of
from .orders import Order, Outcome, RunFailed, made


async def executed(order: Order, session: Session, signal: Abort) -> Outcome:
    """Runs to the end. Raises RunFailed if the agent could not be created or its model failed; SessionError if the
    session could not be written: the run may then be retried.
    """
    agent = await _made(order, session)
    _begin(order, session)
    agent.history.reload()
    before = _since_prompt(order, session)
    limits = agent.limits
    reason = limits.reached(_spent(before)) if before else None
    if session.unfinished_calls() or (reason is None and _is_open(agent)):
        agent.limits = _remaining_limits(limits, _spent(before))
        result = await agent.continue_(signal=signal)
        reason = _named(result.reason, limits, _spent(_since_prompt(order, session)))
        if reason == "error":
            raise _failure(result.failure, agent)
    return _outcome(reason or "done", agent, _since_prompt(order, session))


async def _made(order: Order, session: Session) -> Agent:
    try:
        return await made(order.agent, session, order.arguments)
    except SessionError:
        raise
    except BaseException as error:  # raised by the agent factory
        if must_propagate(error):
            raise
        text = str(error) or "no message"
        raise RunFailed(f"agent {order.agent!r} could not be created: {type(error).__name__}: {text}") from error


def _begin(order: Order, session: Session) -> None:
    """Appends the prompt to the session, unless it is there: its entry ids derive from the run's id."""
    for name, message in zip(order.entry_ids, order.prompt, strict=True):
        if _has(session, name):
            continue
        if name == order.entry_ids[0]:
            _close_open_calls(session)
        session.append(message, id=name)


def _has(session: Session, name: str) -> bool:
    try:
        session.entry(name)
    except SessionNotFound:
        return False
    return True


def _close_open_calls(session: Session) -> None:
    """Adds results for open calls of an earlier run; none of them is executed."""
    history = Stored(session)
    for unfinished in session.unfinished_calls():
        call = unfinished.call
        provided = unfinished.result
        if isinstance(provided, dict):
            result: ToolResultMessage = build(provided, ToolResultMessage)
        else:
            status, text = ("unknown", UNKNOWN) if unfinished.started else ("aborted", NOT_RUN)
            given = ToolResult(content=(TextBlock(text=text),), details={"status": status}, is_error=True)
            result = result_message(call, given)
        history.append(result)


def _since_prompt(order: Order, session: Session) -> tuple[AgentMessage, ...]:
    """The messages of this run."""
    path = session.path()
    ours = {*order.entry_ids}
    first = next((at for at, entry in enumerate(path) if entry.id in ours), 0)
    return tuple(entry.message for entry in path[first:] if entry.id not in ours)


def _spent(messages: Sequence[AgentMessage]) -> Spent:
    """The usage of all answers of the run, over all workers."""
    spent = Spent()
    for message in messages:
        if isinstance(message, AssistantMessage):
            spent.add(message)
    return spent


def _remaining_limits(limits: Limits, spent: Spent) -> Limits:
    """The remaining limits. Seconds count per life; an unknown cost leaves nothing."""
    return replace(
        limits,
        turns=None if limits.turns is None else limits.turns - spent.turns,
        tokens=None if limits.tokens is None else limits.tokens - spent.tokens,
        cost=None if limits.cost is None else 0.0 if spent.cost is None else limits.cost - spent.cost,
    )


def _named(reason: str, limits: Limits, spent: Spent) -> str:
    """The reason with the agent's own limit, not the remaining one."""
    return limits.reached(spent) or reason if reason.startswith("limit: ") else reason


def _is_open(agent: Agent) -> bool:
    """Whether the model must continue; a final answer that does not match the output schema is sent back."""
    last = agent.messages[-1]
    if not isinstance(last, AssistantMessage) or last.stop_reason in ("error", "aborted"):
        return True
    problem = agent.verify(last)
    if problem is not None:
        agent.follow_up(f"Your answer does not match the requested format: {problem} Answer again with the JSON only.")
    return problem is not None


def _failure(failure: Exception | None, agent: Agent) -> Exception:
    if isinstance(failure, SessionError):
        return failure
    return RunFailed(str(failure or agent.state.error or "the agent failed without a reason"))


def _outcome(reason: str, agent: Agent, messages: Sequence[AgentMessage]) -> Outcome:
    spent = _spent(messages)
    answers = [message for message in messages if isinstance(message, AssistantMessage)]
    text = text_of(answers[-1].content) if answers else ""
    return Outcome(
        reason=reason,
        text=text,
        output=agent.output.read(answers[-1]).value if agent.output is not None and reason == "done" else None,
        turns=spent.turns,
        tokens=spent.tokens,
        cost=spent.cost,
        unknown=tuple(
            message.tool_call_id
            for message in messages
            if isinstance(message, ToolResultMessage) and _is_unknown(message.details)
        ),
    )


def _is_unknown(details: Any) -> bool:
    return isinstance(details, dict) and details.get("status") == "unknown"
