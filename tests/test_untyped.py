"""What is not as it should be is a typed error: files that are none, disks that are full, schemas that are numbers."""

import asyncio
import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import interlingua as il
from interlingua.cli.inputs import fragment
from interlingua.connect import prices
from interlingua.connect.auth.credentials import Credential, CredentialStore, Secret
from interlingua.connect.auth.oauth import _configured
from interlingua.connect.debug import _file
from interlingua.connect.models import load_overrides
from interlingua.conversion import sources
from interlingua.dialects import WIRES
from interlingua.plugins import load_plugins
from interlingua.tools.calling import call_tool
from interlingua.tools.tool import Tool
from interlingua.values.regular import IrregularFile, open_regular, read_regular
from interlingua.values.request import ToolSpec

KEY = Credential(mode="api-key", secret=Secret("sk-0123456789"))
SCHEMAS: tuple[Any, ...] = (
    5, 5.5, "x", [], [5], True, b"x", {1: 2}, {"type": 5}, {"properties": 5}, {"properties": {"a": 5}}, {"required": 5},
    {"required": [5]}, {"$ref": 5}, {"type": "object", "properties": {"a": {"enum": 5}}}, {"type": ["object", 5]},
    {"items": 5}, {"anyOf": 5}, {"anyOf": [5]}, {"allOf": [None]}, {"$defs": 5}, {"type": "nope"}, {"description": 5},
    {"properties": {"a": {"$ref": "#/nowhere"}}}, {"a": object()}, {"properties": {"": {}}}, {"not": 5}, {"if": 5},
    {"additionalProperties": 5}, {"patternProperties": {"(": {}}}, {"const": object()}, {"maxItems": "x"},
)  # fmt: skip


@pytest.mark.parametrize("schema", SCHEMAS, ids=map(str, range(len(SCHEMAS))))
@pytest.mark.parametrize("name", sorted(name for name, wire in WIRES.items() if wire.http))
def test_a_tool_whose_parameters_are_no_schema_is_sent_or_refused(name: str, schema: Any) -> None:
    """By `adapt`, `encode` and `check`, with our own errors."""
    tool = ToolSpec(name="t", description="d", input_schema=schema)
    context = il.Context(messages=(il.UserMessage(content="hi"),), tools=(tool,))
    request = il.Request(model=il.ModelDescriptor(id="m", provider="x", api=name), context=context)
    for act in (il.adapt, il.encode, il.check):
        try:
            act(request, name)
        except il.InterlinguaError:
            continue


@pytest.mark.parametrize("schema", SCHEMAS, ids=map(str, range(len(SCHEMAS))))
def test_a_tool_whose_parameters_are_no_schema_is_called_or_refused(schema: Any) -> None:
    """By itself and in an agent."""

    async def run(id: str, params: dict[str, Any]) -> il.ToolResult:
        return il.ToolResult(content=(il.TextBlock(text="done"),))

    async def attempt() -> None:
        tool = Tool(name="t", description="d", parameters=schema, execute=run)
        await call_tool(tool, "1", {"a": 1})
        await il.Agent("debug/dummy-echo-1", [tool]).prompt("hi")

    with contextlib.suppress(il.InterlinguaError):
        asyncio.run(attempt())


# --- files that are none --------------------------------------------------------------------------------------------


def fifo(path: Path) -> None:
    os.mkfifo(path)


def unix_socket(path: Path) -> None:
    before = Path.cwd()
    os.chdir(path.parent)  # the path of a socket has at most 108 bytes
    try:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path.name)
    finally:
        os.chdir(before)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.mkdir()


Plant = Callable[[Path], None]
PLANTS: tuple[Plant, ...] = (fifo, unix_socket, device, folder)
READERS: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "models.toml": ("models.toml", load_overrides),
    "oauth.json": ("oauth.json", lambda path: _configured(path, "x")),
    "script of the debug provider": ("x.json", lambda path: _file(str(path))),
    "input": ("x.json", lambda path: sources.read_all(sources.Source(path))),
    "credentials": ("credentials.json", lambda path: CredentialStore(path.parent).providers()),
    "credentials, changed": ("credentials.json", lambda path: CredentialStore(path.parent).put("x", KEY)),
    "credentials, locked": ("credentials.lock", lambda path: CredentialStore(path.parent).put("x", KEY)),
    "regular": ("x", read_regular),
    "own": ("x", open_regular),
}


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("what", READERS)
def test_what_is_no_regular_file_is_refused_wherever_a_file_is_read(tmp_path: Path, what: str, plant: Plant) -> None:
    """At once: a FIFO is not waited for, a device not read without end."""
    name, read = READERS[what]
    plant(tmp_path / name)
    with pytest.raises(il.InterlinguaError):
        read(tmp_path / name)


