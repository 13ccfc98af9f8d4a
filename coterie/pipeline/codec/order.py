"""Offsets and leader epochs of neighbouring batches: no checksum covers them, so they are compared.

In a log offsets ascend and leader epochs never fall. Where two neighbours contradict that, one of
them has been damaged: the one that does not continue on its other side. Where both continue there,
or neither does, nobody can tell, and of offsets neither is believed. A changed offset in a gap that
compaction left, or in the very last batch, contradicts nothing and can't be found.
"""

import numpy as np

from coterie.pipeline.codec import damage as reasons
from coterie.pipeline.codec.damage import Damage, damage
from coterie.pipeline.codec.framing import Batches
from coterie.pipeline.codec.numbers import Bools


def check_order(
    data: bytes, batches: Batches, *, above: int, below: int | None
) -> tuple[Batches, list[Damage]]:
    """The batches that are in order, and the others as damage.

    Args:
        data: the bytes the batches stand in.
        batches: neighbours, in the order of the file.
        above: the last offset before the first of them, or one less than the segment's base.
        below: the base offset of what follows the last; None where nothing is known to follow.
    """
    if not len(batches):
        return batches, []
    first, last = batches.base_offset, batches.last_offset
    # An entry of magic 0 or 1 that is compressed has its last offset in front and no other.
    next_first = np.append(first[1:], np.iinfo(np.int64).max if below is None else below)
    previous_last = np.append(above, last[:-1])
    epochs = np.where(batches.magic == 2, batches.leader_epoch, -1)
    fine = (first > previous_last) & (last < next_first)
    falls = (epochs[1:] < epochs[:-1]) & (epochs[1:] >= 0)
    if fine.all() and not falls.any():
        return batches, []
    keep = _believed_offsets(batches, above, below)
    for index in np.flatnonzero(falls).tolist():
        left = index > 0 and epochs[index - 1] == epochs[index]
        right = index + 2 < len(epochs) and epochs[index + 2] == epochs[index + 1]
        if left != right:
            keep[index if right else index + 1] = False
        elif not left:
            keep[index : index + 2] = False
        # Both continue: the log says so twice, and an epoch harms nobody.
    damages = []
    for index in np.flatnonzero(~keep).tolist():
        start = int(batches.position[index])
        detail = (
            f"offsets {first[index]} to {last[index]}, leader epoch {epochs[index]},"
            f" after offset {previous_last[index]} and before {next_first[index]}"
        )
        stop = start + int(batches.length_bytes[index])
        damages.append(damage(data, start, stop, reasons.ORDER, detail))
    return batches.chosen(keep), damages


def _believed_offsets(batches: Batches, above: int, below: int | None) -> Bools:
    """Which batches have offsets that fit between those of their neighbours."""
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
