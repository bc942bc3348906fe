"""Exports a session to a file: an HTML page, Markdown, JSON, preference pairs, or any dialect.

All formats are made from one `Material`: the exported data as JSON values, so that matches of a scan can be redacted
before anything is written (`redaction`). What a format does not show (extras of other programs, old versions, journals)
is not part of its material.
"""

import asyncio
import base64
import contextlib
import hashlib
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from .. import conversion
from ..conversion.subagents import origin_of
from ..dialects import DIALECTS
from ..serving import redaction
from ..serving.problems import HttpProblem
from ..sessions import Session
from ..values import jsontext
from ..values.canonical import build, plain
from ..values.errors import InterlinguaError
from ..values.losses import Lines, Loss
from ..values.messages import (
    AgentMessage,
    AssistantMessage,
    AudioBlock,
    Block,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    OpaqueBlock,
    ServerToolCall,
    ServerToolResult,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    blocks_of,
    error_beside,
    model_of,
)
from ..values.request import Conversation, Entry
from .routing import ApiCall, route
from .session_list import Describer
from .shapes import (
    AudioView,
    BlockView,
    BranchView,
    DocumentView,
    EntryView,
    ExportLosses,
    ExportRequest,
    FindView,
    ImageView,
    LossView,
    MessageView,
    NoteView,
    Scan,
    ScanRequest,
    SessionView,
    encode,
)
from .targets import entry_of
from .trees import Tree, row_of
from .views import block_text, message_view, raw_of, totals_of, totals_view

# --- markdown --------------------------------------------------------------------------------------------------------
#
# A conversation as Markdown: the path first, then the other branches. Pure.
#
# Messages are Markdown already and stay unchanged, except for active content: raw HTML is escaped, images of other
# hosts become links, and script URLs are removed.


_CODE = re.compile(r"(?ms)^(`{3,}|~{3,})[^\n]*\n.*?(?:^\1[`~]*[ \t]*$|\Z)|(`+)(?!`).*?(?<!`)\2(?!`)")
_TAG = re.compile(r"<(?=[A-Za-z/!?])")
_PICTURE = re.compile(r"!(?=\[)")
_RUNS = re.compile(
    r"(?i)(\]\(\s*<?|^\s{0,3}\[[^\]\n]{1,200}\]:\s*<?)\s*(?=(?:javascript|vbscript|data):)", re.MULTILINE
)


def markdown_of(title: str, conversation: Conversation, callers: Mapping[str, str] = {}) -> str:
    """Returns the whole document. `callers` has the entry that started a sub-agent, by the sub-agent's first entry."""
    path = conversation.path()
    on_path = {entry.id for entry in path}
    parts = [f"# {_line(title)}"]
    if conversation.system:
        text = conversation.system if isinstance(conversation.system, str) else _texts(conversation.system)
        parts += ["## System", inert(text)]
    parts += [part for entry in path for part in _section(entry)]
    for leaf in _leaves(conversation):
        branch = _beside(conversation, leaf, on_path)
        on_path |= {entry.id for entry in branch}
        if branch:
            caller = callers.get(branch[0].id or "")
            what = "A branch from" if caller is None else "A sub-agent of"
            parts += ["---", f"# {what} {_name(conversation, caller or branch[0].parent_id)}"]
            parts += [part for entry in branch for part in _section(entry)]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def inert(text: str) -> str:
    """Returns Markdown without active content or remote images; code is unchanged."""
    pieces, at = [], 0
    for code in _CODE.finditer(text):
        pieces += [_harmless(text[at : code.start()]), code[0]]
        at = code.end()
    return "".join((*pieces, _harmless(text[at:])))


def _harmless(text: str) -> str:
    return _RUNS.sub(r"\1#", _PICTURE.sub(r"\\!", _TAG.sub("&lt;", text)))


def _texts(blocks: Any) -> str:
    return "\n\n".join(block.text for block in blocks_of(blocks) if isinstance(block, TextBlock))


