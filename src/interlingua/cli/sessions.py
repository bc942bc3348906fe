"""`interlingua sessions`: lists, shows, imports, exports, forks, compacts and cleans up sessions."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec.structs import replace
from rich.table import Table
from rich.text import Text

from .. import conversion
from ..conversion import local_files, sources
from ..sessions import Session, SessionError, SessionInfo, SessionNotFound, save, store_at, tree
from ..sessions import compaction as compacting
from ..sessions import gc as gc_
from ..sessions.archive import OWN
from ..sessions.archive_index import ArchiveIndex
from ..sessions.files import FileStore
from ..sessions.gc import Collected, collect_blobs, collect_branches
from ..sessions.session import Node
from ..sessions.store import Store
from ..sessions.summary import is_foreign
from ..sessions.texts import Query
from ..values.canonical import plain
from ..values.errors import InterlinguaError
from ..values.losses import Lines
from ..values.messages import AgentMessage, AssistantMessage, CustomMessage, text_of
from ..values.regular import stream_regular
from ..values.request import Conversation, Entry, is_aside
from . import output
from .completing import complete_sessions
from .convert import NAMES
from .groups import Group
from .show import _View

F = TypeVar("F", bound=Callable[..., Any])


class _Place:
    """The store and agent of a command."""

    def __init__(self, home: str | None, address: str | None, agent: str) -> None:
        self.home = home
        self.agent = agent
        self._address = address

    @contextlib.contextmanager
    def store(self) -> Iterator[Store]:
        store = store_at(self._address, self.home)
        try:
            yield store
        finally:
            store.close()

    @contextlib.contextmanager
    def session(self, name: str, *, write: bool = False) -> Iterator[Session]:
        """An open session by its id, a prefix of it, or its file."""
        with self.store() as store:
            if "/" in name or name.endswith(".jsonl"):
                opened = Session.open(Path(name), home=self.home, create=False, read_only=not write)
            else:
                id = self.named(store, name)
                opened = Session.open(id, agent=self.agent, store=store, create=False, read_only=not write)
            with opened:
                yield opened

    def index(self, store: Store) -> ArchiveIndex:
        """The search index, shared with the canvas and the archive. It is in the home, whatever keeps the sessions."""
        if not isinstance(store, FileStore):
            raise SessionError("the search index is for sessions in files; search a database with `interlingua canvas`")
        return ArchiveIndex(store.home / "canvas" / "search.db", {OWN: store})

    def latest(self) -> str:
        with self.store() as store:
            ids = store.ids(self.agent) if isinstance(store, FileStore) else [i.id for i in store.sessions(self.agent)]
        if not ids:
            raise SessionNotFound(f"no session of agent {self.agent!r} yet")
        return ids[0]

    def named(self, store: Store, name: str) -> str:
        ids = store.ids(self.agent) if isinstance(store, FileStore) else [i.id for i in store.sessions(self.agent)]
        return _matching(name, ids, self.agent)

    def foreign(self, name: str) -> tuple[Path, Conversation] | None:
        """Another program's session file and its conversation; None for one of ours."""
        path = Path(name)
        if "/" not in name and not name.endswith(".jsonl"):
            with self.store() as store:
                where = next((info.where for info in store.sessions(self.agent) if info.id == name), None)
            path = Path(where or name)
        if not path.is_file():
            return None
        with stream_regular(path) as stream:
            if not is_foreign(stream.readline()):
                return None
        return path, conversion.decode(sources.read_all(sources.Source(path)))


def _about_place(command: F) -> F:
    """Adds the options that select the sessions."""

    def called(home: str | None, store: str | None, agent: str, **given: Any) -> Any:
        return command(_Place(home, store, agent), **given)

    called.__doc__ = command.__doc__
    named: Any = called
    for option in (
        click.option("--agent", default="main", show_default=True, help="The agent whose sessions to use."),
        click.option("--store", help="sqlite:FILE or postgresql://…; files by default."),
        click.option("--home", help="The directory of the files; default: $INTERLINGUA_HOME or ~/.interlingua."),
    ):
        named = option(named)
    named.__click_params__ = [*getattr(command, "__click_params__", []), *named.__click_params__]
    return named  # type: ignore[no-any-return]


