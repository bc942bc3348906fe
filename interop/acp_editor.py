"""`interlingua chat --acp` with an editor on the official TypeScript package (npm: @agentclientprotocol/sdk).

Run by `make interop`; left out without npm.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
MODULES = HERE / ".envs" / "mcp-node" / "node_modules"
NODE = MODULES / "node" / "bin" / "node"


def main() -> str:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder).resolve()
        root = place / "root"
        root.mkdir()
        script = place / "script.json"
        call = {"name": "write", "arguments": {"path": "a.txt", "content": "alpha"}}
        script.write_text(json.dumps([{"calls": [call]}, "Written."]))
        agent = [sys.executable, "-c", "from interlingua.cli import main; main()"]
        agent += ["chat", "--acp", "-m", f"debug/script:{script}"]
        editor = MODULES.parent / "acp_editor.mjs"  # beside the package that it imports
        shutil.copyfile(HERE / "acp_editor.mjs", editor)
        done = subprocess.run(
            [NODE, editor, root, *agent],
            env={**os.environ, "INTERLINGUA_HOME": str(place / "home")},
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{done.stdout}\n{done.stderr}\nACP: the editor failed")
        seen = json.loads(done.stdout.splitlines()[-1])
        assert seen["initialized"]["agentInfo"]["name"] == "interlingua", seen
        assert seen["asked"] == ["write a.txt"] and (root / "a.txt").read_text() == "alpha", seen
        assert seen["first"]["stopReason"] == "end_turn" and seen["listed"], seen
        kinds = [update["sessionUpdate"] for update in seen["replayed"]]
        assert {"user_message_chunk", "tool_call", "tool_call_update", "agent_message_chunk"} == set(kinds), kinds
        return f"ACP: an editor of the TypeScript package: {len(seen['updates'])} updates"


if __name__ == "__main__":
    print(main() if NODE.exists() else "ACP: left out, the TypeScript package is not installed (there is no npm)")
