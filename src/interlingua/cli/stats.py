"""`interlingua stats`: messages, tokens, cost and tool calls, in total and per model."""

import sys

import click

from .. import conversion
from ..conversion import sources
from ..sessions.cards import TOKENS, Totals
from ..values.errors import InterlinguaError
from . import output
from .convert import NAMES


@click.command("stats")
@click.argument("inputs", nargs=-1, metavar="IN…")
@click.option("-f", "--from", "origin", type=NAMES, help="The format of the input; detected if not given.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")
def command(inputs: tuple[str, ...], origin: str | None, as_json: bool) -> None:
    """Count messages, tokens, cost and tool calls, in total and per model."""
    problems: list[sources.Problem] = []
    totals = Totals()
    found = sources.expand(inputs)
    with output.progress("counting", found) as advance:
        for source in found:
            for document in sources.documents(source, origin, problems, advance=advance):
                try:
                    totals.add_conversation(conversion.decode(document.data, origin or document.dialect))
                except InterlinguaError as error:
                    problems.append(sources.Problem(document.name, str(error)))
    if as_json:
        output.say_json(totals.plain())
    else:
        _show(totals)
    output.report_problems(problems)
    if problems:
        sys.exit(1)


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


def _show(totals: Totals) -> None:
    out = output.console()
    counts = ", ".join(f"{count:,} {role}" for role, count in totals.messages.most_common())
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


def _row(totals: Totals) -> list[str]:
    cost = f"${totals.cost:,.4f}" if totals.priced else "unknown"
    if totals.priced and totals.unpriced:
        cost += f" + {totals.unpriced} unknown"
    tokens = [f"{totals.tokens[name]:,}" for name in TOKENS[:-1]]
    return [f"{totals.messages['assistant']:,}", *tokens, cost]
