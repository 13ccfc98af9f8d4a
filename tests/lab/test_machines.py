"""Each machine does what its source says."""

from typing import Any

import pytest

from coterie.lab.kernel import Violation
from coterie.lab.live.beside import simulated_ranges
from coterie.lab.live.cells import live_scenario
from coterie.lab.outcome import RunOutcome
from coterie.lab.run import Run, RunOptions, run
from coterie.lab.scenario import load_scenario
from tests.lab.planted import PLANTS
from tests.planting import planted


def step(machine: str, members: int, partitions: int, do: str, **keys: object) -> RunOutcome:
    """Run a scenario of one step; settings of the model are keys in `settings`."""
    settings = keys.pop("settings", {})
    scenario = load_scenario("three-and-one")._replace(
        members=members, partitions=partitions, script=[{"at_s": 0, "do": do, **keys}]
    )
    assert isinstance(settings, dict)
    return run(machine, scenario, 1, RunOptions(settings))


def test_every_old_consumer_wakes_up_for_one_that_joins() -> None:
    """Measured with 31 consumers of Kafka 0.8.2.2: 1,696 requests for the one that joins."""
    outcome = step("zookeeper", 30, 60, "join")
    attempts = outcome.metrics["attempts"] or 0
    assert attempts >= 31
    requests = sum(
        number for api, number in outcome.apis.items() if api not in ("ping", "event", "setData")
    )
    assert requests / attempts == pytest.approx(55, rel=0.15)


def test_session_of_an_old_consumer_ends_at_a_tick() -> None:
    """Measured: 6.76 and 6.79 s for a session of 6 s."""
    outcome = step("zookeeper", 3, 6, "crash")
    per_partition = outcome.causes["undetected"] / 2
    assert 4.0 <= per_partition <= 8.0


def test_lagging_followers_make_attempts_fail() -> None:
    quick = step("zookeeper", 12, 24, "leave", settings={"zk_lag_ms": 0})
    slow = step("zookeeper", 12, 24, "leave", settings={"zk_lag_ms": 2_000})
    # Eleven attempts, and one more because a fetcher ends its fetch before it stops.
    assert (slow.metrics["attempts"] or 0) > (quick.metrics["attempts"] or 0) >= 11


def test_owner_nodes_prevent_two_readers() -> None:
    settings = {"zk_lag_ms": 2_000}
    step("zookeeper", 12, 24, "leave", settings=settings)
    with planted(PLANTS["ignore-conflicts"]), pytest.raises(Violation) as raised:
        step("zookeeper", 12, 24, "leave", settings=settings)
    assert raised.value.invariant in ("one-reader", "one-owner")


@pytest.mark.parametrize("machine", ["cooperative", "consumer", "streams"])
def test_member_that_closes_reads_nothing_after_its_last_commit(machine: str) -> None:
    outcome = run(machine, load_scenario("rolling-deploy"), 0)
    assert outcome.metrics["duplicates"] == 0


def test_consumer_protocol_waits_for_nobody_that_keeps_what_it_has() -> None:
    """One member's poll takes five minutes while another one joins."""
    scenario = load_scenario("slow-joiner")
    eager, modern = run("eager-3", scenario, 1), run("consumer", scenario, 1)
    assert (modern.metrics["unowned"] or 0) < 30 < (eager.metrics["unowned"] or 0) / 50


@pytest.mark.parametrize(("session_ms", "least"), [(10_000, 5), (45_000, 40)])
def test_death_in_a_consumer_group_costs_the_session(session_ms: int, least: int) -> None:
    settings = {"session_ms": session_ms}
    outcome = step("consumer", 3, 6, "crash", settings=settings)
    assert least <= outcome.causes["undetected"] / 2 <= session_ms / 1_000


def test_slow_member_of_a_consumer_group_is_fenced_and_comes_back() -> None:
    settings = {"rebalance_ms": 20_000}
    outcome = step("consumer", 3, 6, "slow_poll", settings=settings, s=60)
    assert outcome.metrics["lost"] == 0
    assert (outcome.metrics["generations"] or 0) >= 2


def test_draft_loses_its_groups_with_the_coordinator() -> None:
    outcome = run("server-2015", load_scenario("coordinator-moves"), 1)
    assert (outcome.metrics["generations"] or 0) > 0
    assert (outcome.metrics["unowned"] or 0) > 0


def test_unsorted_lists_make_queues_read_twice() -> None:
    sound = step("rocketmq-5", 6, 12, "join")
    assert sound.metrics["double"] == 0
    with planted(PLANTS["unsorted"]), pytest.raises(Violation) as raised:
        step("rocketmq-5", 6, 12, "join")
    assert raised.value.invariant == "settles"


def test_new_client_takes_over_after_a_second() -> None:
    """Measured with RocketMQ 5.4.0: 0.9 and 1.0 s after the newcomer's start."""
    outcome = step("rocketmq-5", 1, 8, "join", jitter_s=0)
    gaps = [each for each in outcome.intervals if each.owner is None]
    ends = {round(each.to_us / 1e6, 1) for each in gaps}
    # The start of the process takes 0.2 s here.
    assert ends <= {1.2, 1.7, 0.2, 0.7}


def test_stopped_client_of_rocketmq_is_noticed_after_two_minutes() -> None:
    """Measured: 137.4 s, the broker's 120 s and the others' timer."""
    outcome = step("rocketmq-5", 3, 9, "pause", s=200)
    gaps = [each for each in outcome.intervals if each.owner is None and each.from_us < 5e6]
    taken = max(each.to_us for each in gaps) / 1e6
    assert 90 < taken < 155


