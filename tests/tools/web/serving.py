"""A web server for tests that says exactly the bytes it is told to, however wrong they are."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

Handler = Callable[["Asked", asyncio.StreamWriter], Awaitable[None]]


class Asked:
    """A request as it came: its path, its headers by lower-case name, its body."""

    def __init__(self, head: bytes, body: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        self.method, self.path, _ = first.split(" ")
        self.headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        self.body = body


class Server:
    def __init__(self, port: int, scheme: str) -> None:
        self.port = port
        self.url = f"{scheme}://127.0.0.1:{port}"
        self.asked: list[Asked] = []


def says(body: bytes = b"", kind: str = "text/plain", status: int = 200, headers: tuple[str, ...] = ()) -> bytes:
    """A whole answer."""
    lines = [f"HTTP/1.1 {status} Fine", f"Content-Length: {len(body)}", "Connection: close", *headers]
    if kind:
        lines.append(f"Content-Type: {kind}")
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def always(answer: bytes) -> Handler:
    async def handle(asked: Asked, out: asyncio.StreamWriter) -> None:
        out.write(answer)

    return handle


def by_path(answers: dict[str, bytes]) -> Handler:
    async def handle(asked: Asked, out: asyncio.StreamWriter) -> None:
        out.write(answers.get(asked.path, says(b"no such page", status=404)))

    return handle


@asynccontextmanager
async def serving(
    handler: Handler, *, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Server]:
    tasks: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            head = (await reader.readuntil(b"\r\n\r\n"))[:-4]
            asked = Asked(head, b"")
            asked.body = await reader.readexactly(int(asked.headers.get("content-length", 0)))
            served.asked.append(asked)
            await handler(asked, writer)
            await writer.drain()
        writer.close()
        with suppress(OSError, asyncio.CancelledError):
            await writer.wait_closed()
        tasks.discard(task)

    server = await asyncio.start_server(connected, host, port, ssl=tls)
    served = Server(server.sockets[0].getsockname()[1], "https" if tls else "http")
    try:
        yield served
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
