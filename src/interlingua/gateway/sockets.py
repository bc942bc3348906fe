"""Requests over one WebSocket, in lanes: those of one `stream_id` are answered in order, different ones at once.

The rules are those of developers.openai.com/api/docs/guides/websocket-mode. Requests without a `stream_id` have a lane
of their own. Each lane keeps its latest response, which any lane of the socket can continue.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from aiohttp import WSCloseCode, WSMsgType, web

from ..values import jsontext
from ..values.errors import BadRequest, InterlinguaError
from .incoming import aside, json_object
from .recall import StoredResponse

# …/guides/websocket-mode: 1 to 256 characters, 32 values on one socket, 16 responses at once.
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_NAMED_LANES = 32
_ACTIVE = 16  # responses at once; further ones wait
_WAITING = 4  # requests of a lane that wait for the response before them; after that the socket is not read
HEARTBEAT = 30.0  # seconds between two pings of a WebSocket
_OWN_FIELDS = ("type", "generate", "stream_id")  # of a message `response.create`
GOING_AWAY = WSCloseCode.GOING_AWAY

# Answers a message of a lane, or tells the error of reading it. False if the client is gone.
Respond: TypeAlias = "Callable[[SocketMessage | InterlinguaError, SocketLane], Awaitable[bool]]"


class SocketMessage(dict[str, Any]):
    """A message of a client, with its text."""

    received = b""

    def request(self) -> tuple[bytes, bool]:
        """Returns the body of its request, and whether a response is to be generated."""
        if self.get("type") != "response.create":
            # The only event of a client (developers.openai.com/api/reference/resources/responses/websocket-events).
            remedy = "send response.create; to cancel a response, close the WebSocket"
            raise BadRequest(f"unknown message type {self.get('type')!r}; {remedy}", status=400)
        nested = self.get("response")
        own = nested if isinstance(nested, dict) else self
        body = {name: value for name, value in own.items() if name not in _OWN_FIELDS} | {"stream": True}
        return jsontext.write(body), own.get("generate") is not False


async def _read(data: Any) -> SocketMessage:
    """Reads a message; an error becomes the answer to it."""
    message = SocketMessage(await aside(len(data), json_object, data))
    message.received = data.encode("utf-8", "replace") if isinstance(data, str) else data
    return message


class SocketLane:
    """The requests of one `stream_id`. `latest`: its latest response, by its id; `lanes`: all of the socket."""

    def __init__(self, name: str | None, lanes: "dict[str | None, SocketLane]") -> None:
        self.name = name
        self.lanes = lanes
        self.latest: dict[str, StoredResponse] = {}
        self.waiting: asyncio.Queue[SocketMessage | InterlinguaError] = asyncio.Queue(_WAITING)
        self.task: asyncio.Task[None] | None = None

    def stored(self, id: str) -> StoredResponse | None:
        """The latest response of a lane of this socket, if it has this id."""
        return next((lane.latest[id] for lane in self.lanes.values() if id in lane.latest), None)

    def keep(self, id: str, response: StoredResponse) -> None:
        self.latest = {id: response}


class SocketLanes:
    """All requests of one WebSocket.

    The socket is read all the time: pings are answered, and a client that closes it ends its responses.
    """

    def __init__(self, socket: web.WebSocketResponse, respond: Respond) -> None:
        self._socket = socket
        self._respond = respond
        self._lanes: dict[str | None, SocketLane] = {}
        self._turns = asyncio.Semaphore(_ACTIVE)
        self._unanswered = 0
        self._reading: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[bool] | None = None
        self._is_stopping = False

    async def run(self) -> None:
        """Answers the requests until the socket is closed."""
        self._reading = asyncio.ensure_future(self._receive())
        try:
            await asyncio.wait([self._reading])
        finally:
            lanes = [lane.task for lane in self._lanes.values() if lane.task is not None]
            for task in (self._reading, *lanes):
                task.cancel()
            closing = [self._closing] if self._closing is not None else []
            await asyncio.gather(self._reading, *lanes, *closing, return_exceptions=True)

    def stop(self) -> None:
        """Closes the socket, once the responses that have begun are complete; further requests are refused."""
        self._is_stopping = True
        if not self._unanswered and self._closing is None:
            self._closing = asyncio.ensure_future(
                self._socket.close(code=GOING_AWAY, message=b"the gateway is stopping")
            )

    async def _receive(self) -> None:
        async for message in self._socket:
            if message.type is WSMsgType.ERROR:  # too large, or no WebSocket any more: it has been closed
                return
            # Before the message is read: a stop in between must still wait for its answer.
            self._unanswered += 1
            given: SocketMessage | InterlinguaError
            name = None
            try:
                given = await _read(message.data)
                name = self._lane_name(given)
            except InterlinguaError as error:
                given = error
            lane = self._lanes.get(name)
            if lane is None:
                lane = self._lanes[name] = SocketLane(name, self._lanes)
                lane.task = asyncio.ensure_future(self._answer(lane))
            # Waits while the lane is full: the socket is not read, and TCP makes the client wait.
            await lane.waiting.put(given)

    def _lane_name(self, given: SocketMessage) -> str | None:
        nested = given.get("response")  # where older clients put the request
        name = given.get("stream_id", nested.get("stream_id") if isinstance(nested, dict) else None)
        if name is None:
            return None
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            remedy = "send 1 to 256 letters, digits, '_', '-' or '.'"
            raise BadRequest(f"invalid `stream_id`; {remedy}", status=400, code="invalid_stream_id")
        if name not in self._lanes and len(self._lanes.keys() - {None}) >= _NAMED_LANES:
            raise BadRequest(
                f"more than {_NAMED_LANES} values of `stream_id` on one WebSocket; use one again, or open another",
                status=400,
                code="websocket_stream_limit_reached",
            )
        return name

    async def _answer(self, lane: SocketLane) -> None:
        while True:
            given = await lane.waiting.get()
            try:
                async with self._turns:
                    is_open = await self._respond(given, lane)
            finally:
                self._unanswered -= 1
                if self._is_stopping:
                    self.stop()
            if not is_open:
                assert self._reading is not None
                self._reading.cancel()
                return
