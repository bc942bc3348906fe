"""Models as targets: a request as each model would receive it, with every loss, and the cost of a hand-over."""

import base64
import bisect
import contextlib
import functools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from msgspec.structs import replace

from ..connect import models as catalogue
from ..connect.auth.resolver import resolve_auth
from ..connect.client import Client, default_client
from ..connect.connector import Connector, HttpConnector
from ..conversion.adapting.adapter import Adapted, adapt
from ..conversion.checks import check
from ..dialects import WIRES, dialect
from ..dialects.registry import family
from ..serving.listener import is_loopback
from ..serving.problems import HttpProblem
from ..sessions.cards import is_record
from ..sessions.tree import is_message
from ..values import jsontext
from ..values import tokens as budget
from ..values.canonical import plain
from ..values.errors import InterlinguaError
from ..values.folding import unfold
from ..values.losses import Loss, Losses
from ..values.messages import (
    AgentMessage,
    AssistantMessage,
    AudioBlock,
    Block,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    Message,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    Usage,
    UserMessage,
)
from ..values.request import CallOptions, ModelDescriptor, Request
from .shapes import (
    Cause,
    CauseCount,
    FindingView,
    Handover,
    HandoverModel,
    JsonLine,
    LossCounts,
    LossView,
    ModelList,
    ModelView,
    Price,
    ProviderView,
    Reads,
    Spot,
    WireView,
)
from .trees import Tree

# --- models ----------------------------------------------------------------------------------------------------------
#
# Models by name: what is known of them, and whether they can be called.


DEBUG_PROVIDERS = frozenset({"debug", "clawfice-debug"})


def described(name: str, client: Client | None = None) -> ModelDescriptor:
    """Returns a model by `provider/id`, with its wire and limits; 422 for an unknown one."""
    try:
        connector, model = (client or default_client()).find(name)
    except InterlinguaError as error:
        raise HttpProblem(422, str(error), path="query.model", remedy="write provider/model") from None
    known = catalogue.describe(connector.provider, model.id)
    if known is None:
        listed = getattr(connector, "models", None) if not isinstance(connector, HttpConnector) else None
        known = next((one for one in listed or () if one.id == model.id), None)
    if known is None:
        return model
    return replace(known, **{field: value for field in model.__struct_fields__ if (value := getattr(model, field))})


def target(name: str, client: Client | None = None) -> ModelDescriptor:
    """Returns a model, or the wire with this name."""
    return ModelDescriptor(id="", api=name) if name in WIRES else described(name, client)


@functools.lru_cache(maxsize=512)
def window_of(provider: str | None, model: str | None) -> tuple[int | None, int | None]:
    """Returns the context window and the output limit of a model, where known."""
    if not model:
        return None, None
    known = catalogue.describe(provider, model) if provider else None
    if known is None:
        # An alias, a family or an id without its provider: the model that a call with this name uses.
        with contextlib.suppress(InterlinguaError):
            known = default_client().find_known(model, catalogue.default())[1]
    return (known.context_window, known.max_tokens) if known is not None else (None, None)


def listed(client: Client, text: str, limit: int, used: Iterable[str], only_ready: bool) -> ModelList:
    """Returns models whose name contains every word: the one that is named, those in use, then those that are ready."""
    used = set(used)
    providers = {connector.provider: _provider(connector) for connector in client.connectors}
    found: list[ModelView] = []
    for connector in client.connectors:
        about = providers[connector.provider]
        if only_ready and not about.ready:
            continue
        local = _is_local(connector)
        found += [
            _view(model, connector, about, local, f"{connector.provider}/{model.id}" in used)
            for model in _models(connector, text)
        ]
    named = text.strip().lower()
    found.sort(
        key=lambda one: (
            named not in (one.name.lower(), one.id.lower()),
            not one.used,
            not one.ready,
            one.provider in DEBUG_PROVIDERS,
            not one.name.lower().startswith(named),
        )
    )
    return ModelList(models=tuple(found[:limit]), providers=tuple(providers.values()), total=len(found))


