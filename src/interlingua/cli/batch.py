"""`interlingua batch`: many requests over a provider's batch API, or over ordinary calls, some at a time."""

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from ..values.errors import FormatError, InterlinguaError
from . import output
from .completing import complete_models
from .groups import Group

if TYPE_CHECKING:
    from ..connect.batch import Answer, Batch, Progress
    from ..values.losses import Encoded, Loss

POLL = 30.0  # seconds between two looks of `results --wait`

_key = click.option("--key", help="The key; `interlingua auth login` stores one.")
_json = click.option("--json", "as_json", is_flag=True, help="As JSON, for programs.")


@click.group("batch", cls=Group)
def command() -> None:
    """Ask a model about many conversations: at half the price over the provider's batch API, or with --jobs.

    Every step is kept in the home, so that a command that was killed goes on where it was: submit again.
    """


@command.command("submit")
@click.argument("inputs", nargs=-1, required=True, metavar="FILE…")
@click.option("-m", "--model", shell_complete=complete_models, help="The model that answers, as of `run`.")
@click.option("-f", "--from", "dialect", metavar="DIALECT", help="The format of the files; otherwise detected.")
@click.option("--name", help="The name of the batch; otherwise made from the requests.")
@click.option("-j", "--jobs", type=click.IntRange(1, 1000), help="Make ordinary calls instead, so many at a time.")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="With --jobs: calls a minute at most.")
@click.option("--reask", is_flag=True, help="Leave out the answer that a conversation ends with, and ask for another.")
@click.option("-o", "--option", nargs=2, multiple=True, metavar="NAME VALUE", help="Any option of a call.")
@click.option("--max-tokens", type=int, help="Maximum output tokens of each answer.")
@click.option("--temperature", type=float)
@click.option("--reasoning", metavar="LEVEL", help="Reasoning effort: off, low, medium, high, or a number of tokens.")
@click.option("--base-url", help="Another base URL of the provider.")
@click.option("--s3", metavar="URI", help="Where Amazon Bedrock reads and writes: s3://BUCKET/PREFIX.")
@click.option("--role", metavar="ARN", help="The role under which Amazon Bedrock does so.")
@_key
def submit(inputs: tuple[str, ...], **options: Any) -> None:
    """Submit one request for each conversation of the files, and print the name of the batch.

    The files may be of any format that `convert` reads, lines of request bodies among them. Submitting the same again
    submits nothing twice.
    """
    if options["rate"] is not None and options["jobs"] is None:
        raise FormatError("the rate is that of --jobs; give both", "--rate")
    asyncio.run(_submit(inputs, options))


async def _submit(inputs: tuple[str, ...], options: dict[str, Any]) -> None:
    from ..connect.batch import Batch, rows_of
    from ..connect.call import options_of
    from ..connect.client import default_client
    from ..connect.models import warm
    from .run import usual_model

    given = _call_options(options)
    wire_options, call = options_of(given)
    client = default_client()
    connector, model = client.find_known(options["model"] or usual_model(), await warm())
    settings = {name: options[name] for name in ("s3", "role") if options[name] is not None}
    if settings:
        if connector.provider != "amazon-bedrock" or options["jobs"] is not None:
            raise FormatError("only batches of Amazon Bedrock go through S3; leave it out", f"--{next(iter(settings))}")
        call = replace(call, settings={**(call.settings or {}), **settings})
    rows = rows_of(inputs, wire_options, dialect=options["dialect"], reask=options["reask"])
    batch = await Batch.create(
        rows,
        f"{connector.provider}/{model.id}",
        client,
        local=options["jobs"] is not None,
        name=options["name"],
        call=call,
    )
    name = batch.manifest.name
    rows = batch.rows()  # as they are sent
    _report("the requests", batch.manifest.model, [(row.source, row.losses) for row in rows])
    unsent = [row for row in rows if row.error is not None]
    for row in unsent[: output.MAX_SHOWN]:
        print(f"interlingua: {row.source}: not sent: {row.error['message']}", file=sys.stderr)
    with batch.locked():
        if options["jobs"] is None:
            created = await batch.submit(call)
            what = "submitted" if created else "was submitted before; nothing was sent"
            output.note(f"{len(rows):,} requests, {batch.manifest.model}: {what}; `interlingua batch results {name}`")
        else:
            again = await batch.run(_of_call(given), jobs=options["jobs"], rate=options["rate"])
            progress = await batch.progress(call)
            output.note(f"{_counts(progress)}; `interlingua batch results {name}`")
            if again:
                output.note(f"calls that had been cut off and were made again: {again:,}; the provider may charge both")
    print(name)


