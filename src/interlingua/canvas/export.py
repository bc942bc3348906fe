"""A session as a file to take along: a page, Markdown, JSON, preference pairs, or any dialect.

All of it is made from one `Material`: what is to leave, as JSON values, so that whatever is found in it can be replaced
before anything is written (`redaction`). What a format does not show (extras of other programs, old versions,
journals) is not part of its material.
"""

import base64
import hashlib
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from .. import conversion
from ..dialects import DIALECTS
from ..serving.problems import HttpProblem
from ..sessions import Session
from ..values import jsontext
from ..values.canonical import build, plain
from ..values.errors import InterlinguaError
from ..values.losses import Lines, Loss
from ..values.messages import (
    AssistantMessage,
    AudioBlock,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    TextBlock,
    ThinkingBlock,
    blocks_of,
)
from ..values.request import Conversation, Entry
from . import redaction
from .figures import totals_of, totals_view
from .markdown import markdown_of
from .places import entry_of
from .rows import row_of
from .shapes import (
    AudioView,
    BlockView,
    BranchView,
    DocumentView,
    EntryView,
    FindView,
    ImageView,
    LossView,
    MessageView,
    Note,
    SessionView,
    encode,
)
from .trees import Tree
from .views import message_view, raw_of

SHELL = Path(__file__).parent / "assets" / "export.html"
PLACE = "<!--CANVAS-DATA-->"
PAGE, MARKDOWN, JSON, PREFERENCES = "html", "markdown", "json", "preferences"
_WHOLE = 1 << 60  # no text is cut
_ENDINGS = {PAGE: "html", MARKDOWN: "md", JSON: "json", PREFERENCES: "jsonl"}
_TYPES = {"html": "text/html", "md": "text/markdown", "json": "application/json", "jsonl": "application/x-ndjson"}


class Choice(Struct, frozen=True, kw_only=True):
    """What is to be written: the path to an entry, or all branches."""

    format: str
    to: str | None = None
    all: bool = False
    thinking: bool = True
    media: bool = True


class Written(NamedTuple):
    """A file: its bytes, its ending and type, and what the format could not say."""

    data: bytes
    ending: str
    mime_type: str
    losses: Sequence[Loss] = ()


