"""`check`: what is wrong with a conversation, where, and how to fix it.

There is one set of rules, in `adapt`: a finding is a repair that `adapt` would make for the target. So the output of
`adapt` has no findings, and the two cannot disagree.
"""

import re
from array import array
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NamedTuple, get_args

from msgspec import Struct, ValidationError, convert
from msgspec.structs import replace

from ..dialects import FORMATS, WIRES
from ..dialects import dialect as find
from ..dialects.foreign_blocks import understood
from ..dialects.registry import canonical
from ..dialects.residual import fields_of
from ..values.canonical import build
from ..values.compact import IdMap, IdNumbers, StringTable
from ..values.errors import DialectError, FormatError
from ..values.losses import Loss
from ..values.messages import AgentMessage, AssistantMessage, CustomMessage, Message, ToolResultMessage, UserMessage
from ..values.request import Context, Conversation, Entry, ModelDescriptor, Request, is_aside
from . import training
from .adapting.adapter import adapt, structural_repairs
from .adapting.pairing import UNANSWERED, UNASKED
from .adapting.pieces import FirstPass, StructuralRepairs, TargetRepairs, TooLong, adapt_pieces, count_totals, pieces
from .adapting.work import SHAPE, Earlier, HistoryTotals
from .converting import decode
from .detection import SELF, detect, is_stream, value_of
from .inputs import conversation_of, request_of
from .large_encoding import Survey, needs_totals
from .large_sessions import LargeSession


class Finding(Struct, frozen=True):
    """`path` points into the conversation; `remedy` is the fix."""

    path: str
    severity: Literal["error", "warning"]
    message: str
    remedy: str


class _Advice(NamedTuple):
    severity: Literal["error", "warning"]
    remedy: str


# By kind of repair: whether a target refuses the conversation because of it, and the remedy.
ADVICE: dict[str, _Advice] = {
    "role": _Advice("warning", "leave it in the transcript; it is not sent to a model"),
    "shape": _Advice("error", "write calls as `toolCall` blocks and results as `toolResult` messages"),
    "turn": _Advice("warning", "leave it in the transcript; it is not sent"),
    "block": _Advice("error", "leave the block out, or write it as text"),
    "message": _Advice("error", "put text into the message, or leave it out"),
    "beginning": _Advice("error", "begin with a user message"),
    "neighbours": _Advice("error", "let user and assistant take turns: write neighbours of one role as one message"),
    "text": _Advice("error", "leave blank blocks out; repair broken characters before they are stored"),
    "system": _Advice("error", "leave a blank system prompt out"),
    "system message": _Advice("error", "put instructions into the system prompt"),
    "tool result": _Advice("error", "put one toolResult per call behind the assistant's message, with the call's id"),
    "order": _Advice("error", "put the results right behind their calls, in call order; the user's text after them"),
    "id": _Advice("error", "give each call an id of its own that the target takes, and its result the same"),
    "item id": _Advice("warning", "send an item's id only together with the reasoning before it"),
    "tool name": _Advice("error", "use letters, digits, _ and - only, 64 at most; a result has the name of its call"),
    "tool": _Advice("error", "offer each tool once, and only what the target's provider can run"),
    "tools": _Advice("error", "send the tool definitions along while the history has tool blocks, and no empty list"),
    "tool choice": _Advice("error", "choose among the tools on offer"),
    "forced tool": _Advice("error", "leave the choice to the model, or turn thinking off"),
    "arguments": _Advice("warning", "keep the text of arguments that are no JSON object"),
    "failure": _Advice("warning", "state in the result's text that the tool failed"),
    "thinking": _Advice("warning", "replay reasoning, signed, only to the model family that signed it"),
    "signature": _Advice("warning", "leave other models' signatures out"),
    "reasoning": _Advice("error", "turn reasoning off for this request, or raise max_tokens above its budget"),
    "media": _Advice("error", "send a type, size and form that the target takes, in a user message; else describe it"),
    "media type": _Advice("warning", "write the type of the bytes in lower case, such as image/png"),
    "document text": _Advice("error", "put text beside a document"),
    "title": _Advice("error", "use letters, digits, single spaces, hyphens, brackets; each name once"),
    "cache": _Advice("error", "mark fewer blocks for caching, and no blank ones"),
    "schema": _Advice("error", "write the schema with the keywords that the target knows"),
    "strict": _Advice("error", "close every object and require every property (or null for none); or leave strict out"),
    "prefill": _Advice("error", "end with a user message, and ask there for how the answer should begin"),
    "window": _Advice("warning", "sum up or leave out what is old, or declare the model's window"),
    "no limit": _Advice("warning", "set max_tokens"),
    "no name": _Advice("warning", "name the schema of the answer"),
    "max_tokens": _Advice("error", "set max_tokens to what the model gives, or less"),
    "sampling": _Advice("error", "leave it out, or lower it"),
    "service tier": _Advice("error", "leave it out"),
    "stop": _Advice("error", "send fewer stop sequences, none of them blank"),
}


