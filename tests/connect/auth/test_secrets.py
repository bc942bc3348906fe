"""Keys in memory and keys in texts: hidden in the one, taken out of the other."""

import base64
import copy
import dataclasses
import json
import pickle
import pprint
import time
import traceback
from urllib.parse import quote

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from interlingua.connect.auth.credentials import Credential, Scrubber, Secret, scrub

VALUE = "sEcr3t+va/lue=="


def test_a_secret_is_shown_by_nothing() -> None:
    """However it is printed, it is three dots."""
    secret = Secret(VALUE)
    console = Console(width=200)
    with console.capture() as captured:
        console.print(secret, [secret], Credential(mode="api-key", secret=secret))
    shown = [repr(secret), str(secret), f"{secret:>20}", f"{secret!r:>30}", ascii(secret)]
    shown += [pprint.pformat({"a": secret}), captured.get(), repr(Credential(mode="oauth", secret=secret))]
    assert not [text for text in shown if VALUE in text]


def test_a_secret_leaves_by_no_encoder() -> None:
    """JSON refuses it, pickling refuses it, and what turns strange values into text gets three dots."""
    secret = Secret(VALUE)
    for encode in (json.dumps, orjson.dumps, msgspec.json.encode, pickle.dumps):
        with pytest.raises(TypeError):
            encode(secret)
    assert '"…"' == json.dumps(secret, default=str, ensure_ascii=False)


def test_a_secret_is_not_in_its_attributes() -> None:
    """No dictionary to dump, and copying gives the same thing."""
    secret = Secret(VALUE)

    @dataclasses.dataclass
    class Holder:
        secret: Secret

    assert not hasattr(secret, "__dict__")
    assert copy.copy(secret) is copy.deepcopy(secret) is secret
    assert VALUE not in str(dataclasses.asdict(Holder(secret)))


def test_a_secret_is_not_in_a_traceback_with_locals() -> None:
    """What debuggers and error reporters print beside the lines."""
    secret = Secret(VALUE)

    def call() -> None:
        mine = secret
        raise RuntimeError(f"refused {mine}")

    with pytest.raises(RuntimeError) as caught:
        call()
    shown = "".join(traceback.TracebackException.from_exception(caught.value, capture_locals=True).format())
    assert "Secret(…)" in shown
    assert VALUE not in shown


def test_secrets_compare_by_value() -> None:
    """Equal text is equal; a plain text is something else."""
    assert Secret("a") == Secret(Secret("a"))
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert {Secret("a")} == {Secret("a"), Secret("a")}
    assert "a" == Secret("a").reveal()


CASES = [
    ("GET https://h/v1/models?key=abc123&alt=sse", "GET https://h/v1/models?key=…&alt=sse"),
    ("https://h/x?alt=sse&code=abc#top", "https://h/x?alt=sse&code=…#top"),
    ("Authorization: Bearer abc.def", "Authorization: …"),
    ("{'Authorization': 'Bearer abc', 'n': 1}", "{'Authorization': '…', 'n': 1}"),
    ("authorization: AWS4-HMAC-SHA256 Credential=A/b, Signature=ff\nHost: h", "authorization: …\nHost: h"),
    ("sent with bearer abc.def-123, refused", "sent with bearer …, refused"),
    ('curl -H "x-api-key: abc" https://h', 'curl -H "x-api-key: …" https://h'),
    ("{'x-goog-api-key': 'abc'}", "{'x-goog-api-key': '…'}"),
    ('{"access_token":"abc","expires_in":3600}', '{"access_token":"…","expires_in":3600}'),
    (r'"{\"refresh_token\": \"abc\"}"', r'"{\"refresh_token\": \"…\"}"'),
    ("grant_type=x&client_secret=abc&code_verifier=def", "grant_type=x&client_secret=…&code_verifier=…"),
    ("https://user:pass@host/path", "https://…@host/path"),
    ("https://h/?X-Amz-Signature=ff&a=1", "https://h/?X-Amz-Signature=…&a=1"),
    ("Incorrect API key provided: sk-proj-" + "abcdefghij0123456789.", "Incorrect API key provided: …"),
    ("the token limit is 5; code 7; press any key", "the token limit is 5; code 7; press any key"),
    ("mail me at a@b.example, see https://h/a@b", "mail me at a@b.example, see https://h/a@b"),
]


@pytest.mark.parametrize(("text", "scrubbed"), CASES)
def test_what_looks_like_a_secret_is_taken_out(text: str, scrubbed: str) -> None:
    """Headers, query values, form and JSON fields, user info, well-known shapes; prose is left alone."""
    assert scrubbed == scrub(text)


@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_case_99_a_key_in_an_address_does_not_reach_an_error(known: bool) -> None:
    """Whether or not the key is known, it is gone from the text of an exception, a log line and a repr."""
    key = "AIza" + "SyA-0123456789abcdefghijklmnopqrstuv"
    url = f"https://generativelanguage.googleapis.com/v1beta/models/g:streamGenerateContent?alt=sse&key={key}"
    texts = [
        f"Cannot connect to {url}",
        repr(ConnectionError(f"500, message='bad', url={url!r}")),
        json.dumps({"error": {"message": f"API key not valid: {key}", "request": {"x-goog-api-key": key}}}),
        f"POST {quote(url, safe='')}",
    ]
    scrubbed = [scrub(text, [key] if known else []) for text in texts]
    assert not [text for text in scrubbed if key in text]
    assert scrubbed[0].endswith("?alt=sse&key=…")


@pytest.mark.parametrize(("text", "scrubbed"), CASES)
def test_scrubbing_twice_is_scrubbing_once(text: str, scrubbed: str) -> None:
    """What is hidden stays hidden and the rest stays."""
    assert scrubbed == scrub(scrubbed)


@given(
    secret=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=8, max_size=60),
    before=st.binary(max_size=5),
    after=st.binary(max_size=5),
)
def test_a_known_secret_is_found_in_every_spelling(secret: str, before: bytes, after: bytes) -> None:
    """Plain, in an address, in JSON, in a repr, and inside base64 at any offset."""
    hide = Scrubber([secret])
    for text in (secret, quote(secret, safe=""), quote(secret), json.dumps(secret), repr(secret)):
        assert text.strip("\"'") not in hide(f"<<{text}>>")
    encoded = base64.b64encode(before + secret.encode() + after).decode()
    for text in (encoded, encoded.replace("+", "-").replace("/", "_")):
        left = hide(text)
        assert "…" in left
        assert len(left) <= len(text) - len(secret)


def test_short_and_missing_secrets_do_not_blank_the_text() -> None:
    """An empty key would otherwise match between all letters."""
    assert "a plain text" == scrub("a plain text", ["", None, "a", Secret(" ")])


@pytest.mark.parametrize(
    "piece",
    [
        *("authorization: ", "authorization:", "x-api-key=", "?key=", "://", "://a", "bearer ", "sk-", "sk", "%2"),
        *("\\", '"', " ", "a", "://user:", "api_key: '", "ab"),
    ],
)
def test_scrubbing_takes_linear_time(piece: str) -> None:
    """Four times the text takes about four times as long, whatever it repeats: far from sixteen times."""
    hide = Scrubber([VALUE, "abababababab+c"])

    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        best = float("inf")
        for _ in range(3):
            begin = time.process_time()
            hide(text)
            best = min(best, time.process_time() - begin)
        return best

    assert seconds(400_000) < 12 * seconds(100_000) + 0.2
