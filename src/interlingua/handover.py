"""adapt: hand a conversation to another model. The only place that repairs, on a copy, with everything it did reported.

The passes run in one order and each leaves a request that the later ones do not disturb: running them twice changes
nothing, and a longer history never changes how a shorter one was adapted (providers cache by prefix).
"""

import hashlib
import re
from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

from msgspec.structs import replace

from . import jsontext, schemas
from .errors import InterlinguaError
from .losses import Loss, Reporter
from .messages import (
    AssistantMessage,
    AudioBlock,
    Block,
    CacheMarker,
    Content,
    CustomMessage,
    DocumentBlock,
    ImageBlock,
    Message,
    SystemMessage,
    TextBlock,
    ThinkingBlock,
    ToolCall,
    ToolResultMessage,
    UserMessage,
    blocks_of,
    text_of,
)
from .profiles import PROFILES, IdRule, Profile, family, profile
from .request import ModelDescriptor, Reasoning, Request, ToolChoice, ToolSpec

NO_RESULT = "No result was recorded for this call. Do not assume that the tool ran or what it did."
NO_OUTPUT = "(no output)"
CONTINUED = "(the conversation continues)"
SYNTHETIC = {"interlingua": {"synthetic": True}}


class Adapted(tuple[Request, tuple[Loss, ...]]):
    """`(request, losses)`, and the maps from ids and tool names on the wire back to the conversation's own."""

    ids: dict[str, str]
    names: dict[str, str]
    places: tuple[int | None, ...]  # for each message its place in the source; None where it was added

    def __new__(cls, work: "_Work") -> "Adapted":
        made = super().__new__(cls, (work.request(), tuple(work.report.losses)))
        made.ids = work.ids
        made.names = work.names
        made.places = tuple(None if _is_added(message) else at for at, message in work.items)
        return made

    @property
    def request(self) -> Request:
        return self[0]

    @property
    def losses(self) -> tuple[Loss, ...]:
        return self[1]

    def restore(self, message: AssistantMessage) -> AssistantMessage:
        """An answer to the adapted request, with the conversation's own tool names."""
        if not self.names:
            return message
        return replace(message, content=tuple(_renamed(block, self.names) for block in blocks_of(message.content)))


def adapt(request: Request, target: ModelDescriptor | str, *, thinking: Literal["drop", "text"] = "drop") -> Adapted:
    """The request as `target` (a model, or the name of a dialect) can take it, and what that cost.

    `thinking` says what becomes of reasoning that the target cannot verify: dropped, or turned into plain text.
    """
    model = _model(request, target)
    work = _Work(request, model, thinking)
    for mend in _PASSES:
        mend(work)
    return Adapted(work)


def structural_repairs(request: Request) -> tuple[Loss, ...]:
    """What any target would want mended: calls without results, results without calls, order, ids."""
    work = _Work(request, ModelDescriptor(id="", api=""), "drop")
    for mend in (_drop_custom, _drop_failed, _pair, _rename_ids):
        mend(work)
    return tuple(work.report.losses)


def _model(request: Request, target: ModelDescriptor | str) -> ModelDescriptor:
    if isinstance(target, ModelDescriptor):
        return target
    if target not in PROFILES:
        raise InterlinguaError(f"no target is called {target!r}; there are: {', '.join(sorted(PROFILES))}")
    return replace(request.model, api=target)


def _is_added(message: Message) -> bool:
    return bool(getattr(message, "extra", {}).get("interlingua", {}).get("synthetic"))


class _Work:
    """A request under repair: messages with their places in the source, and what has been done to them."""

    def __init__(self, request: Request, model: ModelDescriptor, thinking: str) -> None:
        self.source = request
        self.model = model
        self.rules: Profile = profile(model)
        self.thinking = thinking
        self.report = Reporter()
        self.items: list[tuple[int, Message]] = list(enumerate(request.context.messages))
        self.system = request.context.system
        self.tools = request.context.tools
        self.options = request.options
        self.ids: dict[str, str] = {}
        self.names: dict[str, str] = {}

    def request(self) -> Request:
        context = replace(
            self.source.context,
            system=self.system,
            messages=tuple(message for _, message in self.items),
            tools=self.tools,
        )
        return replace(self.source, model=self.model, context=context, options=self.options)

    def lost(self, at: int, what: str, why: str, severity: Any = "weakened", field: str = "") -> None:
        self.report.at(f"$.messages[{at}]{field}", what, why, severity)

    def map(self, change: Callable[[int, Message], Message | None]) -> None:
        """Changes every message; None removes it."""
        changed = ((at, change(at, message)) for at, message in self.items)
        self.items = [(at, message) for at, message in changed if message is not None]


