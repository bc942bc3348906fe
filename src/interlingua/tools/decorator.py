"""The `tool` decorator: a typed function's signature becomes the schema, its docstring the description."""

import asyncio
import inspect
import re
import types
import typing
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple, overload

import msgspec

from ..values.abort import Abort
from ..values.errors import FormatError, ToolInputError
from ..values.interop import call_contained
from .results import as_result
from .tool import Execute, Tool, ToolResult, ToolUpdateCallback

Function: typing.TypeAlias = Callable[..., Any]


class FunctionTool(Tool, frozen=True, kw_only=True):
    """A tool made from a function; calling it calls the function."""

    function: Function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


@overload
def tool(function: Function, /) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    label: str | None = None,
    owner_only: bool = False,
    sequential: bool = False,
) -> Callable[[Function], FunctionTool]: ...
def tool(
    function: Function | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    label: str | None = None,
    owner_only: bool = False,
    sequential: bool = False,
) -> FunctionTool | Callable[[Function], FunctionTool]:
    """Makes a tool from a sync or async function: `@tool`, or `@tool(name=…, owner_only=True)`.

    Type hints make the schema, defaults make parameters optional, the docstring describes the tool and its parameters
    (Google, NumPy and Sphinx styles, or `Annotated[int, msgspec.Meta(description=…)]`). A parameter of type `Abort`
    receives the signal, one of type `ToolUpdateCallback` the progress callback; the model sees neither. A sync function
    runs in a thread, so it may block.
    """

    def made(function: Function) -> FunctionTool:
        named = name or str(getattr(function, "__name__", type(function).__name__))
        documented, described = parse_docstring(inspect.getdoc(function) or "")
        parameters = _parameters(function, named)
        return FunctionTool(
            name=named,
            description=description or documented or named.replace("_", " "),
            parameters=_schema(parameters, described, named),
            execute=_execute(function, parameters),
            label=label,
            owner_only=owner_only,
            sequential=sequential,
            function=function,
        )

    return made if function is None else made(function)


class _Parameter(NamedTuple):
    name: str
    hint: Any
    default: Any
    positional: bool
    special: typing.Literal["signal", "on_update"] | None

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty


def _parameters(function: Function, named: str) -> list[_Parameter]:
    try:
        hints = typing.get_type_hints(_hinted(function), include_extras=True)
    except NameError as error:
        raise FormatError(f"the tool {named} has a type hint that cannot be read: {error}", named) from error
    return [_parameter(given, hints, named) for given in inspect.signature(function).parameters.values()]


def _hinted(function: Function) -> Any:
    """The object with the type hints: the function, or `__call__` of a callable object."""
    return function if inspect.isroutine(function) else type(function).__call__


def _parameter(given: inspect.Parameter, hints: dict[str, Any], named: str) -> _Parameter:
    if given.kind in (given.VAR_POSITIONAL, given.VAR_KEYWORD):
        raise FormatError(f"the tool {named} takes {given}: name each parameter, so that a model can give it", named)
    hint = hints.get(given.name, Any)
    return _Parameter(given.name, hint, given.default, given.kind is given.POSITIONAL_ONLY, _special(hint))


def _special(hint: Any) -> typing.Literal["signal", "on_update"] | None:
    alone = _without_none(hint)
    if alone is Abort:
        return "signal"
    return "on_update" if alone == ToolUpdateCallback else None


def _without_none(hint: Any) -> Any:
    if typing.get_origin(hint) not in (typing.Union, types.UnionType):
        return hint
    rest = [item for item in typing.get_args(hint) if item is not type(None)]
    return rest[0] if len(rest) == 1 else hint


# --- schema ---------------------------------------------------------------------------------------------------------


def _schema(parameters: list[_Parameter], described: dict[str, str], named: str) -> dict[str, Any]:
    shown = [parameter for parameter in parameters if parameter.special is None]
    try:
        schemas, components = msgspec.json.schema_components(
            [parameter.hint for parameter in shown], schema_hook=_foreign_schema, ref_template="#/$defs/{name}"
        )
    except TypeError as error:
        raise FormatError(f"the tool {named} has a type hint without a JSON Schema: {error}", named) from error
    shared: dict[str, Any] = {}
    for name, schema in components.items():
        _share(name, _hoisted(schema, shared, named), shared, named)
    properties = {
        parameter.name: _property(parameter, _hoisted(schema, shared, named), described.get(parameter.name))
        for parameter, schema in zip(shown, schemas, strict=True)
    }
    out: dict[str, Any] = {"type": "object", "properties": properties}
    if required := [parameter.name for parameter in shown if parameter.required]:
        out["required"] = required
    out["additionalProperties"] = False
    return out | ({"$defs": shared} if shared else {})


