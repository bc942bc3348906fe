"""Attacks on the gateway: who may enter, what may be sent, where it may lead, and what may be read of it."""

import asyncio
import contextlib
import gzip
import io
import itertools
import json
import logging
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st
from multidict import CIMultiDict

import interlingua as il
from gateway.conftest import WIRES, settings_for
from gateway.test_defects import ask
from interlingua.gateway import Gateway
from interlingua.gateway.exchange import ClientKey
from interlingua.gateway.service import Service
from interlingua.gateway.settings import ClientLimits, Listen, ProviderSettings, Settings
from interlingua.gateway.settings_file import LogSettings, RecordingSettings, ServeSettings
from interlingua.testing import Server, faults

TURN = [{"role": "user", "content": "hello"}]
DOORS: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "debug/echo", "messages": TURN},
    "/v1/responses": {"model": "debug/echo", "input": "hello"},
    "/v1/messages": {"model": "debug/echo", "max_tokens": 9, "messages": TURN},
    "/v1beta/models/debug/echo:generateContent": {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]},
    "/model/debug%2Fecho/converse": {"messages": [{"role": "user", "content": [{"text": "hello"}]}]},
    "/api/chat": {"model": "debug/echo", "messages": TURN, "stream": False},
}


@contextlib.asynccontextmanager
async def serving(folder: Path, **given: Any) -> AsyncIterator[Service]:
    gateway = given.pop("gateway", None) or Settings(listen=Listen(port=0), **given.pop("settings", {}))
    async with Service(ServeSettings(gateway=gateway, **given), folder) as service:
        yield service


async def send(service: Service, path: str, body: Any, **given: Any) -> tuple[int, str, dict[str, str]]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    async with (
        aiohttp.ClientSession() as client,
        client.request(given.pop("method", "POST"), service.gateway.url + path, data=data, **given) as reply,
    ):
        return reply.status, await reply.text(errors="replace"), dict(reply.headers)


async def raw(service: Service, data: bytes, *, wait: float = 10.0) -> bytes:
    """What comes back for these bytes, until the gateway closes the connection or is silent."""
    host, port = service.gateway.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(data)
    received = b""
    with contextlib.suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(wait):
            while piece := await reader.read(65536):
                received += piece
    writer.close()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()
    return received


# --- who may enter ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", DOORS)
async def test_no_key_and_a_wrong_key_open_no_door(tmp_path: Path, path: str) -> None:
    """Each wire says it in its own form, with 401, and repeats nothing of what was sent."""
    async with serving(tmp_path) as service:
        secret = service.keys.add(ClientKey(name="ci"))
        wrong = secret[:-1] + ("A" if secret[-1] != "A" else "B")
        for headers in (
            {},
            {"x-api-key": ""},
            {"Authorization": "Bearer "},
            {"Authorization": f"Basic {secret}"},
            {"x-api-key": wrong},
            {"Authorization": f"Bearer {wrong}"},
            {"x-goog-api-key": wrong},
            {"api-key": f"{secret} {secret}"},
            {"Cookie": f"key={secret}"},
        ):
            status, text, sent = await send(service, path, DOORS[path], headers=headers)
            assert 401 == status, (headers, text)
            assert isinstance(json.loads(text), dict)
            assert wrong not in text + str(sent) and secret not in text + str(sent)
        assert [] == await service.ledger.usage()


@pytest.mark.parametrize("path", DOORS)
async def test_a_key_reaches_no_model_of_another_key(tmp_path: Path, path: str) -> None:
    """Neither by name, nor in another spelling, nor in the list."""
    async with serving(tmp_path) as service:
        secret = service.keys.add(ClientKey(name="ci", models=("debug/parrot-1",)))
        headers = {"Authorization": f"Bearer {secret}"}
        status, _, _ = await send(service, path, DOORS[path], headers=headers)
        assert status in (403, 404)
        for spelling in ("DEBUG/echo", "debug/echo ", "debug//echo", "echo", "debug/parrot-1/../echo", "*", "debug/*"):
            body = {"model": spelling, "max_tokens": 9, "messages": TURN}
            assert (await send(service, "/v1/messages", body, headers=headers))[0] in (400, 403, 404), spelling
        _, listed, _ = await send(service, "/v1/models", b"", method="GET", headers=headers)
        assert "debug/parrot-1" in listed and "debug/echo" not in listed
        assert [] == await service.ledger.usage()


