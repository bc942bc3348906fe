"""The gateway as it is run: keys at the door, numbers, health, reload and drain that cut no stream, TLS, sockets."""

import asyncio
import contextlib
import json
import logging
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import trustme
from msgspec.structs import replace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client.parser import text_string_to_metric_families

from gateway.stores import redis_server, used
from interlingua.connect import models, telemetry
from interlingua.connect.client import Client
from interlingua.connect.debug import DebugConnector
from interlingua.connect.registry import ConnectorRegistry
from interlingua.gateway import state
from interlingua.gateway.access_log import AccessLog
from interlingua.gateway.accounts import NANO
from interlingua.gateway.exchange import ClientKey
from interlingua.gateway.keys import ClientKeys
from interlingua.gateway.ledger import Ledger
from interlingua.gateway.metrics import Metrics, Numbers
from interlingua.gateway.replay import Replay, replay_gateway
from interlingua.gateway.service import Service
from interlingua.gateway.settings import Alias, Listen, ProviderSettings, Settings, Target
from interlingua.gateway.settings_file import (
    LogSettings,
    RecordingSettings,
    ServeSettings,
    StateSettings,
    load_settings,
)
from interlingua.gateway.state import StateError
from interlingua.sessions import Session, store_at
from interlingua.testing import Cut, Server
from interlingua.values.errors import AuthFailed, InterlinguaError
from interlingua.values.request import ModelCost, ModelDescriptor

BODY = {"model": "debug/echo", "max_tokens": 64, "messages": [{"role": "user", "content": "hello"}]}


@contextlib.asynccontextmanager
async def serving(folder: Path, settings: ServeSettings | None = None, **given: Any) -> AsyncIterator[Service]:
    settings = settings or ServeSettings(gateway=Settings(listen=Listen(port=0)))
    async with Service(settings, folder, **given) as service:
        yield service


async def ask(service: Service, key: str | None = None, path: str = "/v1/messages", **body: Any) -> tuple[int, Any]:
    headers = {"x-api-key": key} if key is not None else {}
    async with (
        aiohttp.ClientSession() as client,
        client.post(service.gateway.url + path, json={**BODY, **body}, headers=headers) as reply,
    ):
        return reply.status, await reply.json(content_type=None)


