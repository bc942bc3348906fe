"""Finds and redacts private data in conversations: keys, tokens, addresses, home folder names, numbers. Pure.

`scan` lists every match in a JSON value, with context; `redact` replaces the chosen ones. Both walk the same strings in
the same order: values, keys, and the text of text documents in base64. A match is identified by its path and its text,
so that a choice made after a scan is still valid when the file is written. Equal texts get equal replacements.
"""

import base64
import binascii
import functools
import hashlib
import ipaddress
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

from msgspec import Struct

AROUND = 40  # characters shown before and after a match
Path: TypeAlias = tuple[str | int, ...]


class Find(Struct, frozen=True, kw_only=True):
    """A match that looks private. `suggested`: it is almost certainly private."""

    id: str
    kind: str
    text: str
    before: str
    after: str
    path: tuple[str | int, ...]
    start: int
    suggested: bool


class Pattern(NamedTuple):
    """A kind of secret; group 1, if there is one, is the private part."""

    kind: str
    regex: re.Pattern[str]
    suggested: bool = True
    check: Callable[[str], bool] = lambda text: True
    needs: Callable[[str], object] | None = None  # true for every text with a match, and faster
    in_word: bool = False  # may match at the beginning of an identifier; others need a sign or a boundary inside


# --- patterns --------------------------------------------------------------------------------------------------------
#
# Every expression is bounded, so that a scan takes linear time.

_ASSIGNED = r"(?:api[_-]?key|secret|token|passw(?:or)?d|pwd|passphrase|access[_-]?key|client[_-]?secret|credential)s?"
SECRET_NAME = re.compile(rf"(?i)(?:^|[_-]|\b){_ASSIGNED}$")
_PLAIN_NAMES = frozenset({"user", "users", "root", "runner", "ubuntu", "app", "home", "shared", "public", "default"})
_NO_DOMAIN = frozenset({"png", "jpg", "jpeg", "gif", "svg", "webp", "js", "ts", "css", "py", "json", "md", "lock"})


def _looks_random(text: str) -> bool:
    """Whether a value is not a word, a variable or a call."""
    return (
        any(c.isdecimal() for c in text)
        and any(c.isalpha() for c in text)
        and not text.startswith(("$", "<", "{", "%", "process.", "os.", "env."))
        and not set(text) & set("()[]{}")
    )


def _is_mail(text: str) -> bool:
    domain = text.rpartition(".")[2]
    return domain.isalpha() and len(domain) >= 2 and domain.lower() not in _NO_DOMAIN


def _digits(text: str) -> str:
    return "".join(c for c in text if c.isdigit())


def _is_card(text: str) -> bool:
    """Whether a number has the checksum and prefix of a payment card."""
    digits = _digits(text)
    # ISO/IEC 7812-1, annex B: every second digit from the right is doubled, and the sum is a multiple of ten.
    doubled = [int(c) * (2 if at % 2 else 1) for at, c in enumerate(reversed(digits))]
    is_valid = sum(n - 9 if n > 9 else n for n in doubled) % 10 == 0
    return 14 <= len(digits) <= 19 and digits[0] in "3456" and is_valid and len(set(digits)) > 1


def _is_iban(text: str) -> bool:
    compact = text.replace(" ", "")
    if not 15 <= len(compact) <= 34:
        return False
    # ISO 13616: the first four characters move to the end, letters count from 10, and the number is 1 modulo 97.
    moved = compact[4:] + compact[:4]
    return int("".join(str(int(c, 36)) for c in moved)) % 97 == 1


def _is_public_address(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).is_global
    except ValueError:
        return False


def _contains(*literals: str) -> Callable[[str], bool]:
    """Returns a test for literals, which is far faster than an expression."""

    def contains(text: str) -> bool:
        for one in literals:  # noqa: SIM110  a generator costs more than the search
            if one in text:
                return True
        return False

    return contains


_digit = re.compile(r"\d").search
_number = re.compile(r"\d[\d ().-]{6}").search
_authorization = _contains("bearer", "basic")
_secret_name = _contains("key", "secret", "token", "passw", "pwd", "passphrase", "credential")
_SHORT = 24  # characters up to which results are cached
_FIELDS = 400  # characters of an object's keys, likewise
_OBJECTS = 1024  # kinds of objects whose keys are cached
_LONG = 24  # characters from which it pays to search for a pattern's fixed text first

