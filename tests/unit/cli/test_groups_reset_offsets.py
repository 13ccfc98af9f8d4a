"""`coterie groups reset-offsets`, against a scripted broker.

Rules: [client/reset-rules].
"""

from typing import Any

import pytest

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from coterie.protocol.messages.offset_fetch import OffsetFetchResponse
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
from tests.unit.client.fake_broker import FakeBroker

HEADER = ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]


def committing(**errors: int) -> Any:
    """Respond to OffsetCommit with success, except for the named topics."""

    def respond(request: Any, _: int) -> OffsetCommitResponse:
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=topic.name,
                    partitions=[
                        OffsetCommitResponsePartition(
                            partition_index=part.partition_index,
                            error_code=errors.get(topic.name, 0),
                        )
                        for part in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    return respond


def resetting(*groups: Any, commits: Any = None) -> FakeBroker:
    """Return a broker whose group has committed t-0 at 15 and u-0 at 18; t has two partitions."""
    return FakeBroker(
        {
            ApiKey.DESCRIBE_GROUPS: described(*(groups or [group("g", "Empty")])),
            ApiKey.OFFSET_FETCH: committed(t={0: 15}, u={0: 18}),
            ApiKey.LIST_OFFSETS: listed_offsets,
            ApiKey.OFFSET_COMMIT: commits or committing(),
        },
        topics={"t": 2, "u": 1},
    )


def reset(broker: FakeBroker | None, *options: str, **kwargs: Any) -> Any:
    return run(broker, "groups", "reset-offsets", "--group", "g", *options, **kwargs)


def offsets_sent(broker: FakeBroker) -> dict[tuple[str, int], int]:
    """Return the committed offsets."""
    return {
        (topic.name, part.partition_index): part.committed_offset
        for request in broker.seen(ApiKey.OFFSET_COMMIT)
        for topic in request.topics
        for part in topic.partitions
    }


@pytest.mark.parametrize(
    ("options", "plan"),
    [
        (["--all-topics", "--to-earliest"], {"t-0": 10, "u-0": 10}),
        (["--all-topics", "--to-latest"], {"t-0": 20, "u-0": 20}),
        (["--all-topics", "--shift-by", "-2"], {"t-0": 13, "u-0": 16}),
        (["--topic", "t", "--to-offset", "12"], {"t-0": 12, "t-1": 12}),
        (["--topic", "t:1", "--topic", "u", "--to-offset", "12"], {"t-1": 12, "u-0": 12}),
        (["--topic", "t", "--topic", "t:1", "--to-latest"], {"t-0": 20, "t-1": 20}),
        (["--topic", "t", "--to-current"], {"t-0": 15, "t-1": 20}),
        # The timestamps of the broker's records are 10 to 19 milliseconds.
        (["--topic", "t", "--to-datetime", "1970-01-01T00:00:00.013"], {"t-0": 13, "t-1": 13}),
        (["--topic", "t", "--by-duration", "PT0S"], {"t-0": 20, "t-1": 20}),
    ],
)
def test_plan_is_shown_and_nothing_is_committed(options: list[str], plan: dict[str, int]) -> None:
    with resetting() as broker:
        result = reset(broker, *options)
    assert result.exit_code == 0
    header, *rows = cells_of(result)
    assert header == HEADER
    assert {f"{topic}-{part}": int(new) for _, topic, part, new in rows} == plan
    assert "Dry run" in result.stderr
    assert not broker.seen(ApiKey.OFFSET_COMMIT)


def test_execute_commits_the_plan() -> None:
    with resetting() as broker:
        result = reset(broker, "--all-topics", "--shift-by", "1", "--execute")
    assert result.exit_code == 0
    assert "Dry run" not in result.stderr
    assert offsets_sent(broker) == {("t", 0): 16, ("u", 0): 19}


def test_new_group_can_be_given_offsets() -> None:
    """As with Kafka's tool, a group can be made to start at any offset this way."""
    with resetting(group("other")) as broker:
        result = reset(broker, "--topic", "t", "--to-earliest", "--execute")
    assert result.exit_code == 0
    assert offsets_sent(broker) == {("t", 0): 10, ("t", 1): 10}


def test_group_with_members_is_refused_and_they_are_named() -> None:
    with resetting(group("g", "Stable", member("one"))) as broker:
        result = reset(broker, "--all-topics", "--to-earliest", "--execute")
    assert result.exit_code == 1
    assert "Group 'g' is Stable: 1 live member: one-id (client one at /10.0.0.1)." in result.stderr
    assert not broker.seen(ApiKey.OFFSET_COMMIT)


def test_refused_partition_is_named() -> None:
    with resetting(commits=committing(u=ErrorCode.UNKNOWN_MEMBER_ID)) as broker:
        result = reset(broker, "--all-topics", "--to-earliest", "--execute")
        rows = rows_of(reset(broker, "--all-topics", "--to-earliest", "--execute", "--json"))
    assert result.exit_code == 1
    assert "The offset of u-0 was not changed: UNKNOWN_MEMBER_ID" in result.stderr
    assert [row["committed"] for row in rows] == [True, False]


def test_json_has_every_key() -> None:
    with resetting() as broker:
        rows = rows_of(reset(broker, "--topic", "t:0", "--to-offset", "99", "--json"))
    assert rows == [
        {
            "group": "g",
            "topic": "t",
            "partition": 0,
            "current_offset": 15,
            "new_offset": 20,
            "committed": False,
            "remark": "99 is above the end",
        }
    ]


def test_exported_file_can_be_read(tmp_path: Any) -> None:
    with resetting() as broker:
        exported = reset(broker, "--topic", "t", "--to-offset", "13", "--export")
        assert exported.stdout == "t,0,13\nt,1,13\n"
        plan = tmp_path / "plan.csv"
        plan.write_text(exported.stdout)
        reset(broker, "--from-file", str(plan), "--execute")
        assert offsets_sent(broker) == {("t", 0): 13, ("t", 1): 13}
        by_pipe = reset(broker, "--from-file", "-", stdin=exported.stdout)
        assert cells_of(by_pipe)[1:] == [["g", "t", "0", "13"], ["g", "t", "1", "13"]]


def test_lines_of_other_groups_in_a_file_are_skipped() -> None:
    """kafka-consumer-groups exports the group in the first column if there are several groups."""
    with resetting() as broker:
        result = reset(broker, "--from-file", "-", stdin="other,t,0,11\n\ng,t,1,12\n")
    assert cells_of(result)[1:] == [["g", "t", "1", "12"]]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("t,0\n", "line 1 is not topic,partition,offset"),
        ("t,0,1\nt,x,2\n", "line 2 is not topic,partition,offset"),
        ("other,t,0,1\n", "there is no line for group 'g'"),
        ("", "there is no line for group 'g'"),
    ],
)
def test_invalid_file_is_a_usage_error(text: str, error: str) -> None:
    result = run(None, "groups", "reset-offsets", "--group", "g", "--from-file", "-", stdin=text)
    assert result.exit_code == 2
    assert error in result.stderr


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--topic", "lost", "--to-latest"], "Topic 'lost' does not exist."),
        (["--topic", "t:0,7", "--to-latest"], "Topic 't' has no partition 7: its partitions are"),
        (["--topic", "t:x", "--to-latest"], "'t:x' is neither TOPIC nor"),
        (["--topic", "t", "--shift-by", "1"], "Partition t-1 has no committed offset to shift."),
    ],
)
def test_impossible_plans_are_errors(options: list[str], error: str) -> None:
    with resetting() as broker:
        result = reset(broker, *options)
    assert result.exit_code == 1
    assert error in result.stderr