async def get(service: Service, path: str, **headers: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as client, client.get(service.gateway.url + path, headers=headers) as reply:
        return reply.status, await reply.text()


class Slow:
    """A model whose answer goes on when it is told to."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.go = asyncio.Event()

    def client(self) -> Client:
        return Client(connectors=ConnectorRegistry([DebugConnector(), _Waiting(self)]))


class _Waiting(DebugConnector):
    def __init__(self, slow: Slow) -> None:
        super().__init__(["the end"], provider="slow")
        self._slow = slow

    def stream(self, model: Any, context: Any, options: Any = None) -> Any:
        inner = super().stream(model, context, options)

        async def events() -> AsyncIterator[Any]:
            self._slow.began.set()
            await self._slow.go.wait()
            async for event in inner:
                yield event

        return events()


async def test_without_keys_it_listens_on_this_machine_alone(tmp_path: Path) -> None:
    """Another address needs a key first; the message says how to make one."""
    settings = ServeSettings(gateway=Settings(listen=Listen(host="0.0.0.0", port=0)))
    with pytest.raises(InterlinguaError, match="serve keys add"):
        Service(settings, tmp_path)
    secret = ClientKeys(tmp_path / "keys.json").add(ClientKey(name="ci"))
    async with serving(tmp_path, settings) as service:
        url = service.gateway.url.replace("0.0.0.0", "127.0.0.1")
        async with aiohttp.ClientSession() as client:
            async with client.post(f"{url}/v1/messages", json=BODY) as reply:
                assert 401 == reply.status
            async with client.post(f"{url}/v1/messages", json=BODY, headers={"x-api-key": secret}) as reply:
                assert 200 == reply.status


async def test_limits_hold_at_the_door_and_clients_are_told_in_their_own_form(tmp_path: Path) -> None:
    """One request a minute: the second gets its wire's error with the time to wait; the ledger has one call."""
    async with serving(tmp_path) as service:
        secret = service.keys.add(ClientKey(name="ci", requests_per_minute=1))
        assert 200 == (await ask(service, secret))[0]
        status, body = await ask(service, secret)
        assert (429, "rate_limit_error") == (status, body["error"]["type"])
        assert [("ci", "debug/echo", 1)] == [(row.key, row.model, row.calls) for row in await service.ledger.usage()]


async def test_a_key_that_is_revoked_is_refused_with_the_next_request(tmp_path: Path) -> None:
    """No restart is needed."""
    async with serving(tmp_path) as service:
        secret = service.keys.add(ClientKey(name="ci"))
        assert 200 == (await ask(service, secret))[0]
        service.keys.remove("ci")
        assert 401 == (await ask(service, secret))[0]
        assert 401 == (await ask(service))[0]


async def test_metrics_are_what_prometheus_reads(tmp_path: Path) -> None:
    """Its own parser accepts them; requests, tokens and times are counted; names are escaped."""
    async with serving(tmp_path) as service:
        secret = service.keys.add(ClientKey(name='od"d\\name'))
        await ask(service, secret)
        await ask(service, "wrong")
        status, text = await get(service, "/metrics")
        assert 200 == status
        found = {family.name: family for family in text_string_to_metric_families(text)}
        requests = found["interlingua_gateway_requests"].samples
        assert {('od"d\\name', "200", 1.0), ("local", "401", 1.0)} == {
            (sample.labels["key"], sample.labels["status"], sample.value) for sample in requests
        }
        buckets = [s for s in found["interlingua_gateway_request_seconds"].samples if s.name.endswith("_bucket")]
        assert sorted(s.value for s in buckets) == [s.value for s in buckets]
        assert "+Inf" == buckets[-1].labels["le"]
        assert secret not in text


async def test_metrics_are_for_who_runs_the_gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not through a proxy; with a token, only with the token."""
    async with serving(tmp_path) as service:
        port = service.gateway.url.rpartition(":")[2]
        for header in (  # a proxy; a page whose name leads to this machine, and any other page
            {"X-Forwarded-For": "1.2.3.4"},
            {"Host": f"page.example:{port}"},
            {"Origin": "https://page.example"},
        ):
            assert 403 == (await get(service, "/metrics", **header))[0]
    monkeypatch.setenv("METRICS", "let-me-see")
    settings = ServeSettings(gateway=Settings(listen=Listen(port=0)), log=LogSettings(metrics_token="env:METRICS"))
    async with serving(tmp_path, settings) as service:
        assert 403 == (await get(service, "/metrics"))[0]
        assert 200 == (await get(service, "/metrics", Authorization="Bearer let-me-see"))[0]


async def test_workers_add_up_their_numbers(tmp_path: Path) -> None:
    """Whichever worker is asked tells the sum."""
    from gateway.stores import used

    one, other = Metrics(folder=tmp_path), Metrics(folder=tmp_path)
    other._file = tmp_path / "worker-other.metrics"
    for number, metrics in enumerate((one, other, other)):
        await metrics.observe(used(ClientKey(name="ci"), f"x{number}", 0.5))
    other.save()
    families = {f.name: f for f in text_string_to_metric_families(one.exposition().decode())}
    assert 3.0 == families["interlingua_gateway_requests"].samples[0].value
    assert 1.5 == families["interlingua_gateway_cost_dollars"].samples[0].value


async def test_the_sum_has_the_last_requests_of_a_worker_that_is_idle_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever worker a scrape reaches; nobody waits for the other's next request."""
    from interlingua.gateway import service as module

    monkeypatch.setattr(module, "_WATCH", 0.01)
    async with serving(tmp_path, metrics_folder=tmp_path) as service:
        await ask(service)
        await ask(service)
        other = Metrics(folder=tmp_path)
        other._file = tmp_path / "worker-other.metrics"
        async with asyncio.timeout(10):
            while b'status="200"} 2\n' not in other.exposition():
                await asyncio.sleep(0.01)
            while b"open_requests 0\n" not in other.exposition():
                await asyncio.sleep(0.01)


def test_a_worker_that_was_killed_has_no_open_requests(tmp_path: Path) -> None:
    """What it counted remains in the sum."""
    counters = {"aborted_total": {("anthropic-messages",): 1.0}}
    for name, pid in (("killed", _ended_process()), ("other", os.getpid())):
        numbers = Numbers(counters=counters, open=3, unwritten=2, pid=pid)
        (tmp_path / f"worker-{name}.metrics").write_bytes(msgspec.msgpack.encode(numbers))
    text = Metrics(folder=tmp_path).exposition()
    assert b'aborted_total{wire="anthropic-messages"} 2\n' in text
    assert b"open_requests 3\n" in text and b"unwritten_records 2\n" in text


def _ended_process() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


async def test_health_and_readiness(tmp_path: Path) -> None:
    """Healthy while it runs; ready while its stores answer and it is not draining; no detail for strangers."""
    async with serving(tmp_path) as service:
        assert (200, "ok\n") == await get(service, "/healthz")
        assert 200 == (await get(service, "/readyz"))[0]
        service.ledger.failure = StateError("disk /secret/place is full")
        status, text = await get(service, "/readyz")
        assert 503 == status and "secret" not in text
        assert 503 == (await ask(service))[0]
        service.ledger.failure = None


async def test_redis_without_memory_refuses_once_in_the_log_and_recovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Limited keys are refused and the gateway is not ready, although Redis can be read; the log has one line of each
    failure, not one of each request."""
    from redis.asyncio import Redis

    from interlingua.gateway import service as module

    monkeypatch.setattr(module, "_PROBE", 0.0)
    monkeypatch.setattr(state, "_logged", {})
    with redis_server(tmp_path) as server:
        settings = ServeSettings(gateway=Settings(listen=Listen(port=0)), state=StateSettings(limits=server.address))
        async with serving(tmp_path, settings) as service, Redis.from_url(server.address) as redis:
            secret = service.keys.add(ClientKey(name="ci", requests_per_minute=3))
            assert [200, 200] == [(await ask(service, secret))[0], (await get(service, "/readyz"))[0]]
            await redis.config_set("maxmemory", 1)
            assert {503} == {(await ask(service, secret))[0] for _ in range(20)}
            assert 503 == (await get(service, "/readyz"))[0]
            assert len(set(caplog.messages)) == len(caplog.messages) < 5
            await redis.config_set("maxmemory", 0)
            assert 200 == (await get(service, "/readyz"))[0]
            assert [200, 200, 429] == [(await ask(service, secret))[0] for _ in range(3)]


def test_a_line_that_a_killed_gateway_cut_spoils_no_other(tmp_path: Path) -> None:
    """The next gateway begins a line of its own; an empty or whole file stays as it is."""
    for name, before, after in (("cut", b'{"id', b'{"id\n'), ("whole", b"{}\n", b"{}\n"), ("empty", b"", b"")):
        path = tmp_path / name
        path.write_bytes(before)
        AccessLog(str(path)).close()
        assert after == path.read_bytes()


async def test_logs_metrics_spans_and_the_ledger_have_requests_and_no_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """JSON lines with the request's id, also for what was refused; names from outside are cleaned."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    log = tmp_path / "access.log"
    with Server() as server:
        server.say("Well.")
        server.answer(AuthFailed("no such key", status=401))
        place = ProviderSettings(id="anthropic", base_url=server.base_url("anthropic-messages"))
        gateway = Settings(listen=Listen(port=0), providers=(place,))
        settings = ServeSettings(gateway=gateway, log=LogSettings(access=str(log)))
        exporter, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        telemetry.enable(tracer_provider=provider, meter_provider=MeterProvider())
        try:
            secret = await _ask_with_names_that_are_keys(tmp_path, settings)
        finally:
            telemetry.disable()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    statuses = [(line["status"], line["key"]) for line in lines]
    assert [(200, "ci"), (401, "local"), (404, "ci"), (200, "ci"), (502, "ci")] == statuses
    assert 5 == len({line["id"] for line in lines}) and (0o600 == log.stat().st_mode & 0o777)
    counted, ledger = (tmp_path / "metrics").read_text(), (tmp_path / "gateway.db").read_bytes()
    spans = "".join(span.to_json() for span in exporter.get_finished_spans())
    for kept in (log.read_text(), counted, ledger.decode("latin-1"), spans, caplog.text):
        assert secret not in kept and "wrongwrong" not in kept and "anthropic" in kept


async def _ask_with_names_that_are_keys(folder: Path, settings: ServeSettings) -> str:
    async with serving(folder, settings) as service:
        secret = service.keys.add(ClientKey(name="ci"))
        await ask(service, secret)
        await ask(service, "sk-ant-" + "api03-wrongwrongwrongwrong0123456789")
        await ask(service, secret, model=f"{secret}\n{{}}")
        for _ in range(2):
            await ask(service, secret, model=f"anthropic/{secret}")
        (folder / "metrics").write_bytes(service.metrics.exposition())
    return secret


async def test_spans_are_made_where_telemetry_is_on(tmp_path: Path) -> None:
    """One client span per exchange, with the model and the tokens."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry.enable(tracer_provider=provider, meter_provider=MeterProvider())
    try:
        async with serving(tmp_path) as service:
            await ask(service)
    finally:
        telemetry.disable()
    (span,) = exporter.get_finished_spans()
    assert "chat echo" == span.name and span.attributes is not None
    assert span.attributes["gen_ai.usage.output_tokens"]


async def test_telemetry_that_reaches_nobody_is_named_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """OpenTelemetry's API without a provider drops every span, and says nothing."""
    try:
        async with serving(tmp_path, ServeSettings(log=LogSettings(telemetry=True))):
            assert "start it with opentelemetry-instrument" in caplog.text
    finally:
        telemetry.disable()


async def test_the_span_of_a_cut_stream_has_the_tokens_of_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The provider's own count came before the text; what the client received is estimated, once."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry.enable(tracer_provider=provider, meter_provider=MeterProvider())
    try:
        with Server() as server:
            server.say("one two three four five six seven eight nine ten", fault=Cut(after_events=6))
            place = ProviderSettings(id="anthropic", base_url=server.base_url("anthropic-messages"))
            gateway = Settings(listen=Listen(port=0), providers=(place,))
            async with serving(tmp_path, ServeSettings(gateway=gateway)) as service, aiohttp.ClientSession() as client:
                body = {**BODY, "model": "anthropic/claude-opus-4-6", "stream": True}
                async with client.post(f"{service.gateway.url}/v1/messages", json=body) as reply:
                    assert b"event: error" in await reply.read()
                (row,) = await service.ledger.usage(("model",))
    finally:
        telemetry.disable()
    (span,) = exporter.get_finished_spans()
    assert span.attributes is not None and "TransportError" == span.attributes["error.type"]
    assert row.output == span.attributes["gen_ai.usage.output_tokens"] != 1


async def test_a_drain_ends_open_exchanges_and_takes_no_new_ones(tmp_path: Path) -> None:
    """The stream that was on its way arrives whole; a new connection is refused meanwhile."""
    slow = Slow()
    async with serving(tmp_path, client=slow.client()) as service:
        asking = asyncio.ensure_future(ask(service, model="slow/script"))
        await slow.began.wait()
        draining = asyncio.ensure_future(service.drain(30))
        while True:
            try:
                await ask(service)
            except aiohttp.ClientConnectorError:
                break
        assert not draining.done()
        slow.go.set()
        status, body = await asking
        assert (200, "the end") == (status, body["content"][0]["text"])
        await draining


async def test_other_settings_count_without_cutting_a_stream(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The file is looked at; a call under the old settings ends under them; a mistake changes nothing."""
    caplog.set_level(logging.WARNING)
    config = tmp_path / "gateway.toml"
    config.write_text("[listen]\nport = 0\n[aliases]\nname = 'slow/script'\n")
    slow = Slow()
    async with serving(tmp_path, load_settings(config), config=config, client=slow.client()) as service:
        asking = asyncio.ensure_future(ask(service, model="name"))
        await slow.began.wait()
        config.write_text("[listen]\nport = 0\n[aliases]\nname = 'debug/echo'\n")
        assert await service.reload()
        assert 200 == (await ask(service, model="name"))[0]  # does not wait for the slow one
        config.write_text("[lisen]\nport = 0\n")
        assert not await service.reload()
        assert "did you mean `listen`?" in caplog.text
        assert 200 == (await ask(service, model="name"))[0]
        slow.go.set()
        assert "the end" == (await asking)[1]["content"][0]["text"]


async def test_aliases_of_models_toml_are_listed_and_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of the settings are, first; one of a provider without a key is not."""
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path))
    (tmp_path / "models.toml").write_text("[aliases]\nsmall = 'debug/echo'\nfar = 'mistral/large'\n")
    models.reload()
    try:
        async with serving(tmp_path) as service:
            listed = json.loads((await get(service, "/v1/models"))[1])["data"]
            assert "small" == listed[0]["id"] and "far" not in [one["id"] for one in listed]
            assert 200 == (await ask(service, model="small"))[0]
    finally:
        monkeypatch.undo()
        models.reload()


