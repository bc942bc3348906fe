"""The commands of the chat: a table, and a small function for each."""

import asyncio
import os
import shlex
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from .. import conversion
from ..connect import models as catalogue
from ..connect.auth.resolver import resolve_auth
from ..connect.client import default_client
from ..connect.providers import PROVIDERS
from ..connect.registry import models_of
from ..conversion import local_files, sources
from ..conversion.adapting.adapter import adapt
from ..dialects import DIALECTS
from ..sessions import Session, SessionInfo, SessionNotFound
from ..sessions.compaction import is_bookkeeping
from ..sessions.comparison import Difference, differences
from ..sessions.operations import payload_of
from ..values.errors import InterlinguaError, unknown
from ..values.losses import Encoded, Loss
from ..values.request import Context, Conversation, Entry, ModelDescriptor, Request
from ..values.text import natural
from . import approval, opening, themes, tree
from .chat import Chat
from .command import Command, place
from .opening import by_model
from .rendering import coloured_diff, error_text, loss_report, note, one_line, session_rows, table, unfolded
from .themes import THEMES

_TREE_ROWS = 200


# --- the model -------------------------------------------------------------------------------------------------------


async def _model(chat: Chat, argument: str) -> None:
    if not argument:
        await chat.screen.show(note(f"the model is {chat.model}; /model PROVIDER/ID switches to another"))
        return
    _, described = default_client().find(argument)
    losses = await asyncio.to_thread(_handed_over, chat, described)
    chat.use_model(f"{described.provider}/{described.id}", described)
    parts = [note(f"the model is now {chat.model}")]
    if (keyless := _without_key(described.provider)) is not None:
        parts.append(error_text(keyless))
    await chat.screen.show(*parts)
    if any(loss.severity != "record" for loss in losses):
        await chat.screen.show(loss_report("not readable for this model", losses))


def _handed_over(chat: Chat, model: ModelDescriptor) -> Sequence[Loss]:
    """The losses of the history for the new model."""
    messages = tuple(chat.agent.convert(chat.agent.messages))
    context = Context(system=chat.agent.system, messages=messages)
    losses = adapt(Request(model=model, context=context), model)[1]
    return [loss for loss in losses if not loss.path.startswith("$.options")]


def _without_key(provider: str) -> str | None:
    row = PROVIDERS.get(provider)
    if row is None or not row.env or row.keyless or resolve_auth(row.id, row.env) is not None:
        return None
    return f"no key for {provider}; store one with `interlingua auth login {provider}`"


def model_names() -> list[str]:
    """All known models, for completion. Blocking: loads the catalogue."""
    debug = [f"{one.provider}/{one.id}" for connector in default_client().connectors for one in models_of(connector)]
    return sorted({*debug, *(f"{one.provider}/{one.id}" for one in catalogue.models())})


# --- the tree --------------------------------------------------------------------------------------------------------


async def _branch(chat: Chat, label: str) -> None:
    session = chat.session
    head = session.head
    if head is None:
        raise InterlinguaError("the session is empty; no entry to branch from")
    if label.isdecimal():
        raise InterlinguaError(f"{label} is the number of an entry in /tree; give the label a letter")
    labels = session.labels()
    used = set(labels.values())
    name = label or next(f"branch-{number}" for number in range(1, len(used) + 2) if f"branch-{number}" not in used)
    session.label(head, name)
    instead = f" instead of {one_line(labels[head])}" if labels.get(head, name) != name else ""
    await chat.screen.show(note(f"labelled {one_line(name)}{instead}; `/tree {one_line(name)}` returns to it"))


async def _tree(chat: Chat, argument: str) -> None:
    rows, entries = await asyncio.to_thread(_tree_of, chat)
    if not rows:
        raise InterlinguaError("the session is empty")
    if not argument:
        await chat.screen.show(*tree_lines(rows))
        argument = await chat.ask("go to which entry? a number or label; Enter stays") or ""
    if not argument:
        return
    row = tree.find(rows, argument)
    if row is None:
        raise InterlinguaError(f"no entry {one_line(argument)!r}; /tree shows numbers and labels")
    await _go(chat, tree.target(entries, row.id))


def _tree_of(chat: Chat) -> tuple[list[tree.TreeLine], list[Entry]]:
    session = chat.session
    entries = list(session.entries())
    path = [entry.id or "" for entry in session.path()]
    return tree.rows(entries, session.head, path, session.labels()), entries


