"""`interlingua auth`: lists, stores, removes and checks keys and logins. No key is ever shown."""

import asyncio
import os
import sys
import threading
import time
import webbrowser
from collections.abc import Awaitable, Callable
from typing import Any

import click
from msgspec.structs import replace
from rich.text import Text

from ..connect.auth.credentials import Backend, Credential, CredentialStore, Secret
from ..connect.auth.oauth import DeviceCode, login_with_browser, login_with_device, oauth_client
from ..connect.auth.resolver import convention, places, resolve_auth
from ..connect.models import known_rows
from ..dialects import WIRES
from ..values.errors import AuthFailed, FormatError, InterlinguaError, unknown
from ..values.places import has_plugins
from ..values.request import ResolvedAuth
from . import output
from .options import JSON, CommandGroup, complete_providers

_LIVE_TIMEOUT = 15.0
_OWN_LISTS = {"openrouter": "/key"}  # OpenRouter's model list needs no key


@click.group("auth", cls=CommandGroup)
def command() -> None:
    """List, store, remove and check keys and logins. No key is ever shown."""


@command.command("list")
@JSON
def list_(as_json: bool) -> None:
    """List the providers, and where the key of each was found."""
    store = CredentialStore()
    rows = [_row(provider, store) for provider in dict.fromkeys((*known_rows(), *store.providers()))]
    if as_json:
        output.print_json(rows)
        return
    columns = [output.Column(name) for name in ("provider", "key", "mode", "from")]
    cells = [
        (row["provider"], _state(row), row["mode"] or "", row["source"] or "")
        for row in sorted(rows, key=lambda row: not row["found"])
    ]
    with output.paged() as out:
        output.table(out, columns, cells)


def _state(row: dict[str, Any]) -> str:
    if row["problem"]:
        return str(row["problem"])
    if row["expired"]:
        return "expired, will be renewed" if row["renewable"] else "expired"
    return "found" if row["found"] else "not needed" if row["keyless"] else "none"


def _row(provider: str, store: CredentialStore) -> dict[str, Any]:
    """The public facts about a provider's key."""
    known = known_rows().get(provider)
    found: ResolvedAuth | None = None
    problem = None
    try:
        found = resolve_auth(provider, store=store)
    except InterlinguaError as error:
        problem = str(error)
    credential = _login(provider, found, store)
    return {
        "provider": provider,
        "found": found is not None,
        "mode": found.mode if found else None,
        "source": found.source if found else None,
        "expires": credential.expires if credential else None,
        "expired": bool(credential and credential.expired()),
        "renewable": bool(credential and credential.refresh),
        "keyless": bool(known and known.keyless),
        "problem": problem,
    }


def _login(provider: str, found: ResolvedAuth | None, store: CredentialStore) -> Credential | None:
    """The stored credential, if it is the one in use."""
    if found is None or not (found.source or "").startswith("stored:"):
        return None
    stored = store.get(provider)
    return stored.credential if stored else None


@command.command("login", context_settings={"allow_extra_args": True})
@click.argument("provider", shell_complete=complete_providers)
@click.option("--key", "by_key", is_flag=True, help="Store a key, from a hidden prompt or standard input.")
@click.option("--oauth", "flow", type=click.Choice(["pkce", "device"]), help="Log in by browser or by device code.")
@click.option("--client-id", help="The id of your OAuth client at the provider.")
@click.option("--client-secret", "ask_secret", is_flag=True, help="Ask for the secret of the client.")
@click.option("--port", type=click.IntRange(0, 65535), help="The local port of the redirect URL.")
@click.option("--no-browser", is_flag=True, help="Print the URL only.")
@click.option("--unlisted", is_flag=True, help="Store a key for a provider that is not listed.")
@click.option("--store", "backend", type=click.Choice(["file", "keyring"]), help="Where to store it.")
@click.pass_context
def login(
    context: click.Context,
    provider: str,
    by_key: bool,
    flow: str | None,
    client_id: str | None,
    ask_secret: bool,
    port: int | None,
    no_browser: bool,
    unlisted: bool,
    backend: Backend | None,
) -> None:
    """Store a key, or log in."""
    if context.args:
        # Click would print the unexpected argument, which is the key.
        raise click.UsageError(
            "a key on the command line is visible to others; omit it and type it at the prompt, or pipe it in"
        )
    if by_key and flow:
        raise click.UsageError("--key and --oauth exclude each other; give one")
    store = CredentialStore(backend=backend)
    if flow is None:
        provider = provider if unlisted else _known(provider, " (--unlisted stores a key for any other name)")
        credential = _typed_key(provider)
    else:
        client = oauth_client(provider, client_id=client_id, folder=store.folder)
        if ask_secret:
            client = replace(client, client_secret=Secret(_typed(f"client secret for {provider}")))
        if flow == "pkce":
            logging_in = login_with_browser(client, show=_url_presenter(not no_browser), paste=_pasted, port=port)
        else:
            logging_in = login_with_device(client, show=_show_device)
        credential = asyncio.run(logging_in)
    place = asyncio.run(_exclusively(store, provider, lambda: store.put(provider, credential)))
    click.echo(f"{provider}: stored in {store.path if place == 'file' else 'the system keyring'}")
    _report_counts(provider, store)


