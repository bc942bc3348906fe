"""Which URLs and which addresses a web tool may reach. Pure: nothing is looked up here.

A URL is read once, by `read_url`, and written again from the parts that were checked, so that the client behind cannot
read it differently. Addresses are judged by the IANA special-purpose registries, spelled out, since what the standard
library calls global differs between Python versions.
"""

import unicodedata
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import NamedTuple, TypeAlias
from urllib.parse import quote, urlsplit

from ..values.errors import ToolInputError

Address: TypeAlias = IPv4Address | IPv6Address

_PORTS = {"http": 80, "https": 443}
_LONGEST = 8192
_NAME = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.")
_SAFE_IN_PATH = "/:?#[]@!$&'()*+,;=-._~%"


class Target(NamedTuple):
    """A checked URL: `host` is lower-case ASCII (punycode for other scripts), `address` is set when it is a literal."""

    url: str
    scheme: str
    host: str
    port: int
    address: Address | None

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port


class _Block(NamedTuple):
    """Special addresses: what they are, and whether `allow_private` opens them."""

    network: IPv4Network | IPv6Network
    what: str
    private: bool


_BLOCKS = tuple(
    _Block(ip_network(network), what, private)
    for network, what, private in (
        ("0.0.0.0/8", "unspecified", False),
        ("10.0.0.0/8", "private", True),
        ("100.64.0.0/10", "carrier-grade NAT", True),
        ("127.0.0.0/8", "loopback", True),
        ("168.63.129.16/32", "a cloud provider's host service", False),
        ("169.254.0.0/16", "link-local (cloud metadata)", False),
        ("172.16.0.0/12", "private", True),
        ("192.0.0.0/24", "reserved", False),
        ("192.0.2.0/24", "documentation", False),
        ("192.88.99.0/24", "a 6to4 relay", False),
        ("192.168.0.0/16", "private", True),
        ("198.18.0.0/15", "benchmarking", True),
        ("198.51.100.0/24", "documentation", False),
        ("203.0.113.0/24", "documentation", False),
        ("224.0.0.0/4", "multicast", False),
        ("240.0.0.0/4", "reserved", False),
        ("::/128", "unspecified", False),
        ("::1/128", "loopback", True),
        ("64:ff9b:1::/48", "local NAT64", True),
        ("2001::/23", "reserved", False),
        ("2001:db8::/32", "documentation", False),
        ("3fff::/20", "documentation", False),
        ("fc00::/7", "private", True),
        ("fe80::/10", "link-local", False),
        ("fec0::/10", "site-local", True),
        ("ff00::/8", "multicast", False),
    )
)
_GLOBAL_V6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
_COMPATIBLE = IPv6Network("::/96")
_ISATAP = (0x00005EFE, 0x02005EFE)


def read_url(url: str) -> Target:
    """The target of an http or https URL. Raises `ToolInputError` for anything else, ambiguous spellings included."""
    text = url.strip(" ")
    _refuse_odd_characters(text)
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise ToolInputError(f"not a URL: {error}") from None
    if parts.scheme not in _PORTS:
        raise ToolInputError(f"only http and https URLs can be fetched, not {parts.scheme or 'a URL without a scheme'}")
    if "@" in parts.netloc:
        raise ToolInputError("a URL with a user name or password in it is not fetched: leave out the part before the @")
    written, port = _host_and_port(parts.netloc, _PORTS[parts.scheme])
    host, address = _host(written)
    shown = f"[{host}]" if ":" in host else host
    place = shown if port == _PORTS[parts.scheme] else f"{shown}:{port}"
    path = quote(parts.path or "/", safe=_SAFE_IN_PATH)
    query = f"?{quote(parts.query, safe=_SAFE_IN_PATH)}" if parts.query else ""
    return Target(f"{parts.scheme}://{place}{path}{query}", parts.scheme, host, port, address)


def refusal(target: Target, address: Address, *, allow_hosts: Iterable[str] = (), allow_private: bool = False) -> str:
    """Why this address of the target may not be reached; the empty string when it may.

    `allow_hosts` opens what it names, whatever it is: `name`, `.suffix`, an address or a network, each with `:port` or
    without (networks without). `allow_private` opens private networks and this machine, never link-local addresses.
    """
    what, private = special(address)
    if not what or (private and allow_private) or any(_allows(rule, target, address) for rule in allow_hosts):
        return ""
    return f"{address} is not a public address ({what})"


def special(address: Address) -> tuple[str, bool]:
    """What an address is when it is not public, and whether it is merely private; an empty word for a public one."""
    for block in _BLOCKS:
        if address.version == block.network.version and address in block.network:
            return block.what, block.private
    if isinstance(address, IPv4Address):
        return "", False
    inner = _embedded(address)
    if inner is not None:
        what, private = special(inner)
        return (f"carries {inner}: {what}", private) if what else ("", False)
    return ("", False) if address in _GLOBAL_V6 else ("reserved", False)