async def test_a_key_cannot_use_the_answers_of_another(tmp_path: Path) -> None:
    """A response id of one key is unknown to the other, and the reply does not tell that it exists."""
    async with serving(tmp_path) as service:
        one, other = (service.keys.add(ClientKey(name=name)) for name in ("one", "other"))
        status, text, _ = await send(
            service, "/v1/responses", {"model": "debug/echo", "input": "the secret plan"}, headers={"api-key": one}
        )
        assert 200 == status
        known = json.loads(text)["id"]
        replies = []
        for id in (known, "resp_0000000000000000"):
            body = {"model": "debug/echo", "input": "go on", "previous_response_id": id}
            status, text, _ = await send(service, "/v1/responses", body, headers={"api-key": other})
            replies.append((status, text.replace(id, "ID").partition("req_")[0]))
            assert "the secret plan" not in text
            for method in ("GET", "DELETE"):
                status, text, _ = await send(
                    service, f"/v1/responses/{id}", b"", method=method, headers={"api-key": other}
                )
                assert status in (404, 405) and "the secret plan" not in text
        assert replies[0] == replies[1]


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Host": "evil.example"},
        {"Host": "evil.example:8321"},
        {"Host": "localhost:" + "8" * 5000},
    ],
    ids=lambda headers: str(headers)[:60],
)
async def test_a_web_page_cannot_use_a_gateway_without_keys(tmp_path: Path, headers: dict[str, str]) -> None:
    """A page of another origin, or one that rebinds its name to this machine, spends nothing."""
    async with serving(tmp_path) as service:
        for path, body in DOORS.items():
            given = {"Content-Type": "text/plain", **headers}
            assert 403 == (await send(service, path, body, headers=given))[0]
        assert [] == await service.ledger.usage()


async def test_no_page_is_allowed_to_read_an_answer(tmp_path: Path) -> None:
    """CORS is off: no preflight succeeds and no answer has a header that opens it."""
    async with serving(tmp_path) as service:
        preflight = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
        status, _, sent = await send(service, "/v1/messages", b"", method="OPTIONS", headers=preflight)
        assert status >= 400 and not [name for name in sent if name.lower().startswith("access-control")]
        _, _, sent = await send(service, "/v1/messages", DOORS["/v1/messages"])
        assert not [name for name in sent if name.lower().startswith("access-control")]


# --- what may be sent ------------------------------------------------------------------------------------------------


async def test_a_body_that_is_too_large_is_refused(tmp_path: Path) -> None:
    """By its length, and where it says none by what has come; packed, by what it unpacks to."""
    async with serving(tmp_path, settings={"limits": ClientLimits(body=100_000)}) as service:
        large = json.dumps({**DOORS["/v1/messages"], "system": "x" * 200_000}).encode()
        status, text, _ = await send(service, "/v1/messages", large)
        assert (413, "100000") == (status, "100000" if "100000" in text.replace(",", "") else text)

        async def pieces() -> AsyncIterator[bytes]:
            for at in range(0, len(large), 10_000):
                yield large[at : at + 10_000]

        async with (
            aiohttp.ClientSession() as client,
            client.post(f"{service.gateway.url}/v1/messages", data=pieces()) as reply,
        ):
            assert 413 == reply.status


@pytest.mark.parametrize("packing", ["gzip", "deflate", "zstd"])
async def test_a_packed_bomb_is_refused_by_what_it_unpacks_to(tmp_path: Path, packing: str) -> None:
    """A hundred megabytes in a hundred kilobytes are never all in memory."""
    plain = b'{"model": "debug/echo", "max_tokens": 9, "messages": [], "system": "' + b"x" * (100 << 20) + b'"}'
    if packing == "gzip":
        packed = io.BytesIO()
        with gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=9) as stream:
            stream.write(plain)
        data = packed.getvalue()
    else:
        data = zlib.compress(plain, 9) if packing == "deflate" else zstandard.compress(plain)
    assert len(data) < 1 << 20
    async with serving(tmp_path, settings={"limits": ClientLimits(body=1 << 20)}) as service:
        status, _, _ = await send(service, "/v1/messages", data, headers={"Content-Encoding": packing})
        assert 413 == status


