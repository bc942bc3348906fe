"""`interlingua archive`: searches the conversations of every program, with totals of tokens and cost."""

import asyncio
import contextlib
import functools
import gc
import os
import re
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from rich.text import Text

from ..chat.rendering import Indented
from . import output
from .options import JSON, CommandGroup, complete_programs

if TYPE_CHECKING:
    from ..sessions.archive import Archive, ArchiveProblem, ArchiveProgress, Report
    from ..sessions.archive_index import Archived
    from ..sessions.cards import Total, Used
    from ..sessions.text_index import Results, TextHit
    from ..sessions.texts import Query

_MAKERS = ("anthropic", "openai", "google")  # used for the price of a model whose provider the file does not state


def list_price(used: "Used") -> float | None:
    """Returns the list price of a response at its time; None if unknown."""
    from ..connect import models  # price lists load slower than most files are counted

    if not used.model:
        return None
    found = models.cost(used.usage(), used.model, used.provider, used.at)
    if found is None and used.provider is None:
        makers = (models.cost(used.usage(), used.model, maker, used.at) for maker in _MAKERS)
        found = next((cost for cost in makers if cost is not None), None)
    return found.total if found is not None else None


F = TypeVar("F", bound=Callable[..., Any])

SHOWN_PROBLEMS = 20
SETTLE = 0.5  # seconds: a program writes a response in several pieces
SHORT = 10  # characters of an id that are shown; any unambiguous prefix is accepted

_home = click.option(
    "--home", type=click.Path(path_type=Path, file_okay=False), help="The directory of the sessions and of the index."
)
_no_update = click.option("--no-update", is_flag=True, help="Do not look for new and changed files first.")


@click.group("archive", cls=CommandGroup)
def command() -> None:
    """Search every conversation: other programs' histories, exports and folders, and your own sessions.

    Files are read in place and never changed. The index follows them and may be deleted at any time.
    """


@contextlib.contextmanager
def _opened(home: Path | None, *, update: bool = False) -> Iterator["Archive"]:
    from ..sessions.archive import Archive

    with Archive(home.expanduser() if home is not None else None, price=list_price) as archive:
        if update:
            _update(archive)  # problems of files are listed by `add` and `status`
        yield archive


# --- sources ---------------------------------------------------------------------------------------------------------


@command.command("add")
@click.argument("sources", nargs=-1, metavar="[PROGRAM|FOLDER|FILE]…", shell_complete=complete_programs)
@click.option("--watch", is_flag=True, help="Stay, and follow the files as they change.")
@_home
@JSON
def add(sources: tuple[str, ...], watch: bool, home: Path | None, as_json: bool) -> None:
    """Index programs' histories (claude-code, codex-cli, gemini-cli), folders, exports and any other files.

    Without arguments, updates the index for the sources added before.
    """
    with _opened(home) as archive:
        if sources:
            archive.add(sources)
        report = _update(archive, quiet=as_json)
        _print_report(report, as_json)
        if watch:
            with contextlib.suppress(KeyboardInterrupt):
                asyncio.run(_watch(archive, as_json))
        elif any(problem.kind == "failed" for problem in report.problems):
            sys.exit(1)


@command.command("remove")
@click.argument("sources", nargs=-1, required=True, metavar="PROGRAM|FOLDER|FILE…", shell_complete=complete_programs)
@_home
def remove(sources: tuple[str, ...], home: Path | None) -> None:
    """Remove sources and their index entries from the archive; the files themselves stay."""
    with _opened(home) as archive:
        archive.remove(sources)
        report = _update(archive)
    output.console().print(f"{output.counted(report.removed, 'file')} removed from the index")


@command.command("status")
@_home
@JSON
def status(home: Path | None, as_json: bool) -> None:
    """Show the sources, the size of the index, and files that could not be read."""
    with _opened(home) as archive:
        states, problems, size = archive.states(), archive.problems(), archive.index.size()
        own = len(archive.conversations(archive.query(tool="interlingua", limit=10_000_000)))
    if as_json:
        rows = [
            {
                "source": state.source.name,
                "path": str(state.source.root),
                "files": state.files,
                "conversations": state.conversations,
                "present": state.is_there,
            }
            for state in states
        ]
        found = [_problem_json(problem) for problem in problems]
        output.print_json({"sources": rows, "ownSessions": own, "indexBytes": size, "problems": found})
        return
    table = []
    for state in states:
        path = f"{state.source.root}{'' if state.is_there else ' (missing)'}"
        name = state.source.name if state.source.dialect else "file" if state.source.root.is_file() else "folder"
        table.append((name, f"{state.files:,}", f"{state.conversations:,}", path))
    table.append(("interlingua", "", f"{own:,}", str(archive.home)))
    out = output.console()
    output.table(out, _SOURCES, table)
    out.print(f"index: {_bytes(size)}")
    _print_problems(problems, limit=None)


