"""The story of two cooperative clients, as `coterie pipeline show` prints it.

A conformance transcript runs against the real coordinator. Its events are encoded as facts of the
journal and written as a segment, which the pipeline's codec reads.

Rules: [pipeline/connect-tasks].
"""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from coterie.conformance.core_driver import CoreDriver
from coterie.conformance.transcript import read
from coterie.protocol.messages.journal_records import encode_fact
from coterie.protocol.records import encode_batch

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")
pytest.importorskip("pyspark", reason="needs pip install coterie[pipeline]")

from coterie.cli.main import main
from coterie.pipeline.engine import LocalEngine
from coterie.pipeline.jobs.run import run
from coterie.pipeline.show import facts_of, known_groups
from coterie.pipeline.timeline.from_journal import journal_history
from coterie.pipeline.timeline.from_log import log_history
from coterie.pipeline.timeline.model import Generation, GroupHistory, RecordedMember
from tests.pipeline.histories import commit_key, commit_value
from tests.pipeline.jobs.written import NOW_MS, Directory, table
from tests.pipeline.report.stores import busy_group, tables_of, write_store
from tests.pipeline.timeline.facts import logged, partitions
from tests.pipeline.timeline.test_epoch_stories import downgraded, upgraded

STORY = Path(__file__).parents[3] / "coterie/conformance/stories"
SEED = STORY / "cooperative_rebalance_of_two_clients.txt"
GOLDEN = Path(__file__).parents[2] / "golden" / "group_records"
CONNECT = GOLDEN.parent / "connect"
EAGER = STORY / "eager_rebalance_of_two_clients.txt"

PRINTED = """\
2023-11-14 UTC
22:13:23.000  ▷ generation 8 → 9          one-1 rejoined with other user data, client one at
                                          127.0.0.1
              took 0 ms (join 0 ms, sync 0 ms), recorded in the journal
              partitions without an owner: 0 ms in total; 0 of 3 partitions moved
22:13:23.000  ■ generation 9
              └ one-1  community 0-2  gave up sales 0; new
22:13:23.000  ▷ generation 9 → 11         two-1 joined, client two at 127.0.0.1
              took 2.00 s (join 2.00 s, sync 0 ms), 2 generations, recorded in the journal
              partitions without an owner: 1.00 s in total; 1 of 3 partitions moved, 1 of them
                necessarily
              + two-1
22:13:24.000  ■ generation 10
              ├ one-1  community 1-2  gave up community 0
              └ two-1  nothing
22:13:25.000  ■ generation 11
              ├ one-1  community 1-2
              └ two-1  community 0    from one-1 after 1.00 s
"""


def journal_of(transcript: Path) -> list[tuple[bytes, bytes]]:
    """Run a transcript against the core and return its events as records of a journal."""
    driver = CoreDriver()
    driver.run(read(transcript))
    return [encode_fact(event.group_id, event.fact) for event in driver.broker.events]


def show(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["pipeline", "show", *arguments], catch_exceptions=False)


def data_with(path: Path, story: Path) -> str:
    """Write a broker's data directory with the journal of a story."""
    partition = path / "data" / "coterie.journal-0"
    partition.mkdir(parents=True)
    batch = encode_batch(journal_of(story), 0, 0)
    (partition / f"{0:020d}.log").write_bytes(batch)
    return str(path / "data")


@pytest.fixture
def data_directory(tmp_path: Path) -> str:
    return data_with(tmp_path, SEED)


def test_show_prints_the_story_of_a_data_directory(data_directory: str) -> None:
    result = show(data_directory, "kmo", "--limit", "2")
    assert result.exit_code == 0
    assert result.stdout == PRINTED


def test_show_prints_the_same_story_from_tables(data_directory: str, tmp_path: Path) -> None:
    history = journal_history("kmo", facts_of(data_directory, "kmo"))
    tables = write_store(str(tmp_path / "tables"), tables_of(history))
    assert show(tables, "kmo", "--limit", "2").stdout == PRINTED


def test_json_has_the_rows_of_the_story(data_directory: str) -> None:
    *_, row = json.loads(show(data_directory, "kmo", "--json").stdout)
    assert (row["from_generation"], row["to_generation"], row["generations"]) == (9, 11, 2)
    assert row["started_ts"] == "2023-11-14T22:13:23.000+00:00"
    assert row["unowned_partition_ms"] == 1_000
    assert [(step["generation"], step["owned"]) for step in row["steps"]] == [
        (10, {"one-1": {"community": [1, 2]}, "two-1": {}}),
        (11, {"one-1": {"community": [1, 2]}, "two-1": {"community": [0]}}),
    ]
    (move,) = row["moves"]
    assert (move["partition"], move["from_member_key"], move["gap_ms"]) == (0, "one-1", 1_000)