@pytest.mark.parametrize("has_file", [True, False])
async def test_a_price_counts_as_soon_as_it_is_in_models_toml(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, has_file: bool
) -> None:
    """A key with a budget is told to add it; a mistake there changes nothing."""
    from interlingua.gateway import service as module

    monkeypatch.setattr(module, "_WATCH", 0.01)
    monkeypatch.setenv("INTERLINGUA_HOME", str(tmp_path))
    config, own = tmp_path / "gateway.toml", tmp_path / "models.toml"
    with Server() as server:
        config.write_text(
            f"[listen]\nport = 0\n[providers.ollama]\nbase_url = '{server.base_url('ollama-chat')}'\n"
            "[aliases]\nname = 'ollama/tomorrow'\n"
        )
        settings = load_settings(config)
        async with serving(tmp_path, settings, config=config if has_file else None) as service:
            key = service.keys.add(ClientKey(name="ci", budget=1.0))
            status, body = await ask(service, key, model="name")
            assert 400 == status and "models.toml" in str(body)
            own.write_text("[providers.ollama.overrides.tomorrow]\ncost = { inptu = 1.0 }\n")
            while "the settings are not taken" not in caplog.text:
                await asyncio.sleep(0.01)
            assert 400 == (await ask(service, key, model="name"))[0]
            own.write_text("[providers.ollama.overrides.tomorrow]\ncost = { input = 1.0, output = 2.0 }\n")
            while "the settings were read again" not in caplog.text:
                await asyncio.sleep(0.01)
            assert 200 == (await ask(service, key, model="name"))[0]