def _leaves(conversation: Conversation) -> list[Entry]:
    parents = {entry.parent_id for entry in conversation.entries}
    return [entry for entry in conversation.entries if entry.id is not None and entry.id not in parents]


def _beside(conversation: Conversation, leaf: Entry, shown: set[str | None]) -> list[Entry]:
    """Returns the part of a branch that was not shown yet."""
    by_id = {entry.id: entry for entry in conversation.entries}
    branch: list[Entry] = []
    at: Entry | None = leaf
    while at is not None and at.id not in shown and len(branch) <= len(by_id):
        branch.append(at)
        at = by_id.get(at.parent_id) if at.parent_id is not None else None
    return branch[::-1]


def _name(conversation: Conversation, id: str | None) -> str:
    if id is None:
        return "the beginning"
    message: Any = next((entry.message for entry in conversation.entries if entry.id == id), None)
    text = _texts(message.content) if message is not None and not isinstance(message, CustomMessage) else ""
    return f"“{_line(text)[:60]}”" if text.strip() else f"`{_line(id)}`"


def _section(entry: Entry) -> list[str]:
    message: AgentMessage = entry.message
    if isinstance(message, CustomMessage):
        summary = message.fields.get("summary")
        return [f"## {_line(message.role)}", inert(summary)] if isinstance(summary, str) else []
    parts = [_heading(message)]
    if isinstance(message, ToolResultMessage):
        text = _texts(message.content)
        media = [_block(block) for block in blocks_of(message.content) if not isinstance(block, TextBlock)]
        return [*parts, *([_fenced(text)] if text else []), *media]
    parts += [_block(block) for block in blocks_of(message.content)]
    error = error_beside(message) if isinstance(message, AssistantMessage) else None
    if error is not None:
        parts.append(f"**Error:** {inert(_line(error))}")
    return parts


def _heading(message: Any) -> str:
    at = message.timestamp
    when = time.strftime(" · %Y-%m-%d %H:%M UTC", time.gmtime(at / 1000)) if isinstance(at, int) else ""
    match message:
        case AssistantMessage():
            return f"## Assistant{f' · {_line(message.model)}' if message.model else ''}{when}"
        case ToolResultMessage():
            what = "Failed result" if message.is_error else "Result"
            return f"### {what} of {_line(message.tool_name or 'a tool')}{when}"
        case _:
            return f"## {message.role.capitalize()}{when}"


def _block(block: Block) -> str:
    match block:
        case TextBlock():
            return inert(block.text)
        case ThinkingBlock():
            quoted = inert(block.thinking).replace("\n", "\n> ")
            return f"> *Thinking*\n>\n> {quoted}" if block.thinking else "> *Thinking (not shown)*"
        case ToolCall() | ServerToolCall():
            return f"**Call of {_line(block.name)}**\n\n{_fenced(block_text(block), 'json')}"
        case ServerToolResult() | OpaqueBlock():
            return _fenced(block_text(block), "json")
        case _:
            return _media(block)


def _media(block: Any) -> str:
    name = _line(getattr(block, "title", None) or block.type if hasattr(block, "type") else type(block).__name__)
    size = f", {len(raw_of(block.data)):,} bytes" if isinstance(block.data, str) else ""
    where = f", {_line(block.url)}" if isinstance(block.url, str) else ""
    text = getattr(block, "text", None) or getattr(block, "transcript", None)
    label = f"*[{name}: {block.mime_type or 'unknown type'}{size}{inert(where)}]*"
    return f"{label}\n\n{_fenced(text)}" if text else label