class Material(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What leaves, as JSON values. `seqs`, `times` and `versions` are numbers that rows have beside their entries."""

    title: str
    conversation: dict[str, Any]
    labels: dict[str, str] = {}
    notes: dict[str, list[dict[str, Any]]] = {}
    branches: list[dict[str, Any]] = []
    ratings: dict[str, int] = {}
    numbers: dict[str, dict[str, int]] = {}


def check_format(name: str) -> None:
    if name not in _ENDINGS and name not in DIALECTS:
        raise HttpProblem(
            422, f"no format {name!r}", path="$.format", remedy="choose html, markdown, json, preferences or a dialect"
        )


def material_of(tree: Tree, view: SessionView, choice: Choice) -> Material:
    """What of a session is to leave."""
    check_format(choice.format)
    ids = _ids(tree, choice)
    entries = [_shown(tree.session_at(id).entry(id), choice) for id in ids]
    session = tree.session_at(choice.to) if choice.to is not None else tree.session
    head = choice.to if choice.to is not None else tree.head()
    base = session.base if _with_extra(choice.format) else _bare(session.base)
    conversation = replace(base, entries=tuple(entries), head=head if head in set(ids) else None)
    about = [_about(tree, id) for id in ids] if choice.format in (PAGE, PREFERENCES) else []
    rows = {row.id: row for row in tree.rows(0, tree.total)} if choice.format == PAGE else {}
    return Material(
        title=view.title,
        conversation=plain(conversation),
        labels={id: label for id, (label, _, _) in zip(ids, about, strict=False) if label is not None},
        notes={id: notes for id, (_, _, notes) in zip(ids, about, strict=False) if notes},
        ratings={id: rating for id, (_, rating, _) in zip(ids, about, strict=False) if rating is not None},
        branches=[_json(branch) for branch in tree.branches() if branch.head in set(ids)],
        numbers={
            id: {"seq": row.seq, "version": row.version, **({"ms": row.ms} if row.ms is not None else {})}
            for id, row in rows.items()
        },
    )


def _ids(tree: Tree, choice: Choice) -> list[str]:
    """The entries that are to leave, in the order of the log; for pairs, the whole tree."""
    if choice.all or choice.format == PREFERENCES:
        return [row.id for row in tree.rows(0, tree.total) if row.bad is None]
    if choice.to is None and tree.head() is None:
        return []
    return [entry.id for entry in tree.path(choice.to) if entry.id is not None]


def _about(tree: Tree, id: str) -> tuple[str | None, int | None, list[dict[str, Any]]]:
    session: Session = tree.session_at(id)
    marks = session.marks
    view = tree.view(session.entry(id, media=False))
    return marks.labels.get(id), marks.rating(id), [_json(note) for note in view.notes]


def _with_extra(format: str) -> bool:
    """Whether a format holds what other programs noted beside the messages."""
    return format == JSON or format in DIALECTS


def _bare(base: Conversation) -> Conversation:
    return replace(base, extra={}, options=replace(base.options, session_id=None))


def _shown(entry: Entry, choice: Choice) -> Entry:
    """An entry without what the choice, or the format, leaves out."""
    message: Any = entry.message
    if not isinstance(message, CustomMessage):
        if not choice.thinking:
            message = _without(message, ThinkingBlock)
        if not choice.media:
            message = _without_data(message)
        if not _with_extra(choice.format):
            message = replace(message, extra={}, **_without_extra(message))
    return replace(entry, message=message, extra=entry.extra if _with_extra(choice.format) else {})


def _without(message: Any, kind: type) -> Any:
    if isinstance(message.content, str) or message.content is None:
        return message
    return replace(message, content=tuple(block for block in message.content if not isinstance(block, kind)))


def _without_data(message: Any) -> Any:
    """A message with a line in the place of each picture, recording or file."""
    if isinstance(message.content, str) or message.content is None:
        return message
    return replace(message, content=tuple(map(_noted, message.content)))


def _noted(block: Any) -> Any:
    if not isinstance(block, ImageBlock | AudioBlock | DocumentBlock) or block.data is None:
        return block
    return TextBlock(text=f"[{block.mime_type or 'a file'}, {len(raw_of(block.data)):,} bytes, left out]")


def _without_extra(message: Any) -> dict[str, Any]:
    if isinstance(message.content, str) or message.content is None:
        return {}
    return {"content": tuple(replace(b, extra={}) if getattr(b, "extra", None) else b for b in message.content)}


# --- what is found in it ---------------------------------------------------------------------------------------------


def finds_of(material: Material, also: Collection[str] = ()) -> list[FindView]:
    """What looks private in a material, each with its surroundings and the message in which it is."""
    value = _json(material)
    entries = value["conversation"].get("entries", [])
    return [_find_view(find, entries) for find in redaction.scan(value, also)]


def _find_view(find: redaction.Find, entries: list[dict[str, Any]]) -> FindView:
    entry, block = None, None
    match find.path:
        case ("conversation", "entries", int(at), *rest):
            entry = entries[at].get("id")
            found = next((i for i, part in enumerate(rest) if part == "content"), None)
            inner = rest[found + 1] if found is not None and found + 1 < len(rest) else None
            block = inner if isinstance(inner, int) else None
        case ("notes" | "labels" | "ratings" | "numbers", str(id), *_):
            entry = id
    return FindView(
        id=find.id,
        kind=find.kind,
        text=find.text,
        before=find.before,
        after=find.after,
        entry=entry,
        block=block,
        where=_place(find.path),
        suggested=find.suggested,
    )


def _place(path: Iterable[str | int]) -> str:
    parts = [part for part in path if part != "conversation"]
    shown = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    return f"${shown}".replace(".~key", " (the key)")


def redacted(
    material: Material, chosen: Collection[str], also: Collection[str] = (), replacement: str | None = None
) -> Material:
    """The material with the chosen finds replaced; 422 for one that is not there."""
    value = _json(material)
    known = {find.id for find in redaction.scan(value, also)}
    missing = [id for id in chosen if id not in known]
    if missing:
        raise HttpProblem(
            422,
            f"there is no find {missing[0]!r}: the session has changed since it was scanned",
            path=f"$.redact[{list(chosen).index(missing[0])}]",
            remedy="scan again",
        )
    return msgspec.convert(redaction.redact(value, set(chosen), also, replacement), Material)


def _json(value: Any) -> Any:
    return jsontext.read(encode(value))


# --- writing ---------------------------------------------------------------------------------------------------------


def write(material: Material, view: SessionView, choice: Choice) -> Written:
    """The file."""
    conversation: Conversation = build(material.conversation, Conversation)
    match choice.format:
        case "html":
            return _file(_page(material, conversation, view), "html")
        case "markdown":
            return _file(markdown_of(material.title, conversation).encode("utf-8", "replace"), "md")
        case "json":
            return _file(jsontext.write(plain(conversation)) + b"\n", "json")
        case "preferences":
            return _file(_pairs(conversation, material.ratings), "jsonl")
        case dialect:
            return _encoded(conversation, dialect)


def _file(data: bytes, ending: str, losses: Sequence[Loss] = ()) -> Written:
    return Written(data, ending, _TYPES[ending], losses)


def _encoded(conversation: Conversation, dialect: str) -> Written:
    encoded = conversion.encode(conversation, dialect)
    is_lines = isinstance(encoded.body, Lines)
    return _file(encoded.bytes() + (b"" if is_lines else b"\n"), "jsonl" if is_lines else "json", tuple(encoded.losses))


def losses_of(material: Material, dialect: str) -> tuple[LossView, ...]:
    """What a dialect could not say of a material."""
    conversation: Conversation = build(material.conversation, Conversation)
    path = conversation.path()
    views = []
    for n, loss in enumerate(conversion.encode(conversation, dialect).losses, 1):
        entry, block = entry_of(loss.path, [one.id for one in path])
        views.append(
            LossView(
                n=n, path=loss.path, what=loss.what, why=loss.why, severity=loss.severity, entry=entry, block=block
            )
        )
    return tuple(views)


# --- the page --------------------------------------------------------------------------------------------------------


def _page(material: Material, conversation: Conversation, view: SessionView) -> bytes:
    """The shell with the data in it. `<` is written as an escape: no text can end the script that holds the data."""
    if not SHELL.is_file():
        raise InterlinguaError("the page of the canvas is not part of this installation; choose another format")
    blobs: dict[str, dict[str, str]] = {}
    entries = [entry for entry in conversation.entries if entry.id is not None]
    session = SessionView(
        key="export",
        title=material.title,
        source=view.source,
        group=view.group,
        written_as=view.written_as,
        models=view.models,
        messages=len(entries),
        modified=view.modified,
        created=view.created,
        read_only=True,
    )
    data = {
        "version": 1,
        "session": session,
        "tree": {
            "rows": [_row(entry, number, material) for number, entry in enumerate(entries)],
            "head": conversation.head or (entries[-1].id if entries else None),
            "branches": [msgspec.convert(branch, BranchView) for branch in material.branches],
        },
        "entries": {entry.id: _entry(entry, material, blobs) for entry in entries},
        "blobs": blobs,
        "stats": totals_view(totals_of(entry.message for entry in entries)),
    }
    script = encode(data).replace(b"<", b"\\u003c").decode()
    shell = SHELL.read_text("utf-8")
    before, found, after = shell.partition(PLACE)
    if not found:
        raise InterlinguaError(f"{SHELL.name} has no place for the data; build the page anew: make web")
    title = material.title.translate({ord("<"): "&lt;", ord("&"): "&amp;"})
    before = before.replace("<title>Conversation</title>", f"<title>{title}</title>", 1)
    return f'{before}<script type="application/json" id="canvas-data">{script}</script>{after}'.encode(
        "utf-8", "replace"
    )


def _row(entry: Entry, number: int, material: Material) -> Any:
    id = entry.id or ""
    about = material.numbers.get(id, {})
    return row_of(
        entry,
        about.get("seq", number),
        ms=about.get("ms"),
        version=about.get("version", 0),
        label=material.labels.get(id),
        rating=material.ratings.get(id),
        notes=sum("text" in note for note in material.notes.get(id, ())),
    )


def _entry(entry: Entry, material: Material, blobs: dict[str, dict[str, str]]) -> EntryView:
    id = entry.id or ""
    message: Any = entry.message
    if not isinstance(message, CustomMessage):
        for block in blocks_of(message.content):
            _keep(block, blobs)
    notes = tuple(msgspec.convert(note, Note) for note in material.notes.get(id, ()))
    view = message_view(message, "", lambda name: None, _WHOLE)
    return EntryView(id=id, parent=entry.parent_id, message=_local(view), notes=notes)


def _keep(block: Any, blobs: dict[str, dict[str, str]]) -> None:
    data = getattr(block, "data", None)
    if isinstance(data, str):
        raw = raw_of(data)
        kind = getattr(block, "mime_type", None) or "application/octet-stream"
        blobs[hashlib.sha256(raw).hexdigest()] = {"mimeType": kind, "data": base64.b64encode(raw).decode()}


def _local(view: MessageView) -> MessageView:
    """Media point into the file: `blob:SHA256`."""
    return replace(view, content=tuple(map(_local_block, view.content)))


def _local_block(block: BlockView) -> BlockView:
    if isinstance(block, ImageView | AudioView | DocumentView) and block.src is not None:
        return replace(block, src=f"blob:{block.src.removeprefix('/blobs/')}")
    return block


# --- preference pairs ------------------------------------------------------------------------------------------------


def _pairs(conversation: Conversation, ratings: dict[str, int]) -> bytes:
    """Answers to the same message that were rated differently: `{prompt, chosen, rejected}`, a line each.

    It is the conversational preference format that TRL documents for DPO; messages are those of Chat Completions.
    """
    answers: dict[str | None, list[Entry]] = {}
    for entry in conversation.entries:
        if isinstance(entry.message, AssistantMessage) and (entry.id or "") in ratings:
            answers.setdefault(entry.parent_id, []).append(entry)
    lines = []
    for parent, siblings in answers.items():
        for better in siblings:
            for worse in siblings:
                if ratings[better.id or ""] > ratings[worse.id or ""]:
                    prompt = _chat(replace(conversation, head=parent)) if parent is not None else []
                    chosen, rejected = (
                        _chat(replace(conversation, head=one.id))[len(prompt) :] for one in (better, worse)
                    )
                    lines.append({"prompt": prompt, "chosen": chosen, "rejected": rejected})
    return b"".join(jsontext.write(line) + b"\n" for line in lines)


def _chat(conversation: Conversation) -> list[Any]:
    path = tuple(replace(entry, id=None, parent_id=None) for entry in conversation.path())
    body = conversion.encode(replace(conversation, entries=path, head=None), "openai-completions").body
    return list(body["messages"])