# --- turns that failed, roles that are not known, words that are blank -----------------------------------------------


def _drop_failed(work: _Work) -> None:
    """Turns that errored or were aborted, with their results: half a turn makes providers refuse the rest."""
    open_ids: Counter[str] = Counter()

    def keep(at: int, message: Message) -> Message | None:
        nonlocal open_ids
        if isinstance(message, AssistantMessage):
            failed = message.stop_reason in ("error", "aborted")
            open_ids = Counter(call.id for call in message.tool_calls) if failed else Counter()
            if failed:
                work.lost(at, "message", f"a turn that ended in {message.stop_reason} is not sent", "dropped")
                return None
        elif isinstance(message, ToolResultMessage) and open_ids[message.tool_call_id]:
            open_ids[message.tool_call_id] -= 1
            work.lost(at, "message", "the result of a call in a turn that is not sent", "dropped")
            return None
        return message

    work.map(keep)


def _drop_custom(work: _Work) -> None:
    def keep(at: int, message: Message) -> Message | None:
        if isinstance(message, CustomMessage):
            work.lost(at, message.role, "no model reads messages of this role", "dropped")
            return None
        return message

    work.map(keep)


def _clean_text(work: _Work) -> None:
    """Unpaired surrogates become U+FFFD; where the target refuses blanks, blank blocks go."""

    def mend(at: int, message: Message) -> Message | None:
        content = message.content
        if content is None:
            content = ()
        if isinstance(content, str):
            content = _clean_string(content, at, work)
        else:
            content = _clean_blocks(content, at, work, keep_markers=isinstance(message, UserMessage))
        if not _says(content, work.rules):
            if isinstance(message, ToolResultMessage):
                return message if content == message.content else replace(message, content=content)
            if _must_say(work.rules) or isinstance(message, AssistantMessage):
                work.lost(at, "message", "nothing is left to say", "dropped")
                return None
        return message if content == message.content else replace(message, content=content)

    work.map(mend)
    if isinstance(work.system, str) and not work.system.strip() and _must_say(work.rules):
        work.report.at("$.system", "system", "blank", "weakened")
        work.system = None


def _must_say(rules: Profile) -> bool:
    return not rules.blank_text


def _says(content: Content, rules: Profile) -> bool:
    if isinstance(content, str):
        return bool(content.strip()) or rules.blank_text
    return bool(content)


def _clean_string(text: str, at: int, work: _Work) -> str:
    if jsontext.is_clean(text):
        return text
    work.lost(at, "text", "unpaired surrogates", field=".content")
    return jsontext.clean(text)


def _clean_blocks(content: tuple[Block, ...], at: int, work: _Work, *, keep_markers: bool) -> tuple[Block, ...]:
    out: list[Block] = []
    marker: CacheMarker | None = None
    for place, block in enumerate(content):
        if isinstance(block, TextBlock):
            if not jsontext.is_clean(block.text):
                work.lost(at, "text", "unpaired surrogates", field=f".content[{place}].text")
                block = replace(block, text=jsontext.clean(block.text))
            if not block.text.strip() and not work.rules.blank_text and block.text_signature is None:
                work.lost(at, "text", "the target refuses blank text", field=f".content[{place}]")
                marker = block.cache or marker
                continue
        elif isinstance(block, ThinkingBlock) and not block.thinking.strip() and block.thinking_signature is None:
            work.lost(at, "thinking", "blank and unsigned", field=f".content[{place}]")
            continue
        out.append(block)
    # A marker on a blank block moves to the real block before it.
    if marker is not None and out and getattr(out[-1], "cache", marker) is None:
        out[-1] = replace(out[-1], cache=marker)
    return (
        tuple(out)
        if len(out) != len(content) or any(a is not b for a, b in zip(out, content, strict=False))
        else content
    )


