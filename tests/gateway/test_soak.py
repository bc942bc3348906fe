"""20,000 requests through one gateway in a process of its own: its memory is flat. `bench/gateway_soak.py` has more."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import interlingua as il
from interlingua.gateway.ledger import Ledger

REQUESTS, CALLERS = 20_000, 16
GROWTH = 10.0  # megabytes after the first quarter
SERVE = """
import asyncio, sys
from pathlib import Path
from interlingua.gateway import Alias, ClientKey, Listen, ProviderSettings, Settings, Target
from interlingua.gateway.service import Service
from interlingua.gateway.settings_file import ServeSettings

async def main(folder, behind):
    url = f"http://127.0.0.1:{behind}"
    provider = ProviderSettings(id="up", api="anthropic-messages", base_url=url, api_keys=("k",))
    settings = Settings(
        listen=Listen(port=0), providers=(provider,), aliases=(Alias(name="m", targets=(Target(model="up/m"),)),)
    )
    async with Service(ServeSettings(gateway=settings), Path(folder)) as service:
        secret = service.keys.add(ClientKey(name="soak", requests_per_minute=10**9, concurrency=1000))
        print(service.gateway.url, secret, flush=True)
        await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


class Upstream(asyncio.Protocol):
    """Answers each request whole, in Anthropic's form."""

    answer = (
        il.wire("anthropic-messages")
        .codec.encode_response(
            il.AssistantMessage(content=(il.TextBlock(text="Fine."),), stop_reason="stop", usage=il.Usage.of(3, 2))
        )
        .bytes()
    )

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if data.endswith(b"}"):  # requests here are small and end so
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(self.answer)}\r\n\r\n"
            self._transport.write(head.encode() + self.answer)


def memory(pid: int) -> float:
    """Megabytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


@asynccontextmanager
async def gateway(folder: Path, behind: int) -> AsyncIterator[tuple[int, str, int]]:
    """The port of a gateway, a key and its process."""
    command = (sys.executable, "-c", SERVE, str(folder), str(behind))
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        url, key = (await process.stdout.readline()).decode().split()
        yield int(url.rpartition(":")[2]), key, process.pid
    finally:
        process.send_signal(signal.SIGKILL)
        await process.wait()


async def test_memory_is_flat_over_twenty_thousand_requests(tmp_path: Path) -> None:
    """
    On the same wire and translated, by sixteen callers; every request is in the ledger.
    """
    upstream = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0)
    behind = upstream.sockets[0].getsockname()[1]
    body = b'{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}'
    left = [0]

    async def ask(port: int, key: str, path: str) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Length: {len(body)}\r\n\r\n"
        while left[0] > 0:
            left[0] -= 1
            writer.write(head.encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200"), answer
            length = int(answer.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
        writer.close()

    sizes = []
    async with gateway(tmp_path, behind) as (port, key, pid):
        for _ in range(4):
            left[0] = REQUESTS // 4
            paths = ["/v1/messages", "/v1/chat/completions"] * (CALLERS // 2)
            await asyncio.gather(*(ask(port, key, path) for path in paths))
            sizes.append(memory(pid))
        ledger = Ledger(f"sqlite:{tmp_path / 'gateway.db'}")
        async with asyncio.timeout(60):
            while (row := (await ledger.usage(()))[0]).calls < REQUESTS:
                await asyncio.sleep(0.1)
        await ledger.close()
    upstream.close()
    assert (row.calls, row.input, row.errors) == (REQUESTS, 3 * REQUESTS, 0)
    assert sizes[-1] - sizes[0] < GROWTH, sizes
