"""Why a caller path names no note, judged by the name alone: nothing outside of the corpus is looked at."""

from __future__ import annotations

from collections.abc import Sequence

from sidecar.corpus import rules
from sidecar.corpus.roots import Root, placed

OUTSIDE = "outside"
NO_FIT = "pattern"


def absence(roots: Sequence[Root], path: str) -> str:
    """The one word for a path that `Corpus.look` knows nothing of.

    `outside` of every root, `pattern` of its extra path does not fit, a reason of `rules` that its name
    gives, or `missing`: a note could have this name, and there is none.
    """
    found = OUTSIDE
    for root, relative in placed(roots, path):
        if not relative:
            return rules.MISSING
        of_workspace = relative in rules.CURATED or relative.startswith(rules.NOTES_FOLDER + "/")
        if root.number == 0 and not of_workspace:
            found = rules.judge_root_name(relative) or found
            continue
        reason = rules.judge_name(relative.rpartition("/")[2])
        if reason is None and root.pattern is not None and root.pattern.fullmatch(relative) is None:
            reason = NO_FIT
        return reason or rules.MISSING
    return found
