"""The shape of the package: who may import whom, what is private, and what names mean.

Read from the source with `ast`, so that imports inside functions and under TYPE_CHECKING count like any other.
"""

import ast
import importlib
import pkgutil
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import NamedTuple

import pytest

import interlingua as il
from interlingua.dialects import DIALECTS, WIRES

ROOT = Path(il.__file__).parent
REPOSITORY = Path(__file__).parent.parent
TOP_LEVEL = {
    *(".ci", ".dockerignore", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "Containerfile", "LICENSE", "Makefile"),
    *("README.md", "SECURITY.md", "bench", "docs", "examples", "interop", "mkdocs.yml", "pyproject.toml"),
    *("requirements-core.lock", "requirements.lock", "src", "tests", "web"),
}

# A package imports only packages of lower rank, or itself. Those of equal rank do not know each other.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("_version",),
    ("values",),
    ("dialects",),
    ("conversion",),
    ("connect", "tools", "sessions"),
    ("agent", "mcp", "testing"),
    ("host",),
    ("plugins", "durable"),
    ("serving",),
    ("gateway", "canvas"),
    ("chat",),
    ("cli",),
)
RANK = {package: rank for rank, packages in enumerate(LAYERS) for package in packages}
# Modules at the root: the public faces. They may import anything, and no package imports them.
FACES = {"__init__", "__main__", "events", "sync", "arrow", "clawtools"}
# Public methods of named tuples, and what other libraries call private.
NOT_PRIVATE = {
    "_field_defaults",
    "_replace",
    "_asdict",
    "_make",
    "_fields",
    "_exit",
    "_xoptions",
    "_recover_pending_workflows",
}
# Private attributes of other libraries that have no public name.
FOREIGN = {
    ("values.places", "_data"),  # of `os.environ`: the dictionary behind it
    ("mcp.stdio", "_transport"),  # of an asyncio process
}
# Modules of a higher layer that are imported on first use, by a name in a string: the tools that need a host are in the
# catalogue of the core tools, and a session opens its canvas.
UPWARDS = {
    ("tools.catalog", "host.session_tools"),
    ("sessions.session", "canvas.opened"),
}
ENTRY_POINTS = {"plugins"}  # a group of entry points, no module to import
# Modules that import others by names in a table, each when it is first used. Whether such a module is in a cycle is not
# checked: what it imports may look names up in it.
BY_NAME = {
    "cli": "the commands",
    "connect.auth.cloud": "botocore, which may be missing",
    "dialects.registry": "wires and file formats",
    "durable.orders": "the functions of a program",
    "sessions.session": "the canvas",
    "tools.catalog": "the core tools",
    "tools.tool": "the settings of the core tools",
}
LAZY_NAMES = {"__init__", "values.lazy"}  # those of packages, which are also imported for type checkers
# File formats that hold the messages of another one.
HELD = {("kiro", "continue_dev"), ("langsmith", "langchain")}
# Every wire's codec has these two: they are the contract of a dialect.
CODEC = {"StreamDecoder", "StreamEncoder"}


class Import(NamedTuple):
    """`source` imports `name` of `target`; both are modules, named from the package on."""

    source: str
    target: str
    name: str
    line: int


@cache
def modules() -> dict[str, Path]:
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if len(parts) > 1 and parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(modules()[module].read_text())


@cache
def imports() -> tuple[Import, ...]:
    return tuple(found for name in modules() for found in _imports_of(name))


def _imports_of(module: str) -> Iterator[Import]:
    is_package = modules()[module].name == "__init__.py" and module != "__init__"
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] == "interlingua":
                    yield Import(module, alias.name.partition(".")[2] or "__init__", "", node.lineno)
        elif isinstance(node, ast.ImportFrom):
            yield from _from(module, package, node)


def _from(module: str, package: list[str], node: ast.ImportFrom) -> Iterator[Import]:
    if node.level:
        base = package[: len(package) - node.level + 1]
        target = ".".join([*base, *([node.module] if node.module else [])])
    elif (node.module or "").partition(".")[0] == "interlingua":
        target = (node.module or "").partition(".")[2]
    else:
        return
    for alias in node.names:
        inner = f"{target}.{alias.name}".lstrip(".")
        if inner in modules():
            yield Import(module, inner, "", node.lineno)
        else:
            yield Import(module, target or "__init__", alias.name, node.lineno)


def _package(module: str) -> str:
    return module.partition(".")[0]


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_version"