as_json_option = click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")


def _matching(name: str, ids: Sequence[str], agent: str, what: str = "session") -> str:
    """The id by itself or by its beginning."""
    found = [name] if name in ids else [id for id in ids if id.startswith(name)]
    if len(found) > 1:
        raise SessionError(f"ambiguous {what} {name!r}: {', '.join(sorted(found)[:5])}; give more of the id")
    if not found:
        raise SessionNotFound(f"no {what} {name!r} of agent {agent!r}; see: interlingua sessions list")
    return found[0]


def of_agent(name: str, agent: str) -> click.Command:
    """A command of this group for the sessions of one agent."""
    found = command.commands[name]
    callback: Any = found.callback
    return click.Command(
        name,
        callback=lambda **given: callback(agent=agent, **given),
        params=[param for param in found.params if param.name != "agent"],
        help=found.help,
    )


@click.group("sessions", cls=Group)
def command() -> None:
    """List, show, import, export, fork, compact and clean up sessions.

    A session is given by its id, a prefix of it, or its file.
    """


# --- list ------------------------------------------------------------------------------------------------------------


@command.command("list")
@_about_place
@click.option("--all", "everybody", is_flag=True, help="List the sessions of all agents.")
@click.option("-n", "--limit", type=click.IntRange(1), help="Maximum number of sessions.")
@as_json_option
def list_(place: _Place, everybody: bool, limit: int | None, as_json: bool) -> None:
    """List sessions, the latest first."""
    with place.store() as store:
        agents = store.agents() if everybody else [place.agent]
        rows = [info for agent in agents for info in store.sessions(agent)]
    rows = sorted(rows, key=lambda info: -info.modified)[:limit]
    if as_json:
        output.say_json([plain(info) for info in rows])
    elif rows:
        _table(rows, with_agent=everybody)
    else:
        output.console().print("no sessions")


def _table(rows: list[SessionInfo], *, with_agent: bool) -> None:
    table = Table(box=None)
    for name in ("id", *(["agent"] if with_agent else []), "modified", "messages", "model", "title"):
        table.add_column(name, justify="right" if name == "messages" else "left")
    for info in rows:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.modified / 1000))
        title = Text(info.title or "")
        if info.bad_lines:
            title.append(f" ({info.bad_lines} bad lines)", style="red")
        agent = [info.agent] if with_agent else []
        table.add_row(info.id, *agent, when, f"{info.messages:,}", info.model or "", title)
    output.console().print(table)


# --- show ------------------------------------------------------------------------------------------------------------


@command.command("show")
@click.argument("name", metavar="[SESSION]", required=False, shell_complete=complete_sessions)
@_about_place
@click.option("-r", "--response", is_flag=True, help="Only the text of the last answer.")
@click.option("-x", "--extract", is_flag=True, help="Only the first code block of the last answer.")
@click.option("--tree", "as_tree", is_flag=True, help="The tree of entries, a line each.")
@click.option("--context", "as_context", is_flag=True, help="The model's view, after compaction.")
@click.option("-n", "--last", type=click.IntRange(1), help="Only the last N entries.")
@click.option("--thinking", is_flag=True, help="Unfold the model's reasoning.")
@click.option("--full", is_flag=True, help="Show long tool results in full.")
@click.option("--plain", "as_plain", is_flag=True, help="Text as it is, not as Markdown.")
@as_json_option
def show(
    place: _Place,
    name: str | None,
    response: bool,
    extract: bool,
    as_tree: bool,
    as_context: bool,
    last: int | None,
    thinking: bool,
    full: bool,
    as_plain: bool,
    as_json: bool,
) -> None:
    """Show a session, by default the latest: the path to its head, its tree, or the model's view."""
    name = place.latest() if name is None else name
    foreign = place.foreign(name)
    if foreign is not None:
        conversation = foreign[1]
        if as_tree:
            path = conversation.path()
            _say_tree(_nodes_of(conversation), path[-1].id if path else None, {}, as_json)
        else:
            _say(conversation, _View(thinking=thinking, full=full, plain=as_plain), as_json)
        return
    with place.session(name) as session:
        if response or extract:
            _say_answer(session, extract)
        elif as_tree:
            _say_tree(session.nodes(), session.head, session.labels(), as_json)
        else:
            shown = _in_context(session) if as_context else _path_alone(session, last)
            _say(shown, _View(thinking=thinking, full=full, plain=as_plain), as_json)
        output.report_problems([sources.Problem(session.where, str(problem)) for problem in session.problems])


