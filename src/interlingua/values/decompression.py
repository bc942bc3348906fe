"""Decompression of HTTP bodies in pieces of bounded size: a few bytes may stand for gigabytes."""

import zlib
from collections.abc import Iterator

from .errors import TransportError

PIECE = 256 * 1024  # bytes decompressed at a time
MAX_BODY = 64 * 1024 * 1024  # bytes of a decompressed body


class Decompressor:
    """Decompresses one body, fed as it comes, up to `limit` bytes; raises TransportError beyond, and for damage.

    We ask for `identity`; gzip and deflate come all the same from some proxies (RFC 9110, 8.4.1).
    """

    def __init__(self, encoding: str, limit: int = MAX_BODY) -> None:
        self._encoding = encoding.strip().lower()
        if self._encoding not in ("gzip", "x-gzip", "deflate"):
            raise TransportError(f"the body is compressed with {encoding!r}, which was not asked for")
        self._limit = self._left = limit
        # 32 + 15: zlib finds out whether the header is that of gzip or of zlib.
        self._inflate = zlib.decompressobj(32 + zlib.MAX_WBITS)
        self._is_first = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The pieces that these bytes stand for."""
        while data:
            if self._inflate.eof:  # gzip may have several members; other bytes behind the end mean nothing
                if not data.startswith(b"\x1f\x8b"):
                    return
                self._inflate = zlib.decompressobj(32 + zlib.MAX_WBITS)
            try:
                piece = self._inflate.decompress(data, PIECE)
            except zlib.error as error:
                if not (self._is_first and self._encoding == "deflate"):
                    raise TransportError(f"the compressed body is damaged: {error}") from None
                self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)  # some servers send deflate without its header
                self._is_first = False
                continue
            self._is_first = False
            data = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
            self._left -= len(piece)
            if self._left < 0:
                raise TransportError(f"the decompressed body has more than {self._limit:,} bytes")
            if piece:
                yield piece

    def close(self) -> None:
        """Raises TransportError if the body was cut off."""
        if not self._inflate.eof and not self._is_first:
            raise TransportError("the compressed body was cut off")


def is_compressed(encoding: str | None) -> bool:
    return bool(encoding) and str(encoding).strip().lower() not in ("", "identity")
