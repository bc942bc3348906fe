"""Docstring parsing in the common styles: the summary, and descriptions of parameters or attributes."""

import inspect
import re
from itertools import pairwise

_ARGUMENTS = ("args", "arguments", "attributes", "fields", "parameters", "params", "other parameters", "keyword args")
_SECTION = re.compile(
    rf"(?P<title>{'|'.join(_ARGUMENTS)}|returns?|yields?|raises|examples?|notes?|see also)(?P<colon>:)?",
    re.IGNORECASE,
)
_RULE = re.compile(r"-{3,}")
_GOOGLE = re.compile(r"(?P<name>\*{0,2}\w+)\s*(\([^)]*\))?\s*:\s*(?P<text>.*)")
_NUMPY = re.compile(r"(?P<names>\w+(\s*,\s*\w+)*)(\s*:.*)?")
_SPHINX = re.compile(r":(param|parameter|arg|argument|key|ivar|var)\s+(?:[^:]*?\s)?(?P<name>\w+):\s*(?P<text>.*)")
_SPHINX_OTHER = re.compile(r":(type|returns?|rtype|raises?|yields?)\b")


def parse_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Returns the text before the first section, and the description of each parameter."""
    lines = inspect.cleandoc(text).splitlines()
    starts = [at for at in range(len(lines)) if _starts_section(lines, at)]
    summary = "\n".join(lines[: starts[0]] if starts else lines).strip()
    described: dict[str, str] = {}
    for start, end in pairwise((*starts, len(lines))):
        described |= _section(lines[start:end])
    return summary, {name: given for name, given in described.items() if given}


def _starts_section(lines: list[str], at: int) -> bool:
    line = lines[at].rstrip()
    if line.startswith(":"):
        return bool(_SPHINX.match(line) or _SPHINX_OTHER.match(line))
    title = _SECTION.fullmatch(line)
    return bool(title and (title["colon"] or _ruled(lines, at)))


def _ruled(lines: list[str], at: int) -> bool:
    return at + 1 < len(lines) and bool(_RULE.fullmatch(lines[at + 1].strip()))


def _section(lines: list[str]) -> dict[str, str]:
    if found := _SPHINX.match(lines[0]):
        return {found["name"]: _joined([found["text"], *lines[1:]])}
    title = _SECTION.fullmatch(lines[0].rstrip())
    if not title or title["title"].lower() not in _ARGUMENTS:
        return {}
    return _numpy_section(lines[2:]) if _ruled(lines, 0) else _google_section(lines[1:])


def _google_section(lines: list[str]) -> dict[str, str]:
    described: dict[str, list[str]] = {}
    indent = min((_indent(line) for line in lines if line.strip()), default=0)
    current: list[str] = []
    for line in lines:
        found = _GOOGLE.fullmatch(line.strip()) if _indent(line) == indent else None
        if found:
            current = described.setdefault(found["name"].lstrip("*"), [found["text"]])
        elif line.strip():
            current.append(line)
    return {name: _joined(given) for name, given in described.items()}


def _numpy_section(lines: list[str]) -> dict[str, str]:
    described: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines:
        found = _NUMPY.fullmatch(line.rstrip()) if line.strip() and not _indent(line) else None
        if found:
            current = []
            described |= {name.strip(): current for name in found["names"].split(",")}
        elif line.strip():
            current.append(line)
    return {name: _joined(given) for name, given in described.items()}


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _joined(lines: list[str]) -> str:
    return " ".join(line.strip() for line in lines if line.strip())