def _models(connector: Connector, text: str) -> Iterable[ModelDescriptor]:
    if isinstance(connector, HttpConnector):
        return catalogue.models(connector.provider, text or None)
    wanted = text.lower().split()
    return [
        model
        for model in connector.models or ()
        if all(word in f"{connector.provider}/{model.id} {model.name or ''}".lower() for word in wanted)
    ]


def _provider(connector: Connector) -> ProviderView:
    ready, why = _is_ready(connector)
    return ProviderView(id=connector.provider, label=connector.label, ready=ready, why=why)


def _is_ready(connector: Connector) -> tuple[bool, str | None]:
    """Whether a key was found, or none is needed; never returns the key itself."""
    if connector.provider in DEBUG_PROVIDERS:
        return True, "offline"
    if not isinstance(connector, HttpConnector):
        return True, None
    row = connector.row
    try:
        auth: Any = resolve_auth(row.id, row.env)
    except InterlinguaError as error:
        return False, str(error)
    if auth is not None and (auth.api_key or auth.mode == "aws-sdk"):
        return True, f"key found ({auth.source})" if auth.source else "key found"
    if row.keyless:
        return True, "no key needed"
    return False, f"no key: set {row.env[0]}" if row.env else "no key"


def _view(model: ModelDescriptor, connector: Connector, about: ProviderView, local: bool, used: bool) -> ModelView:
    cost = model.cost
    return ModelView(
        name=f"{connector.provider}/{model.id}",
        id=model.id,
        provider=connector.provider,
        label=model.name,
        api=model.api or connector.api,
        window=model.context_window,
        max=model.max_tokens,
        price=None
        if cost is None
        else Price(input=cost.input, output=cost.output, cache_read=cost.cache_read, cache_write=cost.cache_write),
        ready=about.ready,
        why=about.why,
        input=model.input or (),
        reasoning=model.reasoning,
        local=local,
        used=used,
    )


def _is_local(connector: Connector) -> bool:
    """Whether a server on this machine answers, by its address: the provider may be the user's own, or a plugin's."""
    if not isinstance(connector, HttpConnector):
        return False
    address = connector.address(ModelDescriptor(id="", api=connector.api), CallOptions())
    with contextlib.suppress(ValueError):  # no URL; a call reports it
        # OLLAMA_HOST may be a host and a port alone.
        return is_loopback(urlsplit(address if "://" in address else f"//{address}").hostname or "")
    return False


# --- paths into a request --------------------------------------------------------------------------------------------
#
# JSON paths into a request, and their entries and blocks.


_MESSAGE = re.compile(r"\$\.messages\[(\d+)\](?:\.content\[(\d+)\])?")


class Position(NamedTuple):
    """A message of a request, and a block of it."""

    message: int
    block: int | None = None


def spot(path: str) -> Position | None:
    """Returns the message and block of a path; None outside the messages."""
    found = _MESSAGE.match(path)
    if found is None:
        return None
    return Position(int(found[1]), int(found[2]) if found[2] is not None else None)


def entry_of(path: str, ids: Sequence[str | None]) -> tuple[str | None, int | None]:
    """Returns the entry and the block of a path; `ids` are the entries of the request's messages."""
    found = spot(path)
    if found is None or found.message >= len(ids):
        return None, None
    return ids[found.message], found.block


# --- sending ---------------------------------------------------------------------------------------------------------
#
# A request as a target would receive it: adapted, encoded, with every loss, and the origin of each sent value.


# Private use characters: a conversation's own text is not confused with a marker.
_OPEN, _CLOSE = "\ue0f0", "\ue0f1"
_MARK = re.compile(f"{_OPEN}(\\d+)\\.(-?\\d+){_CLOSE}")


class Sent(NamedTuple):
    """The body as sent, its losses (paths into the source), and how it was adapted.

    The losses are computed on first access.
    """

    api: str
    body: Any
    losses: Sequence[Loss]
    adapted: Adapted | None