def _known(provider: str, otherwise: str = "") -> str:
    """Returns the provider with this name, before a key is typed for one that does not exist."""
    from ..connect.names import PROVIDER_ALIASES

    known = [*known_rows(), *CredentialStore().providers()]
    if provider not in known and has_plugins():
        from ..connect.client import default_client
        from .options import load_plugins

        load_plugins()
        known += default_client().connectors.list_providers()
    if provider in known:
        return provider
    if provider in PROVIDER_ALIASES:
        return PROVIDER_ALIASES[provider]
    text = unknown("provider", provider, {*known}, listed="`interlingua auth list` lists them")
    raise FormatError(text + otherwise, "PROVIDER")


def _typed_key(provider: str) -> Credential:
    found = resolve_auth(provider, explicit_key=_typed(f"key for {provider}"), env={})
    if found is None or found.api_key is None or found.source != "explicit":
        raise InterlinguaError("no key given; type it at the prompt, or pipe it in")
    return Credential(mode="oauth" if found.mode == "oauth" else "api-key", secret=Secret(found.api_key))


def _typed(what: str) -> str:
    if sys.stdin.isatty():
        return str(click.prompt(what, hide_input=True, err=True, default="", show_default=False))
    return output.typed_in(line=True)


async def _exclusively(store: CredentialStore, provider: str, change: Callable[[], Any]) -> Any:
    """Runs `change` while no renewal is running, which would overwrite it."""
    async with store.renewing(provider):
        return change()


def _report_counts(provider: str, store: CredentialStore) -> None:
    found = resolve_auth(provider, store=store)
    if found is not None and not (found.source or "").startswith("stored:"):
        click.echo(f"interlingua: note: {found.source} takes precedence over the stored credential", err=True)


def _url_presenter(open_browser: bool) -> Callable[[str], None]:
    def show(url: str) -> None:
        click.echo(f"Open this URL and log in:\n\n  {url}\n", err=True)
        click.echo("If the browser cannot redirect to this machine, paste the URL it shows, or the code.", err=True)
        if open_browser:
            threading.Thread(target=webbrowser.open, args=(url,), daemon=True).start()

    return show


def _show_device(code: DeviceCode) -> None:
    click.echo(f"Open {code.verification_uri} and type the code {code.user_code}", err=True)


def _pasted() -> Awaitable[str | None]:
    """A line of standard input, read from the descriptor: a thread waiting in Python's buffer would block the exit."""
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str | None] = loop.create_future()

    def give(text: str | None) -> None:
        if not line.done():
            line.set_result(text)

    def read() -> None:
        got = b""
        while not got.endswith(b"\n") and (more := os.read(0, 4096)):
            got += more
        try:
            loop.call_soon_threadsafe(give, got.decode(errors="replace") or None)
        except RuntimeError:
            return  # the loop is closed: the login has completed

    threading.Thread(target=read, daemon=True).start()
    return line


@command.command("logout")
@click.argument("provider", shell_complete=complete_providers)
def logout(provider: str) -> None:
    """Remove the stored credential of a provider."""
    provider = _known(provider)
    store = CredentialStore()
    removed = asyncio.run(_exclusively(store, provider, lambda: store.remove(provider)))
    click.echo(f"{provider}: {'removed' if removed else 'nothing was stored'}")
    _report_counts(provider, store)


