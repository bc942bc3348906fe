"""Amazon Bedrock's batch jobs: lines in S3, a job that reads them as Converse requests, and results beside them.

docs.aws.amazon.com/bedrock/latest/userguide/batch-inference.html. Requests to Bedrock's control plane and to S3 are
signed like those to the model; no other AWS client is used. The S3 location, the role of the job, and the region are
stored with the batch.
"""

import asyncio
import os
import re
from collections.abc import Callable, Collection, Mapping
from typing import Any
from urllib.parse import quote

from ..values.errors import AuthFailed, FormatError, InterlinguaError, ProviderError
from ..values.jsontext import write
from ..values.request import CallOptions, ModelDescriptor
from .batch_apis import BatchApi, Calls, Outcome, Part, State, lines_of, pages
from .connector import USER_AGENT, HttpConnector

_JOBS = "/model-invocation-job"
# The patterns of the API reference: S3Uri (its prefix may be left out) and RoleArn.
_S3 = re.compile(r"s3://([a-z0-9][-.a-z0-9]{1,61}[a-z0-9])((?:/[-!_*'().a-z0-9A-Z]+)*)/?")
_ROLE = re.compile(r"arn:aws(-[^:]+)?:iam::([0-9]{12})?:role/.+")
_XML_FIELD = r"<{0}>([^<]*)</{0}>"


