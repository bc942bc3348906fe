"""The chat controller: an agent with a session, user input, and questions. It draws nothing.

One task runs at a time: a run of the agent, or a command. Input during that time answers the current question, if it is
a valid answer; otherwise it steers the agent.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from msgspec import Struct
from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from ..agent import Agent, BeforeCall, Compaction, Result
from ..connect import models as catalogue
from ..connect.client import default_client
from ..connect.names import full_name
from ..plugins.hooks import Hooks
from ..plugins.installed import context_at
from ..sessions import Session
from ..tools.catalog import discover_core_tools
from ..tools.fs import local_bridge
from ..tools.policy import ApprovalRequest, Policy
from ..tools.registry import Skipped, ToolRegistry
from ..tools.tool import Tool, ToolContext
from ..values.errors import InterlinguaError
from ..values.events import AgentEvent, MessageEnd, MessageStart
from ..values.messages import AssistantMessage, Message, UserMessage, text_of
from ..values.places import short
from ..values.request import ModelDescriptor
from . import approval, opening
from .approval import Form
from .command import Command, attach, is_file_name, nearest, parse
from .display import Display
from .opening import Spending
from .rendering import duration, error_line, error_text, note, one_line
from .themes import DARK, Theme

TIMEOUT = 2.0  # seconds within which a second Ctrl-C means stop
_LOG = logging.getLogger("interlingua")
_SYSTEM = (
    "You are a helpful agent in a terminal. You work in the folder {root}; your tools see nothing outside it. "
    "Say briefly what you do and what the result is.  Answers are shown as Markdown."
)


class _Log(logging.Handler):
    """Shows warnings of this package in the chat, from any thread."""

    def __init__(self, emit: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._emit = emit
        self._loop = asyncio.get_running_loop()

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        why = f": {error!r}" if error is not None else ""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._emit, f"{record.getMessage()}{why}")


class ChatSettings(Struct, frozen=True, kw_only=True):
    """Settings of a chat. `sandboxed` refuses commands outside the sandbox.

    `usual_model` returns the default model if neither the user nor the session has one. `options` apply to every model
    call. `added` are tools beside those of the profile, `hooks` the listeners of installed plugins, and `problems`
    their errors. The user is notified of the end of a run that took `notify_after` seconds or more; None: never.
    """

    root: Path
    policy: Policy
    sandboxed: bool | None = None
    model: str | None = None
    usual_model: Callable[[], str]
    profile: str = "coding"
    system: str | None = None
    options: dict[str, Any] = {}
    added: tuple[Tool, ...] = ()
    hooks: Hooks = Hooks()
    servers: dict[str, Any] = {}  # MCP servers by name, as `ServerTools`
    problems: tuple[str, ...] = ()
    notify_after: float | None = None
    theme: Theme = DARK


def tool_context(settings: ChatSettings) -> ToolContext:
    """Returns the context for the tools of a chat."""
    return context_at(settings.root, sandboxed=settings.sandboxed)


class Screen(Protocol):
    """The front end of a chat."""

    display: Display
    theme: Theme
    is_terminal: bool  # whether it draws on a terminal, with escape sequences
    keys: str  # help text: the keys

    async def run(self, chat: "Chat", prompt: str | None) -> int:
        """Runs the chat until the user leaves; returns the exit code."""
        ...

    async def handle(self, event: AgentEvent) -> None: ...
    async def show(self, *parts: RenderableType) -> None:
        """Shows the output of a command."""
        ...

    async def aside(self, *parts: RenderableType) -> None:
        """Shows notes outside the conversation."""
        ...

    async def question(self, text: str) -> None:
        """Called when there is a question; `Chat.question` is set until it is answered."""
        ...

    def offer(self, text: str) -> None:
        """Puts text into the input for editing."""
        ...

    def notify(self, text: str) -> None:
        """Notifies a user whose terminal is in the background, if there is one."""
        ...

    def refresh(self) -> None: ...
    def leave(self) -> None: ...


class Question(Struct):
    """A question and the future of its answer; `check` returns None for a line that is not an answer."""

    text: str
    check: Callable[[str], Any]
    answer: "asyncio.Future[Any]"


def _text(line: str) -> str | None:
    """Accepts any text except a command."""
    return None if parse(line) is not None else line.strip()


class Chat:
    """A conversation with an agent, for one user."""

    def __init__(
        self, screen: Screen, settings: ChatSettings, session: Session, commands: Mapping[str, Command]
    ) -> None:
        self.screen = screen
        self.commands = commands
        self.settings = settings
        self.permissions = approval.Permissions(settings.policy)
        self.question: Question | None = None
        self.queued: list[str] = []  # steering messages that the agent has not read yet
        self.steering = False  # whether the next input steers the agent
        self.spent = Spending()
        self.window: int | None = None
        self.skipped_tools: tuple[Skipped, ...] = ()
        self.nobody_answers = False
        self.resumable: str | None = None  # the session id to resume, after closing
        self.failed = False  # whether the last run ended with an error
        self._work: asyncio.Task[None] | None = None
        self._asides: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Event()
        self._turn.set()
        self._pressed = float("-inf")
        self._unattended: float | None = None  # start of the wait: the run, or the last answer
        self._log = _Log(lambda text: self._beside(self.screen.aside(error_text(text))))
        self._context = tool_context(settings)
        self._bridge = local_bridge(str(settings.root))
        self._tools = self._make_tools()
        self._open(session)

    # --- setup -------------------------------------------------------------------------------------------------------

    def _open(self, session: Session) -> None:
        self.session = session
        self.model = _full(self.settings.model) or session_model(session) or _full(self.settings.usual_model()) or ""
        self.agent = Agent(
            self.model,
            self._tools,
            system=self.settings.system or session.base.system or _SYSTEM.format(root=self.settings.root),
            session=session,
            context=self._context,
            policy=self.permissions,
            approve=self._approve,
            before_tool_call=self._note_change,
            compaction=Compaction(),
            on_retry=self._report_retry,
            **self.settings.options,
        )
        self.agent.subscribe(self._on_event)
        self.settings.hooks.attach(self.agent)

    def _make_tools(self) -> list[Tool]:
        if self.settings.profile == "none":
            return []
        warnings: list[str] = []
        registry = ToolRegistry(on_warning=warnings.append)
        discover_core_tools(registry, on_load_warning=warnings.append)
        tools = [*registry.resolve_by_profile(self.settings.profile, self._context), *self.settings.added]
        odd = tuple(Skipped(id="?", reason=text) for text in (*warnings, *self.settings.problems))
        self.skipped_tools = (*registry.skipped, *odd)
        return tools

    def use_model(self, name: str, described: ModelDescriptor) -> None:
        """Switches to another model, and records it in the session."""
        self.agent.model = self.model = name
        self.session.set_model(described)
        self.window = None
        self._beside(self._look_up_window())

    async def _look_up_window(self) -> None:
        await catalogue.warm()
        _, described = default_client().find(self.model)
        known = catalogue.describe(described.provider, described.id)
        self.window = described.context_window or (known.context_window if known is not None else None)
        self.screen.refresh()

    async def switch(self, id: str) -> None:
        """Switches to another session."""
        other = await asyncio.to_thread(opening.open_session, id, resume=False, system=None)
        self.session.close()
        self.spent = Spending()
        self._open(other)
        await self._greet()
        await self._offer_to_continue()

    async def close(self) -> None:
        """Stops the current work, and closes the session."""
        _LOG.removeHandler(self._log)
        _LOG.propagate = True
        if self._work is not None:
            self.stop()
            await asyncio.wait({self._work}, timeout=10)
        tasks = [task for task in (self._work, *self._asides) if task is not None and not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.resumable = self.session.id if next(self.session.entries(), None) is not None else None
        self.session.close()

    # --- input -------------------------------------------------------------------------------------------------------

    async def start(self, prompt: str | None) -> None:
        """Shows the status; then runs the first prompt, or shows unfinished work."""
        self._beside(self._look_up_window())
        _LOG.addHandler(self._log)
        _LOG.propagate = False
        await self._greet()
        if prompt is not None:
            self._begin(self._prompt(prompt))
        else:
            self._begin(self._offer_to_continue())

    @property
    def busy(self) -> bool:
        return self._work is not None

    async def wait_for_turn(self) -> None:
        """Waits until the agent is idle, or there is a question."""
        await self._turn.wait()

    async def take(self, line: str) -> None:
        """Handles one input; long work continues in the background."""
        self.steering = False
        if self._answered(line) or not line.strip():
            return
        command = parse(line)
        if command is not None:
            await self._command(*command)
        elif not self.busy:
            self._begin(self._prompt(line))
        elif self.agent.running:
            await self._steer(line)
        else:
            await self._idle()
            await self.take(line)

    def interrupt(self) -> bool:
        """Handles Ctrl-C: the first asks for steering, a second soon after stops the agent; False if idle."""
        if not self.busy:
            return False
        now = time.monotonic()
        again, self._pressed = now - self._pressed < TIMEOUT, now
        if again or not self.agent.running:
            self.stop()
        else:
            self.steering = True
            self.screen.refresh()
        return True

    def stop(self) -> None:
        """Stops the current work. The partial answer is kept."""
        self.steering = False
        self._settle(None)
        if self.agent.running:
            self.agent.abort("interrupted")
        elif self._work is not None:
            self._work.cancel()

    def end_of_input(self) -> None:
        """Ends the input: later approval requests are denied."""
        self.nobody_answers = True
        self._settle(None)

    async def _command(self, name: str, argument: str) -> None:
        command = self.commands.get(name)
        if command is None:
            await self.screen.aside(error_text(nearest(name, self.commands)))
        elif command.instant:
            await self._contained(command.run(self, argument))
        elif self.agent.running:
            await self.screen.aside(
                error_text(f"/{name} is not available while the agent works; Ctrl-C twice stops it")
            )
            self.screen.offer(f"/{name} {argument}".rstrip())
        else:
            await self._idle()
            self._begin(command.run(self, argument))

    async def _idle(self) -> None:
        """Waits for a running command, and cancels its question, since other input came."""
        self._settle(None)
        while self._work is not None:
            await asyncio.wait({self._work})

    # --- running -----------------------------------------------------------------------------------------------------

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        self._work = asyncio.get_running_loop().create_task(self._to_the_end(work))
        self._changed()

    async def _to_the_end(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await self._contained(work)
        except asyncio.CancelledError:
            await self.screen.aside(note("stopped"))
        finally:
            self._work = None
            self.steering = False
            self._changed()

    def _beside(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._contained(work))
        self._asides.add(task)
        task.add_done_callback(self._asides.discard)

    async def _contained(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (InterlinguaError, OSError) as error:
            await self.screen.aside(error_line(error))

    def _changed(self) -> None:
        if self._work is None or self.question is not None:
            self._turn.set()
        else:
            self._turn.clear()
        self.screen.refresh()

    async def _prompt(self, text: str) -> None:
        message = await self._message(text)
        if message is not None:
            await self._ran(self.agent.prompt(message))

    async def _message(self, text: str) -> UserMessage | None:
        """The input, with the files that it mentions."""
        try:
            found = await asyncio.to_thread(attach, text, self.settings.root)
        except InterlinguaError as error:
            await self.screen.aside(error_line(error))
            self.screen.offer(text)
            return None
        for name in found.missing:
            if is_file_name(name):
                await self.screen.aside(error_text(f"no file {name}; correct its name, or write it without @"))
                self.screen.offer(text)
                return None
            await self.screen.aside(note(f"no file {name}; sent as text"))
        return UserMessage(content=found.content, timestamp=int(time.time() * 1000))

    async def _ran(self, run: Coroutine[Any, Any, Result]) -> None:
        """Runs the agent to the end, including late steering messages."""
        self._unattended = time.monotonic()
        try:
            await self._ran_to_the_end(run)
        finally:
            self._unattended = None

    async def _ran_to_the_end(self, run: Coroutine[Any, Any, Result]) -> None:
        result = await run
        left = [message for message in self.agent.take_queued() if isinstance(message, UserMessage)]
        while result.reason == "done" and left:
            result = await self.agent.prompt(left)
            left = [message for message in self.agent.take_queued() if isinstance(message, UserMessage)]
        self.queued.clear()
        await self._report_end(result)
        if result.reason != "aborted":  # the user stopped it
            self._notify("the run failed" if result.reason == "error" else "the answer is ready")
        if left:
            self.screen.offer("\n".join(text_of(message.content) for message in left))

    def _notify(self, text: str) -> None:
        after, since = self.settings.notify_after, self._unattended
        if after is not None and since is not None and time.monotonic() - since >= after:
            self.screen.notify(text)

    async def _report_end(self, result: Result) -> None:
        self.failed = result.reason == "error"
        if result.reason == "aborted":
            await self.screen.aside(Text("■ stopped; the partial answer is kept", "yellow"))
        elif result.reason == "error":
            given = result.message.error_message if result.message is not None else None
            await self.screen.aside(error_line(result.failure or InterlinguaError(given or "the run failed")))
        elif result.reason != "done":
            await self.screen.aside(Text(f"■ {one_line(result.reason)} reached; send `continue` to resume", "yellow"))

    async def _steer(self, line: str) -> None:
        message = await self._message(line)
        if message is None:
            return
        if not self.agent.running:
            await self.wait_for_turn()
            self._begin(self._ran(self.agent.prompt(message)))
            return
        self.agent.steer(message)
        self.queued.append(line)
        self.screen.refresh()

    async def _on_event(self, event: AgentEvent) -> None:
        if isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
            self.spent.add(event.message)
        if isinstance(event, MessageStart) and isinstance(event.message, UserMessage) and self.queued:
            text = text_of(event.message.content)
            self.queued = [message for message in self.queued if message != text]
        await self.screen.handle(event)

    def _report_retry(self, failure: InterlinguaError, seconds: float) -> None:
        text = f"{one_line(str(failure))}; retrying in {duration(seconds)}"
        self._beside(self.screen.aside(Text(text, "yellow")))

    # --- questions ---------------------------------------------------------------------------------------------------

    async def ask(self, text: str, check: Callable[[str], Any] = _text) -> Any:
        """The user's answer; None if the input has ended, or on interrupt."""
        if self.nobody_answers:
            return None
        question = self.question = Question(text, check, asyncio.get_running_loop().create_future())
        try:
            await self.screen.question(text)
            self._changed()
            self._notify("a question waits")
            return await question.answer
        finally:
            if self._unattended is not None:
                self._unattended = time.monotonic()
            self.question = None
            self._changed()

    def _answered(self, line: str) -> bool:
        """Whether the line answers the current question."""
        if self.question is None:
            return False
        answer = self.question.check(line)
        if answer is None:
            return False
        self._settle(answer)
        return True

    def _settle(self, answer: Any) -> None:
        if self.question is not None and not self.question.answer.done():
            self.question.answer.set_result(answer)
            self.question = None
            self._changed()

    async def _approve(self, request: ApprovalRequest) -> bool:
        decision = self.permissions.decide(request.tool_name, request.params)
        if decision.action == "allow":
            return True  # allowed by an `always` meanwhile
        rule = approval.standing_rule(request.tool_name, request.params)
        diff = await approval.preview(request.tool_name, request.params, self._bridge)
        display = self.screen.display
        await self.screen.aside(*display.approval(request.tool_call_id, approval.shown(request, diff, decision)))
        answer = await self.ask(f"allow {request.tool_name}? {approval.choices(rule)}", approval.answer_of)
        display.answered(request.tool_call_id)
        if answer is None and self.nobody_answers:
            await self.screen.aside(error_text("denied: no user to approve it; --yes allows all calls"))
        if answer is None or answer.verdict == "no":
            if answer is not None and answer.text:
                await self._steer(answer.text)
            return False
        if answer.verdict == "always" and rule is not None:
            self.permissions.allow(rule)
        return True

    async def _note_change(self, call: BeforeCall) -> None:
        """Stores the diff of a call, for tools whose results do not contain one."""
        if call.call.name == "write":
            diff = await approval.preview("write", call.arguments, self._bridge)
            if diff:
                self.screen.display.diffs[call.call.id] = diff

    async def elicit(self, form: Form) -> dict[str, Any] | bool | None:
        """Asks the user a question of an MCP server; returns the values, whether to continue, or None to decline."""
        question = f"the MCP server {one_line(form.server)} asks: {one_line(form.message)}"
        if form.url is not None:
            question += f" Open {one_line(form.url)} in a browser, then answer yes."
        answer = await self.ask(f"{question} answer it? y yes · n no", approval.answer_of)
        if answer is None or answer.verdict == "no":
            return None
        found: dict[str, Any] = {}
        fields = (form.schema or {}).get("properties") or {}
        required = (form.schema or {}).get("required") or ()
        for name, field in fields.items():
            text = approval.label(name, field, required=name in required)
            while True:
                line = await self.ask(text)
                if line is None:
                    return None
                if not line and (name not in required or "default" in field):
                    break
                try:
                    found[name] = approval.value_of(field, line)
                    break
                except approval.NotAnAnswer as problem:
                    await self.screen.aside(error_text(f"not an answer; it takes {problem}"))
        return found or True

    async def send(self, messages: Sequence[Message]) -> None:
        """Runs the agent with messages from elsewhere: a prompt of a server."""
        await self._ran(self.agent.prompt(list(messages)))

    # --- status ------------------------------------------------------------------------------------------------------

    async def _greet(self) -> None:
        policy = {"allow": "allowed", "ask": "ask first", "deny": "read only"}[self.settings.policy.default]
        tools = f"{len(self._tools)} tools ({policy})" if self._tools else "no tools"
        where = short(self.settings.root)
        await self.screen.aside(
            note(f"interlingua chat · {self.model} · session {self.session.id[:8]} · {tools} · {where} · /help")
        )
        if self.model.startswith("debug/"):
            await self.screen.aside(Text("this is a debug model: it answers offline and knows nothing", "yellow"))
        for problem in (*self.settings.problems, *self.session.problems[:5]):
            await self.screen.aside(error_text(str(problem)))
        self.spent = await asyncio.to_thread(opening.spent_in, self.session)
        await self.screen.aside(*opening.last_exchange([entry.message for entry in self.session.path(last=100)]))

    async def _offer_to_continue(self) -> None:
        calls = self.session.unfinished_calls()
        given = opening.unfinished(self.session.context_messages(), calls)
        if not given:
            return
        await self.screen.aside(*given)
        answer = await self.ask("continue where it stopped? y yes · n no", approval.answer_of)
        if answer is not None and answer.verdict == "yes":
            await self._ran(self.agent.continue_())

    def status(self, width: int = 1000) -> str:
        """The status line, in so many cells: the least important parts are dropped first."""
        share = f" ({self.spent.context * 100 // self.window}%)" if self.window and self.spent.context else ""
        parts = {
            "model": one_line(self.model),
            "tokens": f"{self.spent.input:,} in, {self.spent.output:,} out",
            "cost": self.spent.dollars,
            **({"context": f"context {self.spent.context:,}{share}"} if self.spent.context else {}),
            "session": f"session {self.session.id[:8]}",
        }
        for name in ("session", "tokens", "context"):
            if cell_len(" · ".join(parts.values())) > width:
                parts.pop(name, None)
        return " · ".join(parts.values())


def _full(name: str | None) -> str | None:
    """Returns the `provider/id` of a model given in short form."""
    return full_name(name, default_client().connectors) if name else None


def session_model(session: Session) -> str | None:
    """The last model of a session."""
    found = session.model
    return None if found is None or not found.provider else f"{found.provider}/{found.id}"
