"""`CanvasClient` and `AsyncCanvasClient`: programs that show their conversations on a canvas.

Commits return at once. They are kept on disk, sent in batches, and sent again until the server has them; the server may
be away for as long as it likes. What is read (`get_canvas`, `list_canvases`) is read from the server.
"""

import asyncio
import contextlib
import hashlib
import http.client
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlsplit

from ..values import jsontext
from ..values.errors import InterlinguaError, TransportError
from ..values.places import home as default_home
from .client_model import LocalCanvas
from .outbox import MAX_BATCH, Outbox

FIRST_PAUSE, LAST_PAUSE = 0.2, 10.0  # seconds between attempts while the server is away
TIMEOUT = 30.0


class CanvasUnreachable(TransportError):
    """No canvas server answers."""


class _Ask:
    """One request to the server, as data: the clients differ only in who waits for it."""

    def __init__(self, method: str, path: str, body: bytes | None = None) -> None:
        self.method = method
        self.path = path
        self.body = body


class _Core:
    """What both clients have in common: where the server is, what is on its way, and what the answers mean."""

    def __init__(
        self,
        address: str | None,
        key: str | None,
        home: str | Path | None,
        queue: bool,
        on_change: Callable[[], object],
    ) -> None:
        folder = (Path(home).expanduser() if home is not None else default_home()) / "canvas"
        self._folder = folder
        self._on_change = on_change
        self._limit = MAX_BATCH
        self._address = address
        self._key = key
        place = hashlib.blake2b((address or "local").encode(), digest_size=8).hexdigest()
        self.outbox = Outbox(folder / "outbox" / f"{place}.jsonl" if queue else None)
        self.failures: list[dict[str, Any]] = []  # changes that the server refused, and why
        self.canvases: dict[str, LocalCanvas] = {}

    @property
    def address(self) -> str:
        """Where the server is: as given, or as the last one on this machine left it."""
        if self._address is not None:
            return self._address.rstrip("/")
        try:
            found = jsontext.read((self._folder / "server.json").read_bytes())
        except (OSError, InterlinguaError):
            raise CanvasUnreachable("no canvas runs on this machine; start one: interlingua canvas") from None
        return str(found["address"])

    @property
    def headers(self) -> dict[str, str]:
        key = self._key
        if key is None:
            from ..serving.access import Access

            key = Access(self._folder).local_key
        return {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}

    def keep(self, change: dict[str, Any]) -> None:
        self.outbox.add(change)
        self._on_change()

    def new_canvas(self, title: str | None, description: str | None) -> LocalCanvas:
        canvas = LocalCanvas(self.keep, title=title, description=description)
        fields = {"op": "create", "canvas": canvas.canvas_id, "title": title, "description": description}
        self.keep({key: value for key, value in fields.items() if value is not None})
        main = canvas.list_branches()[0]
        named = {"branch": main["name"], "description": main["description"]}
        self.keep({"op": "branch", "canvas": canvas.canvas_id, **named})
        self.canvases[canvas.canvas_id] = canvas
        return canvas

    def sending(self) -> Generator[_Ask, tuple[int, Any], int]:
        """Sends one batch; gives how many changes are no longer on their way."""
        lines = self.outbox.batch(self._limit)
        if not lines:
            return 0
        status, answer = yield _Ask("POST", "/api/batch", b'{"operations":[' + b",".join(lines) + b"]}")
        if status in (401, 403, 404, 429) or status >= 500:
            raise InterlinguaError(f"the canvas does not take changes now ({status}): {_reason(answer)}")
        if status != 200 and len(lines) > 1:  # one of them is at fault: find it
            self._limit = 1
            return 0
        outcomes = answer["outcomes"] if status == 200 else [{"ok": False, "error": answer}]
        for line, outcome in zip(lines, outcomes, strict=True):
            if not outcome.get("ok", True) or outcome.get("stale"):
                self.failures.append({"change": jsontext.read(line), "outcome": outcome})
        self.outbox.acknowledge(len(lines))
        self._limit = MAX_BATCH
        return len(lines)

    def getting(self, canvas_id: str) -> Generator[_Ask, tuple[int, Any], LocalCanvas | None]:
        status, answer = yield _Ask("GET", f"/api/canvases/{quote(canvas_id, safe='')}")
        if status == 404:
            return None
        _refuse(status, answer)
        canvas: LocalCanvas = LocalCanvas.from_canvas_data(answer["data"], self.keep)
        self.canvases[canvas_id] = canvas
        return canvas

    def listing(self) -> Generator[_Ask, tuple[int, Any], list[dict[str, Any]]]:
        status, answer = yield _Ask("GET", "/api/canvases")
        _refuse(status, answer)
        return list(answer["canvases"])

    def removing(self, canvas_id: str) -> Generator[_Ask, tuple[int, Any], bool]:
        status, answer = yield _Ask("DELETE", f"/api/canvases/{quote(canvas_id, safe='')}", b"{}")
        if status == 404:
            return False
        _refuse(status, answer)
        self.canvases.pop(canvas_id, None)
        return True

    def checking(self) -> Generator[_Ask, tuple[int, Any], bool]:
        status, _ = yield _Ask("GET", "/api/me")
        return status == 200