def test_every_partition_is_without_owner_in_an_eager_rebalance(tmp_path: Path) -> None:
    directory = data_with(tmp_path, EAGER)
    shown = [json.loads(show(directory, name, "--json").stdout) for name in known_groups(directory)]
    *_, last = [row for rows in shown for row in rows]
    assert (last["generations"], last["duration_ms"]) == (1, 1_000)
    assert last["unowned_partition_ms"] == 3 * 1_000


def test_unknown_group_is_refused_with_the_known_groups(data_directory: str) -> None:
    result = show(data_directory, "kmu")
    assert result.exit_code == 1
    assert "Nothing is recorded of group 'kmu'." in result.stderr
    assert "The recorded groups are: kmo." in result.stderr


def test_directory_without_logs_and_tables_is_refused(tmp_path: Path) -> None:
    result = show(str(tmp_path), "g")
    assert result.exit_code == 1
    assert "neither the output of `coterie pipeline run`, which has a manifest.json" in " ".join(
        result.stderr.split()
    )


def test_show_prints_a_kip_848_group_of_kafka(tmp_path: Path) -> None:
    """tests/golden/group_records: two librdkafka members, a reconciliation with a revocation."""
    for number in range(3):
        partition = tmp_path / f"__consumer_offsets-{number}"
        partition.mkdir()
        shutil.copy(GOLDEN / f"{number}.log", partition / f"{0:020d}.log")
    assert known_groups(str(tmp_path)) == [
        "classic-one",
        "mixed",
        "modern",
        "regex-group",
        "share-one",
        "streams-app",
    ]
    rows = json.loads(show(str(tmp_path), "modern", "--json").stdout)
    causes = [(row["trigger"], row["from_generation"], row["to_generation"]) for row in rows]
    assert causes == [
        ("join", None, 2),
        ("join", 2, 3),
        ("leave or expiry", 3, 4),
        ("leave or expiry", 4, 5),
    ]
    second = rows[1]
    assert (second["moved"], second["unowned_partition_ms"]) == (2, 354)
    (step,) = second["steps"]
    assert [sum(map(len, owned.values())) for owned in step["owned"].values()] == [4, 2]
    classic = show(str(tmp_path), "classic-one").stdout
    # A group's log never has beginnings, and each generation is printed once.
    assert "not recorded" not in classic
    assert "■ generation 1 → 2" in classic
    assert classic.count("generation 1") == 1
    assert classic.rstrip().endswith("no members left")


def story_lines(path: Path, history: GroupHistory) -> list[str]:
    """Return what `show` prints of a history."""
    tables = write_store(str(path / "tables"), tables_of(history))
    return show(tables, history.group_id).stdout.splitlines()


def test_lines_of_a_cooperative_rebalance_of_the_log_are_in_order(tmp_path: Path) -> None:
    """Its beginning is not known, so it is told when the first of its generations was completed."""
    sticky = "cooperative-sticky"
    lines = story_lines(
        tmp_path,
        log_history(
            "g",
            [
                logged(1, 1000, sticky, one="a-0 a-1 a-2"),
                logged(2, 4000, sticky, one="a-1 a-2", two=""),
                logged(3, 4500, sticky, one="a-1 a-2", two="a-0"),
            ],
        ),
    )
    times = [line[:12] for line in lines if line[:2] == "00"]
    assert times == sorted(times)
    assert "■ first generation" in lines[1]
    assert "3 partitions assigned for the first time" in "".join(lines)
    assert not any("?" in line or "not known" in line for line in lines[:4])


def test_static_restart_that_cost_nothing_has_its_line(tmp_path: Path) -> None:
    """[pipeline/static-restart]"""

    def static(at_ms: int, member_id: str) -> Generation:
        member = RecordedMember(member_id, "i1", "billing", "/h", ("a",), (), partitions("a-0"))
        return Generation(1, at_ms, "consumer", "range", member_id, (member,))

    lines = story_lines(tmp_path, log_history("g", [static(1000, "m1"), static(61_000, "m2")]))
    assert lines[-1] == (
        "00:01:01.000  ± i1 restarted              client billing at h, without a rebalance"
    )


def test_lines_are_wrapped_at_100_columns(tmp_path: Path) -> None:
    """[terminal/timelines]"""
    lines = story_lines(tmp_path, busy_group("g", 40, members=12, partitions=200))
    assert max(map(len, lines)) <= 100


