"""Exchanges and shared stores for the tests of the limits: SQLite always, servers where they are installed."""

import contextlib
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from interlingua.gateway.exchange import ClientKey, Exchange
from interlingua.values.messages import Usage
from interlingua.values.request import ModelDescriptor

MODEL = ModelDescriptor(id="test-model", provider="debug", api="anthropic-messages")


def exchange(key: ClientKey, id: str = "x1", **given: Any) -> Exchange:
    return Exchange(
        id=id,
        key=key,
        wire=il.wire("anthropic-messages"),
        asked_model=given.pop("asked_model", "test-model"),
        is_stream=False,
        started=given.pop("started", time.time()),
        model=given.pop("model", MODEL),
        **given,
    )


def used(key: ClientKey, id: str, cost: float | None, **given: Any) -> Exchange:
    """An exchange that a provider answered."""
    usage = given.pop("usage", Usage.of(10, 5, cache_read=3, cache_write=2))
    return exchange(key, id, attempts=1, status=200, usage=usage, cost=cost, finished=time.time(), **given)


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator["Redis"]:
    """A server of its own on a Unix socket; the test is skipped where there is none."""
    if shutil.which("redis-server") is None:
        pytest.skip("!!!! redis-server is NOT INSTALLED (make programs): limits shared over Redis are not tested")
    pytest.importorskip("redis")
    server = Redis(folder)
    server.start()
    try:
        yield server
    finally:
        server.stop()


class Redis:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._socket = folder / "r.sock"
        self.address = f"unix://{self._socket}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        options = ["--port", "0", "--unixsocket", str(self._socket), "--save", "", "--appendonly", "no"]
        self._process = subprocess.Popen(
            ["redis-server", *options, "--dir", str(self._folder)], stdout=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(self._socket))
                return
            time.sleep(0.02)
        raise AssertionError("redis-server did not start")

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            self._socket.unlink(missing_ok=True)