def _refuse(status: int, answer: Any) -> None:
    if status >= 400:
        raise InterlinguaError(f"the canvas answered {status}: {_reason(answer)}")


def _reason(answer: Any) -> str:
    detail = answer.get("detail") if isinstance(answer, dict) else None
    return str(detail.get("message")) if isinstance(detail, dict) else str(answer)[:200]


class CanvasClient:
    """Shows conversations on a canvas, from any thread.

    `address` is the server's; without it, the one that runs on this machine. `key` is one with the scope `write`; on
    this machine none is needed. With `queue`, what could not be sent survives this process.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        key: str | None = None,
        home: str | Path | None = None,
        queue: bool = True,
    ) -> None:
        self._core = _Core(address, key, home, queue, self._poke)
        self._lock = threading.Lock()
        self._connection: http.client.HTTPConnection | None = None
        self._wake = threading.Event()
        self._idle = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._send, name="interlingua-canvas", daemon=True)
        if self._core.outbox:
            self._wake.set()
        else:
            self._idle.set()
        self._thread.start()

    def _poke(self) -> None:
        self._idle.clear()
        self._wake.set()

    # --- canvases ----------------------------------------------------------------------------------------------------

    def create_canvas(self, title: str | None = None, description: str | None = None) -> LocalCanvas:
        return self._core.new_canvas(title, description)

    def get_canvas(self, canvas_id: str) -> LocalCanvas | None:
        """A canvas as the server has it, with its branches; None where there is none."""
        self.flush()
        found: LocalCanvas | None = self._drive(self._core.getting(canvas_id))
        return found

    def list_canvases(self) -> list[LocalCanvas]:
        found = [self.get_canvas(one["canvas_id"]) for one in self.get_canvas_summaries()]
        return [one for one in found if one is not None]

    def get_canvas_summaries(self) -> list[dict[str, Any]]:
        self.flush()
        found: list[dict[str, Any]] = self._drive(self._core.listing())
        return found

    def get_canvas_data(self, canvas_id: str) -> dict[str, Any] | None:
        found = self.get_canvas(canvas_id)
        return None if found is None else found.to_canvas_data()

    def remove_canvas(self, canvas_id: str) -> bool:
        self.flush()
        return bool(self._drive(self._core.removing(canvas_id)))

    def check_server_health(self) -> bool:
        """Whether the server answers, and lets us in."""
        try:
            return bool(self._drive(self._core.checking()))
        except (OSError, InterlinguaError):
            return False

    def __len__(self) -> int:
        """How many canvases this client knows."""
        return len(self._core.canvases)

    @property
    def failures(self) -> list[dict[str, Any]]:
        """Changes that the server refused, or branches that somebody else had moved: each with what it said."""
        return list(self._core.failures)

    @property
    def pending(self) -> int:
        """How many changes the server does not have yet."""
        return len(self._core.outbox)

    # --- sending -----------------------------------------------------------------------------------------------------

    def flush(self, timeout: float | None = TIMEOUT) -> bool:
        """Waits until the server has everything; False when the time is over. What waits is sent later."""
        self._wake.set()
        return self._idle.wait(timeout)

    def close(self, timeout: float = 5.0) -> None:
        """Sends what waits, for a while; the rest stays on disk for the next client."""
        self.flush(timeout)
        self._closing = True
        self._wake.set()
        self._thread.join(timeout)
        with self._lock:
            self._hang_up()
        self._core.outbox.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _send(self) -> None:
        pause = FIRST_PAUSE
        while not self._closing:
            if not self._core.outbox:
                self._idle.set()
                self._wake.wait()
                self._wake.clear()
                continue
            try:
                self._drive(self._core.sending())
                pause = FIRST_PAUSE
            except (OSError, http.client.HTTPException, InterlinguaError):
                self._wake.wait(pause)
                self._wake.clear()
                pause = min(pause * 2, LAST_PAUSE)

    def _drive(self, flow: Generator[_Ask, tuple[int, Any], Any]) -> Any:
        try:
            ask = next(flow)
            while True:
                ask = flow.send(self._exchange(ask))
        except StopIteration as end:
            return end.value

    def _exchange(self, ask: _Ask) -> tuple[int, Any]:
        with self._lock:
            for again in (True, False):  # a connection that was kept may have been closed meanwhile
                try:
                    if self._connection is None:
                        parts = urlsplit(self._core.address)
                        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=TIMEOUT)
                    self._connection.request(ask.method, ask.path, ask.body, self._core.headers)
                    response = self._connection.getresponse()
                    raw = response.read()
                    return response.status, jsontext.read(raw) if raw else None
                except (OSError, http.client.HTTPException):
                    self._hang_up()
                    if not again:
                        raise
            raise AssertionError

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class AsyncCanvasClient:
    """As `CanvasClient`, for programs with an event loop. Commits need not be awaited: they return at once."""

    def __init__(
        self,
        address: str | None = None,
        *,
        key: str | None = None,
        home: str | Path | None = None,
        queue: bool = True,
    ) -> None:
        self._core = _Core(address, key, home, queue, self._poke)
        self._session: Any = None
        self._task: asyncio.Task[None] | None = None
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        import aiohttp

        self._loop = asyncio.get_running_loop()
        self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT))
        self._task = asyncio.ensure_future(self._send())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _poke(self) -> None:
        if self._loop is not None:
            self._idle.clear()
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._wake.set)

    async def create_canvas(self, title: str | None = None, description: str | None = None) -> LocalCanvas:
        return self._core.new_canvas(title, description)

    async def get_canvas(self, canvas_id: str) -> LocalCanvas | None:
        await self.flush()
        found: LocalCanvas | None = await self._drive(self._core.getting(canvas_id))
        return found

    async def list_canvases(self) -> list[LocalCanvas]:
        found = [await self.get_canvas(one["canvas_id"]) for one in await self.get_canvas_summaries()]
        return [one for one in found if one is not None]

    async def get_canvas_summaries(self) -> list[dict[str, Any]]:
        await self.flush()
        found: list[dict[str, Any]] = await self._drive(self._core.listing())
        return found

    async def get_canvas_data(self, canvas_id: str) -> dict[str, Any] | None:
        found = await self.get_canvas(canvas_id)
        return None if found is None else found.to_canvas_data()

    async def remove_canvas(self, canvas_id: str) -> bool:
        await self.flush()
        return bool(await self._drive(self._core.removing(canvas_id)))

    async def check_server_health(self) -> bool:
        import aiohttp

        try:
            return bool(await self._drive(self._core.checking()))
        except (OSError, InterlinguaError, aiohttp.ClientError):
            return False

    def __len__(self) -> int:
        return len(self._core.canvases)

    @property
    def failures(self) -> list[dict[str, Any]]:
        return list(self._core.failures)

    @property
    def pending(self) -> int:
        return len(self._core.outbox)

    async def flush(self, timeout: float | None = TIMEOUT) -> bool:
        """Waits until the server has everything; False when the time is over."""
        self._wake.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        return not self._core.outbox

    async def close(self, timeout: float = 5.0) -> None:
        await self.flush(timeout)
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._session is not None:
            await self._session.close()
        self._core.outbox.close()

    async def _send(self) -> None:
        import aiohttp

        pause = FIRST_PAUSE
        while True:
            if not self._core.outbox:
                self._idle.set()
                await self._wake.wait()
                self._wake.clear()
                continue
            self._idle.clear()
            try:
                await self._drive(self._core.sending())
                pause = FIRST_PAUSE
            except (OSError, aiohttp.ClientError, InterlinguaError):
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._wake.wait()
                self._wake.clear()
                pause = min(pause * 2, LAST_PAUSE)

    async def _drive(self, flow: Generator[_Ask, tuple[int, Any], Any]) -> Any:
        try:
            ask = next(flow)
            while True:
                ask = flow.send(await self._exchange(ask))
        except StopIteration as end:
            return end.value

    async def _exchange(self, ask: _Ask) -> tuple[int, Any]:
        if self._session is None:
            raise InterlinguaError("use the client with `async with`")
        url = self._core.address + ask.path
        async with self._session.request(ask.method, url, data=ask.body, headers=self._core.headers) as response:
            raw = await response.read()
            return response.status, jsontext.read(raw) if raw else None
