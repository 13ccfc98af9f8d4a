"""Leave or expiry: how a member left, judged from its commits [pipeline/departures].

The group log of a classic group has neither. But a commit renews the session of its member, and the
log has the session timeout. So a member that has committed more recently than that has not expired.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

LEAVE = "leave"
SESSION_EXPIRY = "session expiry"
OPEN = "leave or expiry"

RECORDED = "recorded by the coordinator"

# An expiry is logged one session timeout after the last heartbeat, and the end of the rebalance
# somewhat later. A silence that is much longer has another reason.
_LONGEST_SILENCE = 2
# A member that usually commits this often within its session timeout would have committed.
_USUAL_COMMITS = 2


# So many of the newest minutes show how often a member usually commits.
_USUAL_MINUTES = 10
MINUTE_US = 60_000_000

# A member that left: its group, its key, and when in microseconds.
Left = tuple[str, str, int]
# A partition: the group, the topic and the number.
Place = tuple[str, str, int]
Row = Mapping[str, Any]


class Departure(NamedTuple):
    """What is known of a member that is no longer in the group.

    Attributes:
        at_ms: when the first generation without it was logged.
        session_timeout_ms, rebalance_timeout_ms: as its client set them; None if unknown.
        owned: whether it owned partitions, so that commits of these are its commits.
        committed_ms: its last commit; None if there is none.
        usual_gap_ms: the time between two of its commits; None if unknown.
    """

    at_ms: int
    session_timeout_ms: int | None
    rebalance_timeout_ms: int | None
    owned: bool
    committed_ms: int | None
    usual_gap_ms: float | None


class Exit(NamedTuple):
    """How a member left, and how that is known.

    Attributes:
        kind: leave, session expiry, or that it is open.
        evidence: a sentence.
        silent_ms: how long it did not commit, if that is unusual for it; None otherwise.
    """

    kind: str
    evidence: str
    silent_ms: int | None = None


def judged(departure: Departure) -> Exit:
    """Return whether a member left or expired, or that this is open."""
    return _judged(departure)._replace(silent_ms=_unusual_silence_ms(departure))


def _unusual_silence_ms(departure: Departure) -> int | None:
    if departure.committed_ms is None or departure.usual_gap_ms is None:
        return None
    silent_ms = departure.at_ms - departure.committed_ms
    return silent_ms if silent_ms > _USUAL_COMMITS * departure.usual_gap_ms else None


def _judged(departure: Departure) -> Exit:
    session_ms, committed_ms = departure.session_timeout_ms, departure.committed_ms
    if session_ms is None:
        return Exit(OPEN, "its session timeout is not known")
    if not departure.owned:
        return Exit(OPEN, "owned no partitions, so its commits are not known")
    if committed_ms is None:
        return Exit(OPEN, "did not commit")
    silent_ms = departure.at_ms - committed_ms
    silent = silence_text(silent_ms, session_ms)
    if silent_ms < session_ms:
        return Exit(LEAVE, f"{silent}: too short for an expiry")
    usual_ms = departure.usual_gap_ms
    if usual_ms is None:
        return Exit(OPEN, f"{silent}, and how often it commits is not known")
    if usual_ms * _USUAL_COMMITS > session_ms:
        return Exit(OPEN, f"{silent}, which is usual for it")
    if silent_ms > _LONGEST_SILENCE * session_ms:
        return Exit(OPEN, f"{silent}: much longer than an expiry takes")
    if silent_ms >= (departure.rebalance_timeout_ms or silent_ms + 1):
        return Exit(OPEN, f"{silent}, as long as its rebalance timeout")
    return Exit(SESSION_EXPIRY, silent)


def silence_text(silent_ms: int, session_timeout_ms: int) -> str:
    """Return a silence beside the session timeout: silent for 7.4 s, session 6 s."""
    return f"silent for {silent_ms / 1000:.1f} s, session {session_timeout_ms / 1000:g} s"


class Minutes(NamedTuple):
    """The minutes of a partition by time: beginning, first and last commit, number of commits.

    Times are in microseconds.
    """

    starts: list[int]
    first: list[int]
    last: list[int]
    commits: list[int]


def held_up(sessions: Iterable[Row]) -> set[Left]:
    """Return the members that were back in the generation without them, and without another one.

    A rebalance waits for a member that has died until its session expires, so the silence of those
    that restarted meanwhile is as long, although they may have left.

    Args:
        sessions: all sessions of some groups: `group_id`, `member_key`, `identity`,
            `first_seen_ts` and `last_seen_ts`. Times are in microseconds.
    """
    began: set[Left] = set()
    ended: dict[tuple[str, int], list[Row]] = {}
    for row in sessions:
        began.add((row["group_id"], row["identity"], row["first_seen_ts"]))
        if row["last_seen_ts"] is not None:
            ended.setdefault((row["group_id"], row["last_seen_ts"]), []).append(row)
    return {
        (group_id, row["member_key"], at_us)
        for (group_id, at_us), rows in ended.items()
        for row in rows
        if len({each["identity"] for each in rows}) > 1
        and (group_id, row["identity"], at_us) in began
    }


def exits_of(
    sessions: Iterable[Row],
    owned: Mapping[Left, Sequence[Row]],
    by_place: Mapping[Place, Minutes],
    at_moment: Mapping[tuple[Place, int], int],
    waited: Container[Left] = (),
) -> dict[Left, Exit]:
    """Return how members left whose departure is open.

    Args:
        sessions: their sessions: `group_id`, `member_key`, `last_seen_ts`, `session_timeout_ms` and
            `rebalance_timeout_ms`. Times are in microseconds here.
        owned: what each of them owned until then: `group_id`, `topic`, `partition` and `from_ts`.
        by_place: the commits of these partitions by minute.
        at_moment: by partition and time of a departure the newest commit in the same minute.
        waited: see `held_up`.
    """
    found = {}
    for session in sessions:
        at_us = session["last_seen_ts"]
        key = session["group_id"], session["member_key"], at_us
        committed, gaps = [], []
        for row in owned.get(key, ()):
            place = row["group_id"], row["topic"], row["partition"]
            known = by_place.get(place)
            if known is None:
                continue
            last_us = at_moment.get((place, at_us)) or _last_before(known, at_us)
            # Earlier commits are those of the owner before.
            if last_us is not None and last_us >= row["from_ts"]:
                committed.append(last_us)
            gaps += _gaps(known, row["from_ts"], at_us)
        found[key] = judged(
            Departure(
                at_us // 1000,
                session["session_timeout_ms"],
                session["rebalance_timeout_ms"],
                owned=key in owned,
                committed_ms=max(committed) // 1000 if committed else None,
                usual_gap_ms=median(gaps) / 1000 if gaps else None,
            )
        )
        if key in waited and found[key].kind == SESSION_EXPIRY:
            text = f"{found[key].evidence}, but the group waited for another member"
            found[key] = Exit(OPEN, text)
    return found


def _last_before(minutes: Minutes, at_us: int) -> int | None:
    """Return the last commit of the newest minute before that of a time."""
    place = bisect_left(minutes.starts, at_us - at_us % MINUTE_US)
    return minutes.last[place - 1] if place else None


def _gaps(minutes: Minutes, from_us: int, to_us: int) -> list[float]:
    """Return the mean time between the commits of each of the newest minutes of a time.

    Its first and last minute can contain commits of other owners, and a silence. That makes the
    result longer, so that less is inferred from it.
    """
    end = bisect_right(minutes.first, to_us)
    begin = max(bisect_left(minutes.last, from_us), end - _USUAL_MINUTES)
    return [
        (minutes.last[n] - minutes.first[n]) / (minutes.commits[n] - 1)
        for n in range(begin, end)
        if minutes.commits[n] > 1
    ]


def cause_of(row: Row, found: Mapping[Left, Exit]) -> str | None:
    """Return the cause of a rebalance, which is that of its departures if they have the same.

    Args:
        row: `group_id`, `trigger`, `left` and `completed_ts` in microseconds.
        found: see `exits_of`.
    """
    trigger: str | None = row["trigger"]
    if trigger != OPEN or not row["left"] or row["completed_ts"] is None:
        return trigger
    kinds = {
        exit_.kind if exit_ is not None else OPEN
        for key in row["left"]
        for exit_ in [found.get((row["group_id"], key, row["completed_ts"]))]
    }
    return kinds.pop() if len(kinds) == 1 else trigger
