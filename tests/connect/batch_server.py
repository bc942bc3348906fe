"""A server with the batch APIs of OpenAI, Anthropic and Google, in the shapes that they document, and ordinary calls.

Every answer is `answer to TEXT`; a text that begins with `bad` fails. `kill_at(number, process, after)` kills a process
when its request of that number has come: before anything is done, or after it was done and before the reply.
"""

import json
import os
import re
import signal
import threading
from collections import Counter
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

KEY = "test-key"


class BatchServer:
    def __init__(self) -> None:
        self.files: dict[str, dict[str, Any]] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.asked: Counter[str] = Counter()  # texts of ordinary calls
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.running = False  # whether batches are still in progress
        self.broken: list[int] = []  # numbers of requests whose reply never comes
        self.limited: list[int] = []  # numbers of requests that are limited
        self._victim: tuple[int, int, bool] | None = None
        self._lock = threading.Lock()
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *given: Any) -> None: ...

            def do_GET(self) -> None:
                owner.handle(self, b"")

            def do_POST(self) -> None:
                owner.handle(self, self.rfile.read(int(self.headers["Content-Length"])))

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "BatchServer":
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *given: Any) -> None:
        self._server.shutdown()
        self._server.server_close()

    def kill_at(self, number: int, process: int, *, after: bool) -> None:
        self._victim = (len(self.requests) + number, process, after)

    def handle(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        with self._lock:
            self.requests.append(f"{handler.command} {handler.path}")
            self.headers.append({name.lower(): value for name, value in handler.headers.items()})
            number = len(self.requests)
            if self._kill(number, after=False):
                handler.close_connection = True
                return
            if number in self.limited:
                status, reply = 429, b'{"error": {"type": "rate_limit_error", "message": "slow down"}}'
            else:
                status, reply = self.reply(handler, body)
            if self._kill(number, after=True) or number in self.broken:
                handler.close_connection = True
                return
        handler.send_response(status)
        handler.send_header("Content-Type", "application/json")
        handler.send_header("Content-Length", str(len(reply)))
        if status == 429:
            handler.send_header("Retry-After", "0.01")
        handler.end_headers()
        handler.wfile.write(reply)

    def _kill(self, number: int, *, after: bool) -> bool:
        if self._victim is None or (self._victim[0], self._victim[2]) != (number, after):
            return False
        os.kill(self._victim[1], signal.SIGKILL)
        self._victim = None
        return True

    def reply(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes]:
        sent = self.headers[-1]
        keys = (
            sent.get("x-api-key"),
            sent.get("x-goog-api-key"),
            sent.get("authorization", "").removeprefix("Bearer "),
        )
        if KEY not in keys:
            return 401, b'{"error": {"type": "authentication_error", "message": "wrong key"}}'
        url = urlsplit(handler.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        for pattern, method, answer in ROUTES:
            found = re.fullmatch(pattern, url.path)
            if found is not None and method == handler.command:
                given = answer(self, body, query, *found.groups())
                return 200, given if isinstance(given, bytes) else json.dumps(given).encode()
        return 404, json.dumps({"error": {"type": "not_found", "message": f"no {handler.path}"}}).encode()


# --- OpenAI: platform.openai.com/docs/api-reference/files and /batch --------------------------------------------------


def upload(server: BatchServer, body: bytes, query: Any) -> Any:
    head, _, data = body.partition(b'name="file"; filename="')
    assert b"batch" in head
    name, _, data = data.partition(b'"')
    content = data.partition(b"\r\n\r\n")[2].rpartition(b"\r\n--")[0]
    id = f"file-{len(server.files)}"
    server.files[id] = {"filename": name.decode(), "content": content}
    return file_object(server, id)


def file_object(server: BatchServer, id: str) -> Any:
    file = server.files[id]
    fields = {"bytes": len(file["content"]), "created_at": 1, "filename": file["filename"], "purpose": "batch"}
    return {"id": id, "object": "file", **fields, "status": "processed"}


def create(server: BatchServer, body: bytes, query: Any) -> Any:
    given = json.loads(body)
    lines = [json.loads(line) for line in server.files[given["input_file_id"]]["content"].splitlines()]
    assert all(line["url"] == given["endpoint"] and line["method"] == "POST" for line in lines)
    id = f"batch_{len(server.batches)}"
    good, bad = [], []
    for line in lines:
        chat = given["endpoint"].endswith("/chat/completions")
        text = chat_text(line["body"]) if chat else responses_text(line["body"])
        failed = text.startswith("bad")
        answer = {"error": {"message": f"no: {text}", "type": "invalid_request_error"}} if failed else None
        answer = answer or (chat_answer(line["body"], text) if chat else responses_answer(line["body"], text))
        response = {"status_code": 400 if failed else 200, "request_id": "r", "body": answer}
        row = {"id": "x", "custom_id": line["custom_id"], "response": response, "error": None}
        (bad if failed else good).append(json.dumps(row).encode())
    for name, rows in (("output", good[::-1]), ("error", bad)):
        server.files[f"{id}-{name}"] = {"filename": name, "content": b"\n".join(rows)}
    server.batches[id] = {
        "ids": [line["custom_id"] for line in lines],
        "given": given,
        "counts": {"total": len(lines), "completed": len(good), "failed": len(bad)},
    }
    return batch_object(server, id)


def batch_object(server: BatchServer, id: str) -> Any:
    batch = server.batches[id]
    counts, ended = batch["counts"], not server.running
    return {
        "id": id,
        "object": "batch",
        **batch["given"],
        "created_at": 1,
        "errors": None,
        "status": "completed" if ended else "in_progress",
        "output_file_id": f"{id}-output" if ended and counts["completed"] else None,
        "error_file_id": f"{id}-error" if ended and counts["failed"] else None,
        "request_counts": counts,
    }


def listed(server: BatchServer, query: Any) -> Any:
    ids = list(server.batches)[::-1]
    start = ids.index(query["after"]) + 1 if "after" in query else 0
    page = ids[start : start + 2]  # however many were asked for: small pages find more mistakes
    more = start + 2 < len(ids)
    return {"object": "list", "data": [batch_object(server, id) for id in page], "has_more": more}


def chat_text(body: Any) -> str:
    last = body["messages"][-1]["content"]
    return last if isinstance(last, str) else str(last[0]["text"])


def responses_text(body: Any) -> str:
    last = body["input"][-1]["content"]
    return last if isinstance(last, str) else str(last[0]["text"])


def chat_answer(body: Any, text: str) -> Any:
    message = {"role": "assistant", "content": f"answer to {text}"}
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "service_tier": "default",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 1000, "total_tokens": 2000},
    }


