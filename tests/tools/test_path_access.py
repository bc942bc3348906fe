"""A policy denies paths; whatever an argument looks like, no tool opens, shows or changes what lies there."""

import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from interlingua.tools.calling import call_tool
from interlingua.tools.core.apply_patch import apply_patch_tool
from interlingua.tools.core.edit import edit_tool
from interlingua.tools.core.find import find_tool
from interlingua.tools.core.grep import grep_tool
from interlingua.tools.core.ls import ls_tool
from interlingua.tools.core.memory import memory_get_tool, memory_search_tool
from interlingua.tools.core.read import read_tool
from interlingua.tools.core.write import write_tool
from interlingua.tools.fs import memory_bridge
from interlingua.tools.policy import Policy, Rule
from interlingua.tools.tool import Tool, ToolContext, ToolResult
from interlingua.values.messages import TextBlock
from tools.fs.bridges import DictBridge

SECRET = "the-word-nobody-may-see"
DENIED = ("secrets/**", "*.pem", "@team/**", "s\u00e9cret/", "/**/hidden/*", "memory/private.md")
FILES = (
    *("secrets/key.pem", "secrets/deep/er/x.txt", "src/cert.pem", "@team/key", "se\u0301cret/x", "src/hidden/x"),
    *("memory/private.md", "Secrets2.pem"),
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A tree with denied files, doors to them, and a file that may be read."""
    root = tmp_path / "root"
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{SECRET}\n")
    (root / "src/fine.txt").write_text("fine\n")
    (root / "memory/open.md").write_text("fine\n")
    (root / "door.txt").symlink_to("secrets/key.pem")
    (root / "room").symlink_to("secrets")
    (root / "absolute").symlink_to(root / "secrets")
    (root / "far").symlink_to("src/../room/deep")
    (root / "src/up").symlink_to("..")
    return root


def policy_for(root: Path, known: bool = True) -> Policy:
    return Policy((Rule(action="deny", path=DENIED),), default="allow", root=str(root) if known else None)


def state_of(root: Path) -> dict[str, str]:
    return {str(path): path.read_text() for path in sorted(root.rglob("*")) if path.is_file()}


SPELLINGS = [
    *(
        "secrets/key.pem",
        "./secrets/key.pem",
        "src/../secrets/key.pem",
        "SECRETS/../secrets/key.pem",
        "secrets//key.pem",
    ),
    *("xx://../secrets/key.pem", "x://../../secrets/key.pem", "http://../secrets/key.pem", "file:x/../secrets/key.pem"),
    *("data:/../secrets/key.pem", "https:/../secrets/key.pem", "a:b/../secrets/key.pem", "mailto:x/../secrets/key.pem"),
    *("file://{root}/secrets/key.pem", "FILE://{root}/secrets/key.pem", "File:{root}/secrets/key.pem"),
    *("file://localhost{root}/secrets/key.pem", "fi\tle://{root}/secrets/key.pem", "file://{root}/sec\nrets/key.pem"),
    *("file://{root}/secrets/key.p\tem", "file://{root}/secrets/key.pem?x", "file://{root}/secrets/key.pem#x"),
    *("file://{root}/secrets/key.pem?a#b", "file://{root}/secrets/key%2epem", "file://{root}/%73ecrets/key.pem"),
    *("file://{root}/secrets/key.pem\r", "file://{root}/src/..;/secrets/key.pem", "file:\\\\{root}/secrets/key.pem"),
    *("@secrets/key.pem", "@@team/key", "@team/key", "@./@team/key", "@file://{root}/secrets/key.pem?x"),
    *(" secrets/key.pem", "secrets/key.pem ", "\u00a0secrets/key.pem", "secrets\\key.pem", "src\\..\\secrets\\key.pem"),
    *(
        "{root}/secrets/key.pem",
        "{root}/../root/secrets/key.pem",
        "//{root}/secrets/key.pem",
        "{root}/./secrets/key.pem",
    ),
    *(
        "door.txt",
        "room/key.pem",
        "absolute/key.pem",
        "far/er/x.txt",
        "src/up/secrets/key.pem",
        "src/up/src/up/room/key.pem",
    ),
    *("room/deep/er/x.txt", "{root}/room/key.pem", "file://{root}/room/key.pem?x", "@room/key.pem", "src/up/door.txt"),
    *("se\u0301cret/x", "s\u00e9cret/x", "@s\u00e9cret/x", "s\u00e9cret/../se\u0301cret/x", "{root}/s\u00e9cret/x"),
    *("src/hidden/x", "src/up/src/hidden/x", "src/cert.pem", "memory/private.md", "memory/../memory/private.md"),
    *(
        "Secrets2.pem",
        "SECRETS/KEY.PEM",
        "Secrets/key.Pem",
        "secrets",
        "secrets/",
        "room",
        "room/",
        "secrets/deep",
        "far",
    ),
    *("secrets/.", "secrets/deep/..", "./@team", "se\u0301cret", "secrets/new.txt", "room/new/new.txt", "far/new/new"),
]


def calls(path: str) -> list[tuple[str, dict[str, Any]]]:
    """Every way in which a tool takes a path."""
    patch = f"*** Begin Patch\n*** Update File: {path}\n@@\n-a line\n+changed\n*** End Patch"
    move = f"*** Begin Patch\n*** Update File: src/fine.txt\n*** Move to: {path}\n@@\n-fine\n+changed\n*** End Patch"
    return [
        ("read", {"path": path}),
        ("read", {"file_path": path}),
        ("ls", {"path": path, "all": True}),
        ("find", {"pattern": "*", "path": path}),
        ("grep", {"pattern": "nobody", "path": path}),
        ("memory_get", {"path": path}),
        ("write", {"path": path, "content": "changed"}),
        ("edit", {"path": path, "oldText": SECRET, "newText": "changed"}),
        ("apply_patch", {"input": patch}),
        ("apply_patch", {"input": f"*** Begin Patch\n*** Delete File: {path}\n*** End Patch"}),
        ("apply_patch", {"input": move}),
    ]


def tools(context: ToolContext) -> dict[str, Tool]:
    factories = (read_tool, ls_tool, grep_tool, find_tool, write_tool, edit_tool, apply_patch_tool)
    made = [factory(context) for factory in factories]
    if context.root:
        made += [tool for tool in (memory_search_tool(context), memory_get_tool(context)) if tool is not None]
    return {tool.name: tool for tool in made}


def text_of(result: ToolResult) -> str:
    return "".join(block.text for block in result.content if isinstance(block, TextBlock)) + str(result.details)


@pytest.mark.parametrize("known", [True, False], ids=["root", "no root"])
@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_no_spelling_of_a_denied_path_reaches_it(
    root: Path, spelling: str, known: bool, record_property: Any
) -> None:
    """The policy reads a path as the tools do, and the located path is judged again: nothing is shown or changed."""
    path = spelling.format(root=root)
    before, policy, made = state_of(root), policy_for(root, known), tools(ToolContext(root=str(root)))
    tried = 0
    for name, params in calls(path):
        result = await call_tool(made[name], "1", params, policy=policy)
        assert SECRET not in text_of(result), (name, params)
        changed = {key: text for key, text in state_of(root).items() if before.get(key) != text}
        # What was not denied may have been written: a name that is none of the denied ones.
        denied = [
            key for key in changed if policy.decide_path("read", key.removeprefix(f"{root}/"), key).action != "allow"
        ]
        assert [] == denied, (name, params)
        assert all(Path(key).exists() for key in before if SECRET in before[key]), (name, params)
        tried += 1
    record_property("tried", tried)


SEARCHES = [
    *(("grep", {"pattern": pattern, **more}) for pattern in ("nobody", "the-word", ".") for more in (
        {}, {"path": "."}, {"path": "src"}, {"path": "src/up"}, {"glob": "*.pem"}, {"glob": "secrets/**"},
        {"context": 5}, {"glob": "**/*.pem"}, {"glob": "{secrets,src}/**"}, {"literal": True}, {"multiline": True},
        {"ignoreCase": True},
    )),
    *(("find", {"pattern": pattern, **more}) for pattern in (
        "*", "*.pem", "**/*", "secrets/*", "secrets/**", "s*/**", "{secrets,@team}/*", "[s]ecrets/*", "key*", "?ey.pem",
    ) for more in ({}, {"path": "."}, {"path": "src"}, {"path": "src/up"}, {"type": "file"}, {"type": "directory"})),
    *(("ls", {"path": path, "all": True}) for path in (".", "src", "src/up", "memory")),
    *(("memory_search", {"query": query}) for query in ("nobody", "the word nobody may see", "fine")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "params", "programs"),
    [*((*search, True) for search in SEARCHES), *((*search, False) for search in SEARCHES[::5])],
)
async def test_searches_do_not_return_what_is_denied(
    root: Path, name: str, params: dict[str, Any], programs: bool
) -> None:
    """What ripgrep, fd, our own search, listings and the index of notes find is filtered: neither lines nor names."""
    context = ToolContext(root=str(root))
    made = tools(context) | {
        "grep": grep_tool(context, programs=programs),
        "find": find_tool(context, programs=programs),
    }
    result = await call_tool(made[name], "1", params, policy=policy_for(root))
    text = unicodedata.normalize("NFC", text_of(result))
    assert SECRET not in text
    assert not [
        part for part in ("key.pem", "cert.pem", "s\u00e9cret", "hidden/x", "private", "Secrets2") if part in text
    ]


async def test_a_search_says_that_paths_were_left_out(root: Path) -> None:
    """What is not shown is counted, so that nobody takes the list for complete; what is allowed is there."""
    found = await call_tool(tools(ToolContext(root=str(root)))["ls"], "1", {"path": "src"}, policy=policy_for(root))
    assert "fine.txt" in found.text
    assert "left out: the policy does not allow" in found.text


@pytest.mark.parametrize("kind", ["memory", "dict"])
@pytest.mark.parametrize("path", [s for s in SPELLINGS if "{root}" not in s])
async def test_other_files_than_local_ones_are_denied_too(kind: str, path: str, record_property: Any) -> None:
    """A bridge in memory and one that knows the protocol only: the path as written is judged."""
    bridge = memory_bridge() if kind == "memory" else DictBridge()
    for name in FILES:
        await bridge.write_file(name, SECRET)
    made = tools(ToolContext(bridge=bridge))
    tried = [(name, params) for name, params in calls(path) if name in made]
    for name, params in [*tried, ("grep", {"pattern": "nobody"}), ("find", {"pattern": "*.pem"})]:
        result = await call_tool(made[name], "1", params, policy=policy_for(Path("/")))
        assert SECRET not in text_of(result), (name, params)
        assert "secrets/key.pem\n" not in text_of(result)
    assert SECRET == await bridge.read_file("secrets/key.pem")
    record_property("tried", len(tried))


async def test_an_allow_rule_does_not_reach_through_a_link(root: Path) -> None:
    """A link from where reading is allowed to where it is not leads nowhere, also where the default forbids."""
    (root / "src/link.txt").symlink_to("../memory/open.md")
    policy = Policy((Rule(action="allow", path="src/**"),), default="deny", root=str(root))
    read = tools(ToolContext(root=str(root)))["read"]
    assert "fine" in (await call_tool(read, "1", {"path": "src/fine.txt"}, policy=policy)).text
    assert (await call_tool(read, "1", {"path": "src/link.txt"}, policy=policy)).is_error


async def test_an_approval_covers_the_path_that_was_shown_and_no_other(root: Path) -> None:
    """Who approves `door.txt` has not approved what the link leads to under another rule."""
    rules = (Rule(action="ask", path="*.txt"), Rule(action="ask", path="secrets/**"))
    policy = Policy(rules, default="allow", root=str(root))
    read = tools(ToolContext(root=str(root)))["read"]

    async def seen(path: str) -> bool:
        return SECRET in (await call_tool(read, "1", {"path": path}, policy=policy, approve=lambda _: True)).text

    assert [True, False, False] == [await seen(path) for path in ("secrets/key.pem", "door.txt", "room/key.pem")]


async def test_a_tool_inside_a_tool_is_under_both_policies(root: Path) -> None:
    """A tool that calls another one does not lift the rules of its own call."""
    read = tools(ToolContext(root=str(root)))["read"]

    async def execute(tool_call_id: str, params: dict[str, Any]) -> ToolResult:
        return await call_tool(read, "2", {"path": "secrets/key.pem"}, policy=Policy(default="allow"))

    outer = Tool(name="outer", description="", parameters={"type": "object"}, execute=execute)
    assert SECRET in (await call_tool(outer, "1", {}, policy=Policy(default="allow"))).text
    assert SECRET not in (await call_tool(outer, "1", {}, policy=policy_for(root))).text


STEPS = st.sampled_from(
    ["src/../", "./", "src/up/", "room/../", "@", "xx://../", "secrets/../", "src/hidden/../../", "//"]
)


@settings(max_examples=150)
@given(
    before=st.lists(STEPS, max_size=4),
    name=st.sampled_from(FILES),
    after=st.sampled_from(["", "?x", "#x", " ", "/", "/."]),
    url=st.booleans(),
    rand=st.randoms(use_true_random=False),
)
async def test_random_spellings_of_denied_paths_reach_nothing(
    tmp_path_factory: pytest.TempPathFactory, before: list[str], name: str, after: str, url: bool, rand: Any
) -> None:
    """Detours, schemes, escapes, controls and endings in any combination."""
    root = tmp_path_factory.getbasetemp() / "random"
    for one in FILES:
        (root / one).parent.mkdir(parents=True, exist_ok=True)
        (root / one).write_text(SECRET)
    for link, target in (("src/up", ".."), ("room", "secrets")):
        if not (root / link).is_symlink():
            (root / link).symlink_to(target)
    path = "".join(before) + name + after
    if url:
        escaped = "".join(f"%{ord(c):02x}" if c.isascii() and c.isalpha() and rand.random() < 0.2 else c for c in path)
        at = rand.randrange(len(escaped))
        control = rand.choice(["", "\t", "\n"])
        path = f"{rand.choice(['file', 'FILE', 'File'])}://{root}/{escaped[:at]}{control}{escaped[at:]}"
    result = await call_tool(read_tool(ToolContext(root=str(root))), "1", {"path": path}, policy=policy_for(root))
    assert SECRET not in text_of(result)
