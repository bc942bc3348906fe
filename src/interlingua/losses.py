"""What a conversion could not carry, said in a way that programs can read and that encoders cannot forget.

A dialect states for every canonical field what becomes of it (`Fates`). What is dropped wherever it occurs is found by
walking the source with that table, when somebody looks; what depends on the case is reported by the encoder's branch.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, overload

from msgspec import Struct
from msgspec.structs import fields as struct_fields

from . import jsontext
from .errors import Unsupported
from .messages import CustomMessage
from .request import Request

# dropped: gone. weakened: said, but not as strongly or exactly. record: bookkeeping that a request never carries
# (who minted a message, when, for how much); reported for completeness, never a reason for strict mode to refuse.
Severity: TypeAlias = Literal["dropped", "weakened", "record"]


class Loss(Struct, frozen=True):
    """`path` points into the canonical source: `$.messages[3].content[0].citations`."""

    path: str
    what: str
    why: str
    severity: Severity


class Fate(Struct, frozen=True):
    """What becomes of one field: `kept`, `some` (case by case, reported by the encoder), or lost wherever it is set."""

    kind: Literal["kept", "some", "dropped", "weakened", "record"]
    why: str = ""
    unless: Any = None  # the value that needs no saying, such as the dialect's own api name


KEPT = Fate("kept")
Fates: TypeAlias = Mapping[str, Fate]  # "TextBlock.citations" -> Fate


def kept(names: str) -> dict[str, Fate]:
    """Rows for fields that the wire carries in full: `kept("TextBlock.text ToolCall.id")`."""
    return dict.fromkeys(names.split(), KEPT)


def some(names: str, why: str) -> dict[str, Fate]:
    """Rows for fields kept in some cases; the encoder reports the others."""
    return dict.fromkeys(names.split(), Fate("some", why))


def dropped(names: str, why: str = "no place in this wire") -> dict[str, Fate]:
    """Rows for fields that are lost wherever they are set."""
    return dict.fromkeys(names.split(), Fate("dropped", why))


def record(names: str, why: str = "a request does not carry it", unless: Any = None) -> dict[str, Fate]:
    """Rows for bookkeeping that is lost wherever it is set; `unless` is the value that decoding puts back."""
    return dict.fromkeys(names.split(), Fate("record", why, unless))


def bookkeeping(api: str) -> dict[str, Fate]:
    """Rows for what is written down about a message and that no request carries. `api` is what decoding puts back."""
    return {
        **record(
            "UserMessage.timestamp AssistantMessage.timestamp ToolResultMessage.timestamp SystemMessage.timestamp"
        ),
        **record("AssistantMessage.api", unless=api),
        **record("AssistantMessage.provider AssistantMessage.model AssistantMessage.response_model"),
        **record("AssistantMessage.usage AssistantMessage.stop_reason AssistantMessage.stop_detail"),
        **record("AssistantMessage.error_message AssistantMessage.response_id ToolResultMessage.details"),
        **kept("ModelDescriptor.id"),
        **record(
            "ModelDescriptor.name ModelDescriptor.provider ModelDescriptor.base_url ModelDescriptor.reasoning"
            " ModelDescriptor.input ModelDescriptor.cost ModelDescriptor.context_window ModelDescriptor.max_tokens"
            " ModelDescriptor.headers ModelDescriptor.compat",
            "a description of the model, not a part of the request",
        ),
        **record("ModelDescriptor.api", "the wire is its own api", unless=api),
    }


class Losses(Sequence[Loss]):
    """A tuple of Loss that is computed when first looked at."""

    __slots__ = ("_all", "_find")

    def __init__(self, find: Callable[[], tuple[Loss, ...]]) -> None:
        self._find = find
        self._all: tuple[Loss, ...] | None = None

    def _get(self) -> tuple[Loss, ...]:
        if self._all is None:
            self._all = self._find()
        return self._all

    @overload
    def __getitem__(self, index: int) -> Loss: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Loss, ...]: ...
    def __getitem__(self, index: int | slice) -> Loss | tuple[Loss, ...]:
        return self._get()[index]

    def __len__(self) -> int:
        return len(self._get())

    def __iter__(self) -> Iterator[Loss]:
        return iter(self._get())

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Losses | tuple):
            return self._get() == tuple(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._get())


class Reporter:
    """Where an encoder says what it could not say. It keeps the place, so that paths are only built for losses."""

    __slots__ = ("block", "losses", "message")

    def __init__(self) -> None:
        self.losses: list[Loss] = []
        self.message = 0
        self.block: int | None = None

    def lost(self, what: str, why: str, severity: Severity = "dropped", *, field: str | None = None) -> None:
        """A loss in the message or block at hand; `field` (its JSON name) when only that is lost."""
        path = f"$.messages[{self.message}]"
        if self.block is not None:
            path += f".content[{self.block}]"
        self.at(f"{path}.{field}" if field else path, what, why, severity)

    def at(self, path: str, what: str, why: str, severity: Severity = "dropped") -> None:
        """A loss anywhere else."""
        self.losses.append(Loss(path, what, why, severity))


class Lines(list[Any]):
    """The body of a line format: one JSON value a line."""


class Encoded(NamedTuple):
    """A body in some wire's shape (JSON values), and what it could not say."""

    body: Any
    losses: Sequence[Loss]

    def bytes(self) -> bytes:
        """The body as it goes over the network or into a file."""
        if isinstance(self.body, Lines):
            return b"".join(jsontext.write(line) + b"\n" for line in self.body)
        return jsontext.write(self.body)


