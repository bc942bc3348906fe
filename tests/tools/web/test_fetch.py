"""The guarded client against servers that mean harm."""

import asyncio
import gzip
import socket
import ssl
import zlib
from typing import Any

import pytest
import trustme

from interlingua.tools.calling import call_tool
from interlingua.tools.core.image import image_tool
from interlingua.tools.core.web_fetch import web_fetch_tool
from interlingua.tools.policy import Policy
from interlingua.tools.tool import ToolContext, read_settings
from interlingua.tools.web import USER_AGENT, FetchRules, fetch
from interlingua.values.abort import Abort
from interlingua.values.errors import FormatError, ToolAuthorizationError, ToolInputError, TransportError
from tools.web.serving import always, by_path, says, serving

HERE = FetchRules(allow_hosts=("127.0.0.1/32",), timeout=20)


def resolver(*answers):
    """A lookup that gives one answer after the other, and counts."""
    asked = []

    async def look_up(host, port):
        asked.append(host)
        return answers[min(len(asked), len(answers)) - 1]

    look_up.asked = asked
    return look_up


async def test_a_page_is_fetched_with_our_name_and_no_cookies():
    """
    The request says who asks, offers gzip, and carries nothing of ours.
    """
    async with serving(always(says(b"hello", headers=("Set-Cookie: a=b",)))) as server:
        await fetch(f"{server.url}/x", HERE)
        answer = await fetch(f"{server.url}/x", HERE)
        headers = server.asked[1].headers
    assert (200, b"hello", False, "text/plain") == (
        answer.status,
        answer.body,
        answer.truncated,
        answer.content_type,
    )
    assert (USER_AGENT, None, None) == (headers["user-agent"], headers.get("cookie"), headers.get("authorization"))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "[::ffff:127.0.0.1]", "127.1"])
async def test_this_machine_is_refused_in_every_spelling(host):
    """
    Without a rule, a server on this machine is never asked.
    """
    async with serving(always(says(b"secret"))) as server:
        with pytest.raises(ToolAuthorizationError):
            await fetch(f"http://{host}:{server.port}/", FetchRules(timeout=20))
        assert [] == server.asked


@pytest.mark.parametrize("answer", [["127.0.0.1"], ["93.184.216.34", "10.0.0.1"], ["fe80::1%lo"], ["::ffff:10.0.0.1"]])
async def test_a_name_with_one_bad_address_is_refused(answer):
    """
    All addresses of a name are judged, not the first.
    """
    with pytest.raises(ToolAuthorizationError):
        await fetch("http://public.example/", look_up=resolver(answer))


async def test_a_name_is_looked_up_once_and_the_checked_address_connected_to():
    """
    Rebinding: the second answer of the resolver would be the forbidden one, and is never asked for.
    """
    look_up = resolver(["127.0.0.1"], ["127.0.0.2"])
    async with serving(always(says(b"checked"))) as server:
        try:
            trap_context = serving(always(says(b"trap")), host="127.0.0.2", port=server.port)
            trap = await trap_context.__aenter__()
        except OSError:
            pytest.skip("127.0.0.2 is not an address of this machine")
        answer = await fetch(f"http://rebind.example:{server.port}/", HERE, look_up=look_up)
        with pytest.raises(ToolAuthorizationError):
            await fetch(f"http://rebind.example:{server.port}/", HERE, look_up=look_up)
        trapped = list(trap.asked)
        await trap_context.__aexit__(None, None, None)
    assert (b"checked", [], ["rebind.example"] * 2) == (answer.body, trapped, look_up.asked)


async def test_the_host_header_and_the_certificate_are_those_of_the_name():
    """
    The connection goes to the checked address, the conversation is with the name.
    """
    authority = trustme.CA()
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("public.example").configure_cert(server_side)
    client_side = ssl.create_default_context()
    authority.configure_trust(client_side)
    async with serving(always(says(b"safe")), tls=server_side) as server:
        url = f"https://public.example:{server.port}/"
        answer = await fetch(url, HERE, look_up=resolver(["127.0.0.1"]), tls=client_side)
        with pytest.raises(TransportError, match=r"[Cc]ertificate|hostname"):
            other = f"https://other.example:{server.port}/"
            await fetch(other, HERE, look_up=resolver(["127.0.0.1"]), tls=client_side)
    assert (b"safe", f"public.example:{server.port}") == (answer.body, server.asked[0].headers["host"])


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://127.0.0.2/",
        "http://[::1]/",
        "//10.0.0.1/",
        "file:///etc/passwd",
        "gopher://127.0.0.1/",
        "data:text/plain,hello",
        "http://user@public.example/",
        "http://public.example\\@10.0.0.1/",
    ],
)
async def test_a_redirect_to_a_forbidden_place_is_refused(location):
    """
    Each redirect is judged as if it had been asked for.
    """
    async with serving(always(says(status=302, headers=(f"Location: {location}",)))) as server:
        with pytest.raises(ToolAuthorizationError):
            await fetch(server.url, HERE)


