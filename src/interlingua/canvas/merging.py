"""Merging branches of a session into one: as an entry with several parents, as a mere continuation, or as one message.

- *explicit*: the new entry follows the target and names the heads of the sources as further parents;
- *linear*: the new entry follows the target alone; where it came from is noted with it;
- *squash*: what the sources said since they parted from the target is said again, in one message, behind the target.
"""

import time
from collections.abc import Sequence
from typing import Any, Literal

from ..serving.problems import HttpProblem
from ..sessions import Session
from ..sessions.compaction import is_bookkeeping
from ..values.messages import AgentMessage, CustomMessage, UserMessage, text_of
from ..values.request import Entry

SELF = "interlingua"


def merged(
    session: Session,
    into: str,
    sources: Sequence[str],
    message: AgentMessage | None,
    strategy: Literal["explicit", "linear", "squash"],
) -> Entry:
    """The entry that merges branches (or entries) into a branch, which moves there; the sources stay as they are."""
    branches = session.branches()
    if into not in branches:
        raise HttpProblem(404, f"no branch {into!r}", code="branch_not_found", path="$.into", remedy="make it first")
    if not sources:
        raise HttpProblem(422, "nothing to merge", path="$.from", remedy="name at least one branch")
    heads = [_head(session, source, at) for at, source in enumerate(sources)]
    target = branches[into].head
    given = message if message is not None else _squashed(session, target, heads, strategy)
    reported = [
        {"branch": source, "head": head} if source in branches else {"head": head}
        for source, head in zip(sources, heads, strict=True)
    ]
    about = {SELF: {"merge": {"strategy": strategy, "into": into, "target": target, "sources": reported}}}
    parents = [head for head in dict.fromkeys(heads) if head != target] if strategy == "explicit" else []
    return session.append(given, branch=into, expect=target, parents=parents, extra=about)


def _head(session: Session, source: str, at: int) -> str:
    known = session.branches().get(source)
    head = known.head if known is not None else source
    if known is not None and head is None:
        raise HttpProblem(422, f"nothing was said on {source!r}", path=f"$.from[{at}]", remedy="leave it out")
    session.line_of(head or "")
    return head or ""


def _squashed(session: Session, target: str | None, heads: Sequence[str], strategy: str) -> UserMessage:
    if strategy != "squash":
        raise HttpProblem(422, "a merge needs a message", path="$.message", remedy="say what comes of the branches")
    known = {entry.id for entry in session.path(to=target)} if target is not None else set()
    parts = []
    for head in heads:
        for entry in session.path(to=head):
            message: AgentMessage = entry.message
            if entry.id not in known and not is_bookkeeping(message) and not isinstance(message, CustomMessage):
                parts.append(f"{message.role}: {text_of(message.content)}")
            known.add(entry.id)
    extra: dict[str, Any] = {}
    return UserMessage(content="\n\n".join(parts), timestamp=int(time.time() * 1000), extra=extra)
