"""Conversion between formats: detect, decode, encode, convert, adapt, check, and reading of files."""

from typing import TYPE_CHECKING

from ..values.lazy import by_module, lazy_names

if TYPE_CHECKING:
    from .attachments import audio, document, image
    from .converting import convert, decode, encode, split
    from .detection import SELF, Detection, detect, is_stream, value_of

# Loaded on first use: a call needs `inputs` alone.
_LAZY = by_module(
    {
        "attachments": "audio document image",
        "converting": "convert decode encode split",
        "detection": "SELF Detection detect is_stream value_of",
    }
)

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
    "value_of",
]