def test_all_topics_of_a_group_without_offsets_is_an_error() -> None:
    broker = resetting()
    broker.responses[ApiKey.OFFSET_FETCH] = committed()
    with broker:
        result = reset(broker, "--all-topics", "--to-latest")
    assert result.exit_code == 1
    assert "Group 'g' has no offsets" in result.stderr


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--all-topics"], "Choose the new offsets with one of --to-earliest"),
        (["--all-topics", "--to-latest", "--to-offset", "0"], "Choose the new offsets with one of"),
        (["--to-latest"], "Choose partitions with one of"),
        (["--topic", "t", "--all-topics", "--to-latest"], "Choose partitions with one of"),
        (["--all-topics", "--to-latest", "--dry-run", "--execute"], "exclude each other"),
        (["--all-topics", "--to-datetime", "noon"], "Invalid value for --to-datetime"),
        (
            ["--all-topics", "--to-offset", "x"],
            "'x' is not a whole number from 0 on.",
        ),
        (
            ["--all-topics", "--to-offset", "-1"],
            "'--to-offset': '-1' is not a whole number from 0 on.",
        ),
        (["--all-topics", "--by-duration", "1h"], "is not a duration of the form PnDTnHnMnS"),
    ],
)
def test_contradictory_options_are_usage_errors(options: list[str], error: str) -> None:
    result = run(None, "groups", "reset-offsets", "--group", "g", *options)
    assert result.exit_code == 2
    assert error in result.stderr