def _fenced(text: str, language: str = "") -> str:
    """Returns a code block with a fence longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _line(text: str) -> str:
    return inert(" ".join(str(text).split()))


# --- the file --------------------------------------------------------------------------------------------------------


SHELL = Path(__file__).parent / "assets" / "export.html"
PLACE = "<!--CANVAS-DATA-->"
PAGE, MARKDOWN, JSON, PREFERENCES = "html", "markdown", "json", "preferences"
ROWS = "rows"  # the tree without its contents, for the page's drawing
_WHOLE = 1 << 60  # texts are not truncated
_ENDINGS = {PAGE: "html", MARKDOWN: "md", JSON: "json", PREFERENCES: "jsonl", ROWS: "json"}
_TYPES = {"html": "text/html", "md": "text/markdown", "json": "application/json", "jsonl": "application/x-ndjson"}


class Written(NamedTuple):
    """A file: its bytes, suffix and type, and the losses of the format."""

    data: bytes
    ending: str
    mime_type: str
    losses: Sequence[Loss] = ()


class Material(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The exported data, as JSON values. `numbers` are the row numbers of the entries.

    `spawned` has, by entry, the sub-agents that it started; `agents` holds the conversations of all of them. `callers`
    has, by the first entry of a sub-agent within the same file, the entry that started it.
    """

    title: str
    conversation: dict[str, Any]
    labels: dict[str, str] = {}
    notes: dict[str, list[dict[str, Any]]] = {}
    branches: list[dict[str, Any]] = []
    ratings: dict[str, int] = {}
    numbers: dict[str, dict[str, int]] = {}
    spawned: dict[str, list[str]] = {}
    agents: "dict[str, Material]" = {}
    callers: dict[str, str] = {}


def check_format(name: str) -> None:
    if name not in _ENDINGS and name not in DIALECTS:
        raise HttpProblem(
            422,
            f"no format {name!r}",
            path="$.format",
            remedy="choose html, markdown, json, preferences, rows or a dialect",
        )


def material_of(tree: Tree, view: SessionView, choice: ScanRequest, describer: Describer | None = None) -> Material:
    """Returns the exported data of a session; with its sub-agents, if a describer can find them."""
    material = _material(tree, view, choice)
    if describer is None or choice.format != PAGE:
        return replace(material, spawned={})
    names = {tree.place.key: ""}  # session keys contain folder names, which need not be exported
    agents: dict[str, Material] = {}
    missing = [key for keys in material.spawned.values() for key in keys]
    while missing:
        key = missing.pop(0)
        if key in names:
            continue
        names[key] = f"agent-{len(names)}"
        with contextlib.suppress(InterlinguaError, HttpProblem, OSError):  # named, not shown
            place = describer.library.place(key)
            with contextlib.closing(describer.open_tree(place)) as other:
                found = _material(other, describer.view(place), replace(choice, to=None, all=True))
            agents[names[key]] = found
            missing += [one for keys in found.spawned.values() for one in keys]

    def named(one: Material) -> Material:
        return replace(one, spawned={id: [names[key] for key in keys] for id, keys in one.spawned.items()})

    return replace(named(material), agents={name: named(agent) for name, agent in agents.items()})


def _material(tree: Tree, view: SessionView, choice: ScanRequest) -> Material:
    check_format(choice.format)
    ids = _ids(tree, choice)
    chosen = set(ids)
    found = [tree.session_at(id).entry(id) for id in ids]
    entries = [_shown(entry, choice) for entry in found]
    session = tree.session_at(choice.to) if choice.to is not None else tree.session
    head = choice.to if choice.to is not None else tree.head()
    base = session.base if _with_extra(choice.format) else _bare(session.base)
    conversation = replace(base, entries=tuple(entries), head=head if head in chosen else None)
    about = [_about(tree, id) for id in ids] if choice.format in (PAGE, PREFERENCES, ROWS) else []
    rows = (
        {row.id: row for row in tree.rows(0, tree.total) if row.id in chosen} if choice.format in (PAGE, ROWS) else {}
    )
    return Material(
        title=view.title,
        conversation=plain(conversation),
        labels={id: label for id, (label, _, _) in zip(ids, about, strict=False) if label is not None},
        notes={id: notes for id, (_, _, notes) in zip(ids, about, strict=False) if notes},
        ratings={id: rating for id, (_, rating, _) in zip(ids, about, strict=False) if rating is not None},
        branches=[_json(branch) for branch in tree.branches() if branch.head in chosen],
        numbers={
            id: {"seq": row.seq, "version": row.version, **({"ms": row.ms} if row.ms is not None else {})}
            for id, row in rows.items()
        },
        spawned={id: list(row.spawned) for id, row in rows.items() if row.spawned},
        callers={
            entry.id: caller
            for entry in found
            if entry.id is not None and (caller := (origin_of(entry) or {}).get("entry")) in chosen
        },
    )


