"""Crashes while a share group works: after each, the next start must know what was decided.

A broker starts on the disk that the crash has left, and a member takes all that it is given. Then

- a record whose end was answered is not given to anybody again;
- a record whose end nobody has asked for is given;
- no share partition has lost its state, also one that nobody reads;
- its delivery count is at least one more than what was answered, and at most one more than what was
  asked for.
"""

from tests.crash.losses import Crash
from tests.crash.restart import Wrong
from tests.crash.share_story import (
    PARTITIONS,
    SETTINGS,
    STORIES,
    Decision,
    Holder,
    Place,
    record_story,
)
from tests.crash.story_crashes import StoryCrashes

# A record is given once; suspects are given in parts.
_MOST_FETCHES = 100
_ACCEPT = 1


class ShareCrashes(StoryCrashes):
    """The crashes of one story of a share group."""

    what = "shares"
    stories = tuple(STORIES)
    settings = SETTINGS
    record = staticmethod(record_story)

    def check(self, crash: Crash) -> None:
        """See `StoryCrashes`."""
        given = self._given(crash)
        for offset, produced in enumerate(self.story.produced):
            if produced <= crash.operations:
                about = [each for each in self.story.decisions if each.offset == offset]
                _check_record(offset, given.get(offset), about, crash.operations)

    def _given(self, crash: Crash) -> dict[int, int]:
        """Return the delivery counts of what a member of the group is given."""
        broker = self.start_after(crash)
        states = broker.share_state.coordinator.totals()["share_partitions"]
        if states != PARTITIONS:
            raise Wrong(f"of {PARTITIONS} share partitions {states} have a state")
        member = Holder(Place(broker, self.story.topic_id), "after")
        given: dict[int, int] = {}
        for _ in range(_MOST_FETCHES):
            found = member.take()
            if not found:
                return given
            twice = found.keys() & given.keys()
            if twice:
                raise Wrong(f"given again after they were accepted: {sorted(twice)}")
            given |= found
            member.tell(dict.fromkeys(found, _ACCEPT))
        raise Wrong(f"after {_MOST_FETCHES} fetches there is more than {given}")


def _check_record(offset: int, count: int | None, about: list[Decision], operations: int) -> None:
    """Check the delivery count with which a record is given; None if it is not given."""
    known = [each for each in about if each.answered <= operations]
    asked = [each for each in about if each.asked <= operations]
    if count is None:
        if not any(each.is_final for each in asked):
            raise Wrong(f"{offset} is lost: {asked}")
        return
    if any(each.is_final for each in known):
        raise Wrong(f"{offset} is given ({count}) and was done: {known}")
    least = max((each.deliveries for each in known), default=0) + 1
    most = max((each.deliveries for each in asked), default=0) + 1
    if not least <= count <= most:
        raise Wrong(f"{offset} is given as {count}, not as {least} to {most}: {asked}")
