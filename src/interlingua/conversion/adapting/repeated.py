"""A caching `adapt` for one target: the outcome for plain requests is remembered.

A request is plain if user and assistant alternate with text only, and there are no tools. What adapt does to it does
not depend on the texts, except for their size: the context window limits the output. So the outcome holds for all plain
requests with the same options that are not longer.
"""

from collections import OrderedDict

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ...values import jsontext
from ...values.losses import Loss
from ...values.messages import AssistantMessage, Content, TextBlock, UserMessage
from ...values.request import ModelDescriptor, Options, Request
from ...values.tokens import taken
from .adapter import Adapted, adapt

_REMEMBERED = 256  # cached kinds of requests, by options


class _Verdict(Struct, frozen=True):
    """The outcome of adapt for a plain request: its messages were unchanged."""

    size: int  # characters of the longest request for which this is known
    options: Options
    model: ModelDescriptor
    losses: tuple[Loss, ...]


class RepeatedAdapter:
    """`adapt(request, model, caching=True)`, faster for plain requests."""

    def __init__(self, model: ModelDescriptor) -> None:
        self._model = model
        self._verdicts: OrderedDict[bytes, _Verdict] = OrderedDict()

    def __call__(self, request: Request) -> Adapted:
        # The model is usually the target itself and need not be checked each time.
        measured = _plain(request, None if request.model is self._model else request.model)
        if measured is None:
            return adapt(request, self._model, caching=True)
        kind, size = measured
        verdict = self._verdicts.get(kind)
        if verdict is not None and size <= verdict.size:
            changed = replace(request, model=verdict.model, options=verdict.options)
            return Adapted.with_same_messages(changed, verdict.losses)
        made = adapt(request, self._model, caching=True)
        if self._holds_for_shorter(request, made):
            self._verdicts[kind] = _Verdict(size, made.request.options, made.request.model, made.losses)
            if len(self._verdicts) > _REMEMBERED:
                self._verdicts.popitem(last=False)
        return made

    def _holds_for_shorter(self, request: Request, made: Adapted) -> bool:
        """Whether only options were changed, and the window left room for the whole output."""
        if made.request.context != request.context or made.restore_block is not None or made.warnings:
            return False
        window, longest = self._model.context_window, made.request.options.max_tokens
        has_room = not window or longest is None or taken(request.context) + longest < window
        return has_room and all(loss.path.startswith("$.options") for loss in made.losses)


def _plain(request: Request, model: ModelDescriptor | None) -> tuple[bytes, int] | None:
    """Returns everything of a plain request except its texts, and their length; None if it is not plain."""
    context = request.context
    if context.tools or context.extra or len(context.messages) % 2 == 0:
        return None
    size = 0
    if context.system is not None:
        measured = _length(context.system)
        if measured is None:
            return None
        size += measured
    forms = set()
    for at, message in enumerate(context.messages):
        if type(message) is not (AssistantMessage if at % 2 else UserMessage) or message.extra:
            return None
        if isinstance(message, AssistantMessage) and message.stop_reason in ("error", "aborted"):
            return None
        measured = _length(message.content)
        if measured is None:
            return None
        forms.add((at % 2, type(message.content) is str))
        size += measured
    system = (context.system is None, type(context.system) is str, context.system_role)
    try:
        return msgspec.msgpack.encode((request.options, request.extra, model, system, sorted(forms))), size
    except (TypeError, OverflowError):  # values that JSON has and this encoding does not, such as huge numbers
        return None


def _length(content: Content | None) -> int | None:
    """Returns the characters of a plain text; None for anything else."""
    if type(content) is str:
        return len(content) if content.strip() and jsontext.is_clean(content) else None
    size = 0
    for block in content or ():
        if type(block) is not TextBlock or block.extra or block.cache or block.citations or block.refusal:
            return None
        if block.text_signature is not None or not block.text.strip() or not jsontext.is_clean(block.text):
            return None
        size += len(block.text)
    return size or None
