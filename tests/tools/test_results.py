"""The builders of results."""

import dataclasses
import datetime
import json
from typing import Any

import pydantic
import pytest

from interlingua.tools.decorator import tool
from interlingua.tools.tool import (
    NO_OUTPUT,
    ToolResult,
    as_result,
    error_result,
    image_result,
    json_result,
    text_result,
)
from interlingua.values.errors import FormatError
from interlingua.values.messages import AudioBlock, DocumentBlock, ImageBlock, TextBlock


@pytest.mark.parametrize("payload", [{"a": {"b": [1, "é"]}}, [1, 2], None, "x", 12345678901234567890])
def test_a_payload_is_shown_as_json_and_kept_as_it_is(payload: Any) -> None:
    """One block of indented JSON, and the payload itself for programs."""
    result = json_result(payload)
    assert json.dumps(payload, indent=2, ensure_ascii=False) == result.text
    assert (1, True) == (len(result.content), result.details is payload)


def test_a_payload_that_holds_itself_is_refused() -> None:
    """It has no end, and no JSON."""
    payload: dict[str, Any] = {}
    payload["self"] = payload
    with pytest.raises(FormatError):
        json_result(payload)


def test_half_a_character_does_not_stop_a_result() -> None:
    """An unpaired surrogate becomes the replacement character."""
    assert '"�"' == json_result("\ud800").text


def test_text_is_one_block() -> None:
    """With details, or without."""
    assert ToolResult(content=(TextBlock(text="hi"),)) == text_result("hi")
    assert {"n": 1} == text_result("hi", {"n": 1}).details


def test_an_error_is_json_and_says_that_it_is_one() -> None:
    """Three keys in their order, the same in the details, and the flag that the original lacks."""
    result = error_result("read", ValueError("no such file"))
    expected = {"status": "error", "tool": "read", "error": "no such file"}
    assert list(expected.items()) == list(json.loads(result.text).items())
    assert (expected, True, '{"status":"error",') == (result.details, result.is_error, result.text[:18])


def test_an_image_comes_after_its_words() -> None:
    """The MEDIA line, the words, the image."""
    result = image_result(label="shot", base64="aGk=", mime_type="image/png", path="/s.png", extra_text="A screen")
    assert (
        TextBlock(text="MEDIA:/s.png"),
        TextBlock(text="A screen"),
        ImageBlock(data="aGk=", mime_type="image/png"),
    ) == result.content
    assert {"label": "shot", "path": "/s.png"} == result.details


def test_an_image_may_come_alone_and_with_its_own_details() -> None:
    """No path, no line; details that are given replace the usual ones."""
    alone = image_result(label="x", base64="aGk=", mime_type="image/png", extra_text="")
    assert (1, {"label": "x"}) == (len(alone.content), alone.details)
    assert {"own": 1} == image_result(label="x", base64="", mime_type="image/png", details={"own": 1}).details


@dataclasses.dataclass
class Point:
    x: int
    when: datetime.date


class Model(pydantic.BaseModel):
    x: int


IMAGE = ImageBlock(data="aGk=", mime_type="image/png")
AUDIO = AudioBlock(data="aGk=", mime_type="audio/wav")
DOCUMENT = DocumentBlock(data="aGk=", mime_type="application/pdf", title="a.pdf")
RETURNED: list[tuple[Any, ToolResult]] = [
    (text_result("a"), text_result("a")),
    ("a", text_result("a")),
    ("", text_result(NO_OUTPUT)),
    (None, text_result(NO_OUTPUT)),
    (IMAGE, ToolResult(content=(IMAGE,))),
    ([AUDIO, DOCUMENT], ToolResult(content=(AUDIO, DOCUMENT))),
    (
        {"content": [{"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}]},
        ToolResult(content=(AUDIO,)),
    ),
    ([TextBlock(text="a"), IMAGE], ToolResult(content=(TextBlock(text="a"), IMAGE))),
    ({"content": [{"type": "text", "text": "a"}], "details": 1}, text_result("a", 1)),
    (
        {"content": [{"type": "text", "text": "a"}], "isError": True},
        ToolResult(content=(TextBlock(text="a"),), is_error=True),
    ),
    ({"content": "a"}, text_result('{\n  "content": "a"\n}', {"content": "a"})),
    ({"content": [1]}, text_result('{\n  "content": [\n    1\n  ]\n}', {"content": [1]})),
    ([], text_result("[]", [])),
    (False, text_result("false", False)),
    (0, text_result("0", 0)),
]


@pytest.mark.parametrize(("returned", "expected"), RETURNED)
def test_what_a_tool_returns_becomes_a_result(returned: Any, expected: ToolResult) -> None:
    """Results, text, blocks, nothing, the JSON form of a result, and any other value."""
    assert expected == as_result(returned)


def test_typed_values_become_json_too() -> None:
    """Dataclasses, dates and pydantic models as their JSON, unknown objects as their text."""
    assert {"x": 1, "when": "2026-01-02"} == json.loads(as_result(Point(1, datetime.date(2026, 1, 2))).text)
    assert {"m": {"x": 1}, "z": "(1+2j)"} == json.loads(as_result({"m": Model(x=1), "z": 1 + 2j}).text)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (
            {"mean": float("nan"), "least": None, "all": [1.5, float("inf")]},
            {"mean": "nan", "least": None, "all": [1.5, "inf"]},
        ),
        (dataclasses.make_dataclass("Mean", ["of"])(float("inf")), {"of": "inf"}),
        ({1: None}, {"1": None}),
        ({("eggs", 1): None, ("eggs", 2): float("nan")}, {"('eggs', 1)": None, "('eggs', 2)": "nan"}),
        ({"of": {float("nan")}, "when": datetime.date(2026, 1, 2)}, {"of": ["nan"], "when": "2026-01-02"}),
    ],
)
def test_numbers_that_json_does_not_have_are_named(payload: Any, expected: Any) -> None:
    """A model that reads null would take a result of infinity for none at all."""
    assert json.loads(json_result(payload).text) == expected


async def _async_lines() -> Any:
    yield "one"


def _lines() -> Any:
    yield "one"


@pytest.mark.parametrize("function", [_lines, _async_lines])
def test_a_generator_is_no_result(function: Any) -> None:
    """Its code has not run: its address in memory would look like success."""
    with pytest.raises(FormatError, match="a tool must return its result, not yield it"):
        tool(function)
    with pytest.raises(FormatError, match="the result is a generator"):
        as_result(function())
