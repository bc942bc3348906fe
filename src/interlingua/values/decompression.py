"""Decompression of HTTP bodies in chunks of bounded size, to stop decompression bombs."""

import sys
import zlib
from collections.abc import Iterator

from .errors import TransportError

PIECE = 256 * 1024  # bytes per decompressed chunk
_ZSTD_WINDOW = 8 * 1024 * 1024  # bytes that decoders should support (RFC 8878, 3.1.1.1.2)
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


def decompressed(body: bytes, encoding: str, limit: int) -> bytes:
    """Returns a whole body, decompressed; errors as those of `Decompressor`, `OverflowError` beyond the limit."""
    pieces, left = [], limit
    for piece in _zstd_pieces(body) if encoding == "zstd" else _inflated_pieces(body, encoding):
        left -= len(piece)
        if left < 0:
            raise OverflowError(f"the decompressed body has more than {limit:,} bytes")
        pieces.append(piece)
    return b"".join(pieces)


def _inflated_pieces(body: bytes, encoding: str) -> Iterator[bytes]:
    inflate = Decompressor(encoding, sys.maxsize)
    yield from inflate.feed(body)
    inflate.close()


def _zstd_pieces(body: bytes) -> Iterator[bytes]:
    """The frames of a body. A block of four bytes may have 128 KB (RFC 8878, 3.1.1.2): few bytes are taken at a time,
    because the library has no limit for its output."""
    import zstandard  # used by few programs

    frame, at, is_whole = None, 0, True
    try:
        while at < len(body):
            if frame is None:
                frame = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW).decompressobj()
            taken = body[at : at + 64]
            at += len(taken)
            yield frame.decompress(taken)
            is_whole = frame.eof
            if is_whole:
                at, frame = at - len(frame.unused_data), None
    except zstandard.ZstdError as error:
        raise TransportError(f"the compressed body is damaged: {error}") from None
    if not is_whole:
        raise TransportError("the compressed body was cut off")


def is_compressed(encoding: str | None) -> bool:
    return bool(encoding) and str(encoding).strip().lower() not in ("", "identity")
