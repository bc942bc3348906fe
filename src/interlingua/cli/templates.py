"""`interlingua templates`: prompts with parameters, options, tools and a schema, stored by name for `run -t NAME`.

A template is a TOML file in `<home>/templates`. `$name` in its texts is a parameter, `$input` the input of `run`, `$$`
a dollar sign.
"""

import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from ..values.errors import FormatError, InterlinguaError
from ..values.places import home, private_folder
from ..values.regular import read_regular
from .options import JSON, CommandGroup

_PARAMETER = re.compile(r"\$(?:(\$)|([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,100}")
_STARTER = '''\
# What `interlingua run -t {name}` sends. Remove what you do not need.
prompt = """
$input
"""
# system = "You are brief."
# model = "provider/model"
# tools = ["read"]
# schema = "name, age int, bio: one sentence"
# extract = true

# [options]
# temperature = 0.2

# [defaults]
# language = "English"
'''


class Template(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The stored arguments of a run."""

    prompt: str | None = None
    system: str | None = None
    model: str | None = None
    fragments: tuple[str, ...] = ()
    system_fragments: tuple[str, ...] = ()
    attachments: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()
    plugins: tuple[str, ...] = ()
    schema: str | dict[str, Any] | None = None
    schema_multi: str | dict[str, Any] | None = None
    extract: bool = False
    extract_last: bool = False
    options: dict[str, Any] = {}
    defaults: dict[str, str | int | float] = {}

    @property
    def parameters(self) -> list[str]:
        """The names in the texts, without `input`."""
        found = [two or three for _, two, three in _PARAMETER.findall(f"{self.prompt or ''}\n{self.system or ''}")]
        return [name for name in dict.fromkeys(found) if name and name != "input"]

    @property
    def takes_input(self) -> bool:
        return any("input" in found for found in _PARAMETER.findall(f"{self.prompt or ''}\n{self.system or ''}"))

    def filled(self, given: Mapping[str, str], input: str) -> "Template":
        """Returns the template with its parameters replaced. A prompt without `$input` is put before the input."""
        unknown = [name for name in given if name not in self.parameters and name not in self.defaults]
        if unknown:
            known = ", ".join(self.parameters) or "none"
            raise FormatError(f"unknown parameter {unknown[0]!r}; parameters of the template: {known}", "--param")
        values = {**{name: str(value) for name, value in self.defaults.items()}, **given, "input": input}
        missing = [name for name in self.parameters if name not in values]
        if missing:
            raise FormatError(f"the parameter {missing[0]!r} is missing; give it with -p {missing[0]} VALUE", "--param")
        prompt, system = (None if text is None else _filled(text, values) for text in (self.prompt, self.system))
        if not self.takes_input:
            prompt = "\n\n".join(part for part in (prompt, input) if part and part.strip())
        return msgspec.structs.replace(self, prompt=prompt, system=system)

    def joined(self, other: "Template") -> "Template":
        """Joins two templates: texts and lists are concatenated; otherwise `other` wins."""
        fields: dict[str, Any] = {}
        for name in self.__struct_fields__:
            mine, theirs = getattr(self, name), getattr(other, name)
            if name in ("prompt", "system"):
                fields[name] = "\n\n".join(text for text in (mine, theirs) if text) or None
            elif isinstance(mine, tuple):
                fields[name] = tuple(dict.fromkeys((*mine, *theirs)))
            elif name in ("options", "defaults"):
                fields[name] = {**mine, **theirs}
            else:
                fields[name] = theirs or mine
        return Template(**fields)


def _filled(text: str, values: Mapping[str, str]) -> str:
    return _PARAMETER.sub(lambda found: "$" if found[1] else values[found[2] or found[3]], text)


# --- files ------------------------------------------------------------------------------------------------------------


def folder() -> Path:
    return home() / "templates"


def path_of(name: str) -> Path:
    """Returns the file of a template: by its name, or a path that ends in .toml."""
    if name.endswith(".toml"):
        return Path(name).expanduser()
    if not _NAME.fullmatch(name):
        raise InterlinguaError(f"invalid template name {name!r}; use letters, digits and ._-")
    return folder() / f"{name}.toml"


def names() -> list[str]:
    return sorted(path.stem for path in folder().glob("*.toml")) if folder().is_dir() else []


def complete_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """What the shell offers for a template."""
    return [name for name in names() if name.startswith(incomplete)]


def load(name: str) -> Template:
    path = path_of(name)
    try:
        return read(read_regular(path).decode(), str(path))
    except FileNotFoundError:
        import difflib

        near = difflib.get_close_matches(name, names(), 1)
        hint = f"did you mean {near[0]!r}?" if near else "`interlingua templates` lists them"
        raise InterlinguaError(f"no template {name!r}; {hint}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InterlinguaError(f"{path}: not readable: {error}") from None


def read(text: str, where: str) -> Template:
    """Parses a template from TOML."""
    try:
        value = tomllib.loads(text)
        value = {key: (value[key],) if key in _LISTS and isinstance(value[key], str) else value[key] for key in value}
        return msgspec.convert(value, Template)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        known = ", ".join(Template.__struct_fields__)
        raise InterlinguaError(f"{where}: not a template: {error}; a template has: {known}") from None


_LISTS = ("fragments", "system_fragments", "attachments", "tools", "functions", "mcp", "plugins")


def save(name: str, template: Template) -> Path:
    """Writes a template atomically."""
    from ..conversion import local_files

    path = path_of(name)
    private_folder(path.parent)
    with local_files.atomic(path, private=True) as file:
        file.write(_toml(msgspec.to_builtins(template)).encode())
    return path


def _toml(value: dict[str, Any]) -> str:
    plain = [f"{_key(key)} = {_toml_value(item)}" for key, item in value.items() if not isinstance(item, dict)]
    tables = [f"\n[{_key(key)}]\n{_rows(item)}" for key, item in value.items() if isinstance(item, dict)]
    return "\n".join([*plain, *tables]) + "\n"


def _rows(table: dict[str, Any]) -> str:
    return "\n".join(f"{_key(key)} = {_toml_value(item)}" for key, item in table.items())


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml_value(key)


def _toml_value(value: Any) -> str:
    """A TOML value (https://toml.io/en/v1.0.0). Its strings are JSON's, except that DEL must be escaped, too."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)} = {_toml_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    if isinstance(value, str):
        if "\n" in value and "'''" not in value and not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", value):
            return f"'''\n{value}'''"
        return msgspec.json.encode(value).decode().replace("\x7f", "\\u007F")
    return msgspec.json.encode(value).decode()


def combined(chosen: Sequence[str]) -> Template:
    """Returns the named templates as one."""
    template = Template()
    for name in chosen:
        template = template.joined(load(name))
    return template


# --- commands ---------------------------------------------------------------------------------------------------------


@click.group("templates", cls=CommandGroup, invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """List, show, edit and delete the templates of `run -t NAME`."""
    if context.invoked_subcommand is None:
        context.invoke(list_)


@command.command("list")
@JSON
def list_(as_json: bool = False) -> None:
    """List the templates."""
    from . import output

    rows = []
    for name in names():
        try:
            template = load(name)
            row = {"name": name, **msgspec.to_builtins(template), "parameters": template.parameters}
        except InterlinguaError as error:
            row = {"name": name, "error": str(error)}
        rows.append(row)
    if as_json:
        output.print_json(rows)
        return
    width = max((len(row["name"]) for row in rows), default=0)
    for row in rows:
        text = " ".join(str(row.get("error") or row.get("prompt") or row.get("system") or "").split())
        line = f"{row['name']:{width}}  {text}"
        click.echo(line if len(line) <= 100 or not sys.stdout.isatty() else f"{line[:99]}…")
    if not rows:
        click.echo("no templates; `interlingua templates edit NAME` writes one")


@command.command("show")
@click.argument("name", shell_complete=complete_names)
@JSON
def show(name: str, as_json: bool) -> None:
    """Show a template."""
    from . import output

    template = load(name)
    if as_json:
        output.print_json({"name": name, **msgspec.to_builtins(template), "parameters": template.parameters})
    else:
        click.echo(read_regular(path_of(name)).decode().rstrip("\n"))


@command.command("edit")
@click.argument("name", shell_complete=complete_names)
def edit(name: str) -> None:
    """Edit a template in `$EDITOR`; an invalid one is not saved."""
    from ..conversion import local_files

    path = path_of(name)
    old = read_regular(path).decode() if path.is_file() else _STARTER.format(name=name)
    if not sys.stdin.isatty():
        raise FormatError(f"the editor needs a terminal; write the file yourself: {path}", "NAME")
    text = click.edit(old, extension=".toml")
    if text is None:
        click.echo("unchanged", err=True)
        return
    read(text, name)
    private_folder(path.parent)
    with local_files.atomic(path, private=True) as file:
        file.write(text.encode())
    click.echo(str(path))


@command.command("delete")
@click.argument("name", shell_complete=complete_names)
def delete(name: str) -> None:
    """Delete a template."""
    load(name)
    path_of(name).unlink()


@command.command("path")
def path_command() -> None:
    """Print the folder of the templates."""
    click.echo(str(folder()))
