"""A slice of the story (`make story`): real clients, an independent log, and no contradiction."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

from tests.live.broker_process import BrokerProcess
from tests.story.compare import contradictions
from tests.story.record import LEFT
from tests.story.scenario import SCENARIOS
from tests.story.shown import seen_in_logs
from tests.story.workload import Workload

SLICE = ("flapping", "expired", "static", "cooperative", "incremental")
SESSION_MS = 3_000


@pytest.fixture
def workload(start_broker: Callable[..., BrokerProcess]) -> Iterator[Workload]:
    workload = Workload(start_broker().bootstrap, SESSION_MS)
    yield workload
    workload.close()


@pytest.mark.slow
def test_nothing_that_is_shown_contradicts_the_log(workload: Workload, tmp_path: Path) -> None:
    scenarios = [each for each in SCENARIOS if each.group in SLICE]
    workload.run(scenarios)
    record = workload.record
    record.write(tmp_path / "log.jsonl")
    shown = seen_in_logs(workload.bootstrap, str(tmp_path / "data-0"), SLICE)
    assert contradictions(record, shown, SESSION_MS) == []

    # The comparison sees a lie of the log.
    (killed,) = [each for each in record.of("expired") if each.end == "kill"]
    killed.end = LEFT
    assert any("left" in sentence for sentence in contradictions(record, shown, SESSION_MS))
    killed.end = "kill"
    killed.client = "somebody"
    found = contradictions(record, shown, SESSION_MS)
    assert any("its client is" in sentence for sentence in found)
    record.sessions.remove(record.of("flapping")[0])
    found = contradictions(record, shown, SESSION_MS)
    assert any("flapping: members" in sentence for sentence in found)
