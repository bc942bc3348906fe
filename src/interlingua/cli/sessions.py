"""`interlingua sessions`: lists, shows, imports, exports, forks, compacts and cleans up sessions."""

import datetime
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, TypeVar

import click
from rich.text import Text

from ..chat.rendering import brief
from ..conversion import sources
from ..sessions import Session, SessionError, SessionInfo, operations, tree
from ..sessions import compaction as compacting
from ..sessions.gc import Collected
from ..sessions.operations import Where
from ..sessions.reader import Node
from ..values.canonical import plain
from ..values.messages import AgentMessage, AssistantMessage
from ..values.request import Conversation, is_aside
from . import output
from .convert import NAMES
from .options import JSON, CommandGroup, complete_sessions
from .show import _View, print_conversation

F = TypeVar("F", bound=Callable[..., Any])


def _about_sessions(command: F) -> F:
    """Adds the options that select the sessions; the command gets them as one argument."""

    def called(home: str | None, store: str | None, agent: str, **given: Any) -> Any:
        return command(Where(home=home, store=store, agent=agent), **given)

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


def of_agent(name: str, agent: str) -> click.Command:
    """Returns a command of this group for the sessions of one agent."""
    found = command.commands[name]
    callback: Any = found.callback
    return click.Command(
        name,
        callback=lambda **given: callback(agent=agent, **given),
        params=[param for param in found.params if param.name != "agent"],
        help=found.help,
    )


@click.group("sessions", cls=CommandGroup)
def command() -> None:
    """List, show, import, export, fork, compact and clean up sessions.

    A session is given by its id, a prefix of it, or its file.
    """


# --- list ------------------------------------------------------------------------------------------------------------


@command.command("list")
@_about_sessions
@click.option("--all", "all_agents", is_flag=True, help="List the sessions of all agents.")
@click.option("-n", "--limit", type=click.IntRange(1), help="Maximum number of sessions.")
@JSON
def list_(where: Where, all_agents: bool, limit: int | None, as_json: bool) -> None:
    """List sessions, the latest first."""
    agent = None if all_agents else where["agent"]
    rows = operations.list_sessions(agent, limit=limit, home=where["home"], store=where["store"])
    if as_json:
        output.print_json([plain(info) for info in rows])
    elif rows:
        _table(rows, with_agent=all_agents)
    else:
        others = agent and operations.list_sessions(None, limit=1, home=where["home"], store=where["store"])
        output.console().print(f"no sessions of {agent}; --all lists those of others" if others else "no sessions")


def _table(rows: list[SessionInfo], *, with_agent: bool) -> None:
    columns = (
        output.Column("id"),
        *([output.Column("agent")] if with_agent else []),
        output.Column("modified", rank=1),
        output.Column("messages", right=True, rank=3),
        output.Column("model", rank=2),
        output.Column("title", cut=True),
    )
    table = []
    for info in rows:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.modified / 1000))
        bad = f"({info.bad_lines} bad lines) " if info.bad_lines else ""
        agent = [info.agent] if with_agent else []
        title = bad + " ".join((info.title or "").split())
        table.append((info.id, *agent, when, f"{info.messages:,}", info.model or "", title))
    output.table(output.console(), columns, table)


# --- show ------------------------------------------------------------------------------------------------------------


