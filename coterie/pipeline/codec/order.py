"""Compare the offsets and leader epochs of neighbouring batches, which no checksum covers.

In a log offsets ascend and leader epochs never fall. If two neighbours contradict that, the batch
on the other side of each decides which one is damaged [pipeline/batch-order].
"""

import numpy as np

from coterie.pipeline.codec import damage as reasons
from coterie.pipeline.codec.damage import Damage, damage
from coterie.pipeline.codec.framing import Batches
from coterie.pipeline.codec.numbers import Bools


def check_order(
    data: bytes, batches: Batches, *, above: int, below: int | None
) -> tuple[Batches, list[Damage]]:
    """Separate the batches that are in order from those that are not.

    Args:
        data: the bytes that contain the batches.
        batches: neighbours, in the order of the file.
        above: the last offset before the first of them, or one less than the segment's base.
        below: the base offset of the batch that follows the last one; None if it is unknown.

    Returns:
        The batches in order, and the others as damage.
    """
    if not len(batches):
        return batches, []
    first, last = batches.base_offset, batches.last_offset
    # The only offset of a compressed entry of magic 0 or 1 is its last one.
    next_first = np.append(first[1:], np.iinfo(np.int64).max if below is None else below)
    previous_last = np.append(above, last[:-1])
    epochs = np.where(batches.magic == 2, batches.leader_epoch, -1)
    fine = (first > previous_last) & (last < next_first)
    falls = (epochs[1:] < epochs[:-1]) & (epochs[1:] >= 0)
    if fine.all() and not falls.any():
        return batches, []
    keep = _consistent_offsets(batches, above, below)
    for index in np.flatnonzero(falls).tolist():
        left = index > 0 and epochs[index - 1] == epochs[index]
        right = index + 2 < len(epochs) and epochs[index + 2] == epochs[index + 1]
        if left != right:
            keep[index if right else index + 1] = False
        elif not left:
            keep[index : index + 2] = False
        # Both continue: two neighbours confirm each of the epochs, and a wrong epoch does no harm.
    damages = []
    for index in np.flatnonzero(~keep).tolist():
        start = int(batches.position[index])
        detail = (
            f"offsets {first[index]} to {last[index]}, leader epoch {epochs[index]},"
            f" after offset {previous_last[index]} and before {next_first[index]}"
        )
        stop = start + int(batches.length_bytes[index])
        damages.append(damage(data, start, stop, reasons.ORDER, detail))
    return batches.select(keep), damages


def _consistent_offsets(batches: Batches, above: int, below: int | None) -> Bools:
    """Return which batches have offsets that fit between those of their neighbours."""
    first, last = batches.base_offset.tolist(), batches.last_offset.tolist()
    count = len(first)
    keep = np.ones(count, np.bool_)
    previous = above
    for index in range(count):
        if not keep[index]:
            continue
        if first[index] <= previous:
            keep[index] = False
            continue
        follows = first[index] == previous + 1
        if index + 1 == count:
            keep[index] = below is None or last[index] < below
        elif last[index] >= first[index + 1]:
            is_followed = index + 2 < count and first[index + 2] == last[index + 1] + 1
            keep[index] = follows
            keep[index + 1] = is_followed and not follows
        if keep[index]:
            previous = last[index]
    return keep
