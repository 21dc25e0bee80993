"""What a scan found, in the words that the tests of this folder compare."""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.corpus.scan import Corpus
from sidecar.domain.corpus import Scan, Skipped


def paths(scan: Scan) -> list[str]:
    return [file.path for file in scan.files]


def why(entries: Sequence[Skipped]) -> dict[str, str]:
    return {entry.path: entry.reason for entry in entries}


def covers(corpus: Corpus, scan: Scan, path: str) -> bool:
    return any(corpus.is_below(path, folder.path) for folder in scan.unreadable)


def text(corpus: Corpus, path: str) -> str | None:
    read = corpus.read(path)
    return None if read is None else read.data.decode()
