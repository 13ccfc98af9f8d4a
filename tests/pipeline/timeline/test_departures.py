"""Leave or expiry: what the silence of a member proves [pipeline/departures]."""

import pytest

from coterie.pipeline.timeline.departures import Departure, held_up, judged


def departure(silent_ms: int | None, usual_ms: float | None = 1_000, **fields: object) -> Departure:
    known = Departure(100_000, 6_000, 60_000, owned=True, committed_ms=None, usual_gap_ms=usual_ms)
    if silent_ms is not None:
        known = known._replace(committed_ms=100_000 - silent_ms)
    return known._replace(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "kind", "evidence"),
    [
        (departure(1_200), "leave", "silent for 1.2 s, session 6 s: too short for an expiry"),
        (departure(7_400), "session expiry", "silent for 7.4 s, session 6 s"),
        # A member that seldom commits may have been silent anyway.
        (departure(7_400, 5_000), "leave or expiry", "which is usual for it"),
        (departure(7_400, None), "leave or expiry", "how often it commits is not known"),
        # Its heartbeats went on, and then it left: for example after max.poll.interval.ms.
        (departure(61_000), "leave or expiry", "much longer than an expiry takes"),
        (departure(11_000, rebalance_timeout_ms=10_000), "leave or expiry", "rebalance timeout"),
        (departure(None), "leave or expiry", "did not commit"),
        (departure(1_200, owned=False), "leave or expiry", "owned no partitions"),
        (departure(1_200, session_timeout_ms=None), "leave or expiry", "timeout is not known"),
    ],
)
def test_silence_is_compared_with_the_session_timeout(
    found: Departure, kind: str, evidence: str
) -> None:
    exit_ = judged(found)
    assert exit_.kind == kind
    assert evidence in exit_.evidence


def test_member_that_restarted_while_the_group_waited_for_a_dead_one_may_have_left() -> None:
    """As seen on Kafka 4.3.1: one was killed, and another one restarted before it expired."""
    at_us = 100_000_000

    def row(key: str, identity: str, first_us: int, last_us: int | None) -> dict[str, object]:
        return {
            "group_id": "g", "member_key": key, "identity": identity, "first_seen_ts": first_us,
            "last_seen_ts": last_us,
        }  # fmt: skip

    dead, restarted = row("c-1", "c", 0, at_us), row("a-1", "a", 0, at_us)
    back = row("a-2", "a", at_us, None)
    assert held_up([dead, restarted, back]) == {("g", "a-1", at_us)}
    # It was the only one, so it was itself silent for that long.
    assert not held_up([restarted, back])
    # Nobody is back: each of them may have died.
    assert not held_up([dead, restarted])
