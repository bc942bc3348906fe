"""`interlingua doctor`: checks the installation, or diagnoses a session file and writes a repaired one."""

import importlib.util
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import click
from rich.table import Table
from rich.text import Text

from .._version import __version__
from ..chat.themes import DARK, usual_theme
from ..conversion import sources
from ..sessions.operations import repair_session
from ..sessions.repair import Examined, RepairFinding
from ..tools.sandbox import sandbox_status
from ..values.errors import InterlinguaError
from ..values.places import home, short
from . import output
from .options import JSON


@click.command("doctor")
@click.argument("file", metavar="[FILE]", required=False)
@click.option("-o", "--output", "place", type=click.Path(dir_okay=False), help="Write the repaired session here.")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@JSON
def command(file: str | None, place: str | None, force: bool, as_json: bool) -> None:
    """Check the installation; or diagnose a session file line by line, and repair it into a new one.

    Without FILE: the home folder, keys, models, sandbox, programs and packages. The file itself is never changed. The
    exit code is 0 if all is well or was repaired, 1 if something needs repair.
    """
    if file is None:
        if place is not None:
            raise click.UsageError("-o needs a session file; give one")
        _check_installation(as_json)
        return
    source = sources.Source(None if file == sources.STDIN else Path(file))
    found = repair_session(source.path or sources.read_all(source), place, overwrite=force)
    if as_json:
        output.print_json(_shown(source, found, place))
    else:
        _print_findings(source, found, place)
    if found.findings and place is None:
        sys.exit(1)


# --- the installation -------------------------------------------------------------------------------------------------

State = Literal["ok", "note", "problem"]


class Check(NamedTuple):
    """One check of the installation; `remedy`: what to do if it fails."""

    name: str
    state: State
    detail: str
    remedy: str = ""


# What each is for; without it a feature falls back or a tool is missing.
_PROGRAMS = {"git": "plugins and the tools of agents", "less": "paging", "rg": "fast searches", "bwrap": "the sandbox"}
_PACKAGES = {
    "botocore": "bedrock",
    "google.auth": "vertex",
    "PIL": "images",
    "mcp": "mcp",
    "keyring": "keyring",
    "pyarrow": "arrow",
}


def _check_installation(as_json: bool) -> None:
    checks = [*_checks()]
    failed = any(check.state == "problem" for check in checks)
    if as_json:
        output.print_json({"healthy": not failed, "checks": [check._asdict() for check in checks]})
    else:
        _print_checks(checks)
    if failed:
        sys.exit(1)


_SETTINGS = "settings"


def _print_checks(checks: list[Check]) -> None:
    out = output.console(theme=DARK if any(check.name == _SETTINGS for check in checks) else None)
    grid = Table.grid(padding=(0, 2, 0, 0))
    for check in checks:
        mark, colour = _MARKS[check.state]
        text = Text.assemble(check.detail, (f"; {check.remedy}" if check.remedy else "", "dim"))
        grid.add_row(Text(mark, colour), Text(check.name), text)
        if not out.is_terminal:
            out.print(Text(f"{mark} {check.name}: {text.plain}"))
    if out.is_terminal:
        out.print(grid)


_MARKS = {"ok": ("✓", "green"), "note": ("·", "dim"), "problem": ("✗", "red")}


def _checks() -> Iterator[Check]:
    yield Check("version", "ok", f"interlingua {__version__}, Python {platform.python_version()}, {platform.system()}")
    yield _locale_check()
    yield from _home_checks(home())
    try:
        usual_theme()
    except InterlinguaError as error:
        yield Check(_SETTINGS, "problem", str(error))
    yield from _model_checks()
    yield from _key_checks()
    status = sandbox_status()
    yield Check("sandbox", "ok" if status.available else "note", status.reason)
    for name, use in _PROGRAMS.items():
        found = shutil.which(name)
        remedy = "" if found else f"install it for {use}"
        yield Check(name, "ok" if found else "note", found or "not installed", remedy)
    missing = [extra for module, extra in _PACKAGES.items() if not _is_installed(module)]
    remedy = f"pip install 'interlingua[{','.join(missing)}]' adds them" if missing else ""
    yield Check("extras", "note" if missing else "ok", f"without {', '.join(missing)}" if missing else "all", remedy)


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the version of its package
        return False


