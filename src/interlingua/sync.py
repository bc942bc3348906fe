"""Synchronous API: `sync.complete`, `sync.stream`; `sync.run` for any coroutine."""

from .connect.blocking import SyncStream, close, complete, embed, run, stream

__all__ = ["SyncStream", "close", "complete", "embed", "run", "stream"]
