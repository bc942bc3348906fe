"""Sessions: conversations on disk, as append-only trees."""

from typing import TYPE_CHECKING, Any

from .store import (
    EntryExists,
    Problem,
    SessionBusy,
    SessionDamaged,
    SessionError,
    SessionInfo,
    SessionNotFound,
    StaleHead,
    StaleVersion,
    Store,
)
from .tree import Branch, Note

if TYPE_CHECKING:
    from .session import Session, UnfinishedCall, save, store_at


def __getattr__(name: str) -> Any:
    """Imports sessions on first use: to list them, no dialects are needed."""
    if name not in ("Session", "UnfinishedCall", "save", "store_at"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import session

    found = globals()[name] = getattr(session, name)
    return found


__all__ = [
    "Branch",
    "EntryExists",
    "Note",
    "Problem",
    "Session",
    "SessionBusy",
    "SessionDamaged",
    "SessionError",
    "SessionInfo",
    "SessionNotFound",
    "StaleHead",
    "StaleVersion",
    "Store",
    "UnfinishedCall",
    "save",
    "store_at",
]