def _say_answer(session: Session, extract: bool) -> None:
    """Prints the text of the last answer, or the code in it."""
    from .answers import code_in

    answers = [message for message in session.messages if isinstance(message, AssistantMessage)]
    if not answers:
        raise SessionError(f"{session.id}: no answer yet")
    text = code_in(answers[-1].text) if extract else answers[-1].text
    click.echo(text.removesuffix("\n"))


def _path_alone(session: Session, last: int | None) -> Conversation:
    given = tuple(replace(entry, id=None, parent_id=None) for entry in session.path(last=last))
    return replace(session.base, entries=tuple(e for e in given if not compacting.is_bookkeeping(e.message)))


def _in_context(session: Session) -> Conversation:
    """The model's view, with the journal of calls without a result."""
    messages = (*session.context_messages(), *session.open_journal())
    return replace(session.base, entries=tuple(Entry(message=message) for message in messages))  # type: ignore[arg-type]


def _say(conversation: Conversation, view: _View, as_json: bool) -> None:
    if as_json:
        sys.stdout.buffer.write(conversion.encode(conversation, conversion.SELF).bytes() + b"\n")
        return
    with output.paged() as out:
        for part in view.conversation(conversation):
            out.print(part)


def _say_tree(nodes: Sequence[Node], head: str | None, labels: dict[str, str], as_json: bool) -> None:
    rows = [
        {
            "id": node.entry.id,
            "parentId": node.entry.parent_id,
            "role": _role(node.entry.message),
            "text": _gist(node.entry.message),
            "label": labels.get(node.entry.id or ""),
            "onPath": node.on_path,
            **({} if node.problem is None else {"problem": node.problem}),
        }
        for node in nodes
    ]
    if as_json:
        output.say_json({"head": head, "entries": rows})
        return
    out = output.console()
    ends = [node.number for node in nodes if node.on_path]
    for depth, node, row in _drawn(nodes, rows):
        mark = "●" if ends[-1:] == [node.number] else "│" if node.on_path else "·"
        label = f"  [{row['label']}]" if row["label"] else ""
        problem = f"  ({node.problem})" if node.problem else ""
        name = row["id"] or tree.positional(node.number)
        line = f"{'  ' * depth}{mark} {name}  {row['role']}: {row['text']}{label}"
        out.print(Text.assemble((line, "" if node.on_path else "dim"), (problem, "red")))


def _drawn(nodes: Sequence[Node], rows: list[dict[str, Any]]) -> Iterator[tuple[int, Node, dict[str, Any]]]:
    """Nodes with their depth, which increases at branches, not with every message."""
    children: dict[int, list[int]] = {}
    for at, node in enumerate(nodes):
        children.setdefault(node.parent, []).append(at)
    waiting = [(0, at) for at in reversed(children.get(tree.ROOT, []))]
    while waiting:
        depth, at = waiting.pop()
        yield depth, nodes[at], rows[at]
        below = children.get(nodes[at].number, [])
        waiting += [(depth + (len(below) > 1), child) for child in reversed(below)]


