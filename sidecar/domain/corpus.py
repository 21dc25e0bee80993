"""What the corpus is made of: files, their stamps, and the units they are cut into (spec §6, §7)."""

from __future__ import annotations

from typing import Literal

import msgspec

from sidecar.domain.memory import LineRange, Source

UnitKind = Literal["heading", "bullet", "paragraph", "row", "code", "front_matter"]
OriginClass = Literal["owner", "agent", "system", "untrusted"]


class FileStamp(msgspec.Struct, frozen=True):
    """The quick look at a file: equal stamps mean "not touched" once the file has settled (spec §6)."""

    mtime_ns: int
    ctime_ns: int
    size: int
    inode: int
    device: int


class Annotations(msgspec.Struct, frozen=True, kw_only=True):
    """What the comments of an entry say (U§10). `malformed` excludes the entry from everything."""

    importance: int | None = None
    triggers: tuple[str, ...] = ()
    project_keys: tuple[str, ...] = ()
    malformed: bool = False


NO_ANNOTATIONS = Annotations()


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """The smallest meaningful piece of a note.

    `text` is the indexable text (annotation comments removed, never the raw Markdown of another unit),
    `heading` the path of headings above it, outermost first, `section` a number shared by the units under
    one heading, `entry` a number shared by the units of one curated entry (`MEMORY.md`, `USER.md`; None
    elsewhere). `blocking` units end a window's growth: a reset cutoff or a malformed annotation.
    """

    lines: LineRange
    kind: UnitKind
    text: str
    heading: tuple[str, ...] = ()
    section: int = 0
    entry: int | None = None
    annotations: Annotations = NO_ANNOTATIONS


class SourceFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file that the corpus rules admit.

    `path` is what callers see (`memory/2026-01-02.md`, `../shared/notes.md`); `root` is the index of its
    root in the agent's roots and `relative` its path below that root, which is how it is opened.
    """

    path: str
    root: int
    relative: str
    stamp: FileStamp
    source: Source = "memory"


class Skipped(msgspec.Struct, frozen=True):
    """Something in the corpus that is not indexed (or not wholly), and the one word why.

    `hint` is what the owner can do about it, for example the `extra_paths` line that would admit a link.
    """

    path: str
    reason: str
    hint: str | None = None


class Scan(msgspec.Struct, frozen=True, kw_only=True):
    """What a full look at the corpus saw.

    `unreadable` names folders that could not be listed: what was known below them is kept, never taken for
    deleted. `folders` are the listed folders with their own stamps, absolute, for the watcher and for the
    look that a search takes at them.
    """

    files: tuple[SourceFile, ...]
    skipped: tuple[Skipped, ...] = ()
    unreadable: tuple[Skipped, ...] = ()
    folders: tuple[tuple[str, FileStamp], ...] = ()
