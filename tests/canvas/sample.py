"""Sessions for the browser: one with branches, calls, failures, thinking and a picture; one that is hostile."""

import base64
import struct
import zlib
from pathlib import Path

import interlingua as il
from interlingua.sessions import Session

START = 1_763_197_200_000  # a morning, in milliseconds
CLAUDE = ("anthropic-messages", "anthropic", "claude-sonnet-4-5")
GPT = ("openai-responses", "openai", "gpt-5")
GEMINI = ("google-generative-ai", "google", "gemini-2.5-pro")


def png(width: int, height: int) -> bytes:
    """A picture without a library: a dark ground and a line that rises once."""
    rows = []
    for y in range(height):
        row = bytearray(b"\0")
        for x in range(width):
            level = height * (0.3 if abs(x - width * 0.6) < width * 0.04 else 0.75)
            row += bytes((216, 148, 66)) if abs(y - level) < 2 else bytes((17, 24, 28))
        rows.append(bytes(row))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(b"".join(rows)))
        + chunk(b"IEND", b"")
    )


def courier(home: Path) -> str:
    """A session about webhooks that are sent twice, with three branches; returns its key."""
    clock = iter(range(START, START + 10_000_000, 19_000))

    def says(
        text: str, by: tuple[str, str, str], *calls: il.ToolCall, cost: float | None, **more: object
    ) -> il.AssistantMessage:
        api, provider, model = by
        blocks: list[il.Block] = []
        if thought := more.pop("thinking", None):
            blocks.append(il.ThinkingBlock(thinking=str(thought), thinking_signature="c2lnbmF0dXJl"))
        if text:
            blocks.append(il.TextBlock(text=text))
        tokens = il.Usage.of(1400, 412, cache_read=7200, cost=None if cost is None else il.Cost(total=cost))
        reason = "toolUse" if calls else "stop"
        return il.AssistantMessage(
            content=(*blocks, *calls), api=api, provider=provider, model=model,
            stop_reason=reason, usage=tokens, timestamp=next(clock),
        )  # fmt: skip

    def result(call: str, name: str, text: str, failed: bool = False) -> il.ToolResultMessage:
        return il.ToolResultMessage(
            tool_call_id=call,
            tool_name=name,
            content=(il.TextBlock(text=text),),
            is_error=failed,
            timestamp=next(clock),
        )

    about = il.Conversation(system="You maintain the courier service.", model=il.ModelDescriptor(id=CLAUDE[2]))
    with Session.open("courier", home=home, about=about) as session:
        session.label(None, "Duplicate webhook deliveries")
        chart = il.ImageBlock(data=base64.b64encode(png(640, 200)).decode(), mime_type="image/png")
        question = (
            "Since Tuesday's deploy some customers get the same webhook twice. Dashboard from last night attached. "
            "Find out why and fix it; the public API has to stay as it is."
        )
        session.append(il.UserMessage(content=(il.TextBlock(text=question), chart), timestamp=next(clock)), id="q")
        calls = (
            il.ToolCall(id="c1", name="grep", arguments={"pattern": "claim_delivery", "path": "courier"}),
            il.ToolCall(id="c2", name="read", arguments={"path": "courier/worker.py"}),
            il.ToolCall(id="c3", name="exec", arguments={"command": "pytest -q tests/test_worker.py -k restart"}),
        )
        thought = (
            "The second peak starts with the deploy, so it is the restart. A row must be sent twice by two workers."
        )
        first = "First, who claims a delivery, and what happens when a worker is stopped half-way."
        session.append(says(first, CLAUDE, *calls, cost=0.12, thinking=thought), id="a1")
        session.append(result("c1", "grep", "courier/worker.py:88: row = db.claim_delivery()"), id="r1")
        worker = "\n".join(f"{n}: line of the worker" for n in range(1, 44))
        session.append(result("c2", "read", worker), id="r2")
        output = "\x1b[31mFAILED\x1b[0m tests/test_worker.py::test_restart\nE   assert 2 == 1\n1 failed in 3.91s"
        session.append(result("c3", "exec", output, failed=True), id="r3")
        found = (
            "Found it. The worker sends first and records later: between `http.post` and the `UPDATE`, a restart leaves"
            " the row *pending*, and it is sent again.\n\n1. A lease with a deadline\n2. An outbox"
            "\n\nI would take the lease."
        )
        session.append(says(found, CLAUDE, cost=0.07), id="a2")
        session.append(il.UserMessage(content="Go with the lease.", timestamp=next(clock)), id="lease1")
        edit = il.ToolCall(
            id="c4",
            name="edit",
            arguments={"path": "courier/worker.py", "old": "db.claim_delivery()", "new": "db.claim(lease=30)"},
        )
        session.append(says("", CLAUDE, edit, cost=0.18), id="lease2")
        diff = (
            "@@ -88,1 +88,2 @@\n-    row = db.claim_delivery()\n+    row = db.claim(lease=30)\n+    token = row.fence"
        )
        session.append(result("c4", "edit", diff), id="lease3")
        done = (
            "Done: a delivery is now claimed with a deadline and a fence, so that a late worker is refused."
            "\n\n```python\nrow = db.claim(lease=30)\n```"
        )
        session.append(says(done, CLAUDE, cost=0.09), id="lease4")
        session.set_branch("lease", "lease4")
        other = il.UserMessage(content="Take the outbox. Rows in flight must survive a restart.", timestamp=next(clock))
        session.append(other, id="outbox1", parent_id="a2")
        patch = il.ToolCall(
            id="c5", name="apply_patch", arguments={"path": "courier/outbox.py", "text": "class Outbox: ..."}
        )
        session.append(
            says("I'll move the send behind an outbox written in the same transaction.", GPT, patch, cost=0.09),
            id="outbox2",
            parent_id="outbox1",
        )
        session.append(result("c5", "apply_patch", "4 files changed"), id="outbox3", parent_id="outbox2")
        session.set_branch("outbox", "outbox3")
        lock = il.UserMessage(content="Would an advisory lock be enough?", timestamp=next(clock))
        session.append(lock, id="lock1", parent_id="a2")
        session.append(
            says("Not across hosts behind a pooler: the lock belongs to the connection.", GEMINI, cost=None),
            id="lock2",
            parent_id="lock1",
        )
        session.set_branch("advisory-lock", "lock2")
        session.checkout("lease")
    return "own~main~courier"