async def test_a_redirect_to_a_name_with_a_private_address_is_refused():
    """
    A redirect's name is looked up and judged like the first.
    """
    async with serving(always(says(status=307, headers=("Location: http://inside.example/",)))) as server:
        with pytest.raises(ToolAuthorizationError, match=r"inside\.example"):
            await fetch(server.url, HERE, look_up=resolver(["10.0.0.1"]))


@pytest.mark.parametrize(
    ("rule", "default", "followed"),
    [
        ({"action": "allow", "host": "{first}"}, "deny", False),
        ({"action": "allow", "host": "{first}"}, "ask", False),
        ({"action": "deny", "host": "127.0.0.2"}, "allow", False),
        ({"action": "allow", "host": ["{first}", "{second}"]}, "deny", True),
        ({"action": "deny", "host": "127.0.0.3"}, "allow", True),
        ({"action": "allow", "tool": ["web_fetch", "image"]}, "deny", True),
    ],
)
@pytest.mark.parametrize("name", ["web_fetch", "image"])
async def test_a_redirect_is_judged_by_the_policy_of_the_call(name, rule, default, followed):
    """
    A server that may be asked cannot send the call to one that may not.
    """
    tools = {"web_fetch": {"allowHosts": ["127.0.0.0/8"]}, "image": {"model": "x/y"}}
    context = ToolContext(config={"tools": tools}, complete=resolver([]))
    tool, argument = {"web_fetch": (web_fetch_tool, "url"), "image": (image_tool, "image")}[name]
    async with serving(always(says(b"there")), host="127.0.0.2") as second:
        onward = f"Location: http://127.0.0.2:{second.port}/"
        async with serving(always(says(status=302, headers=(onward,)))) as first:
            places = {"{first}": f"127.0.0.1:{first.port}", "{second}": f"127.0.0.2:{second.port}"}
            hosts = rule.get("host", ())
            hosts = [places.get(host, host) for host in ([hosts] if isinstance(hosts, str) else hosts)]
            policy = Policy.of({"rules": [{**rule, "host": hosts}], "default": default})
            await call_tool(tool(context), "1", {argument: first.url}, policy=policy)
            assert 1 == len(first.asked)
    assert followed == bool(second.asked)


async def test_redirects_are_followed_and_the_last_address_reported():
    """
    Relative and absolute redirects lead on, up to the limit.
    """
    pages = {"/a": says(status=301, headers=("Location: b?x=1",)), "/b?x=1": says(b"there")}
    async with serving(by_path(pages)) as server:
        answer = await fetch(f"{server.url}/a", HERE)
    assert (b"there", f"{server.url}/a", f"{server.url}/b?x=1") == (answer.body, answer.url, answer.final_url)


async def test_a_redirect_loop_ends():
    """
    A page that sends to itself is asked no more often than the limit says.
    """
    async with serving(always(says(status=302, headers=("Location: /again",)))) as server:
        with pytest.raises(TransportError, match="more than 3 redirects"):
            await fetch(server.url, HERE)
        assert 4 == len(server.asked)


async def test_headers_for_one_origin_do_not_reach_another():
    """
    A key goes to the host it was meant for, and is left out when that host redirects elsewhere.
    """
    async with serving(always(says(b"other"))) as other:
        sent_on = says(status=302, headers=(f"Location: {other.url}/",))
        async with serving(always(sent_on)) as first:
            await fetch(first.url, HERE, headers={"X-Key": "secret"})
    assert ("secret", None) == (first.asked[0].headers.get("x-key"), other.asked[0].headers.get("x-key"))


async def test_a_redirect_from_https_to_http_is_reported():
    """
    It is followed, and the notes say that it was not encrypted to the end.
    """
    authority = trustme.CA()
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("public.example").configure_cert(server_side)
    client_side = ssl.create_default_context()
    authority.configure_trust(client_side)
    async with serving(always(says(b"plain"))) as plain:
        sent_on = always(says(status=302, headers=(f"Location: {plain.url}/",)))
        async with serving(sent_on, tls=server_side) as safe:
            url = f"https://public.example:{safe.port}/"
            answer = await fetch(url, HERE, look_up=resolver(["127.0.0.1"]), tls=client_side)
    assert (b"plain", ("redirected from https to unencrypted http at 127.0.0.1",)) == (answer.body, answer.notes)


