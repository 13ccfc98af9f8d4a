"""The rules of `check` about consumer groups (KIP-848): each fires on its fault, planted into what
our coordinator writes, and on nothing else [pipeline/checks].
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from coterie.pipeline.check_rules import ERROR, WARNING
from coterie.pipeline.engine import LocalEngine
from coterie.pipeline.epoch_rules import check_epochs
from coterie.pipeline.jobs.check import check
from coterie.pipeline.jobs.run import run
from coterie.pipeline.store import Store
from coterie.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    CurrentTopicPartitions,
)
from coterie.protocol.messages.log_records import encode_key, encode_value
from tests.pipeline.consumer_stories import ConsumerStory, Recording, topic_id
from tests.pipeline.histories import plain_rows
from tests.pipeline.timeline.test_epoch_stories import GOLDEN, held_back, upgraded


def plant(story: Recording, key: Any, value: Any) -> None:
    story.kept.append(story.now_ms, [(encode_key(key), encode_value(value))])


def has(story: ConsumerStory, member: str, epoch: int, *partitions: int) -> None:
    """Plant that a member has partitions, whoever else has them."""
    topic = CurrentTopicPartitions(topic_id=topic_id("orders"), partitions=list(partitions))
    plant(
        story,
        ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id=member),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=epoch, previous_member_epoch=epoch, state=0, assigned_partitions=[topic],
            partitions_pending_revocation=[],
        ),
    )  # fmt: skip


def nothing(_: ConsumerStory) -> None:
    pass


def two_owners(story: ConsumerStory) -> None:
    has(story, "d", 6, 0)


def owner_of_an_older_epoch(story: ConsumerStory) -> None:
    story.start("b")
    has(story, "b", 7, 0)


def epoch_again(story: ConsumerStory) -> None:
    plant(story, ConsumerGroupMetadataKey(group_id="g"), ConsumerGroupMetadataValue(epoch=6))


def ahead(story: ConsumerStory) -> None:
    has(story, "d", 8)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (nothing, []),
        (two_owners, [("one_owner_of_an_epoch", ERROR)]),
        (owner_of_an_older_epoch, [("one_owner_of_an_epoch", WARNING)]),
        (epoch_again, [("epochs_increase", ERROR)]),
        (ahead, [("members_behind_the_target", ERROR)]),
    ],
)
def test_rule_fires_on_its_fault(
    tmp_path: Path, fault: Callable[[ConsumerStory], None], expected: list[tuple[str, str]]
) -> None:
    """[pipeline/checks]"""
    story = held_back()
    fault(story)
    assert checked(story, tmp_path) == expected


def test_group_that_changes_its_type_breaks_no_rule(tmp_path: Path) -> None:
    assert checked(upgraded(), tmp_path) == []


@pytest.mark.parametrize("log", ["0", "1", "2"])
def test_kafkas_records_keep_the_rules(log: str) -> None:
    rows = plain_rows((GOLDEN / f"{log}.log").read_bytes(), "consumer_epochs")
    for group_id in {row["group_id"] for row in rows}:
        assert check_epochs(group_id, [row for row in rows if row["group_id"] == group_id]) == []


def checked(story: ConsumerStory, path: Path) -> list[tuple[str, str]]:
    data, output = story.write(path / "data"), str(path / "out")
    run(LocalEngine(), [data], output)
    return [(each.rule, each.severity) for each in check(LocalEngine(), Store.reading(output))]
