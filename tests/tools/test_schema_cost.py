"""Validation within a budget: references and unions that double at each level are counted before they are followed."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlingua.connect.results import OutputType
from interlingua.tools.validation import validated
from interlingua.values.errors import FormatError
from interlingua.values.schema_cost import steps

UNIONS = ("anyOf", "oneOf", "allOf")


def doubled(depth: int, union: str, width: int = 2, last: Any = None) -> dict[str, Any]:
    """Each definition refers to the next `width` times."""
    definitions: dict[str, Any] = {f"a{at}": {union: [{"$ref": f"#/$defs/a{at + 1}"}] * width} for at in range(depth)}
    return {
        "$defs": {**definitions, f"a{depth}": last or {"type": "integer"}},
        "properties": {"x": {"$ref": "#/$defs/a0"}},
    }


def conditions(depth: int) -> dict[str, Any]:
    next_one = lambda at: {"$ref": f"#/$defs/a{at + 1}"}  # noqa: E731
    definitions: dict[str, Any] = {
        f"a{at}": {"if": next_one(at), "then": next_one(at), "else": next_one(at)} for at in range(depth)
    }
    return {"$defs": {**definitions, f"a{depth}": {"minimum": 3}}, "properties": {"x": {"$ref": "#/$defs/a0"}}}


def anchored(depth: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {
        f"a{at}": {"$anchor": f"n{at}", "anyOf": [{"$ref": f"#n{at + 1}"}] * 2} for at in range(depth)
    }
    last = {"$anchor": f"n{depth}", "type": "integer"}
    return {"$defs": {**definitions, "last": last}, "properties": {"x": {"$ref": "#n0"}}}


def tree(width: int) -> dict[str, Any]:
    return {"properties": {"x": {"anyOf": [{"$ref": "#"}] * width}}, "required": ["y"]}


def deep(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(depth):
        value = {"x": value}
    return value


BOMBS = [
    *((doubled(depth, union), {"x": "s"}) for union in UNIONS for depth in (14, 20, 28, 40, 60)),
    *((doubled(depth, "anyOf", 10), {"x": "s"}) for depth in (5, 8, 20)),
    *((doubled(28, union, last={"type": "string"}), {"x": "s"}) for union in UNIONS),
    *((conditions(depth), {"x": 1}) for depth in (20, 40)),
    *((anchored(depth), {"x": "s"}) for depth in (14, 28)),
    *((tree(width), deep(depth)) for width, depth in ((2, 16), (2, 28), (10, 20), (3, 60))),
    ({"properties": {"x": {"items": {"$ref": "#/properties/x"}, "anyOf": [{"$ref": "#/$defs/n"}] * 9}},
      "$defs": {"n": {"items": {"anyOf": [{"$ref": "#/$defs/n"}] * 9}}}}, {"x": [[[[[[[[[[1]]]]]]]]]]}),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value"), BOMBS)
def test_a_schema_that_doubles_is_answered_at_once(schema: dict[str, Any], value: dict[str, Any]) -> None:
    """With yes, no, or an error that says why; minutes would be spent otherwise."""
    try:
        _, problems = validated(schema, value)
        assert [] == problems or 1 == len(problems)
    except FormatError as error:
        assert "steps" in error.message or "compared" in error.message or "endlessly" in error.message


def test_a_tree_that_is_right_is_accepted() -> None:
    """Schemas of this kind are common: a node has children of its own kind, told apart by a constant."""
    kinds = [
        {"properties": {"kind": {"const": name}, "children": {"items": {"$ref": "#/$defs/node"}}}, "required": ["kind"]}
        for name in ("row", "column", "text", "image", "table", "form", "field", "button")
    ]
    schema = {"$defs": {"node": {"anyOf": kinds}}, "properties": {"root": {"$ref": "#/$defs/node"}}}
    node: dict[str, Any] = {"kind": "text"}
    for _ in range(40):
        node = {"kind": "row", "children": [node, {"kind": "image"}]}
    assert ({"root": node}, []) == validated(schema, {"root": node})
    _, problems = validated(schema, {"root": {"kind": "nothing"}})
    assert problems


def test_arguments_are_still_repaired_behind_a_reference() -> None:
    """The budget is for what is large; small schemas with references are explained and repaired as before."""
    schema = {"$defs": {"n": {"type": "integer"}}, "properties": {"x": {"$ref": "#/$defs/n"}}}
    assert ({"x": 5}, []) == validated(schema, {"x": "5"})
    assert ['x: expected integer, got "five"'] == validated(schema, {"x": "five"})[1]


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["x", "y"]), inner, max_size=2),
        max_leaves=12,
    ),
    st.integers(1, 3),
)
def test_steps_are_counted_for_any_value(value: Any, width: int) -> None:
    """At least one, and the same each time."""
    assert 1 <= steps(tree(width), value) == steps(tree(width), value)


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#/allOf/0"}]},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
    ],
)
def test_a_schema_that_is_a_circle_is_refused(schema: dict[str, Any]) -> None:
    """Following it would never end."""
    with pytest.raises(FormatError):
        validated(schema, {"x": 1})


@pytest.mark.parametrize("form", [{"$ref": "{}"}, {"$schema": "{}"}, {"properties": {"x": {"$ref": "{}#/a"}}}])
@pytest.mark.parametrize("use", [OutputType, lambda schema: validated(schema, {"x": 1})], ids=["output", "tool"])
def test_a_schema_opens_neither_addresses_nor_files(form: dict[str, Any], use: Any, tmp_path: Path) -> None:
    """Whoever writes a schema chooses no address that this program asks, and no file that it reads."""
    (tmp_path / "there.json").write_text("{}")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        for address in (f"http://127.0.0.1:{server.getsockname()[1]}/x", f"file://{tmp_path}/there.json"):
            with pytest.raises(FormatError):
                use(json.loads(json.dumps(form).replace("{}", address)))
        with pytest.raises(BlockingIOError):
            server.accept()
