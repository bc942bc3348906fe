"""Values and functions as other programs give them."""

from types import SimpleNamespace
from typing import Any

import pytest

from interlingua.tools.tool import FsStat, ToolContext
from interlingua.values.errors import FormatError
from interlingua.values.interop import attribute, attributes, camel_case, snake_case, struct_of, with_arguments


@pytest.mark.parametrize(
    ("name", "snake"),
    [
        ("workDir", "work_dir"),
        ("baseURL", "base_url"),
        ("HTMLParser", "html_parser"),
        ("a1B", "a1_b"),
        ("path", "path"),
    ],
)
def test_names_have_a_snake_case_form(name: str, snake: str) -> None:
    """Words are parted where a capital begins one, runs of capitals are one word."""
    assert snake == snake_case(name)


def test_names_have_a_camel_case_form() -> None:
    """The way back for plain words."""
    assert ("workDir", "path") == (camel_case("work_dir"), camel_case("path"))


@pytest.mark.parametrize("name", ["owner_only", "ownerOnly"])
@pytest.mark.parametrize("made", [dict, SimpleNamespace])
def test_a_field_is_found_in_either_spelling(name: str, made: Any) -> None:
    """In a mapping and in an object; None counts as absent."""
    assert True is attribute(made(**{name: True}), "owner_only")
    assert 7 == attribute(made(**{name: None}), "owner_only", 7)
    assert {"owner_only": True} == attributes(made(**{name: True, "other": 1}), ("owner_only", "label"))


def test_a_struct_is_made_of_a_mapping() -> None:
    """With its fields in either spelling; one that is a struct already is taken as it is."""
    stat = struct_of({"isFile": True, "is_directory": False, "size": 1, "mtimeMs": 2}, FsStat, "stat")
    assert FsStat(is_file=True, is_directory=False, size=1, mtime_ms=2) == stat
    assert stat is struct_of(stat, FsStat, "stat")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            {"workspace": "/x"},
            r"unknown fields 'workspace'; did you mean 'workspace_dir'\? valid fields: config, workspace_dir",
        ),
        (7, "context must be a ToolContext or a mapping, not int"),
    ],
)
def test_what_is_no_such_struct_is_an_error_with_the_valid_fields(value: Any, message: str) -> None:
    """A misspelt field is not ignored."""
    with pytest.raises(FormatError, match=message):
        struct_of(value, ToolContext, "context")


def test_a_missing_field_is_named() -> None:
    """Not the constructor's own words."""
    with pytest.raises(FormatError, match="stat lacks is_directory, size, mtime_ms"):
        struct_of({"isFile": True}, FsStat, "stat")


NAMES = ("a", "b", "c")


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda: (), ()),
        (lambda a: (a,), (1,)),
        (lambda a, b: (a, b), (1, 2)),
        (lambda a, b=None: (a, b), (1, 2)),
        (lambda a, b, c: (a, b, c), (1, 2, 3)),
        (lambda a, b, c, d=4: (a, b, c, d), (1, 2, 3, 4)),
        (lambda *args: args, (1, 2, 3)),
        (lambda a, *, c: (a, c), (1, 3)),
        (lambda a, *, other=5: (a, other), (1, 5)),
    ],
)
def test_a_function_gets_as_many_arguments_as_it_takes(function: Any, expected: tuple[int, ...]) -> None:
    """By position, or by name where it names them."""
    assert expected == with_arguments(function, NAMES)(1, 2, 3)


@pytest.mark.parametrize("function", [lambda a: a, lambda a, b, c, d: a])
def test_a_function_that_cannot_be_called_is_refused_before_it_is(function: Any) -> None:
    """With too few places, or with more than there are arguments."""
    with pytest.raises(FormatError, match=r"execute takes [14] arguments, but is given \(a, b, c\)"):
        with_arguments(function, NAMES, least=2, what="execute")
