"""A provider's login server, on this machine: it answers what the test says and remembers what it was asked."""

import contextlib
import hashlib
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Callable
from typing import Any

from aiohttp import web

from interlingua.connect.auth.oauth import OAuthClient
from interlingua.connect.providers import OAuthSpec

Answer = tuple[int, Any]


class LoginServer:
    """`answers` are given in order, the last one again and again; an answer may be a function of the form."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, str]]] = []
        self.answers: list[Answer | Callable[[dict[str, str]], Answer]] = []
        self.content_types: list[str] = []
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.content_types.append(request.content_type)
        json = request.content_type == "application/json"
        form = await request.json() if json else {name: str(value) for name, value in (await request.post()).items()}
        assert not request.query_string
        self.asked.append((request.path, form))
        answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        status, body = answer(form) if callable(answer) else answer
        if isinstance(body, str):
            return web.Response(text=body, status=status, headers={"Location": f"{self.url}/elsewhere"})
        return web.json_response(body, status=status)

    def client(self, *, client: dict[str, Any] | None = None, **spec: Any) -> OAuthClient:
        payload: dict[str, Any] = {
            "token_url": f"{self.url}/token",
            "authorize_url": f"{self.url}/authorize",
            "device_url": f"{self.url}/device",
            "scopes": ("read", "write"),
        }
        return OAuthClient(
            provider="acme", spec=OAuthSpec(**(payload | spec)), **({"client_id": "my-client"} | (client or {}))
        )


@contextlib.asynccontextmanager
async def login_server() -> AsyncIterator[LoginServer]:
    server = LoginServer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield server
    finally:
        await runner.cleanup()


def challenge_of(verifier: str) -> str:
    return urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
