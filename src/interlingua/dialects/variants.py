"""The same wire under another name: other quirks, another framing, or an envelope around every body."""

import functools
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from .framing import Frame


class Variant:
    """A module's dialect with its `api`, `quirks` and `framing` exchanged. All of the module's names are here."""

    def __init__(
        self,
        module: ModuleType,
        api: str,
        *,
        quirks: Mapping[str, Any] | None = None,
        framing: Callable[[str | None], Any] | None = None,
        reframe: Callable[[Frame], bytes] | None = None,
    ) -> None:
        self.module = module
        self.API = api
        self.quirks = {"api": api, **(quirks or {})}
        self._framing = framing
        self._reframe = reframe

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.module, name)
        if name in _TAKES_QUIRKS:
            return functools.partial(found, quirks=self.quirks)
        return found

    def __repr__(self) -> str:
        return f"Variant({self.module.__name__.rpartition('.')[2]}, {self.API!r})"

    def framing(self, content_type: str | None = None) -> Any:
        return (self._framing or self.module.framing)(content_type)

    def StreamEncoder(self, *, request: Any = None) -> Any:
        encoder = self.module.StreamEncoder(request=request, quirks=self.quirks)
        return encoder if self._reframe is None else _Reframed(encoder, self.module.framing(None), self._reframe)


_TAKES_QUIRKS = frozenset(
    {
        "decode_request",
        "encode_request",
        "decode_response",
        "encode_response",
        "StreamDecoder",
        "path",
        "decode",
        "encode",
    }
)


class _Reframed:
    """Takes the base encoder's bytes apart into frames and writes each in the variant's own way."""

    def __init__(self, encoder: Any, frames: Any, write: Callable[[Frame], bytes]) -> None:
        self._encoder = encoder
        self._frames = frames
        self._write = write

    @property
    def losses(self) -> Any:
        return self._encoder.losses

    def fail(self, error: Any) -> bytes:
        return b"".join(map(self._write, self._frames.feed(self._encoder.fail(error))))

    def feed(self, event: Any) -> bytes:
        return b"".join(map(self._write, self._frames.feed(self._encoder.feed(event))))

    def close(self) -> bytes:
        frames = self._frames.feed(self._encoder.close()) + self._frames.close()
        return b"".join(map(self._write, frames))
