"""The Ray Data conversion of `ray_data.py` from a bucket into a bucket, with moto as S3."""

import os
import subprocess

from serving import HERE, environment, free_port, running

SIZE = "0.02"  # GB
BUCKET = "s3://interlingua/ray?allow_bucket_creation=true"


def main() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    command = [str(environment("moto") / "moto_server"), "-H", "127.0.0.1", "-p", url.rpartition(":")[2]]
    account = {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none", "AWS_DEFAULT_REGION": "us-east-1"}
    source = HERE.parent / "src"
    with running(command, f"{url}/moto-api/"):
        subprocess.run(
            [str(environment("ray") / "python"), str(HERE / "ray_data.py"), SIZE, BUCKET],
            env={**os.environ, **account, "AWS_ENDPOINT_URL": url, "PYTHONPATH": str(source)},
            check=True,
        )


if __name__ == "__main__":
    main()
