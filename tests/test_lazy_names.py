"""Packages that import their names on first use."""

import importlib

import pytest


@pytest.mark.parametrize("package", ["conversion", "gateway", "host", "mcp", "sessions", "tools"])
def test_every_public_name_is_there_and_no_other(package: str) -> None:
    """
    Each name of `__all__` can be read and is kept; any other is the usual error.
    """
    module = importlib.import_module(f"interlingua.{package}")

    for name in module.__all__:
        assert getattr(module, name) is vars(module)[name]
    with pytest.raises(AttributeError, match=f"module 'interlingua.{package}' has no attribute 'missing'"):
        _ = module.missing
