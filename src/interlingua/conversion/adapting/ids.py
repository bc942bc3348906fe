"""Call ids that the target accepts."""

import hashlib
import re
from collections import Counter
from collections.abc import Container

from msgspec.structs import replace

from ...dialects.limits import NameRule
from ...values.messages import AssistantMessage, ToolCall, ToolResultMessage
from .pairing import rows
from .work import EarlierIds, Turn, Work


class _Used:
    """The ids that no further call may have."""

    def __init__(self, earlier: EarlierIds | None) -> None:
        self._own = set[str]()
        self._earlier = () if earlier is None else earlier

    def __contains__(self, id: object) -> bool:
        return id in self._own or id in self._earlier

    def add(self, id: str) -> None:
        self._own.add(id)


# Anthropic's and Bedrock's ids match [a-zA-Z0-9_-] (platform.claude.com/docs/en/api/messages, `tool_use.id`;
# docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ToolUseBlock.html), OpenAI refuses long ones ("string too
# long"), Mistral wants nine letters or digits ("must be a-z, A-Z, 0-9, with a length of 9").
def rename_ids(work: Work) -> None:
    """Renames call ids that the target refuses: deterministic, unique and never empty; results follow their calls."""
    earlier = work.earlier.ids if work.earlier is not None and work.rules.ids is not None else None
    used, seen = _Used(earlier), Counter[str]()
    pending: list[tuple[str, str]] = []
    step = 0
    for row, turn in rows(work.turns):
        if isinstance(turn.message, ToolResultMessage):
            _follow(turn, pending, work)
            continue
        if not isinstance(turn.message, AssistantMessage):
            continue
        if row != step:
            step, pending = row, []
            if work.rules.ids is None:  # these wires pair within the step
                used, seen = _Used(None), Counter()
        for at, block in enumerate(turn.blocks):
            if isinstance(block, ToolCall):
                count = seen[block.id] + (0 if earlier is None else earlier.count(block.id))
                new = fitting(block.id, count, work.rules.ids, used)
                seen[block.id] += 1
                used.add(new)
                pending.append((block.id, new))
                if new != block.id:
                    work.ids[new] = block.id
                    work.lost(f"{turn.places[at]}.id", "id", "the target does not accept this id")
                    turn.put(at, replace(block, id=new))


def _follow(turn: Turn, pending: list[tuple[str, str]], work: Work) -> None:
    for place, (old, new) in enumerate(pending):
        if old == turn.message.tool_call_id:
            del pending[place]
            if old != new:
                if turn.at is not None:
                    work.lost(f"{turn.path}.toolCallId", "id", "follows the id of its call")
                turn.set(tool_call_id=new)
            return


_ANY_ID = NameRule(r"[A-Za-z0-9_-]+", 64)


def fitting(name: str, nth: int, rule: NameRule | None, used: Container[str]) -> str:
    if name and nth == 0 and name not in used and (rule is None or rule.allows(name)):
        return name
    attempt = 0
    while (new := _hashed(name, f"{nth}.{attempt}", rule or _ANY_ID)) in used:
        attempt += 1
    return new


def _hashed(name: str, salt: str, rule: NameRule) -> str:
    """Returns a valid name for an invalid one: its readable part and a hash, so that truncation causes no
    collisions.
    """
    digest = hashlib.blake2s(f"{salt}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()
    readable = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")[: max(0, rule.max_length - 13)]
    for new in (f"{readable}_{digest[:12]}" if readable else "", f"call_{digest[:12]}"):
        if rule.allows(new):
            return new
    return digest[: rule.max_length]
