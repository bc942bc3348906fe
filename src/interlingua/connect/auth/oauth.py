"""OAuth logins: a browser with PKCE, or a device code; and token renewal.

The client id is always the user's own registration; none is built in. Endpoints are data: the provider's row, or
`<home>/oauth.json` for any provider. Keys, codes and secrets are sent in bodies only, never in URLs.
"""

import asyncio
import base64
import contextlib
import functools
import hashlib
import hmac
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar
from urllib.parse import parse_qs, urlencode, urlsplit

import msgspec

from ...values import jsontext
from ...values.abort import Abort
from ...values.errors import AuthFailed, FormatError, InterlinguaError, ProviderError, TransportError
from ...values.places import home
from ...values.regular import read_regular
from ..providers import PROVIDERS, OAuthSpec
from .credentials import Credential, CredentialStore, Scrubber, Secret

Fields: TypeAlias = Mapping[str, str | Secret | None]  # of a form; None is left out
_T = TypeVar("_T")
_EARLY = 300.0  # seconds: a login is renewed this long before it runs out
_TIMEOUT = 30.0
_ANSWER_LIMIT = 1 << 20
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
_CONFIG = "oauth.json"


class OAuthClient(msgspec.Struct, frozen=True, kw_only=True):
    """A client that the user has registered with a provider, and the provider's endpoints.

    `redirect_uri`: a registered page that shows the code, to be pasted; `any_port`: the registration accepts any local
    port; `state_in_token`: the token endpoint requires the state.
    """

    provider: str
    spec: OAuthSpec
    client_id: str
    client_secret: Secret | None = None
    redirect_host: str = "localhost"
    redirect_uri: str | None = None
    any_port: bool = False
    state_in_token: bool = False


class _Configured(msgspec.Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One entry of `<home>/oauth.json`; missing fields are taken from the provider's row."""

    client_id: str | None = None
    token_url: str | None = None
    authorize_url: str | None = None
    device_url: str | None = None
    scopes: tuple[str, ...] | None = None
    callback_port: int | None = None
    callback_path: str | None = None
    token_format: str | None = None
    redirect_host: str | None = None
    redirect_uri: str | None = None
    any_port: bool | None = None
    authorize: dict[str, str] | None = None
    state_in_token: bool | None = None


def oauth_client(provider: str, *, client_id: str | None = None, folder: Path | None = None) -> OAuthClient:
    """Returns the user's client at a provider: from the arguments, else `oauth.json`, else the provider's row."""
    path = (folder or home()) / _CONFIG
    row = PROVIDERS.get(provider)
    fields = {**(msgspec.structs.asdict(row.oauth) if row and row.oauth else {}), **_configured(path, provider)}
    fields |= {"client_id": client_id} if client_id else {}
    if "token_url" not in fields:
        raise InterlinguaError(
            f"no login address for {provider}: store a key with `interlingua auth login {provider} --key`, "
            f'or put {{"{provider}": {{"tokenUrl": …, "authorizeUrl": …}}}} into {path}'
        )
    if "client_id" not in fields:
        raise InterlinguaError(
            f"logging in to {provider} needs the id of a client that you have registered there: give `--client-id`, "
            f'or put {{"{provider}": {{"clientId": …}}}} into {path}'
        )
    spec = {name: fields.pop(name) for name in OAuthSpec.__struct_fields__ if name in fields}
    try:
        client = OAuthClient(provider=provider, spec=msgspec.convert(spec, OAuthSpec), **fields)
    except msgspec.ValidationError as error:
        raise FormatError(f"{path}: {error}", f"$.{provider}") from None
    for url in (client.spec.token_url, client.spec.authorize_url, client.spec.device_url):
        _require_safe(url)
    return client


def _configured(path: Path, provider: str) -> dict[str, Any]:
    try:
        data = read_regular(path)
    except FileNotFoundError:
        return {}
    try:
        entries = msgspec.convert(jsontext.read(data), dict[str, _Configured])
    except (FormatError, msgspec.ValidationError) as error:
        raise FormatError(f"{path}: {error}") from None
    entry = entries.get(provider)
    return {} if entry is None else {k: v for k, v in msgspec.structs.asdict(entry).items() if v is not None}


def _require_safe(url: str | None) -> None:
    """Requires https, or this machine, for tokens."""
    if url is None:
        return
    parts = urlsplit(url)
    # RFC 8252, 8.3: http is allowed for the loopback interface only.
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise InterlinguaError(f"{parts.scheme}://{parts.hostname or ''} would send tokens unencrypted; use https")


# Code and PKCE.


class Pkce(NamedTuple):
    """Proof that a code is redeemed by its requester (RFC 7636, S256)."""

    verifier: Secret
    challenge: str


def pkce() -> Pkce:
    # RFC 7636, 4.1: 43 to 128 characters; 32 random bytes are 43.
    verifier = _base64url(secrets.token_bytes(32))
    return Pkce(Secret(verifier), _base64url(hashlib.sha256(verifier.encode()).digest()))


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def authorize_url(client: OAuthClient, redirect_uri: str, challenge: str, state: str) -> str:
    """Returns the authorization URL. It contains no secret: the verifier stays here."""
    query = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": redirect_uri,
        "scope": " ".join(client.spec.scopes),
        "code_challenge": challenge,
        # RFC 7636, 4.2: `plain` would send the verifier itself through the browser.
        "code_challenge_method": "S256",
        "state": state,
    } | client.spec.authorize
    base = client.spec.authorize_url or ""
    return f"{base}{'&' if '?' in base else '?'}{urlencode({name: value for name, value in query.items() if value})}"


