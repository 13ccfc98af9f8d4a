"""Offset fetches: each connection asks for the one offset its group committed before.

The first answer of every connection must hold the committed offset, and all later ones the same
bytes, so a broker that forgets or invents offsets fails the scenario.
"""

from __future__ import annotations

from benchmarks import stable_members
from benchmarks.answers import (
    NONE,
    Refused,
    commit_error_places,
    fetch_error_places,
    fetched_offset,
    first_error,
)
from benchmarks.frames import OFFSET_COMMIT, OFFSET_FETCH
from benchmarks.measures import CPU_US, Outcome, Row, Scenario
from benchmarks.session import TOPIC, Conversation, Job, Membership, Session
from benchmarks.steady import Ring

COMMITTED = 42


async def run(job: Job, row: Row) -> Outcome:
    """Measure fetches in one shape."""
    return await stable_members.measure(job, row, _prepare)


async def _prepare(session: Session, conversation: Conversation, member: Membership) -> Ring:
    commit = session.frames.offset_commit(
        member.group, member.generation, member.member_id, TOPIC, COMMITTED
    )
    places = commit_error_places(session.frames.spoken(OFFSET_COMMIT))
    if (code := first_error(await conversation.ask(commit), places)) != NONE:
        raise Refused(OFFSET_COMMIT.name, code)
    fetch, spoken = (
        session.frames.offset_fetch(member.group, TOPIC),
        session.frames.spoken(OFFSET_FETCH),
    )
    answer, places = await conversation.ask(fetch), fetch_error_places(spoken)
    offset = fetched_offset(answer, spoken)
    if first_error(answer, places) == NONE and offset != COMMITTED:
        raise ConnectionError(f"committed {COMMITTED}, but {offset} was fetched")
    return Ring([fetch], answer, OFFSET_FETCH.name, places)


SCENARIO = Scenario(
    key="offset_fetch",
    title="OffsetFetch",
    rows=stable_members.rows(closed_cpu_us=11.0, pipelined_cpu_us=5.0),
    metrics=stable_members.METRICS,
    primary=CPU_US,
    run=run,
)
