"""Suggestions for a name that does not exist."""

from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], limit: int = 3, cutoff: float = 0.6) -> list[str]:
    """Returns the known names closest to a misspelt one, ignoring case; best first."""
    import difflib  # slow to load, for errors alone

    folded: dict[str, str] = {}
    for one in known:
        folded.setdefault(one.lower(), one)
    close = difflib.get_close_matches(name.lower(), folded, limit, cutoff)
    starts = [one for one in sorted(folded, key=len) if len(name) > 2 and one.startswith(name.lower())]
    return [folded[one] for one in dict.fromkeys((*close, *starts))][:limit]


def unknown(kind: str, name: str, known: Iterable[str], *, listed: str | None = None) -> str:
    """Returns the error message for an unknown name: suggestions, else all names (or `listed`: where they are
    listed).
    """
    names = sorted(known)
    near = nearest(name, names)
    if near:
        remedy = f"did you mean {' or '.join(map(repr, near))}?"
    else:
        remedy = listed or f"valid {kind}s: {', '.join(names)}"
    return f"unknown {kind} {name!r}; {remedy}"