async def test_a_body_that_comes_too_slowly_is_given_up(tmp_path: Path) -> None:
    """One drip after the other does not hold a connection for ever."""
    async with serving(tmp_path, settings={"limits": ClientLimits(body_timeout=0.2)}) as service:
        head = b"POST /v1/messages HTTP/1.1\r\nHost: " + service.gateway.url.removeprefix("http://").encode()
        reply = await raw(service, head + b'\r\nContent-Length: 5000\r\n\r\n{"model"', wait=20)
        assert b" 408 " in reply.partition(b"\r\n")[0]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'"text"',
        b"\xff\xfe{}",
        b'{"model": 3}',
        b'{"model": "debug/echo", "messages": 5, "input": 5}',
        b'{"model": "debug/echo", "messages": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"a": NaN}',
    ],
    ids=lambda body: repr(body[:30]),
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses", "/api/chat"])
async def test_a_body_that_is_no_request_gets_the_wires_own_error(tmp_path: Path, path: str, body: bytes) -> None:
    """A 400 with JSON; never a page, a trace or a hang."""
    async with serving(tmp_path) as service:
        status, text, _ = await send(service, path, body)
        assert status in (400, 404, 422), text
        assert isinstance(json.loads(text), dict) and "Traceback" not in text


@pytest.mark.parametrize(
    ("more", "place"),
    [
        (b'"max_tokens": 9, "max_tokens": 90000', "$.max_tokens"),
        (b'"store" : false, "store" : true', "$.store"),
        (b'"generationConfig": {"maxOutputTokens": 9, "maxOutputTokens": 90000}', "$.generationConfig.maxOutputTokens"),
        (b'"metadata": {"a": [{"b": 1, "\\u0062": "\\u003a"}]}', "$.metadata.a[0].b"),
    ],
    ids=["limit", "blank", "nested", "escaped"],
)
@pytest.mark.parametrize("path", [*DOORS, "/api/generate", "/v1/messages/count_tokens", "/v1/embeddings"])
async def test_a_key_twice_in_a_body_is_refused(tmp_path: Path, path: str, more: bytes, place: str) -> None:
    """A provider may take the value that the gateway did not check: of a limit, a tool, or what is stored."""
    body = DOORS.get(path) or {"model": "debug/echo", "prompt": "Hi", "messages": TURN}
    spoiled = json.dumps(body).encode()[:-1] + b", " + more + b"}"
    async with serving(tmp_path) as service:
        status, text, _ = await send(service, path, spoiled)
        assert 400 == status, text
        assert f"duplicate key; send it once (at {place})" in text
        assert [] == await service.ledger.usage()


@pytest.mark.parametrize("odd", [[], {}, ["text"], 5, None], ids=["list", "object", "filled", "number", "null"])
@pytest.mark.parametrize("upstream", WIRES)
async def test_odd_values_in_a_request_are_no_defect_of_the_gateway(upstream: str, odd: Any) -> None:
    """Types that are no text and roles that nobody knows are refused or passed on, never an internal error."""
    turns = {
        "type": [{"role": "user", "content": [{"type": odd, "text": "hello"}]}],
        "role": [{"role": "nobody", "said": odd}, {"role": "assistant", "content": "yes"}, *TURN],
    }
    with Server() as server:
        async with Gateway(settings_for(server)) as gateway, aiohttp.ClientSession() as client:
            for messages in turns.values():
                for path, body in (
                    ("/v1/messages", {"max_tokens": 9, "messages": messages}),
                    ("/v1/responses", {"input": messages}),
                    ("/v1/chat/completions", {"messages": messages}),
                ):
                    async with client.post(gateway.url + path, json={"model": upstream, **body}) as reply:
                        text = await reply.text()
                    assert reply.status < 500, (path, text)