def responses_answer(body: Any, text: str) -> Any:
    content = [{"type": "output_text", "text": f"answer to {text}", "annotations": []}]
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": content}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": body["model"],
        "output": [message],
        "usage": {"input_tokens": 1000, "output_tokens": 1000, "total_tokens": 2000},
    }


# --- Anthropic: docs.claude.com/en/api/creating-message-batches -------------------------------------------------------


def create_messages(server: BatchServer, body: bytes, query: Any) -> Any:
    requests = json.loads(body)["requests"]
    assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", one["custom_id"]) for one in requests)
    id = f"msgbatch_{len(server.batches)}"
    rows = []
    for one in requests:
        text = chat_text(one["params"])
        if text.startswith("bad"):
            error = {"type": "error", "error": {"type": "invalid_request_error", "message": f"no: {text}"}}
            result: Any = {"type": "errored", "error": error}
        else:
            result = {"type": "succeeded", "message": message_answer(one["params"], text)}
        rows.append(json.dumps({"custom_id": one["custom_id"], "result": result}))
    server.batches[id] = {
        "ids": [one["custom_id"] for one in requests],
        "results": "\n".join(rows[::-1]).encode(),
        "created": datetime.now(UTC).isoformat().replace("+00:00", "Z"),
    }
    return messages_object(server, id)


def message_answer(params: Any, text: str) -> Any:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": params["model"],
        "stop_sequence": None,
        "content": [{"type": "text", "text": f"answer to {text}"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1000, "output_tokens": 1000, "service_tier": "batch"},
    }


