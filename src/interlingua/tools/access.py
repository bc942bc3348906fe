"""Path and host access of the running call: set from its policy by `call_tool`, checked on each open.

A policy first checks the arguments of a call as written. But a path may go through a link, a search finds paths that no
argument names, and a server redirects. Each path is therefore checked again where it was located, before it is opened
or shown, and each redirect before it is followed. No policy may open Interlingua's own folder of keys and settings: see
`home_below`.
"""

import os
import posixpath
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from ..values.errors import ToolAuthorizationError
from ..values.places import home
from .paths import home as user_home
from .paths import name_text, readings, root_bytes, shown, strip_root

Decide = Callable[..., Any]
"""`Policy.decide_path`, the decision on a located path under all its names, or `Policy.decide_host`, on a URL."""


class PathAccess:
    """The located paths and redirects that one call may follow. `granted` is the policy's decision on the call itself.

    If a person approved the call, paths for which the same rule (or the default) asks are approved with it.
    """

    def __init__(
        self, paths: Decide | None, hosts: Decide | None, tool: str, granted: Any, outer: "PathAccess | None"
    ) -> None:
        self.refused: set[str] = set()
        self._paths, self._hosts, self._tool, self._outer = paths, hosts, tool, outer
        self._approved = granted.action == "ask"
        self._rule = getattr(granted, "rule", None)

    def denial(self, names: tuple[str, ...]) -> str | None:
        """The reason why a path may not be touched; None if it may."""
        reason = self._denied(self._paths, names)
        if reason is not None:
            self.refused.add(names[0])
            return reason
        return None if self._outer is None else self._outer.denial(names)

    def host_denial(self, url: str) -> str | None:
        """The reason why a redirect may not be followed; None if it may."""
        reason = self._denied(self._hosts, (url,))
        return reason if reason is not None or self._outer is None else self._outer.host_denial(url)

    def _denied(self, decide: Decide | None, names: tuple[str, ...]) -> str | None:
        if decide is None:
            return None
        ruling = decide(self._tool, *names)
        asks = self._approved and ruling.action == "ask" and getattr(ruling, "rule", None) in (None, self._rule)
        return None if ruling.action == "allow" or asks else str(ruling.reason)


_current: ContextVar[PathAccess | None] = ContextVar("path_access", default=None)


def enter_access(policy: Any, tool: str, granted: Any) -> PathAccess | None:
    """Starts checking located paths and redirects in the current task, in addition to existing checks.

    Returns None if no rule is for paths or hosts. A custom judge without `decide_path` checks arguments only.
    """
    paths = _judge(policy, "judges_paths", "decide_path", tool)
    hosts = _judge(policy, "judges_hosts", "decide_host", tool)
    if paths is None and hosts is None:
        return None
    access = PathAccess(paths, hosts, tool, granted, _current.get())
    _current.set(access)
    return access


def _judge(policy: Any, judges: str, decide: str, tool: str) -> Decide | None:
    asks: Any = getattr(policy, judges, None)
    decides: Any = getattr(policy, decide, None)
    return decides if asks is not None and decides is not None and asks(tool) else None


def require_redirect(host: str, url: str) -> None:
    """Raises `ToolAuthorizationError` if the running call may not follow a redirect of `host` to `url`."""
    access = _current.get()
    reason = None if access is None else access.host_denial(url)
    if reason is not None:
        raise ToolAuthorizationError(
            f"{host} redirects to an address that is not allowed: {reason}. Fetch that address itself, or ask first."
        )


def permitted(*names: str) -> bool:
    """Whether the running call may touch a located path, given under all its names."""
    access = _current.get()
    return access is None or access.denial(names) is None


def require_permission(given: str, *names: str) -> None:
    """Raises `ToolAuthorizationError`, which names the path as it was given, if the running call may not touch it."""
    access = _current.get()
    reason = None if access is None else access.denial(names)
    if reason is not None:
        raise ToolAuthorizationError(f"{shown(given)}: not allowed: {reason}. Do it another way, or ask first.")


def require_as_written(path: str) -> None:
    """`require_permission` for each reading of a path that was not located: foreign files may have no links."""
    if _current.get() is not None:
        for text in readings(path, user_home):
            require_permission(path, posixpath.normpath(text))


def names_below(root: str | None, path: str) -> tuple[str, ...]:
    """The names of a path below a root: from there, and absolute if the root is known."""
    path = path or "."
    return (path,) if root is None else (path, root if path == "." else f"{root.rstrip('/')}/{path}")


def home_below(root: str) -> tuple[str, ...] | None:
    """Interlingua's own folder as names below a real path `root`; None if it is elsewhere, or `root` lies inside it."""
    inside = strip_root(name_text(os.path.realpath(root_bytes(home()))), (root,))
    return None if inside is None else tuple(name for name in inside.split("/") if name)
