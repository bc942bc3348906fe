"""Which URLs are read, how they are spelled afterwards, and which addresses count as public."""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlingua.tools.web import read_url, refusal, special
from interlingua.values.errors import ToolInputError


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("http://example.com", "http://example.com/"),
        ("HTTPS://EXAMPLE.com.:443/a?b=1#c", "https://example.com/a?b=1"),
        ("http://example.com:8080/ä b".replace(" ", "%20"), "http://example.com:8080/%C3%A4%20b"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        ("http://ＥＸＡＭＰＬＥ.com/", "http://example.com/"),
        ("http://[2606:4700:0:0::1]:81/", "http://[2606:4700::1]:81/"),
        ("http://a_b.example/%2e%2e/x", "http://a_b.example/%2e%2e/x"),
    ],
)
def test_a_url_is_written_again_in_one_spelling(written, read):
    """
    What the client is given is built from the parts that were checked.
    """
    assert read == read_url(written).url


@pytest.mark.parametrize(
    "spelling",
    [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7F.0.0.1",
        "0x7f.1",
        "0177.0.0.1",
        "017700000001",
        "0177.0.0.0x1",
        "00000177.0.0.1",
        "127.0.0.1.",
        "①②⑦.⓪.⓪.①",
        "１２７.０.０.１",
        "127。0。0。1",
        "127．0．0．1",
        "127｡0｡0｡1",
    ],
)
def test_every_spelling_of_loopback_is_loopback(spelling):
    """
    Decimal, octal, hexadecimal, short, full-width and dotted otherwise: it is the same address, and not public.
    """
    target = read_url(f"http://{spelling}/")
    assert "127.0.0.1" == target.host
    assert "loopback" in refusal(target, target.address)


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",
        "0.1.2.3",
        "10.1.2.3",
        "100.64.0.1",
        "100.100.100.200",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "198.18.0.1",
        "198.51.100.1",
        "203.0.113.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:a9fe:a9fe",
        "::ffff:0:10.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::169.254.169.254",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:0:4136:e378:8000:63bf:3fff:fdd2",
        "2001:db8::1",
        "2002:7f00:1::1",
        "2002:a9fe:a9fe::1",
        "2606:4700::5efe:10.0.0.1",
        "2606:4700::200:5efe:a9fe:a9fe",
        "3fff::1",
        "4000::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ],
)
def test_what_is_not_public_is_refused(address):
    """
    Private, local, link-local, multicast, reserved and what carries such an address inside.
    """
    assert special(ip_address(address))[0]


@pytest.mark.parametrize(
    "address",
    ["1.1.1.1", "93.184.216.34", "172.32.0.1", "100.128.0.1", "2606:4700::1111", "64:ff9b::101:101", "2002:101:101::1"],
)
def test_what_is_public_is_not_refused(address):
    """
    The neighbours of the special blocks are ordinary addresses.
    """
    assert "" == special(ip_address(address))[0]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.com",
        "//example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "data:text/plain,hello",
        "ftp://example.com/",
        "javascript:alert(1)",
        "view-source:http://example.com",
        "http://",
        "http:///path",
        "http://user@example.com/",
        "http://user:password@example.com/",
        "http://@127.0.0.1/",
        "http://public.example@127.0.0.1/",
        "http://127.0.0.1\\@public.example/",
        "http://public.example\\.127.0.0.1/",
        "http://exa\tmple.com/",
        "http://example.com/\r\nX-Injected: 1",
        "http://example.com\r\nHost: 127.0.0.1/",
        "http://example.com/a b",
        "http://example.com/\x00",
        "http://example.com:0/",
        "http://example.com:65536/",
        "http://example.com:８０/",
        "http://example.com:-1/",
        "http://example.com:80:80/",
        "http://%31%32%37.0.0.1/",
        "http://[::1/",
        "http://[::1%25lo]/",
        "http://[127.0.0.1]/",
        "http://[::1]x/",
        "http://1.2.3.4.5/",
        "http://256.1.1.1/",
        "http://0x1ffffffff/",
        "http://1.2.3.0x/x".replace("0x/", "0xg/"),
        "http://example..com/",
        "http://.example.com/",
        "http://exam℀ple.com/",
        "http://" + "a" * 300 + ".com/",
        "http://example.com/" + "a" * 9000,
    ],
)
def test_what_is_no_plain_web_url_is_refused(url):
    """
    Other schemes, credentials, control characters and spellings on which two readers would disagree.
    """
    with pytest.raises(ToolInputError):
        read_url(url)


@given(st.text(max_size=40))
def test_any_text_gives_a_url_or_a_refusal(text):
    """
    Nothing else is raised, and what comes out reads as itself.
    """
    for url in (text, f"http://{text}/", f"http://example.com/{text}"):
        try:
            read = read_url(url)
        except ToolInputError:
            continue
        assert read == read_url(read.url)


@pytest.mark.parametrize(
    ("rule", "url", "address", "allowed"),
    [
        ("127.0.0.1", "http://127.0.0.1:99/", "127.0.0.1", True),
        ("127.0.0.1:99", "http://127.0.0.1:99/", "127.0.0.1", True),
        ("127.0.0.1:98", "http://127.0.0.1:99/", "127.0.0.1", False),
        ("0x7f.1", "http://127.0.0.1/", "127.0.0.1", True),
        ("wiki.corp", "http://WIKI.corp./", "10.0.0.1", True),
        ("wiki.corp", "http://evilwiki.corp/", "10.0.0.1", False),
        (".corp", "http://a.b.corp/", "10.0.0.1", True),
        (".corp", "http://corp.example/", "10.0.0.1", False),
        ("10.0.0.0/8", "http://any.example/", "10.9.9.9", True),
        ("10.0.0.0/8", "http://any.example/", "11.0.0.1", True),
        ("10.0.0.0/8", "http://any.example/", "192.168.0.1", False),
        ("[::1]:8080", "http://[::1]:8080/", "::1", True),
        ("[::1]:8080", "http://[::1]:8081/", "::1", False),
        ("not a rule/", "http://127.0.0.1/", "127.0.0.1", False),
    ],
)
def test_allow_rules_open_what_they_name(rule, url, address, allowed):
    """
    A name, a suffix, an address, a network, with or without a port, and nothing beside it.
    """
    why = refusal(read_url(url), ip_address(address), allow_hosts=(rule,))
    assert allowed == (why == "")


@pytest.mark.parametrize(
    ("address", "allowed"),
    [("10.0.0.1", True), ("127.0.0.1", True), ("::1", True), ("::ffff:10.0.0.1", True), ("169.254.169.254", False)],
)
def test_private_networks_can_be_opened_without_the_metadata_service(address, allowed):
    """
    `allow_private` is for a home network; link-local addresses still have to be named.
    """
    target = read_url("http://a.example/")
    assert allowed == (refusal(target, ip_address(address), allow_private=True) == "")