@pytest.mark.parametrize("plant", PLANTS)
def test_prices_are_read_from_the_package_where_their_cache_is_none(tmp_path: Path, plant: Plant) -> None:
    """A cache is not needed."""
    prices.load(tmp_path)
    (cache,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    cache.unlink()
    plant(cache)
    assert prices.load(tmp_path) is not None


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("name", ["plugin.json", "openclaw.plugin.json", "plugin.py", "__init__.py", "package.json"])
def test_a_plugin_with_what_is_no_file_costs_nothing_but_itself(tmp_path: Path, name: str, plant: Plant) -> None:
    """The others are loaded."""
    for one in ("bad", "good"):
        (tmp_path / one).mkdir()
        (tmp_path / one / "openclaw.plugin.json").write_text(f'{{"id": "{one}"}}')
        (tmp_path / one / "plugin.py").write_text("def register(api):\n    pass\n")
    place = tmp_path / "bad" / name
    place.unlink(missing_ok=True)
    plant(place)
    loaded = load_plugins(tmp_path)
    assert "good" in {plugin.id for plugin in loaded}
    loaded.unload()


def test_what_a_shell_hands_over_may_be_a_pipe(tmp_path: Path) -> None:
    """`interlingua detect <(command)` names a descriptor that is open already."""
    reader, writer = os.pipe()
    os.write(writer, b"hello")
    os.close(writer)
    assert b"hello" == read_regular(f"/dev/fd/{reader}")
    os.close(reader)
    fifo(tmp_path / "x")
    with pytest.raises(IrregularFile, match="is a FIFO; a regular file is expected"):
        read_regular(tmp_path / "x")


# --- full disks -----------------------------------------------------------------------------------------------------


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system without a free byte."""
    place = tmp_path / "disk"
    place.mkdir()
    made = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    if subprocess.run(made, capture_output=True, check=False).returncode:
        pytest.skip("needs the right to mount a small file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_credentials_on_a_full_disk_are_a_typed_error_and_what_was_there_stays(full_disk: Path) -> None:
    """Nothing of the new one is left behind."""
    store = CredentialStore(full_disk)
    store.put("first", Credential(mode="api-key", secret=Secret("sk-first-0123456789")))
    with (full_disk / "filler").open("wb", buffering=0) as stream, pytest.raises(OSError):
        while stream.write(b"x" * 4096):
            pass
    before = sorted(path.name for path in full_disk.iterdir())
    for _ in range(3):
        with pytest.raises(il.InterlinguaError, match="not saved"):
            store.put("second", Credential(mode="api-key", secret=Secret("sk-second-" + "0" * 5000)))
    assert ["first"] == [*store.providers()]
    assert before == sorted(path.name for path in full_disk.iterdir())


@pytest.mark.parametrize(
    "answer",
    [
        *(b"", b"\xff\xfe\r\n", b"no HTTP\r\n\r\n", b"HTTP/1.1 99999 x\r\n\r\n", b"HTTP/1.1 500 x\r\n\r\n"),
        b"HTTP/1.1 200 OK\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: 1\r\n" * 300 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        *(b"HTTP/1.1 302 x\r\nLocation: %s\r\n\r\n" % place for place in (b"file:///etc/passwd", b"http://[::1")),
    ],
)
def test_a_fragment_from_a_server_that_is_none_is_a_typed_error(answer: bytes) -> None:
    """Whatever it says, and if it stops before the end; what it says is not repeated."""

    def serve() -> None:
        connection, _ = server.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        with pytest.raises(il.FormatError, match="at -f"):
            fragment(f"http://127.0.0.1:{server.getsockname()[1]}/")
