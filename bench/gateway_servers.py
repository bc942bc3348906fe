"""The servers that `bench/gateway.py` compares, each in a process of its own with one worker.

python bench/gateway_servers.py NAME PORT UPSTREAM-PORT

`upstream` speaks Anthropic's wire and answers from memory, each event of a stream as an HTTP chunk of its own, written
alone; `upstream-quarters` writes a quarter of the stream at a time, and so takes little of the processors. Behind `@`
a name may say another wire: `upstream@ollama-chat`, `gateway@ollama-chat`.
`bare` passes bytes on with aiohttp on both sides: the limit for Python. `codec` is the same with our codecs between,
for clients of OpenAI Chat, and nothing around them. The others are the gateway as `interlingua serve` runs it: a key
with limits, a ledger, metrics.
"""

import asyncio
import cProfile
import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

import interlingua as il
from interlingua.gateway import Alias, Listen, ProviderSettings, Settings, Target
from interlingua.gateway.exchange import ClientKey
from interlingua.gateway.keys import ClientKeys
from interlingua.gateway.service import Service, relax_gc
from interlingua.gateway.settings_file import RecordingSettings, ServeSettings, StateSettings
from interlingua.values.folding import unfold

WIRE, CHAT = "anthropic-messages", "openai-completions"
MODEL = "m"
WORDS = 96  # with its beginning and end, a stream of 100 events
ANSWER = il.AssistantMessage(
    content=(il.TextBlock(text="word " * WORDS),), model=MODEL, stop_reason="stop", usage=il.Usage.of(10, 100)
)
MODELS = b'{"object":"list","data":[{"id":"m","object":"model","created":0,"owned_by":"bench"}]}'
HELD = "a stream that stays open"  # in a request: the upstream sends a few events and no end


# --- the upstream ----------------------------------------------------------------------------------------------------


