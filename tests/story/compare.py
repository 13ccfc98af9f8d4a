"""The contradictions between the independent log and what Coterie says.

A sentence is returned for each. Times may differ by the clock of the events and by what a busy
machine needs for a signal, a callback or an expiry.
"""

from collections.abc import Iterator

from coterie.pipeline.report.content import Row
from coterie.pipeline.report.history import Story
from tests.story.record import KILLED, LEFT, Callback, Record, Session
from tests.story.shown import Shown

# A process is told to start or to end, and the coordinator learns of it.
SLACK_MS = 4_000
# A session expires late on a busy machine, never early.
EXPIRY_SLACK_MS = 8_000
# Ownership is compared in the middle of a time that is at least this long.
LEAST_OWNED_MS = 400


def contradictions(record: Record, shown: Shown, session_ms: int) -> list[str]:
    """Return everything that contradicts the log."""
    found: list[str] = []
    for group, story in shown.stories.items():
        for session in record.of(group):
            found += _session(session, story, session_ms, _waits(record, session, session_ms))
            found += _ownership(session, story)
        found += _rebalances(record, group, story)
        found += _page(record, group, shown)
        found += _terminal(record, group, shown)
    return found


def _rows_of(session: Session, story: Story) -> dict[str, Row]:
    """Return the rows of `member_sessions` of the member ids that a process had."""
    ids = session.member_ids()
    return {
        row["member_id"]: row
        for row in story.group.tables["member_sessions"]
        if row["member_id"] in ids
    }


def _waits(record: Record, session: Session, session_ms: int) -> bool:
    """Return whether the group waited for a member that had been killed when this one left.

    The group log of a real Kafka shows a departure when the next generation is complete.
    """
    return any(
        other.end == KILLED
        and None not in (other.ended_ms, session.ended_ms)
        and 0 <= (session.ended_ms or 0) - (other.ended_ms or 0) <= session_ms
        for other in record.of(session.group)
        if other is not session
    )


def _session(session: Session, story: Story, session_ms: int, waits: bool) -> Iterator[str]:
    rows = _rows_of(session, story)
    callbacks = session.callbacks()
    for member_id in session.member_ids():
        row = rows.get(member_id)
        if row is None:
            if session.instance is None:
                yield f"{session}: no session of member {member_id}"
            continue
        first = next(each.at_ms for each in callbacks if each.member_id == member_id)
        if not session.started_ms - SLACK_MS <= row["first_seen_ts"] <= first + SLACK_MS:
            yield f"{session}: joined at {row['first_seen_ts']}, first callback at {first:.0f}"
        if row["client_id"] != session.client:
            yield f"{session}: its client is {row['client_id']!r}"
    if session.instance is None and rows:
        slack_ms = SLACK_MS + (session_ms if waits else 0)
        yield from _end(session, rows[session.member_ids()[-1]], session_ms, slack_ms)


def _end(session: Session, row: Row, session_ms: int, slack_ms: int) -> Iterator[str]:
    kind, left_ms = row["exit_kind"] or "", row["last_seen_ts"]
    if session.end is None:
        if left_ms is not None:
            yield f"{session}: lives, but is said to have ended ({kind})"
        return
    assert session.ended_ms is not None
    assert session.gone_ms is not None
    if left_ms is None:
        yield f"{session}: ended ({session.end}), but is said to be a member"
    elif session.end == LEFT:
        if not session.ended_ms - SLACK_MS <= left_ms <= session.gone_ms + slack_ms:
            yield f"{session}: left at {session.ended_ms:.0f}, not at {left_ms}"
        if "expir" in kind and "leave" not in kind:
            yield f"{session}: left, but is said to have expired"
    elif session.end == KILLED:
        # A heartbeat may be as old as its interval; rejoining members end a rebalance earlier.
        last = session.ended_ms + session_ms
        if not last - session_ms <= left_ms <= last + EXPIRY_SLACK_MS:
            yield f"{session}: killed at {session.ended_ms:.0f}, said to have ended at {left_ms}"
        if kind == "leave":
            yield f"{session}: was killed, but is said to have left"


def _ownership(session: Session, story: Story) -> Iterator[str]:
    """Compare the owners in the middle of each time between two callbacks."""
    for callback in session.callbacks():
        until_ms = _until(session, callback)
        middle = (callback.at_ms + until_ms) / 2
        if until_ms - callback.at_ms < LEAST_OWNED_MS or session.paused:
            continue
        keys = {session.instance, callback.member_id}
        owned = {
            (row["topic"], row["partition"])
            for row in story.group.tables["ownership"]
            if row["member_key"] in keys
            and row["from_ts"] <= middle
            and (row["to_ts"] is None or row["to_ts"] >= middle)
        }
        if not owned and not callback.owned:
            continue
        # A callback that reports a revocation comes before the generation that it is part of, so
        # the client may own less than the coordinator has assigned, never more.
        if not callback.owned <= owned:
            yield (
                f"{session}: owned {sorted(callback.owned)} at {middle:.0f} in generation"
                f" {callback.generation}, the table has {sorted(owned)}"
            )


def _until(session: Session, callback: Callback) -> float:
    ends = [callback.until_ms, session.ended_ms]
    return min((end for end in ends if end is not None), default=callback.at_ms)