_MESSAGES = (*get_args(Message), CustomMessage)


def check(data: Any, dialect: str | None = None, target: ModelDescriptor | str | None = None) -> tuple[Finding, ...]:
    """Returns the findings for `data`: JSON in any format, a Conversation, a Request, a Context or messages.

    `target` adds that target's rules: a model, a wire, or a trainer (`training` for what all trainers ask). Values are
    of no dialect: for a Request, a Context or messages, a name in its place is the target.
    """
    if isinstance(target, str) and training.rules_of(target) is not None:
        return _for_training(data, dialect, target)
    if isinstance(data, (Context, *_MESSAGES)) or _are_messages(data):
        data = request_of(data)
    if isinstance(data, Request):
        return _checked(data, dialect if target is None else target)
    if isinstance(data, Conversation):
        return (*_broken_tree(data), *_checked(data.request(), target))
    mistakes: tuple[Finding, ...] = ()
    try:
        value = data if is_stream(data) else value_of(data)
        dialect = None if dialect is None else canonical(dialect)
        name = _name(value, dialect)
        mistakes = _mistakes(value, name)
        conversation = decode(value, dialect)
    except (DialectError, FormatError) as error:
        unread = Finding(error.path, "error", error.message, "write it as the format has it, or name the format")
        return mistakes or (unread,)
    findings = _findings(conversation, target, name, dialect is None)
    return (*mistakes, *_broken_tree(conversation), *_without_described(findings, mistakes))


def check_large(session: LargeSession, unnamed: bool, target: str | None = None) -> tuple[Finding, ...] | None:
    """Returns the findings for a session file that is not in memory; None if it must be in memory for that.

    `unnamed`: the format was detected.
    """
    if FORMATS[session.dialect].mistakes is not None and session.listed is None:
        return None  # the format has rules of its own
    try:
        if target is None:
            return _check_large_alone(session, unnamed)
        if training.rules_of(target) is not None:
            return _check_large_row(session, unnamed, target)
        return _check_large_for(session, unnamed, target)
    except TooLong:
        return None


def _check_large_alone(session: LargeSession, unnamed: bool) -> tuple[Finding, ...]:
    """The same with no target."""
    mistakes = _large_mistakes(session)
    tree, first, repairs, end = _BrokenTree(), FirstPass(), StructuralRepairs(), _End()
    line = bytearray()

    def visit(at: int, entry: Entry, is_next: bool) -> None:
        line.append(is_next)
        tree.add(entry)
        piece = first.add(at, entry.message, is_listed=is_next)
        if piece is not None:
            repairs.add(piece)
        if is_next:
            end.add(entry.message)

    on_path = session.walk(visit)
    if first.is_valid and line == on_path:
        repairs.add(first.close())
    else:
        repairs, end = StructuralRepairs(), _End()
        listed = ((at, entry.message) for at, entry in enumerate(session.entries()) if on_path[at])
        for piece in pieces(listed, first.places):
            for message in piece:
                end.add(message)
            repairs.add(piece)
    found = tuple(map(_finding, repairs.losses))
    found = _applicable(found, session.about.request(), end, None, session.dialect, unnamed)
    return (*mistakes, *tree.findings(), *_without_described(found, mistakes))