@command.command("show")
@click.argument("name", metavar="[SESSION]", required=False, shell_complete=complete_sessions)
@_about_sessions
@click.option("-r", "--response", is_flag=True, help="Only the text of the last answer.")
@click.option("-x", "--extract", is_flag=True, help="Only the first code block of the last answer.")
@click.option("--tree", "as_tree", is_flag=True, help="The tree of entries, a line each.")
@click.option("--context", "as_context", is_flag=True, help="The model's view, after compaction.")
@click.option("-n", "--last", type=click.IntRange(1), help="Only the last N entries.")
@click.option("--thinking", is_flag=True, help="Unfold the model's reasoning.")
@click.option("--full", is_flag=True, help="Show long tool results, and what a program put in, in full.")
@click.option("--plain", "as_plain", is_flag=True, help="Text as it is, not as Markdown.")
@JSON
def show(
    where: Where,
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
    view = _View(thinking=thinking, full=full, plain=as_plain)
    if operations.foreign_file(name, **where) is not None:
        conversation = operations.read_session(name, **where)
        if as_tree:
            path = conversation.path()
            _print_tree(_nodes_of(conversation), path[-1].id if path else None, {}, as_json)
        else:
            print_conversation(conversation, view, as_json)
        return
    with operations.open_session(name, **where) as session:
        if response or extract:
            _print_answer(session, extract)
        elif as_tree:
            _print_tree(session.nodes(), session.head, session.labels(), as_json)
        else:
            print_conversation(operations.view_of(session, "context" if as_context else "path", last), view, as_json)
        output.report_problems([sources.SourceProblem(session.where, str(problem)) for problem in session.problems])


def _print_answer(session: Session, extract: bool) -> None:
    """Prints the text of the last response, or the code in it."""
    from .answers import code_in

    answers = [message for message in session.messages if isinstance(message, AssistantMessage)]
    if not answers:
        raise SessionError(f"{session.id}: no answer yet")
    text = code_in(answers[-1].text) if extract else answers[-1].text
    click.echo(text.removesuffix("\n"))


def _print_tree(nodes: Sequence[Node], head: str | None, labels: dict[str, str], as_json: bool) -> None:
    rows = [
        {
            "id": node.entry.id,
            "parentId": node.entry.parent_id,
            "role": node.entry.message.role,
            "text": _summary_line(node.entry.message),
            "label": labels.get(node.entry.id or ""),
            "onPath": node.on_path,
            **({} if node.problem is None else {"problem": node.problem}),
        }
        for node in nodes
    ]
    if as_json:
        output.print_json({"head": head, "entries": rows})
        return
    out = output.console()
    ends = [node.number for node in nodes if node.on_path]
    for depth, node, row in _tree_rows(nodes, rows):
        mark = "●" if ends[-1:] == [node.number] else "│" if node.on_path else "·"
        label = f"  [{row['label']}]" if row["label"] else ""
        problem = f"  ({node.problem})" if node.problem else ""
        name = row["id"] or tree.positional(node.number)
        line = f"{'  ' * depth}{mark} {name}  {row['role']}: {row['text']}{label}"
        out.print(Text.assemble((line, "" if node.on_path else "dim"), (problem, "red")))


def _tree_rows(nodes: Sequence[Node], rows: list[dict[str, Any]]) -> Iterator[tuple[int, Node, dict[str, Any]]]:
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


def _summary_line(message: AgentMessage) -> str:
    line = " ".join(brief(message).split())
    return line if len(line) <= 60 else f"{line[:59]}…"


# --- import and export -----------------------------------------------------------------------------------------------


@command.command("import")
@click.argument("inputs", nargs=-1, metavar="IN…")
@_about_sessions
@click.option("-f", "--from", "origin", type=NAMES, help="The format of the input; detected if not given.")
@click.option("--id", "new_id", help="The id of the new session; default: generated.")
@click.option("--again", is_flag=True, help="Save also what was imported before, as another session.")
@JSON
def import_(
    where: Where, inputs: tuple[str, ...], origin: str | None, new_id: str | None, again: bool, as_json: bool
) -> None:
    """Save conversations of any format as sessions."""
    given = inputs or sources.STDIN
    rows, problems = operations.import_sessions(given, dialect=origin, id=new_id, again=again, **where)
    if as_json:
        output.print_json({"sessions": [row._asdict() for row in rows], "errors": [p._asdict() for p in problems]})
    for row in rows if not as_json else ():
        note = "imported before; --again saves it a second time" if row.existed else ""
        about = note or output.counted(row.messages, "message")
        output.console().print(Text(f"{row.source} → {row.id} ({about})"))
    output.report_problems(problems)
    if problems:
        sys.exit(1)


@command.command("export")
@click.argument("name", metavar="SESSION", shell_complete=complete_sessions)
@_about_sessions
@click.option("-t", "--to", "target", type=NAMES, required=True, help="The format to write.")
@click.option(
    "-o",
    "--output",
    "out",
    type=click.Path(dir_okay=False),
    callback=output.or_standard_output,
    help="A file; standard output by default.",
)
@click.option("--context", "as_context", is_flag=True, help="The model's view, after compaction.")
@click.option("--report", is_flag=True, help="Show what was lost, on standard error.")
@click.option("--strict", is_flag=True, help="Fail if anything would be lost.")
@JSON
def export(
    where: Where,
    name: str,
    target: str,
    out: str | None,
    as_context: bool,
    report: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Write a session in any format and report losses."""
    view: operations.View = "context" if as_context else "tree"
    encoded = operations.export_session(name, target, output=out, view=view, strict=strict, **where)
    if as_json:
        losses = [output.loss_json(loss) for loss in encoded.losses]
        body = {} if out is not None else {"body": encoded.body}
        output.print_json({"to": target, "output": out, "losses": losses, **body})
    elif out is None:
        sys.stdout.buffer.write(operations.payload_of(encoded))
        sys.stdout.flush()
    if report:
        output.report_losses(f"{name} → {target}", encoded.losses)
    elif not as_json:
        output.note_losses(f"{name} → {target}", [encoded.losses])


# --- changing --------------------------------------------------------------------------------------------------------


@command.command("fork")
@click.argument("name", metavar="SESSION", shell_complete=complete_sessions)
@_about_sessions
@click.option("--at", help="The last entry of the new session; default: the head.")
@click.option("--id", "new_id", help="The id of the new session; default: generated.")
@JSON
def fork(where: Where, name: str, at: str | None, new_id: str | None, as_json: bool) -> None:
    """Copy the path to an entry into a new session."""
    new = operations.fork_session(name, at, id=new_id, **where)
    if as_json:
        output.print_json({"id": new.id, "where": new.where, "head": new.head, "forkedFrom": new.forked_from})
    else:
        output.console().print(Text(f"{new.forked_from} → {new.id}"))


@command.command("compact")
@click.argument("name", metavar="SESSION", shell_complete=complete_sessions)
@_about_sessions
@click.option("--summary", help="The summary; - reads it from standard input.")
@click.option("--keep", default=compacting.KEEP_RECENT_TOKENS, show_default=True, help="Approximate tokens to keep.")
@click.option("--focus", help="What the summary should focus on.")
@JSON
def compact(where: Where, name: str, summary: str | None, keep: int, focus: str | None, as_json: bool) -> None:
    """Replace the older part by a summary in the model's view; the session itself loses nothing.

    Without --summary, prints the prompt that requests one from a model.
    """
    if summary is None:
        request = operations.summary_request(name, keep=keep, focus=focus, **where)
        if as_json:
            row = {"id": request.id, "firstKept": request.first_kept, "tokensBefore": request.tokens_before}
            output.print_json({**row, "request": request.prompt})
        else:
            click.echo(request.prompt)
        return
    text = output.typed_in() if summary == sources.STDIN else summary
    id, first, before, after = operations.compact_session(name, text, keep=keep, **where)
    if as_json:
        output.print_json({"id": id, "firstKept": first, "tokensBefore": before, "tokensAfter": after})
    else:
        output.console().print(Text(f"{id}: {before:,} → {after:,} tokens, first kept entry {first}"))


@command.command("delete")
@click.argument("names", nargs=-1, metavar="SESSION…", shell_complete=complete_sessions)
@_about_sessions
@click.option("--before", metavar="DAYS", type=click.FloatRange(0), help="Sessions unchanged for this many days.")
@click.option("--all", "everything", is_flag=True, help="All sessions of the agent.")
@click.option("--purge", is_flag=True, help="Permanently and at once: nothing can be restored.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask before deleting more than one.")
@JSON
def delete(
    where: Where,
    names: tuple[str, ...],
    before: float | None,
    everything: bool,
    purge: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Delete sessions. They can be restored for a week; then lines, blobs and backups are removed.

    Their texts are removed from the search index at once.
    """
    if (bool(names) + (before is not None) + everything) != 1:
        raise click.UsageError("give sessions, --before DAYS, or --all")
    last = None if before is None else datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=before)
    ids = operations.find_sessions(names or None, before=last, **where)
    if len(ids) > 1 and not yes:
        output.confirm(f"delete {output.counted(len(ids), 'session')} of agent {where['agent']!r}?")
    until, problems = operations.delete_sessions(ids, purge=purge, **where)
    if as_json:
        rows = [{"id": id, "undoUntil": at} for id, at in until.items()]
        output.print_json({"deleted": rows, "errors": [problem._asdict() for problem in problems]})
    elif until:
        day = time.strftime("%Y-%m-%d", time.localtime(min(at or 0 for at in until.values()) / 1000))
        how = "permanently" if purge else f"`{_name_of(where)} restore ID` restores one until {day}"
        output.console().print(Text(f"{len(until):,} deleted, {how}"))
    elif not problems:
        output.console().print("nothing to delete")
    output.report_problems(problems)
    if problems:
        sys.exit(1)


def _name_of(where: Where) -> str:
    agent = where["agent"]
    return "interlingua logs" if agent == "run" else f"interlingua sessions --agent {agent}"


@command.command("restore")
@click.argument("names", nargs=-1, metavar="[SESSION…]", shell_complete=complete_sessions)
@_about_sessions
@JSON
def restore(where: Where, names: tuple[str, ...], as_json: bool) -> None:
    """Restore deleted sessions; without one, list what can be restored."""
    shown = operations.restore_sessions(names, **where) if names else operations.deleted_sessions(**where)
    if as_json:
        output.print_json([{"id": one.id, "deleted": one.at} for one in shown])
        return
    for one in shown:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(one.at / 1000))
        output.console().print(Text(f"{one.id} restored" if names else f"{one.id}  deleted {when}"))
    if not shown:
        output.console().print("nothing to restore")


