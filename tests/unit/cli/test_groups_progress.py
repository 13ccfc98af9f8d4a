"""Rates, totals and times of commits in `groups list --lag` and `groups describe`."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from coterie.cli.groups import looks
from coterie.cli.groups.offset_rows import catch_up_text
from coterie.client.cluster import Cluster
from coterie.client.commit_times import commit_times
from coterie.client.group_totals import lag_growth
from coterie.client.offsets import Committed, commit_offsets
from coterie.client.progress import Rates, Sample, rates_between
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.messages.list_groups import ListGroupsResponse, ListGroupsResponseGroup
from coterie.testing import Broker
from tests.unit.cli.command import (
    cells_of,
    committed,
    described,
    group,
    listed_offsets,
    member,
    rows_of,
    run,
)
from tests.unit.client.fake_broker import FakeBroker, in_turn

T0 = ("t", 0)


def sample(at_s: float, offset: int | None, end: int | None) -> Sample:
    """Return a sample of group g in partition t-0."""
    offsets = {} if offset is None else {T0: Committed(offset, -1, "")}
    return Sample(at_s, {"g": offsets}, {} if end is None else {T0: end})


@pytest.mark.parametrize(
    ("before", "after", "rates"),
    [
        (sample(1, 10, 50), sample(3, 30, 60), Rates(10, 5)),
        (sample(1, None, 50), sample(3, 30, 60), Rates(None, 5)),
        (sample(1, 10, None), sample(3, 30, None), Rates(10, None)),
        (sample(1, 30, 50), sample(3, 10, 50), Rates(-10, 0)),
        (None, sample(3, 10, 50), Rates(None, None)),
    ],
)
def test_rates_are_differences_over_time(
    before: Sample | None, after: Sample, rates: Rates
) -> None:
    assert rates_between(before, after, "g", T0) == rates


@pytest.mark.parametrize(
    ("figures", "text"),
    [
        ((100, -10, 20), "in 10.00 s"),
        ((0, 0, 30), "caught up"),
        ((100, 10, 30), "lag grows"),
        ((100, 2, 30), "keeps up"),
        ((100, -2, 30), "keeps up"),
        ((100, 0, 0), "lag stays"),
        ((100, -20, 0), "in 5.00 s"),
        ((None, 20, 20), None),
        ((100, None, 20), None),
    ],
)
def test_time_to_catch_up(figures: tuple[Any, Any, Any], text: str | None) -> None:
    assert catch_up_text(*figures) == text


def test_growth_of_the_lag_leaves_out_partitions_without_one() -> None:
    assert lag_growth([Rates(10, 30), Rates(None, 50), Rates(5, 0)]) == 15
    assert lag_growth([Rates(None, 50)]) is None


def moving() -> FakeBroker:
    """Return a broker with a group that commits 15, then 18 in t-0, and never in t-1."""
    listed = [
        ListGroupsResponseGroup(
            group_id=name, protocol_type="consumer", group_state="Stable", group_type=kind
        )
        for name, kind in (("g", "classic"), ("shares", "share"))
    ]
    return FakeBroker(
        {
            ApiKey.LIST_GROUPS: ListGroupsResponse(error_code=0, groups=listed),
            ApiKey.DESCRIBE_GROUPS: described(group("g", "Stable", member("a", t=[0, 1]))),
            ApiKey.OFFSET_FETCH: in_turn(committed(t={0: 15}), committed(t={0: 18})),
            ApiKey.LIST_OFFSETS: listed_offsets,
        },
        topics={"t": 2},
    )


def test_list_shows_totals_of_each_group() -> None:
    with moving() as broker:
        result = run(broker, "groups", "list", "--lag")
    assert cells_of(result) == [
        ["GROUP", "STATE", "MEMBERS", "PARTITIONS", "WITHOUT-COMMIT", "LAG"],
        ["g", "Stable", "1", "2", "1", "5"],
        ["shares", "Stable", "-", "-", "-", "-"],
    ]


def test_list_shows_rates_of_two_looks() -> None:
    with moving() as broker:
        result = run(broker, "groups", "list", "--lag", "--interval", "0.01", "--verbose")
    header, row, _ = cells_of(result)
    assert header[-3:] == ["CONSUMED/S", "PRODUCED/S", "CATCH-UP"]
    assert row[:7] == ["g", "Stable", "classic", "consumer", "1", "2", "1"]
    assert 0 < float(row[8].replace(",", "")) <= 300
    assert row[9:11] == ["0.0", "in"]


def test_describe_shows_rates_of_two_looks() -> None:
    with moving() as broker:
        table = run(broker, "groups", "describe", "g", "--interval", "0.01")
    assert cells_of(table)[0][-2:] == ["CONSUMED/S", "PRODUCED/S"]
    with moving() as broker:
        first, second = rows_of(
            run(broker, "groups", "describe", "g", "--interval", "1e-2", "--json")
        )
    assert (first["lag"], first["produced_per_s"]) == (2, 0)
    assert 0 < first["consumed_per_s"] <= 300
    assert (second["lag"], second["consumed_per_s"]) == (None, None)


def test_watch_repeats_until_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    def interrupt(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("coterie.cli.groups.looks.time.sleep", interrupt)
    with moving() as broker:
        result = run(broker, "groups", "describe", "g", "--watch", "--json")
    assert result.exit_code == 0
    before, after = (json.loads(line) for line in result.stdout.splitlines())
    assert (before[0]["lag"], before[0]["consumed_per_s"]) == (5, None)
    assert after[0]["lag"] == 2
    assert after[0]["consumed_per_s"] > 0
    assert waited == [looks.DEFAULT_INTERVAL_S] * 2


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["list", "--interval", "1"], "--interval needs --lag"),
        (["list", "--lag", "--interval", "0"], "is not in the range"),
        (["describe", "g", "--interval", "301"], "is not in the range"),
        (["describe", "g", "--members", "--interval", "1"], "show offsets"),
        (["describe", "g", "--state", "--last-commit"], "show offsets"),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], error: str) -> None:
    result = run(None, "groups", *arguments)
    assert result.exit_code == 2
    assert error in result.stderr


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"t": 2}) as running:
        yield running


def test_time_of_the_last_commit_is_that_of_the_group_log(broker: Broker) -> None:
    with Cluster(broker.bootstrap_servers) as cluster:
        commit_offsets(cluster, "g", {("t", 0): 0, ("t", 1): 0})
        before = commit_times(cluster, "g", {("t", 0), ("t", 1)})
        commit_offsets(cluster, "other", {("t", 0): 0})
        commit_offsets(cluster, "g", {("t", 0): 0})
        after = commit_times(cluster, "g", {("t", 0), ("t", 1)})
        assert after.keys() == before.keys() == {("t", 0), ("t", 1)}
        assert after["t", 0] >= before["t", 0]
        assert after["t", 1] == before["t", 1]
        assert commit_times(cluster, "nobody", set()) == {}


def test_old_commits_are_found_in_the_rest_of_the_log(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coterie.client.commit_times._RECENT_MS", -3_600_000)
    with Cluster(broker.bootstrap_servers) as cluster:
        commit_offsets(cluster, "g", {("t", 0): 0})
        assert commit_times(cluster, "g", {("t", 0)}).keys() == {("t", 0)}


def test_describe_shows_the_last_commit(broker: Broker) -> None:
    with Cluster(broker.bootstrap_servers) as cluster:
        commit_offsets(cluster, "g", {("t", 0): 0})
    options = ("--bootstrap-server", broker.bootstrap_servers, "groups")
    table = run(None, *options[2:], *options[:2], "describe", "g", "--last-commit")
    assert cells_of(table)[0][-1] == "LAST-COMMIT"
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT[\d:.]+\+00:00", cells_of(table)[1][-1])


def test_group_log_that_can_not_be_read_is_an_error() -> None:
    with moving() as refusing:
        result = run(refusing, "groups", "describe", "g", "--last-commit")
    assert result.exit_code == 1
    assert "The times of commits are in the topic __consumer_offsets" in result.stderr
    assert "permissions" in result.stderr