def test_group_without_members_has_its_commits(tmp_path: Path) -> None:
    """The consumers of a group may assign partitions themselves."""
    partition = tmp_path / "data" / "__consumer_offsets-0"
    partition.mkdir(parents=True)
    records = [(commit_key("alone", "a", each % 2), commit_value()) for each in range(11)]
    (partition / f"{0:020d}.log").write_bytes(encode_batch(records, 0, 1_760_000_000_000))
    lines = show(str(tmp_path / "data"), "alone").stdout.splitlines()
    said = "11 commits, no group management: 2 partitions, from 2025-10-09 08:53:20"
    assert [line[: len(said)] for line in lines] == [said]
    assert max(map(len, lines)) <= 100
    minutes = [
        {"group_id": "alone", "topic": "a", "partition": 0, "window_start_ts": 60_000, "commits": 3}
    ]
    tables = write_store(str(tmp_path / "tables"), {"commit_velocity_1m": minutes})
    assert show(tables, "alone").stdout.startswith("3 commits, no group management: 1 partition")
    assert json.loads(show(tables, "alone", "--json").stdout) == []


def test_tasks_of_connect_workers_are_shown(tmp_path: Path) -> None:
    partition = tmp_path / "coterie.journal-0"
    partition.mkdir()
    shutil.copy(CONNECT / "journal.log", partition / f"{0:020d}.log")
    lines = show(str(tmp_path), "connect-lab").stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if "generation 6 → 7" in line)
    assert lines[at + 3 : at + 9] == [
        "              tasks without an owner: 0 ms in total; 0 of 3 tasks moved",
        "              + connect-127.0.0.1:18584-e9016891",
        "22:34:30.321  ■ generation 7",
        "              ├ connect-127.0.0.1:18583-a3113329  sink4: connector, tasks 0,2",
        "              │                                   gave up sink4: tasks 1,3",
        "              └ connect-127.0.0.1:18584-e9016891  nothing",
    ]


def test_words_say_what_is_known_and_what_is_inferred(tmp_path: Path) -> None:
    """A log whose first generation is not the first, with a gap, and rejoins without a change."""
    data = Directory(tmp_path / "data")
    data.generation("one", 3, NOW_MS, m="a-0")
    data.generation("one", 4, NOW_MS + 1_000, m="a-0")
    data.generation("two", 1, NOW_MS, m="a-0", n="a-1")
    data.generation("two", 3, NOW_MS + 1_000, m="a-0", n="a-1")
    path = data.write()
    one = " ".join(show(path, "one").stdout.split())
    assert "■ generation 3 the first that is recorded derived from the group's log" in one
    assert "1 partition assigned └ client-m m a 0 08:54:01.000 ■ generation 3 → 4 the leader" in one
    assert "the leader client-m m rejoined" in one
    assert "several" not in one
    assert "of 1 partition moved" in one
    two = " ".join(show(path, "two").stdout.split())
    assert "a member rejoined with the same topics; which one is not recorded" in two
    assert "1 generation is not in the log: not completed, or compacted" in two


def test_downgrade_is_shown_as_one_where_only_the_log_is_known(tmp_path: Path) -> None:
    path = downgraded().write(tmp_path / "data")
    shutil.rmtree(tmp_path / "data" / "coterie.journal-0")
    shown = " ".join(show(path, "g").stdout.split())
    assert "the group became a classic group inferred from the group's log" in shown
    assert "without an owner: not known; 2 partitions assigned - beat a a beat a a: leave" in shown
    assert "the first that is recorded" not in shown


def test_rebalance_that_a_downgrade_cuts_off_says_so(tmp_path: Path) -> None:
    """[pipeline/changed-type]"""
    shown = " ".join(show(upgraded().write(tmp_path / "data"), "g").stdout.split())
    assert "cut off by the downgrade of the group, recorded in the journal" in shown


def test_group_without_management_is_shown_as_in_its_directory(tmp_path: Path) -> None:
    """Its findings and lags are no story."""
    data = Directory(tmp_path / "data")
    for number in range(20):
        data.commit("simple", "a-0", 10, NOW_MS + 60_000 * number)
    path, output = data.write(), str(tmp_path / "out")
    ends = tmp_path / "ends.csv"
    ends.write_text("topic,partition,at_ts,log_end_offset\na,0,2025-10-09T09:13:30,50\n")
    run(LocalEngine(), [path], output, log_ends=str(ends))
    found = table(output, "anomalies", "rule", "group_id")
    assert found == [("empty_group_with_lag", "simple")]
    printed = [show(each, "simple").stdout for each in (path, output)]
    assert printed[0] == printed[1]
    assert "20 commits, no group management: 1 partition" in printed[0]