@pytest.mark.parametrize("upstream", [*WIRES, "debug/tool-call-1"])
async def test_an_odd_schema_of_a_tool_or_an_answer_is_no_defect_of_the_gateway(upstream: str) -> None:
    """
    Keywords of a JSON Schema with values of any type are refused or passed on, strict or not.
    """
    keywords = ("type", "enum", "anyOf", "allOf", "properties", "required", "items", "$ref", "$defs")
    plain = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
    with Server() as server:
        async with Gateway(settings_for(server)) as gateway, aiohttp.ClientSession() as client:
            for name, odd in itertools.product(keywords, (True, 5, 0.5, "text", ["text", None], [5], {"a": 1}, None)):
                inner = {**plain, "properties": {"to": {"type": "string", name: odd}}, "required": []}
                for schema, strict in itertools.product(({**plain, name: odd}, inner), (True, False)):
                    form = {"name": "form", "schema": schema, "strict": strict}
                    tool = {"name": "go", "parameters": schema, "strict": strict}
                    body = {
                        "model": upstream,
                        "messages": TURN,
                        "tools": [{"type": "function", "function": tool}],
                        "response_format": {"type": "json_schema", "json_schema": form},
                    }
                    async with client.post(f"{gateway.url}/v1/chat/completions", json=body) as reply:
                        text = await reply.text()
                    assert reply.status < 500, (schema, strict, text)


async def test_headers_that_are_too_large_are_refused(tmp_path: Path) -> None:
    """The connection ends with an error, and the gateway serves the next one."""
    async with serving(tmp_path, settings={"limits": ClientLimits(header=8192)}) as service:
        host = service.gateway.url.removeprefix("http://").encode()
        reply = await raw(
            service, b"GET /healthz HTTP/1.1\r\nHost: " + host + b"\r\nX: " + b"a" * 100_000 + b"\r\n\r\n"
        )
        assert reply == b"" or reply.split()[1] in (b"400", b"431")
        assert 200 == (await send(service, "/v1/messages", DOORS["/v1/messages"]))[0]