@pytest.mark.parametrize("looks_first", [False, True], ids=["signal first", "file first"])
async def test_an_edit_and_a_signal_are_one_reload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, looks_first: bool
) -> None:
    """The log tells of other settings once, whoever comes first: the signal, or the look at the file."""
    from interlingua.gateway import service as module

    monkeypatch.setattr(module, "_WATCH", 0.01)
    caplog.set_level(logging.WARNING)
    config = tmp_path / "gateway.toml"
    config.write_text("[listen]\nport = 0\n")
    async with serving(tmp_path, load_settings(config), config=config) as service:
        config.write_text("[listen]\nport = 0\n[aliases]\nname = 'debug/echo'\n")
        while looks_first and "name" not in service.gateway.models():
            await asyncio.sleep(0.01)
        assert await service.reload()  # as SIGHUP does
        await asyncio.sleep(0.1)  # several looks
    assert 1 == caplog.text.count("the settings were read again")
    assert looks_first == ("the settings have not changed" in caplog.text)


async def test_entries_of_a_killed_gateway_are_adopted_by_one_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recorder that a killed gateway was starting may hold the lock of its journal while the next gateways start."""
    from interlingua.gateway import service as module

    fcntl = pytest.importorskip("fcntl")
    monkeypatch.setattr(module, "_RECOVER", (0.01,))
    killed = Ledger(f"sqlite:{tmp_path / 'gateway.db'}", tmp_path)
    for number in range(3):
        killed.before_end(used(ClientKey(name="ci"), f"ended{number}", 1.0))
    await killed.close()
    (left,) = tmp_path.glob("*.journal")
    with left.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        async with serving(tmp_path) as first, serving(tmp_path) as second:
            first.ledger.before_end(used(ClientKey(name="ci"), "running", 1.0))
            await asyncio.sleep(0.1)  # several looks
            assert [] == await second.ledger.usage(())
            file.close()
            while left.exists():
                await asyncio.sleep(0.01)
            assert [3] == [row.calls for row in await second.ledger.usage(())]
            await first.ledger.observe(used(ClientKey(name="ci"), "running", 1.0))
            assert [4] == [row.calls for row in await first.ledger.usage(())]


async def test_what_the_command_line_says_stays(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A file that is read again changes nothing of it, and is not said to; what it changes itself is."""
    caplog.set_level(logging.WARNING)
    config = tmp_path / "gateway.toml"
    config.write_text("[aliases]\nname = 'debug/echo'\n")
    read = load_settings(config)
    given = replace(read, gateway=replace(read.gateway, listen=Listen(unix=str(tmp_path / "socket"))))
    async with Service(given, tmp_path, config=config) as service:
        config.write_text("[aliases]\nother = 'debug/echo'\n")
        assert await service.reload()
        assert "restart" not in caplog.text
        assert given.gateway.listen == service.settings.gateway.listen == service.gateway.settings.listen
        config.write_text("[listen]\nport = 1\n[aliases]\nother = 'debug/echo'\n")
        assert await service.reload()
        assert "changes of [listen] count after a restart" in caplog.text
        assert given.gateway.listen == service.gateway.settings.listen