_SOURCES = (
    output.Column("source"),
    output.Column("files", right=True),
    output.Column("conversations", right=True),
    output.Column("path"),
)


def _update(archive: "Archive", *, quiet: bool = False) -> "Report":
    """Updates the index; on a terminal, with bytes, rate and time left."""
    gc.set_threshold(100_000, 20, 100)  # many objects, no cycles; collection takes a fifth of the time
    if quiet or not sys.stderr.isatty():
        return archive.update()
    with output.progress_bar() as bar:
        task = bar.add_task("", total=None, visible=False)

        def show(done: "ArchiveProgress") -> None:
            files = f"indexing {done.files:,}/{done.of:,} files"
            bar.update(task, completed=done.done, total=done.total, description=files, visible=done.of > 0)

        return archive.update(progress=show)


def _print_report(report: "Report", as_json: bool) -> None:
    if as_json:
        fields = {name: value for name, value in report._asdict().items() if name != "problems"}
        output.print_json({**fields, "problems": [_problem_json(problem) for problem in report.problems]})
        sys.stdout.flush()
        return
    parts = [f"{output.counted(report.indexed, 'file')} indexed ({_bytes(report.size)})"]
    for count, what in ((report.unchanged, "unchanged"), (report.moved, "moved"), (report.removed, "removed")):
        if count:
            parts.append(f"{count:,} {what}")
    if report.skipped:
        parts.append(f"{report.skipped:,} without conversations")
    output.console().print(", ".join(parts) + f" in {report.seconds:.1f} s")
    sys.stdout.flush()
    _print_problems(report.problems)


def _print_problems(
    problems: "tuple[ArchiveProblem, ...] | list[ArchiveProblem]", limit: int | None = SHOWN_PROBLEMS
) -> None:
    """Prints problems: first files of which nothing could be read."""
    ordered = sorted(problems, key=lambda problem: problem.kind != "failed")
    for problem in ordered[:limit]:
        line = f":{problem.line}" if problem.line is not None else ""
        print(f"interlingua: {problem.path}{line}: {problem.message}", file=sys.stderr)
    if limit is not None and len(ordered) > limit:
        more = len(ordered) - limit
        print(f"interlingua: {more:,} more problems; `interlingua archive status` lists all", file=sys.stderr)


def _problem_json(problem: "ArchiveProblem") -> dict[str, Any]:
    return {"path": problem.path, "line": problem.line, "message": problem.message, "kind": problem.kind}


async def _watch(archive: "Archive", as_json: bool) -> None:
    """Updates the index whenever a file of a source changes, until interrupted."""
    from ..sessions.watching import RESCAN

    with contextlib.closing(archive.watch()) as watch:
        await watch.start()
        changed = True  # changes before the watch was active
        print("interlingua: watching; Ctrl-C ends", file=sys.stderr)
        while True:
            if not changed and await watch.wait(RESCAN):
                await asyncio.sleep(SETTLE)
            changed = False
            before = archive.problems()
            report = await asyncio.to_thread(archive.update)
            fresh = tuple(problem for problem in report.problems if problem not in before)
            if report.indexed or report.removed or report.moved or fresh:
                _print_report(report._replace(problems=fresh), as_json)


# --- filters ---------------------------------------------------------------------------------------------------------


