"""Members that died without a word, polled too late, or restarted [pipeline/expired-member]."""

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from coterie.pipeline.findings.finding import Finding
from tests.pipeline.findings.rows import Row, found, of_rule, owned, rebalance, session


def expired(member: str, ended: float, **columns: object) -> Row:
    return session("g", member, 0, ended, member, exit_kind="session expiry", **columns)


def findings(*sessions: Row, ownership: list[Row] | None = None) -> list[Finding]:
    rows = [session("g", "stays", 0, None, "stays"), *sessions]
    ends = [rebalance("g", 9, 900)]
    return found({"member_sessions": rows, "ownership": ownership or [], "rebalances": ends})


def test_member_that_died_is_named_with_the_time_for_which_nothing_was_read() -> None:
    owners = [owned("g", n, 0, 100, "dies") for n in range(2)]
    owners += [owned("g", n, 103.5, None, "stays") for n in range(2)]
    (finding,) = findings(expired("dies", 100, silent_ms=6_200), ownership=owners)
    assert (finding.rule, finding.subject, finding.value) == ("expired_member", "dies at h", 9.7)
    assert finding.evidence == (
        "sent no heartbeat for 6.2 s and was removed without having left;"
        " its 2 partitions were not read for 9.7 s"
    )
    assert finding.to_ms - finding.from_ms == 6_200


def test_partitions_that_nobody_took_are_not_read_yet() -> None:
    (finding,) = findings(expired("dies", 100), ownership=[owned("g", 0, 0, 100, "dies")])
    assert "its 1 partition was not read for at least 13 min 21 s, and still has no owner" in (
        finding.evidence
    )


def test_member_that_comes_back_was_not_killed() -> None:
    back = session("g", "dies-2", 130, None, "dies")
    (finding,) = findings(expired("dies", 100, silent_ms=10_000), back)
    assert finding.evidence.endswith("; joined again at 09:02:10")


def test_members_that_died_together_are_one_finding() -> None:
    dead = [expired(f"m{n}", 100 + n * 0.8) for n in range(4)]
    (finding,) = findings(*dead, expired("later", 400))[1:]
    assert finding.subject is None
    assert finding.evidence.startswith("4 members (m0 at h, m1 at h, m2 at h and 1 more) sent no")


def test_sessions_of_a_flapping_member_are_not_repeated() -> None:
    flaps = [
        session("g", f"f{n}", n * 80, n * 80 + 40, "flaky", exit_kind="session expiry")
        for n in range(4)
    ]
    assert [each.rule for each in findings(*flaps)] == ["flapping_member"]


REASON = "recorded by the coordinator: consumer poll timeout has expired."


@pytest.mark.parametrize(
    ("kind", "evidence", "silent_ms", "session_ms", "is_found"),
    [
        ("leave", REASON, None, 45_000, True),
        ("leave or expiry", None, 303_000, 45_000, True),
        ("leave", None, 303_000, 45_000, True),
        ("leave", None, 200_000, 45_000, False),
        # A process that was killed would be removed at that time, too.
        ("leave or expiry", None, 303_000, 300_000, False),
        ("rebalance timeout", None, None, 45_000, True),
        ("leave", None, None, 45_000, False),
    ],
)
def test_member_that_polled_too_late(
    *, kind: str, evidence: str | None, silent_ms: int | None, session_ms: int, is_found: bool
) -> None:
    """[pipeline/max-poll]"""
    slow = session(
        "g", "slow", 0, 500, "slow", exit_kind=kind, exit_evidence=evidence, silent_ms=silent_ms,
        session_timeout_ms=session_ms, rebalance_timeout_ms=300_000,
    )  # fmt: skip
    found_ = findings(slow, session("g", "slow-2", 520, None, "slow"))
    assert [each.subject for each in of_rule(found_, "max_poll_exceeded")] == (
        ["slow at h"] if is_found else []
    )
    if is_found:
        assert found_[0].evidence.endswith("; joined again at 09:08:40")


def test_static_restart_is_information() -> None:
    """[pipeline/static-restart]"""
    room = {"member_key": "room-1", "identity": "room-1"}
    freely = "static restart without rebalance"
    rows = [
        session("g", "a", 0, 100, exit_kind="replaced", **room),
        session("g", "b", 100, 300, exit_kind="replaced", entry_kind=freely, **room),
        session("g", "c", 300, None, entry_kind=freely, **room),
    ]
    (finding,) = findings(*rows)
    assert (finding.rule, finding.subject, finding.value) == ("static_restart", "room-1", 2)
    assert finding.evidence == "restarted 2 times within 3 min 20 s without a rebalance"
    (first,) = findings(*rows[:2])
    assert first.evidence == "restarted at 09:01:40 without a rebalance"


def test_who_did_what_comes_before_what_follows_from_it() -> None:
    """[pipeline/ranking]"""
    from tests.pipeline.findings.rows import minute

    rows = {
        "member_sessions": [session("g", "stays", 0, None), expired("dies", 100)],
        "minutes": [minute("g", 120, rewound=100_000), minute("g", 180)],
    }
    assert [each.rule for each in found(rows)] == ["expired_member", "rewind"]


def test_of_several_that_are_gone_at_once_one_has_held_up_the_group() -> None:
    """The log does not say which one [pipeline/max-poll]."""
    gone = [
        session(
            "g", name, 0, 500, name, exit_kind="leave or expiry", silent_ms=silent_ms,
            session_timeout_ms=45_000, rebalance_timeout_ms=300_000,
        )
        for name, silent_ms in (("slow", 302_000), ("killed", 306_000))
    ]  # fmt: skip
    (finding,) = findings(*gone)
    assert (finding.rule, finding.subject) == ("max_poll_exceeded", None)
    assert finding.evidence == (
        "one of slow at h, killed at h did not poll within max.poll.interval.ms (5 min 00 s) and"
        " held up the group; all of them were gone after 5 min 06 s"
    )


def test_storm_hides_only_the_flapping_members_that_it_names() -> None:
    """[pipeline/one-finding-a-cause]"""
    sessions, rebalances = [session("g", "stays", -3600, None, "stays")], []
    for n in range(9):
        name = "abc"[n % 3]
        sessions.append(session("g", f"{name}{n}", n * 40, n * 40 + 20, name))
        rebalances.append(
            rebalance("g", n + 3, n * 40, trigger_identity=f"{name} at h", joined=[f"{name}{n}"])
        )
    rebalances += [rebalance("g", 1, -3600), rebalance("g", 2, -3500, joined=["x"])]
    found_ = found({"member_sessions": sessions, "rebalances": rebalances})
    assert {(each.rule, each.subject) for each in found_} == {
        ("rebalance_storm", None),
        *(("flapping_member", f"{name} at h") for name in "abc"),
    }
