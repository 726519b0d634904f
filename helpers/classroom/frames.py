"""The messages between a worker and its host: a JSON header and raw bytes, with their lengths in front."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

MOST_HEADER = 1 << 20  # bytes
MOST_PAYLOAD = 64 << 20  # bytes
_PREFIX = 16  # two lengths of 8 bytes

Frame = tuple[dict[str, Any], bytes]


class BadFrame(Exception):
    """Bytes that are no message, or a message that is too large."""


def pack(header: dict[str, Any], payload: bytes = b"") -> bytes:
    """One message as bytes."""
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + len(payload).to_bytes(8, "little") + text + payload


def write(descriptor: int, data: bytes, write: Callable[[int, memoryview], int] = os.write) -> None:
    """Write all of it to a channel. Raises OSError. write: kept from the start, since a cell may replace os.write."""
    rest = memoryview(data)
    while rest:
        rest = rest[write(descriptor, rest) :]


class Reader:
    """Cuts a stream of bytes, as they come, into messages. What it reads may be hostile."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Take the next bytes; give every message that is now complete. Raises BadFrame."""
        self._waiting += data
        while len(self._waiting) >= _PREFIX:
            header_end = _PREFIX + int.from_bytes(self._waiting[:8], "little")
            end = header_end + int.from_bytes(self._waiting[8:_PREFIX], "little")
            if header_end - _PREFIX > MOST_HEADER or end - header_end > MOST_PAYLOAD:
                raise BadFrame("a message is too large")
            if len(self._waiting) < end:
                return
            text, payload = bytes(self._waiting[_PREFIX:header_end]), bytes(self._waiting[header_end:end])
            del self._waiting[:end]
            try:
                header = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise BadFrame("a message is not JSON") from error
            if not isinstance(header, dict):
                raise BadFrame("a message has no fields")
            yield header, payload
