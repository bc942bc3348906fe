"""The inputs of a prompt: arguments, standard input, the editor, fragments, attachments, a schema."""

import os
import re
import select
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..values.errors import FormatError
from ..values.places import home
from ..values.regular import kind_of, read_regular

STDIN = "-"
WAIT = 1.0  # seconds to wait for the first byte of an input that may only be inherited
MAX_FRAGMENT = 20_000_000  # bytes
_UNREAD = "standard input is open but empty: not read; use --prompt-file - to wait for it, or < /dev/null"


# --- standard input ---------------------------------------------------------------------------------------------------


def piped_bytes(*, wait: bool) -> bytes | None:
    """Returns the content of standard input; None on a terminal, or if it is closed.

    Without `wait`, an open but idle pipe is not waited for: a program often leaves its own input open for the programs
    that it starts. A pipeline (`slow | il run …`) is waited for indefinitely.
    """
    try:
        source = sys.stdin.fileno()
        kind = os.fstat(source).st_mode
    except (AttributeError, OSError, ValueError):  # closed, or replaced by something without a file
        return None
    if os.isatty(source) and not wait:
        return None
    if not wait and (stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind)) and not _has_input(source):
        print(f"interlingua: {_UNREAD}", file=sys.stderr)
        return None
    return sys.stdin.buffer.read()


def piped_text(*, wait: bool) -> str | None:
    """`piped_bytes` as text; raises `FormatError` if it is not UTF-8."""
    data = piped_bytes(wait=wait)
    return None if data is None else _decoded(data, "standard input")


def _has_input(source: int) -> bool:
    """Whether input or its end arrives: False for a pipe that only our ancestors, or no visible process, could fill."""
    poll = select.poll()
    poll.register(source, select.POLLIN)
    while not poll.poll(WAIT * 1000):
        # Twice: a writer may hand the pipe on, to another process or descriptor, while we look.
        if not (_is_pipeline(source) or _is_pipeline(source)):
            return bool(poll.poll(0))  # it may also have written and ended meanwhile
    return True


def _is_pipeline(source: int) -> bool:
    """Whether another process could still write: one in a pipeline is not an ancestor, our starter is.

    Without /proc this is unknown; then we wait, since pending input must not be lost.
    """
    try:
        pipe = Path(f"/proc/self/fd/{source}").readlink()
        processes = [int(name) for name in os.listdir("/proc") if name.isdecimal()]  # noqa: PTH208
    except OSError:
        return True
    others = set(processes) - {os.getpid(), *_ancestors()}
    return any(_writes(process, pipe) for process in others)


def _ancestors() -> Iterator[int]:
    process = os.getppid()
    while process > 0:
        yield process
        try:
            text = Path(f"/proc/{process}/stat").read_text("utf-8", "replace")
        except OSError:
            return
        # proc_pid_stat(5): pid (comm) state ppid …; comm may itself have spaces and parentheses.
        process = int(text.rpartition(")")[2].split()[1])


def _writes(process: int, pipe: Path) -> bool:
    """Whether a process has this pipe open for writing."""
    try:
        names = os.listdir(f"/proc/{process}/fd")  # noqa: PTH208
    except OSError:  # it ended, or belongs to another user
        return False
    return any(_opened_for_writing(process, name, pipe) for name in names)


def _opened_for_writing(process: int, name: str, pipe: Path) -> bool:
    try:
        if Path(f"/proc/{process}/fd/{name}").readlink() != pipe:
            return False
        about = Path(f"/proc/{process}/fdinfo/{name}").read_text("utf-8")
        flags = int(about.partition("flags:")[2].split()[0], 8)
    except (OSError, ValueError, IndexError):  # it was closed meanwhile
        return False
    return flags & os.O_ACCMODE != os.O_RDONLY