def encoded(
    api: str, body: Any, source: Request | Struct, fates: Fates, reported: list[Loss], *, strict: bool = False
) -> Encoded:
    """An Encoded whose losses are what the encoder `reported` and what the table says is lost wherever it is set.

    In strict mode the first loss that is not mere bookkeeping is raised as Unsupported instead.
    """
    found = Losses(lambda: tuple(reported) + tuple(static_losses(source, fates, api)))
    if strict:
        for loss in found:
            if loss.severity != "record":
                raise Unsupported(api, f"{loss.what}: {loss.why}", loss.path)
    return Encoded(body, found)


def static_losses(source: Any, fates: Fates, api: str) -> Iterator[Loss]:
    """The losses that follow from the table alone, with their places in `source`."""
    if isinstance(source, Request):
        context = source.context
        parts = (
            (source.model, "$.model"),
            (context.system, "$.system"),
            (context.messages, "$.messages"),
            (context.tools, "$.tools"),
            (source.options, "$.options"),
        )
        for part, path in parts:
            yield from _walk(part, path, fates, api)
        yield from _foreign(source.extra, "$.extra", api)
        yield from _foreign(context.extra, "$.extra", api)
    else:
        yield from _walk(source, "$", fates, api)


def _walk(value: Any, path: str, fates: Fates, api: str) -> Iterator[Loss]:
    if isinstance(value, tuple):
        for at, item in enumerate(value):
            yield from _walk(item, f"{path}[{at}]", fates, api)
    elif isinstance(value, Struct):
        cls = type(value)
        for attribute, name, default, fate in _plan(cls, fates):
            item = getattr(value, attribute)
            if item is default or item == default:
                continue
            if attribute == "extra":
                yield from _foreign(item, f"{path}.extra", api)
            elif fate.kind in ("dropped", "weakened", "record"):
                if fate.unless is None or item != fate.unless:
                    yield Loss(f"{path}.{name}", attribute, fate.why, fate.kind)
            else:
                yield from _walk(item, f"{path}.{name}", fates, api)
    elif isinstance(value, CustomMessage):
        yield Loss(path, value.role, "this wire has no such role", "dropped")


def _foreign(extra: Mapping[str, Any], path: str, api: str) -> Iterator[Loss]:
    for owner, held in extra.items():
        if owner != api and held:
            yield Loss(f"{path}.{owner}", "extra", f"only {owner} can say it", "dropped")


_PLANS: dict[tuple[type, int], tuple[tuple[str, str, Any, Fate], ...]] = {}


def _plan(cls: type[Struct], fates: Fates) -> tuple[tuple[str, str, Any, Fate], ...]:
    key = (cls, id(fates))
    plan = _PLANS.get(key)
    if plan is None:
        plan = _PLANS[key] = tuple(
            (f.name, f.encode_name, f.default, fates.get(f"{cls.__name__}.{f.name}", KEPT)) for f in struct_fields(cls)
        )
    return plan