def _check_large_for(session: LargeSession, unnamed: bool, target: str) -> tuple[Finding, ...]:
    """The same with the rules of a wire."""
    mistakes = _large_mistakes(session)
    tree, survey, repairs = _BrokenTree(), Survey(), TargetRepairs()

    def visit(at: int, entry: Entry, is_next: bool) -> None:
        tree.add(entry)
        survey.add(at, entry, is_next)

    on_path = session.walk(visit)
    request, totals = session.about.request(), HistoryTotals()

    def cut() -> Iterator[list[AgentMessage]]:
        return pieces(((at, entry.message) for at, entry in enumerate(session.entries()) if on_path[at]), survey.places)

    if WIRES[target].limits.default_window is not None or needs_totals(request, target, survey):
        totals = count_totals(request, target, cut(), survey.places.ids)
    for piece in adapt_pieces(request, target, cut(), Earlier(survey.places.ids, totals)):
        repairs.add(piece)
    found = tuple(map(_finding, repairs.losses))
    found = _applicable(found, request, _End(), target, session.dialect, unnamed)
    return (*mistakes, *tree.findings(), *_without_described(found, mistakes))


def _check_large_row(session: LargeSession, unnamed: bool, trainer: str) -> tuple[Finding, ...]:
    """The same with the rules of a trainer."""
    found = _check_large_alone(session, unnamed)
    outlines, asides = training.Outlines(), set[int]()

    def visit(at: int, entry: Entry, is_next: bool) -> None:
        outlines.add(entry.message)
        if is_aside(entry):
            asides.add(at)

    on_path, parents = session.tree(visit)
    row = outlines.row(session.about, on_path, parents, asides)
    return (*found, *(Finding(*one) for one in training.findings(row, trainer)))


def _without_described(findings: tuple[Finding, ...], mistakes: tuple[Finding, ...]) -> tuple[Finding, ...]:
    """Removes findings that mistakes describe in more detail."""
    if not mistakes:
        return findings
    return tuple(finding for finding in findings if not finding.message.startswith(f"{SHAPE}: "))


def _findings(
    conversation: Conversation, target: ModelDescriptor | str | None, name: str | None, unnamed: bool
) -> tuple[Finding, ...]:
    request, end = conversation.request(), _End()
    for message in request.context.messages:
        end.add(message)
    return _applicable(_checked(request, target), request, end, target, name, unnamed)


class _End:
    """The end of a history: where its last answer is, and whether a user message follows it."""

    def __init__(self) -> None:
        self._count = 0
        self.last_answer: int | None = None
        self.asks = False

    def add(self, message: AgentMessage) -> None:
        if isinstance(message, AssistantMessage):
            self.last_answer, self.asks = self._count, False
        elif isinstance(message, UserMessage):
            self.asks = True
        self._count += 1


def _for_training(data: Any, dialect: str | None, trainer: str) -> tuple[Finding, ...]:
    """Returns findings of a row for any target, and for a trainer."""
    if dialect is None and isinstance(data, dict) and isinstance(data.get("messages"), list) and detect(data) is None:
        dialect = _ROWS  # such as a row with a role that no wire has
    found = check(data, dialect)
    try:
        row = data if isinstance(data, Conversation) else _conversation_in(data, dialect)
    except (DialectError, FormatError):  # already among the findings
        return found
    return (*found, *(Finding(*one) for one in training.findings(row, trainer)))


def too_few(count: int, target: str | None) -> Finding | None:
    """Returns findings for a file with too few rows for a trainer."""
    rules = training.rules_of(target or "") or {}
    if training.EXAMPLES not in rules or count >= training.MIN_EXAMPLES:
        return None
    message = f"{training.EXAMPLES}: {count} in the file; {target} takes {training.MIN_EXAMPLES} or more"
    return Finding("$", rules[training.EXAMPLES], message, "add examples")


def _conversation_in(data: Any, dialect: str | None) -> Conversation:
    if isinstance(data, (Request, Context, *_MESSAGES)) or _are_messages(data):
        return conversation_of(data)
    return decode(data, dialect)


def _name(value: Any, dialect: str | None) -> str | None:
    found = detect(value) if dialect is None else None
    return found.dialect if found is not None else dialect


_ROWS = "openai-finetune"  # the format of rows that match nothing else
_CONTEXTS = "clawtools"  # its documents are request contexts, not session records
_UNANSWERED = f"tool result: {UNANSWERED}"
_UNASKED = f"tool result: {UNASKED}"


