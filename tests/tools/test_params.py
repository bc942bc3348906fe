"""The readers of arguments: every row of their table, and where we differ on purpose."""

from typing import Any

import pytest

from interlingua.tools.params import (
    assert_required_params,
    read_boolean_param,
    read_number_param,
    read_string_array_param,
    read_string_param,
)
from interlingua.values.errors import InterlinguaError, ToolAuthorizationError, ToolInputError

ABSENT: dict[str, Any] = {}


STRINGS: list[tuple[Any, dict[str, Any], str | None]] = [
    ({"path": "a"}, {}, "a"),
    ({"path": "  a b "}, {}, "a b"),
    ({"path": " a "}, {"trim": False}, " a "),
    ({}, {}, None),
    ({"path": "  "}, {}, None),
    ({"path": "  "}, {"allow_empty": True}, ""),
    ({"path": "  "}, {"allow_empty": True, "trim": False}, "  "),
    ({"path": "  "}, {"allow_empty": True, "required": True}, ""),
    ({"path": 42}, {}, "42"),
    ({"path": 42.0}, {}, "42"),
    ({"path": 1.5}, {}, "1.5"),
    ({"path": 12345678901234567890}, {}, "12345678901234567890"),
    ({"path": True}, {}, None),
    ({"path": ["a"]}, {}, None),
    ({"path": {"a": 1}}, {}, None),
    ({"path": None}, {}, None),
]


@pytest.mark.parametrize(("params", "options", "expected"), STRINGS)
def test_text_is_read(params: Any, options: Any, expected: str | None) -> None:
    """Trimmed text, a number as its text, nothing for the rest."""
    assert expected == read_string_param(params, "path", **options)


@pytest.mark.parametrize(
    ("params", "options", "message"),
    [
        ({}, {}, "path required"),
        ({"path": None}, {}, "path required"),
        ({"path": True}, {}, "path required"),
        ({"path": ["a"]}, {}, "path required"),
        ({}, {"label": "File path"}, "File path required"),
        ({"path": " "}, {}, "path must not be blank"),
        ({"path": ""}, {"label": "File"}, "File must not be blank"),
    ],
)
def test_text_that_is_needed_and_not_there_is_an_error(params: Any, options: Any, message: str) -> None:
    """The error names the argument, by its label if it has one."""
    with pytest.raises(ToolInputError) as caught:
        read_string_param(params, "path", required=True, **options)
    assert message == str(caught.value)


@pytest.mark.parametrize(
    ("params", "key", "expected"),
    [
        ({"work_dir": "s"}, "workDir", "s"),
        ({"workDir": "c", "work_dir": "s"}, "workDir", "c"),
        ({"workDir": None, "work_dir": "s"}, "workDir", None),
        ({"workDir": "c"}, "work_dir", "c"),
        ({"workDir": "c", "work_dir": "s"}, "work_dir", "s"),
    ],
)
def test_the_other_spelling_is_tried_only_when_the_first_is_absent(params: Any, key: str, expected: Any) -> None:
    """Camel to snake as in the original, and snake to camel for tools written in Python; a null is present."""
    assert expected == read_string_param(params, key)


NUMBERS: list[tuple[Any, bool, Any]] = [
    (5, False, 5),
    (5.5, False, 5.5),
    ("5", False, 5),
    (" 5.5 ", False, 5.5),
    ("1e3", False, 1000.0),
    ("0x10", False, 16),
    ("007", False, 7),
    ("-3", False, -3),
    (0, False, 0),
    ("0", False, 0),
    (5.9, True, 5),
    ("5.9", True, 5),
    (-1.5, True, -2),
    (-7, True, -7),
    ("12345678901234567890", True, 12345678901234567890),
    (None, False, None),
]


@pytest.mark.parametrize(("value", "integer", "expected"), NUMBERS)
def test_numbers_are_read(value: Any, integer: bool, expected: Any) -> None:
    """A number or text that is one; whole numbers round down and keep every digit."""
    number = read_number_param({"n": value}, "n", integer=integer)
    assert expected == number
    assert not integer or number is None or isinstance(number, int)


