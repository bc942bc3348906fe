"""Python types as JSON Schemas, and JSON values as values of Python types.

Dataclasses, named tuples, typed dictionaries, msgspec Structs and pydantic models are objects. Unions, literals, enums,
lists, sets, tuples, mappings and string types (dates, UUIDs, decimals) are supported, and so are recursive types.
Descriptions come from docstrings, `Annotated[int, "how old"]`, `msgspec.Meta` and pydantic's `Field`.
"""

import dataclasses
import enum
import inspect
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from .errors import FormatError

_LISTS = (list, Sequence, Iterable, Collection)
_SETS = (set, frozenset, AbstractSet)
_MAPPINGS = (dict, Mapping, MutableMapping)
# JSON Schema keywords of `annotated_types` constraints (pydantic's Field uses the same).
_BOUNDS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_NO_DEFAULT: Any = object()


class Mismatch(ValueError):
    """A JSON value that does not match a type: where, and why."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(f"{path}: {message}" if path else message)


class Field(NamedTuple):
    """One member of an object. `key` is its name in JSON, `name` in Python."""

    key: str
    name: str
    hint: Any
    default: Any  # as written in a schema; _NO_DEFAULT if there is none, or none that JSON can express
    required: bool


def schema_of(hint: Any, owner: str = "output") -> dict[str, Any]:
    """Returns the JSON Schema of a type. `owner` is named in the error for an unsupported type."""
    schemas = Schemas(owner)
    schema = schemas.of(hint)
    if schema.keys() == {"$ref"}:  # the root is inlined
        name = schema["$ref"].rpartition("/")[2]
        schema = schemas.shared[name] if schemas.uses(name) else schemas.shared.pop(name)
    return {**schema, "$defs": schemas.shared} if schemas.shared else schema


class Schemas:
    """Schemas of several types; those of classes are shared under `$defs`, so that a type may contain itself."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.shared: dict[str, Any] = {}
        self._names: dict[Any, str] = {}

    def of(self, hint: Any) -> dict[str, Any]:
        hint, notes = _unwrapped(hint)
        schema = self._plain(hint)
        extra = _annotations(notes, schema)
        if not extra:
            return schema
        return {"allOf": [schema], **extra} if "$ref" in schema and extra.keys() - {"description"} else schema | extra

    def uses(self, name: str) -> bool:
        """Whether any schema references a shared one."""
        return f'"#/$defs/{name}"' in msgspec.json.encode(self.shared).decode()

    def _plain(self, hint: Any) -> dict[str, Any]:
        origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
        if hint is Any or hint is object:
            return {}
        if hint is None or hint is type(None):
            return {"type": "null"}
        if origin is typing.Literal:
            return {"enum": [one.value if isinstance(one, enum.Enum) else one for one in args]}
        if origin in (typing.Union, types.UnionType):
            return {"anyOf": [self.of(one) for one in args if one is not UnsetType]}
        if origin in _LISTS:
            return {"type": "array", **({"items": self.of(args[0])} if args else {})}
        if origin in _SETS:
            return {"type": "array", "uniqueItems": True, **({"items": self.of(args[0])} if args else {})}
        if origin is tuple:
            return self._tuple(args)
        if origin in _MAPPINGS:
            if args and _unwrapped(args[0])[0] not in (str, Any) and not _is_enum_of_strings(args[0]):
                raise self._refused(hint, "the keys of a JSON object must be strings")
            return {"type": "object", **({"additionalProperties": self.of(args[1])} if args else {})}
        if _is_pydantic(origin):
            return self._pydantic(hint)
        if isinstance(origin, type) and (issubclass(origin, enum.Enum) or _fields_of(origin) is not None):
            return self._class(hint, origin)
        try:
            return dict(msgspec.json.schema(hint))
        except (TypeError, NotImplementedError) as error:
            why = str(error).partition("\n")[0] if str(error).startswith("Type ") else "JSON has no such values"
            raise self._refused(hint, why) from None

    def _tuple(self, args: tuple[Any, ...]) -> dict[str, Any]:
        if not args:
            return {"type": "array"}
        if len(args) == 2 and args[1] is Ellipsis:
            return {"type": "array", "items": self.of(args[0])}
        number = 0 if args == ((),) else len(args)
        each = [self.of(one) for one in args[:number]]
        return {"type": "array", "prefixItems": each, "minItems": number, "maxItems": number, "items": False}

    def _class(self, hint: Any, cls: type) -> dict[str, Any]:
        if hint not in self._names:
            name = self._names[hint] = self._free_name(cls.__name__)
            self.shared[name] = {}  # reserved, for types that contain themselves
            self.shared[name] = _enum(cls) if issubclass(cls, enum.Enum) else self._object(hint, cls)
        return {"$ref": f"#/$defs/{self._names[hint]}"}

    def _object(self, hint: Any, cls: type) -> dict[str, Any]:
        about, described = parse_docstring(_docstring(cls))
        properties: dict[str, Any] = dict(_tag_schema(cls))
        required = list(properties)
        for field in fields_of(hint):
            schema = self.of(field.hint)
            if "description" not in schema and field.name in described:
                schema = {**schema, "description": described[field.name]}
            if field.default is not _NO_DEFAULT:
                schema = {**schema, "default": field.default}
            properties[field.key] = schema
            if field.required:
                required.append(field.key)
        out: dict[str, Any] = {"type": "object", "title": cls.__name__}
        if about:
            out["description"] = about
        out["properties"] = properties
        if required:
            out["required"] = required
        return {**out, "additionalProperties": False}

    def _pydantic(self, hint: Any) -> dict[str, Any]:
        """Returns pydantic's own schema, with nested definitions moved to the root, where references resolve."""
        try:
            schema: dict[str, Any] = hint.model_json_schema(ref_template="#/$defs/{model}")
        except Exception as error:  # any error of pydantic for a type that it cannot express
            raise self._refused(hint, str(error).partition("\n")[0]) from None
        names: dict[str, str] = {}
        for name, one in schema.pop("$defs", {}).items():
            names[name] = name if self.shared.get(name, one) == one else self._free_name(name)
            self.shared[names[name]] = one
        moved = {name: new for name, new in names.items() if name != new}
        if not moved:
            return schema
        for new in names.values():
            self.shared[new] = _renamed(self.shared[new], moved)
        return dict(_renamed(schema, moved))

    def _free_name(self, name: str) -> str:
        names = (name, *(f"{name}{number}" for number in range(2, 1000)))
        return next(one for one in names if one not in self.shared)

    def _refused(self, hint: Any, why: str) -> FormatError:
        shown = getattr(hint, "__name__", None) or str(hint)
        remedy = "use plain types, dataclasses or pydantic models"
        return FormatError(f"the type {shown} has no JSON Schema: {why}; {remedy}", self.owner)


