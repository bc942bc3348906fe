"""Typed results of calls and runs: the type's schema, parsing of answers, and the `Result`."""

import re
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from msgspec import Struct, field

from ..values import jsontext
from ..values.errors import FormatError, InterlinguaError
from ..values.losses import Loss
from ..values.messages import AgentMessage, AssistantMessage, Cost, TextBlock, Usage, UserMessage
from ..values.partials import partial_value
from ..values.python_types import Mismatch, convert, is_object, schema_of
from ..values.request import OutputSchema
from ..values.schema_cost import is_costly, refuse_reference

if TYPE_CHECKING:
    import typing_extensions  # which knows defaults: an agent without `output` has any

    T = typing_extensions.TypeVar("T", default=Any)
else:
    T = TypeVar("T")
CORRECTIONS = 2  # how often an invalid response is sent back
_FENCE = re.compile(r"```[ \t]*(?:json5?|jsonc)?[ \t]*\r?\n?(.*?)```", re.DOTALL | re.IGNORECASE)
_WRAPPER = "value"  # the one property of an object around what is no object: providers want an object at the root


class Spent(Struct):
    """The usage of a run so far; cache reads and writes are counted separately too.

    `cost` is None once a response has an unknown price.
    """

    turns: int = 0
    tokens: int = 0
    cost: float | None = 0.0
    cache_read: int = 0
    cache_write: int = 0

    def add(self, answer: AssistantMessage) -> None:
        self.turns += 1
        usage = answer.usage
        if usage is None and answer.stop_reason in ("error", "aborted"):
            return  # nothing came
        if usage is not None:
            self.tokens += usage.total_tokens
            self.cache_read += usage.cache_read
            self.cache_write += usage.cache_write
        known = usage.cost.total if usage is not None and usage.cost is not None else None
        self.cost = self.cost + known if self.cost is not None and known is not None else None


class Result(Struct, Generic[T], frozen=True, kw_only=True):
    """The result of a call with `output`, or of an agent's run.

    `output` is the requested value; `messages` are new (for an agent also its calls and their results), `reason` is why
    it ended, `spent` its usage, `failure` the error, `losses` what could not be sent.
    """

    output: T = None  # type: ignore[assignment]
    messages: tuple[AgentMessage, ...] = ()
    reason: str = "done"
    spent: Spent = field(default_factory=Spent)
    failure: InterlinguaError | None = None
    losses: tuple[Loss, ...] = ()

    def __repr__(self) -> str:
        output = self.output if self.output is not None else self.text
        shown, turns = repr(output), self.spent.turns
        fields = [
            f"{shown[:200]}…" if len(shown) > 200 else shown,
            self.reason,
            f"{turns} answer{'s' if turns != 1 else ''}",
        ]
        fields += [f"failure={self.failure!r}"] if self.failure is not None else []
        return f"Result({', '.join(fields)})"

    @property
    def message(self) -> AssistantMessage | None:
        """The last response."""
        return next((m for m in reversed(self.messages) if isinstance(m, AssistantMessage)), None)

    @property
    def text(self) -> str:
        """The text of the last response."""
        return self.message.text if self.message is not None else ""

    def _repr_html_(self) -> str:
        from ..values.showing import messages_html

        return messages_html(self.messages, f"{self.reason}: {self.failure}" if self.failure else self.reason)

    @property
    def usage(self) -> Usage | None:
        """The usage of all responses; None if no response has any."""
        return total_usage(m.usage for m in self.messages if isinstance(m, AssistantMessage))


def total_usage(usages: Iterable[Usage | None]) -> Usage | None:
    """Sums usages; the cost is known if each one is."""
    known = [usage for usage in usages if usage is not None]
    if not known:
        return None
    costs = [usage.cost for usage in known if usage.cost is not None]
    return Usage(
        input=sum(usage.input for usage in known),
        output=sum(usage.output for usage in known),
        cache_read=sum(usage.cache_read for usage in known),
        cache_write=sum(usage.cache_write for usage in known),
        total_tokens=sum(usage.total_tokens for usage in known),
        reasoning=sum(usage.reasoning or 0 for usage in known) or None,
        cost=Cost(total=sum(cost.total for cost in costs)) if len(costs) == len(known) else None,
    )


class ParsedValue(NamedTuple):
    """The parsed value of a text; or the error, as a message for the model."""

    value: Any = None
    problem: str | None = None