def send(
    request: Request, target: ModelDescriptor, *, thinking: Literal["drop", "text"] = "drop", own: bool = False
) -> Sent:
    """Builds the request for a target. `own`: it goes back to its own dialect, and is not adapted."""
    wire = wire_of(target.api)
    if own:
        encoded = wire.encode_request(request)
        return Sent(target.api, encoded.body, encoded.losses, None)
    adapted = adapt(request, target, thinking=thinking)
    encoded = wire.encode_request(adapted.request)
    return Sent(target.api, encoded.body, Losses(lambda: _joined(request, adapted, encoded.losses)), adapted)


def wire_of(api: str) -> Any:
    """Returns the codec of a wire; 422 for anything else."""
    if api not in WIRES:
        raise HttpProblem(422, f"no wire {api!r}", path="query.as", remedy=f"choose one of {', '.join(sorted(WIRES))}")
    return dialect(api)


def is_of_record(path: str, request: Request) -> bool:
    """Whether a path leads to a program's record of its own work, which no model was ever to read."""
    place = spot(path)
    return place is not None and is_record(request.context.messages[place.message])


def _joined(request: Request, adapted: Adapted, losses: Sequence[Loss]) -> tuple[Loss, ...]:
    """Returns the losses of adapting and encoding, each once, with their paths in the source."""
    found = [replace(loss, severity="record") if is_of_record(loss.path, request) else loss for loss in adapted.losses]
    for loss in losses:
        path = adapted.source(loss.path)
        if path is not None:  # added by adapting: the source never had it
            found.append(loss if path == loss.path else replace(loss, path=path))
    return tuple(dict.fromkeys(found))


# --- origins of sent values ------------------------------------------------------------------------------------------


def origins(request: Request, sent: Sent) -> dict[str, str]:
    """Maps the path of each sent value to its path in the source.

    Codecs do not report this; so a copy of the request with markers for texts is encoded, and the markers are located.
    """
    source = sent.adapted.request if sent.adapted is not None else request
    marked = replace(
        source,
        context=replace(
            source.context, messages=tuple(_marked(at, message) for at, message in enumerate(source.context.messages))
        ),
    )
    try:
        body = wire_of(sent.api).encode_request(marked).body
    except InterlinguaError:
        return {}
    found: dict[str, str] = {}
    for path, text in _texts(body, "$"):
        mark = _MARK.search(text) or _MARK.search(_decoded(text))
        if mark is None:
            continue
        at, block = int(mark[1]), int(mark[2])
        place = f"$.messages[{at}]" + (f".content[{block}]" if block >= 0 else ".content")
        origin = sent.adapted.source(place) if sent.adapted is not None else place
        if origin is not None:
            found[path] = origin
            for above in _ancestors(path):
                found.setdefault(above, origin)
    return found


def _ancestors(path: str) -> Iterator[str]:
    """Yields the values around a value, up to the list of messages."""
    while (cut := max(path.rfind("."), path.rfind("["))) > 0:
        path = path[:cut]
        if "[" not in path:
            return
        yield path


def _marked(at: int, message: Message) -> Message:
    if isinstance(message, CustomMessage) or message.content is None:
        return message
    if isinstance(message.content, str):
        return replace(message, content=f"{_OPEN}{at}.-1{_CLOSE}")
    return replace(message, content=tuple(_mark(at, n, block) for n, block in enumerate(message.content)))


def _mark(at: int, number: int, block: Block) -> Block:
    mark = f"{_OPEN}{at}.{number}{_CLOSE}"
    match block:
        case TextBlock():
            return replace(block, text=mark)
        case ThinkingBlock():
            return replace(block, thinking=mark)
        case ToolCall():
            return replace(block, arguments={"mark": mark}, arguments_text=None)
        case ImageBlock() | AudioBlock() | DocumentBlock() if block.data is not None:
            return replace(block, data=base64.b64encode(mark.encode()).decode())
        case _:
            return block


def _decoded(text: str) -> str:
    """Returns base64 as text, in case it is a marker."""
    encoded = text.rpartition(",")[2]
    if len(encoded) > 64:
        return ""
    try:
        return base64.b64decode(encoded, validate=True).decode("utf-8", "replace")
    except ValueError:
        return ""


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for at, item in enumerate(value):
            yield from _texts(item, f"{path}[{at}]")