def convert(value: Any, hint: Any, path: str = "") -> Any:
    """Converts a JSON value to the type; raises `Mismatch` if it does not match."""
    hint, _ = _unwrapped(hint)
    origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    if hint is Any or hint is object:
        return value
    if origin is typing.Literal:
        return _literal(value, args, path)
    if origin in (typing.Union, types.UnionType):
        return _one_of(value, args, path)
    if origin in (*_LISTS, *_SETS, tuple):
        return _array(value, origin, args, path)
    if origin in _MAPPINGS:
        _expect(value, dict, "an object", path)
        of_key, of_value = args or (Any, Any)
        return {
            convert(key, of_key, _at(path, key)): convert(one, of_value, _at(path, key)) for key, one in value.items()
        }
    if _is_pydantic(origin):
        return _constructed(lambda: hint.model_validate(value), path)
    if isinstance(origin, type) and not issubclass(origin, enum.Enum) and _fields_of(origin) is not None:
        return _object_of(value, hint, origin, path)
    if hint is int and isinstance(value, float) and value.is_integer():
        return int(value)  # to JSON Schema, 3.0 is an integer
    try:
        return msgspec.convert(value, hint)
    except msgspec.ValidationError as error:
        raise Mismatch(str(error), path) from None


def is_object(schema: Mapping[str, Any]) -> bool:
    """Whether all values of a schema are objects, as providers require of the root."""
    if "$ref" in schema and isinstance(schema["$ref"], str):
        shared = schema.get("$defs", {}).get(schema["$ref"].rpartition("/")[2], {})
        return isinstance(shared, Mapping) and shared.get("type") == "object"
    return schema.get("type") == "object"


def fields_of(hint: Any) -> list[Field]:
    """Returns the members of a type that is an object in JSON; generic arguments are substituted."""
    origin, args = typing.get_origin(hint) or hint, typing.get_args(hint)
    fields = _fields_of(origin) or []
    if not args:
        return fields
    given = dict(zip(getattr(origin, "__parameters__", ()), args, strict=False))
    return [field._replace(hint=_substituted(field.hint, given)) for field in fields]


