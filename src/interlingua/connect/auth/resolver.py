"""Key resolution: which key is sent to a provider, and where it was found.

There is one order everywhere: the given key, the provider's variables, `<PROVIDER>_API_KEY`, the store. For a cloud,
its own variables count as variables, and its own files come last. The first key found is used, without silent
fallbacks: an invalid key is an error, not a reason to try the next one.
"""

import asyncio
import functools
import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

from msgspec.structs import replace

from ...dialects.wire import AuthStyle
from ...values.errors import AuthFailed, InterlinguaError
from ...values.interop import attribute, struct_of, with_arguments
from ...values.request import AuthMode, ResolvedAuth
from ..models import known_rows
from ..providers import is_login_token
from .credentials import Credential, CredentialStore, Secret

Env: TypeAlias = Mapping[str, str]

# Means "use application default credentials" in the settings of some programs; not a key.
_MARKERS = ("<authenticated>",)
_AWS_VARIABLES = (
    ("aws:env", ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")),
    ("aws:profile", ("AWS_PROFILE",)),
    ("aws:web-identity", ("AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ROLE_ARN")),
    ("aws:container", ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",)),
    ("aws:container", ("AWS_CONTAINER_CREDENTIALS_FULL_URI",)),
)
_AWS_SETTINGS = ("aws_access_key_id", "role_arn", "sso_session", "sso_start_url", "credential_process", "login_session")
_GOOGLE_FILE = "GOOGLE_APPLICATION_CREDENTIALS"
_PLAIN_KEY, _JSON_KEY = re.compile(r"[!-~]+"), re.compile(r"[ -~]+")  # some keys are JSON objects


class KeyResolver(Protocol):
    """A custom key resolver, used instead of `resolve_auth`."""

    def resolve(
        self, provider: str, env_vars: Iterable[str] = (), explicit_key: str | None = None
    ) -> "ResolvedAuth | None": ...


AuthResolver: TypeAlias = KeyResolver | Callable[[str], Any]
"""An object with `resolve`, or a function of the provider's name; sync or async.

One that does not take the key that the caller gave is not asked where there is such a key. What it returns may also be
a mapping with the fields of `ResolvedAuth`, or the key alone.
"""


async def resolved_by(
    resolver: AuthResolver, provider: str, env_vars: Iterable[str], explicit_key: str | None
) -> ResolvedAuth | None:
    """Returns a resolver's result for a provider."""
    resolve: Any = getattr(resolver, "resolve", resolver)
    call = with_arguments(resolve, ("provider", "env_vars", "explicit_key"), what="the auth resolver")
    if explicit_key and call is not resolve:
        found = {"api_key": explicit_key, "source": "explicit"}
    else:
        found = call(provider, env_vars, explicit_key)
        found = await found if inspect.isawaitable(found) else found
    if isinstance(found, str):
        found = {"api_key": found, "source": "resolver"} if found else None
    if isinstance(found, Mapping):
        found = {"mode": "api-key" if attribute(found, "api_key") else "unknown", **found}
    if found is None:
        return None
    auth = struct_of(found, ResolvedAuth, "auth")
    return replace(auth, mode="oauth") if is_login_token(auth.api_key) else auth


class KeyPlace(NamedTuple):
    """A possible location of a key: its label, and how to look it up."""

    name: str
    look: Callable[[], ResolvedAuth | None]


def resolve_auth(
    provider: str,
    env_vars: Iterable[str] = (),
    explicit_key: str | Secret | None = None,
    *,
    env: Env | None = None,
    store: CredentialStore | None = None,
) -> ResolvedAuth | None:
    """Returns the key of a provider, or None. Reads only files and variables; an expired login is returned as it is.

    Without `env_vars` the variables of the provider's row are used. Blank values count as absent.
    """
    return next(
        (found for place in places(provider, env_vars, explicit_key, env=env, store=store) if (found := place.look())),
        None,
    )


def given_key(variables: Iterable[str], explicit_key: str | None, env: Env) -> ResolvedAuth | None:
    """Returns the given key, else that of the first variable with one. Reads no file."""
    if explicit_key and (found := _key(explicit_key, "explicit", "api-key")) is not None:
        return found
    for name in variables:
        if (value := env.get(name)) and (found := _key(value, f"env:{name}", _mode(name))) is not None:
            return found
    return None


async def authenticate(
    provider: str,
    env_vars: Iterable[str] = (),
    explicit_key: str | Secret | None = None,
    *,
    env: Env | None = None,
    store: CredentialStore | None = None,
    rejected: str | Secret | None = None,
) -> ResolvedAuth | None:
    """Like `resolve_auth`, off the event loop and ready to send: an expired login is renewed.

    `rejected` is a token that the provider has just refused; if it is still stored, it is renewed.
    """
    store = store or CredentialStore(env=env)
    found = await asyncio.to_thread(resolve_auth, provider, env_vars, explicit_key, env=env, store=store)
    if found is None or found.mode != "oauth" or not (found.source or "").startswith("stored:"):
        return found
    from . import oauth  # only logins need it

    credential = await oauth.fresh(provider, store, rejected=Secret(rejected) if rejected else None)
    return _of_credential(credential, found.source or "") if credential else None


def tried(
    provider: str, env_vars: Iterable[str] = (), *, env: Env | None = None, store: CredentialStore | None = None
) -> tuple[str, ...]:
    """Returns every location that is checked, in order, for error messages."""
    return tuple(place.name for place in places(provider, env_vars, env=env, store=store))


def missing(
    provider: str, env_vars: Iterable[str] = (), *, env: Env | None = None, store: CredentialStore | None = None
) -> AuthFailed:
    """Returns the error for a missing key: where it was searched, and what to do."""
    looked = ", ".join(tried(provider, env_vars, env=env, store=store))
    return AuthFailed(
        f"no key for {provider} (looked at {looked}); set one of the variables, run "
        f"`interlingua auth login {provider}`, or give a key with the call (a fallback needs its own)",
        provider=provider,
    )


def places(
    provider: str,
    env_vars: Iterable[str] = (),
    explicit_key: str | Secret | None = None,
    *,
    env: Env | None = None,
    store: CredentialStore | None = None,
) -> Iterator[KeyPlace]:
    """Returns the locations of a provider's key, in order."""
    env = os.environ if env is None else env
    store = store or CredentialStore(env=env)
    row = known_rows().get(provider)
    style = row.auth_style(row.api) if row else None
    if explicit_key is not None:
        yield KeyPlace("the key given", lambda: _key(Secret(explicit_key).reveal(), "explicit", "api-key"))
    for name in dict.fromkeys((*(tuple(env_vars) or (row.env if row else ())), convention(provider))):
        yield _variable(name, env)
    yield from _cloud_variables(style, env)
    yield KeyPlace(f"{store.path}", lambda: _stored(provider, store))
    for other in _same_account(provider):
        yield KeyPlace(f"{store.path} ({other})", partial(_stored_key, other, store))
    yield from _cloud_files(style, env)


@functools.lru_cache(maxsize=256)
def convention(provider: str) -> str:
    """Returns the conventional variable of a provider: `my.host/x` is MY_HOST_X_API_KEY."""
    return f"{re.sub(r'[^A-Z0-9]', '_', provider.upper())}_API_KEY"


def _variable(name: str, env: Env) -> KeyPlace:
    return KeyPlace(name, lambda: _key(env.get(name, ""), f"env:{name}", _mode(name)))


def _mode(variable: str) -> AuthMode:
    """Derives the mode of a credential from the name of its variable."""
    if variable.endswith("_OAUTH_TOKEN"):
        return "oauth"
    return "token" if re.search(r"(^|_)TOKEN(_|$)", variable) else "api-key"


def _key(value: str, source: str, mode: AuthMode) -> ResolvedAuth | None:
    value = value.strip()
    if not value or value in _MARKERS:
        return None
    # A line break from a copied key would be refused as a header, with the key in the error.
    if not (_JSON_KEY if value.startswith("{") else _PLAIN_KEY).fullmatch(value):
        raise AuthFailed(f"the key from {source} contains spaces or other invalid characters; copy it again")
    return ResolvedAuth(api_key=value, source=source, mode="oauth" if is_login_token(value) else mode)


def _stored(provider: str, store: CredentialStore) -> ResolvedAuth | None:
    stored = store.get(provider)
    return _of_credential(stored.credential, f"stored:{stored.place}") if stored else None


def _same_account(provider: str) -> list[str]:
    """Returns other rows for the same account: with the same variables and base URL, as `openai` and `openai-chat`.

    A row with another base URL does not count: a key is sent only where it was stored for.
    """
    rows = known_rows()
    own = rows.get(provider)
    if own is None or not own.env or not own.base_url:
        return []
    return [row.id for row in rows.values() if row is not own and (row.env, row.base_url) == (own.env, own.base_url)]


def _stored_key(provider: str, store: CredentialStore) -> ResolvedAuth | None:
    """A stored key; a login is renewed under its own name and stays with it."""
    stored = store.get(provider)
    return _stored(provider, store) if stored and stored.credential.mode == "api-key" else None


def _of_credential(credential: Credential, source: str) -> ResolvedAuth | None:
    return _key(credential.secret.reveal(), source, credential.mode)


# Clouds: what they hand out is found here by its traces, and fetched by `cloud`. It is no key: `api_key` stays empty.


def _cloud_variables(style: AuthStyle | None, env: Env) -> Iterator[KeyPlace]:
    if style == "aws":
        for source, names in _AWS_VARIABLES:
            yield KeyPlace(" + ".join(names), partial(_aws_given, source, names, env))
    if style == "google":
        yield KeyPlace(
            _GOOGLE_FILE, lambda: _ambient(f"google:{_GOOGLE_FILE}", bool(env.get(_GOOGLE_FILE, "").strip()))
        )


def _cloud_files(style: AuthStyle | None, env: Env) -> Iterator[KeyPlace]:
    if style == "aws":
        for name, usual in (("AWS_SHARED_CREDENTIALS_FILE", "credentials"), ("AWS_CONFIG_FILE", "config")):
            # docs.aws.amazon.com/cli/latest/userguide/cli-configure-files.html.
            path = Path(env.get(name, "").strip() or _user(env) / ".aws" / usual).expanduser()
            yield KeyPlace(f"{path}", partial(_aws_file, path))
    if style == "google":
        # docs.cloud.google.com/docs/authentication/application-default-credentials.
        folder = env.get("CLOUDSDK_CONFIG", "").strip() or _user(env) / ".config" / "gcloud"
        adc = Path(folder) / "application_default_credentials.json"
        yield KeyPlace(f"{adc}", lambda: _ambient("google:adc", adc.is_file()))


def _aws_given(source: str, names: tuple[str, ...], env: Env) -> ResolvedAuth | None:
    if not all(env.get(name, "").strip() for name in names):
        return None
    profile = env["AWS_PROFILE"].strip() if source == "aws:profile" else None
    return ResolvedAuth(mode="aws-sdk", profile_id=profile, source=source)


def _aws_file(path: Path) -> ResolvedAuth | None:
    """Whether the default profile holds or leads to keys; which region it prefers is no key."""
    import configparser

    parser = configparser.RawConfigParser()
    try:
        parser.read(path)
    except (configparser.Error, UnicodeDecodeError) as error:
        raise InterlinguaError(f"{path} cannot be read ({type(error).__name__}): repair it") from None
    if not any(parser.has_option("default", name) for name in _AWS_SETTINGS):
        return None
    return ResolvedAuth(mode="aws-sdk", profile_id="default", source="aws:profile")


def _ambient(source: str, there: bool) -> ResolvedAuth | None:
    return ResolvedAuth(mode="oauth", source=source) if there else None


def _user(env: Env) -> Path:
    given = env.get("HOME", "").strip()
    return Path(given) if given else Path.home()