# --- the wire view ---------------------------------------------------------------------------------------------------
#
# The wire view: what is stored, what a dialect would send, and every loss between, each at its position.


STRING_SHOWN = 240  # characters of a string per line
MESSAGES_SHOWN = 200  # the latest ones
_MEDIA = ("data", "image_url", "file_data", "bytes", "url")


def wire_view(
    tree: Tree,
    to: str | None,
    target: ModelDescriptor,
    *,
    part: Literal["request", "answer", "stream"] = "request",
    thinking: Literal["drop", "text"] = "drop",
    with_kept: bool = False,
    last: int | None = None,
) -> WireView:
    """Returns the request at an entry, or of its `last` messages, as a target receives it; or the response there."""
    if part != "request":
        return _answer_view(tree, to, target, part)
    end = before_answer(tree, to)
    request, ids, is_partial = tree.last_of_request(end, last)
    own = request.model.api == target.api and not target.provider
    sent = send(request, target, thinking=thinking, own=own)
    shown, first = _shown(request)
    losses = tuple(_numbered(*_counted(sent.losses, first), ids))
    came = origins(request, sent)
    sent_lines = list(_lines(sent.body, came=came, ids=ids, losses=losses, first=first))
    stored_lines = list(_lines(_stored(shown), ids=ids, losses=losses, shift=first))
    notes = (f"{first} earlier messages are sent as well, and not shown here",) if first else ()
    if is_partial:
        notes = (f"only the last {len(ids)} messages were encoded; earlier ones are sent as well",)
    encoded = jsontext.write(sent.body)
    return WireView(
        dialect=target.api,
        model=f"{target.provider}/{target.id}" if target.provider else target.id or None,
        stored=tuple(stored_lines),
        sent=tuple(sent_lines),
        losses=tuple(_with_gaps(_with_kept_by(losses, request, sent, with_kept), sent_lines)),
        bytes=len(encoded),
        media_bytes=sum(_media_sizes(sent.body)),
        hidden=sum(loss.times for loss in losses if loss.severity == "record"),
        back=own and not is_partial and not [loss for loss in losses if loss.severity != "record"],
        notes=notes,
        partial=is_partial,
    )


def before_answer(tree: Tree, to: str | None) -> str | None:
    """What a response read ends before it; other entries are included themselves."""
    at = to if to is not None else tree.head()
    if at is None:
        raise HttpProblem(404, "the session is empty", code="entry_not_found", remedy="send a message first")
    entry = tree.entry(at)
    message: AgentMessage = entry.message
    return entry.parent_id if isinstance(message, AssistantMessage) and entry.parent_id is not None else at


def _shown(request: Request) -> tuple[Request, int]:
    """Returns the request with only its latest messages, and how many are omitted."""
    first = max(0, len(request.context.messages) - MESSAGES_SHOWN)
    if not first:
        return request, 0
    return replace(request, context=replace(request.context, messages=request.context.messages[first:])), first


def _stored(request: Request) -> dict[str, Any]:
    """Returns a request as it is stored, with the paths that losses use."""
    context = plain(request.context)
    body = {"system": context.pop("systemPrompt", None), **context, "options": plain(request.options)}
    return {key: value for key, value in {"model": plain(request.model), **body}.items() if value}


# --- losses ----------------------------------------------------------------------------------------------------------


def _numbered(losses: Sequence[Loss], times: Sequence[int], ids: Sequence[str | None]) -> Iterator[LossView]:
    """Numbers losses in order of appearance: by message and block, those beside the messages first; bookkeeping
    last. `times` has how many each of them stands for.
    """
    ordered = sorted(
        zip(losses, times, strict=True), key=lambda one: (one[0].severity == "record", _order(one[0].path))
    )
    for n, (loss, count) in enumerate(ordered, 1):
        entry, block = entry_of(loss.path, ids)
        yield LossView(
            n=n,
            path=loss.path,
            what=loss.what,
            why=loss.why,
            severity=loss.severity,
            entry=entry,
            block=block,
            times=count,
        )