def _locale_check() -> Check:
    encoding = (sys.stdout.encoding or "").lower()
    if encoding.replace("-", "") == "utf8":
        return Check("terminal", "ok", "UTF-8")
    return Check("terminal", "note", f"{encoding}: other characters are escaped", "use a UTF-8 locale, such as C.UTF-8")


def _home_checks(place: Path) -> Iterator[Check]:
    if not place.exists():
        yield Check("home", "note", f"{short(place)} does not exist yet; it is created on first use")
        return
    if not place.is_dir() or not os.access(place, os.R_OK | os.W_OK | os.X_OK):
        yield Check("home", "problem", f"{place} cannot be written", "repair its permissions, or set INTERLINGUA_HOME")
        return
    others = place.stat().st_mode & 0o022
    state: State = "problem" if others else "ok"
    yield Check(
        "home",
        state,
        short(place) + (" can be changed by others" if others else ""),
        f"chmod go-w {place}" if others else "",
    )
    free = shutil.disk_usage(place).free
    if free < _LITTLE:
        yield Check("disk", "problem", f"{free >> 20} MB left at {place}", "free some space")


_LITTLE = 200 << 20


def _model_checks() -> Iterator[Check]:
    from ..connect import models
    from ..connect.client import default_client

    try:
        aliases = models.load_overrides().aliases
    except InterlinguaError as error:
        yield Check("models.toml", "problem", str(error), "repair the file")
        return
    given = os.environ.get("INTERLINGUA_MODEL") or aliases.get("default")
    if not given:
        yield Check("default model", "note", "none", "`interlingua models default MODEL` sets one")
        return
    try:
        _, model = default_client().find(given)
        yield Check("default model", "ok", f"{model.provider}/{model.id}")
    except InterlinguaError as error:
        yield Check("default model", "problem", str(error))


def _key_checks() -> Iterator[Check]:
    from ..connect.auth.credentials import CredentialStore
    from ..connect.auth.resolver import resolve_auth
    from ..connect.models import known_rows

    store, found = CredentialStore(), []
    for problem in store.problems():
        yield Check("keys", "problem", problem)
    try:
        rows = known_rows()
    except InterlinguaError:
        return  # models.toml, which is reported above
    for provider in rows:
        try:
            auth = resolve_auth(provider, store=store)
        except InterlinguaError as error:
            yield Check("keys", "problem", f"{provider}: {error}")
            continue
        if auth is not None:
            found.append(f"{provider} ({auth.source})")
    remedy = "" if found else "`interlingua auth login PROVIDER` stores one"
    yield Check("keys", "ok" if found else "note", ", ".join(found) or "none found", remedy)


# --- session files ----------------------------------------------------------------------------------------------------


def _shown(source: sources.Source, found: Examined, place: str | None) -> dict[str, Any]:
    return {
        "source": source.name,
        "healthy": not found.findings,
        "findings": [finding._asdict() for finding in found.findings],
        "repaired": place,
    }


def _print_findings(source: sources.Source, found: Examined, place: str | None) -> None:
    out = output.console()
    for finding in found.findings:
        out.print(_line(finding, done=place is not None))
    count = len(found.findings)
    if not count:
        out.print(Text(f"{source.name}: healthy"))
    elif place is not None:
        out.print(Text(f"{source.name}: {output.counted(count, 'finding')}, repaired into {place}"))
    else:
        out.print(Text(f"{source.name}: {output.counted(count, 'finding')}; repair into a new file with -o"))


def _line(finding: RepairFinding, *, done: bool) -> Text:
    where = "end" if finding.line is None else f"line {finding.line}"
    remedy = finding.repair if done else f"would be: {finding.repair}"
    return Text.assemble((where, "bold"), f": {finding.message} ", ("→ ", "dim"), (remedy, "green" if done else "dim"))