def _embedded(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address stands for: mapped, compatible, NAT64, 6to4, ISATAP."""
    number = int(address)
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _COMPATIBLE or address in _NAT64:
        return IPv4Address(number & 0xFFFFFFFF)
    if address.sixtofour is not None:
        return address.sixtofour
    if number >> 32 & 0xFFFFFFFF in _ISATAP:
        return IPv4Address(number & 0xFFFFFFFF)
    return None


def _allows(rule: str, target: Target, address: Address) -> bool:
    rule = rule.strip().lower()
    if "/" in rule:
        return _in_network(rule, address)
    name, port = rule, ""
    if rule.startswith("["):
        name, _, port = rule[1:].partition("]")
        port = port.removeprefix(":")
    elif rule.count(":") == 1:
        name, _, port = rule.partition(":")
    if port and port != str(target.port):
        return False
    if name.startswith("."):
        return target.host.endswith(name)
    return _same_host(name, target.host)


def _same_host(name: str, host: str) -> bool:
    try:
        return _host(name)[0] == host
    except ToolInputError:
        return False


def _in_network(rule: str, address: Address) -> bool:
    try:
        network = ip_network(rule, strict=False)
    except ValueError:
        return False
    return network.version == address.version and address in network


def _refuse_odd_characters(text: str) -> None:
    """Tabs, line breaks, spaces and backslashes are where two readers of one URL disagree."""
    if len(text) > _LONGEST:
        raise ToolInputError(f"the URL is longer than {_LONGEST} characters")
    odd = next((char for char in text if char in " \\\x7f" or ord(char) < 0x20 or 0xD800 <= ord(char) < 0xE000), None)
    if odd is not None:
        raise ToolInputError(f"the URL contains {odd!r}; write it percent-encoded, or / for a backslash")


def _host_and_port(netloc: str, default: int) -> tuple[str, int]:
    host, _, port = netloc.partition("]") if netloc.startswith("[") else netloc.partition(":")
    if netloc.startswith("["):
        host, port = f"{host}]", port.removeprefix(":") if port.startswith(":") or not port else "?"
    if not port:
        return host, default
    if not (port.isascii() and port.isdigit() and len(port) <= 5 and 0 < int(port) < 65536):
        raise ToolInputError(f"the URL's port is not a number between 1 and 65535: {port!r}")
    return host, int(port)


def _host(written: str) -> tuple[str, Address | None]:
    """The host as it is compared and connected to: one spelling for every way to write an address or a name."""
    if written.startswith("["):
        return _v6(written[1:-1])
    if ":" in written:
        return _v6(written)
    name = unicodedata.normalize("NFKC", written).lower().replace("。", ".").removesuffix(".")
    if not name.isascii():
        name = _punycode(name)
    if not name or not _NAME.issuperset(name) or ".." in name or name.startswith(".") or len(name) > 253:
        raise ToolInputError(f"not a host name: {written!r}")
    address = _v4(name)
    return (name, None) if address is None else (str(address), address)


def _v6(written: str) -> tuple[str, Address]:
    if "%" in written:
        raise ToolInputError("an IPv6 address with a zone is local to this machine and is not fetched")
    try:
        address = IPv6Address(written)
    except ValueError:
        raise ToolInputError(f"not an IPv6 address: {written!r}") from None
    return str(address), address


def _v4(name: str) -> IPv4Address | None:
    """An IPv4 address in any spelling that inet_aton or a browser takes: fewer parts, octal, hexadecimal, one."""
    parts = name.split(".")
    if not _numeric(parts[-1]):
        return None
    numbers = [_number(part) for part in parts]
    if len(parts) > 4 or any(n is None for n in numbers):
        raise ToolInputError(f"not a host name nor an IPv4 address: {name!r}")
    *heads, last = (n for n in numbers if n is not None)
    if any(n > 255 for n in heads) or last >= 256 ** (4 - len(heads)):
        raise ToolInputError(f"not an IPv4 address: {name!r}")
    return IPv4Address(sum(n << 8 * (3 - at) for at, n in enumerate(heads)) + last)


def _numeric(part: str) -> bool:
    return part.isdigit() or part.startswith("0x")


def _number(part: str) -> int | None:
    try:
        if part.startswith("0x"):
            return int(part[2:] or "0", 16) if "_" not in part else None
        if not part.isdigit():
            return None
        return int(part, 8) if len(part) > 1 and part.startswith("0") else int(part)
    except ValueError:
        return None


def _punycode(name: str) -> str:
    import idna  # comes with aiohttp

    try:
        return idna.encode(name, uts46=True).decode()
    except idna.IDNAError as error:
        raise ToolInputError(f"not a host name: {name!r} ({error})") from None


def parse_address(text: str) -> Address:
    """An address as a resolver gives it; a zone (`fe80::1%eth0`) is cut off, since it does not change what it is."""
    return ip_address(text.partition("%")[0])