def _counted(losses: Sequence[Loss], first: int) -> tuple[list[Loss], list[int]]:
    """Returns the losses with one for all of a kind in the messages before `first`, and how many each stands for."""
    early: dict[tuple[str, str, str], int] = {}  # where the loss of this kind is in the list
    found: list[Loss] = []
    times: list[int] = []
    for loss in losses:
        place = spot(loss.path) if first else None
        if place is not None and place.message < first:
            at = early.setdefault((loss.severity, loss.what, loss.why), len(found))
            if at < len(found):
                times[at] += 1
                continue
        found.append(loss)
        times.append(1)
    return found, times


def loss_views(losses: Sequence[Loss], ids: Sequence[str | None]) -> tuple[LossView, ...]:
    return tuple(_numbered(losses, [1] * len(losses), ids))


def _order(path: str) -> tuple[int, int, str]:
    found = spot(path)
    if found is None:
        return (-1 if path.startswith(("$.model", "$.system")) else 1 << 30, -1, path)
    return (found.message, -1 if found.block is None else found.block, path)


def _with_gaps(losses: Sequence[LossView], lines: Sequence[JsonLine]) -> Iterator[LossView]:
    """Locates missing values on the sent side: before the first line from after them."""
    known = [(_order(line.source), at) for at, line in enumerate(lines) if line.source is not None]
    known.sort()
    for loss in losses:
        if loss.severity != "dropped":
            yield loss
            continue
        at = bisect.bisect_right(known, (_order(loss.path), len(lines)))
        yield replace(loss, ghost=known[at][1] if at < len(known) else max(0, len(lines) - 1))


def _with_kept_by(losses: Sequence[LossView], request: Request, sent: Sent, wanted: bool) -> Sequence[LossView]:
    """Adds the other wires that would not lose it."""
    if not wanted or len(request.context.messages) > MESSAGES_SHOWN:
        return losses
    lost: dict[str, set[str]] = {}
    for api in WIRES:
        if api == sent.api:
            continue
        try:
            other = send(request, ModelDescriptor(id=request.model.id, api=api))
        except InterlinguaError:
            continue
        lost[api] = {loss.path for loss in other.losses if loss.severity != "record"}
    return [
        loss
        if loss.severity == "record"
        else replace(loss, kept_by=tuple(api for api, paths in lost.items() if loss.path not in paths))
        for loss in losses
    ]


# --- lines -----------------------------------------------------------------------------------------------------------


def _lines(
    value: Any,
    *,
    came: dict[str, str] | None = None,
    ids: Sequence[str | None] = (),
    losses: Sequence[LossView] = (),
    shift: int = 0,
    first: int = 0,
) -> Iterator[JsonLine]:
    """Returns JSON as indented lines, each with its path, its origin, and its losses.

    Values from messages before `first` are omitted.
    """
    by_path: dict[str, list[int]] = {}
    for loss in losses:
        if loss.severity != "record":
            by_path.setdefault(loss.path, []).append(loss.n)
    given: set[int] = set()
    skipped = _early(came or {}, first)
    for depth, text, path, cut in _walk(value, "$", "", 0, skipped=skipped):
        source = path if came is None else came.get(path)
        if source is not None and came is None and shift:
            source = _shifted(source, shift)
        entry, block = entry_of(source, ids) if source is not None else (None, None)
        numbers = tuple(n for n in by_path.get(source or "", ()) if n not in given)
        given.update(numbers)
        yield JsonLine(
            depth=depth,
            text=text,
            path=path,
            source=source if came is not None else None,
            entry=entry,
            block=block,
            loss=numbers,
            cut=cut,
        )


def _early(came: dict[str, str], first: int) -> set[str]:
    """Returns the paths of sent items from messages before the first one that is shown."""
    if not first:
        return set()
    items = ((path, spot(origin)) for path, origin in came.items() if path.endswith("]") and path.count("[") == 1)
    return {path for path, found in items if found is not None and found.message < first}