SMUGGLED = b"GET /metrics HTTP/1.1\r\nHost: HOST\r\n\r\n"
SHAPES = {
    "length and chunks": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "two lengths": b"Content-Length: 0\r\nContent-Length: 60\r\n\r\n" + SMUGGLED,
    "a list of lengths": b"Content-Length: 0, 60\r\n\r\n" + SMUGGLED,
    "a signed length": b"Content-Length: +0\r\n\r\n" + SMUGGLED,
    "an unknown coding": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "a coding twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + SMUGGLED,
    "space before the colon": b"Content-Length : 0\r\n\r\n" + SMUGGLED,
    "a folded header": b"X: a\r\n Content-Length: 9\r\n\r\n" + SMUGGLED,
    "a bare line feed": b"X: a\nContent-Length: 60\r\n\r\n" + SMUGGLED,
    "a bad chunk": b"Transfer-Encoding: chunked\r\n\r\n-1\r\n\r\n" + SMUGGLED,
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_no_request_hides_in_another(tmp_path: Path, shape: str) -> None:
    """What two servers could read in two ways is refused, or read in one way; the hidden request is not served."""
    async with serving(tmp_path) as service:
        service.keys.add(ClientKey(name="ci"))
        host = service.gateway.url.removeprefix("http://").encode()
        request = b"POST /v1/messages HTTP/1.1\r\nHost: HOST\r\n" + SHAPES[shape]
        reply = await raw(service, request.replace(b"HOST", host), wait=3)
        assert b"interlingua_gateway" not in reply
        assert b"HTTP/1.1 200" not in reply and b"HTTP/1.0 200" not in reply
        assert (200, "ok\n") == (await send(service, "/healthz", b"", method="GET"))[:2]


@pytest.mark.parametrize("name", ["Authorization", "x-api-key", "x-goog-api-key", "session_id", "X-Session-Id"])
async def test_two_keys_or_sessions_in_one_header_are_refused(tmp_path: Path, name: str) -> None:
    """A proxy before the gateway may have checked the other one."""
    async with serving(tmp_path) as service:
        key = service.keys.add(ClientKey(name="ci"))
        host = service.gateway.url.removeprefix("http://")
        values = (f"Bearer {key}", "Bearer other") if name == "Authorization" else (key, "other")
        for order in (values, values[::-1]):
            lines = "Connection: close\r\n" + "".join(f"{name}: {value}\r\n" for value in order)
            if "ession" in name:
                lines += f"Authorization: Bearer {key}\r\n"
            body = json.dumps(DOORS["/v1/messages"]).encode()
            head = f"POST /v1/messages HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n{lines}\r\n"
            reply = await raw(service, head.encode() + body)
            assert reply.startswith(b"HTTP/1.1 400") and b"was sent twice" in reply and key.encode() not in reply


# --- where it may lead -----------------------------------------------------------------------------------------------


async def test_a_client_cannot_choose_where_a_request_goes(tmp_path: Path) -> None:
    """Fields and headers that name an address, and names of models that look like one, lead nowhere else."""
    reached = []

    async def trap(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(await reader.read(100))
        writer.close()

    server = await asyncio.start_server(trap, "127.0.0.1", 0)
    evil = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with serving(tmp_path) as service:
        body = DOORS["/v1/messages"]
        for extra in ("base_url", "api_base", "baseUrl", "api_key", "endpoint", "provider"):
            await send(service, "/v1/messages", {**body, extra: evil})
        for name in ("X-Forwarded-Host", "X-Original-URL", "X-Base-Url", "Forwarded", "X-Rewrite-URL", "Proxy"):
            await send(service, "/v1/messages", body, headers={name: evil})
        for model in (evil, f"{evil}/v1", f"openai/{evil}", f"ollama/{evil}", f"debug/echo@{evil}", "openai/../../x"):
            status, _, _ = await send(service, "/v1/messages", {**body, "model": model})
            assert status != 500
        host = evil.removeprefix("http://").encode()
        absolute = (
            b"POST " + evil.encode() + b"/v1/messages HTTP/1.1\r\nHost: " + host + b"\r\nContent-Length: 0\r\n\r\n"
        )
        assert b" 200 " not in (await raw(service, absolute, wait=2)).partition(b"\r\n")[0]
    server.close()
    await server.wait_closed()
    assert [] == reached


async def test_the_address_of_a_picture_is_never_fetched(tmp_path: Path) -> None:
    """Whatever upstream there is: the address is sent on, or reported as lost; the gateway opens none itself."""
    reached = []

    async def trap(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append(await reader.read(100))
        writer.close()

    server = await asyncio.start_server(trap, "127.0.0.1", 0)
    evil = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/latest/meta-data"
    picture = {"type": "image", "source": {"type": "url", "url": evil}}
    document = {"type": "document", "source": {"type": "url", "url": evil}}
    with Server() as upstream:
        async with Gateway(settings_for(upstream)) as gateway, aiohttp.ClientSession() as session:
            for api in WIRES:
                content = [{"type": "text", "text": "Look."}, picture, document]
                body = {"model": api, "max_tokens": 9, "messages": [{"role": "user", "content": content}]}
                async with session.post(f"{gateway.url}/v1/messages", json=body) as response:
                    assert response.status in (200, 400), await response.text()
                    losses = response.headers.get("x-interlingua-losses", "")
                    sent = evil.encode() in upstream.last.body
                    assert sent or losses or response.status == 400, api
    server.close()
    await server.wait_closed()
    assert reached == []


async def test_an_aws_signature_is_refused_with_the_remedy(tmp_path: Path) -> None:
    """It proves a secret that the gateway does not know; the client is told what to send instead."""
    signed = "AWS4-HMAC-SHA256 Credential=AKIA/20260101/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature=0"
    path = "/model/debug%2Fecho/converse"
    body = {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]}
    async with serving(tmp_path) as service:
        service.keys.add(ClientKey(name="ci"))
        status, text, _ = await send(service, path, body, headers={"Authorization": signed})
        assert (401, True) == (status, "AWS_BEARER_TOKEN_BEDROCK" in text)


@pytest.mark.parametrize(
    "debugged", ["replay:/etc/passwd", "script:/etc/passwd", "replay:../nothing", "script:/nothing"]
)
async def test_a_clients_name_for_a_model_opens_no_file(tmp_path: Path, debugged: str) -> None:
    """The offline models that read a file are for the command line. The answer does not tell whether one exists."""
    async with serving(tmp_path) as service:
        status, text, _ = await send(service, "/v1/messages", {**DOORS["/v1/messages"], "model": f"debug/{debugged}"})
        assert status == 404 and "root:" not in text and "/etc" not in text.replace(debugged, "")


@pytest.mark.parametrize(
    "path",
    [
        "/v1/../metrics",
        "/v1/%2e%2e/metrics",
        "//metrics",
        "/metrics/",
        "/metrics%00",
        "/v1/messages/../../metrics",
        "/healthz/../metrics",
        "/METRICS",
        "/v1/messages;/../../metrics",
        "/v1beta/models/..%2f..%2fmetrics:generateContent",
        "/model/..%2F..%2Fmetrics/converse",
    ],
)
async def test_no_spelling_of_a_path_passes_the_door(tmp_path: Path, path: str) -> None:
    """Only the one spelling of a path is served; the others are unknown, or ask for a key."""
    async with serving(tmp_path, log=LogSettings(metrics_token="env:PATH")) as service:
        service.keys.add(ClientKey(name="ci"))
        host = service.gateway.url.removeprefix("http://").encode()
        for method in (b"GET", b"POST"):
            request = method + b" " + path.encode() + b" HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"
            reply = await raw(service, request)
            assert reply.split()[1] in (b"400", b"401", b"403", b"404", b"405"), reply[:200]
            assert b"interlingua_gateway" not in reply


async def test_only_the_headers_of_a_request_go_on_to_a_provider(tmp_path: Path) -> None:
    """No key, cookie, address or unknown header of the client reaches it, and no line break makes a new one."""
    with Server(strict=True) as upstream:
        async with serving(tmp_path, gateway=settings_for(upstream)) as service:
            secret = service.keys.add(ClientKey(name="ci"))
            headers = CIMultiDict(
                {"x-api-key": secret, "Cookie": "a=b", "X-Forwarded-For": "10.0.0.1", "anthropic-beta": "tools-2024"}
            )
            headers.extend([("X-Evil", "1"), ("anthropic-beta", "cache-2025"), ("X-Claude-Code-Session-Id", "s1")])
            body = {**DOORS["/v1/messages"], "model": "anthropic-messages"}
            status, text, _ = await send(service, "/v1/messages", body, headers=headers)
            assert 200 == status, text
        seen = {name.lower(): value for name, value in upstream.requests[-1].headers.items()}
        assert secret not in str(seen) and not {"cookie", "x-forwarded-for", "x-evil"} & seen.keys()
        assert {"tools-2024", "cache-2025"} <= set(seen.get("anthropic-beta", "").split(", "))
        assert "s1" == seen.get("x-claude-code-session-id")


async def test_one_header_of_a_name_reaches_a_provider(tmp_path: Path) -> None:
    """A client's word replaces that of the settings in any case, and its list is joined to theirs."""
    given = {"Anthropic-Version": "2023-01-01", "anthropic-BETA": "tools-2024"}
    with Server(strict=True) as upstream:
        own = ProviderSettings(
            id="anthropic", base_url=upstream.base_url("anthropic-messages"), api_keys=("upstream-key",), headers=given
        )
        gateway = Settings(providers=(own,), listen=Listen(port=0))
        async with serving(tmp_path, gateway=gateway) as service:
            body = {**DOORS["/v1/messages"], "model": "anthropic/claude-sonnet-4-5"}
            for headers in ({}, {"anthropic-version": "2023-06-01", "anthropic-beta": "cache-2025"}):
                status, text, _ = await send(service, "/v1/messages", body, headers=headers)
                assert 200 == status, text
    before, after = (request.headers for request in upstream.requests)
    assert ["2023-01-01"] == before.getall("anthropic-version") and ["2023-06-01"] == after.getall("anthropic-version")
    assert ["tools-2024"] == before.getall("anthropic-beta") and ["tools-2024,cache-2025"] == after.getall(
        "anthropic-beta"
    )


async def test_no_text_of_a_client_makes_a_header(tmp_path: Path) -> None:
    """Line breaks in names that come back in headers are taken out."""
    async with serving(tmp_path) as service:
        for text in ("a\r\nX-Evil: 1", "a\nX-Evil: 1", "a\0b", "ä\u2028b"):
            body = {**DOORS["/v1/messages"], "model": text, "metadata": {"user_id": text}, text: 1}
            status, _, sent = await send(service, "/v1/messages", body)
            assert status < 500 and "X-Evil" not in sent
            body = {**DOORS["/v1/messages"], "stop_sequences": [text], text: {"cache": 1}}
            status, _, sent = await send(service, "/v1/messages", body)
            assert status < 500 and "X-Evil" not in sent


# --- what may be read of it ------------------------------------------------------------------------------------------

PLACES = st.sampled_from(
    ["bearer", "x-api-key", "query", "model", "path", "system", "metadata", "session", "field", "text"]
)


@settings(max_examples=25)
@given(st.lists(PLACES, min_size=1, max_size=3, unique=True), st.booleans(), st.sampled_from(sorted(DOORS)))
async def test_no_key_is_in_any_log_metric_error_or_file(places: list[str], is_valid: bool, door: str) -> None:
    """Wherever a client puts its key, right or wrong: it is in no answer's headers, log, number, ledger or settings."""
    import tempfile

    logged = io.StringIO()
    handler = logging.StreamHandler(logged)
    logging.getLogger().addHandler(handler)
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            async with serving(
                folder,
                log=LogSettings(access=str(folder / "access.log")),
                recording=RecordingSettings(enabled=True, home=name),
            ) as service:
                key = service.keys.add(ClientKey(name="ci"))
                secret = key if is_valid else "il-" + key[3:][::-1]
                headers, path, body = {"x-api-key": key}, door, dict(DOORS[door])
                for place in places:
                    match place:
                        case "bearer":
                            headers["Authorization"] = f"Bearer {secret}"
                        case "x-api-key":
                            headers["x-api-key"] = secret
                        case "query":
                            path += f"?key={secret}"
                        case "path":
                            path = f"/{secret}{path}"
                        case "session":
                            headers["session_id"] = headers["x-session-id"] = secret
                        case "model" | "system" | "field":
                            body[place] = secret
                        case "metadata":
                            body["metadata"] = {"user_id": secret}
                        case "text":
                            body |= {"messages": [{"role": "user", "content": f"my key is {secret}"}], "input": secret}
                status, text, sent = await send(service, path, body, headers=headers)
                assert secret not in str(sent)
                if status >= 400:
                    assert secret not in text
                _, numbers, _ = await send(service, "/metrics", b"", method="GET")
                assert secret not in numbers
            for file in folder.rglob("*"):
                if file.is_file():
                    assert secret.encode() not in file.read_bytes(), file
        assert secret not in logged.getvalue()
    finally:
        logging.getLogger().removeHandler(handler)


@pytest.mark.parametrize("wire", WIRES)
async def test_a_key_that_a_provider_quotes_in_a_stream_reaches_nobody(wire: str, tmp_path: Path) -> None:
    """An error before or within a stream, forwarded or translated, is sent without the key; so is what is written."""
    with Server() as upstream:
        gateway = settings_for(upstream)
        places = {"log": LogSettings(access=str(tmp_path / "access.log"))}
        record = RecordingSettings(enabled=True, home=str(tmp_path / "home"))
        async with serving(tmp_path / "gateway", gateway=gateway, recording=record, **places) as service:
            for client in (wire, next(other for other in WIRES if other != wire)):
                for after in (0, 2):
                    upstream.clear()
                    error = il.Overloaded("the key upstream-key is over its quota")
                    upstream.say("Hello, dear friend", fault=faults.ErrorEvent(error, after_events=after))
                    path, body = ask(client, wire, True)
                    status, text, headers = await send(service, path, body)
                    assert upstream.requests and "over its quota" in text, (status, text)
                    assert "upstream-key" not in text + str(headers)
        for file in tmp_path.rglob("*"):
            assert not file.is_file() or b"upstream-key" not in file.read_bytes(), file
