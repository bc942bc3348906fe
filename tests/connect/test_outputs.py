"""Typed results: a Python type in, a value of it out, on every wire; what does not fit is sent back, then an error."""

import asyncio
import dataclasses
import datetime
import decimal
import enum
import json
import pathlib
import uuid
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, Optional, TypedDict, TypeVar

import pydantic
import pytest
from msgspec import Meta, Struct

import interlingua as il
from interlingua.connect.results import OutputType, Result
from interlingua.testing import Server
from interlingua.values.errors import OutputInvalid

WIRES = [
    "openai-completions",
    "openai-responses",
    "anthropic-messages",
    "google-generative-ai",
    "bedrock-converse-stream",
    "ollama-chat",
]


@dataclasses.dataclass
class Person:
    """Somebody.

    Attributes:
        name: The full name.
        age: In years.
    """

    name: str
    age: int


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Rank(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Node:
    value: int
    children: "list[Node]" = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Circle:
    radius: float
    kind: Literal["circle"] = "circle"


@dataclasses.dataclass
class Square:
    side: float
    kind: Literal["square"] = "square"


@dataclasses.dataclass
class Drawing:
    shapes: list[Circle | Square]
    title: str | None = None


class Point(Struct):
    x: int
    y: int = 0


class Tagged(Struct, tag="a"):
    n: int


class OtherTagged(Struct, tag="b"):
    n: int


class Renamed(Struct, rename="camel"):
    first_name: str


class Model(pydantic.BaseModel):
    name: str = pydantic.Field(description="who")
    score: float = pydantic.Field(ge=0, le=1)


class Inner(pydantic.BaseModel):
    a: int


class Outer(pydantic.BaseModel):
    inner: Inner
    many: list[Inner] = []


class Row(TypedDict):
    id: int
    note: NotRequired[str]


class Pair(NamedTuple):
    left: str
    right: int = 1


T = TypeVar("T")


@dataclasses.dataclass
class Box(Generic[T]):
    content: T


@dataclasses.dataclass
class Limited:
    count: Annotated[int, Meta(ge=1, le=5)]
    name: Annotated[str, "how it is called"]
    tags: Annotated[list[str], Meta(max_length=2)] = dataclasses.field(default_factory=list)


UTC = datetime.UTC
# A type, JSON that is a value of it, and that value.
CASES: list[tuple[Any, Any, Any]] = [
    (Person, {"name": "Ada", "age": 36}, Person("Ada", 36)),
    (Node, {"value": 1, "children": [{"value": 2}]}, Node(1, [Node(2)])),
    (Node, {"value": 1}, Node(1)),
    (Drawing, {"shapes": [{"radius": 1.5}, {"side": 2}]}, Drawing([Circle(1.5), Square(2)])),
    (Drawing, {"shapes": [], "title": None}, Drawing([])),
    (Point, {"x": 1}, Point(1)),
    (Renamed, {"firstName": "A"}, Renamed("A")),
    (Tagged | OtherTagged, {"type": "b", "n": 1}, OtherTagged(1)),
    (Model, {"name": "x", "score": 0.5}, Model(name="x", score=0.5)),
    (Outer, {"inner": {"a": 1}, "many": [{"a": 2}]}, Outer(inner=Inner(a=1), many=[Inner(a=2)])),
    (Model | None, None, None),
    (Row, {"id": 1}, {"id": 1}),
    (Row, {"id": 1, "note": "n"}, {"id": 1, "note": "n"}),
    (Pair, {"left": "l"}, Pair("l")),
    (Box[int], {"content": 3}, Box(3)),
    (Box[list[Person]], {"content": [{"name": "A", "age": 1}]}, Box([Person("A", 1)])),
    (Limited, {"count": 5, "name": "n"}, Limited(5, "n")),
    (int, 5, 5),
    (float, 5, 5.0),
    (str, "text", "text"),
    (bool, True, True),
    (type(None), None, None),
    (list[int], [1, 2], [1, 2]),
    (list[Person], [{"name": "A", "age": 1}], [Person("A", 1)]),
    (list[list[str]], [["a"], []], [["a"], []]),
    (set[int], [1, 2], {1, 2}),
    (frozenset[str], ["a"], frozenset({"a"})),
    (tuple[int, str], [1, "a"], (1, "a")),
    (tuple[int, ...], [1, 2, 3], (1, 2, 3)),
    (dict[str, int], {"a": 1}, {"a": 1}),
    (dict[str, Person], {"a": {"name": "A", "age": 1}}, {"a": Person("A", 1)}),
    (dict[str, Any], {"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
    (Colour, "red", Colour.RED),
    (Rank, 2, Rank.HIGH),
    (list[Colour], ["red", "blue"], [Colour.RED, Colour.BLUE]),
    (Literal["yes", "no"], "no", "no"),
    (Literal[1, 2], 2, 2),
    (int | str, "5", "5"),
    (int | str, 5, 5),
    (Person | str, "nobody", "nobody"),
    (Person | list[Person], [{"name": "A", "age": 1}], [Person("A", 1)]),
    (Circle | Square, {"side": 1}, Square(1)),
    (Optional[int], None, None),  # noqa: UP045
    (Optional[int], 4, 4),  # noqa: UP045
    (datetime.date, "2026-01-02", datetime.date(2026, 1, 2)),
    (datetime.datetime, "2026-01-02T03:04:05Z", datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)),
    (datetime.time, "03:04:05", datetime.time(3, 4, 5)),
    (datetime.timedelta, "PT90S", datetime.timedelta(seconds=90)),
    (uuid.UUID, "12345678-1234-5678-1234-567812345678", uuid.UUID("12345678-1234-5678-1234-567812345678")),
    (decimal.Decimal, "1.50", decimal.Decimal("1.50")),
    (Annotated[int, Meta(ge=3)], 3, 3),
    (Annotated[str, Meta(pattern="^a")], "abc", "abc"),
    (Annotated[str, "a word"], "word", "word"),
    (list[Annotated[int, Meta(gt=0)]], [1], [1]),
    (dict[str, list[int | None]], {"a": [1, None]}, {"a": [1, None]}),
    (dict[Literal["a", "b"], int], {"a": 1}, {"a": 1}),
    (Any, {"free": 1}, {"free": 1}),
    ({"type": "object", "properties": {"a": {"type": "integer"}}}, {"a": 1}, {"a": 1}),
    ({"type": "array", "items": {"type": "string"}}, ["a"], ["a"]),
    ({"type": ["string", "null"]}, None, None),
]
NAMES = [f"{getattr(hint, '__name__', str(hint))[:40]}-{at}" for at, (hint, _, _) in enumerate(CASES)]


def answer_of(hint: Any, value: Any) -> str:
    """The text with which a model that follows the schema answers."""
    schema = OutputType[Any](hint).schema.schema
    wrapped = list(schema.get("properties", {})) == ["value"] and not isinstance(hint, dict)
    return json.dumps({"value": value} if wrapped and hint is not Box else value)


@pytest.mark.parametrize(("hint", "value", "expected"), CASES, ids=NAMES)
def test_a_value_of_the_type_is_read(hint: Any, value: Any, expected: Any) -> None:
    """With or without the object that providers want at the root."""
    asked = OutputType[Any](hint)
    for text in (answer_of(hint, value), json.dumps(value)):
        if text.startswith('{"value"') and hint is Node:
            continue
        reading = asked.read_text(text)
        assert (None, expected) == (reading.problem, reading.value)
        assert type(expected) is type(reading.value)


@pytest.mark.parametrize(("hint", "value", "expected"), CASES, ids=NAMES)
def test_every_schema_has_an_object_at_its_root_and_is_valid(hint: Any, value: Any, expected: Any) -> None:
    """As providers want it; those that the caller wrote are left alone."""
    import jsonschema_rs

    schema = OutputType[Any](hint).schema.schema
    jsonschema_rs.meta.validate(schema)
    if not isinstance(hint, dict):
        root = schema if "$ref" not in schema else schema["$defs"][schema["$ref"].rpartition("/")[2]]
        assert "object" == root["type"]


@pytest.mark.parametrize("api", WIRES)
def test_every_type_comes_back_over_every_wire(api: str) -> None:
    """The provider's server checks each request strictly; the schema arrives as the wire has it."""

    async def main() -> None:
        async with Server(strict=True) as server:
            model = il.ModelDescriptor(id="m-1", api=api, provider="test", base_url=server.base_url(api))
            for hint, value, expected in CASES:
                server.say(answer_of(hint, value))
                result = await il.complete(model, "answer", output=hint, api_key="k", max_tokens=100)
                assert expected == result.output
                assert isinstance(result.message, il.AssistantMessage)

    asyncio.run(main())


GOOD = '{"name": "Ada", "age": 36}'
# An answer that a model may give to `Person`, and whether it is read or sent back with words that say why.
ANSWERS: list[tuple[str, str | None]] = [
    (GOOD, None),
    (f"```json\n{GOOD}\n```", None),
    (f"```JSON\n{GOOD}\n```", None),
    (f"```\n{GOOD}\n```", None),
    (f"```json {GOOD}```", None),
    (f"```{GOOD}```", None),
    (f"```json\r\n{GOOD}\r\n```", None),
    (f"\ufeff{GOOD}", None),
    (f"\ufeff```json\n{GOOD}\n```", None),
    (f"  \n\t{GOOD}\n\n", None),
    (f"Here it is:\n```json\n{GOOD}\n```\nI hope this helps!", None),
    (f"First a wrong one:\n```json\n{{}}\n```\nthen\n```json\n{GOOD}\n```", None),
    (f"```python\nprint(1)\n```\n```json\n{GOOD}\n```", None),
    ('{"age": 36, "name": "Ada"}', None),
    ('{"name": "A \\"quoted\\" ```name```", "age": 1}', None),
    ("", "it is empty"),
    ("   ", "it is empty"),
    ("Ada, 36", "not JSON"),
    (f"Sure! {GOOD}", "not JSON"),
    (f"{GOOD} Done.", "not JSON"),
    (GOOD[:-1], "not JSON"),
    (GOOD[:12], "not JSON"),
    (f"```json\n{GOOD[:-1]}\n```", "not JSON"),
    (f"```json\n{GOOD}", "not JSON"),
    ("{'name': 'Ada', 'age': 36}", "not JSON"),
    ('{"name": "Ada", "age": 36,}', "not JSON"),
    ('{"name": "Ada", age: 36}', "not JSON"),
    ('{"name": "Ada", "age": NaN}', "not JSON"),
    (f"{GOOD}\n{GOOD}", "not JSON"),
    (f"// a person\n{GOOD}", "not JSON"),
    ("null", "schema"),
    ("[]", "schema"),
    (f"[{GOOD}]", "schema"),
    ('"Ada"', "schema"),
    ("36", "schema"),
    ("{}", "name"),
    ('{"name": "Ada"}', "age"),
    ('{"name": "Ada", "age": "36"}', "age"),
    ('{"name": "Ada", "age": 36.5}', "age"),
    ('{"name": null, "age": 36}', "name"),
    ('{"name": ["Ada"], "age": 36}', "name"),
    ('{"name": "Ada", "age": 36, "extra": 1}', "extra"),
    (f'{{"person": {GOOD}}}', "person"),
]


@pytest.mark.parametrize(("text", "problem"), ANSWERS)
def test_an_answer_is_read_or_its_problem_named(text: str, problem: str | None) -> None:
    """Fences, marks and blanks around the JSON are no mistakes; anything else is, and the model is told which."""
    reading = OutputType[Person](Person).read_text(text)
    if problem is None:
        assert reading.problem is None
        assert isinstance(reading.value, Person)
    else:
        assert reading.value is None
        assert problem in str(reading.problem)


def asking(server: Server, api: str = "openai-completions") -> il.ModelDescriptor:
    return il.ModelDescriptor(id="m-1", api=api, provider="test", base_url=server.base_url(api))


@pytest.mark.parametrize("api", WIRES)
async def test_an_answer_that_does_not_fit_is_sent_back_with_the_reason(api: str) -> None:
    """The second request has the answer and what is wrong with it; the result has both answers and their usage."""
    async with Server(strict=True) as server:
        server.say("Ada, 36")
        server.say(GOOD)
        result = await il.complete(asking(server, api), "who?", output=Person, api_key="k", max_tokens=99)
        assert Person("Ada", 36) == result.output
        assert ["assistant", "user", "assistant"] == [getattr(message, "role", "") for message in result.messages]
        assert 2 == result.spent.turns
        sent = server.last.request.context.messages
        assert ["Ada, 36", True] == [sent[-2].text, "it is not JSON" in sent[-1].text]


@pytest.mark.parametrize("text", ['{"value": "Oslo."}', '"Oslo."', "Oslo."])
async def test_a_text_may_be_asked_for_and_come_as_it_is(text: str) -> None:
    """Models without a JSON mode answer a plain question plainly; that is no mistake to send back."""
    async with Server(strict=True) as server:
        server.say(text)
        result = await il.complete(asking(server, "openai-completions"), "capital?", output=str, api_key="k")
        assert ("Oslo.", 1) == (result.output, len(server.requests))


async def test_an_answer_that_never_fits_is_an_error_with_the_last_one() -> None:
    """It is not returned as a success, and what was paid for is not lost."""
    async with Server(strict=True) as server:
        for text in ("no", "never", '{"name": 1}'):
            server.say(text)
        with pytest.raises(OutputInvalid, match="schema") as caught:
            await il.complete(asking(server), "who?", output=Person, api_key="k")
        assert caught.value.partial is not None
        assert '{"name": 1}' == caught.value.partial.text
        assert 3 == len(server.requests)


async def test_a_conversation_keeps_its_system_text_and_options_when_an_answer_is_sent_back() -> None:
    """Whatever was asked: a context, a request, a conversation."""
    context = il.Context(system="Be brief.", messages=[il.UserMessage("who?")])
    request = il.Request(model=il.ModelDescriptor(id="x"), context=context, options=il.Options(temperature=0.5))
    for given in (context, request, il.Conversation.of(request)):
        async with Server(strict=True) as server:
            server.say("no")
            server.say(GOOD)
            await il.complete(asking(server), given, output=Person, api_key="k")
            assert "Be brief." == server.last.request.context.system_prompt
            if given is not context:
                assert 0.5 == server.last.request.options.temperature


async def test_a_valid_null_is_an_output() -> None:
    """It is no failure, in a call or in an agent's run."""
    async with Server(strict=True) as server:
        server.say('{"value": null}')
        assert (await il.complete(asking(server), "who?", output=Person | None, api_key="k")).output is None
        server.say('{"value": null}')
        agent = il.Agent[Any](asking(server), output=Person | None, api_key="k")
        result = await agent.prompt("who?", raise_on_error=True)
        assert ("done", None) == (result.reason, result.output)


async def test_an_agent_gives_the_same_result() -> None:
    """`Agent[Person]` and `complete` have one `Result`."""
    async with Server(strict=True) as server:
        server.say("hm")
        server.say(GOOD)
        result = await il.Agent[Person](asking(server), output=Person, api_key="k").prompt("who?")
        assert isinstance(result, Result)
        assert Person("Ada", 36) == result.output
        assert result.usage is not None
        assert 2 == result.spent.turns


async def test_a_run_without_a_fitting_output_can_raise() -> None:
    """Or says so in its result."""
    async with Server(strict=True) as server:
        for _ in range(6):
            server.say("no")
        agent = il.Agent[Person](asking(server), output=Person, api_key="k")
        result = await agent.prompt("who?")
        assert "error" == result.reason
        assert isinstance(result.failure, OutputInvalid)
        with pytest.raises(OutputInvalid):
            await agent.prompt("who?", raise_on_error=True)


async def test_partial_objects_come_while_the_answer_streams() -> None:
    """Each holds what has come; the last one is the value of the type."""
    async with Server(strict=True) as server:
        server.say(GOOD)
        stream = il.stream(asking(server), "who?", output=Person, api_key="k")
        seen = [stream.partial_output async for _ in stream]
        assert {"name": "Ada", "age": 36} == seen[-1]
        grown = [one for one in seen if one is not None]
        assert all(set(one) <= {"name", "age"} for one in grown)
        assert grown[0] != grown[-1]  # although all of it had come before the first event was read
        assert Person("Ada", 36) == stream.output


def test_the_sync_face_has_typed_results_too() -> None:
    """Also for streams."""
    with Server(strict=True) as server:
        server.say(GOOD)
        assert Person("Ada", 36) == il.sync.complete(asking(server), "who?", output=Person, api_key="k").output
        server.say(GOOD)
        stream = il.sync.stream(asking(server), "who?", output=Person, api_key="k")
        list(stream)
        assert Person("Ada", 36) == stream.output


def test_descriptions_come_from_docstrings_and_annotations() -> None:
    """The model reads them."""
    schema = OutputType[Any](Person).schema.schema
    assert "Somebody." == schema["description"]
    assert "The full name." == schema["properties"]["name"]["description"]
    assert "how it is called" == OutputType[Any](Limited).schema.schema["properties"]["name"]["description"]
    assert "who" == OutputType[Any](Model).schema.schema["properties"]["name"]["description"]


def test_constraints_are_in_the_schema_and_are_checked() -> None:
    """Those of msgspec, of pydantic, and of a class's own checks."""
    assert {"minimum": 1, "maximum": 5} == {
        key: value
        for key, value in OutputType[Any](Limited).schema.schema["properties"]["count"].items()
        if key in ("minimum", "maximum")
    }
    assert OutputType[Any](Limited).read_text('{"count": 9, "name": "x"}').problem is not None
    assert OutputType[Any](Model).read_text('{"name": "x", "score": 2}').problem is not None

    @dataclasses.dataclass
    class Even:
        n: int

        def __post_init__(self) -> None:
            if self.n % 2:
                raise ValueError("n must be even")

    assert "n must be even" in str(OutputType[Any](Even).read_text('{"n": 3}').problem)


@pytest.mark.parametrize("hint", [object(), 5, dict[int, str], type("Plain", (), {})])
def test_a_type_without_a_schema_is_refused_at_the_call(hint: Any) -> None:
    """With the type and what to use instead, before anything is sent."""
    with pytest.raises(il.FormatError, match="no JSON Schema"):
        il.stream("debug/parrot-1", "who?", output=hint)


def test_two_schemas_for_one_answer_are_refused() -> None:
    """It would be unclear which counts."""
    with pytest.raises(il.InterlinguaError, match="exclude each other"):
        il.stream("debug/parrot-1", "who?", output=Person, output_schema={"type": "object"})


def test_a_partial_object_is_that_of_the_event_that_was_read() -> None:
    """In a plain loop as well, however fast the answer came."""
    with Server(strict=True) as server:
        server.say(GOOD)
        stream = il.sync.stream(asking(server), "who?", output=Person, api_key="k")
        seen = [stream.partial_output for _ in stream]
        assert seen[0] is None
        assert {"name": "Ada", "age": 36} == seen[-1]


def test_a_whole_number_with_a_fraction_of_zero_is_an_integer() -> None:
    """As in JSON Schema: 36.0 is 36."""
    assert 3 == OutputType(int).read_text("3.0").value
    assert Person("Ada", 36) == OutputType(Person).read_text('{"name": "Ada", "age": 36.0}').value
    assert OutputType(int).read_text("3.5").problem is not None


class Adult(pydantic.BaseModel):
    age: int

    @pydantic.field_validator("age")
    @classmethod
    def _is_adult(cls, age: int) -> int:
        if age < 18:
            raise ValueError("too young")
        return age


def test_what_pydantic_refuses_is_told_in_one_line() -> None:
    """Without the addresses of its documentation."""
    problem = OutputType(Adult).read_text('{"age": 5}').problem
    assert "it does not match the schema: age: Value error, too young." == problem


@pytest.mark.parametrize("type", [complex, pathlib.Path, Server], ids=["complex", "path", "class"])
def test_a_type_without_a_schema_is_refused_in_one_line(type: Any) -> None:
    """With what to use instead."""
    with pytest.raises(il.FormatError, match="use plain types, dataclasses or pydantic models") as caught:
        OutputType(type)
    assert "\n" not in str(caught.value)
