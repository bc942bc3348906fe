"""`interlingua check`, `detect`, `diff`, `dialects` and `stats`: formats, problems, totals; `completion`."""

import inspect
import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterator

import click
from click.shell_completion import get_completion_class
from rich.text import Text

from ..conversion import Detection, detect, sources
from ..conversion.checks import Finding, check, check_large, too_few
from ..conversion.large_sessions import LargeSession, conversations, detect_large, is_large, open_large
from ..conversion.tokenizing import Count, counter, tokens
from ..conversion.training import trainers
from ..dialects import DIALECTS, FORMATS, WIRES, dialect
from ..sessions.cards import TOKENS, Totals
from ..sessions.comparison import Difference, differences
from ..values.request import Conversation
from . import output
from .archive import list_price
from .convert import NAMES, Registered
from .options import JSON


@click.command("check")
@click.argument("inputs", nargs=-1, metavar="IN…")
@click.option("-f", "--from", "origin", type=NAMES, help="The format of the input; detected if not given.")
@click.option(
    "--for",
    "target",
    type=Registered(lambda: (*WIRES, *trainers())),
    help="Also apply the rules of this target: a wire, or a trainer of models (`training` for what all of them ask).",
)
@click.option("--json", "as_json", is_flag=True, help="Findings as JSON, for programs.")
def check_command(inputs: tuple[str, ...], origin: str | None, target: str | None, as_json: bool) -> None:
    """Report problems of conversations: where they are and how to fix them.

    The exit code is 1 if there is an error.
    """
    problems: list[sources.SourceProblem] = []
    files = sources.expand(inputs)
    rows: list[tuple[str, tuple[Finding, ...]]] = []
    faultless: dict[str, tuple[int, int]] = {}  # file -> number of conversations without findings, and their total
    with output.progress("checking", files) as advance:
        for source in files:
            clean = count = 0
            before = len(problems)
            for name, found in _checked(source, origin, target, problems, advance):
                count, clean = count + 1, clean + (not found)
                if found or as_json:  # millions of rows may have none
                    rows.append((name, found))
            if count > 1 or len(problems) == before:  # of a file with torn lines there is more to say
                faultless[source.name] = clean, count
            few = too_few(count, target)
            rows += [] if few is None else [(source.name, (few,))]
    if as_json:
        output.print_json(
            {
                "results": [
                    {"source": name, "findings": [{k: getattr(f, k) for k in f.__struct_fields__} for f in found]}
                    for name, found in rows
                ],
                "errors": [{"source": problem.name, "message": problem.message} for problem in problems],
            }
        )
    else:
        _show(rows, faultless)
    output.report_problems(problems)
    if problems or any(finding.severity == "error" for _, found in rows for finding in found):
        sys.exit(1)


def _checked(
    source: sources.Source,
    origin: str | None,
    target: str | None,
    problems: list[sources.SourceProblem],
    advance: Callable[[int], None],
) -> Iterator[tuple[str, tuple[Finding, ...]]]:
    """Yields the conversations of a file, each with its findings. A large session is not read into memory."""
    torn: list[sources.SourceProblem] = []
    session = open_large(source, origin, torn, advance=advance) if is_large(source) else None
    found = None if session is None else check_large(session, origin is None, target)
    if found is not None:
        problems += torn
        yield source.name, found
        return
    for document in sources.documents(source, origin, problems, advance=advance):
        yield document.name, tuple(check(document.data, origin or document.dialect, target))


def _show(rows: list[tuple[str, tuple[Finding, ...]]], faultless: dict[str, tuple[int, int]]) -> None:
    out = output.console()
    for name, found in rows:
        for finding in found:
            colour = "red" if finding.severity == "error" else "yellow"
            out.print(
                Text.assemble((name, "bold"), f" {finding.path}: ", (finding.severity, colour), f": {finding.message}")
            )
            out.print(Text(f"    → {finding.remedy}", style="dim"))
    for name, (clean, count) in faultless.items():
        if clean:
            several = f"{clean:,} conversations" if clean == count else f"{clean:,} of {count:,} conversations"
            where = "" if count == 1 else f" in {several}"
            out.print(Text.assemble((name, "bold"), ": ", ("no problems", "green"), where))


