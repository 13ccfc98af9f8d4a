"""The rules of `check`: each fires on its fault and on nothing else [pipeline/checks]."""

from pathlib import Path

from coterie.pipeline.check_rules import ERROR, WARNING, moves_add_up
from coterie.pipeline.engine import LocalEngine
from coterie.pipeline.jobs.check import check
from coterie.pipeline.jobs.run import run
from coterie.pipeline.store import Store
from tests.pipeline.jobs.test_run import orders
from tests.pipeline.jobs.written import NOW_MS
from tests.pipeline.timeline.facts import completed, member_of


def test_each_rule_fires_on_its_fault_and_on_nothing_else(tmp_path: Path) -> None:
    data, output = orders(tmp_path / "data"), str(tmp_path / "out")
    data.generation("twice", 1, NOW_MS, one="a-0", two="a-0 a-1")
    data.generation("beyond", 1, NOW_MS, topics="b", one="a-0")
    data.generation("back", 5, NOW_MS, one="a-0")
    data.generation("back", 4, NOW_MS + 1, one="a-0")
    data.generation("anew", 5, NOW_MS, one="a-0")
    data.tombstone("anew", NOW_MS + 1)
    data.generation("anew", 1, NOW_MS + 2, one="a-0")
    data.generation("recreated", 5, NOW_MS, one="a-0")
    data.generation("recreated", 1, NOW_MS + 2, one="a-0")
    data.generation("alone", 1, NOW_MS, one="a-0")
    data.generation("alone", 2, NOW_MS + 1000, one="a-1")
    data.commit("alone", "a-0", 3, NOW_MS + 60_000)
    data.generation("disagreeing", 1, NOW_MS, one="a-1")
    data.facts("disagreeing", completed(NOW_MS, 1, NOW_MS, member_of("one", "a-0")))
    data.generation("unlogged", 2, NOW_MS, one="a-1")
    data.facts("unlogged", completed(NOW_MS, 3, NOW_MS, member_of("one", "a-0")))
    data.commit("astray", "a-0", 3, NOW_MS)
    data.misplace("astray")
    data.commit("lost", "a-0", 3, NOW_MS)
    data.commit("deleted", "a-0", 3, NOW_MS)
    data.commit("deleted", "a-0", None, NOW_MS + 1)
    for number in range(10):
        data.commit(f"last-{number}", "a-0", 1, NOW_MS)
    data.write()
    run(LocalEngine(), [data.path], output)
    # Compaction, and a cleaner that removes too much; one log loses its end.
    data.compact()
    data.lose("deleted")
    data.lose("lost")
    cut = f"__consumer_offsets-{1 - int(data.home('lost')[-1])}"
    last = data.logs[cut].pop()
    data.write()
    found = check(LocalEngine(), Store.reading(output))
    of_groups = {
        (each.rule, each.severity, each.subject)
        for each in found
        if each.rule != "log_kept_its_records"
    }
    assert of_groups == {
        ("one_owner", ERROR, "twice"),
        ("assigned_within_subscribed", ERROR, "beyond"),
        ("generations_increase", ERROR, "back"),
        ("generations_increase", WARNING, "recreated"),
        ("commits_of_owned_partitions", WARNING, "alone"),
        ("key_in_its_partition", ERROR, "astray"),
        ("journal_and_log_agree", ERROR, "disagreeing"),
        ("journal_and_log_agree", ERROR, "unlogged"),
    }
    kept = [each for each in found if each.rule == "log_kept_its_records"]
    assert {each.severity for each in kept} == {ERROR}
    details = sorted(each.detail for each in kept)
    assert len(details) == 3
    assert "lost" in details[0] or "lost" in details[1]
    assert details[2] == f"was read to offset {last.offset + 1}, but ends at {last.offset} now"
    # After its retention time a tombstone may have been removed.
    late = check(LocalEngine(), Store.reading(output), delete_retention_ms=0)
    assert WARNING in {each.severity for each in late if each.rule == "log_kept_its_records"}


def test_negative_moves_without_need_are_an_error() -> None:
    """[pipeline/checks]"""
    torn = {"group_id": "g", "to_generation": 2, "moved": 0, "moved_min": 3, "excess_moved": -3}
    whole = torn | {"moved": 3, "excess_moved": 0}
    unknown = torn | {"moved_min": None, "excess_moved": None}
    (found,) = moves_add_up([torn, whole, unknown])
    assert (found.severity, found.subject) == (ERROR, "g")
    assert found.detail == "the rebalance to generation 2 moved 0 partitions and needed 3"