def _applicable(
    findings: tuple[Finding, ...],
    request: Request,
    end: _End,
    target: ModelDescriptor | str | None,
    name: str | None,
    unnamed: bool,
) -> tuple[Finding, ...]:
    """Removes findings that do not apply to data that is not a request.

    A session file may be copied while a call runs, and training data may end in one; the calls that results refer to
    may be stored by the service, behind `previous_response_id` or `conversation`. Findings in the log of another
    program are warnings: the log is not rewritten, and is repaired when it is sent.
    """
    if any(
        isinstance(kept, dict) and {"previous_response_id", "conversation"} & kept.keys()
        for kept in request.extra.values()
    ):
        findings = tuple(one for one in findings if not one.message.startswith(_UNASKED))
    if target is not None:
        return findings
    is_log = name is not None and name in FORMATS and FORMATS[name].is_log
    is_row = unnamed and not request.model.id  # nothing marks it as a request, and it has no model
    if name != _CONTEXTS and (name in FORMATS or name == SELF or is_row):
        last = f"$.messages[{end.last_answer}]" if end.last_answer is not None else ""
        findings = tuple(
            one
            for one in findings
            if end.asks or not one.message.startswith(_UNANSWERED) or not one.path.startswith(last)
        )
    # In a session file a call may have been interrupted.
    is_session = name is not None and name in FORMATS and FORMATS[name].lines
    return tuple(
        replace(one, severity="warning") if is_log or (is_session and one.message.startswith(_UNANSWERED)) else one
        for one in findings
    )


def _are_messages(data: Any) -> bool:
    return isinstance(data, list | tuple) and bool(data) and all(isinstance(one, _MESSAGES) for one in data)


def _broken_tree(conversation: Conversation) -> Iterator[Finding]:
    tree = _BrokenTree()
    for entry in conversation.entries:
        tree.add(entry)
    return tree.findings()


class _BrokenTree:
    """Finds entries that are not reachable from a root: a parent is missing, or the ancestors form a cycle."""

    def __init__(self) -> None:
        self._ids = StringTable()
        self._parents = IdNumbers(self._ids)  # the number of an entry's parent, by its id
        self._stated = array("i")  # the number of each entry's parent, or -1

    def add(self, entry: Entry) -> None:
        parent = None if entry.parent_id is None else self._ids.number(entry.parent_id)
        self._stated.append(-1 if parent is None else parent)
        if entry.id is not None:
            self._parents[entry.id] = parent

    def findings(self) -> Iterator[Finding]:
        ids, parents = self._ids, self._parents
        ends = bytearray(len(ids))  # by number: whether the path up from an entry ends; 0 if it is not known yet
        for at, stated in enumerate(self._stated):
            if stated < 0:
                continue
            if (name := ids.text(stated)) not in parents:
                yield _misplaced(at, f"no entry {name!r}")
            way: dict[int, None] = {}
            above: int | None = stated
            while above is not None and not ends[above] and above not in way:
                way[above] = None
                above = parents.get(ids.text(above))
            is_circle = above is not None and (above in way or ends[above] == _CIRCLE)
            for number in way:
                ends[number] = _CIRCLE if is_circle else _ROOT
            if ends[stated] == _CIRCLE:
                yield _misplaced(at, "the ancestors go round in a circle")


_ROOT, _CIRCLE = 1, 2


def _misplaced(at: int, why: str) -> Finding:
    remedy = "name an entry of this conversation, or none for a beginning; `interlingua doctor` repairs session files"
    return Finding(f"$.entries[{at}].parentId", "error", f"parent: {why}", remedy)


# Formats with our own names for roles and blocks: other wires' names are mistakes there.
_OURS = ("clawtools", "openclaw", "transcript", SELF)


def _mistakes(value: Any, name: str | None) -> tuple[Finding, ...]:
    """Returns foreign shapes in messages that should be the format's own."""
    if not isinstance(value, dict | list):
        return ()
    rules = FORMATS[name].mistakes if name is not None and name in FORMATS else None
    if rules is not None:
        return tuple(Finding(path, "error", message, remedy) for path, message, remedy in rules(value))
    if name not in _OURS:
        return ()
    context, places = value, None
    if name != "clawtools":
        if isinstance(value, list):
            return tuple(_line_mistakes(value, {}))
        context, places = _own_messages(value)
    spotted: Iterable[tuple[str, str, str]] = find("clawtools").mistakes(context)  # type: ignore[attr-defined]
    return tuple(
        Finding(place, "error", message, remedy)
        for path, message, remedy in spotted
        if (place := path if places is None else _placed(path, places)) is not None
    )


