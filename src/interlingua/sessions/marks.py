"""What the lines beside the tree say of its entries: labels, branches, notes, revisions. Pure.

    {"role":"branch","name":…,"target":ENTRY|null,"description":…,"timestamp":…}   `deleted`: the name is free again
    {"role":"note","note":ID,"target":ENTRY,"text":…,"rating":-1|0|1,"by":…,"timestamp":…}   `deleted`: taken back
    {"role":"revision","target":ENTRY,"version":N,"message":{…},"parents":[…],"entryExtra":{…},"timestamp":…}
    {"role":"head","target":ENTRY,"branch":NAME}   the session stands on this branch; without a name, on none

The log only grows: of each name, note and entry the latest line counts.
"""

from typing import Any

from msgspec.structs import replace

from ..values.messages import Wire


class Branch(Wire, frozen=True, kw_only=True):
    """A named head. It moves with what is committed to it; `head` is None before the first commit."""

    name: str
    head: str | None = None
    description: str | None = None
    created: int | None = None


class Note(Wire, frozen=True, kw_only=True):
    """A remark on an entry, or a rating of it (-1, 0, 1), or both."""

    id: str
    target: str
    text: str | None = None
    rating: int | None = None
    by: str | None = None
    timestamp: int | None = None


class Marks:
    """The marks of a session, brought up to date line by line."""

    def __init__(self) -> None:
        self.labels: dict[str, str] = {}
        self.title: str | None = None
        self.branches: dict[str, Branch] = {}
        self.current: str | None = None  # the branch on which the session stands
        self.notes: dict[str, dict[str, Note]] = {}
        self.revisions: dict[str, list[int]] = {}  # by entry, the numbers of its revisions' lines
        self.parents: dict[str, tuple[str, ...]] = {}  # by entry, further parents that a revision gave it
        self.extras: dict[str, dict[str, Any]] = {}  # by entry, the extra that a revision gave it
        self.changed: list[str] = []  # entries whose marks changed since this list was emptied

    def take(self, number: int, line: dict[str, Any]) -> None:
        """Takes in the line with this number; one that makes no sense changes nothing."""
        role, target = line.get("role"), line.get("target")
        if role == "label":
            self._label(line)
        elif role == "head":
            name = line.get("branch")
            self.current = name if isinstance(name, str) else None
        elif role == "branch":
            self._branch(line, target)
        elif role == "note" and isinstance(target, str):
            self._note(line, target)
        elif role == "revision" and isinstance(target, str) and isinstance(line.get("message"), dict):
            self.revisions.setdefault(target, []).append(number)
            parents = line.get("parents")
            if isinstance(parents, list) and all(isinstance(one, str) for one in parents):
                self.parents[target] = tuple(parents)
            if isinstance(line.get("entryExtra"), dict):
                self.extras[target] = line["entryExtra"]
        if isinstance(target, str):
            self.changed.append(target)

    def rating(self, entry: str) -> int | None:
        """The latest rating of an entry."""
        ratings = [note.rating for note in self.notes.get(entry, {}).values() if note.rating is not None]
        return ratings[-1] if ratings else None

    def _label(self, line: dict[str, Any]) -> None:
        target, label = line.get("target", line.get("targetId")), line.get("label")
        if target is None:
            self.title = label if isinstance(label, str) else None
        elif isinstance(target, str):
            self.labels.pop(target, None)
            if isinstance(label, str):
                self.labels[target] = label

    def _branch(self, line: dict[str, Any], target: Any) -> None:
        name = line.get("name")
        if not isinstance(name, str):
            return
        if line.get("deleted") is True:
            self.branches.pop(name, None)
            return
        known = self.branches.get(name) or Branch(name=name, created=_number(line.get("timestamp")))
        description = line.get("description")
        self.branches[name] = replace(
            known,
            head=target if isinstance(target, str) else None,
            description=description if isinstance(description, str) else known.description,
        )

    def _note(self, line: dict[str, Any], target: str) -> None:
        id = line.get("note")
        if not isinstance(id, str):
            return
        notes = self.notes.setdefault(target, {})
        notes.pop(id, None)
        if line.get("deleted") is not True:
            text, by = line.get("text"), line.get("by")
            notes[id] = Note(
                id=id,
                target=target,
                text=text if isinstance(text, str) else None,
                rating=_number(line.get("rating")),
                by=by if isinstance(by, str) else None,
                timestamp=_number(line.get("timestamp")),
            )


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