# What precedes a match is tested behind its first character, by which `re` finds a place many times faster.
PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        "private key",
        re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]{0,20000}(?:-----END [A-Z ]{0,30}PRIVATE KEY-----)?"),
        needs=_contains("-----BEGIN"),
    ),
    Pattern(
        "key",
        re.compile(
            r"\b(?:sk-[A-Za-z0-9_-]{16,300}|[rs]k_(?:live|test)_[A-Za-z0-9]{10,100}|AIza[A-Za-z0-9_-]{30,45}"
            r"|gh[pousr]_[A-Za-z0-9]{20,260}|github_pat_[A-Za-z0-9_]{20,260}|glpat-[A-Za-z0-9_-]{16,100}"
            r"|xox[abeoprs]-[A-Za-z0-9-]{10,260}|A(?:KIA|SIA)[A-Z0-9]{16}|hf_[A-Za-z0-9]{20,100}|gsk_[A-Za-z0-9]{20,100}"
            r"|xai-[A-Za-z0-9]{20,200}|npm_[A-Za-z0-9]{30,50}|pypi-[A-Za-z0-9_-]{50,300}|SG\.[A-Za-z0-9_.-]{30,100}"
            r"|r8_[A-Za-z0-9]{20,100}|il-[A-Za-z0-9_-]{43}|dop_v1_[a-f0-9]{64}|ya29\.[A-Za-z0-9_-]{20,300})"
        ),
        check=lambda text: any(c.isdigit() for c in text) or text.startswith(("sk-ant-", "sk-proj-")),
        needs=_contains(
            *("sk-", "sk_", "rk_", "AIza", "gh", "glpat-", "xox", "AKIA", "ASIA", "hf_", "gsk_", "xai-", "npm_"),
            *("pypi-", "SG.", "r8_", "il-", "dop_v1_", "ya29."),
        ),
        in_word=True,
    ),
    Pattern(
        "token",
        re.compile(r"\beyJ[A-Za-z0-9_-]{8,4000}\.[A-Za-z0-9_-]{8,8000}\.[A-Za-z0-9_-]{0,2000}"),
        needs=_contains("eyJ"),
    ),
    Pattern(
        "token",
        re.compile(r"(?i)\b(?:bearer|basic)\s{1,3}([A-Za-z0-9._~+/-]{16,4000}={0,2})"),
        check=_looks_random,
        needs=lambda text: _authorization(text.casefold()),
    ),
    Pattern(
        "password",
        re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]{1,20}://([^\s/:@'\"<>]{1,100}:[^\s/@'\"<>]{1,200})@"),
        needs=_contains("://"),
    ),
    Pattern(
        "secret",
        re.compile(
            rf"(?i)\b[A-Za-z_-]{{0,40}}{_ASSIGNED}[\"']?\s{{0,3}}(?:=>|=|:)\s{{0,3}}[\"']?([^\s\"',;&]{{8,300}})"
        ),
        check=_looks_random,
        needs=lambda text: ("=" in text or ":" in text) and _digit(text) and _secret_name(text.casefold()),
    ),
    Pattern(
        "email",
        re.compile(r"(?<![\w.%+-])[\w.%+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}"),
        check=_is_mail,
        needs=_contains("@"),
    ),
    Pattern(
        "path",
        re.compile(r"(?:/home/|/Users/|\b[A-Za-z]:[\\/]{1,2}Users[\\/]{1,2})[^\s/\\:\"'<>|*?`,;)]{1,64}"),
        needs=_contains("/home/", "Users"),
    ),
    Pattern(
        "phone",
        re.compile(r"\+(?<![\w+.-]\+)\d[\d ().-]{7,20}\d(?![\w-])"),
        check=lambda t: 8 <= len(_digits(t)) <= 15,
        needs=_contains("+"),
    ),
    Pattern(
        "phone",
        re.compile(r"[(\d](?<![\w.-][(\d])(?:(?<=\()\d{3}\) ?|(?<=\d)\d\d[ .-])\d{3}[ .-]\d{4}(?![\w-])"),
        needs=_number,
    ),
    Pattern("card", re.compile(r"\d(?<![\w.-]\d)(?:[ -]?\d){13,18}(?![\w.-])"), check=_is_card, needs=_number),
    Pattern(
        "iban",
        re.compile(r"[A-Z](?<!\w[A-Z])[A-Z]\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b"),
        check=_is_iban,
        needs=lambda text: not text.islower(),
        in_word=True,
    ),
    Pattern("social security number", re.compile(r"\d(?<![\w-]\d)\d\d-\d{2}-\d{4}(?![\w-])"), needs=_number),
    Pattern(
        "address",
        re.compile(r"\d(?<![\w.]\d)\d{0,2}(?:\.\d{1,3}){3}(?![\w.])"),
        suggested=False,
        check=_is_public_address,
        needs=_number,
    ),
)


# Patterns with one test are tried together.
_BY_NEED = tuple(
    (needs, tuple(pattern for pattern in PATTERNS if pattern.needs is needs))
    for needs in dict.fromkeys(pattern.needs for pattern in PATTERNS)
)
_IN_WORD = tuple(pattern for pattern in PATTERNS if pattern.in_word)
_known_names: dict[tuple[str, ...], tuple[bool, frozenset[str]]] = {}

