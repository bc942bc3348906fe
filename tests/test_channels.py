"""Where replies go: the terminal, and a webhook that may refuse, break, dawdle, or lead where it must not."""

import asyncio
import io
import json
from typing import Any

import pytest

from interlingua.connect.retry import Retry
from interlingua.host.channels import (
    DELIVERY,
    SIGNATURE,
    TIMESTAMP,
    Channels,
    Sink,
    TerminalSink,
    WebhookSink,
    sign,
    verify,
)
from interlingua.tools.fs import memory_bridge
from interlingua.tools.web import FetchRules
from interlingua.values.abort import Abort
from interlingua.values.errors import FormatError, ProviderError, ToolAuthorizationError, TransportError
from interlingua.values.messages import ReplyPayload
from tools.web.serving import Asked, always, says, serving

HELLO = ReplyPayload(text="Hello", reply_to_id="7")
SOON = Retry(attempts=3, base=0.001, cap=0.002)


def hook(url: str, **how: Any) -> WebhookSink:
    rules = how.pop("rules", FetchRules(allow_hosts=("127.0.0.1",), timeout=10.0))
    return WebhookSink(url, **{"retry": SOON, "rules": rules, **how})


def in_turn(*answers: bytes) -> Any:
    """A handler that gives these answers, then the last one again and again."""
    left = [*answers]

    async def handle(asked: Asked, out: asyncio.StreamWriter) -> None:
        out.write(left.pop(0) if len(left) > 1 else left[0])

    return handle


# --- the terminal ----------------------------------------------------------------------------------------------------


async def test_a_terminal_that_a_program_reads_gets_plain_lines() -> None:
    """Errors, answers and media are named as such."""
    out = io.StringIO()
    sink = TerminalSink(out)
    first = await sink.send(HELLO)
    await sink.send(ReplyPayload(text="It broke", is_error=True))
    await sink.send(ReplyPayload(media_url="a.png", media_urls=("a.png", "data:image/png;base64,QUJD")))
    assert out.getvalue() == (
        "[reply to 7]\nHello\nerror: It broke\n[media] a.png\n[media] data:image/png;base64 (26 characters)\n"
    )
    assert ("terminal", "1") == (first.channel, first.message_id)


async def test_what_a_model_writes_does_not_steer_the_terminal() -> None:
    """No escape sequences, in either form."""
    for rich in (False, True):
        out = io.StringIO()
        nasty = ReplyPayload(text="a\x1b]0;title\x07b", media_urls=("x\x1b[2J",), reply_to_id="\x1b[31m")
        await TerminalSink(out, rich=rich).send(nasty)
        assert "\x1b]" not in out.getvalue() and "\x1b[2J" not in out.getvalue() and "\x07" not in out.getvalue()


async def test_a_terminal_that_a_person_reads_gets_markdown() -> None:
    """Marked up, not with its signs."""
    out = io.StringIO()
    await TerminalSink(out, rich=True).send(ReplyPayload(text="# Title\n\n* one\n* **two**", media_url="a.png"))
    assert "Title" in out.getvalue() and "**" not in out.getvalue() and "a.png" in out.getvalue()


# --- the webhook -----------------------------------------------------------------------------------------------------


async def test_a_webhook_posts_the_payload_signed() -> None:
    """As JSON with an id; the receiver can verify who sent it and when, and its own id comes back."""
    async with serving(always(says(b'{"id": "msg-9"}', "application/json"))) as server:
        sink = hook(f"{server.url}/in?x=1", secret="s3cret", headers={"X-Own": "yes"})
        receipt = await sink.send(HELLO, target="room")
    (asked,) = server.asked
    payload = json.loads(asked.body)
    assert ("POST", "/in?x=1", "application/json", "yes") == (
        asked.method,
        asked.path,
        asked.headers["content-type"],
        asked.headers["x-own"],
    )
    assert ("message", "webhook", "room", {"text": "Hello", "replyToId": "7"}) == (
        payload["type"],
        payload["channel"],
        payload["target"],
        payload["payload"],
    )
    assert (payload["id"], "msg-9", "room", 1) == (
        asked.headers[DELIVERY.lower()],
        receipt.message_id,
        receipt.target,
        receipt.attempts,
    )
    assert sign("s3cret", asked.headers[TIMESTAMP.lower()], asked.body) == asked.headers[SIGNATURE.lower()]
    assert verify("s3cret", asked.headers, asked.body)
    assert not verify("other", asked.headers, asked.body)
    assert not verify("s3cret", asked.headers, asked.body + b" ")
    assert not verify("s3cret", {**asked.headers, TIMESTAMP.lower(): "1000"}, asked.body)
    assert not verify("s3cret", {}, asked.body)


async def test_a_webhook_without_a_secret_does_not_sign() -> None:
    """And its answer needs no body."""
    async with serving(always(says(status=204))) as server:
        receipt = await hook(server.url).send(HELLO)
    assert SIGNATURE.lower() not in server.asked[0].headers
    assert json.loads(server.asked[0].body)["id"] == receipt.message_id


async def test_a_webhook_reacts() -> None:
    """As a delivery of its own type."""
    async with serving(always(says())) as server:
        await hook(server.url).react("5", "+1", remove=True, target="room")
    payload = json.loads(server.asked[0].body)
    assert ("reaction", "room", {"messageId": "5", "emoji": "+1", "remove": True}) == (
        payload["type"],
        payload["target"],
        payload["payload"],
    )


