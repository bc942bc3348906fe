"""Conversion between formats: detect, decode, encode, convert, adapt, check, and reading of files."""

from typing import TYPE_CHECKING

from ..values.lazy import lazy_names

if TYPE_CHECKING:
    from .attachments import audio, document, image
    from .converting import convert, decode, encode, split, stands_alone
    from .detection import SELF, Detection, detect, is_stream, value_of

# Loaded on first use: a call needs `inputs` alone.
_LAZY = {
    "SELF": "detection",
    "Detection": "detection",
    "audio": "attachments",
    "convert": "converting",
    "decode": "converting",
    "detect": "detection",
    "document": "attachments",
    "encode": "converting",
    "image": "attachments",
    "is_stream": "detection",
    "split": "converting",
    "stands_alone": "converting",
    "value_of": "detection",
}

if not TYPE_CHECKING:  # for type checkers every name exists
    __getattr__ = lazy_names(__name__, _LAZY)


__all__ = [
    "SELF",
    "Detection",
    "audio",
    "convert",
    "decode",
    "detect",
    "document",
    "encode",
    "image",
    "is_stream",
    "split",
    "stands_alone",
    "value_of",
]