# --- system messages -------------------------------------------------------------------------------------------------


def _place_system(work: _Work) -> None:
    """Where system messages may not stand between others, leading ones join the system text, later ones the user's."""
    if work.rules.later_system:
        return
    leading = True
    items: list[tuple[int, Message]] = []
    for at, message in work.items:
        if not isinstance(message, SystemMessage):
            leading = False
            items.append((at, message))
        elif leading:
            work.lost(at, "system message", "joined to the system text")
            work.system = _joined_system(work.system, message)
        else:
            work.lost(at, "system message", "the target has none here; said as the user's words")
            items.append((at, UserMessage(content=message.content, timestamp=message.timestamp, extra=message.extra)))
    work.items = items


def _joined_system(system: Any, message: SystemMessage) -> Any:
    if isinstance(system, tuple):
        return (*system, *(b for b in blocks_of(message.content) if isinstance(b, TextBlock)))
    return "\n\n".join(part for part in (system, text_of(message.content)) if part)


# --- calls and results -----------------------------------------------------------------------------------------------


def _pair(work: _Work) -> None:
    """Behind each call's turn its results, one per call, in call order; results without a call go."""
    items: list[tuple[int, Message]] = []
    spans = _spans(work.items)
    for head, tail in spans:
        if head is not None:
            items.append(head)
        calls = head[1].tool_calls if head is not None and isinstance(head[1], AssistantMessage) else ()
        results, others = _answers(calls, head[0] if head else 0, tail, work)
        items.extend(results)
        items.extend(others)
    work.items = items


def _spans(items: list[tuple[int, Message]]) -> list[tuple[tuple[int, Message] | None, list[tuple[int, Message]]]]:
    spans: list[tuple[tuple[int, Message] | None, list[tuple[int, Message]]]] = [(None, [])]
    for item in items:
        if isinstance(item[1], AssistantMessage):
            spans.append((item, []))
        else:
            spans[-1][1].append(item)
    return spans


def _answers(
    calls: tuple[ToolCall, ...], turn: int, tail: list[tuple[int, Message]], work: _Work
) -> tuple[list[tuple[int, Message]], list[tuple[int, Message]]]:
    results = [item for item in tail if isinstance(item[1], ToolResultMessage)]
    others = [item for item in tail if not isinstance(item[1], ToolResultMessage)]
    ordered: list[tuple[int, Message]] = []
    for call in calls:
        found = next((item for item in results if _answers_call(item[1], call)), None)
        if found is None:
            work.lost(turn, "tool result", f"the call of {call.name} had none; one that says so was added")
            ordered.append((turn, _no_result(call)))
        else:
            results.remove(found)
            ordered.append((found[0], _filled(found, call, work)))
    for at, _ in results:
        work.lost(at, "tool result", "no call before it is open", "dropped")
    if [at for at, _ in ordered + others] != sorted(at for at, _ in ordered + others):
        for at, _ in ordered:
            work.lost(at, "order", "results follow their calls at once, in call order")
    return ordered, others


def _answers_call(result: Message, call: ToolCall) -> bool:
    """A call of the Responses wire has two ids; a result may name either."""
    if not isinstance(result, ToolResultMessage):
        return False
    item_id = call.extra.get("openai-responses", {}).get("id")
    return result.tool_call_id == call.id or (item_id is not None and result.tool_call_id == item_id)


def _filled(found: tuple[int, Message], call: ToolCall, work: _Work) -> Message:
    at, result = found
    assert isinstance(result, ToolResultMessage)
    if result.tool_name and result.tool_call_id == call.id:
        return result
    if not result.tool_name:
        work.lost(at, "tool_name", "taken from the call", "record", ".toolName")
    if result.tool_call_id != call.id:
        work.lost(at, "id", "the call's other id; the target knows one", field=".toolCallId")
    return replace(result, tool_call_id=call.id, tool_name=result.tool_name or call.name)


