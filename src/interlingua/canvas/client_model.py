"""A canvas in a program: nodes, branches, merges. Pure: what changes is told to a function, which sends it on.

The methods are those of the `llm-canvas` package, with two mistakes put right: a branch is a value of its own, so that
threads and tasks do not move each other's; and nothing is forgotten when a canvas is read back, branches included.
"""

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

from ..values.canonical import plain
from ..values.messages import AssistantMessage, CustomMessage, SystemMessage, ToolResultMessage, UserMessage

Node: TypeAlias = dict[str, Any]
Change: TypeAlias = dict[str, Any]
MAIN = "main"
_MESSAGES = (UserMessage, AssistantMessage, ToolResultMessage, SystemMessage, CustomMessage)


class Branch:
    """A line of nodes that grows. Two branches of one canvas never move each other."""

    def __init__(self, canvas: "LocalCanvas", info: dict[str, Any], *, detached: bool = False) -> None:
        self._canvas = canvas
        self._info = info
        self._detached = detached

    @property
    def name(self) -> str:
        return str(self._info["name"])

    @property
    def description(self) -> str | None:
        return self._info["description"]  # type: ignore[no-any-return]

    @property
    def head_node_id(self) -> str | None:
        return self._info["head_node_id"]  # type: ignore[no-any-return]

    @property
    def branch_info(self) -> dict[str, Any]:
        return dict(self._info)

    def get_head_node(self) -> Node | None:
        return None if self.head_node_id is None else self._canvas.get_node(self.head_node_id)

    def commit_message(self, message: Any, meta: dict[str, Any] | None = None, *, node_id: str | None = None) -> Node:
        """Adds a message behind the head and moves the head to it; a message of the package, or one of ours."""
        return self._canvas._commit(self, message, meta, node_id)

    def listener(self, agent: Any) -> Callable[[Any], None]:
        """What `agent.watch(branch)` subscribes: commits what the agent has said, and then each message as it ends."""
        for message in agent.history.messages:
            self.commit_message(message)

        def listen(event: Any) -> None:
            if event.type == "message_end":
                self.commit_message(event.message)

        return listen

    def update_message(self, node_id: str, updated: Any) -> Node:
        """Puts another message in a node's place: the message, or a node with one."""
        return self._canvas.update_message(node_id, updated)

    def checkout(self, name: str, description: str | None = None, create_if_not_exists: bool = False) -> "Branch":
        """Another branch; a new one begins at this one's head."""
        return self._canvas._branch(name, description, create_if_not_exists, self.head_node_id)

    def merge_from(self, source_branch_names: str | Sequence[str], merge_message: Any) -> Node:
        """One node behind this branch's head that has the heads of other branches as further parents."""
        return self._canvas.merge(source_branch_names, merge_message, self.name)