# Every match, and every value of a secret field, contains a digit or one of these.
_sign = _contains("@", "-----BEGIN", "://", "/home/", "Users", "eyJ", "sk-")
_IN_SIGNS = b"-:/UJ"  # one at least in each of these but `@`
_USUAL = bytes({*range(128)} - {*b"0123456789@", *_IN_SIGNS})


# --- scanning --------------------------------------------------------------------------------------------------------


def scan(value: Any, also: Collection[str] = ()) -> list[Find]:
    """Returns every match in a JSON value, in text order. `also` holds further texts to find, case-insensitively."""
    if not also and _is_clean(value):
        return []
    literal = [Pattern("pattern", re.compile(re.escape(text), re.IGNORECASE)) for text in also if text]
    patterns = (*literal, *PATTERNS) if literal else PATTERNS
    finds = [find for path, text in _texts(value, ()) for find in _in_text(path, text, patterns)]
    names = sorted({name for find in finds if find.kind == "path" and (name := _home_name(find.text)) is not None})
    if not names:
        return finds
    # The owner of a home folder is named elsewhere, too: in listings, prompts and commits.
    named = Pattern("name", re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, names))})(?!\w)"), suggested=False)
    return [find for path, text in _texts(value, ()) for find in _in_text(path, text, (*patterns, named))]


def redact(value: Any, chosen: Collection[str], also: Collection[str] = (), replacement: str | None = None) -> Any:
    """Returns the value with the chosen matches replaced, by a given text or by the kind and a number."""
    by_path: dict[Path, list[Find]] = {}
    for find in scan(value, also):
        if find.id in chosen:
            by_path.setdefault(find.path, []).append(find)
    return _Redactor(by_path, replacement).value(value, ()) if by_path else value


def _home_name(path: str) -> str | None:
    name = re.split(r"[\\/]", path)[-1]
    return name if len(name) >= 4 and name.lower() not in _PLAIN_NAMES else None


def _is_clean(value: Any) -> bool:
    """Whether certainly nothing in a JSON value matches: the usual case, without the paths of its texts."""
    parts = [value]
    for item in parts:  # also visits items that are appended on the way
        kind = type(item)
        if kind is str:
            if not _is_harmless(item) and _matches(item):
                return False
        elif kind is dict:
            are_harmless, secret = _names(tuple(item))
            if not are_harmless or _is_media(item):
                return False
            if secret and any(type(item[key]) is str and _is_secret_value((key,), item[key]) for key in secret):
                return False
            parts += item.values()
        elif kind is list or kind is tuple:
            parts += item
        elif kind not in _PLAIN:
            return False
    return True


_PLAIN = frozenset({int, float, bool, type(None)})


def _matches(text: str) -> bool:
    """Whether a pattern matches."""
    # An id: many texts are one. Others than ASCII may have a boundary inside, behind a combining accent for one.
    if text.isascii() and text.isidentifier():
        return any((found := one.regex.match(text)) and one.check(found[found.re.groups and 1]) for one in _IN_WORD)
    for needs, patterns in _BY_NEED:
        if needs is None or needs(text):
            for pattern in patterns:
                for found in pattern.regex.finditer(text):
                    if pattern.check(found.group(found.re.groups and 1)):
                        return True
    return False


def _possible(text: str, patterns: Sequence[Pattern]) -> Sequence[Pattern]:
    """The patterns that may match a text; several have the same test."""
    if len(text) <= _LONG:
        return patterns
    passed: dict[Callable[[str], object] | None, bool] = {None: True}
    found = []
    for pattern in patterns:
        needs = pattern.needs
        if needs not in passed:
            passed[needs] = needs is not None and bool(needs(text))
        if passed[needs]:
            found.append(pattern)
    return found


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Yields every text of a JSON value with its path; a key's path ends with `~key`."""
    match value:
        case str():
            yield path, value
        case list() | tuple():
            for at, item in enumerate(value):
                yield from _texts(item, (*path, at))
        case dict():
            document = _document(value)
            for key, item in value.items():
                yield (*path, key, "~key"), key
                if key == "data" and isinstance(item, str) and _is_media(value):
                    if document is not None:
                        yield (*path, key), document
                else:
                    yield from _texts(item, (*path, key))


def _is_media(block: dict[str, Any]) -> bool:
    return block.get("type") in ("image", "audio", "document", "video")


def _document(block: dict[str, Any]) -> str | None:
    """Returns the text of a base64 document, if it is text."""
    kind, data = str(block.get("mimeType") or ""), block.get("data")
    if block.get("type") != "document" or not isinstance(data, str):
        return None
    if not kind.startswith("text/") and "json" not in kind and "xml" not in kind and "yaml" not in kind:
        return None
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, ValueError):
        return None


