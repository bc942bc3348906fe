"""`interlingua demo`: an offline agent with real tools in a scratch folder, and its session in every format.

Only the model is scripted. The tools really read, write and run, in a folder that is removed afterwards.
"""

import asyncio
import sys
import tempfile
from collections import Counter
from pathlib import Path
from textwrap import dedent
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..agent import Agent
from ..connect.client import Client
from ..connect.debug import DebugConnector, ScriptedCall, Step
from ..connect.registry import ConnectorRegistry
from ..conversion import encode
from ..dialects import DIALECTS
from ..sessions.session import Session
from ..tools.catalog import discover_core_tools
from ..tools.registry import ToolRegistry
from ..tools.tool import ToolContext
from ..values.errors import InterlinguaError
from ..values.events import AgentEvent, MessageUpdate, TextDelta, ThinkingDelta, ToolExecutionEnd, ToolExecutionStart
from ..values.jsontext import compact
from ..values.request import Conversation
from . import output
from .convert import is_writable

PROMPT = "Write a program that prints the first ten prime numbers, run it, and fix it if it is wrong."
PROGRAM = """\
def primes(count):
    found = []
    number = 1
    while len(found) < count:
        if all(number % known for known in found):
            found.append(number)
        number += 1
    return found


print(primes(10))
"""


def _call(name: str, **arguments: Any) -> ScriptedCall:
    return ScriptedCall(name=name, arguments=arguments)


SCRIPT = [
    Step(
        thinking="First see what is there, then write the program.",
        text="I will look around and write the program.",
        calls=(_call("ls", path="."), _call("write", path="primes.py", content=PROGRAM)),
    ),
    # It never ends: every number is divisible by 1.
    Step(text="Now I run it.", calls=(_call("exec", command="timeout 1 python3 primes.py; echo ended with $?"),)),
    Step(
        thinking="It did not end: after 1 nothing more is found, for 1 divides everything. It must begin at 2.",
        text="It starts at 1, and every number is divisible by 1. I will fix that and run it again.",
        calls=(_call("edit", path="primes.py", oldText="number = 1\n", newText="number = 2\n"),),
    ),
    Step(text="Again.", calls=(_call("exec", command="timeout 5 python3 primes.py"), _call("read", path="primes.py"))),
    Step(text="It prints the first ten primes now: the search had to begin at 2.", chunk=12),
]


@click.command("demo")
@click.option("--keep", is_flag=True, help="Keep the scratch folder, and print its path.")
def command(keep: bool) -> None:
    """Run an offline agent with real tools in a scratch folder, and convert its session to every format."""
    if keep:
        asyncio.run(_demo(Path(tempfile.mkdtemp(prefix="interlingua-demo-")), keep=True))
        return
    with tempfile.TemporaryDirectory(prefix="interlingua-demo-") as folder:
        asyncio.run(_demo(Path(folder), keep=False))


async def _demo(folder: Path, *, keep: bool) -> None:
    out = output.console()
    work, home = folder / "work", folder / "home"
    work.mkdir()
    _title(out, "An agent at work", "the model is scripted and offline; the tools are real")
    with Session.open("demo", home=home) as session:
        agent = Agent(
            "debug/script",
            _tools(work),
            system="You are a careful programmer.",
            session=session,
            client=Client(connectors=ConnectorRegistry([DebugConnector(SCRIPT)])),
        )
        out.print(Text(f"you  {PROMPT}", "bold"))
        reporter = _Reporter(out)
        async for event in agent.run(PROMPT):
            reporter.show(event)
        reporter.end()
        conversation = session.conversation()
        where = session.where
    lines = Path(where).read_bytes().count(b"\n")
    _title(out, "Its session", f"{lines} lines of JSON, each an agent message: {where if keep else Path(where).name}")
    _title(out, "The same session in every format", "losses are counted; `interlingua convert --report` lists them")
    out.print(_format_table(conversation))
    if keep:
        out.print(Text(f"kept: {folder}", "dim"))
    if sys.stdout.isatty():
        await _show(out, home)


async def _show(out: Console, home: Path) -> None:
    """Shows the session on a canvas until the user ends it."""
    from ..canvas.library import Library
    from ..canvas.server import PORT, Canvas
    from ..serving.listener import until_signalled

    async with until_signalled() as stop, Canvas(Library(home), port=PORT) as canvas:
        _title(out, "Its canvas", "open this address in a browser; Ctrl-C ends the demo")
        click.echo(canvas.link("/s/own~main~demo/canvas"))
        await stop.wait()


def _tools(work: Path) -> list[Any]:
    registry = ToolRegistry()
    discover_core_tools(registry, include=["group:fs", "exec"])
    return registry.resolve_all(ToolContext(root=str(work), workspace_dir=str(work)))


def _title(out: Console, title: str, note: str) -> None:
    out.print()
    out.print(Text.assemble((title, "bold underline"), (f"  {note}", "dim")))


class _Reporter:
    """Prints the events of a run."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._kind: type | None = None

    def show(self, event: AgentEvent) -> None:
        if isinstance(event, MessageUpdate):
            self._text(event.assistant_message_event)
        elif isinstance(event, ToolExecutionStart):
            self.end()
            self._out.print(Text(f"  → {event.tool_name} {_short(compact(event.args), 90)}", "cyan"))
        elif isinstance(event, ToolExecutionEnd):
            text = "\n".join(block.get("text", "") for block in event.result["content"]).expandtabs(4)
            for line in dedent(_short(text.strip("\n"), 400)).splitlines()[:6]:
                self._out.print(Text(f"    {line}", "red" if event.is_error else "dim"))

    def _text(self, event: Any) -> None:
        if not isinstance(event, TextDelta | ThinkingDelta):
            return
        if type(event) is not self._kind:
            self.end()
            self._out.print(Text("agent ", "bold green"), end="")
            self._kind = type(event)
        style = "dim italic" if isinstance(event, ThinkingDelta) else ""
        self._out.print(Text(event.delta, style), end="", soft_wrap=True)

    def end(self) -> None:
        if self._kind is not None:
            self._out.print()
            self._kind = None


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]} …"


def _format_table(conversation: Conversation) -> Table:
    table = Table(box=None, header_style="bold")
    for column in ("format", "bytes", "losses"):
        table.add_column(column, justify="right" if column == "bytes" else "left")
    for name in DIALECTS:
        if not is_writable(name):
            continue  # encodes only what was decoded from it
        try:
            encoded = encode(conversation, name)
        except InterlinguaError as error:
            table.add_row(name, "–", Text(str(error), "red"))
            continue
        kinds = Counter(loss.severity for loss in encoded.losses if loss.severity != "record")
        lost = ", ".join(f"{count} {kind}" for kind, count in kinds.items()) or "nothing"
        table.add_row(name, str(len(encoded.bytes())), lost)
    return table