@command.command("purge")
@_about_sessions
@click.option("--all", "everything", is_flag=True, help="Also sessions that could still be restored.")
@JSON
def purge_command(where: Where, everything: bool, as_json: bool) -> None:
    """Permanently remove sessions deleted more than a week ago: lines, blobs, backups, recordings."""
    gone = operations.purge_sessions(everything=everything, **where)
    if as_json:
        output.print_json(gone._asdict())
    else:
        removed = f"{output.counted(gone.sessions, 'session')} and {output.counted(gone.blobs, 'blob')}"
        output.console().print(Text(f"{removed} permanently removed"))


@command.command("gc")
@click.argument("names", nargs=-1, metavar="[SESSION…]", shell_complete=complete_sessions)
@_about_sessions
@click.option("--branches", is_flag=True, help="Remove entries on no path to the head, a label or a branch.")
@click.option("--delete", is_flag=True, help="Keep no backup of the session.")
@click.option("--grace", default=3600.0, show_default=True, help="Minimum age in seconds of removed blobs.")
@JSON
def gc(where: Where, names: tuple[str, ...], branches: bool, delete: bool, grace: float, as_json: bool) -> None:
    """Remove unreferenced blobs; with --branches, also the dead branches of sessions.

    Keeps a backup of each changed session, unless --delete.
    """
    if names and not branches:
        raise click.UsageError("sessions given without --branches; add --branches to remove their dead branches")
    done, blobs, problems = operations.collect_garbage(
        names or None, branches=branches, keep_backup=not delete, grace=grace, **where
    )
    rows = [*done.items(), ("blobs", blobs)]
    _print_collected(rows, as_json)
    output.report_problems(problems)
    if problems:
        sys.exit(1)


