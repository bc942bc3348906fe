"""Reading the finer counts of a usage object, which may say anything."""

from collections.abc import Mapping
from typing import Any


def count(usage: Mapping[str, Any], name: str, key: str) -> int:
    """A count inside one of the objects of a usage; zero where there is none."""
    inner = usage.get(name)
    number = inner.get(key) if isinstance(inner, dict) else None
    return number if isinstance(number, int) and number > 0 else 0


def items(details: Any, key: str, value: str, counted: str) -> int:
    """The sum over the items of a list that have this value under this key."""
    if not isinstance(details, list):
        return 0
    found = (item.get(counted) for item in details if isinstance(item, dict) and item.get(key) == value)
    return sum(number for number in found if isinstance(number, int))


def tier_names(*given: Any) -> tuple[str, ...]:
    """Those of the values that name a service tier."""
    return tuple(value for value in given if isinstance(value, str) and value)
