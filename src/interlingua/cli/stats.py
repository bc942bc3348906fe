"""`interlingua stats`: messages, tokens, cost and tool calls, in total and per model."""

import sys
from array import array
from collections import Counter

import click

from .. import conversion
from ..conversion import sources
from ..conversion.large_sessions import is_large, line_messages, open_large
from ..conversion.tokenizing import Count, counter, tokens
from ..sessions.cards import TOKENS, Totals
from ..values.errors import InterlinguaError
from . import output
from .convert import NAMES
from .options import JSON
from .pricing import list_price


@click.command("stats")
@click.argument("inputs", nargs=-1, metavar="IN…")
@click.option("-f", "--from", "origin", type=NAMES, help="The format of the input; detected if not given.")
@click.option(
    "--tokenizer",
    metavar="NAME|FILE",
    help="Count tokens, too: an encoding or model of OpenAI's (o200k_base), a tokenizer.json or a .tiktoken file.",
)
@JSON
def command(inputs: tuple[str, ...], origin: str | None, tokenizer: str | None, as_json: bool) -> None:
    """Count messages, tokens, cost and tool calls, in total and per model."""
    problems: list[sources.Problem] = []
    totals = Totals()
    count = None if tokenizer is None else counter(tokenizer)
    sizes = array("Q")  # tokens per conversation
    found = sources.expand(inputs)
    with output.progress("counting", found) as advance:
        for source in found:
            if is_large(source):
                size = None if count is None else _tokens_in(source, origin, count)
                is_streamed = count is None or size is not None
                messages = line_messages(source, origin, problems, advance=advance) if is_streamed else None
                if messages is not None:
                    totals.add_messages(messages, list_price)
                    sizes.extend(() if size is None else (size,))
                    continue
                session = open_large(source, origin, problems, advance=advance) if is_streamed else None
                if session is not None:
                    totals.add_conversation(session.about, list_price, session.entries())
                    sizes.extend(() if size is None else (size,))
                    continue
            for document in sources.documents(source, origin, problems, advance=advance):
                try:
                    conversation = conversion.decode(document.data, origin or document.dialect)
                    totals.add_conversation(conversation, list_price)
                    if count is not None:
                        sizes.append(tokens(conversation, count))
                except InterlinguaError as error:
                    problems.append(sources.Problem(document.name, str(error)))
    spread = {} if tokenizer is None else {"tokenizer": {"name": tokenizer, **_distribution(sizes)}}
    has_counted = totals.conversations > 0 or not problems
    if as_json and has_counted:
        output.print_json({**totals.plain(), **spread})
    elif has_counted:
        _show(totals)
        if tokenizer is not None:
            _show_spread(tokenizer, _distribution(sizes))
    output.report_problems(problems)
    if problems:
        sys.exit(1)


def _tokens_in(source: sources.Source, origin: str | None, count: Count) -> int | None:
    """The tokens of a session file that is too large to be in memory; None if it is read as a whole."""
    session = open_large(source, origin, [])
    if session is None:
        return None
    on_path = session.path()
    return tokens(session.about, count, (entry.message for at, entry in enumerate(session.entries()) if on_path[at]))


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


def _show(totals: Totals) -> None:
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
    cost = f"${totals.cost:,.4f}" if totals.priced else "unknown"
    if totals.priced and totals.unpriced:
        cost += f" + {totals.unpriced} unknown"
    tokens = [f"{totals.tokens[name]:,}" for name in TOKENS[:-1]]
    return [f"{totals.messages['assistant']:,}", *tokens, cost]
