"""Programs that use the published `llm-canvas` package, after the examples that its documentation lists.

Run in an environment of its own: `python llm_canvas_examples.py PORT` prints, for each, the canvas that it made.
Nothing here knows of Interlingua.
"""

import base64
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from llm_canvas.canvas_client import CanvasClient

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(60)).decode()


def say(role: str, content: Any) -> Any:
    return {"role": role, "content": content}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def hello(canvas: Any) -> None:
    """Two messages on the main branch."""
    main = canvas.checkout("main")
    main.commit_message(say("system", "Be brief."))
    main.commit_message(say("user", "Hello"), meta={"model": "none"})
    main.commit_message(say("assistant", "Hi!"), meta={"model": "claude"})


def tree(canvas: Any) -> None:
    """A root and branches three deep."""
    main = canvas.checkout("main")
    main.commit_message(say("user", "root"))
    for left in range(3):
        branch = main.checkout(f"b{left}", f"branch {left}", create_if_not_exists=True)
        branch.commit_message(say("assistant", f"child {left}"))
        for right in range(2):
            leaf = branch.checkout(f"b{left}-{right}", create_if_not_exists=True)
            leaf.commit_message(say("user", f"grandchild {left} {right}"))


def weather_tools(canvas: Any) -> None:
    """Calls and results: as text, as blocks, as an error."""
    main = canvas.checkout("main")
    main.commit_message(say("user", "Weather in Oslo and Rome?"))
    calls = [
        {"type": "tool_use", "id": f"t{n}", "name": "weather", "input": {"city": city, "units": None}}
        for n, city in enumerate(("Oslo", "Rome", "Atlantis"))
    ]
    main.commit_message(say("assistant", [text("Let me look."), *calls]))
    results = [
        {"type": "tool_result", "tool_use_id": "t0", "content": "rain"},
        {"type": "tool_result", "tool_use_id": "t1", "content": [text("sun"), text("22 degrees")], "is_error": False},
        {"type": "tool_result", "tool_use_id": "t2", "content": "no such city", "is_error": True},
    ]
    main.commit_message(say("user", results))
    main.commit_message(say("assistant", "Rain in Oslo, sun in Rome."))


def vacation(canvas: Any) -> None:
    """A branch from an earlier message, and a detached head."""
    main = canvas.checkout("main")
    asked = main.commit_message(say("user", "Where to?"))
    main.commit_message(say("assistant", "The sea."))
    mountains = canvas.checkout("mountains", "the other way", create_if_not_exists=True, commit_message=asked)
    mountains.commit_message(say("assistant", "The mountains."))
    canvas.checkout(commit_message=asked).commit_message(say("assistant", "Nowhere."))


def streaming(canvas: Any) -> None:
    """A message that grows: committed early, then updated."""
    main = canvas.checkout("main")
    main.commit_message(say("user", "Tell me a story"))
    node = main.commit_message(say("assistant", ""))
    for words in range(1, 6):
        node["message"]["content"] = " ".join(["word"] * words)
        main.update_message(node["id"], node)


def stakeholders(canvas: Any) -> None:
    """Branches that several threads grow, merged into one message."""
    main = canvas.checkout("main")
    main.commit_message(say("user", "What do they think?"))
    names = ["customers", "employees", "investors", "suppliers"]
    branches = [main.checkout(name, create_if_not_exists=True) for name in names]

    def ask(pair: Any) -> None:
        name, branch = pair
        branch.commit_message(say("user", f"As {name}?"))
        branch.commit_message(say("assistant", f"{name} approve"))

    with ThreadPoolExecutor(1) as pool:  # its node maps are not locked: more than one loses edges
        list(pool.map(ask, zip(names, branches, strict=True)))
    main.merge_from(names, say("assistant", "All approve."))
    main.commit_message(say("user", "Thanks"))


def images(canvas: Any) -> None:
    """Pictures, as data and by address."""
    main = canvas.checkout("main")
    data = {"type": "base64", "media_type": "image/png", "data": PNG}
    blocks = [
        {"type": "image", "source": data},
        {"type": "image", "source": {"type": "url", "url": "https://x.example/a"}},
    ]
    main.commit_message(say("user", [*blocks, text("Which is better?")]))
    main.commit_message(say("assistant", [text("The first.")]))


EXAMPLES = (hello, tree, weather_tools, vacation, streaming, stakeholders, images)


def main() -> None:
    client = CanvasClient(server_port=int(sys.argv[1]))
    made = {}
    for example in EXAMPLES:
        canvas = client.create_canvas(title=example.__name__, description=(example.__doc__ or "").strip())
        example(canvas)
        made[example.__name__] = canvas.canvas_id
    print(json.dumps(made))


if __name__ == "__main__":
    main()
