"""The slow part of a log's sync, which another thread may do."""

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from coterie.storage.filesystem import File


class PendingSync(NamedTuple):
    """A sync to be done, of everything below `end_offset`. Give it back through `Log.synced`."""

    end_offset: int
    files: tuple[File, ...]
    # Those among them whose removal we began meanwhile; it grows while the sync is under way.
    dropped: AbstractSet[File]

    def run(self) -> None:
        """Sync, in any thread. Raises OSError; never run it again."""
        for file in self.files:
            try:
                file.sync()
            except FileNotFoundError:
                # Removed files need no sync, unless somebody else removed them.
                if file not in self.dropped:
                    raise
