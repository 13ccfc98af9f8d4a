"""Damage of the security log: a start names it, or finds what was told [security/log-damage].

Only the end of the log may be missing without an error, as after an interrupted write.
"""

import pytest

from coterie.protocol.records import iterate_batches
from coterie.storage.errors import CorruptLog
from tests.crash.disk import FIRST_BOOT, NEXT_BOOT, Disk
from tests.crash.losses import Crash
from tests.crash.security_crashes import FILE, SecurityCrashes
from tests.crash.security_story import State, admin, observed

# One bit in so many is flipped, and the file is cut at one byte in so many.
_BITS = 101
_BYTES = 17


class _Damaged:
    """The end of a story, with another security log."""

    def __init__(self, story: str) -> None:
        self.crashes = SecurityCrashes(story, flush=True)
        self._disk = self.crashes.story.base.copy()
        for each in self.crashes.story.operations:
            self._disk.apply(each)
        (self._inode,) = (
            inode for path, inode in self._disk.paths().items() if path.endswith(FILE)
        )
        self.data = self._disk.files[self._inode]

    def found(self, data: bytes, boot: str) -> State | None:
        """Return what a start finds in other bytes; None if it names the damage."""
        disk: Disk = self._disk.copy()
        disk.files[self._inode] = data
        try:
            broker = self.crashes.start_after(Crash("damage", 0, "", disk, boot))
        except CorruptLog as error:
            return None if FILE in str(error) else {("another file",): error}
        return observed(admin(broker))

    @property
    def without_last_batch(self) -> State | None:
        """What is left if the last write is taken for one that was interrupted."""
        *_, (position, _) = iterate_batches(self.data)
        return self.found(self.data[:position], NEXT_BOOT)

    @property
    def states(self) -> list[State]:
        return [each.state for each in self.crashes.story.moments]


@pytest.mark.parametrize("boot", [FIRST_BOOT, NEXT_BOOT])
@pytest.mark.parametrize("story", SecurityCrashes.stories)
def test_a_flipped_bit(story: str, boot: str) -> None:
    damaged = _Damaged(story)
    allowed = [damaged.states[-1], damaged.without_last_batch]
    named = 0
    for bit in range(0, 8 * len(damaged.data), _BITS):
        data = bytearray(damaged.data)
        data[bit >> 3] ^= 1 << (bit & 7)
        found = damaged.found(bytes(data), boot)
        named += found is None
        # The end may look like a write that was interrupted; an epoch has no checksum.
        assert found is None or found in allowed, bit
    assert named > 4 * len(damaged.data) / _BITS


@pytest.mark.parametrize("story", SecurityCrashes.stories)
def test_a_shorter_file(story: str) -> None:
    damaged = _Damaged(story)
    for size in range(0, len(damaged.data), _BYTES):
        found = damaged.found(damaged.data[:size], NEXT_BOOT)
        # The first part of a log that was written anew is a part of the state then.
        assert found is None or any(found.items() <= each.items() for each in damaged.states), size