class Pasted(NamedTuple):
    """What a user copied from the browser: the code, and the state if present."""

    code: str
    state: str | None


def parse_pasted(text: str) -> Pasted:
    """Parses a whole URL, a query string, `code#state`, or the bare code."""
    text = text.strip()
    query = parse_qs(urlsplit(text).query if "://" in text else text.lstrip("?"))
    if "error" in query:
        raise AuthFailed(f"the provider refused the login: {_printable(query['error'][0])}")
    if "code" in query:
        return Pasted(_code(query["code"]), query.get("state", [None])[0])
    if "://" in text:
        raise AuthFailed("the pasted address has no code: copy the address of the page after you have agreed")
    # Anthropic's page shows the code and the state in this form.
    code, _, state = text.partition("#")
    return Pasted(_code([code]), state or None)


def _code(codes: list[str]) -> str:
    """Exactly one, of the characters that RFC 6749 allows."""
    if len(codes) != 1 or not codes[0] or not all(" " <= c <= "~" for c in codes[0]) or len(codes[0]) > 4096:
        raise AuthFailed("that is not an authorization code")
    return codes[0]


async def login_with_browser(
    client: OAuthClient,
    *,
    show: Callable[[str], object],
    paste: Callable[[], Awaitable[str | None]] | None = None,
    port: int | None = None,
    signal: Abort | None = None,
    timeout: float = 600.0,
) -> Credential:
    """Logs in with a browser, and redeems the returned code.

    `show` receives the URL to open. The code arrives at a local server, or through `paste` (None from it means that
    nothing more will be pasted); whichever is first. A port in use is replaced by a free one if the registration allows
    it; otherwise pasting is the only way.
    """
    if client.spec.authorize_url is None:
        raise InterlinguaError(f"{client.provider} has no browser login: try `--oauth device`")
    # RFC 6749, 10.12: the state ties the redirect to this login, against forged ones.
    proof, state = pkce(), secrets.token_urlsafe(32)
    async with _callback(client, state, client.spec.callback_port if port is None else port) as callback:
        if callback.code is None and paste is None:
            raise InterlinguaError(
                f"nothing can listen at {callback.redirect_uri}, and the code cannot be pasted here: "
                "end the program that holds the port, or choose another with `--port`"
            )
        show(authorize_url(client, callback.redirect_uri, proof.challenge, state))
        ways: list[Awaitable[Secret]] = [callback.code] if callback.code else []
        if paste is not None:
            ways.append(_pasted_code(paste, state, last=not ways))
        code = await _first(ways, signal, timeout)
    fields: Fields = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": callback.redirect_uri,
        "code_verifier": proof.verifier,
        "state": Secret(state) if client.state_in_token else None,
    }
    return await _until_aborted(_redeem(client, fields), signal)


async def _pasted_code(paste: Callable[[], Awaitable[str | None]], state: str, *, last: bool) -> Secret:
    while (text := await paste()) is not None and not text.strip():
        pass
    if text is None:
        if last:
            raise AuthFailed("no code was given")
        await asyncio.Event().wait()  # the browser is the only way left
    pasted = parse_pasted(text or "")
    if pasted.state is not None and not _same(pasted.state, state):
        raise AuthFailed("the pasted state belongs to another login; start again")
    return Secret(pasted.code)