class LocalCanvas:
    """A canvas as this program sees it. `changed` is called with each change, in order, one at a time."""

    def __init__(
        self,
        changed: Callable[[Change], None],
        canvas_id: str | None = None,
        title: str | None = None,
        description: str | None = None,
    ) -> None:
        self.canvas_id = canvas_id or str(uuid.uuid4())
        self.title = title
        self.description = description
        self.created_at = time.time()
        self.last_updated = self.created_at
        self._changed = changed
        self._lock = threading.RLock()
        self._nodes: dict[str, Node] = {}
        self._listeners: list[Callable[[dict[str, Any]], None]] = []
        self._branches: dict[str, dict[str, Any]] = {MAIN: _info(MAIN, "Main conversation thread", None)}

    def listener(self, agent: Any) -> Callable[[Any], None]:
        """What `agent.watch(canvas)` subscribes: the agent's messages are committed to `main`."""
        return self.checkout(MAIN).listener(agent)

    # --- nodes -------------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> dict[str, Node]:
        return dict(self._nodes)

    def get_node(self, node_id: str) -> Node | None:
        return self._nodes.get(node_id)

    def iter_nodes(self) -> Iterator[Node]:
        return iter(list(self._nodes.values()))

    def add_message(
        self,
        message: Any,
        parent_node_id: str | None = None,
        meta: dict[str, Any] | None = None,
        node_id: str | None = None,
    ) -> Node:
        """Adds a node behind another, or as a root; no branch moves."""
        with self._lock:
            if parent_node_id is not None and parent_node_id not in self._nodes:
                raise KeyError(f"no node {parent_node_id!r}")
            return self._add(message, parent_node_id, meta, node_id, ())

    def _commit(self, branch: Branch, message: Any, meta: dict[str, Any] | None, node_id: str | None) -> Node:
        with self._lock:
            head = branch.head_node_id
            node = self._add(message, head, meta, node_id, (), branch if not branch._detached else None, head)
            branch._info["head_node_id"] = node["id"]
            return node

    def _add(
        self,
        message: Any,
        parent: str | None,
        meta: dict[str, Any] | None,
        node_id: str | None,
        parents: Sequence[str],
        branch: Branch | None = None,
        expect: str | None = None,
    ) -> Node:
        id = node_id or str(uuid.uuid4())
        if id in self._nodes:
            raise ValueError(f"there is a node {id!r} already")
        node: Node = {
            "id": id,
            "message": _encoded(message),
            "parent_id": parent,
            "child_ids": [],
            "meta": {"timestamp": time.time(), **(meta or {})},
        }
        change: Change = {"op": "commit", "canvas": self.canvas_id, "id": id, **_body(message, node)}
        change |= ({"parent": parent} if parent is not None else {}) | ({"parents": list(parents)} if parents else {})
        if branch is not None:
            change |= {"branch": branch.name, "expect": expect}
        self._nodes[id] = node
        for above in (parent, *parents):
            if above is not None:
                self._nodes[above]["child_ids"].append(id)
        self._emit(change, "commit_message", node)
        return node

    def update_message(self, node_id: str, updated: Any) -> Node:
        """Puts another message (or the message of a node) in a node's place; id, parent and children stay."""
        with self._lock:
            node = self._nodes.get(node_id)
            if node is None:
                raise ValueError(f"no node {node_id!r}")
            given = updated if isinstance(updated, dict) and "message" in updated else {"message": updated}
            node["message"] = _encoded(given["message"])
            node["meta"] = {**(node["meta"] or {}), **(given.get("meta") or {})}
            change = {"op": "update", "canvas": self.canvas_id, "id": node_id, **_body(given["message"], node)}
            self._emit(change, "update_message", node)
            return node

    # --- branches ----------------------------------------------------------------------------------------------------

    @property
    def branches(self) -> list[Branch]:
        return [Branch(self, info) for info in self._branches.values()]

    def list_branches(self) -> list[dict[str, Any]]:
        return [dict(info) for info in self._branches.values()]

    def checkout(
        self,
        name: str | None = None,
        description: str | None = None,
        create_if_not_exists: bool = False,
        commit_message: Node | None = None,
    ) -> Branch:
        """A branch by its name; a new one where asked, at a node or at the head of main; or, without a name, a place.

        What is committed to a mere place moves no branch.
        """
        start = commit_message["id"] if commit_message is not None else None
        if start is not None and start not in self._nodes:
            raise ValueError(f"no node {start!r}")
        if name is None:
            if start is None:
                raise ValueError("name a branch, or a node to begin at")
            info = _info(f"detached-{start[:8]}", f"Detached HEAD at {start}", start)
            return Branch(self, info, detached=True)
        main = self._branches.get(MAIN)
        return self._branch(name, description, create_if_not_exists, start or (main["head_node_id"] if main else None))

    def _branch(self, name: str, description: str | None, create: bool, start: str | None) -> Branch:
        with self._lock:
            info = self._branches.get(name)
            if info is None:
                if not create:
                    raise ValueError(f"no branch {name!r}; create it with create_if_not_exists=True")
                info = self._branches[name] = _info(name, description or f"Branch {name}", start)
                change = {"op": "branch", "canvas": self.canvas_id, "branch": name, "head": start}
                self._changed({**change, "description": info["description"]})
            return Branch(self, info)

    def delete_branch(self, name: str) -> None:
        """Takes a branch away; its nodes stay. Main stays as well."""
        with self._lock:
            if name not in self._branches:
                raise ValueError(f"no branch {name!r}")
            if name == MAIN:
                raise ValueError("main stays: delete another branch")
            del self._branches[name]
            self._changed({"op": "branch", "canvas": self.canvas_id, "branch": name, "deleted": True})

    def merge(self, source_branch_names: str | Sequence[str], merge_message: Any, target_branch_name: str) -> Node:
        """One node behind the target's head that has the sources' heads as further parents. All or nothing."""
        names = [source_branch_names] if isinstance(source_branch_names, str) else list(source_branch_names)
        if not names:
            raise ValueError("name at least one branch to merge")
        with self._lock:
            for name in (*names, target_branch_name):
                if name not in self._branches:
                    raise ValueError(f"no branch {name!r}")
            heads = [self._branches[name]["head_node_id"] for name in names]
            for name, head in zip(names, heads, strict=True):
                if head is None:
                    raise ValueError(f"nothing was committed to {name!r}")
            target = self._branches[target_branch_name]
            branch, at = Branch(self, target), target["head_node_id"]
            further = [head for head in dict.fromkeys(heads) if head != at]
            node = self._add(merge_message, at, None, None, further, branch, at)
            target["head_node_id"] = node["id"]
            return node

    def commit_message(self, message: Any, meta: dict[str, Any] | None = None) -> Node:
        """Commits to main."""
        return self.checkout(MAIN).commit_message(message, meta)

    # --- as a whole --------------------------------------------------------------------------------------------------

    def to_summary(self) -> dict[str, Any]:
        return {
            "canvas_id": self.canvas_id,
            "created_at": self.created_at,
            "root_ids": [id for id, node in self._nodes.items() if node.get("parent_id") is None],
            "node_count": len(self._nodes),
            "title": self.title,
            "description": self.description,
            "meta": {"last_updated": self.last_updated},
        }

    def to_canvas_data(self) -> dict[str, Any]:
        return {
            "canvas_id": self.canvas_id,
            "title": self.title,
            "description": self.description,
            "created_at": self.created_at,
            "last_updated": self.last_updated,
            "nodes": dict(self._nodes),
            "branches": self.list_branches(),
        }

    @classmethod
    def from_canvas_data(cls, data: dict[str, Any], changed: Callable[[Change], None] = lambda change: None) -> Any:
        """A canvas as it was written down, with its branches."""
        canvas = cls(changed, data["canvas_id"], data.get("title"), data.get("description"))
        canvas.created_at = data.get("created_at") or canvas.created_at
        canvas.last_updated = data.get("last_updated") or canvas.created_at
        for id, node in data["nodes"].items():
            canvas._nodes[id] = {**node, "child_ids": list(node.get("child_ids") or ())}
        for info in data.get("branches") or ():
            canvas._branches[info["name"]] = dict(info)
        return canvas

    def add_event_listener(self, listener: Callable[[dict[str, Any]], None]) -> None:
        """Calls `listener` with each event of the package's own shape. What it raises does not reach the committer."""
        self._listeners.append(listener)

    def remove_event_listener(self, listener: Callable[[dict[str, Any]], None]) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    def _emit(self, change: Change, event: str, node: Node) -> None:
        self.last_updated = time.time()
        self._changed(change)
        fields = {"event_type": event, "canvas_id": self.canvas_id, "timestamp": self.last_updated, "data": node}
        for listener in [*self._listeners]:
            try:
                listener(fields)
            except Exception:
                _log().exception("a listener of the canvas failed")


def _log() -> Any:
    import logging

    return logging.getLogger(__name__)


def _info(name: str, description: str, head: str | None) -> dict[str, Any]:
    return {"name": name, "description": description, "head_node_id": head, "created_at": time.time()}


def _encoded(message: Any) -> Any:
    return plain(message) if isinstance(message, _MESSAGES) else message


def _body(message: Any, node: Node) -> dict[str, Any]:
    """A message of ours goes as it is; one of the package's as a node of its format."""
    if isinstance(message, _MESSAGES):
        return {"message": plain(message)}
    if not isinstance(message, dict) or "role" not in message:
        raise ValueError("a message is an object with a role and content, or a message of interlingua")
    return {"node": {"id": node["id"], "message": message, "meta": node["meta"]}}