def test_two_topics_leave_two_of_four_clients_idle() -> None:
    """Measured: two topics with two queues each, four clients: two have nothing."""
    scenario = load_scenario("three-and-one")._replace(
        members=3, partitions=4, topics=2, script=[{"at_s": 0, "do": "join"}]
    )
    assert run("rocketmq-5", scenario, 1).metrics["empty_members"] == 2
    assert run("cooperative", scenario, 1).metrics["empty_members"] == 0


def test_notices_that_are_lost_are_healed_by_the_timer() -> None:
    outcome = step("rocketmq-4", 4, 8, "leave", settings={"notices_lost": 1.0})
    settled = outcome.metrics["settle_s"] or 0
    assert 0 < settled <= 21


def test_pop_has_nothing_to_rebalance() -> None:
    for do in ("join", "leave", "crash"):
        metrics = step("rocketmq-pop", 6, 12, do).metrics
        assert (metrics["unowned"], metrics["moves"]) == (0, 0)


def test_more_members_than_partitions_leave_some_empty() -> None:
    for machine in ("zookeeper", "server-2015", "eager-3", "cooperative", "rocketmq-5"):
        assert step(machine, 7, 7, "join").metrics["empty_members"] == 1, machine


def test_cooperative_upgrade_lists_are_eager() -> None:
    scenario = load_scenario("three-and-one")
    made = Run("eager-3", scenario, 1, RunOptions())
    assert made.finish().metrics["generations"] == 1


def test_ordered_queues_have_one_reader_and_wait_for_the_locks_of_the_dead() -> None:
    leaves = step("rocketmq-ordered", 6, 12, "leave")
    assert leaves.metrics["duplicates"] == leaves.metrics["double"] == 0
    # A lock lives 60 s and is renewed every 20 s.
    crash = step("rocketmq-ordered", 6, 12, "crash")
    assert 2 * 38 < (crash.metrics["unowned"] or 0) < 2 * 63


def test_wait_for_locks_depends_on_when_they_were_renewed() -> None:
    """A real client that was killed left three queues for 45 s each (docs/rebalancing.md)."""
    scenario = live_scenario("one-is-killed")
    (found,) = {each[1:] for each in simulated_ranges(scenario, "rocketmq-ordered", {}, 40)}
    low, _, high = found
    assert 3 * 40 < low < 134.2 < 3 * 55 < high < 3 * 62


def test_ordered_queue_is_given_up_when_its_messages_are_consumed() -> None:
    slow = [
        {"at_s": 0, "do": "slow_poll", "s": 10, "jitter_s": 0, "pod": number} for number in (0, 1)
    ]
    scenario = load_scenario("three-and-one")
    script: list[dict[str, Any]] = [*slow, {"at_s": 1, "do": "join", "jitter_s": 0}]
    outcome = run("rocketmq-ordered", scenario._replace(script=script), 1)
    assert outcome.metrics["moves"] == 3
    # The first two read on until their polls end, from which the time to settle is counted.
    assert (outcome.metrics["unowned"] or 0) < 8
    assert (outcome.metrics["settle_s"] or 0) < 4
    assert any(each.owner == "pod-0000.1" and each.to_us > 10_000_000 for each in outcome.intervals)


def test_a_share_group_hands_nothing_over() -> None:
    """A new member has its share at once, and the one before stops with its next heartbeat."""
    outcome = step("share", 2, 6, "join")
    assert outcome.metrics["unowned"] == 0
    assert outcome.metrics["generations"] == 1


def test_a_partition_of_a_dead_member_of_a_share_group_waits_for_its_session() -> None:
    """Its records are released with its connection, but nobody else has been assigned."""
    outcome = step("share", 3, 6, "crash", settings={"rate": 100})
    assert 2 * 35 < outcome.causes["undetected"] < 2 * 51
    # Two partitions with 100 records a second, 100 ms each poll.
    assert outcome.metrics["duplicates"] == 20


def test_a_partition_that_members_share_survives_one_of_them() -> None:
    outcome = step("share", 4, 2, "crash")
    assert outcome.metrics["unowned"] == 0


def test_the_first_tasks_of_a_streams_group_wait_for_more_members() -> None:
    """Without the initial delay the first one gets all of them, and has to give some up."""
    scenario = load_scenario("scale-out").resized(1, 6)._replace(form_s=0)
    scenario = scenario._replace(script=[{"at_s": 0.5, "do": "join", "count": 2}])
    at_once, delayed = (
        run("streams", scenario, 0, RunOptions({"initial_delay_ms": delay_ms})).metrics["moves"]
        for delay_ms in (0, 3_000)
    )
    assert (at_once or 0) > 0
    assert delayed == 0


def test_a_lock_ends_while_its_member_stands_still() -> None:
    settings = {"rate": 100}
    short = step("share", 3, 6, "pause", s=20, settings=settings).metrics
    long = step("share", 3, 6, "pause", s=40, settings=settings).metrics
    assert (short["duplicates"], long["duplicates"]) == (0, 20)


@pytest.mark.parametrize(
    ("machine", "unowned", "duplicates"),
    [("eager-3", 60, 0), ("share", 0, 4), ("rocketmq-pop", 0, 16), ("rocketmq-ordered", 60, 0)],
)
def test_a_poison_record_stops_a_partition_or_is_given_up(
    machine: str, unowned: int, duplicates: int
) -> None:
    outcome = step(machine, 2, 4, "poison", s=60)
    assert outcome.causes["poison"] == pytest.approx(unowned)
    assert outcome.metrics["duplicates"] == duplicates
