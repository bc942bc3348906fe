"""The official conformance suite of MCP (npm: @modelcontextprotocol/conformance) against our server and our client.

Run by `make interop`; left out without npm. The suite needs Node 22, which comes from npm as well. Another failure than
those of `NOT_OFFERED` ends with an error, and so does a scenario of it that passes.
"""

import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
MODULES = HERE / ".envs" / "mcp-node" / "node_modules"
NODE = MODULES / "node" / "bin" / "node"
SUITE = MODULES / ".bin" / "conformance"
CLIENT = f"{sys.executable} {HERE / 'mcp_conformance_client.py'}"

NOT_OFFERED = {
    # The official package refuses metadata whose issuer is not the address at which it was found.
    "auth/2025-03-26-oauth-metadata-backcompat",
    # Identity assertions of a company's login service.
    "auth/cross-app-access-complete-flow",
}


def suite(*arguments: str) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        command = [NODE, SUITE, *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900, check=False)


def server() -> dict[str, bool]:
    """Each scenario of the suite's server tests, and whether it passed."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    program = [sys.executable, str(HERE / "mcp_conformance_server.py"), str(port)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as ours:
        try:
            done = suite("server", "--url", ours.stdout.readline().strip())
        finally:
            ours.terminate()
    return {name: mark == "✓" for mark, name in re.findall(r"^([✓✗]) ([\w/.-]+):", done.stdout, re.MULTILINE)}


def client() -> dict[str, bool]:
    """Each scenario of the client tests. One after another: some measure how long the client waits."""
    listed = suite("list").stdout.partition("Client scenarios")[2]
    names = re.findall(r"^  - (\S+)", listed, re.MULTILINE)
    return {name: _client_passes(name) for name in names}


def _client_passes(name: str) -> bool:
    return suite("client", "--command", CLIENT, "--scenario", name, "--timeout", "120000").returncode == 0


def report(what: str, found: dict[str, bool]) -> None:
    failed = {name for name, passed in found.items() if not passed}
    wrong = failed - NOT_OFFERED
    passing = NOT_OFFERED & found.keys() - failed
    if not found or wrong or passing:
        sys.exit(f"MCP conformance of our {what}: failed: {sorted(wrong)}; passed unexpectedly: {sorted(passing)}")
    print(f"MCP conformance of our {what}: {len(found) - len(failed)} of {len(found)} scenarios; not: {sorted(failed)}")


if __name__ == "__main__":
    if not NODE.exists() or not SUITE.exists():
        print("MCP conformance: left out, it is not installed (there is no npm)")
    else:
        report("server", server())
        report("client", client())
