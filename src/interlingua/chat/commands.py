"""The commands of the chat: a table, and a small function for each."""

import asyncio
import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from .. import conversion
from ..connect import models as catalogue
from ..connect.auth.resolver import resolve_auth
from ..connect.client import default_client
from ..connect.providers import PROVIDERS
from ..connect.registry import models_of
from ..conversion import local_files
from ..conversion.adapting.adapter import adapt
from ..dialects import DIALECTS
from ..sessions import SessionInfo
from ..values.errors import InterlinguaError
from ..values.losses import Lines, Loss
from ..values.request import Context, Entry, ModelDescriptor, Request
from . import opening, tree
from .chat import Chat
from .command import Command
from .opening import Spending, by_model
from .rendering import error_text, loss_report, note, one_line, session_rows, table, unfolded

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
        raise InterlinguaError("the session is empty; there is no entry to branch from")
    used = set(session.labels().values())
    name = label or next(f"branch-{number}" for number in range(1, len(used) + 2) if f"branch-{number}" not in used)
    session.label(head, name)
    await chat.screen.show(note(f"labelled {one_line(name)}; `/tree {one_line(name)}` returns to it"))


async def _tree(chat: Chat, argument: str) -> None:
    rows, entries = await asyncio.to_thread(_tree_of, chat)
    if not rows:
        raise InterlinguaError("the session is empty")
    if not argument:
        await chat.screen.show(*_drawn(rows))
        argument = await chat.ask("go to which entry? a number or label; Enter stays") or ""
    if not argument:
        return
    row = tree.find(rows, argument)
    if row is None:
        raise InterlinguaError(f"no entry {one_line(argument)!r}; /tree shows numbers and labels")
    await _go(chat, tree.target(entries, row.id))


def _tree_of(chat: Chat) -> tuple[list[tree.Row], list[Entry]]:
    session = chat.session
    entries = list(session.entries())
    path = [entry.id or "" for entry in session.path()]
    return tree.rows(entries, session.head, path, session.labels()), entries


def _drawn(rows: Sequence[tree.Row]) -> list[Text]:
    hidden = max(0, len(rows) - _TREE_ROWS)
    lines = [Text(f"… {hidden:,} earlier entries", "dim")] if hidden else []
    for number, row in enumerate(rows[hidden:], hidden + 1):
        mark = "●" if row.is_head else "│" if row.on_path else "·"
        line = Text(f"{number:>4} {'  ' * row.depth}{mark} {row.role}: {row.text}", "" if row.on_path else "dim")
        line.append(f"  [{one_line(row.label)}]" if row.label else "", "bold yellow")
        line.append("  ← here" if row.is_head else "", "bold green")
        lines.append(line)
    return lines


async def _go(chat: Chat, target: tree.Target) -> None:
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


# --- information -----------------------------------------------------------------------------------------------------


async def _cost(chat: Chat, _: str) -> None:
    counts = await asyncio.to_thread(lambda: by_model(entry.message for entry in chat.session.entries()))
    rows = [_figures(name, count) for name, count in counts.items()]
    await chat.screen.show(
        table(rows, "model", "answers", "in", "cached", "out", "cost") if rows else note("no answers")
    )


def _figures(name: str, count: Spending) -> tuple[str, ...]:
    return (name, *(f"{n:,}" for n in (count.answers, count.input, count.cached, count.output)), count.dollars)


async def _export(chat: Chat, given: str) -> None:
    file, _, dialect = given.partition(" ")
    if not file:
        raise InterlinguaError(f"no file; /export FILE [FORMAT], formats: {', '.join(sorted(DIALECTS))}")
    path = chat.settings.root / Path(file).expanduser()
    name = dialect.strip() or "transcript"
    losses = await asyncio.to_thread(_exported, chat, path, name)
    await chat.screen.show(note(f"written: {path}"), loss_report(name, losses))


def _exported(chat: Chat, path: Path, dialect: str) -> Sequence[Loss]:
    local_files.refuse_inputs(path, [Path(chat.session.where)])
    encoded = conversion.encode(chat.session.conversation(), dialect)
    with local_files.atomic(path) as stream:
        stream.write(encoded.bytes() + (b"" if isinstance(encoded.body, Lines) else b"\n"))
    return encoded.losses


async def _sessions(chat: Chat, _: str) -> None:
    found = await asyncio.to_thread(opening.recent)
    await chat.screen.show(session_rows(found, chat.session.id) if found else note("no sessions yet"))


async def _resume(chat: Chat, argument: str) -> None:
    if not argument:
        found = await asyncio.to_thread(opening.recent)
        await chat.screen.show(session_rows(found, chat.session.id))
        argument = _chosen(await chat.ask("which session? a number or id; Enter stays") or "", found)
    if not argument:
        return
    id = await asyncio.to_thread(opening.named, argument)
    if id == chat.session.id:
        raise InterlinguaError("this is the current session")
    await chat.switch(id)


def _chosen(answer: str, found: Sequence[SessionInfo]) -> str:
    is_number = answer.isdecimal() and 0 < int(answer) <= len(found)
    return found[int(answer) - 1].id if is_number else answer


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
        Command("compact", "[FOCUS]", "Summarize older messages to free context.", _compact),
        Command("cost", "", "Tokens and dollars of this session, by model.", _cost, True),
        Command("export", "FILE [FORMAT]", "Write the session in any format and report losses.", _export),
        Command("sessions", "", "List the latest sessions.", _sessions, True),
        Command("resume", "[SESSION]", "Switch to another session.", _resume),
        Command("tools", "", "List the tools and whether they ask first.", _tools, True),
        Command("prompt", "[SERVER/NAME a=b …]", "Send a prompt of an MCP server, or list them.", _prompt),
        Command("thinking", "", "Unfold the model's thinking, or fold it again.", _thinking, True),
        Command("help", "", "This list.", _help, True),
        Command("quit", "", "Leave; the session is saved.", _quit, True),
    )
}