def _nodes_of(conversation: Conversation) -> list[Node]:
    """The tree of another program's file, numbered by entry."""
    arranged = conversation.tree()
    on_path = {id(entry) for entry in conversation.path()}
    numbers: list[int] = []  # the node of each entry; of one outside the tree, its parent's
    nodes: list[Node] = []
    before: set[str | None] = {None}
    for at, (entry, above) in enumerate(zip(conversation.entries, arranged.parents, strict=True)):
        parent = tree.ROOT if above is None else numbers[above]
        numbers.append(parent if is_aside(entry) else at)
        problem = None if entry.parent_id in before else f"parent {entry.parent_id!r} is not before it"
        before.add(entry.id)
        if not is_aside(entry):
            nodes.append(Node(at, parent, entry, id(entry) in on_path, problem))
    return nodes


def _role(message: AgentMessage) -> str:
    return message.role if isinstance(message, CustomMessage) else str(type(message).__struct_config__.tag)


def _gist(message: AgentMessage) -> str:
    if isinstance(message, CustomMessage):
        text = str(message.fields.get("summary") or message.fields.get("model") or "")
    else:
        calls = [f"→ {call.name}" for call in getattr(message, "tool_calls", ())]
        text = " ".join([text_of(message.content), *calls])
    line = " ".join(text.split())
    return line if len(line) <= 60 else f"{line[:59]}…"


# --- import and export -----------------------------------------------------------------------------------------------


@command.command("import")
@click.argument("inputs", nargs=-1, metavar="IN…")
@_about_place
@click.option("-f", "--from", "origin", type=NAMES, help="The format of the input; detected if not given.")
@click.option("--id", "new_id", help="The id of the new session; default: generated.")
@as_json_option
def import_(place: _Place, inputs: tuple[str, ...], origin: str | None, new_id: str | None, as_json: bool) -> None:
    """Save conversations of any format as sessions."""
    problems: list[sources.Problem] = []
    rows: list[dict[str, Any]] = []
    with place.store() as store:
        for source in sources.expand(inputs):
            for document in sources.documents(source, origin, problems):
                try:
                    conversation = conversion.decode(document.data, origin or document.dialect)
                    with save(conversation, id=new_id, agent=place.agent, store=store) as session:
                        row = {"source": document.name, "id": session.id, "where": session.where}
                    given = sum(not compacting.is_bookkeeping(entry.message) for entry in conversation.entries)
                    rows.append({**row, "messages": given})
                except InterlinguaError as error:
                    problems.append(sources.Problem(document.name, str(error)))
    if as_json:
        output.say_json({"sessions": rows, "errors": [problem._asdict() for problem in problems]})
    for row in rows if not as_json else ():
        output.console().print(Text(f"{row['source']} → {row['id']} ({row['messages']:,} messages)"))
    output.report_problems(problems)
    if problems:
        sys.exit(1)