def cloning(source: Any) -> FakeBroker:
    """Return a broker with a running group `source`, and a group `g` that has committed t-0."""

    def offsets(request: Any, version: int) -> OffsetFetchResponse:
        is_source = request.groups[0].group_id == "source"
        found: OffsetFetchResponse = (source if is_source else committed(t={0: 15}))(
            request, version
        )
        return found

    broker = resetting(group("g", "Empty"), group("source", "Stable", member("a", t=[0, 1])))
    broker.responses[ApiKey.OFFSET_FETCH] = offsets
    return broker


def test_offsets_of_another_group_are_cloned() -> None:
    with cloning(committed(t={0: 12, 1: 99}, u={0: 18})) as broker:
        result = reset(broker, "--from-group", "source", "--execute", "--json")
    assert result.exit_code == 0
    assert offsets_sent(broker) == {("t", 0): 12, ("t", 1): 20, ("u", 0): 18}
    assert [row["current_offset"] for row in rows_of(result)] == [15, None, None]
    assert "t-1: 99 is above the end" in result.stderr


def test_clone_is_a_dry_run_and_can_be_restricted_to_partitions() -> None:
    with cloning(committed(t={0: 12, 1: 13}, u={0: 18})) as broker:
        result = reset(broker, "--from-group", "source", "--topic", "t:1")
    assert cells_of(result)[1:] == [["g", "t", "1", "13"]]
    assert "Dry run" in result.stderr
    assert not broker.seen(ApiKey.OFFSET_COMMIT)


def test_clone_leaves_out_partitions_that_do_not_exist() -> None:
    with cloning(committed(t={0: 12, 7: 5}, gone={0: 1})) as broker:
        result = reset(broker, "--from-group", "source")
    assert cells_of(result)[1:] == [["g", "t", "0", "12"]]
    assert "gone-0: the partition does not exist any more" in result.stderr
    assert "t-7: the partition does not exist any more" in result.stderr


def test_group_without_offsets_can_not_be_cloned() -> None:
    with cloning(committed()) as broker:
        result = reset(broker, "--from-group", "source")
    assert result.exit_code == 1
    assert "Group 'source' has no committed offsets.\n" in result.stderr


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--from-group", "g"], "name the same group"),
        (["--from-group", "source", "--all-topics"], "restrict them with --topic"),
        (["--from-group", "source", "--to-latest"], "Choose the new offsets with one of"),
    ],
)
def test_contradicting_options_of_a_clone_are_refused(options: list[str], error: str) -> None:
    result = reset(None, *options)
    assert result.exit_code == 2
    assert error in result.stderr
