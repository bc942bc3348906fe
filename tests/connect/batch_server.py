"""A server with the batch APIs of OpenAI, Anthropic, Google and Bedrock (with S3) in their documented shapes, and
ordinary calls.

Every answer is `answer to TEXT`; a text that begins with `bad` fails. `kill_at(number, process, after)` kills a process
when its request of that number has come: before anything is done, or after it was done and before the reply. A batch
that is cancelled, or that ends as `ending` says, has the answers of the first half of its requests. Requests to AWS are
answered if botocore makes the same signature of what came.
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
from urllib.parse import parse_qs, unquote, urlsplit

import botocore.auth
import botocore.awsrequest
import botocore.credentials

KEY = "test-key"
AWS_KEYS = ("AKIABATCH", "secret/of+batches")
REGION = "eu-west-1"
S3, ROLE = "s3://bucket/some/prefix", "arn:aws:iam::123456789012:role/batches"


def aws_variables(url: str) -> dict[str, str]:
    """The environment of a program that reaches the server as AWS."""
    keys = {"AWS_ACCESS_KEY_ID": AWS_KEYS[0], "AWS_SECRET_ACCESS_KEY": AWS_KEYS[1], "AWS_REGION": REGION}
    return {**keys, "AWS_ENDPOINT_URL_S3": url, "AWS_ENDPOINT_URL_BEDROCK": url, "AWS_SESSION_TOKEN": ""}


class BatchServer:
    def __init__(self) -> None:
        self.files: dict[str, dict[str, Any]] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.asked: Counter[str] = Counter()  # texts of ordinary calls
        self.requests: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.running = False  # whether batches are still in progress
        self.ending = ""  # how batches end before their time: `expired` or `failed`
        self.objects: dict[str, bytes] = {}  # in S3, by bucket and key
        self.broken: list[int] = []  # numbers of requests whose reply never comes
        self.limited: list[int] = []  # numbers of requests that are limited
        self.deleted: list[str] = []
        self._made = 0
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

            def do_PUT(self) -> None:
                self.do_POST()

            def do_DELETE(self) -> None:
                owner.handle(self, b"")

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "BatchServer":
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *given: Any) -> None:
        self._server.shutdown()
        self._server.server_close()

    def count(self) -> int:
        """The number of batches that there were."""
        self._made += 1
        return self._made - 1

    def early(self, id: str) -> str:
        """How a batch ended before its time: cancelled, or as `ending` says."""
        return str(self.batches[id].get("early", self.ending))

    def half(self, rows: list[Any]) -> list[Any]:
        return rows[: len(rows) // 2]

    def kill_at(self, number: int, process: int, *, after: bool) -> None:
        self._victim = (len(self.requests) + number, process, after)

    def spare(self) -> None:
        """Kills nobody any more."""
        self._victim = None

    def handle(self, handler: BaseHTTPRequestHandler, body: bytes) -> None:
        with self._lock:
            self.requests.append(f"{handler.command} {handler.path}")
            self.headers.append({name.lower(): value for name, value in handler.headers.items()})
            self.bodies.append(body)
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
        if sent.get("authorization", "").startswith("AWS4-HMAC-SHA256"):
            if not is_signed(handler, body):
                return 403, b'{"message": "The request signature we calculated does not match"}'
        elif KEY not in keys:
            return 401, b'{"error": {"type": "authentication_error", "message": "wrong key"}}'
        url = urlsplit(handler.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        for pattern, method, answer in ROUTES:
            found = re.fullmatch(pattern, url.path)
            if found is not None and method == handler.command:
                try:
                    given = answer(self, body, query, *map(unquote, found.groups()))
                except KeyError:
                    break
                return 200, given if isinstance(given, bytes) else json.dumps(given).encode()
        if url.path.startswith("/bucket/"):
            return 404, b"<?xml version='1.0'?><Error><Code>NoSuchKey</Code><Message>no such key</Message></Error>"
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
    id = f"batch_{server.count()}"
    chat = given["endpoint"].endswith("/chat/completions")
    rows = []
    for line in lines:
        text = chat_text(line["body"]) if chat else responses_text(line["body"])
        failed = text.startswith("bad")
        answer = {"error": {"message": f"no: {text}", "type": "invalid_request_error"}} if failed else None
        answer = answer or (chat_answer(line["body"], text) if chat else responses_answer(line["body"], text))
        response = {"status_code": 400 if failed else 200, "request_id": "r", "body": answer}
        rows.append({"id": "x", "custom_id": line["custom_id"], "response": response, "error": None})
    server.batches[id] = {"ids": [row["custom_id"] for row in rows], "given": given, "rows": rows}
    return batch_object(server, id)


EXPIRED = {
    "code": "batch_expired",
    "message": "This request could not be executed before the completion window expired.",
}


def batch_object(server: BatchServer, id: str) -> Any:
    batch, early = server.batches[id], server.early(id)
    ended = bool(early) or not server.running
    rows = {"failed": [], "": batch["rows"]}.get(early, server.half(batch["rows"]))
    if early == "expired":
        rows = rows + [{**row, "response": None, "error": EXPIRED} for row in batch["rows"][len(rows) :]]
    good = [row for row in rows if (row["response"] or {}).get("status_code") == 200]
    bad = [row for row in rows if row not in good]
    for name, some in (("output", good[::-1]), ("error", bad)):
        if ended and some and f"{id}-{name}" not in server.deleted:
            content = b"\n".join(json.dumps(row).encode() for row in some)
            server.files[f"{id}-{name}"] = {"filename": name, "content": content}
    problem = {"code": "invalid_json_line", "message": "a line is wrong", "line": 1, "param": None}
    return {
        "id": id,
        "object": "batch",
        **batch["given"],
        "created_at": 1,
        "errors": {"object": "list", "data": [problem]} if early == "failed" else None,
        "status": early or ("completed" if ended else "in_progress"),
        "output_file_id": f"{id}-output" if ended and good else None,
        "error_file_id": f"{id}-error" if ended and bad else None,
        "request_counts": {"total": len(batch["ids"]), "completed": len(good), "failed": len(bad)},
    }


def cancelled(server: BatchServer, id: str) -> Any:
    server.batches[id]["early"] = "cancelled"
    return server.batches[id]


def file_deleted(server: BatchServer, id: str) -> Any:
    del server.files[id]
    server.deleted.append(id)
    return {"id": id, "object": "file", "deleted": True}


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
    id = f"msgbatch_{server.count()}"
    rows = []
    for one in requests:
        text = chat_text(one["params"])
        if text.startswith("bad"):
            error = {"type": "error", "error": {"type": "invalid_request_error", "message": f"no: {text}"}}
            result: Any = {"type": "errored", "error": error}
        else:
            result = {"type": "succeeded", "message": message_answer(one["params"], text)}
        rows.append({"custom_id": one["custom_id"], "result": result})
    server.batches[id] = {
        "ids": [one["custom_id"] for one in requests],
        "rows": rows,
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


def messages_results(server: BatchServer, id: str) -> bytes:
    rows, early = server.batches[id]["rows"], server.early(id)
    if early:
        rest = rows[len(server.half(rows)) :]
        rows = server.half(rows) + [{**row, "result": {"type": ANTHROPIC_ENDINGS[early]}} for row in rest]
    return "\n".join(json.dumps(row) for row in rows[::-1]).encode()


ANTHROPIC_ENDINGS = {"cancelled": "canceled", "expired": "expired", "failed": "expired"}


def messages_object(server: BatchServer, id: str) -> Any:
    batch, running = server.batches[id], server.running and not server.early(id)
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
        "cancel_initiated_at": batch["created"] if server.early(id) == "cancelled" else None,
        "ended_at": None if running else batch["created"],
        "results_url": None if running else f"{server.url}/v1/messages/batches/{id}/results",
    }


def messages_deleted(server: BatchServer, id: str) -> Any:
    del server.batches[id]
    server.deleted.append(id)
    return {"id": id, "type": "message_batch_deleted"}


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
    id = f"batches/{server.count()}"
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
    batch, early = server.batches[id], server.early(id)
    running = server.running and not early
    state = "BATCH_STATE_RUNNING" if running else f"BATCH_STATE_{early.upper() or 'SUCCEEDED'}"
    stats = {"requestCount": str(len(batch["ids"]))}
    about: Any = {"displayName": batch["name"], "state": state, "batchStats": stats}
    done: Any = {}
    if early:
        done = {"done": True, "error": {"code": 1, "message": f"The batch is {early}."}}
    elif not running:
        output = {"inlinedResponses": {"inlinedResponses": batch["rows"]}}
        about, done = {**about, "output": output}, {"done": True, "response": output}
    return {"name": id, "metadata": about, **done}


def google_deleted(server: BatchServer, id: str) -> Any:
    del server.batches[id]
    server.deleted.append(id)
    return {}


def google_listed(server: BatchServer, query: Any) -> Any:
    ids, start = list(server.batches)[::-1], int(query.get("pageToken", 0))
    more = {"nextPageToken": str(start + 2)} if start + 2 < len(ids) else {}
    return {"operations": [operation(server, id) for id in ids[start : start + 2]], **more}


# --- Bedrock: docs.aws.amazon.com/bedrock/latest/APIReference/API_CreateModelInvocationJob.html, and S3 ---------------


def is_signed(handler: BaseHTTPRequestHandler, body: bytes) -> bool:
    """Whether botocore makes the same signature of the request as it came, for its service and our region."""
    given = re.fullmatch(
        r"AWS4-HMAC-SHA256 Credential=([^/]+)/\d{8}/([^/]+)/([^/]+)/aws4_request, SignedHeaders=(.+), Signature=(\w+)",
        handler.headers["Authorization"],
    )
    service = "bedrock" if handler.path.startswith("/model-invocation-job") else "s3"
    if given is None or given.groups()[:3] != (AWS_KEYS[0], REGION, service):
        return False
    headers = {name: handler.headers[name] for name in given[4].split(";") if name != "host"}
    request = botocore.awsrequest.AWSRequest(
        method=handler.command, url=f"http://{handler.headers['Host']}{handler.path}", headers=headers, data=body
    )
    request.context["timestamp"] = handler.headers["X-Amz-Date"]
    signer = botocore.auth.S3SigV4Auth if service == "s3" else botocore.auth.SigV4Auth
    auth = signer(botocore.credentials.Credentials(*AWS_KEYS), service, REGION)
    expected = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
    return bool(expected == given[5])


def create_job(server: BatchServer, body: bytes, query: Any) -> Any:
    given = json.loads(body)
    assert given["modelInvocationType"] == "Converse"
    for id, job in server.batches.items():
        if job["given"]["clientRequestToken"] == given["clientRequestToken"]:
            return {"jobArn": id}
    source = given["inputDataConfig"]["s3InputDataConfig"]["s3Uri"]
    rows = []
    for line in map(json.loads, server.objects[source.removeprefix("s3://")].splitlines()):
        text = line["modelInput"]["messages"][-1]["content"][0]["text"]
        failed = {"error": {"errorCode": 400, "errorMessage": f"no: {text}"}}
        rows.append({**line, **(failed if text.startswith("bad") else {"modelOutput": converse_answer(text)})})
    id = f"arn:aws:bedrock:{REGION}:123456789012:model-invocation-job/{server.count():012}"
    server.batches[id] = {"ids": [row["recordId"] for row in rows], "given": given, "rows": rows}
    return {"jobArn": id}


def converse_answer(text: str) -> Any:
    return {
        "output": {"message": {"role": "assistant", "content": [{"text": f"answer to {text}"}]}},
        "stopReason": "end_turn",
        "usage": {"inputTokens": 1000, "outputTokens": 1000, "totalTokens": 2000},
        "metrics": {"latencyMs": 1},
    }


JOB_ENDINGS = {
    "": "Completed",
    "cancelled": "Stopped",
    "expired": "Expired",
    "failed": "Failed",
    "partial": "PartiallyCompleted",
}


def job_object(server: BatchServer, id: str) -> Any:
    batch, early = server.batches[id], server.early(id)
    status = "InProgress" if server.running and not early else JOB_ENDINGS[early]
    rows = {"": batch["rows"], "expired": [], "failed": []}.get(early, server.half(batch["rows"]))
    given = batch["given"]
    if status != "InProgress" and rows:
        source = given["inputDataConfig"]["s3InputDataConfig"]["s3Uri"]
        place = given["outputDataConfig"]["s3OutputDataConfig"]["s3Uri"]
        name = f"{place}{id.rpartition('/')[2]}/{source.rpartition('/')[2]}.out".removeprefix("s3://")
        if name not in server.deleted:
            server.objects[name] = b"\n".join(json.dumps(row).encode() for row in rows[::-1])
    return {
        "jobArn": id,
        **given,
        "status": status,
        **({"message": "The job needs at least 100 records."} if early == "failed" else {}),
        "submitTime": "2026-01-01T00:00:00Z",
        "totalRecordCount": len(batch["rows"]),
        "processedRecordCount": len(rows),
    }


def jobs_listed(server: BatchServer, query: Any) -> Any:
    ids = [id for id in server.batches if query["nameContains"] in server.batches[id]["given"]["jobName"]]
    start = int(query.get("nextToken", 0))
    more = {"nextToken": str(start + 2)} if start + 2 < len(ids) else {}
    return {"invocationJobSummaries": [job_object(server, id) for id in ids[start : start + 2]], **more}


def put_object(server: BatchServer, body: bytes, query: Any, key: str) -> bytes:
    server.objects[key] = body
    return b""


def delete_object(server: BatchServer, body: bytes, query: Any, key: str) -> bytes:
    server.deleted.append(key)
    server.objects.pop(key, None)  # S3 says the same of what is not there
    return b""


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
    (r"/v1/files/([^/]+)", "DELETE", lambda s, b, q, id: file_deleted(s, id)),
    (r"/v1/batches/([^/]+)/cancel", "POST", lambda s, b, q, id: cancelled(s, id) and batch_object(s, id)),
    (r"/v1/batches", "POST", create),
    (r"/v1/batches", "GET", lambda s, b, q: listed(s, q)),
    (r"/v1/batches/([^/]+)", "GET", lambda s, b, q, id: batch_object(s, id)),
    (r"/v1/messages/batches", "POST", create_messages),
    (r"/v1/messages/batches", "GET", lambda s, b, q: messages_listed(s, q)),
    (r"/v1/messages/batches/([^/]+)", "GET", lambda s, b, q, id: messages_object(s, id)),
    (r"/v1/messages/batches/([^/]+)/results", "GET", lambda s, b, q, id: messages_results(s, id)),
    (r"/v1/messages/batches/([^/]+)/cancel", "POST", lambda s, b, q, id: cancelled(s, id) and messages_object(s, id)),
    (r"/v1/messages/batches/([^/]+)", "DELETE", lambda s, b, q, id: messages_deleted(s, id)),
    (r"/v1beta/models/([^/]+):batchGenerateContent", "POST", create_google),
    (r"/v1beta/batches", "GET", lambda s, b, q: google_listed(s, q)),
    (r"/v1beta/(batches/[^/]+)", "GET", lambda s, b, q, id: operation(s, id)),
    (r"/v1beta/(batches/[^/:]+):cancel", "POST", lambda s, b, q, id: cancelled(s, id) and {}),
    (r"/v1beta/(batches/[^/]+)", "DELETE", lambda s, b, q, id: google_deleted(s, id)),
    (r"/model-invocation-job", "POST", create_job),
    (r"/model-invocation-jobs", "GET", lambda s, b, q: jobs_listed(s, q)),
    (r"/model-invocation-job/([^/]+)", "GET", lambda s, b, q, id: job_object(s, id)),
    (r"/model-invocation-job/([^/]+)/stop", "POST", lambda s, b, q, id: cancelled(s, id) and {}),
    (r"/v1/messages", "POST", call),
    (r"/(bucket/.+)", "PUT", put_object),
    (r"/(bucket/.+)", "GET", lambda s, b, q, key: s.objects[key]),
    (r"/(bucket/.+)", "DELETE", delete_object),
]