def _fields_of(cls: Any) -> list[Field] | None:
    """Returns the members of a class; None if it is not an object in JSON."""
    if not isinstance(cls, type):
        return None
    if issubclass(cls, msgspec.Struct):
        if cls.__struct_config__.array_like:
            return None
        return [
            Field(one.encode_name, one.name, one.type, _default(one.default, one.default_factory), one.required)
            for one in msgspec.structs.fields(cls)
        ]
    if not (dataclasses.is_dataclass(cls) or _is_typed_dict(cls) or _is_named_tuple(cls)):
        return None
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise FormatError(
            f"the type {cls.__name__} has a hint that cannot be read: {error}; define it at the top of a module",
            cls.__name__,
        ) from error
    if dataclasses.is_dataclass(cls):
        return [
            Field(
                one.name,
                one.name,
                hints[one.name],
                _default(one.default, one.default_factory, dataclasses.MISSING),
                one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING,
            )
            for one in dataclasses.fields(cls)
            if one.init
        ]
    if _is_typed_dict(cls):
        required = cls.__required_keys__  # type: ignore[attr-defined]
        return [Field(name, name, hint, _NO_DEFAULT, name in required) for name, hint in hints.items()]
    defaults = cls._field_defaults  # type: ignore[attr-defined]
    return [
        Field(name, name, hints.get(name, Any), _default(defaults.get(name, UNSET), UNSET), name not in defaults)
        for name in cls._fields  # type: ignore[attr-defined]
    ]


def _default(value: Any, factory: Any, missing: Any = None) -> Any:
    """Returns a default as it is written in a schema."""
    absent = (missing, msgspec.NODEFAULT, UNSET)
    if not any(factory is one for one in absent) and factory in (list, dict, set, tuple):
        value = factory()
    if any(value is one for one in absent) or value is None:
        return _NO_DEFAULT
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except (TypeError, ValueError):
        return _NO_DEFAULT


def _object_of(value: Any, hint: Any, cls: type, path: str) -> Any:
    _expect(value, dict, "an object", path)
    tag = _tag_schema(cls)
    fields = {field.key: field for field in fields_of(hint)}
    if unknown := [key for key in value if key not in fields and key not in tag]:
        raise Mismatch(f"unknown key {unknown[0]!r}; valid keys: {', '.join(fields)}", path)
    if missing := [key for key, field in fields.items() if field.required and key not in value]:
        raise Mismatch(f"{missing[0]!r} is missing", path)
    for key, schema in tag.items():
        if value.get(key) != schema["enum"][0]:
            raise Mismatch(f"{key!r} must be {schema['enum'][0]!r}", path)
    given = {
        field.name: convert(value[key], field.hint, _at(path, key)) for key, field in fields.items() if key in value
    }
    return given if _is_typed_dict(cls) else _constructed(lambda: cls(**given), path)


def _array(value: Any, origin: Any, args: tuple[Any, ...], path: str) -> Any:
    _expect(value, list, "an array", path)
    if origin is tuple and args and args[-1] is not Ellipsis:
        each: Sequence[Any] = () if args == ((),) else args
        if len(each) != len(value):
            raise Mismatch(f"an array of {len(each)}, not of {len(value)}", path)
    else:
        each = [args[0] if args else Any] * len(value)
    items = [convert(item, one, f"{path}[{at}]") for at, (item, one) in enumerate(zip(value, each, strict=True))]
    if origin is tuple:
        return tuple(items)
    return items if origin in _LISTS else (frozenset if origin is frozenset else set)(items)


def _literal(value: Any, args: tuple[Any, ...], path: str) -> Any:
    for one in args:
        plain = one.value if isinstance(one, enum.Enum) else one
        if plain == value and type(plain) is type(value):
            return one
    raise Mismatch(f"{value!r} is none of {', '.join(repr(getattr(one, 'value', one)) for one in args)}", path)


def _one_of(value: Any, args: tuple[Any, ...], path: str) -> Any:
    """Converts the value to the first member of a union that it matches."""
    problems = []
    for one in args:
        try:
            return convert(value, one, path)
        except Mismatch as problem:
            problems.append(f"{getattr(one, '__name__', one)}: {problem}")
    raise Mismatch(f"fits none of the types ({'; '.join(problems)})", path)


def _constructed(make: Callable[[], Any], path: str) -> Any:
    try:
        return make()
    except (TypeError, ValueError) as error:  # pydantic's errors are ValueErrors, and so are most of `__post_init__`
        raise Mismatch(_listed(error), path) from error


def _listed(error: Exception) -> str:
    """An error in one line; pydantic's are several lines, with addresses that help no model."""
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return " ".join(str(error).split())
    found = ((".".join(map(str, one["loc"])), one["msg"]) for one in errors())
    return "; ".join(f"{place}: {message}" if place else message for place, message in found)


