"""Dependencies between updates: other tasks whose data an update reveals."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from asyncfl.federation.release_tables import UploadRecords
from asyncfl.federation.resolve import ResolvedSeed
from asyncfl.privacy import PrivacyContext
from asyncfl.privacy.ledger.releases import usable_norm


def update_dependencies(
    uploads: UploadRecords, resolved: ResolvedSeed, context: PrivacyContext
) -> dict[int, tuple[int, ...]]:
    """Return task -> other tasks that its update depends on, for tasks with any. `uploads`: all, by task.

    The compression error of a client's earlier updates is added to its next ones. With personal layers, a client's
    layers depend on its earlier tasks. A bound on an update holds whatever the client began with. But noise drawn
    during training hides its own task alone, and an attacker that copies such an update or computes from it passes the
    dependency on.
    """
    compression = resolved.scenario.compression
    left_over = compression.remembers and not compression.off
    in_layers = bool(resolved.scenario.model.personal) and _noise_in_training(uploads, resolved, context)
    earlier, readers = {}, uploads
    if left_over or in_layers:
        earlier = _earlier(uploads)
    else:
        made_of_others = pc.or_(
            uploads.table["copy_of"].is_valid(), pc.greater(pc.list_value_length(uploads.table["computed_from"]), 0)
        )
        readers = uploads.at(np.flatnonzero(made_of_others.to_numpy()))
    found = {}
    for upload in readers:
        made_of = upload.computed_from if upload.copy_of is None else (*upload.computed_from, upload.copy_of)
        depends_on = (upload.task, *made_of) if in_layers else (upload.task,)
        before = {task for one in depends_on for task in earlier.get(one, ())}
        if others := (*upload.computed_from, *sorted(before.difference(upload.computed_from))):
            found[upload.task] = others
    return found


def _earlier(uploads: UploadRecords) -> dict[int, tuple[int, ...]]:
    """Return task -> earlier tasks of the same client."""
    found: dict[int, tuple[int, ...]] = {}
    of_client: dict[int, tuple[int, ...]] = {}
    for upload in uploads:
        found[upload.task] = of_client.get(upload.client, ())
        of_client[upload.client] = (*found[upload.task], upload.task)
    return found


def _noise_in_training(uploads: UploadRecords, resolved: ResolvedSeed, context: PrivacyContext) -> bool:
    """Whether noise is drawn during training, which a scheme does for all uploads or for none."""
    scheme = resolved.scenario.privacy
    return any(
        scheme.upload_noise(context, usable_norm(scheme, context, one.clip_norm), one.contribution).in_training
        for one in uploads[:1]
    )