class _Callback(NamedTuple):
    redirect_uri: str
    code: "asyncio.Future[Secret] | None"


@contextlib.asynccontextmanager
async def _callback(client: OAuthClient, state: str, port: int) -> AsyncIterator[_Callback]:
    """Runs a local server for the redirect; without `code` if its port is in use."""
    from aiohttp import web

    if client.redirect_uri:
        yield _Callback(client.redirect_uri, None)
        return
    found: asyncio.Future[Secret] = asyncio.get_running_loop().create_future()
    app = web.Application()
    answer = functools.partial(_answer, state=state, found=found)
    app.router.add_get(client.spec.callback_path, answer, allow_head=False)
    # No access log: the code is in the address.
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    try:
        listening = await _listen(runner, port, client.any_port)
        where = f"http://{client.redirect_host}:{listening or port}{client.spec.callback_path}"
        yield _Callback(where, found if listening else None)
    finally:
        await runner.cleanup()
        if not found.cancel() and not found.cancelled():
            found.exception()


async def _listen(runner: Any, port: int, any_port: bool) -> int | None:
    from aiohttp import web

    # RFC 8252, 7.3: a server must accept any port of a loopback redirect; many compare the whole address all the same.
    for wanted in (port, 0) if any_port else (port,):
        with contextlib.suppress(OSError):
            # RFC 8252, 8.3: the loopback address, never all interfaces.
            await web.TCPSite(runner, "127.0.0.1", wanted, reuse_address=True).start()
            return int(runner.addresses[0][1])
    return None


async def _answer(request: Any, state: str, found: "asyncio.Future[Secret]") -> Any:
    """Accepts the one valid callback. Anything else is refused without logging its content, and waiting continues.

    A foreign page may send a browser here: it does not know the state, and the host must be ours.
    """
    host = urlsplit(f"//{request.host}").hostname
    query = request.query
    if host not in _LOOPBACK or not _same(query.get("state", ""), state) or len(query.getall("state")) != 1:
        return _page("This is not the answer that was waited for.", 400)
    if found.done():
        return _page("This login is already over.", 410)
    if "error" in query:
        found.set_exception(AuthFailed(f"the provider refused the login: {_printable(query['error'])}"))
        return _page("The login was refused. You can close this page.", 200)
    try:
        found.set_result(Secret(_code(query.getall("code", []))))
    except AuthFailed:
        return _page("This is not the answer that was waited for.", 400)
    return _page("You are logged in. You can close this page.", 200)


def _page(text: str, status: int) -> Any:
    from aiohttp import web

    # The address of this page holds the code: it is neither stored nor followed by another request.
    headers = {"Cache-Control": "no-store", "Content-Security-Policy": "default-src 'none'", "Connection": "close"}
    page = web.Response(text=f"{text}\n", status=status, headers=headers)
    page.force_close()
    return page


def _same(one: str, other: str) -> bool:
    # In constant time: the state is a secret until the login is over.
    return hmac.compare_digest(one.encode(), other.encode())


# Device code.


class DeviceCode(NamedTuple):
    """What the user types (`user_code`), where, and until when."""

    user_code: str
    verification_uri: str
    expires_in: float


