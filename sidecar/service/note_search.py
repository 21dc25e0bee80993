"""Search over notes from weighted terms to hits: two legs, one score, one order, windows (spec §5.1, §7)."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from sidecar.domain.memory import SearchRequest
from sidecar.index.view import View
from sidecar.ranking.floor import Floor
from sidecar.ranking.fusion import fuse
from sidecar.ranking.parameters import Parameters
from sidecar.service.descent import Descent
from sidecar.service.filters import covered
from sidecar.service.hits import HitMaker
from sidecar.service.legs import WeightedTerm, lexical_leg, vector_leg
from sidecar.service.ordering import order
from sidecar.service.query_words import QueryWords
from sidecar.service.shelf import Shelf
from sidecar.service.showing import Windows
from sidecar.service.timings import LegTimes


class NoteSearch:
    """Searches the notes of one agent."""

    def __init__(self, *, hits: HitMaker, shelf: Shelf, legs: LegTimes) -> None:
        self._legs = legs
        self._hits = hits
        self._shelf = shelf

    def descend(
        self,
        view: View,
        terms: Sequence[WeightedTerm],
        vector: NDArray[np.float32] | None,
        request: SearchRequest,
        floor: Floor,
        *,
        today: datetime.date,
        parameters: Parameters,
        still: Collection[str] = (),
    ) -> Descent:
        """The hits that the floor keeps, best first, taken to `request.max_results`. Blocking.

        `still` are folders that were just seen to be as the scan left them (`Corpus.folders_still`).
        """
        descent = Descent(floor, demoted=parameters.near_equal, words=QueryWords(terms))
        if not terms:
            return descent
        only = covered(view, request.within)
        with self._legs.measured("words"):
            words = lexical_leg(view, "memory", terms, parameters, only)
        with self._legs.measured("meaning"):
            blocks = vector_leg(view, vector, parameters, only)
        scored = fuse(words.units, words.passages, blocks, words.attainable, parameters)
        ranking = order(
            view,
            scored,
            query=request.query,
            today=today,
            projects=request.active_project_keys,
            parameters=parameters,
        )
        windows = Windows(
            scored=scored,
            shelf=self._shelf,
            hits=self._hits,
            hybrid=vector is not None,
            reach=parameters.window_reach,
            still=still,
        )
        descent.take(ranking, windows, request.max_results)
        return descent
