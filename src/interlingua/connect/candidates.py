"""The chain of a call: the models that may answer it, each with the access that belongs to it and to no other.

Access is whatever leads to one provider: key, address, headers, and the settings that an address is made of. What is
given with a call is the first model's; a fallback has its own row, variables and stored credentials, or brings its own.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Required, TypeAlias, TypedDict

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from ..values.errors import FormatError
from ..values.request import ModelDescriptor, StreamOptions
from .overrides import own_notes

Model: TypeAlias = str | ModelDescriptor


class Access(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What leads to one provider; no `repr` shows it."""

    api_key: str | None = None
    base_url: str | None = None
    headers: dict[str, str] | None = None
    settings: dict[str, str] | None = None

    def __repr__(self) -> str:
        return "Access(…)"


ACCESS = Access.__struct_fields__
_NO_ACCESS = dict.fromkeys(ACCESS)


class WithAccess(TypedDict, total=False):
    """A model together with its own access, wherever a further model may be named."""

    model: Required[Model]
    api_key: str
    base_url: str
    headers: dict[str, str]
    settings: dict[str, str]


Fallback: TypeAlias = Model | WithAccess


class Candidate(Struct, frozen=True):
    """A model that may answer a call, and the options for it alone."""

    model: Model
    options: StreamOptions


def chain(model: Model, fallbacks: Fallback | Sequence[Fallback], options: StreamOptions) -> tuple[Candidate, ...]:
    """The candidates of a call in their order. Only the first has the access that `options` bring."""
    others = (fallbacks,) if isinstance(fallbacks, str | ModelDescriptor | Mapping) else tuple(fallbacks)
    without = replace(options, **_NO_ACCESS) if others else options
    return (
        Candidate(model, options),
        *(_candidate(one, without, f"fallbacks[{at}]") for at, one in enumerate(others)),
    )


def _candidate(given: Fallback, options: StreamOptions, path: str) -> Candidate:
    model, access = parted(given, path)
    return Candidate(model, replace(options, **access))


def parted(given: Fallback, path: str) -> tuple[Model, dict[str, Any]]:
    """A model and the access that was given with it."""
    if isinstance(given, str | ModelDescriptor):
        return given, {}
    if not isinstance(given, Mapping) or not isinstance(given.get("model"), str | ModelDescriptor):
        raise FormatError("not a model; give its name, a ModelDescriptor, or {'model': …, 'api_key': …}", path)
    rest = {name: value for name, value in given.items() if name != "model"}
    try:
        access = msgspec.convert(rest, Access)
    except msgspec.ValidationError as error:
        raise FormatError(f"{error}; valid keys: model, {', '.join(ACCESS)}", path) from None
    return given["model"], {name: value for name in ACCESS if (value := getattr(access, name)) is not None}


def place_of(model: Model) -> tuple[str, str | None]:
    """Where a model is asked, as far as its name or description tells. Access to one place is for no other."""
    if isinstance(model, ModelDescriptor):
        return model.provider or f"={model.api}", model.base_url
    return own_notes().aliases.get(model, model).partition("/")[0], None
