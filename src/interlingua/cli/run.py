"""`interlingua run`: sends a prompt to a model and streams the answer."""

import asyncio
import os
import secrets
import signal as signals
import sys
from pathlib import Path
from typing import Any, TextIO

import click
from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from ..connect.auth.resolver import resolve_auth
from ..connect.client import default_client
from ..connect.models import known_rows, own_notes
from ..connect.results import OutputType
from ..connect.stream import Stream
from ..conversion import decode, detect, encode, local_files
from ..conversion.attachments import attached
from ..sessions.summary import is_foreign
from ..values import jsontext
from ..values.abort import Abort
from ..values.canonical import dump, plain
from ..values.errors import FormatError, InterlinguaError
from ..values.events import TextDelta, ThinkingDelta, ToolCallEnd
from ..values.losses import Loss
from ..values.messages import AssistantMessage, Message, TextBlock, UserMessage
from ..values.regular import read_regular
from ..values.request import Conversation, Entry
from . import output

OFFLINE = "debug/dummy-echo-1"
MODEL_VARIABLE = "INTERLINGUA_MODEL"


@click.command("run")
@click.argument("prompt", required=False)
@click.option("-m", "--model", help=f"provider/id, or an alias of models.toml; {MODEL_VARIABLE} if not given.")
@click.option("-s", "--system", help="The system prompt.")
@click.option("-p", "--prompt-file", type=click.Path(), help="Read the prompt from this file ('-': standard input).")
@click.option(
    "-a", "--attach", "attachments", multiple=True, metavar="PATH", help="Attach an image, document or audio file."
)
@click.option("-c", "--context", "context_file", type=click.Path(), help="A conversation to continue, in any format.")
@click.option("--schema", metavar="JSON|FILE", help="A JSON Schema that the answer must match.")
@click.option("--fallback", "fallbacks", multiple=True, metavar="MODEL", help="Use this model if the first one fails.")
@click.option("--reasoning", metavar="LEVEL", help="Reasoning effort: off, low, medium, high, or a number of tokens.")
@click.option("--max-tokens", type=int, help="Maximum output tokens.")
@click.option("--temperature", type=float)
@click.option("--base-url", help="Another base URL of the provider.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Idle timeout.")
@click.option("--save", "save", type=click.Path(), help="Write the conversation here, as a transcript.")
@click.option("--json", "as_json", is_flag=True, help="The answer as one JSON message.")
@click.option("--events", is_flag=True, help="The stream events as JSON lines.")
@click.option("-q", "--quiet", is_flag=True, help="Only the answer: no thinking, no usage.")
def command(
    prompt: str | None, prompt_file: str | None, context_file: str | None, save: str | None, **options: Any
) -> None:
    """Send a prompt to a model and stream its answer.

    PROMPT is the argument, a file, or standard input (both: the argument, then the input). Ctrl-C stops the answer; the
    partial answer is kept, and its cost shown.
    """
    text = _text(prompt, prompt_file)
    if save is not None and context_file is not None:
        _refuse_overwriting(Path(save).expanduser(), Path(context_file).expanduser())
    conversation = _conversation(context_file, text, options["attachments"])
    if options["system"]:
        conversation = replace(conversation, system=options["system"])
    model = options["model"] or usual_model()
    answer, failure, losses = asyncio.run(_ask(model, conversation, options))
    if save is not None and (answer.content or failure is None):
        _save(save, conversation, answer)
    if context_file is not None and not (options["quiet"] or options["as_json"] or options["events"]):
        remedy = f"interlingua convert {context_file} -t {answer.api} --report lists what was lost"
        output.note_losses(f"{context_file} → {model}", [losses], remedy)
    _end(answer, failure, options)


def _text(prompt: str | None, file: str | None) -> str:
    parts = [prompt] if prompt is not None else []
    if file is not None and file != "-":
        try:
            parts.append(read_regular(Path(file).expanduser()).decode())
        except (OSError, UnicodeDecodeError) as error:
            raise FormatError(f"{file}: not readable as a prompt: {error}", "--prompt-file") from None
    elif file == "-" or not sys.stdin.isatty():
        piped = output.typed_in()
        parts += [piped] if piped.strip() else []
    text = "\n\n".join(part.rstrip("\n") for part in parts)
    if not text.strip():
        raise FormatError("no prompt; give it as an argument, with --prompt-file, or on standard input", "PROMPT")
    return text


def _conversation(file: str | None, text: str, attachments: tuple[str, ...]) -> Conversation:
    history = Conversation()
    if file is not None:
        history = decode(read_regular(Path(file).expanduser()))
    files = tuple(map(attached, attachments))
    content: Any = (*files, TextBlock(text=text)) if files else text
    return _followed(history, UserMessage(content=content))


def _followed(history: Conversation, message: Message) -> Conversation:
    """The conversation with a message appended to its head; other branches stay."""
    head = history.tree().head
    above = history.entries[head].id if head is not None else None
    entry = Entry(message=message, id=None if above is None else secrets.token_hex(8), parent_id=above)
    return replace(history, entries=(*history.entries, entry), head=None)


def _refuse_overwriting(save: Path, context: Path) -> None:
    """Raises if the input would be overwritten, unless it is a transcript, which is written again in full."""
    data = read_regular(context)
    found = detect(data)
    if found is None or found.dialect not in ("transcript", "openclaw") or is_foreign(data.partition(b"\n")[0]):
        local_files.refuse_inputs(save, [context])