def tree_lines(rows: Sequence[tree.TreeLine]) -> list[RenderableType]:
    hidden = max(0, len(rows) - _TREE_ROWS)
    lines: list[RenderableType] = [Text(f"… {hidden:,} earlier entries", "dim")] if hidden else []
    for number, row in enumerate(rows[hidden:], hidden + 1):
        mark = "●" if row.is_head else "│" if row.on_path else "·"
        line = Text(f"{number:>4} {'  ' * row.depth}{mark} {row.role}: {row.text}", "" if row.on_path else "dim")
        marks = Text(f"  [{one_line(row.label)}]" if row.label else "", "bold yellow")
        marks.append("  ← here" if row.is_head else "", "bold green")
        lines.append(_Marked(line, marks))
    return lines


class _Marked:
    """A line with trailing marks; it is truncated for them on a terminal."""

    def __init__(self, line: Text, marks: Text) -> None:
        self._line = line
        self._marks = marks

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        line = self._line.copy()
        if console.is_terminal:
            line.truncate(max(1, options.max_width - self._marks.cell_len), overflow="ellipsis")
        yield line.append_text(self._marks)


async def _go(chat: Chat, target: tree.MoveTarget) -> None:
    chat.session.rewind(target.at)
    chat.agent.history.reload()
    where = "at the beginning" if target.at is None else "there"
    await chat.screen.show(note(f"the head is {where} now; later entries stay in /tree"))
    if target.text:
        chat.screen.offer(target.text)


async def _undo(chat: Chat, _: str) -> None:
    target = await asyncio.to_thread(lambda: tree.last_turn(chat.session.path()))
    if target is None:
        raise InterlinguaError("nothing to undo")
    await _go(chat, target)


async def _compact(chat: Chat, focus: str) -> None:
    await chat.screen.show(note("summarizing …"))
    done = await chat.agent.compact(focus=focus or None)
    if done is None:
        await chat.screen.show(note("nothing to summarize yet"))
        return
    saved = f"about {done.tokens_before:,} → {done.tokens_after:,} tokens"
    await chat.screen.show(note(f"summarized; the session keeps everything ({saved})"))


async def _diff(chat: Chat, name: str) -> None:
    """Compares the branch of the head with another conversation."""
    if not name:
        rows, _ = await asyncio.to_thread(_tree_of, chat)
        await chat.screen.show(*tree_lines(rows))
        name = await chat.ask("compare with what? a number, label, session or file; Enter stops") or ""
    if not name:
        return
    found = await asyncio.to_thread(_differences, chat, name)
    shown: list[RenderableType] = []
    for one in found:
        role = "tool result" if one.role == "toolResult" else one.role
        shown.append(Text.assemble((one.heading, "bold"), (f"  {role}", "dim")))
        shown.append(coloured_diff("\n".join(one.changes)))
    legend = (
        f"{one_line(name)} (-) and this branch (+): {len(found):,} {'difference' if len(found) == 1 else 'differences'}"
    )
    await chat.screen.show(*shown, note(legend if found else f"no differences from {one_line(name)}"))


def _differences(chat: Chat, name: str) -> list[Difference]:
    """Returns the changes from an entry of the session, a file or another session to this branch. Blocking."""
    session = chat.session
    here = replace(session.base, entries=session.path())
    rows, entries = _tree_of(chat)
    row = tree.find(rows, name)
    path = place(name, chat.settings.root)
    if row is not None:
        there = replace(session.base, entries=session.path(to=tree.end_of(entries, row.id)))
    elif path.exists():
        there = sources.only_conversation(str(path))
    else:
        try:
            id = opening.named(name)
        except SessionNotFound:
            known = [*session.labels().values(), *(info.id for info in opening.recent())]
            listed = "/tree shows the entries, /sessions the sessions"
            raise InterlinguaError(unknown("entry, session or file", name, known, listed=listed)) from None
        # Read-only, since another chat may be writing to it.
        with Session.open(id, agent=opening.AGENT, create=False, read_only=True) as other:
            there = replace(other.base, entries=other.path())
    return list(differences(_without_bookkeeping(there), _without_bookkeeping(here), for_reading=True))


def _without_bookkeeping(conversation: Conversation) -> Conversation:
    """Returns the conversation without bookkeeping, such as model switches."""
    messages: Iterable[Any] = (message for message in conversation.messages if not is_bookkeeping(message))
    return Conversation(system=conversation.system, entries=tuple(Entry(message=message) for message in messages))


# --- information -----------------------------------------------------------------------------------------------------