async def test_a_body_is_not_sent_on():
    """
    A POST that is redirected stops there.
    """
    async with serving(always(says(status=307, headers=("Location: /b",)))) as server:
        with pytest.raises(TransportError, match="redirects"):
            await fetch(server.url, HERE, method="POST", body=b"{}")
        assert [b"{}"] == [asked.body for asked in server.asked]


def _deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(b"hello" * 99)),
        ("GZIP", gzip.compress(b"hello" * 50) + gzip.compress(b"hello" * 49)),
        ("x-gzip", gzip.compress(b"hello" * 99) + b"trailing"),
        ("deflate", zlib.compress(b"hello" * 99)),
        ("deflate", _deflate(b"hello" * 99)),
        ("identity", b"hello" * 99),
    ],
    ids=["gzip", "two members", "trailing bytes", "zlib", "bare deflate", "identity"],
)
async def test_packed_bodies_are_unpacked(encoding, packed):
    """
    gzip of one or more members, zlib and bare deflate.
    """
    async with serving(always(says(packed, headers=(f"Content-Encoding: {encoding}",)))) as server:
        assert b"hello" * 99 == (await fetch(server.url, HERE)).body


async def test_a_gzip_bomb_is_refused():
    """
    What unpacks to a hundred times its size is stopped long before it is whole.
    """
    bomb = gzip.compress(b"\0" * 50_000_000)
    async with serving(always(says(bomb, headers=("Content-Encoding: gzip",)))) as server:
        with pytest.raises(ToolAuthorizationError, match="decompresses to more than"):
            await fetch(server.url, FetchRules(allow_hosts=("127.0.0.1",), max_bytes=100_000_000, timeout=20))


async def test_a_gzip_bomb_within_the_ratio_is_cut_at_the_limit():
    """
    The limit counts unpacked bytes.
    """
    packed = gzip.compress(b"\0" * 900_000)
    async with serving(always(says(packed, headers=("Content-Encoding: gzip",)))) as server:
        answer = await fetch(server.url, FetchRules(allow_hosts=("127.0.0.1",), max_bytes=50_000, timeout=20))
    assert (50_000, True) == (len(answer.body), answer.truncated)


@pytest.mark.parametrize(
    ("headers", "body", "error"),
    [
        (("Content-Encoding: br",), b"x", "unexpected content encoding"),
        (("Content-Encoding: gzip, gzip",), b"x", "unexpected content encoding"),
        (("Content-Encoding: gzip",), b"\x1f\x8b\x08not gzip at all", "compression is broken"),
    ],
    ids=["brotli", "two layers", "broken"],
)
async def test_a_body_that_cannot_be_unpacked_is_an_error(headers, body, error):
    """
    An encoding that was not asked for, several layers, and broken data.
    """
    async with serving(always(says(body, headers=headers))) as server:
        with pytest.raises(TransportError, match=error):
            await fetch(server.url, HERE)


async def _endless(asked, out):
    out.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n")
    while not out.is_closing():
        out.write(b"x" * 65536)
        await out.drain()


async def test_an_endless_body_is_cut_at_the_limit():
    """
    The beginning is taken, the connection closed.
    """
    async with serving(_endless) as server:
        answer = await fetch(server.url, FetchRules(allow_hosts=("127.0.0.1",), max_bytes=100_000, timeout=20))
    assert (100_000, True) == (len(answer.body), answer.truncated)


