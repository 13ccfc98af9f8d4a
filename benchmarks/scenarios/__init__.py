"""The measurements, one in each file, in the order in which they are run and printed."""

from benchmarks.measures import Scenario
from benchmarks.scenarios import (
    append,
    background,
    churn,
    compaction,
    consumer_groups,
    consumer_heartbeat,
    data_plane,
    durable,
    group_creation,
    group_removal,
    heartbeat,
    idle_sessions,
    lab,
    large_groups,
    librdkafka,
    load,
    offset_commit,
    offset_fetch,
    perf_tools,
    producer_ids,
    share_groups,
    share_heartbeat,
    startup,
    transactions,
)

SCENARIOS: dict[str, Scenario] = {
    scenario.key: scenario
    for scenario in (
        startup.SCENARIO,
        heartbeat.SCENARIO,
        consumer_heartbeat.SCENARIO,
        consumer_groups.SCENARIO,
        share_heartbeat.SCENARIO,
        share_groups.SCENARIO,
        offset_commit.SCENARIO,
        offset_fetch.SCENARIO,
        group_creation.SCENARIO,
        group_removal.SCENARIO,
        churn.SCENARIO,
        large_groups.SCENARIO,
        data_plane.SCENARIO,
        librdkafka.SCENARIO,
        perf_tools.SCENARIO,
        idle_sessions.SCENARIO,
        transactions.SCENARIO,
        producer_ids.SCENARIO,
        append.SCENARIO,
        load.SCENARIO,
        compaction.SCENARIO,
        background.SCENARIO,
        durable.SCENARIO,
        lab.SCENARIO,
    )
}