def _no_result(call: ToolCall) -> ToolResultMessage:
    return ToolResultMessage(
        tool_call_id=call.id, tool_name=call.name, content=(TextBlock(text=NO_RESULT),), is_error=True, extra=SYNTHETIC
    )


# --- thinking and signatures -----------------------------------------------------------------------------------------


def _judge_thinking(work: _Work) -> None:
    """Reasoning that the target cannot verify is dropped (or said as text); so are foreign signatures."""
    home = family(work.model.id or None, work.model.api)

    def mend(at: int, message: Message) -> Message | None:
        if not isinstance(message, AssistantMessage) or isinstance(message.content, str) or not message.content:
            return message
        native = _is_native(message, home, work)
        content = _judged(message.content, native, at, work)
        if content == message.content:
            return message
        if not content:
            work.lost(at, "message", "nothing but reasoning that the target cannot verify", "dropped")
            return None
        return replace(message, content=content)

    work.map(mend)
    _calm_open_loop(work)


def _is_native(message: AssistantMessage, home: str | None, work: _Work) -> bool:
    minted = family(message.model, message.api)
    if work.rules.families is not None and minted is not None:
        return minted in work.rules.families and (home == minted or home not in work.rules.families)
    # Nothing is verified here, or nothing is known: only the same wire's own words go back to the same model.
    return message.api == work.model.api and (minted is None or home is None or minted == home)


def _judged(content: tuple[Block, ...], native: bool, at: int, work: _Work) -> tuple[Block, ...]:
    out: list[Block] = []
    dropped = False
    for place, block in enumerate(content):
        if isinstance(block, ThinkingBlock) and not _may_return(block, native, work.rules):
            dropped = True
            why = "unsigned" if native else "minted by another model family"
            work.lost(at, "thinking", f"{why}: the target cannot verify it", "dropped", f".content[{place}]")
            if work.thinking == "text" and block.thinking.strip():
                out.append(TextBlock(text=block.thinking))
        elif native:
            out.append(block)
        else:
            out.append(_unsigned(block, at, place, work))
    if dropped:
        out = [_standing_alone(block) for block in out]
    return tuple(_marked_calls(out, at, work))


def _may_return(block: ThinkingBlock, native: bool, rules: Profile) -> bool:
    return native and (rules.families is None or block.thinking_signature is not None)


def _unsigned(block: Block, at: int, place: int, work: _Work) -> Block:
    if isinstance(block, TextBlock) and block.text_signature is not None:
        work.lost(at, "text_signature", "minted by another model", "dropped", f".content[{place}].textSignature")
        return replace(block, text_signature=None)
    if isinstance(block, ToolCall) and block.thought_signature not in (None, work.rules.unsigned_call):
        work.lost(at, "thought_signature", "minted by another model", "dropped", f".content[{place}].thoughtSignature")
        return replace(block, thought_signature=None)
    return block


def _standing_alone(block: Block) -> Block:
    """Without the reasoning item that it followed, an item of the Responses wire must not carry its id."""
    held = getattr(block, "extra", {}).get("openai-responses")
    if not held or "id" not in held:
        return block
    rest = {k: v for k, v in held.items() if k != "id"}
    return replace(block, extra={**block.extra, "openai-responses": rest})


def _marked_calls(content: list[Block], at: int, work: _Work) -> list[Block]:
    """Where calls must be signed, an unsigned one carries the documented marker; a signature is never made up."""
    marker = work.rules.unsigned_call
    if marker is None or any(isinstance(block, ToolCall) and block.thought_signature for block in content):
        return content  # of parallel calls only the first is signed
    for place, block in enumerate(content):
        if isinstance(block, ToolCall):
            content[place] = replace(block, thought_signature=marker)
            work.lost(at, "thought_signature", "unsigned: marked as not to be checked", field=".content")
            break
    return content