@pytest.mark.parametrize(
    "value",
    ["abc", "", "  ", "1_000", "Infinity", "nan", True, False, [], [1], {}, float("nan"), float("inf"), "9" * 5000],
)
def test_what_is_no_number_is_an_error_even_when_it_is_not_needed(value: Any) -> None:
    """Blank text is not 0, true is not 1, and infinity is no number that JSON knows."""
    with pytest.raises(ToolInputError, match=r"^Count must be a number$"):
        read_number_param({"n": value}, "n", label="Count")


def test_a_number_that_is_needed_must_be_there() -> None:
    """Absent and null are the same."""
    for params in (ABSENT, {"n": None}):
        with pytest.raises(ToolInputError, match=r"^n required$"):
            read_number_param(params, "n", required=True)
    assert read_number_param(ABSENT, "n") is None
    assert 3 == read_number_param({"max_lines": 3}, "maxLines", required=True)


BOOLEANS = [
    (True, True),
    (False, False),
    ("true", True),
    ("TRUE", True),
    ("false", False),
    ("1", True),
    ("0", False),
    ("yes", False),
    (" true", False),
    ("", False),
    (1, True),
    (0, False),
    (float("nan"), False),
    ([], True),
    ({}, True),
]


@pytest.mark.parametrize(("value", "expected"), BOOLEANS)
def test_truth_values_are_read(value: Any, expected: bool) -> None:
    """Of texts only `true` and `1` are true; an empty list is true, as where these readers come from."""
    assert expected is read_boolean_param({"b": value}, "b")


def test_truth_values_have_a_default_or_are_required() -> None:
    """The default by position or name; what is required and false is there."""
    assert (False, True, True) == (
        read_boolean_param(ABSENT, "b"),
        read_boolean_param(ABSENT, "b", True),
        read_boolean_param({"b": None}, "b", default=True),
    )
    assert read_boolean_param({"b": False}, "b", required=True) is False
    assert read_boolean_param({"dry_run": True}, "dryRun")
    with pytest.raises(ToolInputError, match=r"^Flag required$"):
        read_boolean_param(ABSENT, "b", required=True, label="Flag")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["a", "b"], ["a", "b"]),
        ("a, b", ["a, b"]),
        ("", [""]),
        ([], []),
        ([1, 2.0, True], ["1", "2", "true"]),
        (None, None),
    ],
)
def test_lists_of_text_are_read(value: Any, expected: Any) -> None:
    """One text is a list of one, as it is; numbers and truth values become text."""
    assert expected == read_string_array_param({"l": value}, "l")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (5, "Tags must be a string or string array"),
        ({"a": 1}, "Tags must be a string or string array"),
        (["a", None], r"Tags\[1\] must be a string"),
        ([{"a": 1}], r"Tags\[0\] must be a string"),
    ],
)
def test_what_is_no_list_of_text_is_an_error(value: Any, message: str) -> None:
    """Null and objects in a list are not made into text in silence."""
    with pytest.raises(ToolInputError, match=f"^{message}$"):
        read_string_array_param({"l": value}, "l", label="Tags")


def test_a_list_that_is_needed_may_be_empty_but_not_absent() -> None:
    """An empty list is a list."""
    assert [] == read_string_array_param({"l": []}, "l", required=True)
    with pytest.raises(ToolInputError, match=r"^l required$"):
        read_string_array_param(ABSENT, "l", required=True)


def test_required_params_are_asserted() -> None:
    """The first that is absent, null or empty is named; blanks pass, and so does the other spelling."""
    assert_required_params({"a": 0, "b": " ", "work_dir": "x"}, ["a", "b", "workDir"])
    for params in (ABSENT, {"a": None}, {"a": ""}):
        with pytest.raises(ToolInputError, match=r"^a required$"):
            assert_required_params(params, ["a", "z"])


def test_the_errors_have_their_status() -> None:
    """400 and 403; who may not is a special case of what cannot be."""
    assert (400, 403) == (ToolInputError("x").status, ToolAuthorizationError("x").status)
    assert issubclass(ToolAuthorizationError, ToolInputError) and issubclass(ToolInputError, InterlinguaError)