class OutputType(Generic[T]):
    """The output type: a Python type, a JSON Schema, an `OutputSchema`, or any JSON object."""

    def __init__(self, given: Any) -> None:
        self._hint: Any = None
        self._is_wrapped = False
        if isinstance(given, OutputType):
            given = given.schema
        self.schema: OutputSchema
        if isinstance(given, OutputSchema):
            self.schema = given
        elif isinstance(given, dict) and not isinstance(given, type):
            self.schema = OutputSchema(schema=given)
        else:
            schema = schema_of(given)
            self._hint = given
            self._is_wrapped = not is_object(schema)
            self.schema = OutputSchema(schema=_wrapped(schema) if self._is_wrapped else schema, name=_name_of(given))
        if self.schema.schema is not None:
            self._validator  # noqa: B018  a schema that is none is refused now

    @cached_property
    def _validator(self) -> Any:
        return validator(self.schema.schema)

    def read(self, answer: AssistantMessage) -> ParsedValue:
        """Parses the value of a response."""
        if answer.stop_reason == "length":
            reading = self.read_text(answer.text)
            return reading if reading.problem is None else ParsedValue(problem="it was cut off by the output limit.")
        return self.read_text(answer.text)

    def read_text(self, text: str) -> ParsedValue:
        """Parses a text. A code fence around the JSON is accepted: models without a JSON mode add one."""
        first: ParsedValue | None = None
        for candidate in _candidates(text):
            reading = self._read(candidate)
            if reading.problem is None:
                return reading
            first = first or reading
        if self._hint is str and first is not None:
            return ParsedValue(text)  # a text that is no JSON is still a text
        return first or ParsedValue(problem="it is empty.")

    def partial(self, text: str) -> Any:
        """Parses an unfinished text as JSON, without what is missing and unvalidated. None before it begins."""
        text = text.lstrip("\ufeff \t\r\n")
        if text.startswith("```"):
            text = text.partition("\n")[2]
        value = partial_value(text) if text else None
        return value.get(_WRAPPER) if self._is_wrapped and isinstance(value, dict) else value

    def _read(self, text: str) -> ParsedValue:
        try:
            value = jsontext.read(text)
        except FormatError as error:
            reason = error.message.removeprefix("not JSON: ")
            return ParsedValue(problem=f"it is not JSON: {reason}.")
        if self.schema.schema is None:
            return ParsedValue(value) if isinstance(value, dict) else ParsedValue(problem="it is not a JSON object.")
        if self._is_wrapped and not (isinstance(value, dict) and value.keys() == {_WRAPPER}):
            value = {_WRAPPER: value}  # some models leave the object around it out
        try:
            problems = self._problems(value)
        except FormatError as error:
            return ParsedValue(problem=f"it cannot be checked ({error.message}).")
        if problems:
            return ParsedValue(problem=f"it does not match the schema: {'; '.join(problems[:5])}.")
        if self._hint is None:
            return ParsedValue(value)
        try:
            return ParsedValue(convert(value[_WRAPPER] if self._is_wrapped else value, self._hint))
        except Mismatch as error:
            return ParsedValue(problem=f"it does not match the schema: {error}.")

    def _problems(self, value: Any) -> list[str]:
        if is_costly(jsontext.write(self.schema.schema), self.schema.schema, value):
            return [] if self._validator.is_valid(value) else ["(root): it differs in many places"]
        return [
            f"{'/'.join(map(str, error.instance_path)) or '(root)'}: {error.message}"
            for error in islice(self._validator.iter_errors(value), 5)
        ]


def correction(problem: str, timestamp: int | None = None) -> UserMessage:
    """Returns the message to the model about an answer that does not match the type."""
    text = f"Your answer is not what was asked for: {problem} Answer again with the JSON alone."
    return UserMessage(content=(TextBlock(text=text),), timestamp=timestamp)


def validator(schema: Any) -> Any:
    """Returns a validator for the schema; raises FormatError if it is not a JSON Schema."""
    import jsonschema_rs

    try:
        return jsonschema_rs.validator_for(schema, retriever=refuse_reference)
    except ValueError as error:
        raise FormatError(f"the output schema is not a JSON Schema: {str(error).partition(chr(10))[0]}") from error


def _candidates(text: str) -> Iterator[str]:
    """The texts that may be the JSON: the whole, then what is in fences."""
    text = text.lstrip("\ufeff").strip()
    if text:
        yield text
    if "```" in text:
        for found in _FENCE.finditer(text):
            if inner := found[1].strip():
                yield inner


def _wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    shared = schema.get("$defs")
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    out = {"type": "object", "properties": {_WRAPPER: inner}, "required": [_WRAPPER], "additionalProperties": False}
    return out if shared is None else {**out, "$defs": shared}


def _name_of(hint: Any) -> str:
    """A name for a schema: letters, digits, `_` and `-` alone, as providers want it."""
    name = getattr(hint, "__name__", None) or "output"
    return re.sub(r"[^A-Za-z0-9_-]", "_", str(name))[:64] or "output"