@pytest.mark.parametrize("status", [500, 502, 503, 429, 408])
async def test_a_failure_that_may_pass_is_tried_again_under_the_same_id(status: int) -> None:
    """So a receiver can tell a repetition."""
    async with serving(in_turn(says(status=status), says(status=status), says())) as server:
        receipt = await hook(server.url).send(HELLO)
    assert (3, 3) == (receipt.attempts, len(server.asked))
    assert 1 == len({asked.headers[DELIVERY.lower()] for asked in server.asked})
    assert 1 == len({asked.body for asked in server.asked})


@pytest.mark.parametrize(("status", "times"), [(400, 1), (401, 1), (404, 1), (410, 1), (500, 3)])
async def test_a_failure_that_stays_is_raised_and_one_that_cannot_pass_at_once(status: int, times: int) -> None:
    """With the status."""
    async with serving(always(says(b"secret words", status=status))) as server:
        with pytest.raises(ProviderError, match=f"status {status}") as raised:
            await hook(server.url).send(HELLO)
    assert (times, status) == (len(server.asked), raised.value.status)
    assert "secret words" not in str(raised.value)


async def test_the_receiver_may_say_when_to_come_back() -> None:
    """A short wait is kept, a long one is a failure at once."""
    async with serving(in_turn(says(status=429, headers=("Retry-After: 0",)), says())) as server:
        assert 2 == (await hook(server.url).send(HELLO)).attempts
    async with serving(always(says(status=429, headers=("Retry-After: 9999",)))) as server:
        with pytest.raises(ProviderError):
            await hook(server.url).send(HELLO)
    assert 1 == len(server.asked)


async def test_a_connection_that_breaks_is_tried_again() -> None:
    """And reported when it keeps breaking."""
    async with serving(in_turn(b"", says())) as server:
        assert 2 == (await hook(server.url).send(HELLO)).attempts
    with pytest.raises(TransportError):
        await hook(server.url).send(HELLO)  # nobody listens there any more


async def test_a_webhook_that_never_answers_times_out() -> None:
    """Each attempt by itself."""

    async def silent(asked: Asked, out: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    rules = FetchRules(allow_hosts=("127.0.0.1",), timeout=0.2)
    async with serving(silent) as server:
        with pytest.raises(TransportError, match=r"0\.2 seconds"):
            await hook(server.url, rules=rules, retry=Retry(attempts=2, base=0.001, cap=0.002)).send(HELLO)
    assert 2 == len(server.asked)


async def test_an_abort_ends_the_attempts() -> None:
    """While one is under way, and while the next is waited for."""
    signal = Abort()

    async def failing(asked: Asked, out: asyncio.StreamWriter) -> None:
        out.write(says(status=500))
        asyncio.get_running_loop().call_later(0.1, signal.abort, "enough")

    async with serving(failing) as server:
        with pytest.raises(ProviderError):
            await hook(server.url, retry=Retry(attempts=5, base=60.0, cap=120.0)).send(HELLO, signal=signal)
    assert 1 == len(server.asked)


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/", "http://169.254.169.254/", "http://[::1]:9/", "http://10.0.0.1/"]
)
async def test_a_webhook_does_not_reach_inside_unless_it_may(url: str) -> None:
    """The guard of the web tools holds, and is not tried again."""
    with pytest.raises(ToolAuthorizationError):
        await WebhookSink(url, retry=SOON).send(HELLO)


async def test_a_webhook_name_that_leads_inside_is_refused() -> None:
    """By its addresses, not by its looks."""

    async def look_up(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    with pytest.raises(ToolAuthorizationError):
        await WebhookSink("http://hooks.example.org/", retry=SOON, look_up=look_up).send(HELLO)


async def test_a_webhook_does_not_follow_with_what_it_carries() -> None:
    """A redirect is a failure."""
    async with serving(always(says(status=302, headers=("Location: /elsewhere",)))) as server:
        with pytest.raises(TransportError, match="redirects"):
            await hook(server.url).send(HELLO)
    assert {"/"} == {asked.path for asked in server.asked}


async def test_a_webhook_carries_local_files_inside() -> None:
    """Those of the bridge it is given; addresses of the web stay addresses."""
    files = memory_bridge({"pic.png": b"ABC"})
    payload = ReplyPayload(media_url="pic.png", media_urls=("pic.png", "https://example.org/x.png"))
    async with serving(always(says())) as server:
        await hook(server.url).send(payload, files=files)
        with pytest.raises(FormatError, match="no file"):
            await hook(server.url).send(ReplyPayload(media_url="gone.png"), files=files)
    sent = json.loads(server.asked[0].body)["payload"]
    assert ("data:image/png;base64,QUJD", ["data:image/png;base64,QUJD", "https://example.org/x.png"]) == (
        sent["mediaUrl"],
        sent["mediaUrls"],
    )


def test_channels_know_their_sinks() -> None:
    """By name, with a default; one that is not there is refused with those that are."""
    terminal, web = TerminalSink(io.StringIO()), WebhookSink("https://example.org/", name="ops")
    assert isinstance(terminal, Sink) and isinstance(web, Sink)
    channels = Channels([terminal, web])
    assert (terminal, web) == (channels.sink(None), channels.sink("ops"))
    assert (("send", "reply", "react"), ("send", "reply")) == (
        channels.actions,
        Channels([terminal, web], bound=("terminal", None)).actions,
    )
    with pytest.raises(FormatError, match="known: terminal, ops"):
        channels.sink("email")
    with pytest.raises(FormatError):
        Channels([terminal], default="email")