def _large_mistakes(session: LargeSession) -> tuple[Finding, ...]:
    """The same for a session that is not in memory."""
    rules: Any = FORMATS[session.dialect].mistakes
    if rules is None and session.dialect not in _OURS:
        return ()
    if session.listed is None:
        return tuple(_line_mistakes(session.lines(), IdMap()))
    rules = rules or find("clawtools").mistakes  # type: ignore[attr-defined]
    around = session.listed.header if session.listed.key else []
    return tuple(Finding(path, "error", message, remedy) for path, message, remedy in rules(around, session.lines()))


def _own_messages(value: dict[str, Any]) -> tuple[Any, dict[int, str]]:
    """Returns the messages in our own JSON, and the paths of those that hold another wire's values.

    Our messages may have more than clawtools' (an application's own roles, later system messages, documents): only
    shapes of another wire are mistakes there.
    """
    context = value.get("context", value)
    entries = context.get("entries") if isinstance(context, dict) else None
    if not isinstance(entries, list):
        messages = context.get("messages") if isinstance(context, dict) else None
        listed = messages if isinstance(messages, list) else []
        lines = [(f"$.messages[{at}]", message) for at, message in enumerate(listed)]
    else:
        lines = [(f"$.entries[{at}].message", fields_of(entry).get("message")) for at, entry in enumerate(entries)]
        context = {**context, "messages": [message for _, message in lines]}
    return context, {at: path for at, (path, message) in enumerate(lines) if _is_mistaken(message, at)}


def _line_mistakes(lines: Iterable[Any], names: dict[str, str] | IdMap) -> Iterator[Finding]:
    """The same for the lines of a session; `names` is an empty map."""
    clawtools: Any = find("clawtools")
    count = 0
    for at, line in enumerate(lines):
        if not isinstance(line, dict) or not ("role" in line or isinstance(line.get("message"), dict)):
            continue
        is_wrapped = line.get("type") == "message" and "message" in line
        message = line["message"] if is_wrapped else line
        clawtools.note_names(message, names)
        if _is_mistaken(message, count):
            path = f"$[{at}].message" if is_wrapped else f"$[{at}]"
            for mistake in clawtools.mistakes_in(message, path, count, names):
                yield Finding(mistake.path, "error", mistake.message, mistake.remedy)
        count += 1


def _is_mistaken(message: Any, at: int) -> bool:
    if not isinstance(message, dict) or (at == 0 and message.get("role") == "system"):
        return True
    try:
        known = {key: value for key, value in message.items() if key not in _PLACE}
        usual = convert(known, Message)
        if not isinstance(usual, ToolResultMessage) or usual.tool_call_id:
            return understood(usual) is not None
    except ValidationError:
        pass
    try:
        return understood(build(message, AgentMessage)) is not None
    except FormatError:
        return True


_PLACE = frozenset({"id", "parentId"})  # of a line in its session


def _placed(path: str, places: dict[int, str]) -> str | None:
    """Maps a mistake to its path in the source; None if it is none there."""
    match = _IN_MESSAGE.match(path)
    if match is None:
        return path
    place = places.get(int(match[1]))
    return None if place is None else place + path[match.end() :]


_IN_MESSAGE = re.compile(r"\$(?:\.messages)?\[(\d+)\]")


def _checked(request: Request, target: ModelDescriptor | str | None) -> tuple[Finding, ...]:
    if target is None:
        return tuple(map(_finding, structural_repairs(request)))
    adapted = adapt(request, target)
    return tuple(map(_finding, (*adapted.losses, *adapted.warnings)))


def _finding(loss: Loss) -> Finding:
    severity, remedy = ADVICE[loss.what]
    if loss.severity == "record":
        severity = "warning"
    return Finding(loss.path, severity, f"{loss.what}: {loss.why}", remedy)