@command.command("export")
@click.argument("name", metavar="SESSION", shell_complete=complete_sessions)
@_about_place
@click.option("-t", "--to", "target", type=NAMES, required=True, help="The format to write.")
@click.option("-o", "--output", "out", type=click.Path(dir_okay=False), help="A file; standard output by default.")
@click.option("--context", "as_context", is_flag=True, help="The model's view, after compaction.")
@click.option("--report", is_flag=True, help="Show what was lost, on standard error.")
@click.option("--strict", is_flag=True, help="Fail if anything would be lost.")
@as_json_option
def export(
    place: _Place,
    name: str,
    target: str,
    out: str | None,
    as_context: bool,
    report: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Write a session in any format and report losses."""
    foreign = place.foreign(name)
    if foreign is not None:
        where, conversation = foreign
    else:
        with place.session(name) as session:
            where = Path(session.where)
            conversation = _in_context(session) if as_context else session.conversation()
    if out is not None:
        local_files.refuse_inputs(Path(out), [where])
    encoded = conversion.encode(conversation, target, strict=strict)
    payload = encoded.bytes() + (b"" if isinstance(encoded.body, Lines) else b"\n")
    if out is not None:
        with local_files.atomic(Path(out)) as stream:
            stream.write(payload)
    if as_json:
        losses = [output.loss_json(loss) for loss in encoded.losses]
        body = {} if out is not None else {"body": encoded.body}
        output.say_json({"to": target, "output": out, "losses": losses, **body})
    elif out is None:
        sys.stdout.buffer.write(payload)
        sys.stdout.flush()
    if report:
        output.report_losses(f"{name} → {target}", encoded.losses)
    elif not as_json:
        output.note_losses(f"{name} → {target}", [encoded.losses])


# --- changing --------------------------------------------------------------------------------------------------------


@command.command("fork")
@click.argument("name", metavar="SESSION", shell_complete=complete_sessions)
@_about_place
@click.option("--at", help="The last entry of the new session; default: the head.")
@click.option("--id", "new_id", help="The id of the new session; default: generated.")
@as_json_option
def fork(place: _Place, name: str, at: str | None, new_id: str | None, as_json: bool) -> None:
    """Copy the path to an entry into a new session."""
    with place.session(name) as session, session.fork(at, id=new_id) as other:
        row = {"id": other.id, "where": other.where, "head": other.head, "forkedFrom": session.id}
    if as_json:
        output.say_json(row)
    else:
        output.console().print(Text(f"{row['forkedFrom']} → {row['id']}"))


@command.command("compact")
@click.argument("name", metavar="SESSION", shell_complete=complete_sessions)
@_about_place
@click.option("--summary", help="The summary; - reads it from standard input.")
@click.option("--keep", default=compacting.KEEP_RECENT_TOKENS, show_default=True, help="Approximate tokens to keep.")
@click.option("--focus", help="What the summary should focus on.")
@as_json_option
def compact(place: _Place, name: str, summary: str | None, keep: int, focus: str | None, as_json: bool) -> None:
    """Replace the older part by a summary in the model's view; the session itself loses nothing.

    Without --summary, prints the prompt that requests one from a model.
    """
    with place.session(name, write=summary is not None) as session:
        cut = compacting.cut(session.context_entries(), keep)
        if cut is None:
            raise SessionError(f"{session.id}: nothing to summarize beyond the {keep:,} kept tokens")
        row: dict[str, Any] = {"id": session.id, "firstKept": cut.first_kept, "tokensBefore": cut.tokens_before}
        if summary is None:
            row["request"] = _request(cut, focus)
        else:
            message = output.typed_in() if summary == sources.STDIN else summary
            text, details = compacting.finished(cut, message)
            session.compact(text, cut.first_kept, tokens_before=cut.tokens_before, details=details)
            row["tokensAfter"] = compacting.context_tokens(session.context_entries())
    if as_json:
        output.say_json(row)
    elif summary is None:
        click.echo(row["request"])
    else:
        reason = f"{row['tokensBefore']:,} → {row['tokensAfter']:,} tokens, first kept entry {row['firstKept']}"
        output.console().print(Text(f"{row['id']}: {reason}"))


def _request(cut: compacting.Cut, focus: str | None) -> str:
    """One prompt for everything to summarize."""
    return compacting.summary_request(cut._replace(summarize=(*cut.summarize, *cut.prefix), prefix=()), focus=focus)


@command.command("delete")
@click.argument("names", nargs=-1, metavar="SESSION…", shell_complete=complete_sessions)
@_about_place
@click.option("--before", metavar="DAYS", type=click.FloatRange(0), help="Sessions unchanged for this many days.")
@click.option("--all", "everything", is_flag=True, help="All sessions of the agent.")
@click.option("--purge", is_flag=True, help="For good, at once: nothing can be restored.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before more than one is deleted.")
@as_json_option
def delete(
    place: _Place,
    names: tuple[str, ...],
    before: float | None,
    everything: bool,
    purge: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete sessions. They can be restored for a week; then lines, blobs and backups are removed.

    Their words leave the search index at once.
    """
    if (bool(names) + (before is not None) + everything) != 1:
        raise click.UsageError("give sessions, --before DAYS, or --all")
    rows: list[dict[str, Any]] = []
    problems: list[sources.Problem] = []
    with place.store() as store, contextlib.closing(place.index(store)) as index:
        last = None if before is None else (time.time() - before * 86400) * 1000
        ids = [place.named(store, name) for name in names] or [
            info.id for info in store.sessions(place.agent) if last is None or info.modified < last
        ]
        if len(ids) > 1 and not yes:
            _confirm(f"delete {len(ids):,} sessions of agent {place.agent!r}?")
        for id in dict.fromkeys(ids):
            try:
                gone = gc_.delete(store, place.agent, id, index=index)
                rows.append({"id": id, "undoUntil": None if purge else gone.at + int(gc_.UNDO * 1000)})
            except SessionError as error:
                problems.append(sources.Problem(id, str(error)))
        done = {row["id"] for row in rows}
        for one in store.trashed(place.agent) if purge else ():
            if one.id in done:
                gc_.purge_one(store, place.agent, one)
        gc_.purge(store, place.agent)
    if as_json:
        output.say_json({"deleted": rows, "errors": [problem._asdict() for problem in problems]})
    elif rows:
        how = "for good" if purge else f"`{_name_of(place)} restore ID` brings one back until then: {_day(rows)}"
        output.console().print(Text(f"{len(rows):,} deleted, {how}"))
    else:
        output.console().print("nothing to delete")
    output.report_problems(problems)
    if problems:
        sys.exit(1)


def _confirm(question: str) -> None:
    if not sys.stdin.isatty():
        raise SessionError(f"{question} there is nobody to ask; add --yes")
    click.confirm(question, abort=True, err=True)


def _name_of(place: _Place) -> str:
    return "interlingua logs" if place.agent == "run" else f"interlingua sessions --agent {place.agent}"


def _day(rows: list[dict[str, Any]]) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(rows[0]["undoUntil"] / 1000))


