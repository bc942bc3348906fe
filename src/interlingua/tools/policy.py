"""The tool policy: rules over tools, paths, commands and hosts that allow, ask or deny.

Deny beats ask, ask beats allow, in any order. An allow rule applies only if it covers *everything* a call does: each
command of a shell line, each path, each host. A deny or ask rule applies if it matches *anything*. If a command line is
not certain (see shell_line.py), no allow rule for commands applies, and a deny rule that might apply becomes `ask`.

A policy checks arguments before anything runs, and the paths that the file tools locate, before they open or show one.
It does not confine programs: an allowed one can do whatever it can. The sandbox confines those.

A path is read as the file tools read it (see `paths.readings`): each of its readings must be allowed, and none denied.
Judging takes linear time; what is too long to be judged is not allowed.
"""

import itertools
import posixpath
import re
import unicodedata
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr, replace

from ..values.errors import FormatError, ToolInputError
from . import catalog
from .paths import home, patch_paths, readings
from .policy_patterns import (
    PATH_LENGTH,
    Host,
    from_root,
    host_matches,
    host_of,
    host_pattern,
    normal_path,
    path_matches,
)
from .shell_line import SEARCHERS, ShellCommand, ShellLine, Word, read_shell_line, runs_others

Action: TypeAlias = Literal["allow", "ask", "deny"]
Patterns: TypeAlias = str | tuple[str, ...]

GROUPS: dict[str, tuple[str, ...]] = {
    **{f"group:{name}": tools for name, tools in catalog.GROUPS.items()},
    "group:read": ("read", "ls", "find", "grep", "memory_search", "memory_get"),
}

_SEVERITY: dict[Action, int] = {"allow": 0, "ask": 1, "deny": 2}
_PATH_KEYS = (
    *("path", "paths", "file", "files", "file_path", "filepath", "filename", "dir", "directory", "workdir", "cwd"),
    *("root", "folder", "from", "to", "source", "src", "destination", "dest", "target", "old_path", "new_path"),
    *("image", "images"),
)
_COMMAND_KEYS = (
    *("command", "commands", "cmd", "cmds", "script", "scripts", "argv", "command_line", "cmdline", "commandline"),
    *("program", "executable", "exec", "shell", "bash", "run"),
)
_ARGUMENT_KEYS = ("args", "arguments", "argv")  # beside a command: the rest of it
_ENV_KEYS = ("env", "envs", "environ", "environment", "env_vars", "environment_variables")
_HOST_KEYS = ("url", "urls", "uri", "uris", "href", "host", "hosts", "hostname", "base_url", "endpoint")
# Generic names: values under them belong to the enclosing name, as in `{"path": {"value": "x"}}`.
_NAMELESS = ("", "name", "value", "values", "item", "items", "list")
# Suffixes of names that are such arguments too: `shellCommand`, `outputPath`, `config_file`, `gatewayUrl`.
_COMMAND_ENDINGS = ("command", "commands", "cmd", "cmds", "cmdline", "_script", "_scripts", "_argv", "_executable")
_PATH_ENDINGS = ("_path", "_paths", "_file", "_files", "_filename", "_dir", "_directory", "_folder")
_HOST_ENDINGS = ("_url", "_urls", "_uri", "_host", "_hostname", "_endpoint")
_WEB_URL = re.compile(r"\s*@?(https?:.*)", re.IGNORECASE | re.DOTALL)
_URL_IN_WORD = re.compile(r"[a-z][a-z\d+.-]{0,15}://[^\s/?#'\"]+", re.IGNORECASE)
_REGEX_LENGTH = 4096
_MAX_PATHS = 2000  # in one call
_MAX_MOVES = 8  # `cd` in one line whose combinations with its arguments are compared
_MAX_COMBINED = 4  # commands of one object that are read together with the arguments beside them
_MAX_LINES = 500  # in one call
_LISTS = (list, tuple, set, frozenset)
LONG = 2_000  # characters of arguments; more are checked in a thread


@cache
def core_tool_names() -> frozenset[str]:
    """The names of core tools and those that groups name, present or not: policies trust them."""
    return frozenset(
        (*(meta.id for meta in catalog.get_core_tool_catalog()), *(name for some in GROUPS.values() for name in some))
    )