def _ids(tree: Tree, choice: ScanRequest) -> list[str]:
    """Returns the exported entries in log order; for pairs, the whole tree."""
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
    """Whether a format includes what other programs stored beside the messages."""
    return format == JSON or format in DIALECTS


def _bare(base: Conversation) -> Conversation:
    return replace(base, extra={}, options=replace(base.options, session_id=None))


def _shown(entry: Entry, choice: ScanRequest) -> Entry:
    """Returns an entry without the parts that the choice, or the format, excludes."""
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
    """Returns a message with a line of text in place of each image, recording or file."""
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


# --- redaction -------------------------------------------------------------------------------------------------------


def finds_of(material: Material, also: Collection[str] = ()) -> list[FindView]:
    """Returns what looks private in a material, each with its context and message."""
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
    """Returns the material with the chosen matches replaced; 422 for a missing one."""
    value = _json(material)
    known = {find.id for find in redaction.scan(value, also)}
    missing = [id for id in chosen if id not in known]
    if missing:
        raise HttpProblem(
            422,
            f"no match {missing[0]!r}: the session has changed since the scan",
            path=f"$.redact[{list(chosen).index(missing[0])}]",
            remedy="scan again",
        )
    return msgspec.convert(redaction.redact(value, set(chosen), also, replacement), Material)


def _json(value: Any) -> Any:
    return jsontext.read(encode(value))


# --- writing ---------------------------------------------------------------------------------------------------------


def write(material: Material, view: SessionView, choice: ScanRequest) -> Written:
    """Returns the file."""
    conversation: Conversation = build(material.conversation, Conversation)
    match choice.format:
        case "html":
            return _file(_page(material, conversation, view), "html")
        case "markdown":
            return _file(markdown_of(material.title, conversation, material.callers).encode("utf-8", "replace"), "md")
        case "json":
            return _file(jsontext.write(plain(conversation)) + b"\n", "json")
        case "preferences":
            return _file(_pairs(conversation, material.ratings), "jsonl")
        case "rows":
            return _file(encode({"title": material.title, "tree": _tree(material, conversation)}), "json")
        case dialect:
            return _encoded(conversation, dialect)


def _file(data: bytes, ending: str, losses: Sequence[Loss] = ()) -> Written:
    return Written(data, ending, _TYPES[ending], losses)


def _encoded(conversation: Conversation, dialect: str) -> Written:
    encoded = conversion.encode(conversation, dialect)
    is_lines = isinstance(encoded.body, Lines)
    return _file(encoded.bytes() + (b"" if is_lines else b"\n"), "jsonl" if is_lines else "json", tuple(encoded.losses))


def losses_of(material: Material, dialect: str) -> tuple[LossView, ...]:
    """Returns the losses of a material in a dialect."""
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
    """Embeds the data in the page. `<` is escaped, so that no text can end the script that holds the data."""
    if not SHELL.is_file():
        raise InterlinguaError("the page of the canvas is not part of this installation; choose another format")
    blobs: dict[str, dict[str, str]] = {}
    data = {"version": 1, **_part(material, conversation, view, blobs), "blobs": blobs}
    for key, agent in material.agents.items():
        part = _part(agent, build(agent.conversation, Conversation), view, blobs)
        data.setdefault("agents", {})[key] = part
    script = encode(data).replace(b"<", b"\\u003c").decode()
    shell = SHELL.read_text("utf-8")
    before, found, after = shell.partition(PLACE)
    if not found:
        raise InterlinguaError(f"{SHELL.name} has no placeholder for the data; rebuild the page: make web")
    title = material.title.translate({ord("<"): "&lt;", ord("&"): "&amp;"})
    before = before.replace("<title>Conversation</title>", f"<title>{title}</title>", 1)
    return f'{before}<script type="application/json" id="canvas-data">{script}</script>{after}'.encode(
        "utf-8", "replace"
    )