@command.command("restore")
@click.argument("names", nargs=-1, metavar="[SESSION…]", shell_complete=complete_sessions)
@_about_place
@as_json_option
def restore(place: _Place, names: tuple[str, ...], as_json: bool) -> None:
    """Bring deleted sessions back; without one, list what can be restored."""
    with place.store() as store:
        kept = {one.id: one for one in store.trashed(place.agent)}
        ids = [_matching(name, [*kept], place.agent, "deleted session") for name in names]
        for id in ids:
            gc_.restore(store, place.agent, id)
    shown = [kept[id] for id in ids] if names else sorted(kept.values(), key=lambda one: -one.at)
    if as_json:
        output.say_json([{"id": one.id, "deleted": one.at} for one in shown])
        return
    for one in shown:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.at / 1000))
        output.console().print(Text(f"{one.id} restored" if names else f"{one.id}  deleted {when}"))
    if not shown:
        output.console().print("nothing to restore")


@command.command("purge")
@_about_place
@click.option("--all", "everything", is_flag=True, help="Also what could still be restored.")
@as_json_option
def purge_command(place: _Place, everything: bool, as_json: bool) -> None:
    """Remove for good what was deleted more than a week ago: lines, blobs, backups, recordings."""
    with place.store() as store:
        gone = gc_.purge(store, place.agent, undo=0 if everything else gc_.UNDO, grace=0 if everything else 60)
    if as_json:
        output.say_json(gone._asdict())
    else:
        output.console().print(Text(f"{gone.sessions:,} sessions and {gone.blobs:,} blobs removed for good"))


@command.command("gc")
@click.argument("names", nargs=-1, metavar="[SESSION…]", shell_complete=complete_sessions)
@_about_place
@click.option("--branches", is_flag=True, help="Remove entries on no path to the head, a label or a branch.")
@click.option("--delete", is_flag=True, help="Keep no backup of the session.")
@click.option("--grace", default=3600.0, show_default=True, help="Minimum age in seconds of removed blobs.")
@as_json_option
def gc(place: _Place, names: tuple[str, ...], branches: bool, delete: bool, grace: float, as_json: bool) -> None:
    """Remove unreferenced blobs; with --branches, also the dead branches of sessions.

    Keeps a backup of each changed session, unless --delete.
    """
    if names and not branches:
        raise click.UsageError("sessions given without --branches; add --branches to remove their dead branches")
    rows: list[tuple[str, Collected]] = []
    problems: list[sources.Problem] = []
    with place.store() as store:
        ids = [place.named(store, name) for name in names] or [info.id for info in store.sessions(place.agent)]
        for id in ids if branches else ():
            try:
                rows.append((id, collect_branches(store, place.agent, id, delete=delete)))
            except SessionError as error:
                problems.append(sources.Problem(id, str(error)))
        rows.append(("blobs", collect_blobs(store, place.agent, grace=grace)))
    _say_collected(rows, as_json)
    output.report_problems(problems)
    if problems:
        sys.exit(1)