def _report(name: str, target: str, losses: "Iterable[tuple[str, Iterable[Loss]]]") -> None:
    """Prints what is lost, grouped; nothing if nothing is."""
    summary = output.LossSummary()
    for source, some in losses:
        summary.add(source, tuple(some))
    if summary.severities["dropped"] or summary.severities["weakened"]:
        output.report_summary(name, target, summary)


def _call_options(options: dict[str, Any]) -> dict[str, Any]:
    from .run import call_options

    return call_options({}, {**options, "timeout": None})


def _of_call(given: dict[str, Any]) -> dict[str, Any]:
    """The options of how a call is made; the others are in the requests."""
    from ..values.request import CallOptions

    return {name: value for name, value in given.items() if name in CallOptions.__struct_fields__}


@command.command("status")
@click.argument("name", required=False)
@_key
@_json
def status(name: str | None, key: str | None, as_json: bool) -> None:
    """Show how far a batch is; without a name, all batches."""
    rows = asyncio.run(_status(name, key))
    if as_json:
        output.say_json(rows if name is None else rows[0])
        return
    if not rows:
        output.note("no batches; `interlingua batch submit FILE -m MODEL` makes one")
    for row in rows:
        print(f"{row['name']}  {row['model']}  {row['status']}")
        for part in row["batches"]:
            counts = ", ".join(f"{count:,} {what}" for what, count in part["counts"].items())
            print(f"  {part['id'] or 'not created: submit again'}  {part['status'] or ''}  {counts}".rstrip())


async def _status(name: str | None, key: str | None) -> list[dict[str, Any]]:
    from ..connect.batch import Batch, names
    from ..connect.client import default_client
    from ..values.request import CallOptions

    rows = []
    for each in names() if name is None else [name]:
        batch = Batch.open(each, default_client())
        try:
            progress = await batch.progress(CallOptions(api_key=key))
            status, states = _counts(progress), progress.states
        except InterlinguaError as error:
            if name is not None:
                raise
            status, states = f"not known: {error}", []
        batches = [
            {
                "id": id,
                "status": state.status if state else None,
                "counts": state.counts if state else {},
                **({"error": state.error} if state and state.error else {}),
            }
            for id, state in states
        ]
        row = {"name": each, "model": batch.manifest.model, "rows": batch.manifest.rows}
        rows.append({**row, "status": status, "batches": batches})
    return rows


def _counts(progress: "Progress") -> str:
    if progress.states:
        ended = sum(state is not None and state.ended for _, state in progress.states)
        return f"{progress.rows:,} requests, {ended} of {len(progress.states)} batches ended"
    return f"{progress.answered:,} of {progress.rows:,} answered, {progress.failed:,} failed"


@command.command("results")
@click.argument("name")
@click.option("-o", "--output", "target", type=click.Path(path_type=Path), help="Write here; otherwise to the output.")
@click.option("-t", "--to", "dialect", metavar="DIALECT", help="Answers in this format instead of our messages.")
@click.option("--wait", is_flag=True, help="Wait until the batch has ended.")
@click.option(
    "--every", type=click.FloatRange(0.01), default=POLL, help="Seconds between two looks.", show_default=True
)
@click.option("--partial", is_flag=True, help="Write the answers that there are, though others are missing.")
@_key
def results(
    name: str, target: Path | None, dialect: str | None, wait: bool, every: float, partial: bool, key: str | None
) -> None:
    """Write the answers, one JSON line for each request in the order of the input; exit code 1 if a request failed."""
    from ..conversion.local_files import atomic

    write = _Writer(dialect)
    batch, progress = asyncio.run(_fetched(name, key, every if wait else None))
    if not progress.is_done and not partial:
        raise InterlinguaError(
            f"the batch {name!r} has not ended: {_counts(progress)}; use --wait, or --partial for what there is"
        )
    answers = asyncio.run(_answers(batch))
    lines = b"".join(write(answer) for answer in answers)
    if dialect is not None:
        _report("the answers", dialect, write.losses)
    if target is not None:
        with atomic(target.expanduser()) as file:
            file.write(lines)
    else:
        sys.stdout.buffer.write(lines)
    failed = sum(answer.error is not None for answer in answers)
    known = [answer.message.usage.cost for answer in answers if answer.message.usage is not None]
    total = sum(cost.total for cost in known if cost is not None)
    cost = f"${total:.4f}" if known and all(known) else f"${total:.4f} and what is not known"
    output.note(f"{len(answers) - failed:,} answers, {failed:,} failed, cost {cost}")
    if failed:
        sys.exit(1)