def _print_collected(rows: list[tuple[str, Collected]], as_json: bool) -> None:
    if as_json:
        output.print_json([{"of": name, **collected._asdict()} for name, collected in rows])
        return
    for name, (items, size, backup) in rows:
        what = "blobs" if name == "blobs" else "lines"
        note = f"; backup: {backup}" if backup else ""
        output.console().print(Text(f"{name}: {items:,} {what}, {size:,} bytes{note}"))


# --- search and totals -----------------------------------------------------------------------------------------------


@command.command("search")
@click.argument("terms", nargs=-1, required=True, metavar="WORD…")
@_about_sessions
@click.option("-n", "--limit", type=click.IntRange(1), default=20, show_default=True, help="Maximum number of hits.")
@click.option("-m", "--model", help="Only answers of this model.")
@JSON
def search(where: Where, terms: tuple[str, ...], limit: int, model: str | None, as_json: bool) -> None:
    """Search the texts of sessions, the latest first. All terms must match; "a phrase" and -word work, too."""
    found = operations.search_sessions(" ".join(terms), model=model, limit=limit, **where)
    if as_json:
        rows = [{"id": hit.id, "title": hit.title, "entry": hit.text.entry, "at": hit.text.at, "role": hit.text.role,
                 "snippet": "".join(part.text for part in hit.snippet)} for hit in found.hits]  # fmt: skip
        output.print_json({"total": found.total, "sessions": found.sessions, "hits": rows})
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
@_about_sessions
@click.option("--by", type=click.Choice(["model", "day"]), default="model", show_default=True)
@JSON
def totals(where: Where, by: Literal["model", "day"], as_json: bool) -> None:
    """Count responses, tokens and cost, by model or day; a copied response counts once."""
    rows, whole = operations.session_totals(by, **where)
    if as_json:
        output.print_json({"by": by, "rows": [row._asdict() for row in rows], "all": [row._asdict() for row in whole]})
        return
    table = []
    for row in (*rows, *(whole if len(rows) > 1 else ())):
        numbers = (row.answers, row.input, row.cache_read + row.cache_write, row.output)
        label = "all" if row in whole and row not in rows else row.name or "unknown"
        table.append((label, *(f"{number:,}" for number in numbers), output.cost(row.cost, row.unpriced)))
    if not rows:
        output.console().print("no answers")
        return
    ranks = {"answers": 1, "cached": 2}
    numbers_of = (
        output.Column(name, right=True, rank=ranks.get(name, 0))
        for name in ("answers", "input", "cached", "output", "cost")
    )
    output.table(output.console(), (output.Column(by), *numbers_of), table)
    if unpriced := sum(row.unpriced for row in whole):
        count = output.counted(unpriced, "answer")
        output.note(f"{count} without a price: no cost was recorded with them; models.toml sets prices for new answers")