def _filters(command: F) -> F:
    """Adds the options that select conversations, and passes them as `filters`."""

    @functools.wraps(command)
    def called(
        tool: str | None,
        model: str | None,
        project: str | None,
        since: int | None,
        until: int | None,
        min_cost: float | None,
        max_cost: float | None,
        **given: Any,
    ) -> Any:
        filters = {"tool": tool, "model": model, "project": project, "since": since, "until": until}
        return command(filters={**filters, "min_total": min_cost, "max_total": max_cost}, **given)

    named: Any = called
    for option in (
        click.option("--max-cost", type=float, metavar="USD", help="Only conversations that cost at most this much."),
        click.option("--min-cost", type=float, metavar="USD", help="Only conversations that cost at least this much."),
        click.option("--until", type=_When(end=True), help="Up to this day or time."),
        click.option("--since", type=_When(), help="From this day or time on: 2026-05-31, yesterday, 7d, 12h."),
        click.option("--project", help="Only conversations of this project: the name of its folder."),
        click.option("--model", "-m", help="Only answers of this model."),
        click.option("--tool", help="A program (claude-code, interlingua), or a tool that was called (Bash)."),
    ):
        named = option(named)
    return named  # type: ignore[no-any-return]


class _When(click.ParamType[int, str]):
    """A day, a time, or how long ago; in milliseconds."""

    name = "date"

    def __init__(self, *, end: bool = False) -> None:
        self._end = end  # a day means its last moment

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).strip().lower()
        now = datetime.now().astimezone()
        days = {"today": 0, "yesterday": 1}.get(text)
        ago = re.fullmatch(r"(\d{1,6})([hdw])", text)
        if days is not None:
            return self._day(now - timedelta(days=days))
        if ago is not None:
            unit = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}[ago[2]]
            with contextlib.suppress(OverflowError):
                return int((now - int(ago[1]) * unit).timestamp() * 1000)
        try:
            found = datetime.fromisoformat(str(value).strip())
            return self._day(found) if len(text) <= 10 else int(found.timestamp() * 1000)
        except (ValueError, OverflowError):
            self.fail(f"invalid date {value!r}; use 2026-05-31, 2026-05-31T14:00, yesterday, 7d or 12h", param, ctx)

    def _day(self, moment: datetime) -> int:
        start = datetime(moment.year, moment.month, moment.day)
        if not self._end:
            return int(start.timestamp() * 1000)
        return int((start + timedelta(days=1)).timestamp() * 1000) - 1


# --- finding ---------------------------------------------------------------------------------------------------------