class Rule(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """One rule. All given fields must match; within a list one is enough.

    `tool`: names, globs, or groups (`group:fs`). `path`: globs as in ignore files (`*.pem`, `secrets/`, `src/**`,
    `/etc/**`), for every argument that is a path. `command`: the beginning of a command (`git status`), or `re:` and
    a regular expression. `host`: `example.com`, `.example.com` for it and its subdomains, `*`, with `:port` unless it
    is the default one.
    """

    action: Action
    tool: Patterns = "*"
    path: Patterns = ()
    command: Patterns = ()
    host: Patterns = ()
    reason: str | None = None


class Decision(Struct, frozen=True, kw_only=True):
    """A policy's decision on a call: the action, the reason, and the rule (None: the default)."""

    action: Action
    reason: str
    rule: Rule | None = None


class ApprovalRequest(Struct, frozen=True, kw_only=True, rename="camel"):
    """A request to a person to approve a call."""

    tool_call_id: str
    tool_name: str
    params: dict[str, Any]
    reason: str


class Policy(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """Rules and the default action. `root` lets absolute paths inside it match relative patterns."""

    rules: Sequence[Rule] = ()
    default: Action = "ask"
    root: str | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "rules", tuple(self.rules))
        for at, rule in enumerate(self.rules):
            _check_rule(rule, at)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "Policy":
        """A policy from JSON or TOML data. Raises `FormatError` with the path."""
        try:
            return msgspec.convert(data, cls)
        except msgspec.ValidationError as error:
            raise FormatError(f"not a policy: {error}", "policy") from None

    def decide(self, tool_name: str, params: Mapping[str, Any]) -> Decision:
        """The decision on a call with these arguments."""
        return self._decided(_Call.of(tool_name, params, self.root))

    def judges_paths(self, tool: str) -> bool:
        """Whether a rule for this tool is about paths."""
        return any(rule.path and _names_tool(rule, tool) for rule in self.rules)

    def decide_path(self, tool: str, *names: str) -> Decision:
        """The decision on one located path, given under all its names: without links, relative or absolute."""
        path = _Path(names[0], tuple(dict.fromkeys(from_root(name, self.root) for name in names)), located=True)
        call = _Call(tool, (_Part(f"{tool} of {names[0]}", path=path),), (path,), ShellLine(()), (), self.root, False)
        return self._decided(call)

    def judges_hosts(self, tool: str) -> bool:
        """Whether a rule for this tool is about hosts."""
        return any(rule.host and _names_tool(rule, tool) for rule in self.rules)

    def decide_host(self, tool: str, url: str) -> Decision:
        """The decision on an address that a call is led to, by a redirect."""
        return self.decide(tool, {"url": url})

    def _decided(self, call: "_Call") -> Decision:
        rules = [rule for rule in self.rules if _names_tool(rule, call.tool)]
        restrictions = [
            verdict for rule in rules if rule.action != "allow" and (verdict := _touched(rule, call)) is not None
        ]
        granted = self._granted([rule for rule in rules if rule.action == "allow"], call)
        if restrictions:
            return max([*restrictions, granted], key=lambda decision: _SEVERITY[decision.action])
        return granted

    def _granted(self, rules: Sequence[Rule], call: "_Call") -> Decision:
        """The decision of the allow rules and the default: the strictest over the parts of the call."""
        strictest: Decision | None = None
        for part in call.parts:
            rule = next((rule for rule in rules if _covers(rule, part, call)), None)
            decision = Decision(action=self.default, reason=f"no rule allows {part.label}")
            if rule is not None:
                decision = Decision(action="allow", reason=rule.reason or f"a rule allows {part.label}", rule=rule)
            elif self.default == "allow":
                decision = Decision(action="allow", reason="allowed by default")
            if strictest is None or _SEVERITY[decision.action] > _SEVERITY[strictest.action]:
                strictest = decision
        return strictest or Decision(action=self.default, reason="no rule applies")


class _Path(Struct, frozen=True):
    """A path of a call and its readings: an argument may mean any of them; the names of a located path are one file's.

    `loose` are readings of other programs, for rules that forbid. An empty `readings` is a path that cannot be judged.
    """

    text: str
    readings: tuple[str, ...]
    loose: tuple[str, ...] = ()
    located: bool = False

    @classmethod
    def of(cls, text: str, root: str | None) -> "_Path":
        if len(text) > PATH_LENGTH:
            return cls(_short(text), ())
        loose = normal_path(text, root)
        try:
            found = [from_root(reading, root) for reading in readings(text, home)]
        except ToolInputError:  # no file tool opens it, but another one may
            found = [loose]
        return cls(found[-1], tuple(dict.fromkeys(found)), (loose,))


class _Part(Struct, frozen=True):
    """One effect of a call: a command, a path, a host; or none of these."""

    label: str
    command: ShellCommand | None = None
    path: _Path | None = None
    host: "Host | None" = None


class _Call(Struct, frozen=True):
    """A parsed call: its parts for allow rules; its shell line, paths and hosts for deny and ask rules."""

    tool: str
    parts: tuple[_Part, ...]
    paths: tuple[_Path, ...]
    line: ShellLine
    hosts: tuple[Host, ...]
    root: str | None
    with_env: bool

    @classmethod
    def of(cls, tool: str, params: Mapping[str, Any], root: str | None) -> "_Call":
        line = _shell_line(params)
        texts = list(dict.fromkeys(_paths(params)))
        paths = tuple(_Path.of(text, root) for text in texts[:_MAX_PATHS])
        if len(texts) > _MAX_PATHS:
            paths = (*paths, _Path(f"{len(texts):,} paths", ()))
        hosts = tuple(host_of(text) for text in dict.fromkeys(_addresses(params)))
        commands = [_Part(f"the command {_short(c.text)}", command=c) for c in line.commands if not c.inner]
        if not commands and line.doubt:
            commands = [_Part("the command", command=ShellCommand(()))]
        parts = [
            *commands,
            *([] if commands else [_Part(f"{tool} of {path.text}", path=path) for path in paths]),
            *(_Part(f"{tool} of {host.name or 'this address'}", host=host) for host in hosts),
        ]
        return cls(
            tool=tool,
            parts=tuple(parts or [_Part(tool)]),
            paths=paths,
            line=line,
            hosts=hosts,
            root=root,
            with_env=any(name in _ENV_KEYS and bool(value) for name, value in _fields(params)),
        )


def _covers(rule: Rule, part: _Part, call: _Call) -> bool:
    """Whether an allow rule covers a part; a part without a field that the rule names is not covered."""
    commands, paths, hosts = _several(rule.command), _several(rule.path), _several(rule.host)
    if commands and not (part.command is not None and _allowed_command(commands, part.command, call)):
        return False
    if hosts and not (part.host is not None and any(host_matches(p, part.host, strict=True) for p in hosts)):
        return False
    if not paths:
        return True
    if part.path is not None:
        return _allowed_path(paths, part.path, call.root)
    if part.command is not None and (_leaves_directory(part.command) or any(map(_leads_out, part.command.argv[1:]))):
        return False
    return bool(call.paths) and all(_allowed_path(paths, path, call.root) for path in call.paths)


def _allowed_path(patterns: tuple[str, ...], path: _Path, root: str | None) -> bool:
    matching = [path_matches(patterns, reading, root, strict=True) for reading in path.readings]
    return any(matching) if path.located else bool(matching) and all(matching)


def _leaves_directory(command: ShellCommand) -> bool:
    """Whether a command is `cd` (to the home directory) or `cd -` (to the previous one)."""
    return command.name == "cd" and [word.text for word in command.argv[1:]] in ([], ["-"], ["--"])


def _leads_out(word: Word) -> bool:
    """Whether a word may be a path outside the working directory."""
    return any(piece.startswith(("/", "~")) or ".." in piece.split("/") for piece in _pieces(word))


def _allowed_command(patterns: tuple[str, ...], command: ShellCommand, call: _Call) -> bool:
    """Whether patterns allow a command: only in a certain line, without variables of the call."""
    if call.line.doubt or call.with_env or not command.argv:
        return False
    return any(_begins(pattern, command) for pattern in patterns)


def _begins(pattern: str, command: ShellCommand) -> bool:
    if pattern.startswith("re:"):
        fixed = all(word.fixed for word in command.argv) and len(command.text) <= _REGEX_LENGTH
        return fixed and not runs_others(command) and _regex(pattern[3:]).search(command.text) is not None
    expected = pattern.split()
    given = command.argv[: len(expected)]
    if [word.text for word in given if word.fixed] != expected:
        return False
    if not runs_others(command) or len(command.argv) == 1:
        return True
    if command.name in SEARCHERS:  # `find .` was allowed, not `find . -exec …`
        return False
    return len(expected) > 1 and not re.match(r"[-\d]", expected[-1])


def _touched(rule: Rule, call: _Call) -> Decision | None:
    """The decision of a deny or ask rule: its action if it applies, `ask` if it might."""
    commands, paths, hosts = _several(rule.command), _several(rule.path), _several(rule.host)
    verdicts = [
        _command_verdict(commands, call.line) if commands else "yes",
        _path_verdict(paths, call) if paths else "yes",
        _host_verdict(hosts, call) if hosts else "yes",
    ]
    if "no" in verdicts:
        return None
    if "maybe" in verdicts:
        doubt = call.line.doubt or "its effect is known only when it runs"
        return Decision(action="ask", reason=f"a rule with action {rule.action} may apply: {doubt}", rule=rule)
    named = ", ".join([*commands, *paths, *hosts]) or call.tool
    return Decision(action=rule.action, reason=rule.reason or f"a rule has action {rule.action} for {named}", rule=rule)


_Verdict: TypeAlias = Literal["yes", "no", "maybe"]


def _command_verdict(patterns: tuple[str, ...], line: ShellLine) -> _Verdict:
    verdicts = {_command_touch(pattern, command) for pattern in patterns for command in line.commands}
    if "yes" in verdicts:
        return "yes"
    return "maybe" if "maybe" in verdicts or line.doubt else "no"


def _command_touch(pattern: str, command: ShellCommand) -> _Verdict:
    if pattern.startswith("re:"):
        if _regex(pattern[3:]).search(command.text[:_REGEX_LENGTH]):
            return "yes"
        return "no" if all(word.fixed for word in command.argv) and len(command.text) <= _REGEX_LENGTH else "maybe"
    for at, expected in enumerate(pattern.split()):
        if at >= len(command.argv):
            return "no"
        word = command.argv[at]
        if not word.fixed:
            return "maybe"
        text = word.text.rpartition("/")[2] if at == 0 and "/" not in expected else word.text
        if text.casefold() != expected.casefold():
            return "no"
    return "yes"


def _path_verdict(patterns: tuple[str, ...], call: _Call) -> _Verdict:
    """Checks the path arguments, and for commands every word that may be a path, also after `=` or `:`."""
    arguments = list(
        dict.fromkeys([word for command in call.line.commands for word in command.argv] + list(call.line.files))
    )
    entries = [piece for word in arguments for piece in _pieces(word)]
    moves = [word.text for command in call.line.commands if command.name == "cd" for word in command.argv[1:]]
    paths = [name for path in call.paths for name in (*path.readings, *path.loose)]
    bases = [".", *paths[:_MAX_MOVES], *moves[:_MAX_MOVES]]  # `cd secrets && cat key`, or `cat key` with a workdir
    joined = (normal_path(posixpath.join(base, text), call.root) for text in dict.fromkeys(entries) for base in bases)
    if any(path_matches(patterns, path, call.root, strict=False) for path in itertools.chain(paths, joined)):
        return "yes"
    doubts = call.line.doubt or len(moves) > 1 or any(not word.fixed for word in arguments)
    unclear = any(not path.readings for path in call.paths) or any(len(text) > PATH_LENGTH for text in entries)
    return "maybe" if doubts or unclear or (entries and len(paths) > _MAX_MOVES) else "no"


def _pieces(word: Word) -> list[str]:
    return [word.text, *(piece for piece in re.split(r"[=:,@]|^-\w", word.text) if piece and piece != word.text)]


def _host_verdict(patterns: tuple[str, ...], call: _Call) -> _Verdict:
    """Checks the addresses of a call, and for commands every word that has a URL or may be a host."""
    arguments = [word for command in call.line.commands for word in command.argv]
    hosts = [*call.hosts, *(host_of(url) for word in arguments for url in _URL_IN_WORD.findall(word.text))]
    if any(host_matches(pattern, host, strict=False) for pattern in patterns for host in hosts):
        return "yes"
    bare = {host_of(text) for word in arguments for text in (word.text, word.text.rpartition("@")[2]) if text}
    named = [pattern for pattern in patterns if host_pattern(pattern)[0] != "*"]  # any word may be a host
    if any(host_matches(pattern, replace(host, port=None), strict=False) for pattern in named for host in bare):
        return "yes"
    doubts = call.line.doubt or any(not word.fixed for word in arguments)
    return "maybe" if doubts or any(not host.certain for host in call.hosts) else "no"


# Tools


def _names_tool(rule: Rule, tool: str) -> bool:
    """Matches by name, glob or group; case-insensitive for deny and ask, exact for allow."""
    name = tool if rule.action == "allow" else tool.casefold()
    for pattern in _several(rule.tool):
        if pattern.startswith("group:"):
            if name in GROUPS.get(pattern, ()):
                return True
        elif fnmatchcase(name, pattern if rule.action == "allow" else pattern.casefold()):
            return True
    return False


# Commands


def _shell_line(params: Mapping[str, Any]) -> ShellLine:
    """Command lines of a call, parsed as one.

    A tool may read a value in several ways: one represents the call, the others are `inner`, for rules that forbid.
    """
    found: dict[tuple[str, bool], None] = {}
    doubts: list[str] = []
    for name, value, further in _commands(params):
        found.update(dict.fromkeys(_command_readings(name, value, further, doubts)))
    lines = [(read_shell_line(text), inner) for text, inner in itertools.islice(found, _MAX_LINES)]
    if len(found) > _MAX_LINES:
        doubts.append("it has too many commands to be judged")
    return ShellLine(
        tuple(replace(command, inner=command.inner or inner) for line, inner in lines for command in line.commands),
        doubt=next(filter(None, (*doubts, *(line.doubt for line, _ in lines))), ""),
        files=tuple(file for line, _ in lines for file in line.files),
    )


def _commands(params: Mapping[str, Any]) -> Iterator[tuple[str, Any, list[Any]]]:
    """Returns the arguments that are commands, at any depth: name, value, and the further arguments beside it."""
    waiting: deque[Any] = deque([params])
    while waiting:
        value = waiting.popleft()
        if isinstance(value, Mapping):
            fields = [(_snake(str(key)), item) for key, item in value.items()]
            further = [item for name, item in fields if name in _ARGUMENT_KEYS and item]
            combined = 0
            for name, item in fields:
                if not (name in _COMMAND_KEYS or name.endswith(_COMMAND_ENDINGS)):
                    waiting.append(item)
                elif name in _ARGUMENT_KEYS:
                    yield name, item, []
                else:
                    combined += 1
                    yield name, item, further if combined <= _MAX_COMBINED else further and [{}]
        elif isinstance(value, _LISTS):
            waiting.extend(value)


def _command_readings(name: str, value: Any, further: list[Any], doubts: list[str]) -> Iterator[tuple[str, bool]]:
    """Returns the ways to read a command as a line, each with whether it is `inner`.

    A text is a line; a list is one command of literal arguments, or in `commands` and `script` one line each. A nested
    value, or one that is neither text nor number, is read in every way and remains uncertain.
    """
    if value is None or isinstance(value, bool):  # `shell: true`
        return
    argv, groups, doubt = _flattened(value)
    is_program = bool(argv) and not re.search(r"\s", argv[0])
    is_list = not isinstance(value, str)
    has_lines = is_list and name.endswith(("s", "script"))
    if not is_list:
        yield value, False
    elif doubt or not has_lines or is_program:
        yield _quoted(argv), bool(doubt) or has_lines
    if is_list and (doubt or has_lines or not is_program):
        yield from ((word, bool(doubt) or not has_lines) for word in argv)
    if doubt:
        yield from ((_quoted(group), True) for group in groups)
        doubts.append(doubt)
    if further:
        rest = further[0] if len(further) == 1 else further
        more, _, unclear = _flattened(rest)
        ends = [part if isinstance(part, str) else _quoted(texts) for part, texts in ((value, argv), (rest, more))]
        yield " ".join(ends), bool(doubt or unclear)
        doubts.append(unclear)


def _flattened(value: Any) -> tuple[list[str], list[list[str]], str]:
    """Returns the texts in a value in order, those of each inner list or object, and why they are uncertain."""
    argv: list[str] = []
    groups: list[list[str]] = []
    doubt = ""
    waiting: list[tuple[Any, list[str]]] = [(value, [])]
    while waiting:
        item, group = waiting.pop()
        if isinstance(item, Mapping):
            item, doubt = [part for pair in item.items() for part in pair], "its command is an object"
        elif isinstance(item, _LISTS) and item is not value:
            doubt = "its command is nested"
        if isinstance(item, _LISTS):
            groups.append([])
            waiting += [(part, groups[-1]) for part in reversed([*item])]
        elif isinstance(item, str | float) or (type(item) is int and abs(item) < 1 << 64):
            argv.append(str(item))
            group.append(str(item))
        else:
            doubt = "its command has parts that are not text"
    return argv, groups, doubt


def _quoted(argv: Iterable[str]) -> str:
    return " ".join("'" + word.replace("'", "'\\''") + "'" for word in argv)


@lru_cache(maxsize=256)
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


# Paths


def _paths(params: Mapping[str, Any]) -> Iterable[str]:
    for key, text in _texts(params):
        is_path = _is_path_key(key) and not _is_picture(key, text)
        if is_path or (_is_host_key(key) and text[:5].casefold() == "file:"):
            yield text
        if key in ("input", "patch"):
            yield from patch_paths(text)
    for name, value in _fields(params):
        if _is_path_key(name) and isinstance(value, Mapping):
            yield from (str(key) for key in value if _names_file(name, str(key)))


def _is_path_key(key: str) -> bool:
    return key in _PATH_KEYS or key.endswith(_PATH_ENDINGS)


def _names_file(name: str, key: str) -> bool:
    """Whether a key of an object is a path: `{"files": {"src/a.py": "its text"}}`."""
    if name.endswith("s"):
        own = _snake(key)
        return not (own in _NAMELESS or _is_path_key(own) or _is_host_key(own))
    return re.search(r"[/\\.~]", key) is not None


def _is_picture(key: str, text: str) -> bool:
    """Whether an image is in the text itself or on the web: the image tool takes no such text for a path."""
    return key in ("image", "images") and (
        text[:20].strip().removeprefix("@")[:5].casefold() == "data:" or _WEB_URL.match(text) is not None
    )


# Hosts


def _addresses(params: Mapping[str, Any]) -> Iterable[str]:
    for key, text in _texts(params):
        if _is_host_key(key):
            yield text
        elif key in _PATH_KEYS and (url := _WEB_URL.match(text)):
            yield url[1]
    for name, value in _fields(params):
        if _is_host_key(name) and isinstance(value, Mapping):
            yield from (str(key) for key in value if re.search(r"[/.:]", str(key)))


def _is_host_key(key: str) -> bool:
    return key in _HOST_KEYS or key.endswith(_HOST_ENDINGS)


# Helpers


def _fields(params: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yields the arguments and their contents, at any depth, each with its name."""
    waiting: deque[tuple[str, Any]] = deque([("", params)])
    while waiting:
        around, value = waiting.popleft()
        if isinstance(value, Mapping):
            for key, item in value.items():
                name = _snake(str(key))
                name = around if name in _NAMELESS else name
                yield name, item
                waiting.append((name, item))
        elif isinstance(value, _LISTS):
            waiting.extend((around, item) for item in value)


def _texts(params: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the texts of the arguments, at any depth, each with its name."""
    for name, value in _fields(params):
        waiting = [value]
        while waiting:
            item = waiting.pop()
            if isinstance(item, str):
                yield name, item
            elif isinstance(item, _LISTS):
                waiting += reversed([*item])


def text_size(value: Any) -> int:
    """The number of characters in a value's texts and keys, and of its other parts."""
    size, waiting = 0, [value]
    while waiting:
        item = waiting.pop()
        size += len(item) if isinstance(item, str) else 1
        if isinstance(item, Mapping):
            waiting += [*item, *item.values()]
        elif isinstance(item, _LISTS):
            waiting += item
    return size


def _snake(key: str) -> str:
    """Normalizes a name: `shellCommand`, `shell-command` and `ShellCommand2` become `shell_command`."""
    parted = re.sub(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", unicodedata.normalize("NFKC", key))
    return re.sub(r"[\W_]+", "_", parted).rstrip("_0123456789").lstrip("_").lower()


def _several(patterns: Patterns) -> tuple[str, ...]:
    return (patterns,) if isinstance(patterns, str) else tuple(patterns)


def _short(text: str) -> str:
    return f"`{text if len(text) <= 80 else text[:79] + '…'}`"


def _check_rule(rule: Rule, at: int) -> None:
    for name, patterns in (("tool", rule.tool), ("path", rule.path), ("command", rule.command), ("host", rule.host)):
        for pattern in _several(patterns):
            if not pattern.strip():
                raise FormatError(f"empty {name} pattern; leave {name} out", f"policy.rules[{at}].{name}")
    for pattern in _several(rule.tool):
        if pattern.startswith("group:") and pattern not in GROUPS:
            raise FormatError(
                f"unknown group {pattern!r}; valid groups: {', '.join(GROUPS)}", f"policy.rules[{at}].tool"
            )
    for pattern in _several(rule.command):
        if pattern.startswith("re:"):
            try:
                _regex(pattern[3:])
            except re.error as error:
                raise FormatError(f"not a regular expression: {error}", f"policy.rules[{at}].command") from None


READ_ONLY = Policy(rules=(Rule(action="allow", tool="group:read"),), default="deny")
ASK = Policy(rules=(Rule(action="allow", tool="group:read"),), default="ask")
EDIT = Policy(rules=(*ASK.rules, Rule(action="allow", tool=("write", "edit", "apply_patch"))), default="ask")
# Any command, since the sandbox confines it: use it with `ToolContext(sandboxed=True)`, which runs none without.
BUILD = Policy(rules=(*EDIT.rules, Rule(action="allow", tool=("exec", "process"))), default="ask")
ALLOW = Policy(default="allow")


# Permanent approvals: a policy extended at run time, and the rule for an `always` answer.

_WORD = re.compile(r"[\w./@:+-]+")


class Permissions:
    """A policy extended by what the user always allows."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    def decide(self, tool: str, params: Mapping[str, Any]) -> Decision:
        return self._policy.decide(tool, params)

    def judges_paths(self, tool: str) -> bool:
        return self._policy.judges_paths(tool)

    def decide_path(self, tool: str, *names: str) -> Decision:
        return self._policy.decide_path(tool, *names)

    def judges_hosts(self, tool: str) -> bool:
        return self._policy.judges_hosts(tool)

    def decide_host(self, tool: str, url: str) -> Decision:
        return self._policy.decide_host(tool, url)

    def allow(self, rule: Rule) -> None:
        self._policy = replace(self._policy, rules=(*self._policy.rules, rule))


def standing_rule(tool: str, params: Mapping[str, Any]) -> Rule | None:
    """The rule for `always`: the tool, or a command's beginning; None if no rule would cover the call."""
    command = params.get("command")
    rule = Rule(action="allow", tool=tool)
    if isinstance(command, str):
        read = read_shell_line(command)
        begins = tuple(dict.fromkeys(_beginning(one) for one in read.commands if not one.inner))
        if read.doubt or not begins or not all(begins) or any(map(runs_others, read.commands)):
            return None
        rule = replace(rule, command=begins)
    covered = Policy(rules=(rule,), default="ask").decide(tool, params).action == "allow"
    return rule if covered else None


def _beginning(command: ShellCommand) -> str:
    """The arguments before the first option, as in `git commit`; all arguments if that is only the program."""
    texts = [word.text for word in command.argv]
    if not all(word.fixed and _WORD.fullmatch(word.text) for word in command.argv[:2]):
        return ""
    first = next((at for at, word in enumerate(texts) if at and (word.startswith("-") or not _WORD.fullmatch(word))), 3)
    leading = texts[: min(first, 3)]
    return " ".join(leading if len(leading) > 1 else texts)