def _expect(value: Any, kind: type, what: str, path: str) -> None:
    if not isinstance(value, kind):
        raise Mismatch(f"must be {what}, not {_kind(value)}", path)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds = {
        bool: "a boolean",
        int: "a number",
        float: "a number",
        str: "a string",
        list: "an array",
        dict: "an object",
    }
    return kinds.get(type(value), type(value).__name__)


def _at(path: str, key: Any) -> str:
    return f"{path}.{key}" if path else str(key)


def _unwrapped(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """Returns a hint without its wrappers, and their annotations."""
    notes: tuple[Any, ...] = ()
    while True:
        origin = typing.get_origin(hint)
        if origin is typing.Annotated:
            hint, notes = hint.__origin__, (*hint.__metadata__, *notes)
        elif origin in (typing.Required, typing.NotRequired, typing.ClassVar, typing.Final):
            (hint,) = typing.get_args(hint)
        elif isinstance(hint, typing.NewType):
            hint = hint.__supertype__
        elif isinstance(hint, typing.TypeVar):
            hint = hint.__bound__ or Any
        elif type(hint).__name__ == "TypeAliasType":  # `type X = …` of Python 3.12
            hint = hint.__value__
        elif isinstance(hint, dataclasses.InitVar):
            hint = hint.type
        else:
            return hint, notes


def _annotations(notes: Iterable[Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the annotations of a type in terms of JSON Schema."""
    found: dict[str, Any] = {}
    length = "Items" if schema.get("type") == "array" else "Length"
    for note in notes:
        if isinstance(note, str):
            found["description"] = note
            continue
        for part in (note, *getattr(note, "metadata", ())):  # pydantic's Field keeps its constraints there
            for name in ("title", "description", "examples", "pattern"):
                if (value := getattr(part, name, None)) is not None and not callable(value):
                    found[name] = list(value) if name == "examples" else value
            found |= {
                word: bound
                for name, word in _BOUNDS.items()
                if isinstance(bound := getattr(part, name, None), int | float)
            }
            if isinstance(multiple := getattr(part, "multiple_of", None), int | float):
                found["multipleOf"] = multiple
            for name in ("min", "max"):
                if isinstance(bound := getattr(part, f"{name}_length", None), int):
                    found[f"{name}{length}"] = bound
        if isinstance(text := getattr(note, "documentation", None), str):  # typing_extensions.Doc
            found["description"] = text
        if isinstance(more := getattr(note, "extra_json_schema", None), dict):
            found |= more
    return found


def _enum(cls: type) -> dict[str, Any]:
    values = [one.value for one in cls]  # type: ignore[attr-defined]
    return {"title": cls.__name__, "enum": values}


def _tag_schema(cls: type) -> dict[str, Any]:
    """The property that identifies a tagged Struct."""
    config = getattr(cls, "__struct_config__", None)
    return {config.tag_field: {"enum": [config.tag]}} if config is not None and config.tag is not None else {}


def _docstring(cls: type) -> str:
    """Returns the class's own docstring; the generated signature of a dataclass or named tuple does not count."""
    text = inspect.cleandoc(cls.__dict__.get("__doc__") or "")
    return "" if text.startswith(f"{cls.__name__}(") else text


def _renamed(node: Any, names: Mapping[str, str]) -> Any:
    if isinstance(node, list):
        return [_renamed(one, names) for one in node]
    if not isinstance(node, dict):
        return node
    prefix = "#/$defs/"
    return {
        key: f"{prefix}{names[value.removeprefix(prefix)]}"
        if key == "$ref" and isinstance(value, str) and value.removeprefix(prefix) in names
        else _renamed(value, names)
        for key, value in node.items()
    }


def _substituted(hint: Any, given: Mapping[Any, Any]) -> Any:
    if isinstance(hint, typing.TypeVar):
        return given.get(hint, hint)
    parameters = getattr(hint, "__parameters__", ())
    if not parameters:
        return hint
    return hint[tuple(given.get(one, one) for one in parameters)]


def _is_pydantic(hint: Any) -> bool:
    return isinstance(hint, type) and hasattr(hint, "model_json_schema") and hasattr(hint, "model_validate")


def _is_typed_dict(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, dict) and hasattr(cls, "__required_keys__")


def _is_named_tuple(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_field_defaults")


def _is_enum_of_strings(hint: Any) -> bool:
    if typing.get_origin(hint) is typing.Literal:
        return all(isinstance(one, str) for one in typing.get_args(hint))
    return isinstance(hint, type) and issubclass(hint, enum.Enum) and all(isinstance(one.value, str) for one in hint)


# --- docstrings -------------------------------------------------------------------------------------------------------

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
