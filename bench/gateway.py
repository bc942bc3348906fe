"""The gateway beside a bare aiohttp proxy and a bare-codec proxy: requests a second, plain and streamed.

    python bench/gateway.py [--seconds 3] [--concurrency 32]

Each server runs in a process of its own, with one worker, in front of the same upstream, which speaks Anthropic's wire
and answers from memory. `bare` passes bytes on, `codec` decodes and encodes with nothing around it.
"""

import argparse
import asyncio
import subprocess
import sys
import time

import aiohttp
from aiohttp import web

import interlingua as il
from interlingua.gateway import Alias, Gateway, Listen, ProviderSettings, Settings, Target
from interlingua.values.folding import unfold

UPSTREAM, WIRE = 18400, "anthropic-messages"
ANSWER = il.AssistantMessage(
    content=(il.TextBlock(text="word " * 100),), model="m", stop_reason="stop", usage=il.Usage.of(10, 100)
)
ASK = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Hello"}]}
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
ROWS = {"bare": MESSAGES, "codec": CHAT, "same": MESSAGES, "other": CHAT}


async def run(handler: object, port: int) -> None:
    runner = web.ServerRunner(web.Server(handler, access_log=None))  # type: ignore[arg-type]
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await asyncio.Event().wait()


async def upstream() -> None:
    codec = il.wire(WIRE).codec
    whole = codec.encode_response(ANSWER).bytes()
    encoder = codec.StreamEncoder()
    stream = b"".join(encoder.feed(event) for event in unfold(ANSWER, size=5))

    async def handle(http: web.BaseRequest) -> web.StreamResponse:
        if b'"stream":true' not in (await http.read()).replace(b" ", b""):
            return web.Response(body=whole, content_type="application/json")
        return web.Response(body=stream, content_type="text/event-stream")

    await run(handle, UPSTREAM)


async def proxy(port: int, translates: bool) -> None:
    client, spoken = il.wire("openai-completions").codec, il.wire(WIRE).codec
    url = f"http://127.0.0.1:{UPSTREAM}/v1/messages"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def handle(http: web.BaseRequest) -> web.StreamResponse:
            body = await http.read()
            request = client.decode_request(body) if translates else None
            sent = spoken.encode_request(request).bytes() if translates else body
            async with session.post(url, data=sent, headers={"Content-Type": "application/json"}) as answer:
                if answer.content_type == "application/json":
                    whole = await answer.read()
                    if translates:
                        whole = client.encode_response(spoken.decode_response(whole), request=request).bytes()
                    return web.Response(body=whole, content_type="application/json")
                response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
                await response.prepare(http)
                frames, decoder = spoken.framing(), spoken.StreamDecoder(model="m")
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

        await run(handle, port)


async def gateway(port: int) -> None:
    provider = ProviderSettings(id="up", api=WIRE, base_url=f"http://127.0.0.1:{UPSTREAM}", api_keys=("key",))
    alias = Alias(name="m", targets=(Target(model="up/m"),))
    async with Gateway(Settings(providers=(provider,), aliases=(alias,), listen=Listen(port=port))):
        await asyncio.Event().wait()


async def measured(url: str, stream: bool, concurrency: int, seconds: float) -> float:
    """Requests a second."""
    done, end = 0, time.perf_counter() + seconds
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

        async def worker() -> None:
            nonlocal done
            while time.perf_counter() < end:
                async with session.post(url, json={**ASK, "stream": stream}) as response:
                    await response.read()
                    assert response.status == 200, await response.text()
                done += 1

        await asyncio.gather(*(worker() for _ in range(concurrency)))
    return done / seconds


async def listening(port: int) -> None:
    """Waits until a server answers on the port."""
    async with asyncio.timeout(60):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return


async def compare(concurrency: int, seconds: float) -> None:
    ports = {"upstream": UPSTREAM, "bare": 18401, "codec": 18402, "gateway": 18403}
    servers = [subprocess.Popen([sys.executable, __file__, "--serve", name]) for name in ports]
    try:
        for port in ports.values():
            await listening(port)
        print(f"{'row':8}{'plain/s':>10}{'stream/s':>10}   (concurrency {concurrency})")
        for name, path in ROWS.items():
            url = f"http://127.0.0.1:{ports.get(name, ports['gateway'])}{path}"
            plain, streamed = [await measured(url, stream, concurrency, seconds) for stream in (False, True)]
            print(f"{name:8}{plain:10.0f}{streamed:10.0f}")
    finally:
        for server in servers:
            server.terminate()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--concurrency", type=int, default=32)
    given = parser.parse_args()
    serving = {"upstream": upstream, "bare": lambda: proxy(18401, False), "codec": lambda: proxy(18402, True)}
    serving["gateway"] = lambda: gateway(18403)
    asyncio.run(serving[given.serve]() if given.serve else compare(given.concurrency, given.seconds))