@click.command("detect")
@click.argument("inputs", nargs=-1, metavar="IN…")
@JSON
def detect_command(inputs: tuple[str, ...], as_json: bool) -> None:
    """Detect the format of files, with the reason."""
    problems: list[sources.SourceProblem] = []
    rows = []
    for source in sources.expand(inputs):
        known = detect_large(source) if is_large(source) else None
        if known is not None:
            rows.append((source.name, known))
            continue
        for document in sources.documents(source, None, problems):
            found = (
                Detection(document.dialect, "a zip or database of it") if document.dialect else detect(document.data)
            )
            if found is None:
                problems.append(sources.SourceProblem(document.name, "no known format"))
            else:
                rows.append((document.name, found))
    if as_json:
        output.print_json(
            [
                {"source": name, "dialect": found.dialect, "reason": found.reason, "others": list(found.others)}
                for name, found in rows
            ]
        )
    else:
        for name, found in rows:
            others = f" (or {', '.join(found.others)})" if found.others else ""
            click.echo(f"{name}: {found.dialect}: {found.reason}{others}")
    output.report_problems(problems, alike=None)
    if problems:
        sys.exit(1)


@click.command("diff")
@click.argument("first")
@click.argument("second")
@click.option("-f", "--from", "origin", type=NAMES, help="The format of both; each is detected if not given.")
@click.option("--all", "everything", is_flag=True, help="Also compare bookkeeping (timestamps, usage, extras).")
@JSON
def diff_command(first: str, second: str, origin: str | None, everything: bool, as_json: bool) -> None:
    """Compare two conversations of any formats."""
    a, b = sources.only_conversation(first, origin), sources.only_conversation(second, origin)
    rows = list(differences(a, b, everything=everything))
    if as_json:
        output.print_json([{"kind": row.kind, "a": row.a, "b": row.b, "changes": row.changes} for row in rows])
    else:
        _show_differences(rows)
    if rows:
        sys.exit(1)


def _show_differences(rows: list[Difference]) -> None:
    out = output.console()
    if not rows:
        out.print("no differences", style="green")
    for row in rows:
        out.print(Text(row.heading, style="bold"))
        for line in row.changes:
            colour = {"-": "red", "+": "green"}.get(line[:1], "dim")
            out.print(Text(f"  {line}", style=colour))


@click.command("dialects")
@click.argument("name", required=False, type=Registered(lambda: DIALECTS), metavar="[NAME]")
@JSON
def dialects_command(name: str | None, as_json: bool) -> None:
    """List the formats: provider wires (requests, responses, streams) and files; or show the rules of one."""
    if name is not None:
        found = dialect(name)
        rules = inspect.cleandoc(getattr(found, "module", found).__doc__ or "")
        if as_json:
            output.print_json({"name": name, "kind": "file" if name in FORMATS else "wire", "rules": rules})
        else:
            click.echo(f"{name}\n\n{rules}")
        return
    rows = [(name, "file" if name in FORMATS else "wire", _summary(name)) for name in DIALECTS]
    if as_json:
        output.print_json([{"name": name, "kind": kind, "summary": summary} for name, kind, summary in rows])
        return
    columns = (output.Column("name"), output.Column("kind", rank=1), output.Column("description", cut=True))
    output.table(output.console(), columns, rows)


