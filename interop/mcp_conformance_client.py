"""Our client as the official conformance suite runs it: `mcp_conformance_client.py URL`, the scenario in a variable."""

import asyncio
import json
import os
import sys
import tempfile

import aiohttp

os.environ["INTERLINGUA_HOME"] = tempfile.mkdtemp(prefix="interlingua-conformance-")

from interlingua import TransportError
from interlingua.mcp import HttpServer, OAuth, mcp_tools
from interlingua.tools import call_tool

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
# The suite's document for clients that are known by an address (Client ID Metadata Documents).
CIMD = "https://conformance-test.local/client-metadata.json"
ARGUMENTS = {"add_numbers": {"a": 5, "b": 3}}


async def agree(url: str) -> None:
    """Goes where a browser would: the server redirects to the listener of the login."""
    async with aiohttp.ClientSession() as browser, browser.get(url) as page:
        await page.read()


async def accept(question) -> bool:
    return True


def login() -> OAuth:
    known = {name: CONTEXT[name] for name in ("client_id", "client_secret") if name in CONTEXT}
    grant = "client_credentials" if "client-credentials" in SCENARIO else "authorization_code"
    if "private_key_pem" in CONTEXT:
        known |= {"private_key": CONTEXT["private_key_pem"], "signing_algorithm": CONTEXT["signing_algorithm"]}
    return OAuth(**known, grant=grant, client_metadata_url=CIMD if grant == "authorization_code" else None)


async def main(url: str) -> None:
    server = HttpServer(url=url, oauth=login())
    async with mcp_tools(server, elicit=accept, authorize=agree, timeout=20, trusted=True) as tools:
        for tool in tools:
            result = await call_tool(tool, "1", ARGUMENTS.get(tool.name, {}))
            print(tool.name, result.text[:200])


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1]))
    except TransportError as error:
        sys.exit(str(error))