def messages_object(server: BatchServer, id: str) -> Any:
    batch, running = server.batches[id], server.running
    counts = {"processing": 0, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
    counts["processing" if running else "succeeded"] = len(batch["ids"])
    return {
        "id": id,
        "type": "message_batch",
        "processing_status": "in_progress" if running else "ended",
        "request_counts": counts,
        "created_at": batch["created"],
        "expires_at": batch["created"],
        "archived_at": None,
        "cancel_initiated_at": None,
        "ended_at": None if running else batch["created"],
        "results_url": None if running else f"{server.url}/v1/messages/batches/{id}/results",
    }


def messages_listed(server: BatchServer, query: Any) -> Any:
    ids = list(server.batches)[::-1]
    start = ids.index(query["after_id"]) + 1 if "after_id" in query else 0
    page = ids[start : start + 2]
    return {
        "data": [messages_object(server, id) for id in page],
        "has_more": start + 2 < len(ids),
        "first_id": page[0] if page else None,
        "last_id": page[-1] if page else None,
    }


# --- Google: ai.google.dev/api/batch-api ------------------------------------------------------------------------------


def create_google(server: BatchServer, body: bytes, query: Any, model: str) -> Any:
    batch = json.loads(body)["batch"]
    id = f"batches/{len(server.batches)}"
    rows = []
    for one in batch["input_config"]["requests"]["requests"]:
        text = one["request"]["contents"][-1]["parts"][0]["text"]
        content = {"role": "model", "parts": [{"text": f"answer to {text}"}]}
        answer = {
            "candidates": [{"content": content, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 1000, "totalTokenCount": 2000},
        }
        failed = {"error": {"code": 3, "message": f"no: {text}"}}
        rows.append({"metadata": one["metadata"], **(failed if text.startswith("bad") else {"response": answer})})
    keys = [row["metadata"]["key"] for row in rows]
    server.batches[id] = {"ids": keys, "rows": rows[::-1], "name": batch["display_name"]}
    return operation(server, id)


def operation(server: BatchServer, id: str) -> Any:
    batch, running = server.batches[id], server.running
    state = "BATCH_STATE_RUNNING" if running else "BATCH_STATE_SUCCEEDED"
    stats = {"requestCount": str(len(batch["ids"]))}
    about = {"displayName": batch["name"], "state": state, "batchStats": stats}
    done = {} if running else {"done": True, "response": {"inlinedResponses": {"inlinedResponses": batch["rows"]}}}
    return {"name": id, "metadata": about, **done}


def google_listed(server: BatchServer, query: Any) -> Any:
    ids, start = list(server.batches)[::-1], int(query.get("pageToken", 0))
    more = {"nextPageToken": str(start + 2)} if start + 2 < len(ids) else {}
    return {"operations": [operation(server, id) for id in ids[start : start + 2]], **more}


# --- ordinary calls ---------------------------------------------------------------------------------------------------


def call(server: BatchServer, body: bytes, query: Any) -> Any:
    given = json.loads(body)
    text = chat_text(given)
    server.asked[text] += 1
    return message_answer(given, text)


ROUTES: list[tuple[str, str, Any]] = [
    (r"/v1/files", "POST", upload),
    (r"/v1/files", "GET", lambda s, b, q: {"data": [file_object(s, id) for id in s.files], "has_more": False}),
    (r"/v1/files/([^/]+)/content", "GET", lambda s, b, q, id: s.files[id]["content"]),
    (r"/v1/batches", "POST", create),
    (r"/v1/batches", "GET", lambda s, b, q: listed(s, q)),
    (r"/v1/batches/([^/]+)", "GET", lambda s, b, q, id: batch_object(s, id)),
    (r"/v1/messages/batches", "POST", create_messages),
    (r"/v1/messages/batches", "GET", lambda s, b, q: messages_listed(s, q)),
    (r"/v1/messages/batches/([^/]+)", "GET", lambda s, b, q, id: messages_object(s, id)),
    (r"/v1/messages/batches/([^/]+)/results", "GET", lambda s, b, q, id: s.batches[id]["results"]),
    (r"/v1beta/models/([^/]+):batchGenerateContent", "POST", create_google),
    (r"/v1beta/batches", "GET", lambda s, b, q: google_listed(s, q)),
    (r"/v1beta/(batches/[^/]+)", "GET", lambda s, b, q, id: operation(s, id)),
    (r"/v1/messages", "POST", call),
]
