"""Where texts of the workspace come from (U§8): by their place, and what a host recorded of their writing."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable

from sidecar.corpus.scan import Corpus
from sidecar.domain.corpus import OriginClass
from sidecar.domain.errors import CorpusError
from sidecar.service.documents import origin_of
from sidecar.text.lines import decode, revision, split_lines

RecordedOrigin = Callable[[str, str], OriginClass | None]
"""What a host recorded of a path and a revision (of a file, or of the lines that a reference names)."""

_OTHER_USERS = re.compile(r"users/[^/]+/USER\.md\Z")


def nothing_recorded(path: str, named: str) -> OriginClass | None:  # noqa: ARG001
    """Where no host records origins."""
    return None


class OriginClasses:
    """The origin classes of one agent's paths and hits. A record can only take trust away."""

    def __init__(self, corpus: Corpus, recorded: RecordedOrigin = nothing_recorded) -> None:
        self._corpus = corpus
        self._recorded = recorded

    def of_path(self, path: str) -> OriginClass:
        """The class of a workspace path with the text that it has now. Blocking.

        What leads outside of the workspace is `untrusted`; what is not there is judged by its place.
        """
        plain = posixpath.normpath(path) if path else ".."
        if _OTHER_USERS.match(plain) or plain == "memory.md":
            return "agent"
        if plain.lower() == "dreams.md":
            return "system"
        placed = origin_of(plain)
        if placed != "agent" or not plain.endswith(".md"):
            return placed if plain.endswith(".md") else "untrusted"
        try:
            found = self._corpus.readable(plain)
            read = self._corpus.read(plain) if found.opened is not None else None
        except (CorpusError, ValueError):
            return "untrusted"
        if read is None:
            return placed
        return self.of_text(plain, revision(split_lines(decode(read.data).text)), placed)

    def of_text(self, path: str, named: str | None, placed: OriginClass) -> OriginClass:
        """The class of an indexed text whose file is `placed`, by the revision that names it."""
        if placed in ("owner", "agent") and named is not None and self._recorded(path, named) == "untrusted":
            return "untrusted"
        return placed
