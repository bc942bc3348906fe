"""Decompression of HTTP bodies in chunks of bounded size, to stop decompression bombs."""

import zlib
from collections.abc import Iterator

from .errors import TransportError

PIECE = 256 * 1024  # bytes per decompressed chunk
MAX_BODY = 64 * 1024 * 1024  # maximum bytes of a decompressed body


class Decompressor:
    """Decompresses one body incrementally, up to `limit` bytes; raises TransportError beyond that, and for corrupt
    data.

    We request `identity`, but some proxies send gzip or deflate anyway (RFC 9110, 8.4.1).
    """

    def __init__(self, encoding: str, limit: int = MAX_BODY) -> None:
        self._encoding = encoding.strip().lower()
        if self._encoding not in ("gzip", "x-gzip", "deflate"):
            raise TransportError(f"unexpected content encoding {encoding!r}; identity was requested")
        self._limit = self._left = limit
        # 32 + 15: zlib detects whether the header is gzip or zlib.
        self._inflate = zlib.decompressobj(32 + zlib.MAX_WBITS)
        self._is_first = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yields the decompressed chunks of these bytes."""
        while data:
            if self._inflate.eof:  # gzip may have several members; other trailing bytes are ignored
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
        """Raises TransportError if the body is incomplete."""
        if not self._inflate.eof and not self._is_first:
            raise TransportError("the compressed body was cut off")


def is_compressed(encoding: str | None) -> bool:
    return bool(encoding) and str(encoding).strip().lower() not in ("", "identity")