def usual_model() -> str:
    """The default model: the user's choice, or without any key the offline one."""
    given = os.environ.get(MODEL_VARIABLE) or own_notes().aliases.get("default")
    if given:
        return given
    keyed = [row.id for row in known_rows().values() if row.env and resolve_auth(row.id, row.env) is not None]
    if keyed:
        raise FormatError(
            f"no model given; keys exist for {', '.join(keyed)}: `interlingua models -p {keyed[0]}` lists models, "
            f"{MODEL_VARIABLE} or an alias `default` in models.toml sets the default",
            "--model",
        )
    output.console(err=True).print(
        Text(
            "no key found, using the offline debug model; `interlingua auth login PROVIDER` stores a key",
            "dim",
        )
    )
    return OFFLINE


async def _ask(
    model: str, conversation: Conversation, options: dict[str, Any]
) -> tuple[AssistantMessage, Any, tuple[Loss, ...]]:
    stop = Abort()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signals.SIGINT, stop.abort, "interrupted")
    try:
        stream = default_client().stream(
            model,
            conversation.request().context,
            fallbacks=options["fallbacks"],
            signal=stop,
            on_retry=None if options["quiet"] else _report_retry,
            **_options(options),
        )
        await _show(stream, options)
        return await stream.result(), stream.failure, tuple(stream.losses)
    finally:
        loop.remove_signal_handler(signals.SIGINT)


def _options(options: dict[str, Any]) -> dict[str, Any]:
    level = options["reasoning"]
    given = {
        "max_tokens": options["max_tokens"],
        "temperature": options["temperature"],
        "base_url": options["base_url"],
        "timeout": options["timeout"],
        "reasoning": int(level) if level and level.isdecimal() else level,
        "output_schema": _schema(options["schema"]),
    }
    return {name: value for name, value in given.items() if value is not None}


def _schema(text: str | None) -> Any:
    if text is None:
        return None
    try:
        value = jsontext.read(text if text.lstrip().startswith("{") else read_regular(Path(text).expanduser()))
    except (OSError, FormatError) as error:
        raise FormatError(f"{text}: not a JSON Schema: {error}", "--schema") from None
    if not isinstance(value, dict):
        raise FormatError("not a JSON Schema; use an object", "--schema")
    return value


def _report_retry(failure: InterlinguaError, seconds: float) -> None:
    wait = f"; retrying in {seconds:.1f} s" if seconds else "; using the next model"
    output.console(err=True).print(Text(f"{failure}{wait}", "yellow"))


async def _show(stream: Stream, options: dict[str, Any]) -> None:
    if options["events"]:
        async for event in stream:
            sys.stdout.buffer.write(dump(event) + b"\n")
            sys.stdout.buffer.flush()
        return
    if options["as_json"]:
        await stream.result()
        return
    shown = _Printer(sys.stdout, output.console(err=True), thoughts=not options["quiet"] and sys.stderr.isatty())
    async for event in stream:
        shown.show(event)
    shown.end()


class _Printer:
    """Prints an answer: text on standard output, everything else on standard error."""

    def __init__(self, out: TextIO, notes: Console, *, thoughts: bool) -> None:
        self._out = out
        self._notes = notes
        self._thoughts = thoughts
        self._thinking = False
        self._fresh = True  # whether the cursor is at the start of a line

    def show(self, event: Any) -> None:
        if isinstance(event, TextDelta):
            self._settle()
            self._out.write(event.delta)
            self._out.flush()
            self._fresh = event.delta.endswith("\n")
        elif isinstance(event, ThinkingDelta) and self._thoughts:
            self._thinking = True
            self._notes.print(Text(event.delta, "dim italic"), end="")
        elif isinstance(event, ToolCallEnd):
            self.end()
            call = event.tool_call
            self._notes.print(Text(f"→ {call.name}({jsontext.compact(call.arguments)})", "cyan"))

    def end(self) -> None:
        self._settle()
        if not self._fresh:
            self._out.write("\n")
            self._out.flush()
            self._fresh = True

    def _settle(self) -> None:
        if self._thinking:
            self._thinking = False
            self._notes.print()


def _save(path: str, conversation: Conversation, answer: AssistantMessage) -> None:
    with local_files.atomic(Path(path).expanduser()) as file:
        file.write(encode(_followed(conversation, answer), "transcript").bytes())


def _end(answer: AssistantMessage, failure: InterlinguaError | None, options: dict[str, Any]) -> None:
    if options["as_json"]:
        output.say_json(plain(answer))
    aborted = answer.stop_reason == "aborted"
    if not options["quiet"] and not options["events"] and (answer.usage is not None or aborted):
        output.console(err=True).print(Text(figures(answer), "dim"))
    if aborted:
        sys.exit(130)
    if failure is not None:
        raise failure
    schema = _schema(options["schema"])
    if schema is not None and (problem := OutputType(schema).read(answer).problem) is not None:
        raise FormatError(f"the answer does not match the schema: {problem}", "--schema")


def figures(answer: AssistantMessage) -> str:
    """The usage of an answer: model, tokens, cost, and the stop reason if unusual."""
    usage = answer.usage
    parts = [f"{answer.provider}/{answer.model}"]
    if usage is not None:
        cached = f" (+{usage.cache_read + usage.cache_write} cached)" if usage.cache_read or usage.cache_write else ""
        parts.append(f"{usage.input}{cached} in, {usage.output} out")
        parts.append("cost unknown" if usage.cost is None else f"${usage.cost.total:.6f}".rstrip("0").rstrip("."))
    if answer.stop_reason not in ("stop", "toolUse", None):
        parts.append(str(answer.stop_reason))
    return " · ".join(parts)
