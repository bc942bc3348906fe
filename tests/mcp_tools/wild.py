"""A server that misbehaves, as its first argument says. Speaks just enough of the protocol; needs nothing installed."""

import json
import os
import sys
import time

MODE = sys.argv[1]
TOOL = {"name": "go", "inputSchema": {"type": "object"}}


def say(id: object, result: object) -> None:
    print(json.dumps({"jsonrpc": "2.0", "id": id, "result": result}), flush=True)


def listed(cursor: int) -> dict[str, object]:
    match MODE:
        case "repeated-tools":  # every page says `go` again, and one tool of its own
            page: dict[str, object] = {"tools": [TOOL, TOOL | {"name": f"go{cursor}"}]}
            return page if cursor == 2 else page | {"nextCursor": str(cursor + 1)}
        case "two-definitions":
            return {"tools": [TOOL | {"description": "first"}, TOOL | {"description": "second"}]}
        case "one-a-page":
            page = {"tools": [TOOL | {"name": f"go{cursor}"}]}
            return page if cursor == 149 else page | {"nextCursor": str(cursor + 1)}
        case "same-cursor":
            return {"tools": [TOOL], "nextCursor": "1"}
        case "loop":
            return {"tools": [TOOL], "nextCursor": {0: "1", 1: "2", 2: "3", 3: "1"}[cursor]}
        case "endless-pages":
            return {"tools": [TOOL | {"name": f"go{cursor}"}], "nextCursor": str(cursor + 1)}
        case "many-tools":
            return {"tools": [TOOL | {"name": f"go{cursor}.{at}"} for at in range(600)], "nextCursor": str(cursor + 1)}
        case "no-schema":
            return {"tools": [{"name": "go", "inputSchema": "none"}]}
        case "wrong-schema":
            return {"tools": [TOOL | {"inputSchema": {"type": "object", "properties": {"a": {"type": "nonsense"}}}}]}
        case "required":
            schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a", "ghost"]}
            return {"tools": [TOOL | {"inputSchema": schema}]}
        case "pattern":
            schema = {"type": "object", "properties": {"s": {"type": "string", "pattern": "^(a+)+$"}}}
            return {"tools": [TOOL | {"outputSchema": schema}]}
        case "names":
            names = ["b.x", "b x", "b/x", "exec", "a" * 200, "", "b_x"]
            return {"tools": [TOOL | {"name": name, "description": "say\u202e it\U000e0041"} for name in names]}
    return {"tools": [TOOL]}


def answer(id: object) -> None:
    match MODE:
        case "hang-call":
            time.sleep(3600)
        case "long-line":
            while True:
                sys.stdout.write("x" * 65536)
        case "huge-result":
            say(id, {"content": [{"type": "text", "text": "y" * 1_000_000}, {"type": "text", "text": "z"}]})
        case "structured" | "structured-error":
            blank = [{"type": "text", "text": text} for text in sys.argv[2:]]
            say(id, {"content": blank, "structuredContent": {"n": [1, "é"]}, "isError": MODE != "structured"})
        case "structured-image":
            image = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
            say(id, {"content": [image, {"type": "text", "text": " "}], "structuredContent": {"n": 1}})
        case "changing":
            for _ in range(2):
                note = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
                print(json.dumps(note), flush=True)
            say(id, {"content": [{"type": "text", "text": "ok"}]})
        case "large-media":
            data = "QUJD" * 30_000
            blob = {"uri": "file:///report.bin", "mimeType": "application/x-report", "blob": data}
            audio = {"type": "audio", "data": "RkZG" * 30_000, "mimeType": "audio/wav"}
            say(id, {"content": [audio, {"type": "resource", "resource": blob}]})
        case "bad-result":
            say(id, {"content": [{"type": "hologram"}]})
        case "pattern":
            say(id, {"content": [{"type": "text", "text": "ok"}], "structuredContent": {"s": "a" * 64 + "!"}})
        case "noise":
            for _ in range(50):
                print("debug: thinking", flush=True)
            sys.stderr.write("e" * 3_000_000)
            say(id, {"content": [{"type": "text", "text": "ok"}]})
        case "garbage":
            while True:
                print("garbage", flush=True)
        case "notifications":
            params = {"level": "info", "data": "x"}
            note = {"jsonrpc": "2.0", "method": "notifications/message", "params": params}
            for _ in range(5000):
                print(json.dumps(note), flush=True)
            say(id, {"content": [{"type": "text", "text": "ok"}]})
        case "child":
            if os.fork() == 0:
                time.sleep(3600)
            say(id, {"content": [{"type": "text", "text": str(os.getpgid(0))}]})
        case "once":
            with open(sys.argv[2], "a+") as file:  # noqa: PTH123
                file.seek(0)
                before = len(file.read())
                file.write("x")
            if before == 0:
                os._exit(3)
            say(id, {"content": [{"type": "text", "text": f"start {before + 1}"}]})
        case _:
            say(id, {"content": [{"type": "text", "text": "ok"}]})


if MODE == "die":
    sys.exit("no licence")
if MODE == "hang-start":
    time.sleep(3600)
for line in sys.stdin:
    asked = json.loads(line)
    id, method, params = asked.get("id"), asked.get("method"), asked.get("params") or {}
    if method == "initialize":
        info = {"name": "wild", "version": "0"}
        say(id, {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": info})
    elif method == "tools/list":
        say(id, listed(int(params.get("cursor") or 0)))
    elif method == "tools/call":
        answer(id)
    elif id is not None:
        error = {"code": -32601, "message": "no such method"}
        print(json.dumps({"jsonrpc": "2.0", "id": id, "error": error}), flush=True)
