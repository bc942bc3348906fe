"""Sends an answer over its connection, step by step."""

import asyncio
import socket
import struct

from aiohttp import web

from .faults import Answer, HangUp, Piece, Wait

_NO_LINGER = struct.pack("ii", 1, 0)  # closing discards unsent data and resets the connection


async def send(http: web.Request, answer: Answer) -> web.StreamResponse:
    if answer.delay:
        await asyncio.sleep(answer.delay)
    if answer.headers is None:
        return await _send_raw(http, answer)
    response = web.StreamResponse(status=answer.status, headers=answer.headers)
    if isinstance(answer.steps, tuple) and all(isinstance(step, Piece) for step in answer.steps):
        response.content_length = sum(len(step.data) for step in answer.steps if isinstance(step, Piece))
    await response.prepare(http)
    for step in answer.steps:
        match step:
            case Piece():
                await response.write(step.data)
                await asyncio.sleep(0)  # let others send, and let this client disconnect
            case Wait():
                await _silence(step.seconds)
            case HangUp():
                _close_connection(http, step.reset)
                return response
    await response.write_eof()
    return response


async def _send_raw(http: web.Request, answer: Answer) -> web.StreamResponse:
    for step in answer.steps:
        match step:
            case Piece():
                if http.transport is not None:
                    http.transport.write(step.data)
            case Wait():
                await _silence(step.seconds)
            case HangUp():
                _close_connection(http, step.reset)
    return web.Response()


async def _silence(seconds: float | None) -> None:
    if seconds is None:
        await asyncio.Event().wait()
    else:
        await asyncio.sleep(seconds)


def _close_connection(http: web.Request, reset: bool) -> None:
    """Closes the connection; aiohttp then finds it closed, and writes nothing more."""
    transport = http.transport
    if transport is None:
        return
    if reset:
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        transport.abort()
    else:
        transport.close()
