"""`interlingua run`: sends a prompt to a model, optionally with tools, and streams the answer.

Each run is logged as a session of the agent `run`, unless `--no-log` or `interlingua logs off` disables it.
"""

import asyncio
import contextlib
import os
import signal as signals
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct
from msgspec.structs import replace

from ..values.abort import Abort
from ..values.errors import FormatError, InterlinguaError
from ..values.places import has_plugins
from ..values.text import natural
from . import inputs, templates
from .logs import RUNS, is_logging, session_id
from .options import BARE, complete_models, complete_sessions, complete_tool_choices

if TYPE_CHECKING:  # imported on use: a run loads only what it needs
    from ..plugins.installed import Installed
    from ..sessions import Session
    from ..values.losses import Loss
    from ..values.messages import AgentMessage, AssistantMessage, UserMessage
    from ..values.request import Conversation, ToolSpec

OFFLINE = "debug/dummy-echo-1"
MODEL_VARIABLE = "INTERLINGUA_MODEL"
NO_TOOLS = "none"


class _PromptCommand(click.Command):
    """Groups the options in the help."""

    GROUPS = {
        "Prompt": "system system_fragments fragments attachments typed_attachments prompt_file edit context_file",
        "Conversation": "latest cid log no_log save",
        "Templates": "chosen parameters save_template",
        "Tools": "tools functions servers plugins bare yes root max_turns",
        "Model": "model option reasoning temperature max_tokens fallbacks key base_url timeout",
        "Answer": "schema schema_multi extract extract_last as_plain as_json events quiet",
    }

    def format_options(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        options = [one for one in self.get_params(context) if isinstance(one, click.Option)]
        given = {str(one.name): one.get_help_record(context) for one in options}
        for title, names in self.GROUPS.items():
            with formatter.section(f"Options: {title}"):
                formatter.write_dl([record for name in names.split() if (record := given.pop(name)) is not None])
        with formatter.section("Other options"):
            formatter.write_dl([record for record in given.values() if record is not None])


def _pairs(
    context: click.Context, parameter: click.Parameter, given: tuple[tuple[str, str], ...]
) -> tuple[tuple[str, str], ...]:
    """Refuses NAME=VALUE, which would consume the prompt as its value."""
    for name, _ in given:
        if "=" in name:
            raise click.BadParameter(f"{name!r}; separate name and value: -o {name.replace('=', ' ', 1)}")
    return given


@click.command("run", cls=_PromptCommand)
@click.argument("prompt", required=False)
@click.option(
    *("-m", "--model"),
    shell_complete=complete_models,
    help=f"provider/id, a name such as sonnet, or an alias; {MODEL_VARIABLE} if not given.",
)
@click.option("-s", "--system", help="The system prompt.")
@click.option(
    "--sf",
    "--system-fragment",
    "system_fragments",
    multiple=True,
    metavar="FILE|URL|NAME",
    help="Before the system prompt.",
)
@click.option(
    "-f", "--fragment", "fragments", multiple=True, metavar="FILE|URL|NAME", help="Put a text before the prompt."
)
@click.option(
    *("-a", "--attach", "--attachment", "attachments"),
    multiple=True,
    metavar="FILE|URL|-",
    help="Attach an image, document or audio file.",
)
@click.option(
    *("--at", "--attachment-type", "typed_attachments"),
    nargs=2,
    multiple=True,
    metavar="FILE TYPE",
    help="Attach with a type.",
)
@click.option("--prompt-file", metavar="FILE|-", help="Read the prompt from this file ('-': standard input).")
@click.option("-e", "--edit", is_flag=True, help="Write the prompt in $EDITOR.")
@click.option("--context", "context_file", type=click.Path(), help="A conversation to continue, in any format.")
@click.option("-c", "--continue", "latest", is_flag=True, help="Continue the latest run.")
@click.option(
    *("--cid", "--conversation", "cid"),
    metavar="ID",
    shell_complete=complete_sessions,
    help="Continue this run: its id or the start of it.",
)
@click.option("-n", "--no-log", "no_log", is_flag=True, help="Do not log this run.")
@click.option("--log", is_flag=True, help="Log this run, even after `logs off`.")
@click.option("--save", "save", type=click.Path(), help="Write the conversation here, as a transcript.")
@click.option(
    *("-t", "--template", "chosen"),
    multiple=True,
    metavar="NAME",
    shell_complete=templates.complete_names,
    help="Use a template; several are joined.",
)
@click.option("-p", "--param", "parameters", nargs=2, multiple=True, metavar="NAME VALUE", help="Fill a template.")
@click.option("--save-template", metavar="NAME", help="Save these options as a template, and send nothing.")
@click.option(
    *("-T", "--tool", "tools"),
    multiple=True,
    metavar="NAME",
    shell_complete=complete_tool_choices,
    help=f"Offer a tool, a group (group:fs) or a profile; {NO_TOOLS}: no tools.",
)
@click.option("--functions", multiple=True, metavar="FILE|CODE", help="Offer the functions of Python code as tools.")
@click.option(
    *("--mcp", "servers"),
    multiple=True,
    metavar="SERVER",
    help="Offer the tools of an MCP server: a name in mcp.toml, a URL or a command.",
)
@click.option("--plugins", multiple=True, type=click.Path(exists=True), help="Offer the tools of this directory.")
@BARE
@click.option("-y", "--yes", is_flag=True, help="Allow every call; reading is always allowed, the rest asks.")
@click.option(
    "--root", type=click.Path(path_type=Path, exists=True, file_okay=False), default=".", help="Of the tools."
)
@click.option("--max-turns", "--cl", type=click.IntRange(1), help="Maximum number of answers in a run with tools.")
@click.option(
    "-o",
    "--option",
    nargs=2,
    multiple=True,
    metavar="NAME VALUE",
    callback=_pairs,
    help="Any other option of a call.",
)
@click.option(
    "--reasoning",
    metavar="LEVEL",
    help="Reasoning effort: off, minimal, low, medium, high, xhigh, max, or a number of tokens.",
)
@click.option("--temperature", type=float)
@click.option("--max-tokens", type=int, help="Maximum output tokens.")
@click.option("--fallback", "fallbacks", multiple=True, metavar="MODEL", help="Use this model if the first one fails.")
@click.option("--key", help="The key for this call; `interlingua auth login` stores one.")
@click.option("--base-url", help="Another base URL of the provider.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Idle timeout.")
@click.option("--schema", metavar="SCHEMA", help="The answer's schema: 'name, age int', JSON Schema, or a file.")
@click.option("--schema-multi", metavar="SCHEMA", help='The same for a list of answers, as {"items": […]}.')
@click.option("-x", "--extract", is_flag=True, help="Only the first code block of the answer.")
@click.option("--xl", "--extract-last", "extract_last", is_flag=True, help="Only the last code block.")
@click.option("--plain", "as_plain", is_flag=True, help="Plain text; by default Markdown is rendered on a terminal.")
@click.option("--json", "as_json", is_flag=True, help="The answer as one JSON message.")
@click.option("--events", is_flag=True, help="The stream events as JSON lines.")
@click.option("-q", "--quiet", is_flag=True, help="Only the answer: no thinking, no usage.")
def command(prompt: str | None, **options: Any) -> None:
    """Send a prompt to a model and stream its answer.

    PROMPT is the argument, a file, or standard input (both: the argument, then the input). Ctrl-C stops the answer; the
    partial answer is kept, and its cost shown.
    """
    _refuse_contradictions(options)
    template = templates.combined(options["chosen"])
    if options["save_template"] is not None:
        from . import output

        path = templates.save(options["save_template"], _as_template(prompt, template, options))
        output.console(err=True).print(f"{path}")
        return
    sys.exit(asyncio.run(_run(prompt, template, options)))


async def _run(prompt: str | None, template: templates.Template, options: dict[str, Any]) -> int:
    """Runs with installed plugins and returns the exit code; imports nothing that is not needed."""
    async with contextlib.AsyncExitStack() as stack:
        found: Installed | None = None
        if _wants_tools(template, options) or (has_plugins() and not options["bare"]):
            from . import run_tools

            plugins, servers = (*template.plugins, *options["plugins"]), (*template.mcp, *options["servers"])
            found = await stack.enter_async_context(run_tools.opened(plugins, servers, bare=options["bare"]))
        job = _job(prompt, template, options)
        try:
            return await _execute(job, found, options)
        finally:
            job.thread.close()


def _wants_tools(template: templates.Template, options: dict[str, Any]) -> bool:
    given = (template.tools, template.functions, template.mcp, template.plugins)
    return any(given) or any(options[name] for name in ("tools", "functions", "servers", "plugins"))


def _refuse_contradictions(options: dict[str, Any]) -> None:
    for group in (
        ("latest", "cid", "context_file"),
        ("log", "no_log"),
        ("schema", "schema_multi"),
        ("as_json", "events", "extract", "extract_last"),
    ):
        given = [name for name in group if options[name]]
        if len(given) > 1:
            flags = " and ".join(_FLAGS.get(name, f"--{name.replace('_', '-')}") for name in given)
            raise FormatError(f"{flags} exclude each other; give one", _FLAGS.get(given[1], f"--{given[1]}"))


_FLAGS = {"latest": "--continue", "context_file": "--context", "as_json": "--json"}


# --- the request ------------------------------------------------------------------------------------------------------


class _Thread:
    """The conversation of a run: earlier messages, and its session if it is logged."""

    def __init__(self, history: "Conversation", session: "Session | None", *, is_logged: bool) -> None:
        self.history = history
        self.session = session
        self.is_logged = is_logged
        self.new: list[AgentMessage] = []

    @property
    def messages(self) -> "Sequence[AgentMessage]":
        """The model's view."""
        before = self.session.context_messages() if self.session is not None else self.history.messages
        return before if self.is_logged else (*before, *self.new)

    def add(self, message: "AgentMessage") -> None:
        self.new.append(message)
        if self.session is not None and self.is_logged:
            self.session.append(message)

    def conversation(self) -> "Conversation":
        """All of it, other branches included."""
        conversation = self.history if self.session is None else self.session.conversation()
        if not (self.is_logged and self.session is not None):
            for message in self.new:
                conversation = _followed(conversation, message)
        return conversation

    def close(self) -> None:
        if self.session is not None:
            if self.is_logged:
                self.session.sync()
            self.session.close()


def _followed(history: "Conversation", message: Any) -> "Conversation":
    """Returns the conversation with a message appended to its head; other branches stay."""
    import secrets

    from ..values.request import Entry

    head = history.tree().head
    above = history.entries[head].id if head is not None else None
    entry = Entry(message=message, id=None if above is None else secrets.token_hex(8), parent_id=above)
    return replace(history, entries=(*history.entries, entry), head=None)


class _Job(Struct, kw_only=True):
    """A run that is ready to be sent."""

    thread: _Thread
    message: Any  # the UserMessage
    model: str
    system: Any
    tools: tuple[str, ...]
    functions: tuple[str, ...]
    plugins: tuple[str, ...]  # directories whose tools are offered
    schema: dict[str, Any] | None
    call: dict[str, Any]  # options of the call
    extract: str | None  # "first" or "last" code block
    title: str | None  # the log title, if the message begins with something else


def _job(prompt: str | None, template: templates.Template, options: dict[str, Any]) -> _Job:
    """Reads all inputs of the prompt, and opens the session: every error is found here."""
    filled = _filled(prompt, template, options)
    system = _system(options["system"] or filled.system, (*filled.system_fragments, *options["system_fragments"]))
    fragments = [inputs.fragment(source) for source in (*filled.fragments, *options["fragments"])]
    files = [inputs.attachment(source) for source in (*filled.attachments, *options["attachments"])]
    files += [inputs.attachment(source, kind) for source, kind in options["typed_attachments"]]
    if not (filled.prompt or "").strip() and not fragments and not files:
        inputs.prompt_text(None, None, piped=False)  # raises
    message = _message(filled.prompt or "", fragments, files)
    schema = _schema(filled, options)
    call = call_options(filled.options, options)
    if options["save"] is not None and options["context_file"] is not None:
        _refuse_overwriting(Path(options["save"]).expanduser(), Path(options["context_file"]).expanduser())
    thread = _earlier(options)
    try:
        model = options["model"] or filled.model or _model_of(thread) or usual_model()
        tools = _tool_names(filled, options, thread)
        job = _Job(
            thread=thread,
            message=message,
            model=model,
            system=system if system is not None else thread.history.system,
            tools=tools,
            functions=(*filled.functions, *options["functions"]),
            plugins=(*filled.plugins, *options["plugins"]),
            schema=schema,
            call=call,
            extract=_extracted(filled, options),
            title=filled.prompt if fragments else None,
        )
        _check_model(model)
    except BaseException:
        thread.close()
        raise
    return job


def _filled(prompt: str | None, template: templates.Template, options: dict[str, Any]) -> templates.Template:
    """Returns the template with the prompt in its place."""
    is_input = not any(source == inputs.STDIN for source in _sources(template, options))
    has_more = bool((template.prompt and not template.takes_input) or [*_sources(template, options)] or options["edit"])
    text = inputs.prompt_text(prompt, options["prompt_file"], piped=is_input, optional=has_more)
    if options["edit"]:
        text = inputs.edited(text)
    if options["parameters"] and not options["chosen"]:
        raise FormatError("parameters are for templates; name one with -t", "--param")
    return template.filled(dict(options["parameters"]), text)


def _sources(template: templates.Template, options: dict[str, Any]) -> list[str]:
    return [
        *(*template.fragments, *template.system_fragments, *template.attachments),
        *(*options["fragments"], *options["system_fragments"], *options["attachments"]),
        *(source for source, _ in options["typed_attachments"]),
    ]


def _system(text: str | None, fragments: Sequence[str]) -> str | None:
    parts = [*map(inputs.fragment, fragments), *([text] if text else [])]
    return "\n\n".join(part.strip("\n") for part in parts) if parts else None


def _message(text: str, fragments: list[str], files: list[Any]) -> "UserMessage":
    from ..values.messages import TextBlock, UserMessage

    whole = "\n\n".join(part.rstrip("\n") for part in (*fragments, text) if part.strip())
    blocks = (*files, *([TextBlock(text=whole)] if whole else []))
    return UserMessage(content=blocks if files else whole, timestamp=int(time.time() * 1000))


def _schema(template: templates.Template, options: dict[str, Any]) -> dict[str, Any] | None:
    single, many = options["schema"], options["schema_multi"]
    if single is None and many is None:
        single, many = template.schema, template.schema_multi
    for given, is_list in ((single, False), (many, True)):
        if isinstance(given, dict):
            return inputs.listed(given) if is_list else given
        if given is not None:
            return inputs.schema(given, many=is_list)
    return None


def _extracted(template: templates.Template, options: dict[str, Any]) -> str | None:
    if options["as_json"] or options["events"]:
        return None
    if options["extract"] or options["extract_last"]:
        return "last" if options["extract_last"] else "first"
    return "last" if template.extract_last else "first" if template.extract else None


def call_options(stored: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """Returns the call options: the template's, then `-o`, then the named options."""
    from ..connect.call import options_of

    level = options["reasoning"]
    named = {
        "max_tokens": options["max_tokens"],
        "temperature": options["temperature"],
        "base_url": options["base_url"],
        "api_key": options["key"],
        "timeout": options["timeout"],
        "reasoning": level if natural(level) is None else natural(level),
    }
    given = {name.replace("-", "_"): _value(value) for name, value in options["option"]}
    call = {**stored, **given, **{name: value for name, value in named.items() if value is not None}}
    options_of(call)  # a misspelt name is an error before anything is sent
    return call


def _value(text: str) -> Any:
    """Parses a number, true, false, or a JSON value; else returns the text."""
    from ..values import jsontext

    try:
        return jsontext.read(text)
    except FormatError:
        return text


def _as_template(prompt: str | None, template: templates.Template, options: dict[str, Any]) -> templates.Template:
    """The options as a template."""
    call = call_options({}, options)
    if "api_key" in call:
        raise FormatError("keys are not saved in templates; store it with `interlingua auth login`", "--key")
    own = templates.Template(
        prompt=inputs.prompt_text(prompt, options["prompt_file"], optional=True) or None,
        system=options["system"],
        model=options["model"],
        fragments=options["fragments"],
        system_fragments=options["system_fragments"],
        attachments=options["attachments"],
        tools=options["tools"],
        functions=options["functions"],
        mcp=options["servers"],
        plugins=tuple(str(Path(path).resolve()) for path in options["plugins"]),
        schema=options["schema"],
        schema_multi=options["schema_multi"],
        extract=options["extract"],
        extract_last=options["extract_last"],
        options=call,
        defaults=dict(options["parameters"]),
    )
    return template.joined(own)


# --- the conversation before ------------------------------------------------------------------------------------------


def _earlier(options: dict[str, Any]) -> _Thread:
    """The conversation to continue, or an empty one."""
    from ..values.request import Conversation

    is_logged = not options["no_log"] and (options["log"] or is_logging())
    if options["latest"] or options["cid"]:
        from ..sessions import Session, SessionBusy

        id = session_id(options["cid"])
        try:
            session = Session.open(id, agent=RUNS, create=False, read_only=not is_logged)
        except SessionBusy as error:
            by = f" ({error.owner})" if error.owner is not None else ""
            raise FormatError(
                f"run {id} has not ended{by}; wait for it, continue another with --cid ID, or use --no-log",
                "--continue" if options["latest"] else "--cid",
            ) from None
        return _Thread(session.base, session, is_logged=is_logged)
    history = Conversation()
    if options["context_file"] is not None:
        from ..conversion import decode
        from ..values.regular import read_regular

        history = decode(read_regular(Path(options["context_file"]).expanduser()))
    return _Thread(history, None, is_logged=is_logged)


def _check_model(name: str) -> None:
    """Raises for an unknown model: a misspelt name should not be logged."""
    from ..connect.client import default_client

    default_client().find(name)


def _begin_log(job: _Job, tools: "tuple[ToolSpec, ...] | None" = None) -> None:
    """Creates the session of a new run, with the system text and tools."""
    from ..connect.client import default_client

    thread = job.thread
    if thread.session is not None:
        return
    thread.history = replace(thread.history, system=job.system, tools=tools or thread.history.tools)
    if thread.is_logged:
        from ..sessions import save
        from ..values.request import ModelDescriptor

        _, found = default_client().find(job.model)
        model = ModelDescriptor(id=found.id, provider=found.provider, api=found.api)
        thread.session = save(replace(thread.history, model=model), agent=RUNS)
        if job.title and job.title.strip():
            thread.session.label(None, " ".join(job.title.split())[:80])


def _model_of(thread: _Thread) -> str | None:
    """Returns the model of the last response."""
    found = thread.session.model if thread.session is not None else None
    return None if found is None or not found.provider else f"{found.provider}/{found.id}"


def _tool_names(template: templates.Template, options: dict[str, Any], thread: _Thread) -> tuple[str, ...]:
    """Returns the requested tools; a continued run keeps the core tools that it had."""
    given = options["tools"]
    if NO_TOOLS in given:
        return tuple(name for name in given if name != NO_TOOLS)
    names = (*template.tools, *given)
    if not names and thread.session is not None and thread.history.tools:
        from ..tools.policy import core_tool_names

        names = tuple(spec.name for spec in thread.history.tools if spec.name in core_tool_names())
    return tuple(dict.fromkeys(names))


def _refuse_overwriting(save: Path, context: Path) -> None:
    """Raises if the input would be overwritten, unless it is a transcript, which is rewritten in full."""
    from ..conversion import detect, local_files
    from ..sessions.summary import is_foreign
    from ..values.regular import read_regular

    data = read_regular(context)
    found = detect(data)
    if found is None or found.dialect not in ("transcript", "openclaw") or is_foreign(data.partition(b"\n")[0]):
        local_files.refuse_inputs(save, [context])


def usual_model() -> str:
    """Returns the default model: the user's choice, or the offline one without any key."""
    from ..connect.auth.resolver import resolve_auth
    from ..connect.models import known_rows, own_notes

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
    from . import output

    output.note("no key found, using the offline debug model; `interlingua auth login PROVIDER` stores a key")
    return OFFLINE


# --- sending ----------------------------------------------------------------------------------------------------------


class _Outcome(Struct, kw_only=True):
    """The outcome of a run. `usage` is that of all its responses."""

    answer: Any  # AssistantMessage, or None
    failure: InterlinguaError | None
    losses: "tuple[Loss, ...]" = ()
    usage: Any = None


async def _execute(job: _Job, found: "Installed | None", options: dict[str, Any]) -> int:
    """Sends the prompt, prints the answer, and returns the exit code."""
    stop = Abort()
    received: list[int] = []
    loop = asyncio.get_running_loop()

    def interrupt(number: int) -> None:
        received.append(number)
        stop.abort("interrupted")

    for number in _SIGNALS:
        loop.add_signal_handler(number, interrupt, number)
    try:
        if found is None and not job.tools:
            outcome = await _ask(job, stop, options)
        else:
            outcome = await _work(job, found, stop, options)
    finally:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
    answer = outcome.answer
    if options["save"] is not None and answer is not None and (answer.content or outcome.failure is None):
        _save(options["save"], job.thread.conversation())
    _report_losses(job, outcome, options)
    return _ended(job, outcome, options, received)


_SIGNALS = (signals.SIGINT, signals.SIGTERM, signals.SIGHUP)


async def _ask(job: _Job, stop: Abort, options: dict[str, Any]) -> _Outcome:
    """Sends one request, without local tools."""
    from ..connect.client import default_client
    from ..values.request import Context

    thread = job.thread
    _begin_log(job)
    thread.add(job.message)
    specs = thread.history.tools if options["context_file"] is not None else None
    messages: Any = thread.messages
    context = Context(system=job.system, messages=messages, tools=specs)
    given = {**job.call, **({} if job.schema is None else {"output_schema": job.schema})}
    stream = default_client().stream(
        job.model,
        context,
        fallbacks=options["fallbacks"],
        signal=stop,
        on_retry=None if options["quiet"] else _report_retry,
        **given,
    )
    show: Callable[[Any], None] | None = None
    async for event in stream:
        if show is None:  # printers are imported after the request has been sent
            show, end = _shown(job, options)
        show(event)
    answer = await stream.result()
    thread.add(answer)
    if show is not None:
        end()
    return _Outcome(answer=answer, failure=stream.failure, losses=tuple(stream.losses), usage=answer.usage)


async def _work(job: _Job, found: "Installed | None", stop: Abort, options: dict[str, Any]) -> _Outcome:
    """Runs the agent, with tools and the hooks of plugins."""
    from ..agent import Agent
    from ..agent.loop import Limits
    from ..plugins.installed import context_at
    from ..tools.policy import ALLOW, ASK, Permissions
    from ..tools.schemas import extract_tool_schema
    from ..values.events import AgentEvent, MessageUpdate, ToolExecutionEnd, ToolExecutionStart
    from . import run_tools

    thread = job.thread
    context = context_at(Path(options["root"]).resolve())
    permissions = Permissions(replace(ALLOW if options["yes"] else ASK, root=context.root))
    approval = run_tools.TerminalApproval(permissions, context.bridge)
    show, end = _shown(job, options)

    def on_event(event: AgentEvent) -> None:
        if isinstance(event, MessageUpdate):
            show(event.assistant_message_event)
        elif isinstance(event, ToolExecutionStart | ToolExecutionEnd):
            show(event)

    async with contextlib.AsyncExitStack() as stack:
        if found is None:  # the tools of a continued run
            found = await stack.enter_async_context(run_tools.opened((), (), bare=True))
        tools = await run_tools.chosen(found, job.tools, job.functions, job.plugins, context)
        _begin_log(job, tuple(map(extract_tool_schema, tools)) or None)
        agent: Agent[Any] = Agent(
            job.model,
            tools,
            system=job.system,
            session=thread.session if thread.is_logged else None,
            messages=() if thread.is_logged else thread.messages,
            context=context,
            policy=permissions,
            approve=approval,
            output=job.schema,
            fallbacks=options["fallbacks"],
            on_retry=None if options["quiet"] else _report_retry,
            limits=Limits() if options["max_turns"] is None else Limits(turns=options["max_turns"]),
            **job.call,
        )
        found.hooks.attach(agent)
        agent.subscribe(on_event)
        result = await agent.prompt(job.message, signal=stop)
    if not thread.is_logged:
        thread.new += result.messages
    end()
    if approval.denied:
        from . import output

        output.note("approval needs a terminal; allow the calls with --yes", style="yellow")
    failure = result.failure
    if failure is None and result.reason not in ("done", "aborted"):
        failure = InterlinguaError(f"stopped: {result.reason}; continue with `interlingua run -c`")
    return _Outcome(answer=result.message, failure=failure, usage=result.usage)


def _shown(job: _Job, options: dict[str, Any]) -> tuple[Callable[[Any], None], Callable[[], None]]:
    """Returns the functions that show an event, and that end the output."""
    if options["events"]:
        from ..values.canonical import dump

        def write(event: Any) -> None:
            sys.stdout.buffer.write(dump(event) + b"\n")
            sys.stdout.buffer.flush()

        return write, lambda: None
    from . import answers

    notes = not options["quiet"] and not options["as_json"]
    is_drawn = sys.stdout.isatty() and not (options["as_plain"] or os.environ.get("TERM", "dumb") in ("", "dumb"))
    if options["as_json"] or job.extract is not None:
        printer: answers.Printer = answers.SilentPrinter(notes=notes)
    else:
        draws = is_drawn and job.schema is None
        printer = answers.MarkdownPrinter(notes=notes) if draws else answers.Printer(notes=notes)
    return printer.show, printer.end


def _report_retry(failure: InterlinguaError, seconds: float) -> None:
    from . import output

    wait = f"; retrying in {seconds:.1f} s" if seconds else "; using the next model"
    output.note(f"{failure}{wait}", style="yellow")


# --- the end ----------------------------------------------------------------------------------------------------------


def _save(path: str, conversation: "Conversation") -> None:
    from ..conversion import encode, local_files

    with local_files.atomic(Path(path).expanduser()) as file:
        file.write(encode(conversation, "transcript").bytes())


def _report_losses(job: _Job, outcome: _Outcome, options: dict[str, Any]) -> None:
    file = options["context_file"]
    if file is None or outcome.answer is None or options["quiet"] or options["as_json"] or options["events"]:
        return
    from . import output

    remedy = f"interlingua convert {file} -t {outcome.answer.api} --report lists what was lost"
    output.note_losses(f"{file} → {job.model}", [outcome.losses], remedy)


def _ended(job: _Job, outcome: _Outcome, options: dict[str, Any], received: list[int]) -> int:
    """Prints the rest; returns the exit code."""
    answer: AssistantMessage | None = outcome.answer
    if answer is not None:
        _print_rest(job, outcome, options)
    if received or (answer is not None and answer.stop_reason == "aborted" and outcome.failure is None):
        return 128 + (received[0] if received else signals.SIGINT)
    if outcome.failure is not None:
        raise outcome.failure
    if job.schema is not None and answer is not None:
        from ..connect.results import OutputType

        problem = OutputType(job.schema).read(answer).problem
        if problem is not None:
            raise FormatError(f"the answer does not match the schema: {problem}", "--schema")
    return 0


def _print_rest(job: _Job, outcome: _Outcome, options: dict[str, Any]) -> None:
    from . import answers, output

    answer = outcome.answer
    if options["as_json"]:
        from ..values.canonical import plain

        output.print_json(plain(answer))
    elif job.extract is not None:
        code = answers.code_in(answer.text, last=job.extract == "last")
        sys.stdout.write(code if not code or code.endswith("\n") else f"{code}\n")
        sys.stdout.flush()
    aborted = answer.stop_reason == "aborted"
    if not options["quiet"] and not options["events"] and (outcome.usage is not None or aborted):
        output.note(answers.figures(answer, outcome.usage))
