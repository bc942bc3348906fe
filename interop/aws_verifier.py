"""A stand-in for Bedrock and S3 that looks at the signature first, by `awssig`, which shares no code with botocore.

`python aws_verifier.py PORT`, in the environment that has the package. A request that is signed as AWS wants it is
answered with an event stream, framed here by hand; batch jobs end at once, with results in S3. Another request is
answered with 403, as AWS says it.
"""

import json
import struct
import sys
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote, unquote

from awssig import AWSSigV4Verifier, InvalidSignatureError

REGION = "eu-west-1"
KEYS = {("AKIAINTEROP", None): "secret/of+interop", ("ASIAINTEROP", "session-token=="): "another/secret"}
ANSWER = [
    ("messageStart", {"role": "assistant"}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": "Signed"}}),
    ("contentBlockDelta", {"contentBlockIndex": 0, "delta": {"text": " and read."}}),
    ("contentBlockStop", {"contentBlockIndex": 0}),
    ("messageStop", {"stopReason": "end_turn"}),
    ("metadata", {"usage": {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}, "metrics": {"latencyMs": 1}}),
]


def frame(kind: str, payload: dict[str, object]) -> bytes:
    """One message of AWS's event stream: lengths, their checksum, headers, payload, checksum of it all."""
    told = {":event-type": kind, ":content-type": "application/json", ":message-type": "event"}
    headers = b"".join(
        struct.pack("!B", len(name)) + name.encode() + b"\x07" + struct.pack("!H", len(value)) + value.encode()
        for name, value in told.items()
    )
    body = json.dumps(payload).encode()
    prelude = struct.pack("!II", len(headers) + len(body) + 16, len(headers))
    message = prelude + struct.pack("!I", zlib.crc32(prelude)) + headers + body
    return message + struct.pack("!I", zlib.crc32(message))


def secret(aws_access_key_id: str, aws_session_token: str | None = None) -> str | None:
    return KEYS.get((aws_access_key_id, aws_session_token))


OBJECTS: dict[str, bytes] = {}  # in S3, by bucket and key
JOBS: dict[str, dict[str, object]] = {}


def run_job(given: dict[str, object]) -> dict[str, object]:
    """A job that has ended when it is created."""
    id = f"{len(JOBS):012}"
    source = given["inputDataConfig"]["s3InputDataConfig"]["s3Uri"]
    place = given["outputDataConfig"]["s3OutputDataConfig"]["s3Uri"]
    lines = []
    for line in map(json.loads, OBJECTS[source.removeprefix("s3://")].splitlines()):
        message = {"role": "assistant", "content": [{"text": "Signed and read."}]}
        usage = {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7}
        answer = {"output": {"message": message}, "stopReason": "end_turn", "usage": usage}
        lines.append(json.dumps({**line, "modelOutput": answer}))
    OBJECTS[f"{place}{id}/{source.rpartition('/')[2]}.out".removeprefix("s3://")] = "\n".join(lines).encode()
    arn = f"arn:aws:bedrock:{REGION}:123456789012:model-invocation-job/{id}"
    JOBS[arn] = {**given, "jobArn": arn, "status": "Completed"}
    return {"jobArn": arn}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/":  # whether the server is there
            self._send(200, "application/json", b"{}")
        else:
            self.do_POST()

    def do_PUT(self) -> None:
        self.do_POST()

    def do_DELETE(self) -> None:
        self.do_POST()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        path, _, query = self.path.partition("?")
        service = "bedrock" if path.startswith("/model") else "s3"
        verifier = AWSSigV4Verifier(
            request_method=self.command,
            # Every service but S3 signs the path encoded once more than it is sent.
            uri_path=quote(path, safe="/-_.~") if service == "bedrock" else path,
            query_string=query,
            headers={name.lower(): [value] for name, value in self.headers.items()},
            body=body,
            region=REGION,
            service=service,
            key_mapping=secret,
        )
        try:
            verifier.verify()
        except InvalidSignatureError as error:
            said = {"message": f"The request signature we calculated does not match: {error}"}
            self._send(403, "application/json", json.dumps(said).encode())
        else:
            self._answer(unquote(path), body)

    def _answer(self, path: str, body: bytes) -> None:
        if path == "/model-invocation-job":
            self._send(200, "application/json", json.dumps(run_job(json.loads(body))).encode())
        elif path.startswith("/model-invocation-job/"):
            self._send(200, "application/json", json.dumps(JOBS[path.partition("job/")[2]]).encode())
        elif path.startswith("/model/"):
            self._send(200, "application/vnd.amazon.eventstream", b"".join(frame(*event) for event in ANSWER))
        elif self.command == "PUT":
            OBJECTS[path[1:]] = body
            self._send(200, "application/xml", b"")
        elif self.command == "DELETE":
            OBJECTS.pop(path[1:], None)
            self._send(200, "application/xml", b"")
        else:
            self._send(200, "application/octet-stream", OBJECTS[path[1:]])

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
