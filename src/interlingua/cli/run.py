"""`interlingua run`: ask a model once, and watch the answer arrive."""

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

from ..agent.loop import output_of
from ..connect.auth.resolver import resolve_auth
from ..connect.client import default_client
from ..connect.models import known_rows, own_notes
from ..connect.stream import Stream
from ..conversion import decode, detect, encode, local_files
from ..conversion.local_files import attached
from ..sessions.summary import is_foreign
from ..values import jsontext
from ..values.abort import Abort
from ..values.canonical import dump, plain
from ..values.errors import FormatError, InterlinguaError
from ..values.events import TextDelta, ThinkingDelta, ToolCallEnd
from ..values.losses import Loss
from ..values.messages import AssistantMessage, Message, TextBlock, UserMessage, text_of
from ..values.request import Conversation, Entry
from . import output

OFFLINE = "debug/dummy-echo-1"
MODEL_VARIABLE = "INTERLINGUA_MODEL"


@click.command("run")
@click.argument("prompt", required=False)
@click.option("-m", "--model", help=f"provider/id, or an alias of models.toml; {MODEL_VARIABLE} if not given.")
@click.option("-s", "--system", help="The system prompt.")
@click.option("-p", "--prompt-file", type=click.Path(), help="Read the prompt from this file ('-': standard input).")
@click.option("-a", "--attach", "attachments", multiple=True, metavar="PATH", help="An image, document or sound.")
@click.option("-c", "--context", "context_file", type=click.Path(), help="A conversation to go on with, in any format.")
@click.option("--schema", metavar="JSON|FILE", help="A JSON Schema that the answer must match.")
@click.option("--fallback", "fallbacks", multiple=True, metavar="MODEL", help="Ask this one if the first one fails.")
@click.option("--reasoning", metavar="LEVEL", help="How much to think: off, low, medium, high, or a number of tokens.")
@click.option("--max-tokens", type=int, help="The longest answer.")
@click.option("--temperature", type=float)
@click.option("--base-url", help="Another address of the provider.")
@click.option("--timeout", type=float, metavar="SECONDS", help="The longest silence.")
@click.option("--save", "save", type=click.Path(), help="Write the conversation here, as a transcript.")
@click.option("--json", "as_json", is_flag=True, help="The answer as one JSON message.")
@click.option("--events", is_flag=True, help="The events of the answer as JSON lines, as they come.")
@click.option("-q", "--quiet", is_flag=True, help="The answer alone: no thinking, no figures.")
def command(
    prompt: str | None, prompt_file: str | None, context_file: str | None, save: str | None, **asked: Any
) -> None:
    """Ask a model and stream its answer.

    PROMPT is the argument, a file, or standard input (both: the argument, then what is piped in). Ctrl-C stops the
    answer; what had come is kept, and its cost shown.
    """
    text = _text(prompt, prompt_file)
    if save is not None and context_file is not None:
        _refuse_overwriting(Path(save).expanduser(), Path(context_file).expanduser())
    conversation = _conversation(context_file, text, asked["attachments"])
    if asked["system"]:
        conversation = replace(conversation, system=asked["system"])
    model = asked["model"] or usual_model()
    answer, failure, losses = asyncio.run(_ask(model, conversation, asked))
    if save is not None and (answer.content or failure is None):
        _save(save, conversation, answer)
    if context_file is not None and not (asked["quiet"] or asked["as_json"] or asked["events"]):
        remedy = f"interlingua convert {context_file} -t {answer.api} --report lists what was lost"
        output.note_losses(f"{context_file} → {model}", [losses], remedy)
    _end(answer, failure, asked)


def _text(prompt: str | None, file: str | None) -> str:
    parts = [prompt] if prompt is not None else []
    if file is not None and file != "-":
        try:
            parts.append(Path(file).expanduser().read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise FormatError(f"{file}: cannot be read as a prompt: {error}", "--prompt-file") from None
    elif file == "-" or not sys.stdin.isatty():
        piped = output.typed_in()
        parts += [piped] if piped.strip() else []
    text = "\n\n".join(part.rstrip("\n") for part in parts)
    if not text.strip():
        raise FormatError(
            "there is no prompt: give it as an argument, with --prompt-file, or on standard input", "PROMPT"
        )
    return text


def _conversation(file: str | None, text: str, attachments: tuple[str, ...]) -> Conversation:
    history = Conversation()
    if file is not None:
        history = decode(Path(file).expanduser().read_bytes())
    files = tuple(map(attached, attachments))
    content: Any = (*files, TextBlock(text=text)) if files else text
    return _followed(history, UserMessage(content=content))


def _followed(history: Conversation, message: Message) -> Conversation:
    """The conversation with a message behind its head; its other branches stay."""
    head = history.tree().head
    above = history.entries[head].id if head is not None else None
    entry = Entry(message=message, id=None if above is None else secrets.token_hex(8), parent_id=above)
    return replace(history, entries=(*history.entries, entry), head=None)


def _refuse_overwriting(save: Path, context: Path) -> None:
    """A transcript may be continued in its place, for it is all written again; any other format would be gone."""
    data = context.read_bytes()
    found = detect(data)
    if found is None or found.dialect not in ("transcript", "openclaw") or is_foreign(data.partition(b"\n")[0]):
        local_files.refuse_inputs(save, [context])


def usual_model() -> str:
    """The model to ask when none is named: the user's choice, or, where there is no key at all, the offline one."""
    given = os.environ.get(MODEL_VARIABLE) or own_notes().aliases.get("default")
    if given:
        return given
    keyed = [row.id for row in known_rows().values() if row.env and resolve_auth(row.id, row.env) is not None]
    if keyed:
        raise FormatError(
            f"say which model to ask: there is a key for {', '.join(keyed)}; `interlingua models -p {keyed[0]}` lists "
            f"models, {MODEL_VARIABLE} or an alias `default` in models.toml chooses one for good",
            "--model",
        )
    output.console(err=True).print(
        Text(
            "no key was found, so the offline debug model answers; `interlingua auth login PROVIDER` stores a key",
            "dim",
        )
    )
    return OFFLINE


async def _ask(
    model: str, conversation: Conversation, asked: dict[str, Any]
) -> tuple[AssistantMessage, Any, tuple[Loss, ...]]:
    stop = Abort()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signals.SIGINT, stop.abort, "interrupted")
    try:
        stream = default_client().stream(
            model,
            conversation.request().context,
            fallbacks=asked["fallbacks"],
            signal=stop,
            on_retry=None if asked["quiet"] else _report_retry,
            **_options(asked),
        )
        await _show(stream, asked)
        return await stream.result(), stream.failure, tuple(stream.losses)
    finally:
        loop.remove_signal_handler(signals.SIGINT)