def _calm_open_loop(work: _Work) -> None:
    """Inside a tool loop a thinking Claude wants its own signed thinking first; without it, thinking goes off."""
    reasoning = work.options.reasoning
    if work.rules.forced_with_thinking or reasoning is None or reasoning.enabled is False:
        return
    if not work.items or not isinstance(work.items[-1][1], ToolResultMessage):
        return
    turn = next((m for _, m in reversed(work.items) if isinstance(m, AssistantMessage)), None)
    if turn is None or any(isinstance(block, ThinkingBlock) for block in blocks_of(turn.content)):
        return
    if any(
        isinstance(block, ThinkingBlock) for _, m in work.items for block in blocks_of(m.content)
    ) or turn.api not in (
        None,
        work.model.api,
    ):
        work.report.at("$.options.reasoning", "reasoning", "off while a foreign tool turn is open", "weakened")
        work.options = replace(work.options, reasoning=Reasoning(enabled=False))


# --- ids and names ---------------------------------------------------------------------------------------------------


def _rename_ids(work: _Work) -> None:
    """Call ids that the target takes: the same for the same, never two for one, never empty; results follow."""
    rule, used = work.rules.ids, set[str]()
    occurrences: Counter[str] = Counter()
    pending: list[tuple[str, str]] = []
    changed: list[str] = []

    def mend(at: int, message: Message) -> Message | None:
        nonlocal pending, changed
        if isinstance(message, AssistantMessage) and message.tool_calls:
            pending, changed = [], []
            content = tuple(rename(block) for block in blocks_of(message.content))
            if not changed:
                return message
            work.lost(at, "id", "not an id that the target takes", "weakened", ".content")
            return replace(message, content=content)
        if isinstance(message, ToolResultMessage):
            for place, (old, new) in enumerate(pending):
                if old == message.tool_call_id:
                    del pending[place]
                    if old == new:
                        return message
                    if not _is_added(message):
                        work.lost(at, "id", "follows the id of its call", "weakened", ".toolCallId")
                    return replace(message, tool_call_id=new)
        return message

    def rename(block: Block) -> Block:
        if not isinstance(block, ToolCall):
            return block
        nth = occurrences[block.id]
        occurrences[block.id] += 1
        new = _fitting(block.id, nth, rule, work.rules.unique_ids, used)
        used.add(new)
        pending.append((block.id, new))
        if new == block.id:
            return block
        work.ids[new] = block.id
        changed.append(new)
        return replace(block, id=new)

    work.map(mend)


def _fitting(name: str, nth: int, rule: IdRule | None, unique: bool, used: set[str]) -> str:
    repeated = nth > 0 and (unique or not name)
    if name and not repeated and (rule is None or rule.allows(name)) and name not in (used if unique else ()):
        return name
    attempt = 0
    while True:
        new = _hashed(name, f"{nth if repeated else 0}.{attempt}", rule or IdRule(r"[A-Za-z0-9_-]", 64))
        if new not in used:
            return new
        attempt += 1


def _hashed(name: str, salt: str, rule: IdRule) -> str:
    """A legal name made from an illegal one: its readable part and a hash, so that two never meet by being cut."""
    digest = hashlib.blake2s(f"{salt}\0{name}".encode("utf-8", "surrogatepass")).hexdigest()
    if rule.exact:
        return digest[: rule.most]
    readable = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")[: max(0, rule.most - 13)]
    return f"{readable or 'call'}_{digest[:12]}"


