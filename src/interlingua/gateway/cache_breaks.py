"""Detects prompt cache breaks: compares each prompt with the previous one of its conversation.

A conversation is identified by the client's session id, else by its first message, separately for each key and model.
Of each, the latest few prompts are kept: sub-agents share the session of their parent, and different conversations may
begin alike. A prompt is compared with the one with the longest common prefix.
"""

import asyncio
from collections import OrderedDict

from msgspec import Raw, Struct

from ..conversion.prompt_cache import PromptPiece, equal_pieces, prompt_pieces, raw_pieces, shared_prefix
from ..values import jsontext
from ..values.messages import AssistantMessage, UserMessage, text_of
from ..values.request import Request

_MAX_PROMPTS = 8  # prompts of one conversation
_OVERHEAD = 400  # bytes of a prompt beside its text
_PIECE = 64  # bytes of a piece beside its text
_LARGE = 64 * 1024  # bytes of a prompt above which it is compared beside the event loop


class CacheBreak(Struct, frozen=True, kw_only=True):
    """A returning conversation whose prefix has changed.

    `path` is the changed part of the request, `byte` the first byte of its JSON (without cache markers) that differs; a
    prompt cache can reuse `shared` of all `size` bytes of the prompt.
    """

    model: str
    path: str
    byte: int
    shared: int
    size: int

    def __str__(self) -> str:
        return f"{self.path} byte {self.byte}; {self.shared} of {self.size} bytes shared"


class _Prompt:
    """A sent prompt, split into pieces when it is first compared."""

    __slots__ = ("_body", "_pieces", "size")

    def __init__(self, body: bytes) -> None:
        self._body = memoryview(body).tobytes()  # a copy: encoders allocate at least 4 KB for a body
        self._pieces: list[Raw] | None = None
        self.size = _OVERHEAD + len(body)

    def pieces(self) -> list[Raw]:
        if self._pieces is None:
            self._pieces = raw_pieces(self._body)
            self.size += _PIECE * len(self._pieces)
        return self._pieces

    def parsed(self) -> tuple[PromptPiece, ...]:
        return tuple(prompt_pieces(jsontext.read(self._body)))


class SentPrompts:
    """The latest prompts by conversation, at most `limit` bytes; least recently used ones are dropped first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._prompts: OrderedDict[tuple[str, str, str], tuple[int, list[_Prompt]]] = OrderedDict()  # with their sizes
        self._size = 0

    async def sent(self, key: str, model: str, session: str | None, request: Request, body: bytes) -> CacheBreak | None:
        """Stores a prompt, and returns its cache break; None if the previous one can be reused."""
        if len(body) + _OVERHEAD > self._limit:
            return None
        name = (key, model, session or _beginning(request))
        size, known = self._pop(name)
        prompt, found = _Prompt(body), None
        messages = request.context.messages
        if known and len(messages) > 1 and any(type(message) is AssistantMessage for message in messages):
            if len(body) <= _LARGE:
                found = _add(known, prompt, model)
            else:
                found = await asyncio.to_thread(_add, known, prompt, model)
                known = [*self._pop(name)[1], *known]  # of the same conversation, received in the meantime
            known = known[-_MAX_PROMPTS:]
            size = sum([one.size for one in known])
        else:
            known.append(prompt)
            size += prompt.size
            if len(known) > _MAX_PROMPTS:
                size -= known.pop(0).size
        self._prompts[name] = (size, known)
        self._size += size
        while self._size > self._limit:
            _, (dropped, _) = self._prompts.popitem(last=False)
            self._size -= dropped
        return found

    def _pop(self, name: tuple[str, str, str]) -> tuple[int, list[_Prompt]]:
        found = self._prompts.pop(name, None) or (0, [])
        self._size -= found[0]
        return found


def _add(known: list[_Prompt], prompt: _Prompt, model: str) -> CacheBreak | None:
    """Adds a prompt to those of its conversation, replacing the one that it continues."""
    equal = [equal_pieces(one.pieces(), prompt.pieces()) for one in known]
    closest = [one for one, count in zip(known, equal, strict=True) if count == max(equal)]
    if all(len(one.pieces()) == max(equal) for one in closest):  # it only adds to them: the usual case
        known[:] = [*(one for one in known if one not in closest), prompt]
        return None
    now = prompt.parsed()
    found = [(*shared_prefix(one.parsed(), now), one) for one in closest]
    shared, difference, before = max(found, key=lambda one: one[0])
    if difference is not None and difference.piece is difference.was:  # the beginning of what was sent, once more
        return None
    known.append(prompt)
    if difference is None:
        known.remove(before)
        return None
    size = sum(len(part.data) for part in now)
    return CacheBreak(model=model, path=difference.piece.path, byte=difference.at, shared=shared, size=size)


def _beginning(request: Request) -> str:
    for message in request.context.messages:
        if isinstance(message, UserMessage):
            return text_of(message.content)
    return ""
