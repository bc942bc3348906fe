"""Conversion between formats: detect, decode, encode, convert, adapt, check, and reading of files."""

from .converting import convert, decode, encode, split, stands_alone
from .detection import SELF, Detection, detect, is_stream, value_of

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
