"""The timers of the members of consumer groups [consumer-groups/timers]."""

from enum import StrEnum


class TimerKind(StrEnum):
    """The kinds of timers. They are strings because timer keys contain them."""

    SESSION = "consumer session"  # a member's session
    REVOCATION = "revocation"  # the time in which a member has to give partitions up
    REJOIN = "classic rejoin"  # the time in which a classic member has to join again
    RESYNC = "classic sync"  # the time in which a classic member has to sync
    TARGET = "target"  # the next part of the computation of a large target; of the group
    DOWNGRADE = "downgrade"  # the next part of the downgrade of a large group; of the group
    REGEX = "regex"  # the next part of the matching of regular expressions; of the group
