"""Spans of an agent's run in the programs that people read them with: Phoenix, Logfire and Langfuse.

Phoenix is a real collector: its server takes the spans over OTLP, and is asked over its API what it understood of them.
Logfire's and Langfuse's servers are services (Langfuse's needs Docker and five containers), so their own SDKs take the
spans here and send them to a collector of ours, which reads the protocol buffers that would go to the service.

Run by `make interop`, each in an environment of its own; this file is both sides.
"""

import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MODEL, QUESTION, ANSWER = "gpt-4.1-mini", "Area of 2 by 3?", "Six, I think."


# --- the run, inside of an environment --------------------------------------------------------------------------------


def area(width: int, height: int) -> int:
    """The area of a rectangle."""
    return width * height


def run_agent(tracer_provider: Any) -> None:
    """One run with a turn of tools, against a server of our own."""
    import interlingua as il
    from interlingua.connect import telemetry
    from interlingua.testing import Server

    telemetry.enable(content=True, tracer_provider=tracer_provider)
    with Server() as server:
        server.call("area", {"width": 2, "height": 3})
        server.say(ANSWER)
        agent = il.Agent(
            f"openai-chat/{MODEL}",
            [area],
            system="Be brief.",
            base_url=server.base_url("openai-completions"),
            api_key="none",
        )
        agent.run_sync(QUESTION, raise_on_error=True)


def with_otlp(address: str) -> None:
    """By OpenTelemetry's own exporter."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter(f"{address}/v1/traces")))
    run_agent(provider)
    provider.shutdown()


def with_logfire(address: str) -> None:
    """By Logfire's SDK, whose own address is that of our collector."""
    import logfire

    advanced = logfire.AdvancedOptions(base_url=address)
    logfire.configure(token="none", send_to_logfire=True, console=False, advanced=advanced, inspect_arguments=False)
    run_agent(None)  # it is the global provider
    logfire.force_flush()


def with_langfuse(address: str) -> None:
    """By Langfuse's SDK, which sends to `host`."""
    from langfuse import Langfuse

    langfuse = Langfuse(public_key="pk-lf-none", secret_key="none", host=address)
    run_agent(None)
    langfuse.flush()
    langfuse.shutdown()


SENDERS: dict[str, Callable[[str], None]] = {"otlp": with_otlp, "logfire": with_logfire, "langfuse": with_langfuse}


# --- the checks -------------------------------------------------------------------------------------------------------


class Collector(http.server.ThreadingHTTPServer):
    """Takes OTLP over HTTP on this machine, and keeps the bodies."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        super().__init__(("127.0.0.1", 0), _Taking)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Taking(http.server.BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path.endswith("/v1/traces"):
            if self.headers.get("content-encoding") == "gzip":
                import gzip

                body = gzip.decompress(body)
            self.server.bodies.append(body)
        self._answer()

    def do_GET(self) -> None:
        self._answer({"project_name": "test", "project_url": "http://127.0.0.1/test"})

    def _answer(self, value: Any = None) -> None:
        data = json.dumps(value or {}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: Any) -> None:
        pass


def sent(python: Path, sender: str, address: str) -> None:
    """Has a sender run in its environment."""
    env = {**os.environ, "PYTHONPATH": str(HERE.parent / "src"), "OTEL_BSP_SCHEDULE_DELAY": "100"}
    with tempfile.TemporaryDirectory() as home:
        command = [python, __file__, sender, address]
        done = subprocess.run(
            command, env={**env, "INTERLINGUA_HOME": home, "HOME": home}, capture_output=True, text=True, check=False
        )
    if done.returncode:
        sys.exit(f"{sender} failed:\n{done.stderr[-3000:]}")


def spans_in(python: Path, bodies: list[bytes]) -> list[dict[str, Any]]:
    """The spans of protocol buffers, as OTLP's JSON; read in an environment that has their definition."""
    code = (
        "import json, sys\n"
        "from google.protobuf.json_format import MessageToDict\n"
        "from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest as Request\n"
        "bodies = [bytes.fromhex(line) for line in sys.stdin]\n"
        "print(json.dumps([MessageToDict(Request.FromString(body)) for body in bodies]))\n"
    )
    lines = "\n".join(body.hex() for body in bodies)
    done = subprocess.run([python, "-c", code], input=lines, capture_output=True, text=True, check=True)
    return [
        span
        for request in json.loads(done.stdout)
        for resource in request.get("resourceSpans", ())
        for scope in resource.get("scopeSpans", ())
        for span in scope.get("spans", ())
    ]


