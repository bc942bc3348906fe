"""Conversion between formats: detect, decode, encode, convert, adapt, check, and reading of files."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .converting import convert, decode, encode, split, stands_alone
    from .detection import SELF, Detection, detect, is_stream, value_of

# Loaded on first use: a call needs `inputs` alone.
_LAZY = {
    "SELF": "detection",
    "Detection": "detection",
    "convert": "converting",
    "decode": "converting",
    "detect": "detection",
    "encode": "converting",
    "is_stream": "detection",
    "split": "converting",
    "stands_alone": "converting",
    "value_of": "detection",
}

if not TYPE_CHECKING:  # to a type checker every name would be there

    def __getattr__(name: str) -> Any:
        if name not in _LAZY:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = globals()[name] = getattr(importlib.import_module(f".{_LAZY[name]}", __name__), name)
        return found


__all__ = [
    "SELF",
    "Detection",
    "convert",
    "decode",
    "detect",
    "encode",
    "is_stream",
    "split",
    "stands_alone",
    "value_of",
]