class AwsCalls(Calls):
    """Calls that are signed: a path is one of Bedrock's control plane, `s3://BUCKET/KEY` an object in S3."""

    async def addressed(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[str, Mapping[str, str]]:
        from .auth.cloud import aws_credentials, sign

        settings = self.call.settings or {}
        region, service = settings["region"], "s3" if path.startswith("s3://") else "bedrock"
        url = self._object(path, region) if service == "s3" else self._control(path, region)
        try:
            credentials = await aws_credentials(settings.get("profile"), region)
        except AuthFailed as error:
            raise AuthFailed(
                f"{error.message.partition(';')[0]}; a batch goes through S3, which takes no Bedrock key: "
                "run `aws configure` or `aws sso login`, or set AWS_PROFILE",
                provider=self.connector.provider,
            ) from None
        given = {
            "Content-Type": "application/json",
            "Accept-Encoding": "identity",
            "User-Agent": USER_AGENT,
            **(self.call.headers or {}),
            **headers,
        }
        signed = await asyncio.to_thread(
            sign, method, url, given, body or b"", region=region, credentials=credentials, service=service
        )
        return url, signed

    def _control(self, path: str, region: str) -> str:
        given = self.call.base_url or self._variable("AWS_ENDPOINT_URL_BEDROCK", "AWS_ENDPOINT_URL")
        return (given or f"https://bedrock.{region}.{_domain(region)}").rstrip("/") + path

    def _object(self, uri: str, region: str) -> str:
        bucket, _, key = uri.removeprefix("s3://").partition("/")
        key = quote(
            key, safe="/-_.~"
        )  # as AWS signs it: docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
        given = self._variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
        if given is not None:
            return f"{given.rstrip('/')}/{bucket}/{key}"
        host = f"s3.{region}.{_domain(region)}"
        # A dot in the name of a bucket is no part of a host that the certificate covers.
        return f"https://{host}/{bucket}/{key}" if "." in bucket else f"https://{bucket}.{host}/{key}"

    def _variable(self, *names: str) -> str | None:
        env = os.environ if self.call.env is None else self.call.env
        return next((value for name in names if (value := env.get(name, "").strip())), None)

    def failure(self, status: int, body: bytes, headers: Mapping[str, str]) -> InterlinguaError:
        """S3 answers with XML, which is read as the JSON error that it would be."""
        text = body.decode("utf-8", "replace")
        found = {name: re.search(_XML_FIELD.format(name), text) for name in ("Code", "Message")}
        if body.lstrip().startswith(b"<") and found["Code"]:
            values = {name: match.group(1) for name, match in found.items() if match}
            message = f"S3: {values.get('Message') or values['Code']}"
            body = write({"__type": values["Code"], "message": message})
        return super().failure(status, body, headers)


class BedrockBatches(BatchApi):
    """A job reads one object and writes `JOB/NAME.jsonl.out` below the place of its output."""

    # Quotas of a job: docs.aws.amazon.com/general/latest/gr/bedrock.html. A file may have 1 GB; less is kept in memory.
    max_requests = 50_000
    min_requests = 100
    max_bytes = 200_000_000
    calls = AwsCalls
    ENDED = frozenset({"Completed", "PartiallyCompleted", "Failed", "Stopped", "Expired"})

    def settings(self, connector: HttpConnector, model: ModelDescriptor, call: CallOptions) -> dict[str, str]:
        from .auth.cloud import aws_region

        given = {name: connector.setting(name, call) for name in ("s3", "role", "region")}
        for name, pattern, form in (
            ("s3", _S3, "s3://BUCKET/PREFIX"),
            ("role", _ROLE, "arn:aws:iam::ACCOUNT:role/NAME"),
        ):
            value = given[name]
            if value is None:
                raise FormatError(
                    f"a batch of {connector.label} needs --{name} {form}; --jobs N makes ordinary calls", f"--{name}"
                )
            if not pattern.fullmatch(value):
                raise FormatError(f"{value!r} is not of the form {form}", f"--{name}")
        profile = (call.settings or {}).get("profile")
        return {
            "s3": str(given["s3"]).rstrip("/"),
            "role": str(given["role"]),
            "region": aws_region(
                (call.settings or {}).get("region"), model.id, profile=profile, env=call.env, default=given["region"]
            ),
            **({"profile": profile} if profile else {}),
        }

    def line(self, id: str, body: dict[str, Any], path: str) -> bytes:
        return write({"recordId": id, "modelInput": body})

    async def create(
        self, calls: Calls, part: Part, headers: Mapping[str, str], uploaded: Callable[[str], None]
    ) -> str:
        settings = calls.call.settings or {}
        source = part.uploaded or f"{settings['s3']}/{part.tag}.jsonl"
        if part.uploaded is None:  # writing an object again leaves one object
            data = b"\n".join(part.lines) + b"\n"
            await calls.send("PUT", source, data, {"Content-Type": "application/jsonl"}, 1 << 20)
            uploaded(source)
        body = {
            "jobName": part.tag,
            "clientRequestToken": part.tag,  # a second request with it makes no second job
            "roleArn": settings["role"],
            "modelId": calls.model.id,
            "modelInvocationType": "Converse",
            "inputDataConfig": {"s3InputDataConfig": {"s3InputFormat": "JSONL", "s3Uri": source}},
            "outputDataConfig": {"s3OutputDataConfig": {"s3Uri": f"{settings['s3']}/"}},
        }
        return await calls.create(_JOBS, write(body), headers, "jobArn")

    async def find(self, calls: Calls, part: Part, excluded: Collection[str]) -> str | None:
        async for job in pages(calls, f"{_JOBS}s", "nextToken", nameContains=part.tag):
            if job.get("jobName") == part.tag and job["jobArn"] not in excluded:
                return str(job["jobArn"])
        return None

    async def state(self, calls: Calls, id: str) -> State:
        job = await calls.get(_job(id))
        status = str(job.get("status"))
        counts = {
            name: job[field]
            for name in ("total", "processed", "success", "error")
            if (field := f"{name}RecordCount") in job
        }
        error = None
        if status in self.ENDED and status != "Completed":
            error = job.get("message") or _REASONS.get(status, f"the job is {status}")
        return State(status, status in self.ENDED, counts, error)

    async def results(self, calls: Calls, id: str) -> list[Outcome]:
        job = await calls.get(_job(id))
        try:
            data = await calls.repeat("GET", _output(job))
        except ProviderError as error:
            # A job without output. Without the permission to list, S3 responds 403 for a missing object.
            if error.status == 404 or (error.status == 403 and job.get("status") in ("Failed", "Expired")):
                return []
            raise
        return [_outcome(line) for line in lines_of(data, calls)]

    async def cancel(self, calls: Calls, id: str) -> None:
        await calls.repeat("POST", f"{_job(id)}/stop", b"")

    async def delete(self, calls: Calls, id: str | None, uploaded: str | None) -> None:
        # Jobs stay listed at Bedrock; what they hold is in S3.
        objects = [uploaded] if uploaded else []
        if id is not None:
            output = _output(await calls.get(_job(id)))
            objects += [output, f"{output.rpartition('/')[0]}/manifest.json.out"]
        for uri in objects:
            await calls.delete(uri)


_REASONS = {
    "PartiallyCompleted": "not processed before the job's time was over",
    "Expired": "the job expired before it began",
    "Stopped": "the job was stopped before this request was processed",
}


def _job(arn: str) -> str:
    return f"{_JOBS}/{quote(arn, safe='')}"


def _output(job: dict[str, Any]) -> str:
    """The object of a job's results, by the locations in the job."""
    source = job["inputDataConfig"]["s3InputDataConfig"]["s3Uri"]
    place = job["outputDataConfig"]["s3OutputDataConfig"]["s3Uri"]
    return f"{place.rstrip('/')}/{job['jobArn'].rpartition('/')[2]}/{source.rpartition('/')[2]}.out"


def _outcome(line: dict[str, Any]) -> Outcome:
    failed = line.get("error")
    if isinstance(failed, dict):
        failed = {"type": str(failed.get("errorCode") or "error"), "message": failed.get("errorMessage")}
    if failed is None and "modelOutput" not in line:
        failed = {"type": "error", "message": "no output in the results"}
    return Outcome(str(line.get("recordId")), None if failed else line["modelOutput"], failed)


def _domain(region: str) -> str:
    return "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
