"""A handover of kafka-python's cooperative members is one rebalance [pipeline/logical-rebalance].

As leader, kafka-python may rejoin between the two halves, so a handover has two to four
generations. Whether it does depends on timing; the unit tests have such a handover as records.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from coterie.pipeline.show import facts_of, logged_of
from coterie.pipeline.timeline.combined import group_history
from coterie.pipeline.timeline.model import Generation, Removed
from coterie.protocol.messages import journal_records as journal
from tests.live.broker_process import BrokerProcess
from tests.live.conftest import create_topic
from tests.live.deadlines import eventually
from tests.live.groups import producing
from tests.live.members import Members, wait_assigned

PARTITIONS = 6
GROUP = "shared"


def _facts(data: str, logged: list[Generation | Removed]) -> list[Any]:
    """Return the facts, if the last logged generation is among them; an empty list otherwise."""
    facts = list(facts_of(data, GROUP))
    newest = max(each.generation for each in logged if isinstance(each, Generation))
    done = [each for each in facts if isinstance(each, journal.GenerationCompleted)]
    return facts if any(each.generation_id == newest for each in done) else []


@pytest.mark.slow
def test_handover_of_kafka_python_is_one_rebalance(
    start_broker: Callable[..., BrokerProcess], tmp_path: Path
) -> None:
    """In the journal, and in the group log alone, as of a real Kafka."""
    broker = start_broker()
    create_topic(broker.bootstrap, GROUP, PARTITIONS)
    members = Members(broker.bootstrap)
    common = {"group": GROUP, "topic": GROUP, "assignor": "cooperative-sticky"}
    try:
        with producing(broker.bootstrap, GROUP, PARTITIONS):
            first = members.start("kafka-python", client_id="cs-1", **common)
            wait_assigned([first], GROUP, PARTITIONS)
            second = members.start("kafka-python", client_id="cs-2", **common)
            wait_assigned([first, second], GROUP, PARTITIONS)
            data = str(tmp_path / "data-0")
            logged = list(logged_of(data, GROUP))
            # The journal is written some milliseconds later.
            facts = eventually(lambda: _facts(data, logged), "the journal has the last generation")
    finally:
        members.close()
    for known in (facts, []):
        history = group_history(GROUP, known, logged)
        assert all((each.excess_moved or 0) >= 0 for each in history.rebalances)
        (handover,) = [each for each in history.rebalances if each.moved]
        assert (handover.trigger.cause, handover.trigger.client_id) == ("join", "cs-2")
        assert (handover.moved, handover.moved_min, handover.generations > 1) == (3, 3, True)
        assert (handover.unowned_partition_ms or 0) > 0
