"""Cloud credentials: AWS with botocore's chain and signer, Google with google-auth.

Both libraries block and may query a server; they run in a thread, never on the event loop.
"""

import asyncio
import os
import re
import threading
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ...values.errors import AuthFailed, InterlinguaError, TransportError
from .credentials import Secret

_AWS_DEFAULT_REGION = "us-east-1"
_MAX_PROFILES = 32  # cached profiles; beyond that the credential chain runs again
_GOOGLE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_ENDPOINT = re.compile(r"bedrock(?:-runtime)?(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|api\.aws)$")
_ARN = re.compile(r"arn:aws[\w-]*:[\w-]+:([a-z0-9-]+):")

# What is blank in the environment was not given.


def _given(env: Mapping[str, str] | None, *names: str) -> str | None:
    env = os.environ if env is None else env
    return next((value for name in names if (value := env.get(name, "").strip())), None)


# AWS.


class AwsCredentials(NamedTuple):
    """A pair of keys; resolve it again for each call, since roles and logins renew theirs."""

    access_key: str
    secret_key: Secret
    token: Secret | None
    method: str


_refreshable: dict[tuple[str | None, str | None, int], Any] = {}
_refreshable_lock = threading.Lock()


async def aws_credentials(profile: str | None = None, region: str | None = None) -> AwsCredentials:
    """Returns what botocore's chain finds: variables, profiles, SSO, roles, container, instance. Off the event loop.

    `region` is where roles are assumed, if the profile has none.
    """
    return await asyncio.to_thread(_aws_credentials, profile, region)


def _aws_credentials(profile: str | None, region: str | None) -> AwsCredentials:
    found = _aws_chain(profile, region)
    try:
        # Key, secret and token of one moment: refreshing between two reads would mix two sets.
        frozen = found.get_frozen_credentials()
    except _botocore("exceptions").BotoCoreError as error:
        raise AuthFailed(f"AWS credentials could not be renewed: {error}", provider="amazon-bedrock") from None
    return AwsCredentials(
        frozen.access_key, Secret(frozen.secret_key), Secret(frozen.token) if frozen.token else None, found.method
    )


def _aws_chain(profile: str | None, region: str | None) -> Any:
    """Runs the chain. Refreshable credentials are cached; others are read again."""
    key = (profile, region, hash(frozenset((k, v) for k, v in os.environ.items() if k.startswith("AWS_"))))
    with _refreshable_lock:
        if key in _refreshable:
            return _refreshable[key]
    found = _look_up(profile, region)
    if isinstance(found, _botocore("credentials").RefreshableCredentials):
        with _refreshable_lock:
            if len(_refreshable) >= _MAX_PROFILES:
                _refreshable.clear()
            _refreshable[key] = found
    return found


def _look_up(profile: str | None, region: str | None) -> Any:
    exceptions = _botocore("exceptions")
    session = _botocore("session").Session(profile=profile)
    try:
        if region:
            session.set_config_variable("region", region)
        found = session.get_credentials()
    except exceptions.BotoCoreError as error:
        raise AuthFailed(f"AWS credentials cannot be read: {error}", provider="amazon-bedrock") from None
    if found is None:
        raise AuthFailed(
            "no AWS credentials found; run `aws configure` or `aws sso login`, set AWS_PROFILE, or set "
            "AWS_BEARER_TOKEN_BEDROCK to a Bedrock key",
            provider="amazon-bedrock",
        )
    return found


def aws_region(
    option: str | None = None,
    model: str = "",
    *,
    profile: str | None = None,
    env: Mapping[str, str] | None = None,
    default: str | None = None,
) -> str:
    """Returns the option, the region in the model's ARN, AWS_REGION, AWS_DEFAULT_REGION, `default`, the profile's,
    or us-east-1.
    """
    if option and option.strip():
        return option.strip()
    # docs.aws.amazon.com/bedrock/latest/userguide/inference-profiles-use.html: a profile's ARN names the region that
    # must be called.
    arn = _ARN.match(model)
    if arn:
        return arn.group(1)
    given = _given(env, "AWS_REGION", "AWS_DEFAULT_REGION") or default
    return given or _profile_region(profile, env) or _AWS_DEFAULT_REGION


def _profile_region(profile: str | None, env: Mapping[str, str] | None) -> str | None:
    try:
        session = _botocore("session").Session(profile=profile or _given(env, "AWS_PROFILE"))
        region: str | None = session.get_config_variable("region")
    except InterlinguaError:
        return None
    except _botocore("exceptions").BotoCoreError:
        return None
    return region