async def _cost(chat: Chat, _: str) -> None:
    counts = await asyncio.to_thread(lambda: by_model(entry.message for entry in chat.session.entries()))
    rows = [
        (name, *(f"{n:,}" for n in (count.answers, count.input, count.cached, count.output)), count.dollars)
        for name, count in counts.items()
    ]
    await chat.screen.show(
        table(rows, "model", "answers", "in", "cached", "out", "cost") if rows else note("no answers")
    )


async def _export(chat: Chat, argument: str) -> None:
    file, dialect = _export_arguments(argument)
    path = place(file, chat.settings.root)
    encoded = await asyncio.to_thread(lambda: conversion.encode(chat.session.conversation(), dialect))
    local_files.refuse_inputs(path, [Path(chat.session.where)])
    if path.is_dir():
        raise InterlinguaError(f"{path} is a folder; name a file in it")
    if path.is_file():
        answer = await chat.ask(f"{one_line(str(path))} exists; replace it? y yes · n no", approval.answer_of)
        if answer is None or answer.verdict == "no":
            await chat.screen.show(note(f"not written: {path} stays as it is"))
            return
    await asyncio.to_thread(_write, path, encoded)
    await chat.screen.show(note(f"written: {path}"), loss_report(dialect, encoded.losses))


def _export_arguments(argument: str) -> tuple[str, str]:
    """Parses the file and the format of `FILE [FORMAT]` or `FILE -t FORMAT`, in any order; names may be quoted."""
    usage = "/export FILE [-t FORMAT]"
    try:
        given = shlex.split(argument)
    except ValueError as error:
        raise InterlinguaError(f"unreadable arguments ({error}); {usage}") from None
    named = next((at for at, part in enumerate(given) if part in ("-t", "--to")), None)
    formats = given[named + 1 : named + 2] if named is not None else given[1:2]
    files = given[:named] + given[named + 2 :] if named is not None else given[:1]
    if len(files) != 1 or (named is not None and not formats) or (named is None and len(given) > 2):
        raise InterlinguaError(f"expected a file and a format; {usage}, formats: {', '.join(sorted(DIALECTS))}")
    return files[0], formats[0] if formats else "transcript"


def _write(path: Path, encoded: Encoded) -> None:
    with local_files.atomic(path) as stream:
        stream.write(payload_of(encoded))


async def _canvas(chat: Chat, _: str) -> None:
    """Shows the session on the running canvas, or on one that ends with the chat."""
    if chat.session.head is None:
        raise InterlinguaError("the session is empty; nothing to show on the canvas yet")
    # Without a desktop, the webbrowser module may start a text browser, which would take over this terminal.
    has_desktop = sys.platform in ("darwin", "win32") or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())
    browser = chat.screen.is_terminal and has_desktop
    address = await asyncio.to_thread(lambda: chat.session.open_canvas(browser=browser).link())
    link = Text(address, no_wrap=True, overflow="ignore")  # in one piece, so that terminals open it
    await chat.screen.show(note("the canvas, until the chat ends (a one-time URL for one browser):"), link)


async def _sessions(chat: Chat, text: str) -> None:
    found = await asyncio.to_thread(_searched, text)
    empty = f"no session has {one_line(text)!r} in its title, model or id" if text else "no sessions yet"
    await chat.screen.show(session_rows(found, chat.session.id) if found else note(empty))


def _searched(text: str) -> list[SessionInfo]:
    return opening.matching(opening.recent(None), text)[: opening.RECENT]


async def _resume(chat: Chat, argument: str) -> None:
    id = await _picked(chat, argument)
    if id is None:
        return
    if id == chat.session.id:
        raise InterlinguaError("this is the current session")
    await chat.switch(id)


async def _picked(chat: Chat, text: str) -> str | None:
    """Returns the session with an id or a part of its title; asks while there are several. None: stay."""
    while True:
        found = await asyncio.to_thread(_searched, text)
        if text:
            try:
                return await asyncio.to_thread(opening.named, text)
            except SessionNotFound:
                if not found:
                    raise
        if text and len(found) == 1:
            return found[0].id
        await chat.screen.show(session_rows(found, chat.session.id))
        text = await chat.ask("which session? a number, an id, or a part of its title; Enter stays") or ""
        if not text:
            return None
        if 0 < (natural(text) or 0) <= len(found):
            return found[int(text) - 1].id