def _say_collected(rows: list[tuple[str, Collected]], as_json: bool) -> None:
    if as_json:
        output.say_json([{"of": name, **collected._asdict()} for name, collected in rows])
        return
    for name, (items, size, backup) in rows:
        what = "blobs" if name == "blobs" else "lines"
        note = f"; backup: {backup}" if backup else ""
        output.console().print(Text(f"{name}: {items:,} {what}, {size:,} bytes{note}"))


# --- search and totals -----------------------------------------------------------------------------------------------


@command.command("search")
@click.argument("words", nargs=-1, required=True, metavar="WORD…")
@_about_place
@click.option("-n", "--limit", type=click.IntRange(1), default=20, show_default=True, help="Maximum number of hits.")
@click.option("-m", "--model", help="Only answers of this model.")
@as_json_option
def search(place: _Place, words: tuple[str, ...], limit: int, model: str | None, as_json: bool) -> None:
    """Search the texts of sessions, the latest first. All words must match; "a phrase" and -word work, too."""
    with place.store() as store, contextlib.closing(place.index(store)) as index:
        index.follow(agent=place.agent)
        query = Query(text=" ".join(words), agent=place.agent, model=model, stores=(OWN,), limit=limit)
        found = index.search(query)
    if as_json:
        rows = [{"id": hit.id, "title": hit.title, "entry": hit.text.entry, "at": hit.text.at, "role": hit.text.role,
                 "snippet": "".join(part.text for part in hit.snippet)} for hit in found.hits]  # fmt: skip
        output.say_json({"total": found.total, "sessions": found.sessions, "hits": rows})
        return
    out = output.console()
    for hit in found.hits:
        when = "" if hit.text.at is None else time.strftime("%Y-%m-%d", time.localtime(hit.text.at / 1000))
        line = Text.assemble((hit.id[:8] if out.is_terminal else hit.id, "bold"), f"  {when}  ")
        for part in hit.snippet:
            line.append(" ".join(f"|{part.text}|".split())[1:-1], "bold yellow" if part.is_hit else "")
        out.print(line)
    if found.total > len(found.hits):
        output.note(f"{len(found.hits)} of {found.total:,} hits; -n shows more")
    if not found.hits:
        out.print("nothing found")


@command.command("totals")
@_about_place
@click.option("--by", type=click.Choice(["model", "day"]), default="model", show_default=True)
@as_json_option
def totals(place: _Place, by: str, as_json: bool) -> None:
    """Count answers, tokens and cost, by model or day; a copied answer counts once."""
    with place.store() as store, contextlib.closing(place.index(store)) as index:
        index.follow(agent=place.agent)
        rows = index.totals(by, Query(agent=place.agent, stores=(OWN,)))
        whole = index.totals("all", Query(agent=place.agent, stores=(OWN,)))
    if as_json:
        output.say_json({"by": by, "rows": [row._asdict() for row in rows], "all": [row._asdict() for row in whole]})
        return
    table = Table(box=None, pad_edge=False)
    for name in (by, "answers", "input", "cached", "output", "cost"):
        table.add_column(name, justify="left" if name == by else "right")
    for row in (*rows, *(whole if len(rows) > 1 else ())):
        cost = "?" if row.cost is None else f"${row.cost:.4f}" + (" + ?" if row.unpriced else "")
        numbers = (row.answers, row.input, row.cache_read + row.cache_write, row.output)
        label = "all" if row in whole and row not in rows else row.name or "unknown"
        table.add_row(label, *(f"{number:,}" for number in numbers), cost)
    output.console().print(table if rows else "no answers")