async def test_a_changed_file_is_read_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No signal is needed."""
    from interlingua.gateway import service as module

    monkeypatch.setattr(module, "_WATCH", 0.01)
    config = tmp_path / "gateway.toml"
    config.write_text("[listen]\nport = 0\n")
    async with serving(tmp_path, load_settings(config), config=config) as service:
        assert 404 == (await ask(service, model="name"))[0]
        config.write_text("[listen]\nport = 0\n[aliases]\nname = 'debug/echo'\n")
        while (await ask(service, model="name"))[0] == 404:
            await asyncio.sleep(0.01)


async def test_a_file_that_is_being_written_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Editors and copies empty a file first: aliases that are not there yet are not gone. An empty file is refused."""
    from interlingua.gateway import service as module

    monkeypatch.setattr(module, "_WATCH", 0.1)
    config = tmp_path / "gateway.toml"
    config.write_text(text := "[listen]\nport = 0\n[aliases]\nname = 'debug/echo'\n")
    async with serving(tmp_path, load_settings(config), config=config) as service:
        for at in range(0, 30, 2):  # each beginning of it is valid, or has no alias
            config.write_text("#" * at + "\n")
            await asyncio.sleep(0.05)
            assert "name" in service.gateway.models()
        config.write_text("")
        assert not await service.reload()
        assert "it is empty; write the settings into it" in caplog.text
        config.write_text(text.replace("name", "new"))
        while "new" not in service.gateway.models():
            await asyncio.sleep(0.01)


