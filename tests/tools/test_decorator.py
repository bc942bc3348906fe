"""Functions as tools."""

import asyncio
import dataclasses
import datetime
import enum
import threading
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pydantic
import pytest

from interlingua.tools.calling import call_tool
from interlingua.tools.decorator import tool
from interlingua.tools.tool import Tool, ToolResult, ToolUpdateCallback
from interlingua.values.abort import Abort
from interlingua.values.errors import FormatError, ToolInputError
from interlingua.values.python_types import parse_docstring


@tool
def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Both are whole.

    Args:
        a: The first.
        b (int): The second,
            on two lines.

    Returns:
        The sum.
    """
    return a + b


def test_a_function_becomes_a_tool() -> None:
    """Name, words and schema come from the function."""
    assert isinstance(add, Tool)
    assert ("add", "Add two numbers.\n\nBoth are whole.") == (add.name, add.description)
    assert {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "description": "The first."},
            "b": {"type": "integer", "description": "The second, on two lines.", "default": 2},
        },
        "required": ["a"],
        "additionalProperties": False,
    } == add.parameters


def test_the_function_can_still_be_called() -> None:
    """As if it had not been decorated, for tests of its own."""
    assert 5 == add(2, b=3)


async def test_a_call_runs_the_function() -> None:
    """The value is shown as JSON, and kept as it is."""
    result = await call_tool(add, "c1", {"a": 40})
    assert ("42", 42, False) == (result.text, result.details, result.is_error)


def test_the_decorator_takes_what_the_function_does_not_say() -> None:
    """Name, words, label and flags."""

    @tool(name="say_hi", description="Says hi.", label="Say hi", owner_only=True, sequential=True)
    def hello() -> str:
        return "hi"

    assert ("say_hi", "Says hi.", "Say hi", True, True) == (
        hello.name,
        hello.description,
        hello.label,
        hello.owner_only,
        hello.sequential,
    )
    assert {"type": "object", "properties": {}, "additionalProperties": False} == hello.parameters


def test_a_function_without_words_is_described_by_its_name() -> None:
    """Some providers refuse an empty description."""

    @tool
    def look_around() -> None: ...

    assert "look around" == look_around.description


@dataclasses.dataclass
class Place:
    name: str
    zoom: int = 1


class Point(msgspec.Struct):
    x: float
    y: float


class Options(TypedDict, total=False):
    deep: bool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Inner(pydantic.BaseModel):
    n: int


class Outer(pydantic.BaseModel):
    inner: list[Inner] = []
    more: "Outer | None" = None


class Holder(msgspec.Struct):
    held: Inner


SEEN: dict[str, Any] = {}


@tool
async def everything(
    place: Place,
    point: Point,
    options: Options,
    colour: Colour,
    mode: Literal["fast", "slow"],
    size: int | str,
    when: datetime.datetime,
    outer: Outer,
    inners: list[Inner],
    holder: Holder,
    count: Annotated[int, msgspec.Meta(ge=1, description="How many.")],
    tags: tuple[str, ...] = ("a",),
    maybe: float | None = None,
    anything=None,
) -> str:
    """Take everything."""
    SEEN.update(locals())
    return "ok"


GIVEN = {
    "place": {"name": "here"},
    "point": {"x": 1, "y": 2.5},
    "options": {"deep": True},
    "colour": "blue",
    "mode": "fast",
    "size": "big",
    "when": "2026-01-02T03:04:05Z",
    "outer": {"inner": [{"n": 1}], "more": {"inner": []}},
    "inners": [{"n": 2}],
    "holder": {"held": {"n": 3}},
    "count": 3,
    "tags": ["x", "y"],
    "anything": {"goes": 1},
}


async def test_typed_arguments_arrive_as_their_types() -> None:
    """Dataclasses, structs, typed dicts, enums, literals, unions, dates and pydantic models, one inside another."""
    result = await call_tool(everything, "c1", GIVEN)
    assert ("ok", False) == (result.text, result.is_error)
    expected = {
        "place": Place("here"),
        "point": Point(1.0, 2.5),
        "options": {"deep": True},
        "colour": Colour.BLUE,
        "mode": "fast",
        "size": "big",
        "when": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        "outer": Outer(inner=[Inner(n=1)], more=Outer()),
        "inners": [Inner(n=2)],
        "holder": Holder(Inner(n=3)),
        "count": 3,
        "tags": ("x", "y"),
        "maybe": None,
        "anything": {"goes": 1},
    }
    assert expected == SEEN


def test_the_schema_of_typed_arguments_is_whole() -> None:
    """Every reference is found at the root, constraints and defaults are said."""
    schema = everything.parameters
    assert {"Place", "Point", "Options", "Colour", "Outer", "Inner", "Holder"} == set(schema["$defs"])
    assert {"type": "integer", "minimum": 1, "description": "How many."} == schema["properties"]["count"]
    assert ["a"] == schema["properties"]["tags"]["default"]
    assert {} == schema["properties"]["anything"]
    assert list(GIVEN)[:11] == schema["required"]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"place": {"zoom": 1}}, "place.name: is required"),
        ({"colour": "bleu"}, 'colour: must be one of "red", "blue", got "bleu"; did you mean "blue"?'),
        ({"count": 0}, "count: is less than the minimum of 1, got 0"),
        ({"outer": {"inner": [{"n": "x"}]}}, 'outer.inner[0].n: expected integer, got "x"'),
        ({"when": "soon"}, "when: Invalid RFC3339 encoded datetime"),
        ({"plase": 1}, 'plase: unknown argument; did you mean "place"?'),
    ],
)
async def test_wrong_arguments_are_answered_with_what_is_wrong(change: Any, place: str) -> None:
    """The place, what was expected and what came; the function is not run."""
    SEEN.clear()
    result = await call_tool(everything, "c1", {**GIVEN, **change})
    assert (True, {}) == (result.is_error, SEEN)
    assert place in result.text


async def test_a_sync_function_does_not_block_the_loop() -> None:
    """It runs in a thread: it can wait for what the loop does."""
    freed = threading.Event()

    @tool
    def wait() -> str:
        return "freed" if freed.wait(20) else "blocked"

    running = asyncio.ensure_future(call_tool(wait, "c1", {}))
    await asyncio.sleep(0.01)
    freed.set()
    assert "freed" == (await running).text


async def test_the_signal_and_the_updates_are_for_the_function_alone() -> None:
    """Parameters with these types are filled in; the model sees neither."""

    @tool
    async def work(n: int, stop: Abort, tell: ToolUpdateCallback | None = None) -> bool:
        assert tell is not None
        tell(ToolResult(details=n))
        return stop.aborted

    received: list[Any] = []
    result = await call_tool(work, "c1", {"n": 7}, on_update=lambda partial: received.append(partial.details))
    assert (["n"], [7], False) == (list(work.parameters["properties"]), received, result.details)
    refused = await call_tool(work, "c1", {"n": 7, "stop": 1})
    assert "stop: unknown argument" in refused.text


async def test_a_function_that_asks_for_the_signal_gets_one() -> None:
    """Also when it is executed without; one that can do without gets none."""

    @tool
    def both(stop: Abort, tell: ToolUpdateCallback, other: Abort | None) -> list[bool]:
        tell(ToolResult())
        return [stop.aborted, other is None]

    assert [False, True] == (await both.execute("c1", {})).details


async def test_a_function_that_makes_a_coroutine_is_awaited() -> None:
    """Whether it says that it is asynchronous or not; positional-only parameters and methods work too."""

    class Adder:
        async def plus(self, a: int, /, b: int) -> int:
            return a + b

        async def __call__(self, a: int) -> int:
            return a + 1

    @tool
    def later(a: int) -> Any:
        return Adder().plus(a, 1)

    assert 3 == (await later.execute("c1", {"a": 2})).details
    assert 5 == (await tool(Adder().plus).execute("c1", {"a": 2, "b": 3})).details
    assert 8 == (await tool(name="next")(Adder()).execute("c1", {"a": 7})).details


@pytest.mark.parametrize(
    ("params", "message"),
    [({}, "missing argument: a"), ({"a": 1, "c": 2}, "unknown argument: c; known: a, b"), ({"a": "x"}, "a: Expected")],
)
async def test_a_tool_refuses_nonsense_even_when_nobody_checked(params: Any, message: str) -> None:
    """Executed directly, it says what is wrong with its arguments."""
    with pytest.raises(ToolInputError, match=message):
        await add.execute("c1", params)


def test_functions_that_cannot_be_tools_are_refused_where_they_are_decorated() -> None:
    """The error names the tool and what to do."""

    def many(*args: int) -> None: ...

    def unknown(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    def odd(a: threading.Lock) -> None: ...

    for function, message in ((many, "name each parameter"), (unknown, "Nowhere"), (odd, "has no JSON Schema")):
        with pytest.raises(FormatError, match=message):
            tool(function)


def test_two_types_with_one_name_are_distinguished() -> None:
    """One of them is renamed, and so is what refers to it."""

    class Other(pydantic.BaseModel):
        inner: "dict[str, Inner]"

    clash = pydantic.create_model("Inner", other=(str, ...))

    class Second(pydantic.BaseModel):
        inner: clash  # type: ignore[valid-type]

    def use(first: Other, second: Second) -> None: ...

    use.__annotations__ = {"first": Other, "second": Second}
    schema = tool(use).parameters
    assert {"Inner", "Inner2"} == schema["$defs"].keys()
    assert {"$ref": "#/$defs/Inner2"} == schema["properties"]["second"]["properties"]["inner"]
    assert ["other"] == list(schema["$defs"]["Inner2"]["properties"])


GOOGLE = """Do.