def _property(parameter: _Parameter, schema: dict[str, Any], description: str | None) -> dict[str, Any]:
    if description and "description" not in schema:
        schema = {**schema, "description": description}
    if parameter.required or parameter.default is None:
        return schema
    try:
        default = msgspec.json.decode(msgspec.json.encode(parameter.default, enc_hook=_plain))
    except (TypeError, ValueError):
        return schema  # a default without a JSON form is not in the schema
    return {**schema, "default": default}


def _foreign_schema(hint: Any) -> dict[str, Any]:
    if not _is_pydantic(hint):
        raise NotImplementedError
    schema: dict[str, Any] = hint.model_json_schema(ref_template="#/$defs/{model}")
    return schema


def _hoisted(node: Any, shared: dict[str, Any], named: str) -> Any:
    """The schema with pydantic's nested `$defs` moved to the root, where references look for them."""
    if isinstance(node, list):
        return [_hoisted(item, shared, named) for item in node]
    if not isinstance(node, dict):
        return node
    for name, schema in node.get("$defs", {}).items():
        _share(name, schema, shared, named)
    return {key: _hoisted(value, shared, named) for key, value in node.items() if key != "$defs"}


def _share(name: str, schema: Any, shared: dict[str, Any], named: str) -> None:
    if shared.setdefault(name, schema) != schema:
        raise FormatError(f"the tool {named} uses two types with the name {name}: rename one", named)


def _is_pydantic(hint: Any) -> bool:
    return isinstance(hint, type) and hasattr(hint, "model_json_schema") and hasattr(hint, "model_validate")


def _plain(value: Any) -> Any:
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    raise TypeError


# --- running --------------------------------------------------------------------------------------------------------


def _execute(function: Function, parameters: list[_Parameter]) -> Execute:
    runs_itself = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        getattr(function, "__call__", None)  # noqa: B004
    )

    async def execute(
        tool_call_id: str,
        params: dict[str, Any],
        signal: Abort | None = None,
        on_update: ToolUpdateCallback | None = None,
    ) -> ToolResult:
        given = _converted(parameters, params)
        for parameter in parameters:
            if parameter.special is not None:
                value = signal if parameter.special == "signal" else on_update
                given[parameter.name] = _stand_in(parameter) if value is None else value
        args = [
            given.pop(parameter.name) for parameter in parameters if parameter.positional and parameter.name in given
        ]
        if runs_itself:
            value = function(*args, **given)
        else:
            value = await asyncio.to_thread(call_contained, function, *args, **given)
        return as_result(await value if inspect.isawaitable(value) else value)

    return execute


def _stand_in(parameter: _Parameter) -> Any:
    """The value for a signal or callback parameter if the caller passes none."""
    if _without_none(parameter.hint) is not parameter.hint:
        return None
    return Abort() if parameter.special == "signal" else _unhandled


def _unhandled(partial: ToolResult) -> None:
    pass


def _converted(parameters: list[_Parameter], params: dict[str, Any]) -> dict[str, Any]:
    shown = {parameter.name: parameter for parameter in parameters if parameter.special is None}
    if unknown := params.keys() - shown.keys():
        raise ToolInputError(f"unknown argument: {', '.join(sorted(unknown))}; known: {', '.join(shown) or 'none'}")
    if missing := [name for name, parameter in shown.items() if parameter.required and name not in params]:
        raise ToolInputError(f"missing argument: {', '.join(missing)}")
    return {name: _argument(shown[name], value) for name, value in params.items()}


def _argument(parameter: _Parameter, value: Any) -> Any:
    try:
        return msgspec.convert(value, parameter.hint, dec_hook=_foreign_value)
    except (msgspec.ValidationError, ValueError) as error:  # pydantic's errors are ValueErrors
        raise ToolInputError(f"{parameter.name}: {error}") from error


def _foreign_value(hint: Any, value: Any) -> Any:
    return hint.model_validate(value) if _is_pydantic(hint) else value


# --- docstrings -----------------------------------------------------------------------------------------------------

_ARGUMENTS = ("args", "arguments", "parameters", "params", "other parameters", "keyword args")
_SECTION = re.compile(
    rf"(?P<title>{'|'.join(_ARGUMENTS)}|returns?|yields?|raises|examples?|notes?|see also)(?P<colon>:)?",
    re.IGNORECASE,
)
_RULE = re.compile(r"-{3,}")
_GOOGLE = re.compile(r"(?P<name>\*{0,2}\w+)\s*(\([^)]*\))?\s*:\s*(?P<text>.*)")
_NUMPY = re.compile(r"(?P<names>\w+(\s*,\s*\w+)*)(\s*:.*)?")
_SPHINX = re.compile(r":(param|parameter|arg|argument|key)\s+(?:[^:]*?\s)?(?P<name>\w+):\s*(?P<text>.*)")
_SPHINX_OTHER = re.compile(r":(type|returns?|rtype|raises?|yields?)\b")


def parse_docstring(text: str) -> tuple[str, dict[str, str]]:
    """The text before the first section, and the description of each parameter."""
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