def _uses_lazy_names(module: str) -> bool:
    return any(one.name == "lazy_names" for one in imports() if one.source == module)


def _imported(module: str) -> ModuleType:
    return importlib.import_module("interlingua" if module == "__init__" else f"interlingua.{module}")


# --- who imports whom ------------------------------------------------------------------------------------------------


def test_every_package_has_a_rank() -> None:
    """A new package takes its place in the layers before anything imports it."""
    assert {_package(name) for name in modules()} - FACES <= set(RANK)


def test_the_layout_in_contributing_is_the_checked_one() -> None:
    """A reader learns the layers from that table: the same packages, in the same rows."""
    page = (REPOSITORY / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| (`\w+`(?: · `\w+`)*) \|", page.split("## Layout")[1].split("\n## ")[0], re.MULTILINE)
    assert [set(packages) for packages in LAYERS[1:]] == [set(re.findall(r"\w+", row)) for row in rows]


def test_a_layer_imports_only_lower_layers() -> None:
    """Values know nothing, programs know everything, and neighbours of one rank do not know each other."""
    wrong = [
        f"{one.source}:{one.line} imports {one.target}"
        for one in imports()
        if _package(one.source) not in FACES
        and _package(one.source) != _package(one.target)
        and (_package(one.target) in FACES or RANK[_package(one.target)] >= RANK[_package(one.source)])
    ]
    assert [] == wrong


def test_upper_layers_are_named_as_text_only_where_listed() -> None:
    """A module that is imported by a name in a string is an import too. Each of them exists, and the few that lead
    upwards are known.
    """
    named = {
        (module, found[1])
        for module in modules()
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if (found := re.fullmatch(r"interlingua\.([a-z_.]+)(?::\w+)?", node.value))
        if _package(found[1]) in RANK and found[1] not in ENTRY_POINTS
    }
    assert set() == {name for _, name in named if name not in modules()}
    upwards = {(source, name) for source, name in named if RANK[_package(name)] > RANK[_package(source)]}
    assert UPWARDS == upwards


def test_no_name_in_a_string_leads_out_of_its_package() -> None:
    """`import_module("..package")` would be an import that no other test sees."""
    wrong = [
        f"{module}:{node.lineno} {ast.unparse(node)}"
        for module in modules()
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module")
        if any(
            isinstance(part, ast.Constant) and str(part.value).startswith("..")
            for argument in node.args
            for part in ast.walk(argument)
        )
    ]
    assert [] == wrong


def test_there_is_no_import_cycle() -> None:
    """Modules can be put in an order in which each imports only those before it, lazy imports counted."""
    waiting: dict[str, set[str]] = {name: set() for name in modules()}
    for one in imports():
        if one.target != one.source:
            waiting[one.source].add(one.target)
    while free := [name for name, needs in waiting.items() if not needs & waiting.keys()]:
        for name in free:
            del waiting[name]
    # What only imports a cycle is not part of one.
    while loose := [name for name in waiting if not any(name in needs for needs in waiting.values())]:
        for name in loose:
            del waiting[name]
    assert {} == {name: sorted(needs & waiting.keys()) for name, needs in waiting.items()}


def test_modules_that_import_by_name_are_listed() -> None:
    """An import that no statement shows is one that no other test counts."""
    found = {
        module
        for module in modules()
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module")
    }
    assert BY_NAME.keys() | LAZY_NAMES == found


@pytest.mark.parametrize("name", [name for name in modules() if name == "__init__" or _uses_lazy_names(name)])
def test_lazy_names_of_a_package_are_imported_for_type_checkers(name: str) -> None:
    """Each from the module that gives it at run time: there the test of cycles counts them, too."""
    package = vars(_imported(name))
    lazy = {**package["_LAZY"], **package["_MOVED"], "sync": ""} if name == "__init__" else package["_LAZY"]
    blocks = [
        node for node in tree(name).body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    assert lazy == {
        alias.name: one.module or ""
        for block in blocks
        for one in block.body
        if isinstance(one, ast.ImportFrom) and one.level == 1
        for alias in one.names
    }


def test_dialects_do_not_import_one_another() -> None:
    """Each wire and each file format stands alone; what they share is in the modules beside them. Formats that hold the
    messages of another one are listed.
    """
    folders = {
        name for name, path in modules().items() if re.fullmatch(r"dialects\.\w+", name) and path.name == "__init__.py"
    }
    wires = folders - {"dialects.files", "dialects.framing"}

    def owner(module: str) -> str | None:
        return next((wire for wire in wires if module == wire or module.startswith(f"{wire}.")), None)

    wrong = [
        f"{one.source}:{one.line} imports {one.target}"
        for one in imports()
        if owner(one.target) is not None
        and one.source.startswith("dialects.")
        and (owner(one.source) not in (owner(one.target), None) or one.source.startswith("dialects.files."))
    ]
    assert [] == wrong
    assert len(wires) >= 6
    formats = {name for name in modules() if name.startswith("dialects.files.") and _defines(name, "FORMAT")}
    found = {(one.source, one.target) for one in imports() if {one.source, one.target} <= formats}
    assert HELD == {tuple(name.rpartition(".")[2] for name in pair) for pair in found if pair[0] != pair[1]}
    assert len(formats) >= 60


def _defines(module: str, name: str) -> bool:
    return any(
        isinstance(target, ast.Name) and target.id == name
        for node in tree(module).body
        if isinstance(node, ast.Assign | ast.AnnAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    )


# --- what is private -------------------------------------------------------------------------------------------------


def test_private_modules_and_names_are_imported_only_within_their_package() -> None:
    """A leading underscore means: of this package alone."""
    wrong = []
    for one in imports():
        parts = [*one.target.split("."), *([one.name] if one.name else [])]
        for at, part in enumerate(parts):
            # A private module belongs to the package that has it; a private name to the package of its module.
            owner = parts[: max(1, at if at < len(parts) - 1 or not one.name else at - 1)]
            if _is_private(part) and one.source.split(".")[: len(owner)] != owner:
                wrong.append(f"{one.source}:{one.line} imports {'.'.join(parts)}")
    assert [] == wrong


def test_private_attributes_are_used_only_within_their_package() -> None:
    """`value._name` stands only in the package that defines `_name`."""
    defined: dict[str, set[str]] = defaultdict(set)
    for module in modules():
        defined[_package(module)] |= _defined(module)
    wrong = [
        f"{module}:{node.lineno} {ast.unparse(node)}"
        for module in modules()
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Attribute)
        and _is_private(node.attr)
        and node.attr not in defined[_package(module)] | NOT_PRIVATE
    ]
    assert [] == wrong


def test_private_attributes_are_not_used_by_a_name_in_a_string() -> None:
    """`getattr(value, "_name")` is the same reach. Those of other libraries are listed."""
    found = {
        (module, node.args[1].value)
        for module in modules()
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "hasattr", "setattr", "delattr")
        if len(node.args) > 1 and isinstance(node.args[1], ast.Constant) and _is_private(str(node.args[1].value))
        if node.args[1].value not in _defined(module) | NOT_PRIVATE
    }
    assert FOREIGN == found


def _defined(module: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree(module)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                found.add(name)
    return found


# --- names -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name, path in modules().items() if path.name == "__init__.py"])
def test_all_lists_exactly_the_public_names(name: str) -> None:
    """What a package's `__all__` names exists, once; what the package imports for others is in it."""
    module = _imported(name)
    names = list(getattr(module, "__all__", ()))
    assert sorted(set(names)) == sorted(names)
    assert [] == [one for one in names if not hasattr(module, one)]
    if names:
        given = {
            alias.asname or alias.name
            for node in tree(name).body
            if isinstance(node, ast.ImportFrom) and node.level == 1
            for alias in node.names
        }
        made = {node.name for node in tree(name).body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        assert set() == {one for one in given | made if not one.startswith("_")} - set(names)


@pytest.mark.parametrize("name", [name for name, path in modules().items() if path.name == "__init__.py"])
def test_no_module_bears_the_name_of_a_public_function(name: str) -> None:
    """Importing such a module would replace the function in its package."""
    module = _imported(name)
    inner = {found.name for found in pkgutil.iter_modules(module.__path__)}
    # `sync` and `events` are modules on purpose.
    taken = [one for one in inner if one in getattr(module, "__all__", ()) and one not in ("sync", "events")]
    assert [] == taken
    assert [] == [one for one in inner if isinstance(getattr(module, one, None), FunctionType)]


def test_no_two_public_classes_have_the_same_name() -> None:
    """Whoever reads the name of a class knows which one it is. Only codecs have classes of the same names."""
    found: dict[str, list[str]] = defaultdict(list)
    for module in modules():
        for node in tree(module).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name not in CODEC:
                found[node.name].append(module)
    assert {} == {name: places for name, places in found.items() if len(places) > 1}


def test_no_two_modules_have_nearly_the_same_name() -> None:
    """A catalog and a catalogue are one thing too many, and so are two catalogs."""
    names = [name.rpartition(".")[2] for name in modules()]
    assert [] == [name for name in names if f"{name}ue" in names]
    assert 1 == names.count("catalog")


# --- words -----------------------------------------------------------------------------------------------------------

# A private vocabulary costs every reader: names use the field's own terms. Word by word, what to use instead.
STANDARD_TERMS = {
    "said": "encoded, body, emitted",
    "told": "given, provided, value",
    "held": "residual, extra; of a lock: locked, owned",
    "heard": "received, delivered, handled",
    "words": "text, message, reason, label",
    "beneath": "confined",
    "carrying": "execution",
    "carried": "executed",
    "speech": "assistant_encode",
    "hearing": "assistant_decode",
    "growing": "fragments, accumulator, buffer",
    "tape": "buffer",
    "telling": "emitter, dispatch",
    "shelf": "layer",
    "shelves": "layers",
    "lay": "push",
    "lift": "pop",
    "fate": "support",
    "fates": "support",
    "patience": "timeout, deadline",
    "mend": "repair, normalize",
    "mended": "repaired, normalized",
    "minted": "signed, generated",
    "hottest": "max_temperature",
    "most": "max, limit",
    "door": "endpoint, route, operation",
    "doors": "endpoints, routes, operations",
    "skim": "read, scan",
    "skimmed": "read, scanned",
    "skimming": "reading, scanning",
    "gist": "summary, excerpt",
    "keeper": "owner, holder",
    "books": "ledger, accounts",
    "errand": "task, run",
    "kin": "relations",
    "whoever": "caller, client, user",
}
# By module and name, with the reason.
COINED = {"canvas.shapes.words": "a field of the canvas's JSON: a number of words"}


def _names_and_lines(module: str) -> Iterator[tuple[str, int]]:
    """Yields the names that a module defines, with their lines."""
    for node in ast.walk(tree(module)):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()) | ast.arg(arg=name):
                yield name, node.lineno
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.alias(asname=str(name)):
                yield name, node.lineno


def _words(name: str) -> set[str]:
    """Returns the words of a snake_case or CamelCase name, in lower case."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def test_names_use_standard_terms() -> None:
    """No module, class, function, argument, attribute or variable has a word of the private vocabulary."""
    wrong = [
        f"{module}:{line} {name}: instead of {word!r} use {STANDARD_TERMS[word]}"
        for module in modules()
        for name, line in (*_names_and_lines(module), (module.rpartition(".")[2], 1))
        for word in _words(name) & STANDARD_TERMS.keys()
        if f"{module}.{name}" not in COINED
    ]
    assert [] == wrong


@pytest.mark.parametrize("name", sorted(COINED))
def test_exceptions_to_standard_terms_exist(name: str) -> None:
    """An exception that nothing uses is removed."""
    module, _, defined = name.rpartition(".")
    assert defined in dict(_names_and_lines(module))


# --- wires -----------------------------------------------------------------------------------------------------------


def test_no_table_is_keyed_by_wire_names_outside_the_dialects() -> None:
    """What differs between wires is in the `Wire` value; a plugin's wire then works everywhere."""
    names = set(DIALECTS)
    wrong = []
    for module in modules():
        for node in ast.walk(tree(module)) if _package(module) != "dialects" else ():
            if isinstance(node, ast.Dict):
                keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
                # Some providers have the name of their wire: a table of providers has others beside them.
                if keys and 2 * len(names.intersection(keys)) > len(keys):
                    wrong.append(f"{module}:{node.lineno} {keys}")
    assert [] == wrong


def test_no_code_asks_for_a_wire_by_its_name() -> None:
    """Nor is there a comparison with the name of a wire, or a set of such names, outside the dialects."""
    wrong = []
    for module in modules():
        for node in ast.walk(tree(module)) if _package(module) != "dialects" else ():
            if isinstance(node, ast.Compare | ast.Set | ast.MatchValue):
                named = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)} & set(WIRES)
                wrong += [f"{module}:{node.lineno} {ast.unparse(node)}"] if named else []
    assert [] == wrong


# --- repository ------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not (REPOSITORY / ".git").exists(), reason="not a git repository")
def test_top_level_of_the_repository_has_only_known_files() -> None:
    """Files that a script or a test left behind are not committed."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    top = {name.partition("/")[0] for name in listed.stdout.split("\0") if name}
    assert set() == top - TOP_LEVEL
