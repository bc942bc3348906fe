"""Where a command's input comes from; see `interlingua.conversion.sources`."""

from ..conversion.sources import (
    DEFAULT_LIMIT,
    ENDINGS,
    PACKED,
    STDIN,
    Document,
    Problem,
    Source,
    SourceError,
    as_utf8,
    documents,
    expand,
    open_binary,
    read_all,
)

__all__ = [
    "DEFAULT_LIMIT",
    "ENDINGS",
    "PACKED",
    "STDIN",
    "Document",
    "Problem",
    "Source",
    "SourceError",
    "as_utf8",
    "documents",
    "expand",
    "open_binary",
    "read_all",
]
