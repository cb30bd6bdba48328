"""Contents of reports as the database keeps them: compressed, and without the part that many of them have in common.

A kept content is a gzip file out of which the common part's compressed bytes were cut. Put back, they make a whole gzip
file, which a client that takes gzip gets as it is. That works because a full flush of deflate ends at a whole byte and
forgets what came before it, so that parts which were compressed by themselves can be joined.
"""

import re
import struct
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

_HEADER: Final = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
"""The head of every gzip file that we write: deflate, no name, no time, so that equal contents have equal bytes."""
_TRAILER: Final = 8
"""Number of bytes of a gzip file's end: checksum and length."""
_WORTH: Final = 0.9
"""Share of a content's size below which compressing it is worth the time; a PNG is not."""
_VERSION: Final = re.compile(rb'\{"report_version":(\d+)')
"""The beginning of a report's JSON."""


@dataclass(frozen=True)
class CommonPart:
    """Bytes that many reports have in common, such as the script of their pages."""

    deflated: bytes
    """The bytes, compressed, as the database has them."""

    @cached_property
    def plain(self) -> bytes:
        """The bytes themselves."""
        return _inflated(self.deflated)


def deflated(part: bytes) -> bytes:
    """Compress a common part, so that it can be put between others."""
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return stream.compress(part) + stream.flush(zlib.Z_FULL_FLUSH)


class Packed(NamedTuple):
    """A content as a row of the database keeps it."""

    content: bytes
    gzipped: bool
    """True if `content` is a gzip file; content that hardly shrinks is kept as it is."""
    part_at: int | None
    """Position of the missing common part in the gzip file; None if nothing is missing."""


def pack(content: bytes, part: bytes = b"") -> Packed:
    """Compress a content, without `part` if that is in it."""
    before, removed, after = content.partition(part) if part else (content, b"", b"")
    stream = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    head = _HEADER + stream.compress(before) + stream.flush(zlib.Z_FULL_FLUSH)
    trailer = struct.pack("<II", zlib.crc32(content), len(content) & 0xFFFFFFFF)
    packed = head + stream.compress(after) + stream.flush() + trailer
    if len(packed) > _WORTH * len(content):
        return Packed(content, gzipped=False, part_at=None)
    return Packed(packed, gzipped=True, part_at=len(head) if removed else None)


@dataclass(frozen=True)
class KeptReport:
    """A report in one format."""

    packed: Packed
    part: CommonPart | None
    """The part that is missing in `packed`."""
    interim: bool
    """True if the sweep was still running when the report was built."""
    created_at: float

    @cached_property
    def content(self) -> bytes:
        """The report itself."""
        stored, gzipped, at = self.packed
        if not gzipped:
            return stored
        if self.part is None:
            return zlib.decompress(stored, 16 + zlib.MAX_WBITS)
        return _inflated(stored[len(_HEADER) : at]) + self.part.plain + _inflated(stored[at:-_TRAILER])

    @property
    def gzip(self) -> bytes | None:
        """The report as a gzip file, if it is kept as one."""
        stored, gzipped, at = self.packed
        if not gzipped or self.part is None:
            return stored if gzipped else None
        return stored[:at] + self.part.deflated + stored[at:]


def report_version(beginning: bytes, *, gzipped: bool) -> int | None:
    """Return the version of the code that built a report, from the first bytes of its JSON as they are kept."""
    head = zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(beginning, 64) if gzipped else beginning
    match = _VERSION.match(head)
    return None if match is None else int(match[1])


def _inflated(deflated: bytes) -> bytes:
    return zlib.decompressobj(-zlib.MAX_WBITS).decompress(deflated)