@command.command("check")
@click.argument("provider", shell_complete=complete_providers, required=False)
@click.option("--live", is_flag=True, help="Verify the key with a request to the provider; renews a login.")
@click.option("--offline", is_flag=True, help="Make no call (the default).")
@JSON
def check(provider: str | None, live: bool, offline: bool, as_json: bool) -> None:
    """Show where each key is searched, which one is used, and whether it is valid."""
    if live and offline:
        raise click.UsageError("--live and --offline exclude each other; give one")
    store = CredentialStore()
    provider = _known(provider) if provider is not None else None
    names = [provider] if provider else list(dict.fromkeys((*known_rows(), *store.providers())))
    checks = [_check(name, store, live) for name in names if provider or _row(name, store)["found"]]
    problems = store.problems()
    if as_json:
        output.print_json({"store": str(store.path), "problems": problems, "providers": checks})
    else:
        _show_checks(checks, problems)
    if problems or any(check["problem"] for check in checks):
        sys.exit(1)


def _check(provider: str, store: CredentialStore, live: bool) -> dict[str, Any]:
    row = _row(provider, store)
    if not row["found"] and not row["problem"] and not row["keyless"]:
        row["problem"] = f"no key; set {_usual_variable(provider)}, or run `interlingua auth login {provider}`"
    if row["expired"] and not row["renewable"]:
        row["problem"] = f"the login has expired; run `interlingua auth login {provider}`"
    if live and row["found"] and not row["problem"]:
        try:
            row["live"] = asyncio.run(_probe(provider, store))
        except InterlinguaError as error:
            row["problem"] = str(error)
    return row | {"order": _order(provider, store)}


def _usual_variable(provider: str) -> str:
    row = known_rows().get(provider)
    known = row.env if row is not None else ()
    return convention(provider) if convention(provider) in known or not known else known[0]


def _order(provider: str, store: CredentialStore) -> list[dict[str, Any]]:
    """The places in order; the first with a credential is used."""
    order: list[dict[str, Any]] = []
    for place in places(provider, store=store):
        try:
            there = place.look() is not None
        except InterlinguaError:
            there = True
        order.append({"place": place.name, "there": there, "counts": there and not any(o["there"] for o in order)})
    return order


def _show_checks(checks: list[dict[str, Any]], problems: list[str]) -> None:
    out = output.console()
    for row in checks:
        out.print(Text.assemble((row["provider"], "bold"), f": {row['problem'] or _source_text(row)}"))
        for place in row["order"]:
            mark = "→" if place["counts"] else "✓" if place["there"] else "·"
            out.print(Text(f"  {mark} {place['place']}", style="" if place["counts"] else "dim"))
    if not checks:
        out.print("no keys found")
    for problem in problems:
        out.print(Text(problem, style="red"))


def _source_text(row: dict[str, Any]) -> str:
    if not row["found"]:
        return "needs no key"
    text = f"{row['mode']} from {row['source']}"
    if row["expires"] is not None:
        left = row["expires"] / 1000 - time.time()
        text += ", expired, will be renewed" if left <= 0 else f", valid for {left / 60:.0f} minutes"
    return f"{text}; {row['live']}" if row.get("live") else text


async def _probe(provider: str, store: CredentialStore) -> str:
    """Verifies the key with one small request."""
    import aiohttp

    from ..connect.auth.resolver import authenticate
    from ..connect.connector import key_header

    row = known_rows().get(provider)
    auth = await authenticate(provider, store=store)
    base = next((os.environ[n] for n in row.base_url_env if os.environ.get(n)), row.base_url) if row else ""
    wire = WIRES.get(row.api) if row else None
    path = _OWN_LISTS.get(provider) or (wire.http.models_path if wire else None)
    if row is None or auth is None or auth.api_key is None or not path or not base or "{" in base:
        return "not verifiable without a model call"
    headers = key_header(row.auth_style(row.api), auth.api_key, auth)
    headers |= wire.http.headers if wire else {}
    timeout = aiohttp.ClientTimeout(total=_LIVE_TIMEOUT)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=True) as session,
            session.get(f"{base.rstrip('/')}{path}", headers=headers, allow_redirects=False) as response,
        ):
            status = response.status
    except (aiohttp.ClientError, TimeoutError) as error:
        raise InterlinguaError(f"no response from {provider} ({type(error).__name__}); check the network") from None
    if status in (401, 403):
        raise AuthFailed(f"{provider} rejected the key from {auth.source} ({status}); store another", status=status)
    return "accepted by the provider" if status < 300 else f"inconclusive: the provider responded {status}"
