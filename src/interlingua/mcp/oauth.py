"""Logins at MCP servers: the OAuth flow of the official package, with tokens stored in the home folder.

A 401 response starts the discovery of the authorization server (MCP specification, basic/authorization). The user
consents in a browser, whose last redirect goes to a local listener. Tokens are refreshed without a question.
"""

import asyncio
import contextlib
import functools
import hashlib
import json
import os
import socket
from collections.abc import Awaitable, Callable
from html import escape
from typing import Any, Literal, TypeAlias
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, OAuthFlowError
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from msgspec import Struct
from pydantic import AnyUrl

from ..values.places import home, private_folder
from ..values.regular import open_regular, read_regular

FOLDER = "mcp-logins"
SECONDS = 300.0  # for the user's consent

Authorize: TypeAlias = Callable[[str], Awaitable[object]]
"""Shows the user a URL to open, or opens it."""


class OAuth(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """OAuth settings for a server that requires a login. None are needed if the server registers clients itself."""

    client_id: str | None = None
    client_secret: str | None = None
    scope: str | None = None
    # An HTTPS URL that is the client's id, and has its metadata (basic/authorization, Client ID Metadata Documents).
    client_metadata_url: str | None = None
    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"
    private_key: str | None = None  # PEM, instead of a secret (RFC 7523)
    signing_algorithm: str = "RS256"


class LoginNeeded(OAuthFlowError):
    """The server requires a login, and no user is present to consent."""


class TokenFile:
    """The tokens and the registration of one server, readable by the user alone."""

    def __init__(self, url: str, given: OAuth) -> None:
        self.path = home() / FOLDER / f"{hashlib.sha256(url.encode()).hexdigest()[:24]}.json"
        self._url = url
        self._given = given

    async def get_tokens(self) -> OAuthToken | None:
        found = self._read().get("tokens")
        return None if found is None else OAuthToken.model_validate(found)

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._write(tokens=tokens.model_dump(mode="json", exclude_none=True))

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        found = self._read().get("client")
        if found is not None:
            return OAuthClientInformationFull.model_validate(found)
        if self._given.client_id is None:
            return None
        # RFC 7591, 2: `none` is a public client, without a secret; `client_secret_basic` is the default.
        method = "none" if self._given.client_secret is None else "client_secret_basic"
        return OAuthClientInformationFull(
            client_id=self._given.client_id,
            client_secret=self._given.client_secret,
            token_endpoint_auth_method=method,
            redirect_uris=[AnyUrl(self.redirect_uri)],
        )

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._write(client=client_info.model_dump(mode="json", exclude_none=True))

    @functools.cached_property
    def redirect_uri(self) -> str:
        """Returns the redirect URI: the registered one, since servers compare it, or a free port."""
        registered = self._read().get("client", {}).get("redirect_uris")
        if registered:
            return str(registered[0])
        with socket.socket() as free:
            # RFC 8252, 7.3 and 8.3: the redirect of a native app goes to the loopback address, not to the name
            # `localhost`, which may resolve to another interface.
            free.bind(("127.0.0.1", 0))
            return f"http://127.0.0.1:{free.getsockname()[1]}/callback"

    def forget(self) -> bool:
        """Removes the login; False if there was none."""
        with contextlib.suppress(FileNotFoundError):
            self.path.unlink()
            return True
        return False

    def _read(self) -> dict[str, Any]:
        try:
            found = json.loads(read_regular(self.path, follow=False))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) and found.get("url") == self._url else {}

    def _write(self, **changes: Any) -> None:
        """Replaces the file atomically; readable by the owner alone at any time."""
        private_folder(self.path.parent)
        value = {**self._read(), "url": self._url, **changes}
        temporary = self.path.with_suffix(f".{os.getpid()}.new")
        descriptor = open_regular(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - with these permissions from the start
            json.dump(value, file)
        temporary.replace(self.path)


def provider(url: str, given: OAuth, authorize: Authorize | None) -> OAuthClientProvider:
    """Returns the official provider for a server. Without `authorize`, only an existing login is used."""
    storage = TokenFile(url, given)
    if given.private_key is not None and given.client_id is not None:
        signed = SignedJWTParameters(
            # RFC 7523, 3: for the authentication of a client, `iss` and `sub` are both its id.
            issuer=given.client_id,
            subject=given.client_id,
            signing_key=given.private_key,
            signing_algorithm=given.signing_algorithm,
        )
        return PrivateKeyJWTOAuthProvider(
            url, storage, given.client_id, signed.create_assertion_provider(), scope=given.scope
        )
    if given.grant == "client_credentials":
        return ClientCredentialsOAuthProvider(
            url, storage, given.client_id or "", given.client_secret or "", scope=given.scope
        )
    login = _Login(storage, authorize, url)
    metadata = OAuthClientMetadata(
        client_name="Interlingua",
        redirect_uris=[AnyUrl(storage.redirect_uri)],
        scope=given.scope,
    )
    return OAuthClientProvider(
        url, metadata, storage, login.begin, login.finished, client_metadata_url=given.client_metadata_url
    )


class _Login:
    """One browser login: shows the URL, receives the code at a listener."""

    def __init__(self, storage: TokenFile, authorize: Authorize | None, url: str) -> None:
        self._storage = storage
        self._authorize = authorize
        self._url = url
        self._listener: asyncio.Server | None = None
        self._opening: asyncio.Task[object] | None = None
        self._result: asyncio.Future[AuthorizationCodeResult] | None = None

    async def begin(self, url: str) -> None:
        if self._authorize is None:
            raise LoginNeeded(f"login required; run: interlingua tools login {self._url}")
        self._result = asyncio.get_running_loop().create_future()
        address = urlsplit(self._storage.redirect_uri)
        try:
            self._listener = await asyncio.start_server(self._answer, address.hostname, address.port)
        except OSError as error:
            raise OAuthFlowError(f"cannot listen on {address.netloc} for the login: {error.strerror}") from None
        self._opening = asyncio.ensure_future(_shown(self._authorize, url))
        self._opening.add_done_callback(self._failed)

    async def finished(self) -> AuthorizationCodeResult:
        assert self._result is not None and self._listener is not None
        try:
            return await asyncio.wait_for(self._result, SECONDS)
        except TimeoutError:
            raise OAuthFlowError(f"no consent to the login within {SECONDS:g} s") from None
        finally:
            self._listener.close()

    def _failed(self, opening: "asyncio.Task[object]") -> None:
        """Ends the login if its URL could not be shown."""
        error = None if opening.cancelled() else opening.exception()
        if error is not None and self._result is not None and not self._result.done():
            self._result.set_exception(OAuthFlowError(f"the login could not be opened: {error}"))

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Takes the code from the browser's request. Other requests (an icon) get a 404."""
        try:
            line = (await asyncio.wait_for(reader.readline(), 10)).decode("latin-1").split(" ")
            target = urlsplit(line[1] if len(line) > 1 else "")
            query = {name: values[0] for name, values in parse_qs(target.query).items()}
            text, status = self._received(target.path, query)
            body = f"<!doctype html><meta charset=utf-8><title>Interlingua</title><p>{escape(text)}".encode()
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
                "Connection: close\r\n\r\n".encode()
                + body
            )
            await writer.drain()
        except (OSError, TimeoutError, ValueError):
            pass  # the browser disconnected
        finally:
            writer.close()

    def _received(self, path: str, query: dict[str, str]) -> tuple[str, str]:
        assert self._result is not None
        if path != "/callback" or not ({"code", "error"} & query.keys()):
            return "Nothing is here.", "404 Not Found"
        # A code is used once (RFC 6749, 4.1.2): a page that is loaded again must not replace the first.
        if self._result.done():
            return "This login has ended.", "410 Gone"
        if "code" in query:
            # `iss` names the server that answered (RFC 9207), against mix-ups of two servers; the official package
            # compares it, and `state`.
            found = AuthorizationCodeResult(code=query["code"], state=query.get("state"), iss=query.get("iss"))
            self._result.set_result(found)
            return "You are logged in; this page can be closed.", "200 OK"
        # RFC 6749, 4.1.2.1.
        why = query.get("error_description") or query["error"]
        self._result.set_exception(OAuthFlowError(f"the login was refused: {why[:500]}"))
        return f"The login was refused: {why[:500]}", "200 OK"


async def _shown(authorize: Authorize, url: str) -> object:
    return await authorize(url)