def _shifted(path: str, shift: int) -> str:
    found = spot(path)
    if found is None:
        return path
    return path.replace(f"$.messages[{found.message}]", f"$.messages[{found.message + shift}]", 1)


def _walk(
    value: Any, path: str, label: str, depth: int, last: bool = True, skipped: Collection[str] = ()
) -> Iterator[tuple[int, str, str, int | None]]:
    """Yields depth, text, path and omitted characters of each line."""
    comma = "" if last else ","
    if isinstance(value, dict | list | tuple) and value:
        is_object = isinstance(value, dict)
        items = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
        yield depth, f"{label}{'{' if is_object else '['}", path, None
        for number, (key, item) in enumerate(items):
            place = f"{path}.{key}" if is_object else f"{path}[{key}]"
            if place in skipped:
                continue
            name = f"{jsontext.compact(key)}: " if is_object else ""
            yield from _walk(item, place, name, depth + 1, number == len(items) - 1, skipped)
        yield depth, f"{'}' if is_object else ']'}{comma}", path, None
        return
    if isinstance(value, str) and len(value) > STRING_SHOWN:
        text = jsontext.compact(value[:STRING_SHOWN])
        yield depth, f'{label}{text[:-1]}…"{comma}', path, len(value) - STRING_SHOWN
        return
    yield depth, f"{label}{jsontext.compact(value)}{comma}", path, None


def _media_sizes(value: Any) -> Iterator[int]:
    """The bytes of base64 in a body."""
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(item, str) and key in _MEDIA and len(item) > STRING_SHOWN:
                yield len(item)
            else:
                yield from _media_sizes(item)
    elif isinstance(value, list):
        for item in value:
            yield from _media_sizes(item)


# --- responses -------------------------------------------------------------------------------------------------------


def _answer_view(tree: Tree, to: str | None, target: ModelDescriptor, part: str) -> WireView:
    at = to if to is not None else tree.head()
    entry = tree.session_at(at).entry(at) if at is not None else None
    message: AgentMessage | None = entry.message if entry is not None else None
    if not isinstance(message, AssistantMessage):
        raise HttpProblem(422, "only an answer has a wire form", path="query.to", remedy="choose an answer")
    wire = wire_of(target.api)
    ids = [at]
    losses: tuple[LossView, ...] = ()
    if part == "stream":
        encoder = wire.StreamEncoder()
        raw = b"".join([*(encoder.feed(event) for event in unfold(message)), encoder.close()])
        lines = tuple(
            JsonLine(depth=0, text=line[: 10 * STRING_SHOWN], path=f"${number}", cut=_left(line))
            for number, line in enumerate(raw.decode("utf-8", "replace").split("\n"))
        )
        size = len(raw)
    else:
        encoded = wire.encode_response(message)
        moved = [replace(loss, path=f"$.messages[0]{loss.path.removeprefix('$')}") for loss in encoded.losses]
        losses = loss_views(moved, ids)
        lines = tuple(_lines(encoded.body))
        size = len(jsontext.write(encoded.body))
    return WireView(
        dialect=target.api,
        model=message.model,
        stored=tuple(_lines(plain(message))),
        sent=lines,
        losses=losses,
        bytes=size,
        media_bytes=0,
        hidden=sum(loss.severity == "record" for loss in losses),
    )


def _left(line: str) -> int | None:
    return len(line) - 10 * STRING_SHOWN if len(line) > 10 * STRING_SHOWN else None


# --- hand-over -------------------------------------------------------------------------------------------------------
#
# The cost of a hand-over: how much of a conversation each of several models could read. Nothing is sent.


