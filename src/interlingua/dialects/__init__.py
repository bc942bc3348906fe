"""The dialects: pure codecs for every wire and every file format, and their registry."""

from .registry import DIALECTS, FORMATS, WIRES, dialect, register, unregister
from .wire import Dialect, Evidence, FileFormat, Http, Wire

__all__ = [
    "DIALECTS",
    "FORMATS",
    "WIRES",
    "Dialect",
    "Evidence",
    "FileFormat",
    "Http",
    "Wire",
    "dialect",
    "register",
    "unregister",
]