async def test_it_listens_on_a_unix_socket_and_with_tls(tmp_path: Path) -> None:
    """Both serve; a socket has no port that a page could reach."""
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    listen = Listen(port=0, tls_cert=str(tmp_path / "cert.pem"), tls_key=str(tmp_path / "key.pem"))
    async with (
        serving(tmp_path, ServeSettings(gateway=Settings(listen=listen))) as service,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trusting)) as client,
        client.post(f"{service.gateway.url}/v1/messages", json=BODY) as reply,
    ):
        assert service.gateway.url.startswith("https://") and 200 == reply.status
    path = str(tmp_path / "s.sock")
    async with (
        serving(tmp_path, ServeSettings(gateway=Settings(listen=Listen(unix=path)))),
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(path)) as client,
        client.post("http://localhost/v1/messages", json=BODY) as reply,
    ):
        assert 200 == reply.status


async def test_a_socket_at_the_place_of_a_drained_gateway_stays(tmp_path: Path) -> None:
    """The next gateway may listen there while the last exchanges end; its file may have the same inode number."""
    path = tmp_path / "s.sock"
    async with serving(tmp_path, ServeSettings(gateway=Settings(listen=Listen(unix=str(path))))) as service:
        (tmp_path / "next.sock").hardlink_to(path)
        await service.drain(0)
        assert not path.exists()
        (tmp_path / "next.sock").rename(path)
    assert path.exists()


