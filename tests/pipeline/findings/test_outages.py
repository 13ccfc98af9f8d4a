"""What real clients leave in the records when their broker is killed [pipeline/outage].

The stories repeat what was recorded with kafka-python, aiokafka and librdkafka on a broker that was
killed and started again: the first two keep their member ids and go on, librdkafka joins anew, and
its old session expires one session timeout after the start.
"""

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from tests.pipeline.findings.rows import START_S, Row, found, of_rule, rebalance, session

GROUPS = 6
KILLED_S = 1000
SESSION_S = 10


def ms(seconds: float) -> int:
    return round((START_S + seconds) * 1000)


def commits(*silences: tuple[float, float], until_s: int = 1300) -> list[int]:
    """Return commits of every second but for some silences."""
    return [
        ms(each)
        for each in range(10, until_s)
        if not any(begin < each < end for begin, end in silences)
    ]


def steady(group: str) -> list[Row]:
    """Return a group whose two members go on."""
    return [session(group, f"m{n}", 0, None, f"{group}-{n}") for n in range(2)]


def mixed(group: str, back_s: float, gone_s: float | None = None) -> list[Row]:
    """Return a group in which one member goes on and the other one joins anew."""
    gone_s = back_s + SESSION_S if gone_s is None else gone_s
    kind = {"exit_kind": "session expiry"}
    return [
        session(group, "stays", 0, None, f"{group}-0"),
        session(group, "old", 0, gone_s, f"{group}-1", **kind),
        session(group, "new", back_s, None, f"{group}-1"),
    ]


def cluster(*sessions: list[Row]) -> dict[str, list[Row]]:
    rows = [row for group in sessions for row in group]
    groups = sorted({row["group_id"] for row in rows})
    starts = [rebalance(group, 1, 0, joined=["m"], members=2) for group in groups]
    return {"member_sessions": rows, "rebalances": starts}


def groups_of(count: int) -> list[list[Row]]:
    """Return groups that go on, besides those of a test."""
    return [steady(f"s{n}") for n in range(count)]


def test_members_that_keep_their_ids_leave_a_silence_and_a_load() -> None:
    rows = cluster(*groups_of(GROUPS))
    silent = commits((KILLED_S, 1016))
    (finding,) = found(rows, [ms(1015.6)], silent)
    assert (finding.rule, finding.groups) == ("broker_restart", ())
    assert finding.evidence == (
        "no commit of any group for 16.0 s, then no member of 6 groups was replaced;"
        " the coordinator loaded its partitions at 09:16:55"
    )
    assert finding.silences == ((ms(1000), ms(1016)),)
    # Without a journal this is what producers that pause look like, too.
    assert not found(rows, [], silent)
    # A start that was over before anybody noticed is no outage.
    assert not found(rows, [ms(1015.6)], commits())


def test_groups_of_mixed_clients_are_replaced_in_part() -> None:
    """In the log alone: two groups in which a member joined anew, and four that went on."""
    rows = cluster(mixed("a", 1016), mixed("b", 1017), *groups_of(4))
    (finding,) = found(rows, [], commits((KILLED_S, 1016)))
    assert finding.rule == "broker_restart"
    assert finding.evidence == (
        "no commit of any group for 16.0 s, then some members of 2 of 6 groups were replaced"
        " within 1.0 s"
    )
    assert (finding.groups, finding.groups_at_ms) == (("a", "b"), (ms(1026), ms(1027)))


def test_machine_that_fails_is_no_outage() -> None:
    """Both groups of it wait for an old session, and no other group is silent."""
    rows = cluster(mixed("a", 1016), mixed("b", 1017))
    assert not of_rule(found(rows, [], commits((KILLED_S, 1016))), "broker_restart")


def test_one_member_that_joins_anew_is_no_outage() -> None:
    """A crash in one group while producers pause."""
    rows = cluster(mixed("a", 1016), *groups_of(5))
    assert not of_rule(found(rows, [], commits((KILLED_S, 1016))), "broker_restart")


