"""A real local HTTP server that speaks every wire dialect, for testing clients of models.

with Server() as server:
    server.say("Hello!", fault=Cut(after_events=3, times=1))
    ...  # point a client at server.base_url("anthropic-messages")
"""

from .faults import (
    Answer,
    Corrupt,
    Cut,
    Empty,
    ErrorEvent,
    Fault,
    Garbage,
    HangUp,
    Html,
    NoTerminal,
    Pace,
    Piece,
    RateLimit,
    Refuse,
    Repeat,
    SlowHeaders,
    Split,
    Stall,
    Status,
    Step,
    Wait,
)
from .proxy import Passed, ProxyServer
from .replies import Reply
from .server import Disconnect, Received, Server

__all__ = [
    "Answer",
    "Corrupt",
    "Cut",
    "Disconnect",
    "Empty",
    "ErrorEvent",
    "Fault",
    "Garbage",
    "HangUp",
    "Html",
    "NoTerminal",
    "Pace",
    "Passed",
    "Piece",
    "ProxyServer",
    "RateLimit",
    "Received",
    "Refuse",
    "Repeat",
    "Reply",
    "Server",
    "SlowHeaders",
    "Split",
    "Stall",
    "Status",
    "Step",
    "Wait",
]