def _rename_tools(work: _Work) -> None:
    """Tool names that the target takes, in definitions, calls, results and the forced choice alike."""
    rule = work.rules.names
    taken = {tool.name for tool in work.tools or () if rule.allows(tool.name)}
    forward: dict[str, str] = {}

    def fit(name: str) -> str:
        if rule.allows(name):
            return name
        if name not in forward:
            new = _hashed(name, "", rule)
            forward[name] = f"{new[:-1]}x" if new in taken else new
            work.names[forward[name]] = name
        return forward[name]

    if work.tools:
        work.tools = tuple(tool if tool.dialect else _named(tool, fit(tool.name)) for tool in work.tools)
    for place, tool in enumerate(work.source.context.tools or ()):
        if tool.name in forward:
            work.report.at(f"$.tools[{place}].name", "tool name", "not a name that the target takes", "weakened")

    def mend(at: int, message: Message) -> Message | None:
        if isinstance(message, AssistantMessage) and any(not rule.allows(call.name) for call in message.tool_calls):
            names = {call.name: fit(call.name) for call in message.tool_calls}
            work.lost(at, "tool name", "not a name that the target takes", field=".content")
            return replace(message, content=tuple(_renamed(block, names) for block in blocks_of(message.content)))
        if isinstance(message, ToolResultMessage) and message.tool_name and not rule.allows(message.tool_name):
            work.lost(at, "tool name", "not a name that the target takes", field=".toolName")
            return replace(message, tool_name=fit(message.tool_name))
        return message

    work.map(mend)
    choice = work.options.tool_choice
    if choice is not None and any(not rule.allows(name) for name in choice.names):
        work.report.at("$.options.toolChoice.names", "tool name", "not a name that the target takes", "weakened")
        work.options = replace(work.options, tool_choice=replace(choice, names=tuple(map(fit, choice.names))))


def _named(tool: ToolSpec, name: str) -> ToolSpec:
    return tool if tool.name == name else replace(tool, name=name)


def _renamed(block: Block, names: dict[str, str]) -> Block:
    if isinstance(block, ToolCall) and names.get(block.name, block.name) != block.name:
        return replace(block, name=names[block.name])
    return block


# --- pictures, files, sounds -----------------------------------------------------------------------------------------


def _fit_media(work: _Work) -> None:
    """What the target cannot see is said in words, so that the model knows something was there."""
    titles: Counter[str] = Counter()

    def mend(at: int, message: Message) -> Message | None:
        if isinstance(message.content, str) or not message.content:
            return message
        content = tuple(
            _fit_block(block, at, place, message, titles, work) for place, block in enumerate(message.content)
        )
        return message if content == message.content else replace(message, content=content)

    work.map(mend)
    if not work.rules.results_inline:
        _move_result_images(work)


def _fit_block(block: Block, at: int, place: int, message: Message, titles: Counter[str], work: _Work) -> Block:
    why = _unfit(block, message, work)
    if why is None:
        if isinstance(block, DocumentBlock) and work.rules.document_names:
            return _titled(block, titles, at, place, work)
        return block
    work.lost(at, type(block).__name__, why, "dropped", f".content[{place}]")
    if isinstance(block, DocumentBlock) and block.text is not None:
        return TextBlock(text=block.text, cache=block.cache)
    kind = {ImageBlock: "image", AudioBlock: "audio", DocumentBlock: "document"}[type(block)]
    return TextBlock(text=f"({kind} omitted: {why})", cache=block.cache)  # type: ignore[union-attr]


def _unfit(block: Block, message: Message, work: _Work) -> str | None:
    rules, takes = work.rules, work.model.input
    if not isinstance(block, ImageBlock | DocumentBlock | AudioBlock):
        return None
    if isinstance(message, AssistantMessage) and not rules.assistant_media:
        return "not in an answer of the model"
    if isinstance(block, ImageBlock):
        return _unfit_image(block, rules, takes)
    if isinstance(block, DocumentBlock):
        if not rules.documents:
            return "the target takes no documents"
        if block.url is not None and block.data is None and block.text is None and not rules.document_urls:
            return "the target takes no documents by address"
        return None
    return None if rules.audio and block.data is not None else "the target takes no audio"


def _unfit_image(block: ImageBlock, rules: Profile, takes: tuple[str, ...] | None) -> str | None:
    if takes is not None and "image" not in takes:
        return "the model takes no images"
    if block.data is None:
        return None if rules.image_urls or block.url is None else "the target takes no images by address"
    kind = (block.mime_type or "").split(";")[0].strip().lower()
    if kind and kind not in rules.image_types:
        return f"the target takes no {kind}"
    if rules.image_bytes is not None and len(block.data) > rules.image_bytes:
        return f"larger than {rules.image_bytes} bytes as sent"
    return None


