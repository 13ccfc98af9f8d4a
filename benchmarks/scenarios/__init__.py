"""The measurements, one in each file, in the order in which they are run and printed."""

from benchmarks.measures import Scenario
from benchmarks.scenarios import (
    append,
    background,
    churn,
    compaction,
    data_plane,
    durable,
    group_creation,
    group_removal,
    heartbeat,
    lab,
    large_groups,
    load,
    offset_commit,
    offset_fetch,
    startup,
    transactions,
)

SCENARIOS: dict[str, Scenario] = {
    scenario.key: scenario
    for scenario in (
        startup.SCENARIO,
        heartbeat.SCENARIO,
        offset_commit.SCENARIO,
        offset_fetch.SCENARIO,
        group_creation.SCENARIO,
        group_removal.SCENARIO,
        churn.SCENARIO,
        large_groups.SCENARIO,
        data_plane.SCENARIO,
        transactions.SCENARIO,
        append.SCENARIO,
        load.SCENARIO,
        compaction.SCENARIO,
        background.SCENARIO,
        durable.SCENARIO,
        lab.SCENARIO,
    )
}