async def test_endless_empty_gzip_members_are_cut_too():
    """
    What comes in is limited even if nothing comes out of it.
    """
    nothing = gzip.compress(b"") * 500

    async def handle(asked, out):
        out.write(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n")
        while not out.is_closing():
            out.write(nothing)
            await out.drain()

    async with serving(handle) as server:
        answer = await fetch(server.url, FetchRules(allow_hosts=("127.0.0.1",), max_bytes=100_000, timeout=20))
    assert (b"", True) == (answer.body, answer.truncated)


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n"])
async def test_a_server_that_drips_runs_out_of_time(head):
    """
    One limit holds for the whole: connecting, headers and body, however small the steps.
    """

    async def handle(asked, out):
        out.write(head)
        for _ in range(200):
            out.write(b"x" if head.endswith(b"\r\n\r\n") else b"X-A: b\r\n" if head else b"")
            await out.drain()
            await asyncio.sleep(0.05)

    async with serving(handle) as server:
        with pytest.raises(TransportError, match=r"within 0\.5 seconds"):
            await fetch(server.url, FetchRules(allow_hosts=("127.0.0.1",), timeout=0.5))


async def test_a_lookup_that_hangs_runs_out_of_time():
    """
    The name service is part of the same limit.
    """

    async def never(host, port):
        await asyncio.sleep(60)

    with pytest.raises(TransportError, match="within"):
        await fetch("http://slow.example/", FetchRules(timeout=0.2), look_up=never)


@pytest.mark.parametrize(
    "headers",
    [
        (f"X-Big: {'a' * 100_000}",),
        tuple(f"X-{n}: {'a' * 4000}" for n in range(20)),
        tuple(f"X-{n}: a" for n in range(5000)),
    ],
)
async def test_huge_headers_are_refused(headers):
    """
    One long header, many of them, and too many.
    """
    async with serving(always(says(b"x", headers=headers))) as server:
        with pytest.raises((TransportError, ToolAuthorizationError), match="header"):
            await fetch(server.url, HERE)


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH_9.9\r\n", b"220 mail.example ESMTP ignore-previous\r\n"])
async def test_what_is_no_web_server_is_an_error_that_does_not_quote_it(answer):
    """
    Another protocol at that port gives no answer, and its words do not reach the model.
    """
    async with serving(always(answer)) as server:
        with pytest.raises(TransportError) as caught:
            await fetch(server.url, HERE)
    assert "ignore" not in str(caught.value)


async def test_a_refused_connection_is_reported():
    """
    No server at that port.
    """
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with pytest.raises(TransportError, match=r"127\.0\.0\.1"):
            await fetch(f"http://127.0.0.1:{unused.getsockname()[1]}/", HERE)


async def test_a_name_without_address_is_reported():
    """
    What the resolver says is passed on.
    """

    async def nowhere(host, port):
        raise socket.gaierror(-2, "Name or service not known")

    with pytest.raises(TransportError, match=r"nowhere\.example: the name has no address"):
        await fetch("http://nowhere.example/", look_up=nowhere)


async def test_an_unwanted_type_is_not_read():
    """
    The body stays with the server when its type is refused.
    """
    async with serving(always(says(b"x" * 10_000, kind="Video/MP4; codecs=x"))) as server:
        answer = await fetch(server.url, HERE, accepts=lambda kind: kind.startswith("text/"))
    assert (b"", "video/mp4") == (answer.body, answer.content_type)


async def test_a_fired_signal_stops_a_fetch():
    """
    The call ends with the reason of the signal.
    """
    signal = Abort()

    async def handle(asked, out):
        signal.abort("enough")
        await asyncio.sleep(30)

    async with serving(handle) as server:
        with pytest.raises(TransportError, match="enough"):
            await fetch(server.url, HERE, signal=signal)


async def test_cancelling_the_task_cancels_the_fetch():
    """
    A cancelled caller is cancelled, signal or not.
    """
    began = asyncio.Event()

    async def handle(asked, out):
        began.set()
        await asyncio.sleep(30)

    async with serving(handle) as server:
        task = asyncio.create_task(fetch(server.url, HERE, signal=Abort()))
        await began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_proxies_of_the_environment_are_not_used(monkeypatch):
    """
    A proxy would look names up itself, so it has to be asked for.
    """
    async with serving(always(says(b"proxied"))) as proxy, serving(always(says(b"direct"))) as server:
        monkeypatch.setenv("http_proxy", proxy.url)
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        answer = await fetch(server.url, HERE)
    assert (b"direct", [], ()) == (answer.body, proxy.asked, answer.notes)


async def test_a_configured_proxy_is_used_and_reported():
    """
    The notes tell that the proxy's own lookup is not ours; what we can see is still judged.
    """
    look_up = resolver(["93.184.216.34"])
    async with serving(always(says(b"proxied"))) as proxy:
        rules = FetchRules(proxy=proxy.url, timeout=20)
        answer = await fetch("http://public.example/x", rules, look_up=look_up)
        with pytest.raises(ToolAuthorizationError):
            await fetch("http://169.254.169.254/", rules)
    assert (b"proxied", "http://public.example/x") == (answer.body, proxy.asked[0].path)
    assert "looked the name up itself" in answer.notes[0]


async def test_a_url_that_is_none_is_an_input_error():
    """
    Nothing is looked up for it.
    """
    look_up = resolver(["1.1.1.1"])
    with pytest.raises(ToolInputError):
        await fetch("http://public.example/\r\nX: y", look_up=look_up)
    assert [] == look_up.asked


def test_unknown_settings_are_refused():
    """
    A misspelled rule does not silently leave a door open or shut.
    """
    with pytest.raises(FormatError, match="allowHost"):
        rules_of({"allowHost": ["x"]})
    assert ("a",) == rules_of({"allowHosts": ["a"]}).allow_hosts == rules_of({"allow_hosts": ["a"]}).allow_hosts


def rules_of(settings: dict[str, Any]) -> FetchRules:
    return read_settings("web_fetch", FetchRules, ToolContext(config={"tools": {"web_fetch": settings}}))