def handover_view(
    tree: Tree,
    to: str | None,
    models: Sequence[str],
    *,
    text: str | None = None,
    replaces: str | None = None,
    thinking: Literal["drop", "text"] = "drop",
) -> Handover:
    """Returns for each model what it would not read, what it would refuse, whether it fits, and the input cost."""
    at = tree.entry(replaces).parent_id if replaces is not None else to
    request, ids = (
        tree.request_with_entries(at) if at is not None or replaces is None else tree.request_of((), tree.session, None)
    )
    if text:
        given = (*request.context.messages, UserMessage(content=text))
        request, ids = replace(request, context=replace(request.context, messages=given)), [*ids, None]
    views = tuple(_model(request, ids, name, described(name), thinking) for name in models)
    return Handover(
        reads=Reads(messages=sum(map(is_message, request.context.messages)), tokens=budget.taken(request.context)),
        models=views,
        causes=tuple(_causes(views)),
    )


def counted(losses: Sequence[Any]) -> LossCounts:
    """Counts the losses of each kind."""
    kinds = [loss.severity for loss in losses]
    return LossCounts(dropped=kinds.count("dropped"), weakened=kinds.count("weakened"), record=kinds.count("record"))


def _model(
    request: Request, ids: Sequence[str | None], name: str, model: ModelDescriptor, thinking: Literal["drop", "text"]
) -> HandoverModel:
    # A model without a wire (the offline ones) reads the conversation unchanged.
    sent = send(request, model, thinking=thinking) if model.api in WIRES else None
    losses = loss_views(sent.losses if sent is not None else (), ids)
    tokens = budget.taken(sent.adapted.request.context if sent is not None and sent.adapted else request.context)
    window = model.context_window
    fits = window is None or tokens <= window
    return HandoverModel(
        model=name,
        api=model.api,
        losses=losses,
        counts=counted(losses),
        fits=fits,
        tokens=tokens,
        window=window,
        cost=_cost(model, tokens),
        refuses=tuple(_refusals(sent.adapted.request if sent is not None and sent.adapted else request, model))
        if fits
        else (_too_long(tokens, window or 0),),
        same_family=_is_same_family(request, model),
    )


def _cost(model: ModelDescriptor, tokens: int) -> float | None:
    """Returns the input cost, if known, with nothing cached."""
    cost = catalogue.cost(Usage.of(tokens, 0), model)
    return cost.total if cost is not None else None


def _refusals(request: Request, model: ModelDescriptor) -> list[FindingView]:
    """Returns what is still invalid after the repairs that sending makes."""
    return [
        FindingView(
            n=n,
            path=finding.path,
            severity="error",
            effect="refuses",
            message=finding.message,
            remedy=finding.remedy,
        )
        for n, finding in enumerate(check(request, target=model if model.api in WIRES else None), 1)
        if finding.severity == "error"
    ]


def _too_long(tokens: int, window: int) -> FindingView:
    return FindingView(
        n=1,
        path="$.messages",
        severity="error",
        effect="refuses",
        message=f"about {tokens:,} tokens do not fit its {window:,}",
        remedy="compact first, or choose a model that reads more",
    )


def _is_same_family(request: Request, model: ModelDescriptor) -> bool:
    """Whether the model can verify the thinking of the last response."""
    answers = [m for m in request.context.messages if isinstance(m, AssistantMessage) and m.model]
    if not answers:
        return False
    known = family(answers[-1].model, answers[-1].api)
    return known is not None and known == family(model.id, model.api)


def _causes(models: Sequence[HandoverModel]) -> list[Cause]:
    """Returns losses of the same kind as rows, with the models as columns."""
    rows: dict[tuple[str, str], list[tuple[str, LossView]]] = {}
    for model in models:
        for loss in model.losses:
            if loss.severity != "record":
                rows.setdefault((loss.what, loss.why), []).append((model.model, loss))
    causes = []
    for (what, why), found in rows.items():
        by: dict[str, CauseCount] = {}
        for name, loss in found:
            before = by.get(name)
            by[name] = CauseCount(severity=loss.severity, count=1 if before is None else before.count + 1)
        spots = dict.fromkeys((loss.entry, loss.block) for _, loss in found)
        highest = max(count.count for count in by.values())
        causes.append(
            Cause(
                what=what,
                why=why,
                label=what if highest == 1 else f"{highest} × {what}",
                entries=tuple(Spot(entry=entry, block=block) for entry, block in spots),
                by=by,
            )
        )
    return causes