def _titled(block: DocumentBlock, titles: Counter[str], at: int, place: int, work: _Work) -> DocumentBlock:
    """A document name of the few characters that are allowed, each once in a request."""
    title = re.sub(r"[^A-Za-z0-9\s\-()\[\]]", " ", block.title or "")
    title = re.sub(r"\s+", " ", title).strip()[:190] or "document"
    titles[title] += 1
    if titles[title] > 1:
        title = f"{title} {titles[title]}"
    if title == block.title:
        return block
    work.lost(at, "title", "not a document name that the target takes", field=f".content[{place}].title")
    return replace(block, title=title)


def _move_result_images(work: _Work) -> None:
    """Pictures of a run of results follow the run, in one message of the user's."""
    items: list[tuple[int, Message]] = []
    waiting: list[tuple[int, Block]] = []
    for at, message in work.items:
        if isinstance(message, ToolResultMessage):
            content = blocks_of(message.content)
            media = [b for b in content if isinstance(b, ImageBlock | DocumentBlock | AudioBlock)]
            if media:
                work.lost(at, "image", "moved behind the results", field=".content")
                waiting.extend((at, block) for block in media)
                rest = tuple(b for b in content if b not in media)
                message = replace(message, content=rest or (TextBlock(text="(see the image that follows)"),))
        elif waiting:
            items.append(_shown(waiting))
            waiting = []
        items.append((at, message))
    if waiting:
        items.append(_shown(waiting))
    work.items = items


def _shown(waiting: list[tuple[int, Block]]) -> tuple[int, Message]:
    blocks = (TextBlock(text="From the tool results:"), *(block for _, block in waiting))
    return waiting[0][0], UserMessage(content=blocks, extra=SYNTHETIC)


# --- turns -----------------------------------------------------------------------------------------------------------


def _take_turns(work: _Work) -> None:
    """The user begins; where the target wants it, neighbours of one role become one."""
    if work.rules.alternating:
        merged: list[tuple[int, Message]] = []
        for at, message in work.items:
            joined = _merge(merged[-1][1], message) if merged else None
            if joined is None:
                merged.append((at, message))
            else:
                work.lost(at, "message", "joined to the one before it: turns alternate")
                merged[-1] = (merged[-1][0], joined)
        work.items = [
            (at, _joining(merged[place - 1][1] if place else None, at, message, work))
            for place, (at, message) in enumerate(merged)
        ]
    if work.rules.user_first and work.items and isinstance(work.items[0][1], AssistantMessage):
        work.lost(0, "message", "the user begins: a placeholder was put first")
        work.items.insert(0, (0, UserMessage(content=CONTINUED, extra=SYNTHETIC)))


def _merge(before: Message, message: Message) -> Message | None:
    if isinstance(before, UserMessage) and isinstance(message, UserMessage):
        return replace(before, content=(*blocks_of(before.content), *blocks_of(message.content)))
    if isinstance(before, AssistantMessage) and isinstance(message, AssistantMessage) and not before.tool_calls:
        return replace(message, content=(*blocks_of(before.content), *blocks_of(message.content)))
    return None


def _joining(before: Message | None, at: int, message: Message, work: _Work) -> Message:
    """The user's words after results travel in the results' own turn."""
    if not isinstance(before, ToolResultMessage) or not isinstance(message, UserMessage):
        return message
    api = work.rules.api
    held = message.extra.get(api, {})
    if held.get("~joined") and isinstance(message.content, tuple):
        return message
    work.lost(at, "message", "said in the turn of the results before it: turns alternate")
    content = blocks_of(message.content)
    return replace(message, content=content, extra={**message.extra, api: {**held, "~joined": True}})


# --- caching, schemas, options ---------------------------------------------------------------------------------------


def _budget_markers(work: _Work) -> None:
    """At most so many cache markers: the last ones, which cover the longest prefixes."""
    most = work.rules.cache_markers
    if not most:
        return
    surplus = _count_markers(work) - most
    if surplus <= 0:
        return
    work.report.at("$.messages", "cache", f"more than {most} cache markers: the first {surplus} removed", "weakened")

    def strip(value: Any) -> Any:
        nonlocal surplus
        if surplus > 0 and getattr(value, "cache", None) is not None:
            surplus -= 1
            return replace(value, cache=None)
        return value

    work.tools = tuple(map(strip, work.tools)) if work.tools else work.tools
    if isinstance(work.system, tuple):
        work.system = tuple(map(strip, work.system))

    def mend(at: int, message: Message) -> Message | None:
        if isinstance(message.content, tuple):
            content = tuple(map(strip, message.content))
            if any(a is not b for a, b in zip(content, message.content, strict=True)):
                message = replace(message, content=content)
        return strip(message) if isinstance(message, ToolResultMessage) else message

    work.map(mend)