def _in_text(path: Path, text: str, patterns: Sequence[Pattern]) -> list[Find]:
    """Returns the matches of one text; of overlapping ones, that of the earlier pattern."""
    is_secret = _is_secret_value(path, text)
    if patterns is PATTERNS and not is_secret and _is_harmless(text):
        return []
    taken: list[tuple[int, int, Pattern]] = []
    if is_secret:
        taken.append((0, len(text), _SECRET))
    for pattern in _possible(text, patterns):
        for match in pattern.regex.finditer(text):
            start, end = match.span(match.re.groups and 1)
            if all(end <= a or start >= b for a, b, _ in taken) and pattern.check(text[start:end]):
                taken.append((start, end, pattern))
    return [_find(path, text, *one) for one in sorted(taken, key=lambda one: one[:2])]


def _is_harmless(text: str) -> bool:
    """Returns whether certainly no pattern matches."""
    if len(text) <= _SHORT:
        return _has_no_match(text)
    if text.isascii():
        left = text.encode().translate(None, _USUAL)  # several times as fast as `re`
        return not left or (not left.translate(None, _IN_SIGNS) and not _sign(text))
    return _digit(text) is None and not _sign(text)


@functools.lru_cache(maxsize=4096)
def _has_no_match(text: str) -> bool:
    """Returns whether no pattern matches; cached, since keys, roles and types repeat."""
    return not _matches(text)


def _names(keys: tuple[str, ...]) -> tuple[bool, frozenset[str]]:
    """Whether certainly no pattern matches a key, and the keys of secrets; cached, since objects of one kind have the
    same.
    """
    found = _known_names.get(keys)
    if found is None:
        found = all(map(_is_harmless, keys)), frozenset(filter(SECRET_NAME.search, keys))
        if len(_known_names) >= _OBJECTS:
            _known_names.clear()
        if sum(map(len, keys)) <= _FIELDS:
            _known_names[keys] = found
    return found


_SECRET = Pattern("secret", re.compile(""))


def _is_secret_value(path: Path, text: str) -> bool:
    """Whether the name of the field marks its value as a secret: `{"password": "…"}`."""
    name = path[-1] if path and isinstance(path[-1], str) else ""
    return bool(
        8 <= len(text) <= 4000 and SECRET_NAME.search(name) and not re.search(r"\s", text) and _looks_random(text)
    )


def _find(path: Path, text: str, start: int, end: int, pattern: Pattern) -> Find:
    found = text[start:end]
    place = "/".join(map(str, path))
    digest = hashlib.blake2b(f"{place}\0{start}\0{found}".encode("utf-8", "replace"), digest_size=9).hexdigest()
    before, after = text[max(0, start - AROUND) : start], text[end : end + AROUND]
    return Find(
        id=digest,
        kind=pattern.kind,
        text=found,
        before=before,
        after=after,
        path=path,
        start=start,
        suggested=pattern.suggested,
    )


# --- replacing -------------------------------------------------------------------------------------------------------


class _Redactor:
    def __init__(self, finds: dict[Path, list[Find]], replacement: str | None) -> None:
        self._finds = finds
        self._replacement = replacement
        self._numbers: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}

    def value(self, value: Any, path: Path) -> Any:
        match value:
            case str():
                return self._text(value, path)
            case list() | tuple():
                return [self.value(item, (*path, at)) for at, item in enumerate(value)]
            case dict():
                return self._fields(value, path)
            case _:
                return value

    def _fields(self, value: dict[str, Any], path: Path) -> dict[str, Any]:
        out: dict[str, Any] = {}
        document = _document(value)
        for key, item in value.items():
            name = self._text(key, (*path, key, "~key"))
            while name in out:  # two keys that differed only in the replaced part
                name += "_"
            if key == "data" and isinstance(item, str) and _is_media(value):
                if document is not None and (*path, key) in self._finds:
                    item = base64.b64encode(self._text(document, (*path, key)).encode()).decode()
                out[name] = item
            else:
                out[name] = self.value(item, (*path, key))
        # A signature covers the original thinking; with another text it would be refused.
        if value.get("type") == "thinking" and out.get("thinking") != value.get("thinking"):
            out.pop("thinkingSignature", None)
        return out

    def _text(self, text: str, path: Path) -> str:
        at, pieces = 0, []
        for find in self._finds.get(path, ()):
            pieces += [text[at : find.start], self._instead(find)]
            at = find.start + len(find.text)
        return "".join((*pieces, text[at:]))

    def _instead(self, find: Find) -> str:
        if self._replacement is not None:
            return self._replacement
        known = self._numbers.get((find.kind, find.text))
        if known is None:
            self._counts[find.kind] = self._counts.get(find.kind, 0) + 1
            known = self._numbers[find.kind, find.text] = f"[{find.kind} {self._counts[find.kind]}]"
        return known
