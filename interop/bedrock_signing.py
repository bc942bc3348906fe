"""Bedrock's signatures, judged by two others: `awssig`, which shares no code with botocore, and moto's own IAM.

The first answers a well-signed call with an event stream, so the whole way is gone: chain, signature, frames, message.
Moto knows users, keys and policies; its Bedrock cannot converse, so what counts is how far it lets a call come.

Run by `make interop`, both servers in an environment of their own.
"""

import asyncio
import json
import os
import tempfile
from collections.abc import Callable
from typing import Any

import boto3
from serving import HERE, Checks, environment, free_port, running

import interlingua as il
from interlingua.connect.batch import Batch, BatchRow
from interlingua.values.canonical import plain
from interlingua.values.request import CallOptions

ROLE = "arn:aws:iam::123456789012:role/batches"
MODELS = (
    "anthropic.claude-3-haiku-20240307-v1:0",
    "arn:aws:bedrock:eu-west-1:123456789012:application-inference-profile/a1b2c3",
    "eu.amazon.nova-lite-v1:0",
)
REGION = "eu-west-1"
ALLOW = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "bedrock:*", "Resource": "*"}]}
AWS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


def signing_as(key: str, secret: str, token: str | None = None) -> None:
    """What botocore's chain will find."""
    for name, value in zip(AWS, (key, secret, token), strict=True):
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


async def ask(url: str, model: str, context: Any = "hi", region: str = REGION) -> tuple[il.AssistantMessage, Any]:
    stream = il.stream(f"amazon-bedrock/{model}", context, base_url=url, settings={"region": region}, retry=0)
    return await stream.result(), stream.failure


async def by_awssig(checks: Checks, url: str) -> None:
    odd = il.Context(
        system="Ümläut — “quotes”", messages=(il.UserMessage(content='日本 \N{GRINNING FACE} \\ " %2F + &'),)
    )
    for key in (("AKIAINTEROP", "secret/of+interop"), ("ASIAINTEROP", "another/secret", "session-token==")):
        signing_as(*key)
        whose = "a role's keys" if len(key) == 3 else "a user's keys"
        for model in MODELS:
            message, failure = await ask(url, model, odd)
            checks.same(f"awssig: {whose}, {model}", (None, "Signed and read."), (failure, message.text))
    signing_as("AKIAINTEROP", "not the secret")
    _, failure = await ask(url, MODELS[0])
    checks.same("awssig: a wrong secret", ("AuthFailed", 403), (type(failure).__name__, failure and failure.status))
    signing_as("ASIAINTEROP", "another/secret", "another token")
    _, failure = await ask(url, MODELS[0])
    checks.same("awssig: a wrong session token", "AuthFailed", type(failure).__name__)
    signing_as("AKIAINTEROP", "secret/of+interop")
    _, failure = await ask(url, MODELS[0], region="us-east-1")
    checks.same("awssig: signed for another region", "AuthFailed", type(failure).__name__)


async def batch_by_awssig(checks: Checks, url: str) -> None:
    """A batch from its lines in S3 to its deletion, every request of it signed."""
    signing_as("ASIAINTEROP", "another/secret", "session-token==")
    os.environ |= {"AWS_ENDPOINT_URL_S3": url, "AWS_ENDPOINT_URL_BEDROCK": url}
    # What S3's keys may have beside letters is encoded in the address.
    call = CallOptions(settings={"region": REGION, "s3": "s3://bucket/it's(a)place!", "role": ROLE})
    request = il.decode({"messages": [{"role": "user", "content": "hi"}]}).request()
    rows = [BatchRow(number=number, id=str(number), source="interop", request=plain(request)) for number in (1, 2)]
    for model in MODELS:
        batch = await Batch.create(rows, f"amazon-bedrock/{model}", il.Client(), local=False, name=None, call=call)
        await batch.submit(call)
        await batch.fetch(call)
        found = [(answer.error, answer.message.text) for answer in await batch.answers()]
        checks.same(f"awssig: a batch, {model}", [(None, "Signed and read.")] * 2, found)
        await batch.delete(call)
    os.environ.pop("AWS_ENDPOINT_URL_S3")
    os.environ.pop("AWS_ENDPOINT_URL_BEDROCK")


async def by_moto(checks: Checks, url: str, keys: Callable[[str], dict[str, str]]) -> None:
    allowed, stranger = keys("allowed"), keys("stranger")
    for model in MODELS:
        signing_as(allowed["AccessKeyId"], allowed["SecretAccessKey"])
        _, failure = await ask(url, model)
        status = failure.status if isinstance(failure, il.ProviderError) else failure
        checks.same(f"moto: lets the call in, and then cannot converse: {model}", 500, status)
        signing_as(allowed["AccessKeyId"], "not the secret")
        _, failure = await ask(url, model)
        checks.same(f"moto: a wrong secret: {model}", ("AuthFailed", True), _refused(failure, "SignatureDoesNotMatch"))
    signing_as(stranger["AccessKeyId"], stranger["SecretAccessKey"])
    _, failure = await ask(url, MODELS[0])
    checks.same("moto: a user without a policy", ("AuthFailed", True), _refused(failure, "AccessDenied"))
    signing_as("AKIAUNKNOWN", "secret")
    _, failure = await ask(url, MODELS[0])
    checks.same("moto: keys of nobody", "AuthFailed", type(failure).__name__)


def _refused(failure: Any, word: str) -> tuple[str, bool]:
    return type(failure).__name__, word in str(failure)


def users(url: str) -> Callable[[str], dict[str, str]]:
    """Two users, one with a policy; made while moto still lets anybody in."""
    iam = boto3.client(
        "iam", endpoint_url=url, region_name=REGION, aws_access_key_id="none", aws_secret_access_key="none"
    )
    made: dict[str, dict[str, str]] = {}
    for name in ("allowed", "stranger"):
        iam.create_user(UserName=name)
        made[name] = iam.create_access_key(UserName=name)["AccessKey"]
    iam.put_user_policy(UserName="allowed", PolicyName="all", PolicyDocument=json.dumps(ALLOW))
    return made.__getitem__


def main() -> None:
    checks = Checks("Bedrock signing")
    programs, port = environment("moto"), free_port()
    url = f"http://127.0.0.1:{port}"
    with running([str(programs / "python"), str(HERE / "aws_verifier.py"), str(port)], url):
        asyncio.run(by_awssig(checks, url))
        with tempfile.TemporaryDirectory() as home:
            os.environ["INTERLINGUA_HOME"] = home
            asyncio.run(batch_by_awssig(checks, url))
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    open_calls = {**os.environ, "INITIAL_NO_AUTH_ACTION_COUNT": "5"}  # as many as `users` makes
    with running(
        [str(programs / "moto_server"), "-H", "127.0.0.1", "-p", str(port)], f"{url}/moto-api/", env=open_calls
    ):
        asyncio.run(by_moto(checks, url, users(url)))
    checks.finish()


if __name__ == "__main__":
    main()