def _count_markers(work: _Work) -> int:
    holders: list[Any] = [*(work.tools or ()), *(work.system if isinstance(work.system, tuple) else ())]
    for _, message in work.items:
        holders.extend(message.content if isinstance(message.content, tuple) else ())
        holders.append(message)
    return sum(getattr(holder, "cache", None) is not None for holder in holders)


def _fit_schemas(work: _Work) -> None:
    if work.tools:
        work.tools = tuple(
            tool
            if tool.dialect or tool.input_schema is None
            else _with_schema(tool, schemas.fit(tool.input_schema, work.rules.schema, work.report, _schema_path(place)))
            for place, tool in enumerate(work.tools)
        )
    elif work.rules.tools_with_history and _called(work):
        work.report.at(
            "$.tools", "tools", "tool blocks in the history need definitions: bare ones were added", "weakened"
        )
        work.tools = tuple(ToolSpec(name=name, input_schema={"type": "object"}) for name in _called(work))


def _schema_path(place: int) -> str:
    return f"$.tools[{place}].input_schema"


def _with_schema(tool: ToolSpec, schema: Any) -> ToolSpec:
    return tool if schema == tool.input_schema else replace(tool, input_schema=schema)


def _called(work: _Work) -> list[str]:
    names: dict[str, None] = {}
    for _, message in work.items:
        if isinstance(message, AssistantMessage):
            names.update((call.name, None) for call in message.tool_calls)
    return list(names)


def _fit_options(work: _Work) -> None:
    options, rules = work.options, work.rules
    if rules.max_tokens is not None and options.max_tokens is None:
        options = replace(options, max_tokens=work.model.max_tokens or rules.max_tokens)
        work.report.at("$.options.maxTokens", "max_tokens", "the target requires a limit", "weakened")
    limit = work.model.max_tokens
    if limit is not None and options.max_tokens is not None and options.max_tokens > limit:
        work.report.at("$.options.maxTokens", "max_tokens", f"the model gives at most {limit}", "weakened")
        options = replace(options, max_tokens=limit)
    if rules.stops is not None and options.stop is not None and len(options.stop) > rules.stops:
        work.report.at("$.options.stop", "stop", f"at most {rules.stops} stop sequences", "weakened")
        options = replace(options, stop=options.stop[: rules.stops])
    thinks = options.reasoning is not None and options.reasoning.enabled is not False
    if thinks and work.model.reasoning is False:
        work.report.at("$.options.reasoning", "reasoning", "the model does not reason", "dropped")
        options, thinks = replace(options, reasoning=None), False
    if thinks and not rules.forced_with_thinking:
        options = _unforced(options, work)
    work.options = options


def _unforced(options: Any, work: _Work) -> Any:
    """A thinking Claude takes neither a forced tool nor a temperature."""
    if options.tool_choice is not None and options.tool_choice.mode == "required":
        work.report.at("$.options.toolChoice", "tool_choice", "no tool can be forced while thinking is on", "weakened")
        options = replace(options, tool_choice=ToolChoice(mode="auto"))
    for name, path in (("temperature", "temperature"), ("top_k", "topK")):
        if getattr(options, name) is not None and getattr(options, name) != 1:
            work.report.at(f"$.options.{path}", name, "not together with thinking", "dropped")
            options = replace(options, **{name: None})
    return options


_PASSES: tuple[Callable[[_Work], None], ...] = (
    _drop_custom,
    _drop_failed,
    _clean_text,
    _place_system,
    _judge_thinking,
    _pair,
    _rename_ids,
    _rename_tools,
    _fit_media,
    _take_turns,
    _budget_markers,
    _fit_schemas,
    _fit_options,
)
