"""The one thing to do about a file that is not indexed, or only in part: a sentence a reason (spec §2).

`status`, `doctor` and `why` say the same of the same reason. None: nothing is to be done.
"""

from __future__ import annotations

from collections.abc import Mapping

from sidecar.corpus import absence, rules, transcripts

REMEDIES: Mapping[str, str | None] = {
    rules.LINK: "links are not followed: name the folder or file that it points to in extra_paths",
    rules.PIPE: "put a regular file in its place",
    rules.SOCKET: "put a regular file in its place",
    rules.DEVICE: "put a regular file in its place",
    rules.FOLDER: "rename the folder, so that its name does not end in .md",
    rules.EXTENSION_CASE: "rename it, so that its name ends in .md",
    rules.NOT_MARKDOWN: "rename it, so that its name ends in .md",
    rules.NAME_CASE: "rename it to the name that is read, or merge it into that file",
    rules.NOT_INDEXED: None,
    rules.EXCLUDED: "remove the pattern that fits it from exclude",
    rules.UNLISTED: "move the notes out of this folder",
    rules.SCRATCH: "rename it: editors and sync tools use such names for a moment",
    rules.DUPLICATE: None,
    rules.SAME_NAME: "rename one of them",
    rules.PATH_TOO_LONG: "move it to a shorter path",
    rules.MISSING: "create it, or correct the path",
    rules.UNMOUNTED: "mount it again; what was known of it is kept",
    rules.PERMISSION_DENIED: "let the user that runs memory-sidecar read it: chmod u+rX",
    rules.IO_ERROR: "check the disk or the network mount; what was known of it is kept",
    rules.NO_FILE_HANDLE: "raise the limit of open files: ulimit -n",
    rules.UNREADABLE: "check that the user that runs memory-sidecar can read it",
    rules.TOO_LARGE: "split it: only the first 4 MiB of a file are indexed",
    rules.CHANGING: "nothing, if something writes to it all the time; it is read when it rests",
    "invalid-utf8": "save it as UTF-8",
    "invalid-utf16": "save it as UTF-8",
    "binary": "save it as text in UTF-8",
    transcripts.ARCHIVE: "set sessions.include_reset_archives = true, to find what a reset set aside",
    transcripts.PACKED: "unpack it: compressed transcripts are not read",
    absence.OUTSIDE: "move it below memory/, or name it in extra_paths",
    absence.NO_FIT: "correct the pattern of its extra path",
}


def remedy(reason: str, hint: str | None = None) -> str | None:
    """What to do about a `Skipped` or a note of a document; a link's hint has the line that admits it."""
    if hint is not None and hint.startswith("extra_paths = "):
        return f"add to the agent: {hint}"
    return REMEDIES.get(reason)
