"""JSON paths into a request, and the entries and blocks that they are about."""

import re
from collections.abc import Sequence
from typing import NamedTuple

_MESSAGE = re.compile(r"\$\.messages\[(\d+)\](?:\.content\[(\d+)\])?")


class Spot(NamedTuple):
    """A message of a request, and a block of it."""

    message: int
    block: int | None = None


def spot(path: str) -> Spot | None:
    """The message and block in which a path lies; None for what is beside the messages."""
    found = _MESSAGE.match(path)
    if found is None:
        return None
    return Spot(int(found[1]), int(found[2]) if found[2] is not None else None)


def entry_of(path: str, ids: Sequence[str | None]) -> tuple[str | None, int | None]:
    """The entry and the block of a path, when `ids` are the entries of the request's messages."""
    found = spot(path)
    if found is None or found.message >= len(ids):
        return None, None
    return ids[found.message], found.block