def _part(
    material: Material, conversation: Conversation, view: SessionView, blobs: dict[str, dict[str, str]]
) -> dict[str, Any]:
    """One conversation of a page: the session itself, or one of its sub-agents."""
    entries = [entry for entry in conversation.entries if entry.id is not None]
    session = SessionView(
        key="export",
        title=material.title,
        source=view.source,
        group=view.group,
        written_as=view.written_as,
        models=tuple(dict.fromkeys(model for entry in entries if (model := model_of(entry.message)))),
        messages=len(entries),
        modified=view.modified,
        created=view.created,
        read_only=True,
    )
    return {
        "session": session,
        "tree": _tree(material, conversation),
        "entries": {entry.id: _entry(entry, material, blobs) for entry in entries},
        "stats": totals_view(totals_of(entry.message for entry in entries)),
    }


def _tree(material: Material, conversation: Conversation) -> dict[str, Any]:
    entries = [entry for entry in conversation.entries if entry.id is not None]
    return {
        "rows": [_row(entry, number, material) for number, entry in enumerate(entries)],
        "head": conversation.head or (entries[-1].id if entries else None),
        "branches": [msgspec.convert(branch, BranchView) for branch in material.branches],
    }


def _row(entry: Entry, number: int, material: Material) -> Any:
    id = entry.id or ""
    about = material.numbers.get(id, {})
    caller = material.callers.get(id)
    return row_of(
        entry if caller is None else replace(entry, parent_id=None),
        about.get("seq", number),
        ms=about.get("ms"),
        version=about.get("version", 0),
        label=material.labels.get(id),
        rating=material.ratings.get(id),
        notes=sum("text" in note for note in material.notes.get(id, ())),
        spawned=tuple(material.spawned.get(id, ())),
        caller=caller,
    )


def _entry(entry: Entry, material: Material, blobs: dict[str, dict[str, str]]) -> EntryView:
    id = entry.id or ""
    message: Any = entry.message
    if not isinstance(message, CustomMessage):
        for block in blocks_of(message.content):
            _keep(block, blobs)
    notes = tuple(msgspec.convert(note, NoteView) for note in material.notes.get(id, ()))
    view = message_view(message, "", lambda name: None, _WHOLE)
    return EntryView(id=id, parent=entry.parent_id, message=_local(view), notes=notes)


def _keep(block: Any, blobs: dict[str, dict[str, str]]) -> None:
    data = getattr(block, "data", None)
    if isinstance(data, str):
        raw = raw_of(data)
        kind = getattr(block, "mime_type", None) or "application/octet-stream"
        blobs[hashlib.sha256(raw).hexdigest()] = {"mimeType": kind, "data": base64.b64encode(raw).decode()}


def _local(view: MessageView) -> MessageView:
    """Media URLs that point into the file: `blob:SHA256`."""
    return replace(view, content=tuple(map(_local_block, view.content)))


def _local_block(block: BlockView) -> BlockView:
    if isinstance(block, ImageView | AudioView | DocumentView) and block.src is not None:
        return replace(block, src=f"blob:{block.src.removeprefix('/blobs/')}")
    return block


# --- preference pairs ------------------------------------------------------------------------------------------------


