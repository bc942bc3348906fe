"""Sessions: conversations on disk, as append-only trees."""

from typing import TYPE_CHECKING

from ..values.lazy import by_module, lazy_names
from .store import (
    EntryExists,
    SessionBusy,
    SessionDamaged,
    SessionError,
    SessionInfo,
    SessionNotFound,
    SessionProblem,
    StaleHead,
    StaleVersion,
    Store,
)
from .tree import Branch, Note

if TYPE_CHECKING:
    from .operations import (
        collect_garbage,
        compact_session,
        delete_sessions,
        deleted_sessions,
        export_session,
        find_sessions,
        fork_session,
        import_sessions,
        list_sessions,
        open_session,
        purge_sessions,
        read_session,
        repair_session,
        restore_sessions,
        search_sessions,
        session_totals,
        summary_request,
    )
    from .reader import UnfinishedCall
    from .session import Session, save, store_at

# Loaded on first use: listing the sessions of a store needs no dialects.
_LAZY = by_module(
    {
        "operations": "collect_garbage compact_session delete_sessions deleted_sessions export_session find_sessions"
        " fork_session import_sessions list_sessions open_session purge_sessions read_session repair_session"
        " restore_sessions search_sessions session_totals summary_request",
        "reader": "UnfinishedCall",
        "session": "Session save store_at",
    }
)

if not TYPE_CHECKING:  # for type checkers every name exists
    __getattr__ = lazy_names(__name__, _LAZY)


__all__ = [
    "Branch",
    "EntryExists",
    "Note",
    "Session",
    "SessionBusy",
    "SessionDamaged",
    "SessionError",
    "SessionInfo",
    "SessionNotFound",
    "SessionProblem",
    "StaleHead",
    "StaleVersion",
    "Store",
    "UnfinishedCall",
    "collect_garbage",
    "compact_session",
    "delete_sessions",
    "deleted_sessions",
    "export_session",
    "find_sessions",
    "fork_session",
    "import_sessions",
    "list_sessions",
    "open_session",
    "purge_sessions",
    "read_session",
    "repair_session",
    "restore_sessions",
    "save",
    "search_sessions",
    "session_totals",
    "store_at",
    "summary_request",
]
