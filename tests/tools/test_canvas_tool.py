"""The canvas tool: each action is one command to whatever shows a canvas."""

import base64
from pathlib import Path
from typing import Any

import pytest

from interlingua.tools.core.canvas import COMMANDS, canvas_tool
from interlingua.tools.fs import local_bridge
from interlingua.tools.tool import MissingContext, ToolContext
from interlingua.values.errors import ToolInputError
from interlingua.values.messages import ImageBlock, TextBlock

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()


class Node:
    """A canvas that notes what it was asked."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.keys: list[str] = []
        self.nodes: list[str | None] = []

    async def invoke(
        self, command: str, params: dict[str, Any], *, node: str | None = None, idempotency_key: str = ""
    ) -> Any:
        self.asked.append((command, params))
        self.keys.append(idempotency_key)
        self.nodes.append(node)
        return self.answer


@pytest.mark.parametrize(
    ("params", "command", "sent"),
    [
        ({"action": "present", "target": "courier"}, "canvas.present", {"url": "courier"}),
        (
            {"action": "present", "url": "https://x.example", "x": 1, "width": 20},
            "canvas.present",
            {"url": "https://x.example", "placement": {"x": 1.0, "width": 20.0}},
        ),
        ({"action": "present"}, "canvas.present", {}),
        ({"action": "hide"}, "canvas.hide", {}),
        ({"action": "navigate", "target": "https://x.example"}, "canvas.navigate", {"url": "https://x.example"}),
        ({"action": "eval", "javaScript": "1+1"}, "canvas.eval", {"javaScript": "1+1"}),
        ({"action": "a2ui_push", "jsonl": "{}\n"}, "canvas.a2ui.pushJSONL", {"jsonl": "{}\n"}),
        ({"action": "a2ui_reset"}, "canvas.a2ui.reset", {}),
    ],
)
async def test_each_action_is_a_command(params: dict[str, Any], command: str, sent: dict[str, Any]) -> None:
    """With an idempotency key of its own; the node is the one that was named."""
    node = Node({"result": "2"})
    tool = canvas_tool(ToolContext(canvas=node))
    for _ in range(2):
        await tool.execute("c", {**params, "node": "desk"})
    assert node.asked == [(command, sent)] * 2 and command in COMMANDS.values()
    assert len(set(node.keys)) == 2 and node.nodes == ["desk"] * 2


async def test_eval_gives_text_and_others_say_ok() -> None:
    """What the page answered goes back to the model."""
    tool = canvas_tool(ToolContext(canvas=Node({"result": "2"})))
    assert (await tool.execute("c", {"action": "eval", "javaScript": "1+1"})).content == (TextBlock(text="2"),)
    assert (await tool.execute("c", {"action": "hide"})).details == {"ok": True}


async def test_a_snapshot_is_a_picture() -> None:
    """As PNG unless asked otherwise; without a picture it is an error."""
    node = Node({"format": "jpeg", "base64": PNG})
    tool = canvas_tool(ToolContext(canvas=node))
    result = await tool.execute("c", {"action": "snapshot", "outputFormat": "jpg", "maxWidth": 100, "quality": 0.5})
    assert node.asked == [("canvas.snapshot", {"format": "jpeg", "maxWidth": 100.0, "quality": 0.5})]
    [picture] = [block for block in result.content if isinstance(block, ImageBlock)]
    assert (picture.data, picture.mime_type) == (PNG, "image/jpeg")
    for nothing in (None, {}, {"base64": ""}, {"base64": "not base64!"}):
        with pytest.raises(ToolInputError):
            await canvas_tool(ToolContext(canvas=Node(nothing))).execute("c", {"action": "snapshot"})


@pytest.mark.parametrize(
    "params",
    [{}, *({"action": name} for name in ("explode", "navigate", "eval", "a2ui_push")), {"action": "hide", "z": 1}],
)
async def test_what_is_missing_is_named(params: dict[str, Any]) -> None:
    """Nothing is sent then."""
    node = Node()
    with pytest.raises(ToolInputError):
        await canvas_tool(ToolContext(canvas=node)).execute("c", params)
    assert node.asked == []


async def test_lines_are_read_from_files_below_the_root_alone(tmp_path: Path) -> None:
    """A path that leads out of it, by a link too, is refused."""
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "ui.jsonl").write_text('{"a":1}\n')
    (tmp_path / "secret").write_text("x")
    (tmp_path / "root" / "link").symlink_to(tmp_path / "secret")
    node, root = Node(), str(tmp_path / "root")
    tool = canvas_tool(ToolContext(canvas=node, root=root, bridge=local_bridge(root)))
    await tool.execute("c", {"action": "a2ui_push", "jsonlPath": "ui.jsonl"})
    assert node.asked == [("canvas.a2ui.pushJSONL", {"jsonl": '{"a":1}\n'})]
    for path in ("../secret", "link", str(tmp_path / "secret")):
        with pytest.raises(ToolInputError):
            await tool.execute("c", {"action": "a2ui_push", "jsonlPath": path})
    assert len(node.asked) == 1


def test_without_a_canvas_there_is_no_tool() -> None:
    """The context says what there is."""
    with pytest.raises(MissingContext):
        canvas_tool(ToolContext())
