"""The commands of the chat: a table, and a small function for each."""

import asyncio
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


async def _model(chat: Chat, wanted: str) -> None:
    if not wanted:
        await chat.screen.show(note(f"the model is {chat.model}; /model PROVIDER/ID hands over to another"))
        return
    _, described = default_client().find(wanted)
    losses = await asyncio.to_thread(_handed_over, chat, described)
    chat.use_model(f"{described.provider}/{described.id}", described)
    parts = [note(f"from here on {chat.model} answers")]
    if (keyless := _without_key(described.provider)) is not None:
        parts.append(error_text(keyless))
    await chat.screen.show(*parts)
    if any(loss.severity != "record" for loss in losses):
        await chat.screen.show(loss_report("what it will not read of the conversation so far", losses))


def _handed_over(chat: Chat, model: ModelDescriptor) -> Sequence[Loss]:
    """What the new model cannot be told of the history."""
    messages = tuple(chat.agent.convert(chat.agent.messages))
    context = Context(system=chat.agent.system, messages=messages)
    losses = adapt(Request(model=model, context=context), model)[1]
    return [loss for loss in losses if not loss.path.startswith("$.options")]


def _without_key(provider: str) -> str | None:
    row = PROVIDERS.get(provider)
    if row is None or not row.env or row.keyless or resolve_auth(row.id, row.env) is not None:
        return None
    return f"there is no key for {provider}: store one with `interlingua auth login {provider}`"


def model_names() -> list[str]:
    """All models that have a name, for completion. Loads the catalogue: not for the event loop."""
    debug = [f"{one.provider}/{one.id}" for connector in default_client().connectors for one in models_of(connector)]
    return sorted({*debug, *(f"{one.provider}/{one.id}" for one in catalogue.models())})


# --- the tree --------------------------------------------------------------------------------------------------------


async def _branch(chat: Chat, label: str) -> None:
    session = chat.session
    head = session.head
    if head is None:
        raise InterlinguaError("nothing was said yet, so there is no place to branch from")
    used = set(session.labels().values())
    name = label or next(f"branch-{number}" for number in range(1, len(used) + 2) if f"branch-{number}" not in used)
    session.label(head, name)
    await chat.screen.show(note(f"this place is called {one_line(name)}; `/tree {one_line(name)}` comes back to it"))


async def _tree(chat: Chat, wanted: str) -> None:
    rows, entries = await asyncio.to_thread(_tree_of, chat)
    if not rows:
        raise InterlinguaError("nothing was said yet")
    if not wanted:
        await chat.screen.show(*_drawn(rows))
        wanted = await chat.ask("go to which entry? a number or label; Enter stays") or ""
    if not wanted:
        return
    row = tree.find(rows, wanted)
    if row is None:
        raise InterlinguaError(f"there is no entry {one_line(wanted)!r}; /tree shows their numbers and labels")
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
    await chat.screen.show(note(f"the conversation stands {where} now; what was said after it stays in /tree"))
    if target.text:
        chat.screen.offer(target.text)


async def _undo(chat: Chat, _: str) -> None:
    target = await asyncio.to_thread(lambda: tree.last_turn(chat.session.path()))
    if target is None:
        raise InterlinguaError("there is nothing to undo")
    await _go(chat, target)


async def _compact(chat: Chat, focus: str) -> None:
    await chat.screen.show(note("summing up what is old …"))
    done = await chat.agent.compact(focus=focus or None)
    if done is None:
        await chat.screen.show(note("there is nothing old enough to sum up"))
        return
    saved = f"about {done.tokens_before:,} → {done.tokens_after:,} tokens"
    await chat.screen.show(note(f"summed up; the session keeps the whole ({saved})"))


# --- what is there ---------------------------------------------------------------------------------------------------


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
        raise InterlinguaError(f"say where to: /export FILE [FORMAT]; the formats are {', '.join(sorted(DIALECTS))}")
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


async def _resume(chat: Chat, wanted: str) -> None:
    if not wanted:
        found = await asyncio.to_thread(opening.recent)
        await chat.screen.show(session_rows(found, chat.session.id))
        wanted = _chosen(await chat.ask("which session? a number or id; Enter stays") or "", found)
    if not wanted:
        return
    id = await asyncio.to_thread(opening.named, wanted)
    if id == chat.session.id:
        raise InterlinguaError("this is the session you are in")
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
    await chat.screen.show(table([*rows, *skipped]) if rows or skipped else note("there are no tools; see --tools"))


def _permission(chat: Chat, tool: str) -> str:
    return {"allow": "allowed", "ask": "asks first", "deny": "forbidden"}[chat.permissions.decide(tool, {}).action]


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
        Command("model", "[PROVIDER/ID]", "Hand over to another model, from here on.", _model),
        Command("branch", "[LABEL]", "Name this place, to come back to it and go on otherwise.", _branch),
        Command("tree", "[ENTRY]", "Show all branches, and go to an entry: by its number or label.", _tree),
        Command("undo", "", "Take back what you said last, to say it otherwise.", _undo),
        Command("compact", "[FOCUS]", "Sum up what is old, to make room.", _compact),
        Command("cost", "", "Tokens and dollars of this session, by model.", _cost, True),
        Command("export", "FILE [FORMAT]", "Write the session in any format, and say what was lost.", _export),
        Command("sessions", "", "List the latest sessions.", _sessions, True),
        Command("resume", "[SESSION]", "Go on with another session.", _resume),
        Command("tools", "", "List the tools and whether they ask first.", _tools, True),
        Command("thinking", "", "Unfold the model's thinking, or fold it again.", _thinking, True),
        Command("help", "", "This list.", _help, True),
        Command("quit", "", "Leave; the session is kept.", _quit, True),
    )
}
