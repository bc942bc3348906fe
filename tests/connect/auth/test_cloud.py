"""AWS signatures, checked by an independent reckoning; Google tokens from a real token server on this machine."""

import asyncio
import hashlib
import hmac
import json
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

import aiohttp
import pytest
import pytest_asyncio
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from yarl import URL

from connect.auth.serving import LoginServer, login_server
from interlingua.connect.auth import cloud
from interlingua.connect.auth.cloud import (
    AwsCredentials,
    aws_credentials,
    aws_headers,
    aws_region,
    google_headers,
    google_project,
    google_token,
    sign,
)
from interlingua.connect.auth.credentials import Secret
from interlingua.values.errors import AuthFailed, InterlinguaError

KEYS = AwsCredentials("AKIDEXAMPLE", Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"), None, "test")
MODEL = "arn:aws:bedrock:eu-west-1:123456789012:inference-profile/eu.anthropic.claude-v1:0"


@pytest.fixture(autouse=True)
def no_cloud(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of the machine's own, and no question to a metadata server."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_", "GCLOUD_", "CLOUDSDK_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    cloud._google.clear()
    cloud._refreshable.clear()


def signature_of(method: str, target: str, headers: Mapping[str, str], body: bytes, secret: str) -> str:
    """AWS signature version 4, reckoned from the published recipe and from nothing of ours or botocore's."""
    lower = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    fields = dict(part.strip().split("=", 1) for part in lower["authorization"].partition(" ")[2].split(","))
    _, date, region, service, _ = fields["Credential"].split("/")
    signed = fields["SignedHeaders"].split(";")
    path, _, query = target.partition("?")
    canonical = "\n".join(
        [
            method,
            quote(path, safe="/~-._"),
            "&".join(sorted(f"{quote(k, safe='~-._')}={quote(v, safe='~-._')}" for k, v in parse_qsl(query, True))),
            *(f"{name}:{lower[name]}" for name in signed),
            "",
            ";".join(signed),
            hashlib.sha256(body).hexdigest(),
        ]
    )
    scope = f"{date}/{region}/{service}/aws4_request"
    text = "\n".join(["AWS4-HMAC-SHA256", lower["x-amz-date"], scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{secret}".encode()
    for part in (date, region, service, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def claimed(headers: Mapping[str, str]) -> str:
    return headers["Authorization"].rpartition("Signature=")[2]


@pytest.mark.parametrize("path", ["/model/a/converse", f"/model/{quote(MODEL, safe='')}/converse-stream", "/x?b=2&a=1"])
@pytest.mark.parametrize("body", [b"", b'{"messages":[]}', "snö".encode()])
def test_a_signature_is_the_one_that_aws_would_reckon(path: str, body: bytes) -> None:
    """Over the address as it is sent, the headers and the body."""
    host = "bedrock-runtime.eu-west-1.amazonaws.com"
    signed = sign(
        "POST",
        f"https://{host}{path}",
        {"Content-Type": "application/json"},
        body,
        region="eu-west-1",
        credentials=KEYS,
    )
    assert "AKIDEXAMPLE/" in signed["Authorization"] and "/eu-west-1/bedrock/aws4_request" in signed["Authorization"]
    assert "content-type;host;x-amz-date" in signed["Authorization"]
    expected = signature_of("POST", path, {"Host": host, **signed}, body, KEYS.secret_key.reveal())
    assert expected == claimed(signed)


def test_the_reckoning_agrees_with_the_vendors_own_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same request by boto3: its signature passes the same check, and ours covers the same scope."""
    import boto3

    client = boto3.client(
        "bedrock-runtime",
        region_name="eu-west-1",
        aws_access_key_id=KEYS.access_key,
        aws_secret_access_key=KEYS.secret_key.reveal(),
    )
    sent: list[Any] = []

    def stop(request: Any, **_: Any) -> None:
        sent.append(request)
        raise StopIteration

    client.meta.events.register("before-send.bedrock-runtime.Converse", stop)
    with pytest.raises((StopIteration, RuntimeError)):
        client.converse(modelId=MODEL, messages=[{"role": "user", "content": [{"text": "hi"}]}])
    client.close()
    (theirs,) = sent
    url = urlsplit(theirs.url)
    headers = {name: v.decode() if isinstance(v, bytes) else v for name, v in theirs.headers.items()}
    whole = {"Host": url.netloc, **headers}
    assert claimed(headers) == signature_of("POST", url.path, whole, theirs.body, KEYS.secret_key.reveal())
    ours = sign(
        "POST", theirs.url, {"Content-Type": "application/json"}, theirs.body, region="eu-west-1", credentials=KEYS
    )
    scopes = [value["Authorization"].split(",")[0].split("/", 2)[2] for value in (headers, ours)]
    assert scopes[0] == scopes[1]


async def test_a_signed_request_arrives_as_it_was_signed() -> None:
    """Over HTTP to a real server, with a model id that clients like to rewrite."""
    seen: list[tuple[str, dict[str, str], bytes]] = []

    async def take(request: web.Request) -> web.Response:
        seen.append((request.raw_path, dict(request.headers), await request.read()))
        return web.Response()

    app = web.Application()
    app.router.add_post("/{path:.*}", take)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/model/{quote(MODEL, safe='')}/converse-stream"
    keys = KEYS._replace(token=Secret("session-token"))
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "x"}
    signed = sign("POST", url, headers, b'{"a":1}', region="us-east-1", credentials=keys)
    async with (
        aiohttp.ClientSession() as session,
        session.post(URL(url, encoded=True), data=b'{"a":1}', headers=signed),
    ):
        pass
    await runner.cleanup()
    ((path, arrived, body),) = seen
    assert claimed(arrived) == signature_of("POST", path, arrived, body, KEYS.secret_key.reveal())
    assert "session-token" == arrived["X-Amz-Security-Token"]
    assert "x-amz-security-token" in arrived["Authorization"]
    assert KEYS.secret_key.reveal() not in str(arrived)


def test_the_region_is_looked_for_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The option, the model's ARN, the two variables, the profile, us-east-1."""
    assert "us-east-1" == aws_region()
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/config").write_text("[default]\nregion = ap-south-1\n[profile work]\nregion = sa-east-1\n")
    seen = [aws_region(), aws_region(profile="work")]
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-north-1")
    seen.append(aws_region())
    monkeypatch.setenv("AWS_REGION", " eu-central-1 ")
    seen += [aws_region(), aws_region(model=MODEL), aws_region("ca-west-1", MODEL), aws_region(" ")]
    assert [
        *("ap-south-1", "sa-east-1", "eu-north-1", "eu-central-1", "eu-west-1", "ca-west-1", "eu-central-1")
    ] == seen


async def test_credentials_come_from_botocores_chain_and_are_read_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A changed file counts at once; a profile is chosen by name; variables count before files."""
    path = tmp_path / ".aws/credentials"
    path.parent.mkdir()
    path.write_text(
        "[default]\naws_access_key_id=A1\naws_secret_access_key=S1\n[w]\naws_access_key_id=W\naws_secret_access_key=SW\n"
    )
    first = await aws_credentials()
    path.write_text(path.read_text().replace("S1", "S2"))
    second, work = await aws_credentials(), await aws_credentials("w")
    assert ["S1", "S2", "SW"] == [found.secret_key.reveal() for found in (first, second, work)]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "E")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SE")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "T")
    third = await aws_credentials()
    assert ("E", Secret("SE"), Secret("T"), "env") == third
    assert "SE" not in repr(third)


async def test_credentials_that_renew_themselves_are_asked_once_per_lifetime(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that gives keys for a while is not run for every call, and is run again when they run out."""
    program = tmp_path / "give.py"
    program.write_text(
        "import json, pathlib, sys, datetime\n"
        f"path = pathlib.Path({str(tmp_path / 'count')!r})\n"
        "n = int(path.read_text()) + 1 if path.exists() else 1\n"
        "path.write_text(str(n))\n"
        "ends = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=5 if n == 1 else 7200)\n"
        "print(json.dumps({'Version': 1, 'AccessKeyId': 'A', 'SecretAccessKey': f'S{n}', 'SessionToken': 'T',"
        " 'Expiration': ends.isoformat()}))\n"
    )
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/config").write_text(f"[default]\ncredential_process = {sys.executable} {program}\n")
    seen = [(await aws_credentials()).secret_key.reveal() for _ in range(4)]
    assert "S2" == seen[-1]
    assert "2" == (tmp_path / "count").read_text()


async def test_the_chain_runs_beside_the_event_loop(tmp_path: Path) -> None:
    """While a slow program gives the keys, other tasks go on."""
    (tmp_path / ".aws").mkdir()
    program, begun, released = tmp_path / "slow.py", tmp_path / "begun", tmp_path / "released"
    program.write_text(f"""
import pathlib, time
pathlib.Path({str(begun)!r}).touch()
end = time.monotonic() + 60
while not pathlib.Path({str(released)!r}).exists() and time.monotonic() < end:
    time.sleep(0.01)
if time.monotonic() < end:
    print('{{"Version":1,"AccessKeyId":"A","SecretAccessKey":"S"}}')
""")
    (tmp_path / ".aws/config").write_text(f"[default]\ncredential_process = {sys.executable} {program}\n")
    asking = asyncio.create_task(aws_credentials())
    while not begun.exists():
        await asyncio.sleep(0.01)
    released.touch()
    assert "A" == (await asking).access_key


async def test_no_aws_credentials_is_one_clear_error() -> None:
    """What to run, what to set."""
    with pytest.raises(AuthFailed, match=r"aws sso login.*AWS_BEARER_TOKEN_BEDROCK"):
        await aws_credentials()


async def test_an_unknown_profile_is_named() -> None:
    """By botocore, in our error."""
    with pytest.raises(AuthFailed, match="nowhere"):
        await aws_credentials("nowhere")


@pytest.mark.parametrize(
    ("host", "options", "region"),
    [
        ("bedrock-runtime.ap-south-1.amazonaws.com", {"region": "us-west-2", "model": MODEL}, "ap-south-1"),
        ("bedrock-runtime-fips.us-gov-west-1.amazonaws.com", {}, "us-gov-west-1"),
        ("127.0.0.1:1", {"region": "us-west-2", "model": MODEL}, "us-west-2"),
        ("127.0.0.1:1", {"model": MODEL}, "eu-west-1"),
        ("bedrock-runtime.ap-south-1.amazonaws.com.evil.example", {}, "us-east-1"),
    ],
)
async def test_the_signature_is_for_the_region_that_the_address_names(
    host: str, options: dict[str, str], region: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another would be refused; an address without one leaves the usual order."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "E")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "SE")
    signed = await aws_headers("POST", f"https://{host}/model/x/converse", {}, b"{}", **options)
    assert f"/{region}/bedrock/" in signed["Authorization"]


def test_aws_without_botocore_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line that says what to install; the region is still known."""
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    monkeypatch.setitem(sys.modules, "botocore.awsrequest", None)
    with pytest.raises(InterlinguaError, match=r'pip install "interlingua\[bedrock\]"'):
        sign("POST", "https://h/", {}, b"", region="r", credentials=KEYS)
    assert "us-east-1" == aws_region()


# Google.


@pytest_asyncio.fixture
async def server() -> AsyncIterator[LoginServer]:
    async with login_server() as server:
        yield server


@pytest.fixture(scope="session")
def private_key() -> str:
    key = rsa.generate_private_key(65537, 2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


@pytest.fixture
def account(server: LoginServer, private_key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "account.json"
    account = {
        "type": "service_account",
        "project_id": "the-project",
        "private_key_id": "1",
        "private_key": private_key,
        "client_email": "me@the-project.example",
        "token_uri": f"{server.url}/token",
    }
    path.write_text(json.dumps(account))
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    return path


def granting(lifetime: int) -> list[Any]:
    return [(200, {"access_token": f"ya29.token-{n}", "expires_in": lifetime}) for n in range(1, 4)]


async def test_googles_token_is_fetched_once_per_lifetime(server: LoginServer, account: Path) -> None:
    """For many callers at once, too."""
    server.answers = granting(3600)
    tokens = await asyncio.gather(*(google_token() for _ in range(8)))
    assert {Secret("ya29.token-1")} == set(tokens)
    assert {"Authorization": "Bearer ya29.token-1"} == await google_headers()
    assert 1 == len(server.asked)


async def test_googles_token_is_fetched_again_when_it_runs_out(server: LoginServer, account: Path) -> None:
    """A token that is about to run out counts as run out."""
    server.answers = granting(10)
    assert ["ya29.token-1", "ya29.token-2"] == [(await google_token()).reveal() for _ in range(2)]


async def test_google_is_asked_beside_the_event_loop(server: LoginServer, account: Path) -> None:
    """The token server of this test runs on this very loop: a blocked loop could not answer."""
    threads: list[str] = []
    server.answers = [lambda form: (threads.append(threading.current_thread().name), granting(3600)[0])[1]]
    await asyncio.wait_for(google_token(), 120)
    assert [threading.main_thread().name] == threads


async def test_a_refusal_by_google_says_what_to_do(server: LoginServer, account: Path) -> None:
    """Without what the server said, which may quote the key."""
    server.answers = [(400, {"error": "invalid_grant", "error_description": "bad assertion sEcReT"})]
    with pytest.raises(AuthFailed, match="gcloud auth application-default login") as caught:
        await google_token()
    assert "sEcReT" not in str(caught.value)


async def test_no_google_credentials_is_one_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Missing, or a file that is none: what to run, what to set, and nothing of the file."""
    broken = tmp_path / "broken.json"
    broken.write_text('{"private_key": "sEcReT"')
    for path in (tmp_path / "missing.json", broken):
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
        with pytest.raises(AuthFailed, match="GOOGLE_APPLICATION_CREDENTIALS") as caught:
            await google_token()
        assert "sEcReT" not in str(caught.value)


async def test_the_project_is_looked_for_in_order(
    server: LoginServer, account: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The option, the two variables, the account's own."""
    seen = [await google_project()]
    monkeypatch.setenv("GCLOUD_PROJECT", "second")
    seen.append(await google_project())
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "first")
    seen += [await google_project(), await google_project("given")]
    assert ["the-project", "second", "first", "given"] == seen


async def test_google_without_its_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line that says what to install."""
    monkeypatch.setitem(sys.modules, "google.auth", None)
    with pytest.raises(InterlinguaError, match=r'pip install "interlingua\[vertex\]"'):
        await google_token()


def test_the_cloud_libraries_are_loaded_only_on_use() -> None:
    """Neither botocore, google-auth, keyring nor the HTTP client comes with the module."""
    code = (
        "import sys, interlingua.connect.auth, interlingua.connect.auth.cloud;"
        "print([name for name in ('botocore', 'google.auth', 'keyring', 'aiohttp', 'requests') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "[]\n" == done.stdout