def attributes_of(span: dict[str, Any]) -> dict[str, Any]:
    return {one["key"]: next(iter(one["value"].values()), None) for one in span.get("attributes", ())}


def check_sdk(checks: Any, name: str, environment: Callable[[str], Path]) -> None:
    """A vendor's SDK passes on whatever its server reads."""
    python = environment(name) / "python"
    collector = Collector()
    sent(python, name, collector.address)
    collector.shutdown()
    spans = {span["name"]: span for span in spans_in(python, collector.bodies)}
    checks.same(f"{name}: spans", [*NAMES], sorted(found for found in spans if found in NAMES))
    run = spans.get("invoke_agent", {})
    for child in NAMES[:2]:
        checks.same(f"{name}: {child} is part of the run", run.get("spanId"), spans.get(child, {}).get("parentSpanId"))
    call = attributes_of(spans.get(f"chat {MODEL}", {}))
    checks.same(f"{name}: model", MODEL, call.get("gen_ai.request.model"))
    checks.same(f"{name}: tokens", True, int(call.get("gen_ai.usage.output_tokens", 0)) > 0)
    checks.same(f"{name}: messages", True, ANSWER in str(call.get("gen_ai.output.messages")))


NAMES = (f"chat {MODEL}", "execute_tool area", "invoke_agent")


def check_phoenix(checks: Any, environment: Callable[[str], Path], running: Any, free_port: Callable[[], int]) -> None:
    """Its server is asked what it understood."""
    folder = environment("phoenix")
    port, grpc = free_port(), free_port()
    address = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as data:
        env = {
            **os.environ,
            "PHOENIX_WORKING_DIR": data,
            "PHOENIX_HOST": "127.0.0.1",
            "PHOENIX_PORT": str(port),
            "PHOENIX_GRPC_PORT": str(grpc),
            "PHOENIX_TELEMETRY_ENABLED": "false",
            "PHOENIX_ALLOW_EXTERNAL_RESOURCES": "false",
        }
        with running([folder / "phoenix", "serve"], f"{address}/healthz", env=env, retry_policy=180.0):
            sent(folder / "python", "otlp", address)
            found = phoenix_spans(address, len(NAMES) + 1)
    spans = {span["name"]: span for span in found}
    checks.same("phoenix: spans", [*NAMES], sorted(spans))
    kinds = {name: span["span_kind"] for name, span in spans.items()}
    checks.same("phoenix: kinds", ["LLM", "TOOL", "AGENT"], [kinds.get(name) for name in NAMES])
    call = spans.get(f"chat {MODEL}", {}).get("attributes", {})
    checks.same("phoenix: model", MODEL, call.get("llm.model_name"))
    checks.same("phoenix: tokens", True, (call.get("llm.token_count.completion") or 0) > 0)
    contents = [
        value
        for span in found
        for key, value in span.get("attributes", {}).items()
        if span["name"] == f"chat {MODEL}" and key.startswith("llm.") and key.endswith("message.content")
    ]
    checks.same("phoenix: messages", [True, True], [text in contents for text in (QUESTION, ANSWER)])
    roles = [value for key, value in call.items() if key.endswith("message.role")]
    checks.same("phoenix: roles", True, {"user", "assistant"} <= set(roles))


def phoenix_spans(address: str, count: int) -> list[dict[str, Any]]:
    """The spans of its default project, once all have arrived."""
    import time

    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    found: list[dict[str, Any]] = []
    for _ in range(60):
        with direct.open(f"{address}/v1/projects/default/spans?limit=100", timeout=10) as answer:
            found = json.load(answer)["data"]
        if len(found) >= count:
            break
        time.sleep(0.5)
    return found


def main() -> None:
    from serving import Checks, environment, free_port, running

    checks = Checks("OpenTelemetry")
    for name in ("logfire", "langfuse"):
        check_sdk(checks, name, environment)
    check_phoenix(checks, environment, running, free_port)
    checks.finish()


if __name__ == "__main__":
    if sys.argv[1:]:
        SENDERS[sys.argv[1]](sys.argv[2])
    else:
        main()