HOSTILE = """<script>window.hurt = 1</script><img src=x onerror="window.hurt = 2"><svg onload="window.hurt = 3"></svg>

[run](javascript:window.hurt=4) [data](data:text/html,<script>window.hurt=5</script>) ![spy](https://spy.invalid/p.png)

<form action="https://spy.invalid/form"><input name=a><button>Send</button></form>
<iframe src="https://spy.invalid"></iframe> <style>body { display: none }</style><base href="https://spy.invalid/">
<meta http-equiv="refresh" content="0;url=https://spy.invalid"><link rel=stylesheet href="https://spy.invalid/a.css">

\u202eevil\u202c \x1b]8;;https://spy.invalid\x07link\x1b]8;;\x07 \x1b[31mred\x1b[0m

$$\\href{javascript:window.hurt=6}{x}$$ $$\\includegraphics{https://spy.invalid/a.png}$$

```html
</pre><script>window.hurt = 7</script>
```
"""
SVG = b"<svg xmlns='http://www.w3.org/2000/svg' onload='window.hurt=8'><script>window.hurt=9</script></svg>"


def hostile(home: Path) -> str:
    """A session whose every text, name and picture tries something; returns its key."""
    with Session.open("hostile", home=home) as session:
        session.label(None, HOSTILE.partition("\n")[0])
        picture = il.ImageBlock(data=base64.b64encode(SVG).decode(), mime_type="image/svg+xml")
        remote = il.ImageBlock(url="https://spy.invalid/remote.png")
        session.append(
            il.UserMessage(content=(il.TextBlock(text=HOSTILE), picture, remote)), id="<img src=x onerror=hurt=1>"
        )
        call = il.ToolCall(id="c", name="<script>", arguments={"<b>": HOSTILE})
        session.append(
            il.AssistantMessage(
                content=(il.ThinkingBlock(thinking=HOSTILE), il.TextBlock(text=HOSTILE), call),
                model="<i>model",
                provider="<p>",
            )
        )
        session.append(
            il.ToolResultMessage(
                tool_call_id="c", tool_name="<script>", content=(il.TextBlock(text=HOSTILE),), is_error=False
            )
        )
    return "own~main~hostile"