async def test_traffic_is_recorded_and_answers_again_in_another_format(tmp_path: Path) -> None:
    """Recorded from an Anthropic client, replayed to an OpenAI client; what is not recorded is a 404 of its wire."""
    settings = ServeSettings(
        gateway=Settings(listen=Listen(port=0)), recording=RecordingSettings(enabled=True, home=str(tmp_path))
    )
    async with serving(tmp_path / "gateway", settings) as service:
        _, first = await ask(service)
    store = store_at(None, tmp_path)
    (info,) = store.sessions("gateway")
    with Session.open(info.id, agent="gateway", store=store, read_only=True) as session:
        answers = Replay([session])
    async with replay_gateway(answers) as gateway, aiohttp.ClientSession() as client:
        body = {"model": "gpt-5", "messages": [{"role": "user", "content": "hello"}]}
        async with client.post(f"{gateway.url}/v1/chat/completions", json=body) as reply:
            assert first["content"][0]["text"] == (await reply.json())["choices"][0]["message"]["content"]
        body["messages"][0]["content"] = "other"  # type: ignore[index]
        async with client.post(f"{gateway.url}/v1/chat/completions", json=body) as reply:
            assert (404, "not_recorded") == (reply.status, (await reply.json())["error"]["code"])


async def test_two_gateways_on_one_redis_serve_a_thousand_calls_within_the_limits(tmp_path: Path) -> None:
    """All at once through both: the rate is met and the budget holds; with Redis gone both refuse, and then go on."""
    price = ModelCost(input=0, output=1000, cache_read=0, cache_write=0)  # 50 tokens at most: 5 cents
    model = ModelDescriptor(id="echo", provider="debug", api="debug", max_tokens=50, cost=price)
    with redis_server(tmp_path) as redis:
        settings = ServeSettings(
            gateway=Settings(listen=Listen(port=0), aliases=(Alias(name="priced", targets=(Target(model=model),)),)),
            state=StateSettings(
                limits=redis.address, ledger=f"sqlite:{tmp_path / 'ledger.db'}", keys=str(tmp_path / "keys.json")
            ),
        )
        keys = ClientKeys(tmp_path / "keys.json")
        rated, poor = (
            keys.add(one)
            for one in (ClientKey(name="rated", requests_per_minute=100), ClientKey(name="poor", budget=2.0))
        )
        async with (
            serving(tmp_path / "one", settings) as one,
            serving(tmp_path / "two", settings) as two,
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=200)) as client,
        ):

            async def status(at: int, key: str, name: str) -> int:
                url = (one, two)[at % 2].gateway.url
                body = {**BODY, "model": name, "max_tokens": 50}
                async with client.post(f"{url}/v1/messages", json=body, headers={"x-api-key": key}) as reply:
                    await reply.read()
                    return reply.status

            for key, name in ((rated, "debug/echo"), (poor, "priced")):
                statuses = await asyncio.gather(*(status(at, key, name) for at in range(1000)))
                assert set(statuses) <= {200, 429}
                assert statuses.count(200) == 100 or name == "priced"
            spent = (await one.accounts.spent("poor")).total
            (row,) = await one.ledger.usage(("key",), key="poor")
            assert spent <= 2 * NANO and row.calls >= 40  # each put aside 5 cents
            redis.stop()
            assert [503, 503] == [await status(at, rated, "debug/echo") for at in range(2)]
            redis.start()
            assert await status(0, poor, "priced") in (200, 429)