def test_broker_that_is_gone_twice_is_one_outage_if_the_members_recover_once() -> None:
    """It is gone again while the group waits for the old session."""
    rows = cluster(mixed("a", 1061, 1072), mixed("b", 1062, 1073), *groups_of(4))
    silent = commits((KILLED_S, 1016), (1020, 1060))
    (finding,) = found(rows, [], silent)
    assert finding.silences == ((ms(1000), ms(1016)), (ms(1020), ms(1060)))
    assert finding.evidence == (
        "no commit of any group for 16.0 s, 4.0 s later for 40.0 s, then some members of 2 of 6"
        " groups were replaced within 1.0 s"
    )


def test_two_restarts_without_new_members_are_two_outages() -> None:
    rows = cluster(*groups_of(GROUPS))
    silent = commits((KILLED_S, 1016), (1020, 1060))
    first, second = sorted(found(rows, [ms(1016), ms(1060)], silent), key=lambda each: each.from_ms)
    assert first.silences == ((ms(1000), ms(1016)),)
    assert second.silences == ((ms(1020), ms(1060)),)


@pytest.mark.parametrize(
    ("heard_s", "rules"), [(1016.1, {"broker_restart"}), (1030, {"expired_member"})]
)
def test_member_that_died_after_the_restart_is_named(heard_s: float, rules: set[str]) -> None:
    """A journal says when a member was last heard; loading its group counts as that."""
    gone = session(
        "a", "dies", 0, heard_s + SESSION_S, "a-1", exit_kind="session expiry",
        silent_ms=SESSION_S * 1000,
    )  # fmt: skip
    rows = cluster([session("a", "stays", 0, None, "a-0"), gone], *groups_of(5))
    # The broker was back within a second.
    findings = found(rows, [ms(1016)], commits((1015, 1016)))
    assert {each.rule for each in findings} == rules
    if rules == {"broker_restart"}:
        said = "no member of 6 groups was replaced; did not come back: a-1 at h; the coordinator"
        assert said in findings[0].evidence


def test_deployment_that_reaches_into_an_outage_is_no_storm() -> None:
    """Seven rebalances, of which the outage caused two, and nobody caused half of them."""
    rows = cluster(*(mixed(group, 1016) for group in "ab"), *groups_of(4))
    rows["rebalances"] += [
        rebalance("a", 2 + n, at_s, trigger=("join", "leave")[n % 2], joined=["x"], members=2,
                  trigger_identity=f"x{n} at h")
        for n, at_s in enumerate((930, 945, 960, 975, 990, 1016, 1026))
    ]  # fmt: skip
    findings = found(rows, [], commits((KILLED_S, 1016)))
    assert {each.rule for each in findings} == {"broker_restart"}


def restarted_slowly(group: str, gone_s: float, back_s: float) -> list[Row]:
    """Return a group whose two members expire, and join again when it is empty."""
    kind = {"exit_kind": "leave or expiry"}
    return [
        row
        for n in range(2)
        for row in (
            session(group, f"old{n}", 0, gone_s + n / 50, f"{group}-{n}", **kind),
            session(group, f"new{n}", back_s + n / 3, None, f"{group}-{n}"),
        )
    ]


@pytest.mark.parametrize(
    ("groups", "apart_s", "rules"),
    [
        (5, 0.01, ["broker_restart"]),
        (2, 0.01, ["broker_restart"]),
        # One group may be started again just then.
        (1, 0.01, []),
        # Processes that were killed had sent their last heartbeats at different times.
        (5, 0.9, []),
    ],
)
def test_broker_whose_start_takes_longer_than_a_session(
    groups: int, apart_s: float, rules: list[str]
) -> None:
    """Recorded on Kafka 4.3.1: 28 s without it, then 11 members expired within 51 ms."""
    gone = [restarted_slowly(f"g{n}", 1028 + apart_s * n, 1036 + n / 5) for n in range(groups)]
    findings = found(cluster(*gone), [], commits((KILLED_S, 1036)))
    across = of_rule(findings, "broker_restart")
    assert [each.rule for each in across] == rules
    for finding in across:
        assert finding.groups == tuple(f"g{n}" for n in range(groups))
        assert f"then all members of {groups} of {groups} groups were replaced" in finding.evidence