Args:
    a: One.
    b (int, optional): Two: more.

Returns:
    x: No."""
NUMPY = """Do.

Parameters
----------
a : int
    One.
b, c
    Two.

Returns
-------
int
    No."""
SPHINX = """Do.

:param a: One,
    still.
:param int b: Two.
:type a: int
:returns: No."""

DOCSTRINGS: list[tuple[str, str, dict[str, str]]] = [
    ("Just words.", "Just words.", {}),
    (GOOGLE, "Do.", {"a": "One.", "b": "Two: more."}),
    (NUMPY, "Do.", {"a": "One.", "b": "Two.", "c": "Two."}),
    (SPHINX, "Do.", {"a": "One, still.", "b": "Two."}),
    ("Do it.\nArgs are fine: really.", "Do it.\nArgs are fine: really.", {}),
    ("", "", {}),
    ("Do.\n\nArgs:", "Do.", {}),
    ("Do.\n\nRaises:\n    ValueError: if so.\n\nArgs:\n    a: One.", "Do.", {"a": "One."}),
]


@pytest.mark.parametrize(("text", "expected", "described"), DOCSTRINGS)
def test_docstrings_are_read_in_the_usual_styles(text: str, expected: str, described: dict[str, str]) -> None:
    """Google, NumPy and Sphinx; what is no section stays in the words."""
    assert (expected, described) == parse_docstring(text)