@command.command("search")
@click.argument("text", nargs=-1, required=True, metavar="TEXT…")
@_filters
@click.option(
    "--role", type=click.Choice(["user", "assistant", "toolResult", "system"]), help="Only messages of this role."
)
@click.option("--failed", is_flag=True, help="Only failed answers and tool results.")
@click.option("-n", "--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="Hits at most.")
@click.option("--offset", type=click.IntRange(0), default=0, help="Hits to pass over.")
@_no_update
@_home
@JSON
def search(
    text: tuple[str, ...],
    filters: dict[str, Any],
    role: str | None,
    failed: bool,
    limit: int,
    offset: int,
    no_update: bool,
    home: Path | None,
    as_json: bool,
) -> None:
    """Search texts in all conversations, the latest first.

    All terms must occur; "a phrase" in quotes, -word to exclude. Open a hit by its id: interlingua archive
    show|chat|canvas ID.
    """
    with _opened(home, update=not no_update) as archive:
        query = archive.query(
            " ".join(text), role=role, is_error=True if failed else None, limit=limit, offset=offset, **filters
        )
        results = archive.search(query)
        about = {(hit.agent, hit.id): archive.about(hit) for hit in results.hits}
    if as_json:
        hits = [_hit_json(hit, about[hit.agent, hit.id]) for hit in results.hits]
        counts = {"total": results.total, "conversations": results.sessions, "next": results.next}
        output.print_json({"hits": hits, **counts})
        return
    _print_hits(results, about, query)


def _hit_json(hit: "TextHit", one: "Archived | None") -> dict[str, Any]:
    text = hit.text
    return {
        "id": hit.id,
        "title": hit.title,
        "tool": one.tool_name if one is not None else hit.agent,
        "project": one.project if one is not None else None,
        "path": one.path if one is not None else None,
        "entry": text.entry or None,
        "kind": text.kind,
        "role": text.role,
        "called": text.tool,
        "model": text.model,
        "at": text.at,
        "snippet": "".join(part.text for part in hit.snippet),
        "matches": [part.text for part in hit.snippet if part.is_hit],
    }


def _print_hits(results: "Results", about: "dict[tuple[str, str], Archived | None]", query: "Query") -> None:
    from ..sessions.text_index import COUNTED, COUNTED_SESSIONS

    out = output.console()
    if not results.hits:
        out.print("nothing found" if not query.offset else "no more hits")
        return
    before = None
    for hit in results.hits:
        if (hit.agent, hit.id) != before:
            before = (hit.agent, hit.id)
            one = about[before]
            line = Text.assemble((hit.id[:SHORT], "bold cyan"), "  ", (hit.title or "untitled", "bold"))
            about_it = Text(_describe(one) if one is not None else "", "dim")
            if out.is_terminal and line.cell_len + about_it.cell_len + 2 > out.width:
                line.truncate(out.width, overflow="ellipsis")
                out.print(line)
                out.print(Text("  ") + about_it)
            else:
                out.print(Text.assemble(line, "  ", about_it))
        text = hit.text
        label = " ".join(part for part in (text.role or text.kind, text.tool or "") if part)
        row = Text.assemble((f"{label}: ", "green"))
        for part in hit.snippet:
            row.append(" ".join(part.text.split("\n")), "bold yellow" if part.is_hit else "")
        out.print(Indented(row) if out.is_terminal else Text("  ") + row)
    more = f"; more with --offset {results.next}" if results.next is not None else ""
    hits = f"{_at_least(results.total, COUNTED)} {output.plural(results.total, 'hit')}"
    conversations = output.plural(results.sessions, "conversation")
    is_whole = results.total <= COUNTED_SESSIONS
    about_ = f"{hits} in {_at_least(results.sessions, None if is_whole else 0)} {conversations}{more}"
    out.print(Text(about_, "dim"))


def _at_least(count: int, limit: int | None) -> str:
    """A number that was counted up to a limit."""
    return f"{count:,}" if limit is None or count < limit else f"at least {count:,}"


def _dollars(cost: float) -> str:
    """Formats dollars in cents; fractions of a cent are not rounded to zero."""
    return "<$0.01" if 0 < cost < 0.005 else f"${cost:,.2f}"


def _describe(one: "Archived") -> str:
    when = _date(one.ended or one.started)
    cost = _dollars(one.cost) if one.cost else ""
    return " · ".join(part for part in (one.tool_name, one.project or "", when, cost) if part)


@command.command("list")
@_filters
@click.option("-n", "--limit", type=click.IntRange(1), default=30, show_default=True, help="Conversations at most.")
@_no_update
@_home
@JSON
def list_(filters: dict[str, Any], limit: int, no_update: bool, home: Path | None, as_json: bool) -> None:
    """List the conversations of the archive, the latest first."""
    with _opened(home, update=not no_update) as archive:
        rows = archive.conversations(archive.query(limit=limit, **filters))
    if as_json:
        output.print_json([_archived_json(one) for one in rows])
        return
    if not rows:
        output.console().print("no conversations; add some with: interlingua archive add claude-code")
        return
    table = []
    for one in rows:
        cost = _dollars(one.cost) if one.cost is not None else ""
        title = " ".join((one.title or "").split())
        when, count = _date(one.ended or one.started), f"{one.messages:,}"
        table.append((one.id[:SHORT], when, one.tool_name, one.project or "", count, cost, title))
    output.table(output.console(), _CONVERSATIONS, table)


_CONVERSATIONS = (
    output.Column("id"),
    output.Column("when"),
    output.Column("tool", rank=2),
    output.Column("project", rank=1),
    output.Column("messages", right=True, rank=4),
    output.Column("cost", right=True, rank=3),
    output.Column("title", cut=True),
)


def _archived_json(one: "Archived") -> dict[str, Any]:
    return {
        "id": one.id,
        "tool": one.tool_name,
        "title": one.title,
        "project": one.project,
        "messages": one.messages,
        "models": list(one.models),
        "started": one.started,
        "ended": one.ended,
        "cost": one.cost,
        "path": one.path,
        "number": one.number + 1,
    }


@command.command("totals")
@click.option(
    "--by",
    type=click.Choice(["day", "model", "project", "tool"]),
    multiple=True,
    help="One table for each; by default, all but `tool`.",
)
@_filters
@_no_update
@_home
@JSON
def totals(by: tuple[str, ...], filters: dict[str, Any], no_update: bool, home: Path | None, as_json: bool) -> None:
    """Sum tokens and cost per day, model and project.

    A response that occurs in several files, because a session was resumed or copied, is counted once. Costs that files
    do not state are computed from list prices.
    """
    groups = by or ("day", "model", "project")
    with _opened(home, update=not no_update) as archive:
        query = archive.query(**filters)
        if query.tool is not None:
            raise click.UsageError(f"no program {filters['tool']!r} in the archive; totals are by program, not by call")
        found = {group: archive.totals(group, query) for group in groups}
        whole = archive.totals("all", query)
    if as_json:
        groups_json = {group: [_total_json(total) for total in rows] for group, rows in found.items()}
        output.print_json({**groups_json, "all": _total_json(whole[0]) if whole else None})
        return
    out = output.console()
    for group, rows in found.items():
        if group != groups[0]:
            out.print()
        every = (*rows, *(one._replace(name="all") for one in whole))
        output.table(out, (output.Column(group), *_TOTALS), [(one.name or "unknown", *_numbers(one)) for one in every])


_TOTALS = (
    output.Column("answers", right=True, rank=1),
    output.Column("input", right=True),
    output.Column("cache read", right=True, rank=2),
    output.Column("cache write", right=True, rank=3),
    output.Column("output", right=True),
    output.Column("cost", right=True),
)


def _numbers(total: "Total") -> list[str]:
    tokens = (total.input, total.cache_read, total.cache_write, total.output)
    return [f"{total.answers:,}", *(f"{count:,}" for count in tokens), output.cost(total.cost, total.unpriced)]


def _total_json(total: "Total") -> dict[str, Any]:
    return {
        "name": total.name,
        "answers": total.answers,
        "input": total.input,
        "cacheRead": total.cache_read,
        "cacheWrite": total.cache_write,
        "output": total.output,
        "reasoning": total.reasoning,
        "cost": total.cost,
        "unpriced": total.unpriced,
    }


# --- opening ---------------------------------------------------------------------------------------------------------


@command.command("show")
@click.argument("id")
@click.option("--thinking", is_flag=True, help="Unfold the model's reasoning.")
@click.option("--full", is_flag=True, help="Show long tool results, and what a program put in, in full.")
@click.option("--plain", is_flag=True, help="Plain text instead of Markdown.")
@_home
@JSON
def show(id: str, thinking: bool, full: bool, plain: bool, home: Path | None, as_json: bool) -> None:
    """Show a conversation in the terminal."""
    from .show import _View, print_conversation

    with _opened(home) as archive:
        conversation = archive.open(archive.find(id))
    print_conversation(conversation, _View(thinking=thinking, full=full, plain=plain), as_json)


_PASSED_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


@command.command("chat", context_settings=_PASSED_ON)
@click.argument("id")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[PROMPT] [OPTIONS OF CHAT]…")
@_home
def chat(id: str, options: tuple[str, ...], home: Path | None) -> None:
    """Continue a conversation in `chat`, on any model; the original is not changed.

    Takes the options of `interlingua chat`, such as -m MODEL.
    """
    from ..sessions import save
    from .chat import command as talk

    with _opened(home) as archive:
        found = archive.find(id)
        conversation = archive.open(found)
        with save(conversation, agent="main", home=archive.home) as session:
            made = session.id
        os.environ["INTERLINGUA_HOME"] = str(archive.home)
    output.note(f"{found.id[:SHORT]} continues as session {made}")
    talk.main(["--session", made, *options], prog_name="interlingua chat")


@command.command("canvas", context_settings=_PASSED_ON)
@click.argument("id")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS OF CANVAS]…")
@_home
def canvas(id: str, options: tuple[str, ...], home: Path | None) -> None:
    """Open a conversation on the canvas.

    Takes the options of `interlingua canvas`, such as --no-open.
    """
    from .canvas import command as open_canvas

    with _opened(home) as archive:
        found = archive.find(id)
        place = found.id if found.path is None else f"{found.path}#{found.number + 1}"
        where = str(archive.home)
    open_canvas.main(["open", place, "--home", where, *options], prog_name="interlingua canvas")


def _date(at: int | None) -> str:
    return time.strftime("%Y-%m-%d", time.localtime(at / 1000)) if at else ""


def _bytes(size: int) -> str:
    for unit, factor in (("GB", 1 << 30), ("MB", 1 << 20), ("kB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size:,} bytes"
