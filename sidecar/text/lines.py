"""Bytes to text, text to lines, and names for runs of lines (U§8, spec §5.1).

Lines are what stands between "\\n" characters, nothing else: a "\\r" stays part of its line, so that what is
returned is what is on disk, and line numbers agree with every editor that counts "\\n".
"""

from __future__ import annotations

import codecs
import unicodedata
import zlib
from collections.abc import Sequence
from hashlib import blake2b

import msgspec

_BINARY_LOOK = 8192
_UTF16_MARKS = ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_ZWJ = "\u200d"
_CHECKSUM_DIGITS = 8
_WRAP = 0xFFFFFFFF


class Decoded(msgspec.Struct, frozen=True):
    """The text of a file and, when it is not wholly clean text, one word that says why.

    `note` is `invalid-utf8`, `invalid-utf16`, `binary` or None.
    """

    text: str
    note: str | None = None


def decode(data: bytes) -> Decoded:
    """The text of a note, whatever is in the file; never raises.

    A byte-order mark is removed and decides the encoding. Bytes that do not decode become U+FFFD. A file
    with NUL in its first 8 KB that is not marked as UTF-16 counts as binary: its text ends at the first
    byte that is not UTF-8, and the NULs are left out (so unmarked UTF-16 of plain English stays readable).
    """
    for mark, encoding in _UTF16_MARKS:
        if data.startswith(mark):
            return _replacing(data[2:], encoding, "invalid-utf16")
    if data.startswith(codecs.BOM_UTF8):
        data = data[3:]
    if b"\0" in data[:_BINARY_LOOK]:
        try:
            text = data.decode("utf-8")
        except UnicodeDecodeError as error:
            text = data[: error.start].decode("utf-8")
        return Decoded(text.replace("\0", ""), "binary")
    return _replacing(data, "utf-8", "invalid-utf8")


def _replacing(data: bytes, encoding: str, note: str) -> Decoded:
    try:
        return Decoded(data.decode(encoding))
    except UnicodeDecodeError:
        return Decoded(data.decode(encoding, "replace"), note)


def split_lines(text: str) -> list[str]:
    """The lines of a text without their "\\n"; a trailing newline makes no extra line, "" has none."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def utf16_length(text: str) -> int:
    """Length in UTF-16 code units, which is what limits on the wire count (U§2)."""
    if text.isascii():
        return len(text)
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def cut_utf16(text: str, limit: int) -> str:
    """The longest start of `text` within `limit` UTF-16 units that splits no character.

    Nor does it part a letter from its combining marks or an emoji joined by ZWJ, unless so little would be
    left (under half) that cutting there is the lesser evil.
    """
    if limit <= 0:
        return ""
    if text.isascii():
        return text[:limit]
    raw = text[:limit].encode("utf-16-le", "surrogatepass")
    if len(text) <= limit and len(raw) <= 2 * limit:
        return text
    end = len(raw[: 2 * limit].decode("utf-16-le", "ignore")) if len(raw) > 2 * limit else limit
    return text[: character_border(text, end)]


def character_border(text: str, end: int) -> int:
    """The nearest index at or before `end` where no visible character is split; at least `end // 2`."""
    border = end
    while 0 < border < len(text) and _joined(text[border - 1], text[border]):
        border -= 1
        if border <= end // 2:
            return end
    return border


def _joined(left: str, right: str) -> bool:
    """Whether `right` belongs to the same visible character as `left` (the cheap part of UAX #29)."""
    if right < "\u0300":
        return left == "\r" and right == "\n"
    return (
        left == _ZWJ
        or right == _ZWJ
        or "\U0001f3fb" <= right <= "\U0001f3ff"
        or unicodedata.category(right) in ("Mn", "Me", "Mc")
    )


def revision(lines: Sequence[str]) -> str:
    """A stable name of this exact run of raw lines: 40 hex digits.

    The first 8 are a sum of line checksums, by which `find_revision` looks for the run in one pass over a
    file; the other 32 (BLAKE2b of the lines joined by "\\n") decide.
    """
    total = sum(map(_checksum, lines)) & _WRAP
    digest = blake2b("\n".join(lines).encode("utf-8", "surrogatepass"), digest_size=16)
    return f"{total:08x}{digest.hexdigest()}"


def find_revision(lines: Sequence[str], revision_of: str, near: int, count: int) -> int | None:
    """Where the `count`-line text named by `revision_of` stands now: the 1-based first line, or None.

    Of several copies, the one nearest to line `near` is taken, the earlier one when two are as near.
    """
    starts = _starts(lines, revision_of, count)
    starts.sort(key=lambda start: (abs(start - near), start))
    return next((start for start in starts if _is(lines, start, revision_of, count)), None)


def find_copies(lines: Sequence[str], revision_of: str, count: int) -> list[int]:
    """The first lines (1-based) of all copies of the text, in file order."""
    return [start for start in _starts(lines, revision_of, count) if _is(lines, start, revision_of, count)]


def _starts(lines: Sequence[str], revision_of: str, count: int) -> list[int]:
    """First lines of the runs whose sum of checksums is that of the revision, found in one pass."""
    if not 1 <= count <= len(lines):
        return []
    try:
        wanted = int(revision_of[:_CHECKSUM_DIGITS], 16)
    except ValueError:
        return []
    sums = list(map(_checksum, lines))
    total = sum(sums[:count])
    starts = [1] if total & _WRAP == wanted else []
    for start in range(1, len(lines) - count + 1):
        total += sums[start + count - 1] - sums[start - 1]
        if total & _WRAP == wanted:
            starts.append(start + 1)
    return starts


def _is(lines: Sequence[str], start: int, revision_of: str, count: int) -> bool:
    return revision(lines[start - 1 : start - 1 + count]) == revision_of


def _checksum(line: str) -> int:
    return zlib.crc32(line.encode("utf-8", "surrogatepass"))