@command.command("cancel")
@click.argument("name")
@_key
def cancel(name: str, key: str | None) -> None:
    """Ask the provider to end a batch. Answers that there are by then can still be read with `results`."""
    asked = asyncio.run(_cancel(name, key))
    what = "is being cancelled" if asked else "has ended already"
    output.note(f"the batch {name!r} {what}; `interlingua batch results {name}` has the answers that there are")


async def _cancel(name: str, key: str | None) -> bool:
    from ..connect.batch import Batch
    from ..connect.client import default_client
    from ..values.request import CallOptions

    batch = Batch.open(name, default_client())
    with batch.locked():
        return bool(await batch.cancel(CallOptions(api_key=key))) or batch.is_cancelled


@command.command("delete")
@click.argument("name")
@click.option("--local", is_flag=True, help="Only what is in the home; the provider keeps what it has.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@_key
def delete(name: str, local: bool, yes: bool, key: str | None) -> None:
    """Delete a batch for good, with its requests and answers: here, and at the provider as far as it lets.

    OpenAI and Amazon Bedrock keep the batch itself in their lists; its files are deleted there.
    """
    asyncio.run(_delete(name, key, only_here=local, yes=yes))
    output.note(f"the batch {name!r} is deleted{' here; the provider keeps what it has' if local else ''}")


async def _delete(name: str, key: str | None, *, only_here: bool, yes: bool) -> None:
    from ..connect.batch import Batch
    from ..connect.client import default_client
    from ..values.request import CallOptions

    batch = Batch.open(name, default_client())
    if not yes:
        if not sys.stdin.isatty():
            raise InterlinguaError(f"delete the batch {name!r} for good? there is nobody to ask; add --yes")
        click.confirm(f"delete the batch {name!r} with its requests and answers for good?", abort=True, err=True)
    with batch.locked():
        await batch.delete(CallOptions(api_key=key), only_here=only_here)


async def _fetched(name: str, key: str | None, every: float | None) -> "tuple[Batch, Progress]":
    from ..connect.batch import Batch
    from ..connect.client import default_client
    from ..values.request import CallOptions

    batch = Batch.open(name, default_client())
    with batch.locked():
        while True:
            progress = await batch.fetch(CallOptions(api_key=key))
            missing = [id for id, _ in progress.states if id is None]
            if every is None or progress.is_done or missing or batch.manifest.is_local:
                return batch, progress
            await asyncio.sleep(every)


async def _answers(batch: "Batch") -> "list[Answer]":
    return list(await batch.answers())


class _Writer:
    """Makes a line of an answer; `losses` are what the format could not hold, by the source of the request."""

    def __init__(self, dialect: str | None) -> None:
        from ..dialects.registry import canonical

        self._name = canonical(dialect) if dialect is not None else None
        self.losses: list[tuple[str, tuple[Loss, ...]]] = []

    def __call__(self, answer: "Answer") -> bytes:
        from ..values.canonical import plain
        from ..values.jsontext import write

        row: dict[str, Any] = {"id": answer.row.id, "source": answer.row.source}
        if answer.error is not None:
            row["error"] = answer.error
        if self._name is None:
            row["message"] = plain(answer.message)
        elif answer.error is None:
            encoded = self._encoded(answer, self._name)
            row["body"] = encoded.body
            self.losses.append((answer.row.source, tuple(encoded.losses)))
        return write(row) + b"\n"

    def _encoded(self, answer: "Answer", name: str) -> "Encoded":
        """In a wire the answer alone, as its provider would send it; in a file format the whole conversation."""
        from ..conversion import encode
        from ..dialects import WIRES
        from ..values.canonical import build
        from ..values.request import Conversation, Entry, Request

        if name in WIRES:
            response: Encoded = WIRES[name].codec.encode_response(answer.message)
            return response
        asked = Conversation.of(build(answer.row.request, Request))
        whole = Conversation(
            entries=(*asked.entries, Entry(message=answer.message)),
            system=asked.system,
            tools=asked.tools,
            model=asked.model,
        )
        return encode(whole, name)
