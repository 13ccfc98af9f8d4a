"""A recorded history of a group as the script of a run.

The history comes from the output of `coterie pipeline run`, or from a broker's data directory. Each
member is a pod that starts, stops and dies at the recorded times; what happens in between is that
of the machine. `ASSUMPTIONS` says what the records leave open.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from coterie.client.names import counted
from coterie.lab.errors import WrongInput
from coterie.lab.kernel import MS, SECOND
from coterie.lab.recorded_script import forming_of
from coterie.lab.scenario import Scenario, check_sizes
from coterie.lab.script import Event, Recording, pod_name
from coterie.pipeline.report.history import Story
from coterie.pipeline.show import known_groups, read_story
from coterie.pipeline.timeline.model import SHARE, STREAMS

ASSUMPTIONS = (
    "Members start, stop and die at the recorded times; one that was removed has died before.",
    "A client with the same name on the same host is the same pod.",
    "A static member that was replaced was down for two seconds.",
    "Members have the longest recorded session timeout, unless --set session_ms changes it.",
    "Their heartbeat interval is the longest time in which the members answered a rebalance.",
    "All members read all topics, whose partitions are equally many and all there from the start.",
    "Times in which nothing happens are shortened to three minutes.",
)

# Why a group of some types is not replayed.
NOT_REPLAYED = {
    STREAMS: "a streams group: the lab's machines assign partitions, and no tasks.",
    SHARE: "a share group: its members share partitions, and a script for the lab says who joins"
    " and leaves groups whose partitions have one owner. The scenario 'poison-record' has share"
    " groups.",
}

_QUIET_US = 180 * SECOND
_FORM_S = 60
# Connect may wait for its delay more than once.
_TAIL_S = 2_000
_DOWN_MS = 2_000
_AT_ONCE_MS = 5_000
# More events than this take too long; the last ones are replayed.
MOST_EVENTS = 1_000
_NAMED_GROUPS = 5
# Clients refuse a heartbeat interval that is not well below the session; 3 s is the usual one.
_BEATS_IN_A_SESSION = 3
_USUAL_BEAT_MS = 3_000

_Row = Mapping[str, Any]


class Recorded(NamedTuple):
    """What the records say about the time that is replayed.

    Attributes:
        scenario: the script.
        rebalances, moved: recorded rebalances after the forming, and moves in them.
        unowned_s: partition-seconds without an owner in them; None if the records do not say.
        session_ms: the session timeouts of the recorded members.
        heartbeat_ms: their heartbeat interval, as their answers to rebalances show it; None if no
            rebalance does.
        left_out: earlier events that are not replayed.
    """

    scenario: Scenario
    rebalances: int
    moved: int
    unowned_s: float | None
    session_ms: list[int]
    heartbeat_ms: int | None
    left_out: int


class _Change(NamedTuple):
    """A recorded change: what a pod does, and when."""

    at_ms: int
    do: str
    pod: str


def read_recorded(path: str, group_id: str, topic_names: Mapping[str, str]) -> Recorded:
    """Return the recorded history of a group as a scenario.

    Args:
        path: the output of a pipeline run, or a data directory.
        group_id: the group.
        topic_names: names by topic id, for the KIP-848 groups of a data directory.

    Raises:
        WrongInput: the group is not there, or nothing happened to it that could be replayed.
        NoSuchLog, StoreError: the directory is something else, or can't be read.
    """
    story = read_story(path, group_id, topic_names)
    if story is None or not story.group.tables.get("member_sessions"):
        raise WrongInput(_no_members(path, group_id))
    return recorded_of(group_id, story)


def _no_members(path: str, group_id: str) -> str:
    known = known_groups(path)
    names = ", ".join(known[:_NAMED_GROUPS]) + (", ..." if len(known) > _NAMED_GROUPS else "")
    if group_id in known:
        return f"No members of group '{group_id}' are recorded in {path}."
    return f"{path} has no group '{group_id}'. Its groups: {names or 'none'}."


def recorded_of(group_id: str, story: Story) -> Recorded:
    """Return the story of a group as a scenario.

    Raises:
        WrongInput: nothing happened after the group had formed, or it is too large; or it is a
            streams group, whose tasks no machine has, or a share group.
    """
    for group_type, text in NOT_REPLAYED.items():
        if story.group.is_of(group_type):
            raise WrongInput(f"Group '{group_id}' is {text}")
    tables = story.group.tables
    changes = _changes(tables["member_sessions"])
    formed_ms = _formed_ms(tables["rebalances"], changes)
    later = [each for each in changes if each.at_ms > formed_ms]
    left_out = max(0, len(later) - MOST_EVENTS)
    if left_out:
        formed_ms = later[left_out].at_ms - 1
        later = later[left_out:]
    if not later:
        raise WrongInput(
            f"The recorded history of group '{group_id}' has nothing to replay: no member joined,"
            " left or died after it had formed."
        )
    running: dict[str, None] = {}
    for each in changes:
        if each.at_ms <= formed_ms and each.do == "start":
            running[each.pod] = None
        elif each.at_ms <= formed_ms:
            running.pop(each.pod, None)
    sessions = sorted({row["session_timeout_ms"] for row in tables["member_sessions"]} - {None})
    beat_ms = _beat_ms(tables["rebalances"], sessions[-1]) if sessions else None
    forming = forming_of(running, len(running))
    owned = {
        (row["topic"], row["partition"]) for row in tables["ownership"] if row["partition"] >= 0
    }
    scenario = Scenario(
        name="recorded", title=f"The recorded history of group '{group_id}'",
        story=f"{counted(len(running), 'member')} at first, then {len(later)} starts and stops.",
        picture="", members=len(running), partitions=max(1, len(owned)),
        topics=max(1, len({topic for topic, _ in owned})), form_s=_FORM_S, tail_s=_TAIL_S,
        machines=(), script=[], settings=_settings(sessions, beat_ms), expect=(), claims=(),
        recording=Recording(forming, tuple(_events(later, formed_ms))),
    )  # fmt: skip
    check_sizes(scenario)
    rebalances = [row for row in tables["rebalances"] if (row["completed_ts"] or 0) > formed_ms]
    times = [row["unowned_partition_ms"] for row in rebalances]
    known = [each for each in times if each is not None]
    return Recorded(
        scenario,
        len(rebalances),
        sum(row["moved"] or 0 for row in rebalances),
        sum(known) / 1_000 if known else None,
        sessions,
        beat_ms,
        left_out,
    )


def _beat_ms(rebalances: Sequence[_Row], session_ms: int) -> int | None:
    """Return the heartbeat interval that rebalances show; None if none does.

    A member hears of a rebalance with its next heartbeat. So the join phase of a generation lasts
    an interval at most, unless a member has died or an application takes long for its records.
    """
    found = [
        row["join_ms"] // max(1, row["generations"] or 1)
        for row in rebalances
        if row.get("join_ms") and not row["initial_delay_ms"] and (row["members"] or 0) > 1
    ]
    short = [each for each in found if each <= session_ms // _BEATS_IN_A_SESSION]
    return max(short, default=None)


def _settings(sessions: list[int], beat_ms: int | None) -> dict[str, Any]:
    """Return the settings of the members, as far as they are recorded."""
    if not sessions:
        return {}
    usual_ms = min(_USUAL_BEAT_MS, sessions[-1] // _BEATS_IN_A_SESSION)
    return {"session_ms": sessions[-1], "heartbeat_ms": beat_ms or max(1, usual_ms)}


def _formed_ms(rebalances: Sequence[_Row], changes: list[_Change]) -> int:
    """Return when the group had formed: after its first rebalance and those that follow at once."""
    completed = sorted(row["completed_ts"] for row in rebalances if row["completed_ts"] is not None)
    formed_ms = completed[0] if completed else changes[0].at_ms
    for at_ms in completed:
        if at_ms - formed_ms <= _AT_ONCE_MS:
            formed_ms = at_ms
    return int(formed_ms)


def _changes(sessions: Sequence[_Row]) -> list[_Change]:
    """Return when which pod starts, stops and dies.

    A pod is a client that comes back after its last session; one that overlaps is another pod.
    """
    changes: list[_Change] = []
    pods: dict[str, list[tuple[str, float]]] = {}
    count = 0
    for row in sorted(sessions, key=lambda row: (row["first_seen_ts"], row["member_key"])):
        known = pods.setdefault(row["identity"] or row["member_key"], [])
        ended = (n for n, (_, end_ms) in enumerate(known) if end_ms <= row["first_seen_ts"])
        free = next(ended, -1)
        if free < 0:
            known.append((pod_name(count), 0))
            count += 1
        pod = known[free][0]
        changes.append(_Change(row["first_seen_ts"], "start", pod))
        last_ms = row["last_seen_ts"]
        known[free] = (pod, float("inf") if last_ms is None else last_ms)
        if last_ms is not None:
            do, before_ms = _exit(row)
            changes.append(_Change(max(row["first_seen_ts"] + 1, last_ms - before_ms), do, pod))
    return sorted(changes)


def _exit(row: _Row) -> tuple[str, int]:
    """Return how a process ended, and how long before its member was gone."""
    kind = row["exit_kind"]
    if kind == "session expiry":
        return "kill", row["session_timeout_ms"] or 0
    if kind in ("rebalance timeout", "sync timeout", "revocation timeout"):
        return "kill", row["rebalance_timeout_ms"] or 0
    return "stop", _DOWN_MS if kind == "replaced" else 0


def _events(changes: list[_Change], formed_ms: int) -> list[Event]:
    """Return changes as events, without the times in which nothing happens."""
    events = []
    at_us, before_ms = 0, formed_ms
    for each in changes:
        at_us += min((each.at_ms - before_ms) * MS, _QUIET_US)
        before_ms = each.at_ms
        events.append(Event(at_us, each.do, each.pod))
    return events
