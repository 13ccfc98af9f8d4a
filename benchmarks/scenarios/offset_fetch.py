"""Offset fetches: each connection fetches the one offset that its group committed before.

The first response of every connection must hold the committed offset, and all later ones the same
bytes. So a broker that loses or invents offsets fails the scenario.
"""

from __future__ import annotations

from benchmarks import stable_members
from benchmarks.measures import CPU_US, Outcome, Row, Scenario
from benchmarks.requests import Refused, first_error
from benchmarks.session import TOPIC, Conversation, Job, Membership, Session
from benchmarks.steady import Ring
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.offset_fetch import OffsetFetchResponse

COMMITTED = 42


async def run(job: Job, row: Row) -> Outcome:
    """Measure fetches in one shape."""
    return await stable_members.measure(job, row, _prepare)


async def _prepare(session: Session, conversation: Conversation, member: Membership) -> Ring:
    requests = session.requests
    commit = requests.offset_commit(
        member.group, member.generation, member.member_id, TOPIC, COMMITTED
    )
    committed = requests.agreed(ApiKey.OFFSET_COMMIT).response(await conversation.exchange(commit))
    if (code := first_error(committed)) != ErrorCode.NONE:
        raise Refused(ApiKey.OFFSET_COMMIT, code)
    fetch, agreed = (
        requests.offset_fetch(member.group, TOPIC),
        requests.agreed(ApiKey.OFFSET_FETCH),
    )
    frame = await conversation.exchange(fetch)
    response: OffsetFetchResponse = agreed.response(frame)
    if first_error(response) == ErrorCode.NONE:
        offset = response.topics[0].partitions[0].committed_offset
        if offset != COMMITTED:
            raise ConnectionError(f"committed {COMMITTED}, but {offset} was fetched")
    return Ring(agreed, [fetch], frame)


SCENARIO = Scenario(
    key="offset_fetch",
    title="OffsetFetch",
    rows=stable_members.rows(closed_cpu_us=11.0, pipelined_cpu_us=5.0),
    metrics=stable_members.METRICS,
    primary=CPU_US,
    run=run,
)