def _decoded(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise FormatError(
            f"{what} is not UTF-8 (byte {error.start:,}); convert it first, for example with iconv", what
        ) from None


# --- the prompt -------------------------------------------------------------------------------------------------------


def prompt_text(prompt: str | None, file: str | None, *, piped: bool = True, optional: bool = False) -> str:
    """The prompt: the argument, then the file, then standard input."""
    parts = [] if prompt is None else [prompt]
    if file is not None and file != STDIN:
        parts.append(_file_text(Path(file).expanduser(), "--prompt-file", "a prompt"))
    elif piped:
        wait = file == STDIN or (prompt is None and not optional)
        is_terminal = sys.stdin is not None and sys.stdin.isatty()
        found = piped_text(wait=wait) if file == STDIN or not is_terminal else None
        parts += [found] if found and found.strip() else []
    text = "\n\n".join(part.rstrip("\n") for part in parts)
    if not text.strip() and not optional:
        raise FormatError(
            "no prompt; give it as an argument, with --prompt-file, --edit, or on standard input", "PROMPT"
        )
    return text


def edited(text: str) -> str:
    """Returns the text after the user has edited it in `$VISUAL` or `$EDITOR`."""
    import click

    if not sys.stdin.isatty():
        raise FormatError("the editor needs a terminal; give the prompt as an argument", "--edit")
    changed = click.edit(text, extension=".md", require_save=not text)
    if changed is None or not changed.strip():
        raise FormatError("the text from the editor is empty; nothing was sent", "--edit")
    return changed.rstrip("\n")


def _file_text(path: Path, option: str, what: str) -> str:
    try:
        return read_regular(path).decode()
    except OSError as error:
        raise FormatError(f"{path}: not readable as {what}: {error.strerror or error}", option) from None
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: not readable as {what}: {error}", option) from None


# --- fragments --------------------------------------------------------------------------------------------------------


def fragments_folder() -> Path:
    return home() / "fragments"


def fragment(source: str) -> str:
    """A text to put before a prompt: from a name in `<home>/fragments`, a file, a URL, or `-` for standard input."""
    if source == STDIN:
        return piped_text(wait=True) or ""
    if source.startswith(("http://", "https://")):
        return _downloaded(source)
    if re.fullmatch(r"[\w.-]+", source):
        for stored in (fragments_folder() / source, fragments_folder() / f"{source}.md"):
            if stored.is_file():
                return _file_text(stored, "--fragment", "a fragment")
    path = Path(source).expanduser()
    if kind_of(path) is None and not path.is_file():
        raise FormatError(f"no fragment {source!r}; give a file, an address, or a name in {fragments_folder()}", "-f")
    return _file_text(path, "--fragment", "a fragment")


def _downloaded(url: str) -> str:
    import http.client
    import urllib.request

    request = urllib.request.Request(url, headers={"User-Agent": "interlingua", "Accept": "text/*, */*;q=0.1"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            data: bytes = answer.read(MAX_FRAGMENT + 1)
            missing = (answer.length or 0) if len(data) <= MAX_FRAGMENT else 0
    except http.client.HTTPException as error:  # its text comes from the server
        raise FormatError(f"{url}: no valid HTTP answer ({type(error).__name__}); check the address", "-f") from None
    except (OSError, ValueError) as error:  # URLError is an OSError; ValueError: no valid address
        raise FormatError(f"{url}: not fetched: {getattr(error, 'reason', error)}; check the address", "-f") from None
    if len(data) > MAX_FRAGMENT:
        raise FormatError(f"{url}: more than {MAX_FRAGMENT:,} bytes; give a smaller part of it", "-f")
    if missing:
        raise FormatError(f"{url}: cut off, {missing:,} bytes are missing; try again", "-f")
    return _decoded(data, url)


# --- attachments ------------------------------------------------------------------------------------------------------


def attachment(source: str, mime_type: str | None = None) -> Any:
    """Returns the block for a file, a URL, or `-` for standard input; `mime_type` overrides the detected type."""
    from ..conversion.attachments import attached, attached_bytes

    if source != STDIN:
        return attached(source, mime_type)
    data = piped_bytes(wait=True)
    if not data:
        raise FormatError("nothing on standard input to attach; pipe a file into it", "--attach -")
    return attached_bytes(data, mime_type=mime_type)


# --- schemas ----------------------------------------------------------------------------------------------------------

_TYPES = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_FIELD = re.compile(r"([A-Za-z_]\w*)(?:\s+([A-Za-z]+))?\s*(?::\s*(.*))?", re.DOTALL)


def schema(text: str, *, many: bool = False) -> dict[str, Any]:
    """A JSON Schema from JSON, a file, or the shorthand `name, age int, bio: one sentence`; `many`: a list of them."""
    from ..values import jsontext

    try:
        if text.lstrip().startswith(("{", "[")):
            value = jsontext.read(text)
        elif (path := Path(text).expanduser()).is_file() or kind_of(path) is not None:
            value = jsontext.read(_file_text(path, "--schema", "a schema"))
        else:
            value = _shorthand(text)
    except (OSError, FormatError) as error:
        raise FormatError(f"{text}: not a JSON Schema: {error}", "--schema") from None
    if not isinstance(value, dict):
        raise FormatError("not a JSON Schema; use an object", "--schema")
    return listed(value) if many else value


def _shorthand(text: str) -> dict[str, Any]:
    """Parses fields, one per line or comma-separated: a name, a type (default str), and after a colon a description."""
    parts = text.strip().splitlines() if "\n" in text.strip() else text.split(",")
    properties: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in parts)):
        found = _FIELD.fullmatch(part)
        kind = _TYPES.get(found[2] or "str") if found is not None else None
        if found is None or kind is None:
            raise FormatError(
                f"invalid field {part!r}; write NAME, NAME TYPE or NAME TYPE: DESCRIPTION, with the types"
                f" {', '.join(_TYPES)}, or give JSON or a file",
                "--schema",
            )
        if found[1] in properties:
            raise FormatError(f"duplicate field {found[1]!r}; name each once", "--schema")
        properties[found[1]] = {"type": kind, **({"description": found[3].strip()} if found[3] else {})}
    if not properties:
        raise FormatError("no fields; write for example 'name, age int'", "--schema")
    return {"type": "object", "properties": properties, "required": [*properties]}


def listed(one: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a list of these."""
    # The root of an output schema has to be an object (OpenAI, Structured Outputs, "Root objects must not be anyOf and
    # must be an object").
    return {"type": "object", "properties": {"items": {"type": "array", "items": one}}, "required": ["items"]}