def _pairs(conversation: Conversation, ratings: dict[str, int]) -> bytes:
    """Yields responses to the same message that were rated differently: `{prompt, chosen, rejected}`, one per line.

    This is the conversational preference format that TRL documents for DPO; messages are those of Chat Completions.
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


# --- routes ----------------------------------------------------------------------------------------------------------
#
# Export routes: first the scan, then the file; and the frame for notebooks.


FRAME_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline';"
    " img-src data: blob:; media-src data: blob:; form-action 'none'; base-uri 'none';"
    " frame-ancestors * file: vscode-webview: vscode-file:"  # `*` is for HTTP only: notebooks are files, and in VS Code
)


@route("POST", "/api/sessions/{key}/export/scan", body=ScanRequest, returns=Scan)
async def scan(call: ApiCall) -> Scan:
    """List what looks private in an export, before it is written."""
    hub = await call.canvas.hub(call["key"])

    def scanned() -> Scan:
        choice, view = call.body, call.canvas.describe(hub.place)
        material = material_of(hub.tree, view, choice, call.canvas.describer)
        return Scan(finds=tuple(finds_of(material, call.body.patterns)), bytes=len(write(material, view, choice).data))

    return await asyncio.to_thread(scanned)


@route("POST", "/api/sessions/{key}/export", body=ExportRequest)
async def export(call: ApiCall) -> web.Response:
    """Export a session as a file, with the chosen matches replaced."""
    hub, request = await call.canvas.hub(call["key"]), call.body

    def written() -> tuple[Any, str]:
        view = call.canvas.describe(hub.place)
        material = material_of(hub.tree, view, request, call.canvas.describer)
        if request.redact:
            material = redacted(material, request.redact, request.patterns, request.replace)
        return write(material, view, request), material.title

    file, title = await asyncio.to_thread(written)
    name = f"{_plain_name(title)}.{file.ending}"
    ascii_name = re.sub(r"[^A-Za-z0-9._-]", "_", name)
    return web.Response(
        body=file.data,
        content_type=file.mime_type,
        charset="utf-8",
        headers={
            "Content-Disposition": f"attachment; filename=\"{ascii_name}\"; filename*=UTF-8''{quote(name, safe='')}",
            "X-Losses": str(sum(loss.severity != "record" for loss in file.losses)),
        },
    )


def _plain_name(title: str) -> str:
    """Returns a title as a file name."""
    return re.sub(r"[^\w.-]+", "-", title)[:80].strip("-.") or "conversation"


@route("POST", "/api/sessions/{key}/export/losses", body=ScanRequest, returns=ExportLosses)
async def losses(call: ApiCall) -> ExportLosses:
    """List the losses of a session in a dialect."""
    hub = await call.canvas.hub(call["key"])

    def lost() -> ExportLosses:
        check_format(call.body.format)
        if call.body.format not in DIALECTS:
            return ExportLosses(losses=())
        view = call.canvas.describe(hub.place)
        return ExportLosses(losses=losses_of(material_of(hub.tree, view, call.body), call.body.format))

    return await asyncio.to_thread(lost)


async def frame(canvas: Any, request: web.Request) -> web.Response:
    """A session for a notebook: the exported page, in its own sandbox.

    The key in the URL grants read access to this session only. A sandboxed frame has an origin of its own, so it can
    use neither a cookie nor the API; everything that it shows is in the page.
    """
    key = request.match_info["key"]
    visitor = canvas.access.by_cookie(request.query.get("k", ""))
    if visitor is None or visitor.only != key:
        raise HttpProblem(401, "this frame's key is wrong or too old", remedy="run the cell again")
    hub = await canvas.hub(key)

    def page() -> bytes:
        choice, view = ScanRequest(format="html", all=True), canvas.describe(hub.place)
        return write(material_of(hub.tree, view, choice, canvas.describer), view, choice).data

    return web.Response(
        body=await asyncio.to_thread(page),
        content_type="text/html",
        charset="utf-8",
        headers={"Content-Security-Policy": FRAME_POLICY, "Cross-Origin-Resource-Policy": "cross-origin"},
    )
