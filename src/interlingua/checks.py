"""check: what is wrong with a conversation, where, and what to write instead.

There is one set of rules, and `adapt` holds it: a finding is a repair that `adapt` would make for the target. So what
`adapt` gives has no findings left, and a rule cannot be known to one of them and not to the other.
"""

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from . import conversion, handover
from .dialects import dialect as find_dialect
from .errors import DialectError, FormatError
from .losses import Loss
from .request import Conversation, ModelDescriptor, Request


class Finding(Struct, frozen=True):
    """`path` points into the conversation; `remedy` says what to write instead."""

    path: str
    severity: Literal["error", "warning"]
    message: str
    remedy: str


class _Advice(NamedTuple):
    severity: Literal["error", "warning"]
    remedy: str


# By what a repair concerns: whether a target refuses the conversation over it, and what to do.
ADVICE: dict[str, _Advice] = {
    "tool result": _Advice(
        "error", "put one toolResult per call right behind the assistant's turn, with the call's id"
    ),
    "order": _Advice("error", "put the results right behind their calls, in call order; the user's words after them"),
    "id": _Advice("error", "give each call an id of its own that the target takes, and its result the same"),
    "tool name": _Advice("error", "use letters, digits, _ and - only, 64 at most"),
    "tool_name": _Advice("warning", "name the tool in its result"),
    "message": _Advice("error", "leave the message out, or say something in it"),
    "text": _Advice("error", "leave blank blocks out; repair broken characters before you store them"),
    "thinking": _Advice("warning", "replay reasoning, signed, only to the model family that minted it"),
    "text_signature": _Advice("warning", "leave other models' signatures out"),
    "thought_signature": _Advice("warning", "leave other models' signatures out"),
    "system": _Advice("error", "leave a blank system prompt out"),
    "system message": _Advice("error", "put instructions into the system prompt"),
    "image": _Advice("error", "send pictures in a user message behind the results"),
    "ImageBlock": _Advice("error", "send a picture of a type, size and kind that the target takes"),
    "AudioBlock": _Advice("error", "send a transcript instead"),
    "DocumentBlock": _Advice("error", "send the document's text, or its data where an address is not taken"),
    "title": _Advice("error", "use letters, digits, single spaces, hyphens, brackets; each name once"),
    "cache": _Advice("error", "mark fewer blocks for caching"),
    "tools": _Advice("error", "send the tool definitions along while the history has tool blocks"),
    "required": _Advice("error", "list only parameters that the schema has"),
    "max_tokens": _Advice("error", "set max_tokens within what the model gives"),
    "stop": _Advice("error", "send fewer stop sequences"),
    "reasoning": _Advice("error", "turn reasoning off for this request"),
    "tool_choice": _Advice("error", "leave the choice to the model, or turn thinking off"),
    "temperature": _Advice("error", "leave it out while thinking is on"),
    "top_k": _Advice("error", "leave it out while thinking is on"),
}
_OTHERWISE = _Advice("error", "leave it out for this target")


def check(data: Any, dialect: str | None = None, target: ModelDescriptor | str | None = None) -> tuple[Finding, ...]:
    """What is wrong in `data` (JSON in any format, a Conversation or a Request); `target` adds that target's rules."""
    if isinstance(data, Request):
        return _checked(data, target)
    if isinstance(data, Conversation):
        return _checked(data.request(), target)
    try:
        value = conversion.value_of(data)
        mistakes = _mistakes(value, dialect)
        conversation = conversion.decode(value, dialect)
    except (DialectError, FormatError) as error:
        return (Finding(error.path, "error", error.message, "write it as the format has it, or name the format"),)
    return (*mistakes, *_checked(conversation.request(), target))


def _mistakes(value: Any, dialect: str | None) -> tuple[Finding, ...]:
    """Foreign spellings in what is meant to be the format's own messages."""
    clawtools = find_dialect("clawtools")
    found = conversion.detect(value) if dialect is None else None
    if (dialect or (found.dialect if found else "")) not in ("clawtools", "openclaw", "interlingua"):
        return ()
    spotted: Iterable[tuple[str, str, str]] = clawtools.mistakes(value)  # type: ignore[attr-defined]
    return tuple(Finding(path, "error", message, remedy) for path, message, remedy in spotted)


def _checked(request: Request, target: ModelDescriptor | str | None) -> tuple[Finding, ...]:
    if target is None:
        repairs = handover.structural_repairs(request)
    else:
        repairs = handover.adapt(request, target).losses
    return (*_empty(request, target), *(_finding(loss) for loss in repairs))


def _empty(request: Request, target: ModelDescriptor | str | None) -> tuple[Finding, ...]:
    if request.context.messages or target is None:
        return ()
    return (Finding("$.messages", "error", "there is nothing to answer", "add a user message"),)


def _finding(loss: Loss) -> Finding:
    advice = ADVICE.get(loss.what, _OTHERWISE)
    return Finding(loss.path, advice.severity, f"{loss.what}: {loss.why}", advice.remedy)