class Upstream(asyncio.Protocol):
    """One connection. Hand-written, so that it costs little beside what is measured."""

    head = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n%s\r\n\r\n"
    models = head % (b"application/json", b"Content-Length: %d" % len(MODELS)) + MODELS
    plain = b""
    events: tuple[bytes, ...] = ()

    def __init__(self) -> None:
        self._received = b""

    @classmethod
    def prepare(cls, wire: str, writes: int | None) -> None:
        codec = il.wire(wire).codec
        whole = codec.encode_response(ANSWER).bytes()
        cls.plain = cls.head % (b"application/json", b"Content-Length: %d" % len(whole)) + whole
        encoder = codec.StreamEncoder()
        frames = [frame for event in unfold(ANSWER, size=5) if (frame := encoder.feed(event))]
        head = cls.head % (il.wire(wire).http.content_type.encode(), b"Transfer-Encoding: chunked")
        chunks = [b"%x\r\n%s\r\n" % (len(frame), frame) for frame in frames]
        chunks = [head + chunks[0], *chunks[1:-1], chunks[-1] + b"0\r\n\r\n"]
        size = -(-len(chunks) // writes) if writes else 1
        cls.events = tuple(b"".join(chunks[at : at + size]) for at in range(0, len(chunks), size))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._loop = asyncio.get_running_loop()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, border, body = self._received.partition(b"\r\n\r\n")
        if not border:
            return
        if head.startswith(b"GET "):
            self._received = b""
            self._transport.write(self.models)
            return
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        if len(body) < int(length.partition(b":")[2]):
            return
        self._received = b""
        self._last = 5 if HELD.encode() in body else len(self.events)
        if b'"stream":true' in body.replace(b" ", b"") or b"stream" in head[: head.index(b"\r\n")].lower():
            self._send(0)
        else:
            self._transport.write(self.plain)

    def _send(self, at: int) -> None:
        """One write at a time: what arrives together is for the machine to decide."""
        if not self._transport.is_closing():
            self._transport.write(self.events[at])
            if at + 1 < self._last:
                self._loop.call_soon(self._send, at + 1)


async def upstream(port: int, wire: str, *, writes: int | None = None) -> None:
    Upstream.prepare(wire, writes)
    await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", port, backlog=4096)
    await asyncio.Event().wait()


# --- proxies of a page -----------------------------------------------------------------------------------------------


async def proxy(port: int, behind: int, *, translates: bool) -> None:
    client, spoken = il.wire(CHAT).codec, il.wire(WIRE).codec
    url = f"http://127.0.0.1:{behind}"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def handle(http: web.BaseRequest) -> web.StreamResponse:
            body = await http.read()
            request = client.decode_request(body) if translates else None
            sent = spoken.encode_request(request).bytes() if translates else body
            path = "/v1/messages" if translates else http.raw_path
            async with session.post(url + path, data=sent, headers={"Content-Type": "application/json"}) as answer:
                if answer.content_type == "application/json":
                    whole = await answer.read()
                    if translates:
                        whole = client.encode_response(spoken.decode_response(whole), request=request).bytes()
                    return web.Response(body=whole, content_type="application/json")
                response = web.StreamResponse(headers={"Content-Type": answer.headers["Content-Type"]})
                await response.prepare(http)
                frames, decoder = spoken.framing(), spoken.StreamDecoder(model=MODEL)
                encoder = client.StreamEncoder(request=request)
                async for chunk in answer.content.iter_any():
                    data = chunk
                    if translates:
                        events = [event for frame in frames.feed(chunk) for event in decoder.feed(frame)]
                        data = b"".join(map(encoder.feed, events))
                    if data:
                        await response.write(data)
                await response.write_eof()
                return response

        runner = web.ServerRunner(web.Server(handle, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, backlog=4096).start()
        await asyncio.Event().wait()


# --- the gateway -----------------------------------------------------------------------------------------------------


async def gateway(port: int, behind: int, wire: str, *, records: str | None = None, limits: str | None = None) -> None:
    provider = ProviderSettings(id="up", api=wire, base_url=f"http://127.0.0.1:{behind}", api_keys=("key",))
    alias = Alias(name=MODEL, targets=(Target(model=f"up/{MODEL}"),))
    listen = Listen(port=port, reuse_port=False)
    with tempfile.TemporaryDirectory(prefix="gateway-bench-") as home:
        folder = Path(home)
        settings = ServeSettings(
            gateway=Settings(providers=(provider,), aliases=(alias,), listen=listen),
            recording=RecordingSettings(
                enabled=records is not None,
                home=str(folder / "sessions"),
                store=f"sqlite:{folder / 'sessions.db'}" if records == "sqlite" else None,
            ),
            state=StateSettings(limits=limits),
        )
        keys = ClientKeys(folder / "keys.json")
        # Limits that are counted and never reached.
        limited = ClientKey(name="bench", requests_per_minute=10**9, tokens_per_minute=10**12, concurrency=10**6)
        secret = keys.add(limited)
        Path(os.environ.get("GATEWAY_BENCH_KEY", os.devnull)).write_text(secret)
        async with Service(settings, folder):
            relax_gc()
            await asyncio.Event().wait()


SERVERS: dict[str, Callable[[int, int, str], Coroutine[Any, Any, None]]] = {
    "upstream": lambda port, _, wire: upstream(port, wire),
    "upstream-quarters": lambda port, _, wire: upstream(port, wire, writes=4),
    "bare": lambda port, behind, _: proxy(port, behind, translates=False),
    "codec": lambda port, behind, _: proxy(port, behind, translates=True),
    "gateway": gateway,
    "recording": lambda port, behind, wire: gateway(port, behind, wire, records="files"),
    "recording-sqlite": lambda port, behind, wire: gateway(port, behind, wire, records="sqlite"),
    "redis": lambda port, behind, wire: gateway(port, behind, wire, limits=os.environ["GATEWAY_BENCH_REDIS"]),
}


def main() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    (name, _, wire), port, behind = sys.argv[1].partition("@"), int(sys.argv[2]), int(sys.argv[3])
    profile = cProfile.Profile(time.thread_time) if os.environ.get("GATEWAY_BENCH_PROFILE") else None

    async def until_terminated() -> None:
        serving = asyncio.ensure_future(SERVERS[name](port, behind, wire or WIRE))
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, serving.cancel)
        if profile is not None:
            profile.enable()
        await asyncio.wait([serving])
        if profile is not None:
            profile.disable()
            profile.dump_stats(f"{os.environ['GATEWAY_BENCH_PROFILE']}.{sys.argv[1]}")
        if not serving.cancelled() and serving.exception() is not None:
            serving.result()

    asyncio.run(until_terminated())


if __name__ == "__main__":
    main()
