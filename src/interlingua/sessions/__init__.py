"""Sessions: conversations on disk, as append-only trees."""

from .session import Session, UnfinishedCall, save, store_at
from .store import Problem, SessionBusy, SessionDamaged, SessionError, SessionInfo, SessionNotFound, Store

__all__ = [
    "Problem",
    "Session",
    "SessionBusy",
    "SessionDamaged",
    "SessionError",
    "SessionInfo",
    "SessionNotFound",
    "Store",
    "UnfinishedCall",
    "save",
    "store_at",
]