def _rebalances(record: Record, group: str, story: Story) -> Iterator[str]:
    """Each member joined once and left at most once, and rebalances have their members as cause."""
    rebalances = story.group.rebalances
    for session in record.of(group):
        for member_id in session.member_ids():
            key = session.instance or member_id
            joined = sum(key in (row["joined"] or ()) for row in rebalances)
            left = sum(key in (row["left"] or ()) for row in rebalances)
            if session.instance is None and joined != 1:
                yield f"{session}: {member_id} joined in {joined} rebalances"
            if left > 1:
                yield f"{session}: {member_id} left in {left} rebalances"
    yield from _departures(record, group, story)
    yield from _counts(record, group, story)
    clients = {session.client for session in record.of(group)}
    for row in rebalances:
        if row["trigger_client_id"] not in (*clients, None):
            yield f"{group}: a rebalance was caused by {row['trigger_client_id']!r}"
        if row["completed_ts"] is not None and (row["started_ts"] or 0) > row["completed_ts"]:
            yield f"{group}: rebalance to {row['to_generation']} ended before it began"


def _departures(record: Record, group: str, story: Story) -> Iterator[str]:
    """What a rebalance says of a member that left others behind."""
    for session in record.of(group):
        survivors = [
            other
            for other in record.of(group)
            if other is not session
            and session.ended_ms is not None
            and other.started_ms < session.ended_ms
            and other.ended_ms is None
        ]
        if session.instance is not None or session.paused or not survivors:
            continue
        member_id = session.member_ids()[-1]
        rows = [row for row in story.group.rebalances if member_id in (row["left"] or ())]
        if not rows:
            yield f"{session}: {session.end} caused no rebalance"
        for row in rows:
            is_own = row["trigger_member_id"] == member_id
            if is_own and session.end == KILLED and row["trigger"] == "leave":
                yield f"{session}: was killed, but the rebalance says {row['trigger']}"
            if is_own and session.end == LEFT and row["trigger"] == "session expiry":
                yield f"{session}: left, but the rebalance says {row['trigger']}"


def _counts(record: Record, group: str, story: Story) -> Iterator[str]:
    """Each identity caused as many rebalances by its sessions as by the rebalances themselves."""
    by_session: dict[str, int] = {}
    for row in story.group.tables["member_sessions"]:
        found = by_session.get(row["identity"], 0)
        by_session[row["identity"]] = found + (row["rebalances_caused"] or 0)
    for identity, count in by_session.items():
        rows = [row for row in story.group.rebalances if row["trigger_identity"] == identity]
        if len(rows) != count:
            yield f"{group}: sessions of {identity} caused {count}, rebalances say {len(rows)}"
    for instance in {session.instance for session in record.of(group)} - {None}:
        processes = [session for session in record.of(group) if session.instance == instance]
        rows = [r for r in story.group.tables["member_sessions"] if r["member_key"] == instance]
        if len(rows) != len(processes):
            yield f"{group}: {instance} has {len(rows)} sessions of {len(processes)} processes"


def _page(record: Record, group: str, shown: Shown) -> Iterator[str]:
    data, story = shown.page_group(group), shown.stories[group]
    if data["count"] != len(story.group.rebalances):
        yield f"{group}: the page has {data['count']} rebalances"
    counts = record.disturbances(group)
    ranked = sorted(counts, key=lambda client: -counts[client])
    # Of two clients that came and went equally often either may be first.
    if len(ranked) > 1 and counts[ranked[0]] > counts[ranked[1]] + 1:
        first = data["caused"][0][0] if data["caused"] else "nobody"
        instances = {s.client: s.instance for s in record.of(group)}
        if not first.startswith((ranked[0], instances[ranked[0]] or ranked[0])):
            yield f"{group}: the page says that {first} caused most; it was {ranked[0]}"
        elif abs(data["caused"][0][3] - counts[ranked[0]]) > 1:
            yield f"{group}: {first} caused {data['caused'][0][3]}, not {counts[ranked[0]]}"


def _terminal(record: Record, group: str, shown: Shown) -> Iterator[str]:
    live = [session for session in record.of(group) if session.end is None]
    expected = {session.member_ids()[-1] for session in live}
    found = {row["consumer_id"] for row in shown.members if row["group"] == group}
    if expected != found:
        yield f"{group}: members {sorted(found)} on the terminal, {sorted(expected)} live"
    state = next(row["state"] for row in shown.states if row["group"] == group)
    if state != ("Stable" if live else "Empty"):
        yield f"{group}: is {state} on the terminal"
    offsets = {
        (row["topic"], row["partition"]): row["current_offset"]
        for row in shown.offsets
        if row["group"] == group and row["current_offset"] is not None
    }
    for partition, offset in record.committed.get(group, {}).items():
        if offsets.get(partition, 0) < offset:
            yield f"{group}: {partition} is committed to {offset}, not {offsets.get(partition)}"
    for row in shown.stories[group].group.rebalances if group in shown.told else ():
        # A rebalance that was cut short by another has no generation.
        number = row["to_generation"]
        if number is not None and str(number) not in shown.told[group]:
            yield f"{group}: generation {row['to_generation']} is not in `pipeline show`"
