"""The state of a canvas and its access control, which every route works on. The HTTP server is built on it."""

import asyncio
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from .._version import __version__
from ..connect.client import Client
from ..plugins.installed import FOLDER
from ..plugins.manifest import tool_views
from ..serving.access import COOKIE_MAX_AGE, Access, KeyRing, Visitor
from ..values.places import has_package_plugins
from .library import Library
from .live import Feeds, ReportedRun
from .open_sessions import OpenSessions
from .runs import Run, Runs, Toolbox
from .shapes import Me, SourceView, ToolDisplayView
from .watchers import Watcher
from .writers import Lingering, Nodes

MAX_STREAMS = 64
MAX_INSPECTIONS = 2  # at once: each reads a whole path, and threads are left for short requests
LIMITS = {
    "json": 8 << 20,
    "upload": 25 << 20,
    "file": 512 << 20,
    "message": 32 << 20,
    "streams": MAX_STREAMS,
    "runs": 8,
}


class CanvasState(OpenSessions):
    """Open sessions with their runs, watched sources, keys and cookies. `address` and `port` are where it listens."""

    address = ""
    port = 0

    def __init__(
        self,
        library: Library,
        *,
        toolbox: Toolbox | None = None,
        client: Client | None = None,
        watch: Sequence[str] = (),
    ) -> None:
        super().__init__(library)
        self.keys = KeyRing(library.folder / "keys.json")
        self.access = Access(library.folder, self.keys)
        self.runs = Runs(self, toolbox or Toolbox(), client)
        self.lingering = Lingering(self.runs.writers)
        self.nodes = Nodes(library)
        self.feeds = Feeds(self)
        self.streams = 0
        self.inspections = asyncio.Semaphore(MAX_INSPECTIONS)
        self.short_inspections = asyncio.Semaphore(MAX_INSPECTIONS)
        self.watchers = [Watcher(library, given) for given in dict.fromkeys(watch)]

    def _all_runs(self, key: str | None = None) -> list[Run | ReportedRun]:
        return [*self.runs.all(key), *self.feeds.all(key)]

    @property
    def cookie_name(self) -> str:
        """Cookies do not distinguish ports, so their name does: two canvases on one machine do not log each other
        out.
        """
        return f"interlingua_canvas_{self.port}"

    def link(self, path: str = "/", *, scope: Any = "write") -> str:
        """Returns a one-time URL for a browser."""
        return f"{self.address}{path}?token={self.access.new_token(scope)}"

    def frame_link(self, key: str) -> str:
        """Returns a URL at which a notebook shows one session, read-only."""
        return f"{self.address}/embed/{key}?k={self.access.cookie('read', only=key)}"

    def watched_sources(self, counts: dict[str, int]) -> list[SourceView]:
        return [watcher.view(counts.get(watcher.id, 0)) for watcher in self.watchers]

    def set_cookie(self, response: web.StreamResponse, cookie: str) -> None:
        response.set_cookie(
            self.cookie_name, cookie, max_age=COOKIE_MAX_AGE, path="/", httponly=True, samesite="Strict"
        )

    def me(self, visitor: Visitor) -> Me:
        views = tool_views(self.library.home / FOLDER, packages=has_package_plugins())
        return Me(
            scope=visitor.scope,
            csrf=visitor.csrf,
            version=__version__,
            epoch=self.epoch,
            address=self.address,
            capabilities=self.capabilities(),
            limits=LIMITS,
            tool_views={
                name: ToolDisplayView(icon=one.icon, label=one.label, result=one.result) for name, one in views.items()
            },
        )

    def capabilities(self) -> tuple[str, ...]:
        return ("read", "write", "run", "export", *(("tools",) if self.runs.toolbox.listed().tools else ()))
