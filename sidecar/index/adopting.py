"""Going over to the vectors of a model once it is known, and noticing one that changed under its name."""

from __future__ import annotations

import asyncio

import numpy as np
from numpy.typing import NDArray

from sidecar.index.documents import VectorModel
from sidecar.index.healing import VECTORS_NAME, IndexSettings, OpenIndex, note_repair, use_model
from sidecar.index.vector_base import drop_base

SAME_MODEL = 0.98
"""The least cosine of two vectors that one model gives for one text; rounding stays far above it."""

Vector = NDArray[np.float32]


async def adopt_model(
    settings: IndexSettings, model: VectorModel, sample: Vector, parts: OpenIndex, now: float
) -> bool:
    """Give an index what is known of this model; False when it has that already.

    `sample` is the model's vector of a text that is always the same. Where it is not like the one of last
    time, other weights answer under the same name, and what was made by the old ones is dropped.
    """
    cache, repairs = parts.catalog.vectors, list(parts.repairs)
    number = await cache.use_model(model, now)
    before = await cache.sample(number)
    if before is not None and len(before) != model.dimensions:
        before = None
    changed = before is not None and float(before @ sample) < SAME_MODEL
    if model == parts.state.model and not changed:
        return False
    if changed:
        note_repair(repairs, f"{model.name} gives other vectors than before; all of them are made anew")
        await cache.forget(number)
        await asyncio.to_thread(drop_base, settings.directory / VECTORS_NAME)
    number = await use_model(settings, model, parts, now, repairs)
    if before is None or changed:
        await cache.keep_sample(number, sample)
    parts.model_id, parts.repairs = number, tuple(repairs)
    return True