def _summary(name: str) -> str:
    found = dialect(name)
    module = getattr(found, "module", found)
    first = (module.__doc__ or "").strip().split("\n", 1)[0].split(". ", 1)[0].rstrip(".")
    return first if module is found else f"{first} (variant)"


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the completion script, for `interlingua` and `il`: `eval "$(interlingua completion bash)"`."""
    from . import group

    found = get_completion_class(shell)
    assert found is not None
    for program in ("interlingua", "il"):
        click.echo(found(group, {}, program, "_INTERLINGUA_COMPLETE").source())


# --- stats ------------------------------------------------------------------------------------------------------------


@click.command("stats")
@click.argument("inputs", nargs=-1, metavar="IN…")
@click.option("-f", "--from", "origin", type=NAMES, help="The format of the input; detected if not given.")
@click.option(
    "--tokenizer",
    metavar="NAME|FILE",
    help="Count tokens, too: an encoding or model of OpenAI's (o200k_base), a tokenizer.json or a .tiktoken file.",
)
@JSON
def stats_command(inputs: tuple[str, ...], origin: str | None, tokenizer: str | None, as_json: bool) -> None:
    """Count messages, tokens, cost and tool calls, in total and per model."""
    problems: list[sources.SourceProblem] = []
    totals = Totals()
    count = None if tokenizer is None else counter(tokenizer)
    sizes = array("Q")  # tokens per conversation
    found = sources.expand(inputs)
    with output.progress("counting", found) as advance:
        for source in found:
            for _, conversation in conversations(source, origin, problems, advance):
                if isinstance(conversation, LargeSession):
                    totals.add_conversation(conversation.about, list_price, conversation.entries())
                else:
                    totals.add_conversation(conversation, list_price)
                if count is not None:
                    sizes.append(_tokens_in(conversation, count))
    spread = {} if tokenizer is None else {"tokenizer": {"name": tokenizer, **_distribution(sizes)}}
    has_counted = totals.conversations > 0 or not problems
    if as_json and has_counted:
        output.print_json({**totals.plain(), **spread})
    elif has_counted:
        _show_totals(totals)
        if tokenizer is not None:
            _show_spread(tokenizer, _distribution(sizes))
    output.report_problems(problems)
    if problems:
        sys.exit(1)


def _tokens_in(conversation: Conversation | LargeSession, count: Count) -> int:
    if isinstance(conversation, Conversation):
        return tokens(conversation, count)
    on_path = conversation.path()
    path = (entry.message for entry, is_on_path in zip(conversation.entries(), on_path, strict=True) if is_on_path)
    return tokens(conversation.about, count, path)


_ROLES = ("user", "assistant", "toolResult", "system")
_COLUMNS = (
    output.Column("model"),
    output.Column("answers", True, 1),
    output.Column("input", True),
    output.Column("cache read", True, 3),
    output.Column("cache write", True, 4),
    output.Column("output", True),
    output.Column("reasoning", True, 2),
    output.Column("cost", True),
)


def _show_totals(totals: Totals) -> None:
    out = output.console()
    by_role = Counter({role: count for role, count in totals.messages.items() if role in _ROLES})
    lines = totals.messages.total() - by_role.total()  # a program's own line types: snapshots, notices, nodes
    counts = ", ".join(f"{count:,} {role}" for role, count in by_role.most_common())
    if lines:
        counts += f"{', ' if counts else ''}{lines:,} other {'line' if lines == 1 else 'lines'}"
    conversations = "conversation" if totals.conversations == 1 else "conversations"
    out.print(f"{totals.conversations:,} {conversations}, {counts or 'no messages'}")
    by_tokens = sorted(totals.models.items(), key=lambda item: -item[1].tokens["total_tokens"])
    rows = [[name, *_row(model)] for name, model in by_tokens]
    if len(rows) > 1:
        rows.append(["all", *_row(totals)])
    if rows:
        output.table(out, _COLUMNS, rows)
    if totals.tools:
        failed = totals.failed_tools
        tools = (
            f"{name} {n:,}" + (f" ({failed[name]} failed)" if failed[name] else "")
            for name, n in totals.tools.most_common()
        )
        out.print(f"tools: {', '.join(tools)}")


def _distribution(sizes: "array[int]") -> dict[str, int]:
    """Total tokens, and their distribution over the conversations."""
    ordered = sorted(sizes) or [0]
    at = {"min": 0, "median": len(ordered) // 2, "p95": len(ordered) * 95 // 100, "max": len(ordered) - 1}
    return {"total": sum(sizes), **{name: ordered[place] for name, place in at.items()}}


def _show_spread(tokenizer: str, spread: dict[str, int]) -> None:
    total, least, median, p95, longest = (f"{spread[name]:,}" for name in ("total", "min", "median", "p95", "max"))
    output.console().print(
        f"{tokenizer}: {total} tokens; a conversation has {least} to {longest}, median {median}, 95 % at most {p95}"
    )


def _row(totals: Totals) -> list[str]:
    cost = output.cost(totals.cost if totals.priced else None, totals.unpriced)
    tokens = [f"{totals.tokens[name]:,}" for name in TOKENS[:-1]]
    return [f"{totals.messages['assistant']:,}", *tokens, cost]