def _options(asked: dict[str, Any]) -> dict[str, Any]:
    level = asked["reasoning"]
    given = {
        "max_tokens": asked["max_tokens"],
        "temperature": asked["temperature"],
        "base_url": asked["base_url"],
        "timeout": asked["timeout"],
        "reasoning": int(level) if level and level.isdecimal() else level,
        "output_schema": _schema(asked["schema"]),
    }
    return {name: value for name, value in given.items() if value is not None}


def _schema(text: str | None) -> Any:
    if text is None:
        return None
    try:
        value = jsontext.read(text if text.lstrip().startswith("{") else Path(text).expanduser().read_bytes())
    except (OSError, FormatError) as error:
        raise FormatError(f"{text}: no JSON Schema: {error}", "--schema") from None
    if not isinstance(value, dict):
        raise FormatError("a JSON Schema is an object", "--schema")
    return value


def _report_retry(failure: InterlinguaError, seconds: float) -> None:
    wait = f"; trying again in {seconds:.1f} s" if seconds else "; asking the next model"
    output.console(err=True).print(Text(f"{failure}{wait}", "yellow"))


async def _show(stream: Stream, asked: dict[str, Any]) -> None:
    if asked["events"]:
        async for event in stream:
            sys.stdout.buffer.write(dump(event) + b"\n")
            sys.stdout.buffer.flush()
        return
    if asked["as_json"]:
        await stream.result()
        return
    shown = _Shown(sys.stdout, output.console(err=True), thoughts=not asked["quiet"] and sys.stderr.isatty())
    async for event in stream:
        shown.tell(event)
    shown.end()


class _Shown:
    """An answer on the terminal: words on standard output, all else beside it."""

    def __init__(self, out: TextIO, aside: Console, *, thoughts: bool) -> None:
        self._out = out
        self._aside = aside
        self._thoughts = thoughts
        self._thinking = False
        self._fresh = True  # whether the cursor is at the beginning of a line

    def tell(self, event: Any) -> None:
        if isinstance(event, TextDelta):
            self._settle()
            self._out.write(event.delta)
            self._out.flush()
            self._fresh = event.delta.endswith("\n")
        elif isinstance(event, ThinkingDelta) and self._thoughts:
            self._thinking = True
            self._aside.print(Text(event.delta, "dim italic"), end="")
        elif isinstance(event, ToolCallEnd):
            self.end()
            call = event.tool_call
            self._aside.print(Text(f"→ {call.name}({jsontext.compact(call.arguments)})", "cyan"))

    def end(self) -> None:
        self._settle()
        if not self._fresh:
            self._out.write("\n")
            self._out.flush()
            self._fresh = True

    def _settle(self) -> None:
        if self._thinking:
            self._thinking = False
            self._aside.print()


def _save(path: str, conversation: Conversation, answer: AssistantMessage) -> None:
    with local_files.atomic(Path(path).expanduser()) as file:
        file.write(encode(_followed(conversation, answer), "transcript").bytes())


def _end(answer: AssistantMessage, failure: InterlinguaError | None, asked: dict[str, Any]) -> None:
    if asked["as_json"]:
        output.say_json(plain(answer))
    aborted = answer.stop_reason == "aborted"
    if not asked["quiet"] and not asked["events"] and (answer.usage is not None or aborted):
        output.console(err=True).print(Text(figures(answer), "dim"))
    if aborted:
        sys.exit(130)
    if failure is not None:
        raise failure
    schema = _schema(asked["schema"])
    if schema is not None and (problem := output_of(text_of(answer.content), schema).problem) is not None:
        raise FormatError(f"the answer is not what the schema wants: {problem}", "--schema")


def figures(answer: AssistantMessage) -> str:
    """What an answer took: model, tokens, cost, and how it ended where that is not the usual way."""
    usage = answer.usage
    parts = [f"{answer.provider}/{answer.model}"]
    if usage is not None:
        cached = f" (+{usage.cache_read + usage.cache_write} cached)" if usage.cache_read or usage.cache_write else ""
        parts.append(f"{usage.input}{cached} in, {usage.output} out")
        parts.append("cost unknown" if usage.cost is None else f"${usage.cost.total:.6f}".rstrip("0").rstrip("."))
    if answer.stop_reason not in ("stop", "toolUse", None):
        parts.append(str(answer.stop_reason))
    return " · ".join(parts)
