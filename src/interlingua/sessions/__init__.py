"""Sessions: conversations on disk, as append-only trees."""

from .session import Session, UnfinishedCall, save, store_at
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
