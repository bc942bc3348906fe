"""Where the canvas stores the view state of a session (folds, positions): one file each, removed with the session."""

import hashlib
from pathlib import Path
from urllib.parse import quote


def own_key(agent: str, id: str) -> str:
    """Returns the key of a session of a store, as the canvas has it in its URLs."""
    return f"own~{quote(agent, safe='')}~{quote(id, safe=':@+=')}"


def view_path(home: Path, key: str) -> Path:
    """Returns the file with the view state of the session with this key."""
    name = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
    return home / "canvas" / "views" / f"{name}.json"
