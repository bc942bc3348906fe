"""Names of a package that are imported on first use."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def by_module(modules: Mapping[str, str]) -> dict[str, str]:
    """Returns the module of each name, given the names of each module, separated by spaces."""
    return {name: module for module, names in modules.items() for name in names.split()}


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Returns the `__getattr__` of a package: it imports each name from its module, given relative to the package."""

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f".{modules[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    return find