async def login_with_device(
    client: OAuthClient,
    *,
    show: Callable[[DeviceCode], object],
    signal: Abort | None = None,
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Credential:
    """Logs in with a code typed on another device, and polls the provider until it is done (RFC 8628)."""
    if client.spec.device_url is None:
        raise InterlinguaError(f"{client.provider} has no device login: try `--oauth pkce`")
    begun = clock()
    asked = {"client_id": client.client_id, "scope": " ".join(client.spec.scopes) or None}
    status, answer = await _until_aborted(_post(client.spec.device_url, asked), signal)
    try:
        given = msgspec.convert(answer, _DeviceAnswer, strict=False)
    except msgspec.ValidationError:
        raise _refused(client.provider, client.spec.device_url, status, answer, Scrubber()) from None
    where = given.verification_uri or given.verification_url or ""
    _require_safe(where)
    show(DeviceCode(_printable(given.user_code), _printable(where), given.expires_in))
    ends = begun + given.expires_in
    return await _until_aborted(
        _poll(client, Secret(given.device_code), max(1.0, given.interval), ends, sleep, clock), signal
    )


class _DeviceAnswer(msgspec.Struct, frozen=True, kw_only=True):
    device_code: str
    user_code: str
    verification_uri: str | None = None
    verification_url: str | None = None  # an early draft's name, still in use
    expires_in: float = 900.0
    # RFC 8628, 3.2: five seconds if the answer states none.
    interval: float = 5.0


async def _poll(
    client: OAuthClient,
    device_code: Secret,
    interval: float,
    ends: float,
    sleep: Callable[[float], Awaitable[object]],
    clock: Callable[[], float],
) -> Credential:
    fields: Fields = {"grant_type": _DEVICE_GRANT, "device_code": device_code}
    while (left := ends - clock()) > 0:
        # The last question is put when the code is about to run out, not an interval before.
        await sleep(min(interval, left))
        try:
            return await _redeem(client, fields)
        except TransportError:
            # RFC 8628, 3.5: after a timeout a client polls less often; doubling is its example.
            interval *= 2
        except ProviderError as error:
            if error.code == "slow_down":
                # RFC 8628, 3.5: five seconds more, for all polls that follow.
                interval = max(interval + 5, _number(error.body, "interval") or 0)
            elif error.code != "authorization_pending":
                raise
    raise AuthFailed(
        f"the code expired before the login was confirmed; run `interlingua auth login {client.provider}` again"
    )


# Tokens.


async def _redeem(client: OAuthClient, fields: Fields) -> Credential:
    spec = client.spec
    given = {**fields, "client_id": client.client_id, "client_secret": client.client_secret}
    status, answer = await _post(spec.token_url, given, spec.token_format)
    hide = Scrubber(value for value in given.values() if isinstance(value, Secret))
    blank = Credential(
        mode="oauth",
        secret=Secret(""),
        client_id=client.client_id,
        client_secret=client.client_secret,
        token_url=spec.token_url,
        token_format=spec.token_format,
    )
    if not _granted(status, answer):
        raise _refused(client.provider, spec.token_url, status, answer, hide)
    return _with_tokens(blank, answer, time.time())


async def renew(provider: str, credential: Credential) -> Credential:
    """Renews the login with its refresh token, which is kept if no new one is returned.

    The scope is omitted: the granted scope applies again, and some providers refuse it.
    """
    if credential.refresh is None or credential.token_url is None:
        raise AuthFailed(
            f"the login of {provider} has expired and cannot be renewed; run `interlingua auth login {provider}`",
            provider=provider,
        )
    _require_safe(credential.token_url)
    fields: Fields = {
        "grant_type": "refresh_token",
        "refresh_token": credential.refresh,
        "client_id": credential.client_id,
        "client_secret": credential.client_secret,
    }
    status, answer = await _post(credential.token_url, fields, credential.token_format)
    if not _granted(status, answer):
        raise _refused(provider, credential.token_url, status, answer, Scrubber(credential.secrets()))
    return _with_tokens(credential, answer, time.time())


async def fresh(provider: str, store: CredentialStore, *, rejected: Secret | None = None) -> Credential | None:
    """Returns the stored login of a provider, renewed if it has expired or its token was `rejected`.

    The lock holder checks again before renewing: another process may have renewed it, and the shared refresh token is
    then used up.
    """
    stored = await asyncio.to_thread(store.get, provider)
    if stored is None or not _stale(stored.credential, rejected):
        return stored.credential if stored else None
    # A caller that gives up must not lose the new tokens between their arrival and the disk.
    task = asyncio.create_task(_renew_stored(provider, store, rejected))
    _RENEWALS.add(task)
    task.add_done_callback(_renewed)
    return await asyncio.shield(task)


_RENEWALS: "set[asyncio.Task[Credential | None]]" = set()


def _renewed(task: "asyncio.Task[Credential | None]") -> None:
    _RENEWALS.discard(task)
    if not task.cancelled():
        task.exception()


async def _renew_stored(provider: str, store: CredentialStore, rejected: Secret | None) -> Credential | None:
    async with store.renewing(provider):
        stored = await asyncio.to_thread(store.get, provider)
        if stored is None or not _stale(stored.credential, rejected):
            return stored.credential if stored else None
        renewed = await renew(provider, stored.credential)
        same_place = CredentialStore(store.folder, backend=stored.place)
        await asyncio.to_thread(same_place.put, provider, renewed)
        return renewed


def _stale(credential: Credential, rejected: Secret | None) -> bool:
    if credential.mode != "oauth":
        return False
    return credential.expired() or (rejected is not None and credential.secret == rejected)


def _granted(status: int, answer: Mapping[str, Any]) -> bool:
    """Some providers answer 200 with an error inside."""
    token = answer.get("access_token")
    return status < 400 and "error" not in answer and isinstance(token, str) and bool(token)


def _with_tokens(credential: Credential, answer: Mapping[str, Any], now: float) -> Credential:
    refresh, lifetime = answer.get("refresh_token"), _number(answer, "expires_in")
    return msgspec.structs.replace(
        credential,
        secret=Secret(answer["access_token"]),
        # RFC 6749, 6: without a new refresh token the old one stays valid.
        refresh=Secret(refresh) if isinstance(refresh, str) and refresh else credential.refresh,
        # A login shorter than ten minutes is renewed at half its life, or it would be renewed for every call.
        expires=None if lifetime is None else int((now + lifetime - min(_EARLY, lifetime / 2)) * 1000),
    )


def _number(answer: Any, name: str) -> float | None:
    """Some providers write numbers as text."""
    value = answer.get(name) if isinstance(answer, dict) else None
    try:
        return None if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None


def _refused(provider: str, url: str, status: int, answer: Mapping[str, Any], hide: Scrubber) -> ProviderError:
    """Returns the error for a refused login, without anything from the request."""
    code = answer.get("error") if isinstance(answer.get("error"), str) else None
    text = ": ".join(
        _printable(hide(str(answer[name])))
        for name in ("error", "error_description")
        if isinstance(answer.get(name), str)
    )
    where = f"{urlsplit(url).hostname} refused the login of {provider} ({status}{f', {text}' if text else ''})"
    about: dict[str, Any] = {
        "status": status,
        "code": hide(code) if code else None,
        "provider": provider,
        "body": {"interval": answer["interval"]} if "interval" in answer else None,
    }
    if status >= 500 or status == 429:
        return ProviderError(f"{where}: try again later", **about)
    return AuthFailed(f"{where}: run `interlingua auth login {provider}`", **about)


def _printable(text: str) -> str:
    """Short, on one line, and without what a terminal would obey."""
    return "".join(c if c.isprintable() else " " for c in text[:300])


class _Answer(dict[str, Any]):
    """A provider's answer: tokens, or an error that may repeat the request. Hidden from `repr`."""

    def __repr__(self) -> str:
        return "_Answer(…)"


async def _post(url: str, fields: Fields, token_format: str = "form") -> tuple[int, dict[str, Any]]:
    """The status and the JSON object of the response. Redirects are not followed, since they could leak secrets."""
    import aiohttp

    host = urlsplit(url).hostname
    timeout, headers = aiohttp.ClientTimeout(total=_TIMEOUT), {"Accept": "application/json"}
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=host not in _LOOPBACK) as session,
            # What is revealed is bound to no name: a traceback with local variables must not show it.
            session.post(url, **_body(fields, token_format), headers=headers, allow_redirects=False) as response,
        ):
            status, data = response.status, b""
            async for chunk in response.content.iter_any():
                data += chunk
                if len(data) > _ANSWER_LIMIT:
                    break
    except TimeoutError:
        raise TransportError(f"{host} did not answer within {_TIMEOUT:.0f} seconds") from None
    except aiohttp.ClientError as error:
        raise TransportError(f"{host} could not be reached ({type(error).__name__})") from None
    try:
        answer = jsontext.read(data)
    except FormatError:
        answer = None
    return status, _Answer(answer if isinstance(answer, dict) else {})


def _body(fields: Fields, token_format: str) -> dict[str, Any]:
    plain = {name: v.reveal() if isinstance(v, Secret) else v for name, v in fields.items() if v}
    return {"json": plain} if token_format == "json" else {"data": plain}


async def _first(ways: list[Awaitable[Secret]], signal: Abort | None, timeout: float) -> Secret:
    """What the first of them gives; the others are ended."""
    tasks = [asyncio.ensure_future(way) for way in ways]
    try:
        waiting = asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        done, _ = await _until_aborted(waiting, signal)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    if not done:
        raise AuthFailed(f"login not confirmed within {timeout:.0f} seconds; start it again")
    return next(iter(done)).result()


async def _until_aborted(doing: Awaitable[_T], signal: Abort | None) -> _T:
    task = asyncio.ensure_future(doing)
    if signal is None:
        return await task
    stop = asyncio.create_task(signal.wait())
    try:
        await asyncio.wait({task, stop}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        raise InterlinguaError("the login was aborted")
    finally:
        task.cancel()
        stop.cancel()
        await asyncio.gather(task, stop, return_exceptions=True)