def sign(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    region: str,
    credentials: AwsCredentials,
    service: str = "bedrock",
) -> dict[str, str]:
    """Returns the headers with an AWS signature (version 4) over method, URL, headers and body.

    The URL must be sent byte for byte as given here: a client that writes `%3A` as `:` breaks the signature. Only S3
    signs the path as sent, and requires the digest of the body in a header.
    """
    request = _botocore("awsrequest").AWSRequest(method=method, url=url, headers=dict(headers), data=body)
    keys = _botocore("credentials").Credentials(
        credentials.access_key,
        credentials.secret_key.reveal(),
        credentials.token.reveal() if credentials.token else None,
    )
    signer = _botocore("auth").S3SigV4Auth if service == "s3" else _botocore("auth").SigV4Auth
    signer(keys, service, region).add_auth(request)
    return dict(request.headers.items())


async def aws_headers(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    *,
    model: str = "",
    region: str | None = None,
    profile: str | None = None,
) -> dict[str, str]:
    """Returns signed headers with the current credentials, for the region in the URL or `aws_region`.

    The URL determines the signing region: AWS refuses a signature for another.
    """
    named = _ENDPOINT.match(urlsplit(url).hostname or "")
    region = named.group(1) if named else await asyncio.to_thread(aws_region, region, model, profile=profile)
    credentials = await aws_credentials(profile, region)
    return sign(method, url, headers, body, region=region, credentials=credentials)


def _botocore(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(f"botocore.{module}")
    except ImportError:
        raise InterlinguaError(
            'AWS needs a package that is not installed: pip install "interlingua[bedrock]"'
        ) from None


# Google.


class _Google(NamedTuple):
    credentials: Any
    project: str | None


_google: dict[tuple[str | None, ...], _Google] = {}
_google_lock = threading.Lock()


async def google_token() -> Secret:
    """Returns an access token of the application default credentials, renewed when expired. Off the event loop."""
    return await asyncio.to_thread(_google_token)


async def google_headers() -> dict[str, str]:
    """Returns the authorization headers of a call to Google Cloud."""
    return {"Authorization": f"Bearer {(await google_token()).reveal()}"}


def _google_token() -> Secret:
    found = _google_default()
    with _google_lock:
        # Under the lock: many calls at the same time would each fetch a token.
        if not found.credentials.valid:
            _google_refresh(found.credentials)
        return Secret(found.credentials.token)


def _google_refresh(credentials: Any) -> None:
    import google.auth.exceptions
    import google.auth.transport.requests
    import requests

    try:
        with requests.Session() as session:
            credentials.refresh(google.auth.transport.requests.Request(session))
    except google.auth.exceptions.TransportError:
        raise TransportError("Google's token server could not be reached: check the network and try again") from None
    except google.auth.exceptions.GoogleAuthError as error:
        _google.clear()
        raise AuthFailed(
            f"Google refused the application default credentials ({type(error).__name__}): "
            "run `gcloud auth application-default login`",
            provider="google-vertex",
        ) from None


def _google_default() -> _Google:
    key = tuple(
        os.environ.get(name)
        for name in ("GOOGLE_APPLICATION_CREDENTIALS", "CLOUDSDK_CONFIG", "HOME", "GOOGLE_CLOUD_PROJECT")
    )
    with _google_lock:
        if key not in _google:
            found = _ask_google()
            _google.clear()
            _google[key] = found
        return _google[key]


def _ask_google() -> _Google:
    try:
        import google.auth
        import google.auth.exceptions
    except ImportError:
        raise InterlinguaError(
            'Google Cloud needs a package that is not installed: pip install "interlingua[vertex]"'
        ) from None
    try:
        credentials, project = google.auth.default(scopes=[_GOOGLE_SCOPE])
    except google.auth.exceptions.GoogleAuthError as error:
        # The library's text may quote the file it could not read.
        raise AuthFailed(
            f"no application default credentials of Google were found ({type(error).__name__}): run `gcloud auth "
            "application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account",
            provider="google-vertex",
        ) from None
    return _Google(credentials, project)


async def google_project(option: str | None = None, *, env: Mapping[str, str] | None = None) -> str:
    """The option, GOOGLE_CLOUD_PROJECT, GCLOUD_PROJECT, or the project of the application default credentials."""
    given = (option or "").strip() or _given(env, "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
    project = given or (await asyncio.to_thread(_google_default)).project
    if not project:
        raise InterlinguaError("no Google Cloud project; give `project`, or set GOOGLE_CLOUD_PROJECT")
    return project