async def _tools(chat: Chat, _: str) -> None:
    rows = [
        (Text(tool.name, "bold"), Text(_permission(chat, tool.name), "dim"), tool.description.partition(". ")[0])
        for tool in chat.agent.tools
    ]
    skipped = [(Text(one.id, "dim"), Text("not here", "dim"), one.reason) for one in chat.skipped_tools]
    await chat.screen.show(table([*rows, *skipped]) if rows or skipped else note("no tools; see --tools"))


def _permission(chat: Chat, tool: str) -> str:
    return {"allow": "allowed", "ask": "asks first", "deny": "forbidden"}[chat.permissions.decide(tool, {}).action]


async def _prompt(chat: Chat, argument: str) -> None:
    """Lists the prompts of MCP servers, or sends one: `SERVER/NAME argument=value …`."""
    given = shlex.split(argument)
    if not given:
        rows = [
            (
                Text(f"{server}/{one.name}", "bold"),
                " ".join(f"{name}=…" for name in one.arguments),
                one.description or "",
            )
            for server, tools in chat.settings.servers.items()
            for one in await tools.prompts()
        ]
        await chat.screen.show(table(rows) if rows else note("no MCP server offers prompts; see mcp.toml"))
        return
    server, _, name = given[0].partition("/")
    if server not in chat.settings.servers:
        raise InterlinguaError(f"no MCP server {server!r}; /prompt lists the prompts")
    values = dict(part.partition("=")[::2] for part in given[1:])
    await chat.send(await chat.settings.servers[server].prompt(name, values))


async def _thinking(chat: Chat, _: str) -> None:
    screen = chat.screen
    screen.display.open_thoughts = not screen.display.open_thoughts
    state = "unfolded" if screen.display.open_thoughts else "folded"
    last = screen.display.last_thought if screen.display.open_thoughts else ""
    await screen.show(*([unfolded(last)] if last else []), note(f"thinking is {state} from here on"))


async def _theme(chat: Chat, name: str) -> None:
    """Switches the colours, here and in later programs."""
    if not name:
        await chat.screen.show(note(f"the theme is {chat.screen.theme.name}; /theme {'|'.join(THEMES)} switches"))
        return
    chosen = themes.named(name, "/theme")
    place = await asyncio.to_thread(themes.store, chosen)
    chat.screen.theme = chosen
    notes = [f"the theme is now {name}, in later chats as well ({place})"]
    if os.environ.get(themes.VARIABLE) not in (None, "", name):
        notes.append(f"{themes.VARIABLE} is {os.environ[themes.VARIABLE]} and comes first there")
    if not chat.screen.is_terminal or os.environ.get("NO_COLOR"):
        notes.append("no colours are shown here")
    await chat.screen.show(note("; ".join(notes)))


async def _help(chat: Chat, _: str) -> None:
    rows = [(Text(f"/{one.name} {one.takes}".rstrip(), "bold"), one.about) for one in COMMANDS.values()]
    await chat.screen.show(table(rows), note(chat.screen.keys))


async def _quit(chat: Chat, _: str) -> None:
    chat.screen.leave()


COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        Command("model", "[PROVIDER/ID]", "Switch to another model.", _model),
        Command("branch", "[LABEL]", "Label this entry, to return to it later.", _branch),
        Command("tree", "[ENTRY]", "Show all branches, and go to an entry: by its number or label.", _tree),
        Command("undo", "", "Take back your last message, and edit it.", _undo),
        Command("diff", "[ENTRY|SESSION|FILE]", "Compare this branch with another, a session or a file.", _diff),
        Command("compact", "[FOCUS]", "Summarize older messages to free context.", _compact),
        Command("cost", "", "Tokens and dollars of this session, by model.", _cost, True),
        Command("export", "FILE [-t FORMAT]", "Write the session in any format and report losses.", _export),
        Command("canvas", "", "Show this session on the canvas, in the browser.", _canvas, True),
        Command(
            "sessions", "[TEXT]", "List the latest sessions, or those with a text in their title.", _sessions, True
        ),
        Command("resume", "[SESSION|TEXT]", "Switch to another session, by its id or its title.", _resume),
        Command("tools", "", "List the tools and whether they ask first.", _tools, True),
        Command("prompt", "[SERVER/NAME a=b …]", "Send a prompt of an MCP server, or list them.", _prompt),
        Command("thinking", "", "Unfold the model's thinking, or fold it again.", _thinking, True),
        Command("theme", f"[{'|'.join(THEMES)}]", "Switch the colours of the terminal.", _theme, True),
        Command("help", "", "This list.", _help, True),
        Command("quit", "", "Leave; the session is saved.", _quit, True),
    )
}
