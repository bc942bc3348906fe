"""The Containerfile fits the package and the command, as far as that is seen without building the image."""

import json
import re
import tomllib
from pathlib import Path

from interlingua.cli.serve import PORT, command

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "Containerfile").read_text()


def instructions(name: str) -> list[str]:
    joined = TEXT.replace("\\\n", " ")
    return re.findall(rf"^{name} (.+)$", joined, re.MULTILINE)


def test_the_context_has_what_is_copied_and_nothing_else() -> None:
    """A checkout with its environments has gigabytes, which some builders copy before they begin."""
    copied = {source for line in instructions("COPY") for source in line.split()[:-1]}
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    assert "*" == next(line for line in lines if not line.startswith("#"))
    assert copied == {line[1:] for line in lines if line.startswith("!")}
    assert all((ROOT / source).exists() for source in copied)


def test_its_extras_exist() -> None:
    """For one that does not exist pip only warns."""
    (installed,) = instructions("RUN")
    (extras,) = re.findall(r"/src\[([\w,]+)\]", installed)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(extras.split(",")) <= set(project["optional-dependencies"])


def test_it_starts_the_gateway_at_the_port_that_it_names() -> None:
    """The health check asks there, too."""
    (entry,), (arguments,) = instructions("ENTRYPOINT"), instructions("CMD")
    assert ["interlingua", "serve"] == json.loads(entry)
    name, *options = json.loads(arguments)
    with command.commands[name].make_context(name, options) as context:
        assert "0.0.0.0" == context.params["host"]
    assert [str(PORT)] == instructions("EXPOSE")
    (check,) = instructions("HEALTHCHECK")
    assert f"http://127.0.0.1:{PORT}/healthz" in check
