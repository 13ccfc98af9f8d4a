"""Numbers in docs/spec are those of the code: a changed constant leads to the rule that names it.

The page of the limits has those of the server (documentation/reference/limits.py).
"""

import re
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs pip install coterie[pipeline]")

SPECIFICATION = Path(__file__).parents[2] / "docs" / "spec"
SECOND = 1_000
MINUTE = 60 * SECOND
MIB = 1 << 20
# Rule, module and constant, its value, and the words of the rule.
NUMBERS = (
    (
        "pipeline/segment-files",
        "pipeline.segments._SWAP_PATIENCE_SECONDS",
        2.0,
        "up to two seconds",
    ),
    ("pipeline/quarantine", "pipeline.codec.damage.MAX_KEPT_BYTES", MIB, "the first MiB"),
    ("pipeline/engines", "pipeline.options.MIN_SPLIT_BYTES", 16 * MIB, "has 16 to 96 MiB"),
    ("pipeline/engines", "pipeline.options.MAX_SPLIT_BYTES", 96 * MIB, "has 16 to 96 MiB"),
    ("pipeline/engines", "pipeline.extent.LOCAL_LOG_BYTES", 64 * MIB, "up to 64 MiB of log"),
    ("pipeline/engines", "pipeline.extent.LOCAL_TABLE_BYTES", 16 * MIB, "16 MiB of tables"),
    (
        "pipeline/logical-rebalance",
        "pipeline.timeline.holdings.SECOND_HALF_WITHIN_MS",
        5 * MINUTE,
        "for up to five minutes",
    ),
    (
        "pipeline/deliveries",
        "pipeline.timeline.share_partitions._SAME_MS",
        2 * SECOND,
        "two seconds",
    ),
    (
        "pipeline/deliveries",
        "pipeline.timeline.share_partitions._MOST_POISON",
        1_000,
        "At most 1,000",
    ),
    ("pipeline/stall", "pipeline.findings.stalls.STALLED_MS", 5 * MINUTE, "after five minutes"),
    ("pipeline/stalls", "pipeline.findings.stalls.APART_MS", 10 * MINUTE, "within ten minutes"),
    ("pipeline/stalls", "pipeline.findings.stalls.PASSED_MS", 8 * MINUTE, "after eight minutes"),
    ("pipeline/share-findings", "pipeline.findings.shares.STANDS_MS", 5 * MINUTE, "five minutes"),
    (
        "pipeline/share-findings",
        "pipeline.findings.shares.LEAST_EXPIRED",
        3,
        "three records or more",
    ),
    ("pipeline/rebalance-storm", "pipeline.findings.bursts.BURST_REBALANCES", 5, "five or more"),
    ("pipeline/rebalance-storm", "pipeline.findings.bursts.BURST_MS", 10 * MINUTE, "ten minutes"),
    ("pipeline/rebalance-storm", "pipeline.findings.bursts.UNUSUAL", 3, "three times"),
    (
        "pipeline/flapping-member",
        "pipeline.findings.bursts.SHORT_SESSION_MS",
        5 * MINUTE,
        "five minutes",
    ),
    ("pipeline/flapping-member", "pipeline.findings.bursts.FLAPS", 3, "three or more times"),
    ("pipeline/flapping-member", "pipeline.findings.bursts.FLAP_MS", 30 * MINUTE, "30 minutes"),
    ("pipeline/start-and-stop", "pipeline.findings.changes.STOPPED_MS", 10 * MINUTE, "ten minutes"),
    ("pipeline/held-back", "pipeline.findings.epochs.HELD_MS", 30 * SECOND, "given up 30 s"),
    ("pipeline/unsettled", "pipeline.findings.epochs.UNSETTLED_BUMPS", 5, "five times or more"),
    (
        "pipeline/unsettled",
        "pipeline.findings.epochs.UNSETTLED_MS",
        5 * MINUTE,
        "five minutes or more",
    ),
    (
        "pipeline/expired-member",
        "pipeline.findings.departed.AT_ONCE_MS",
        10 * SECOND,
        "ten seconds",
    ),
    (
        "pipeline/max-poll",
        "pipeline.findings.departed.MAX_POLL_SLACK_MS",
        30 * SECOND,
        "at most 30 s longer",
    ),
    (
        "pipeline/outage",
        "pipeline.findings.outages.LEAST_SILENCE_MS",
        5 * SECOND,
        "at least five seconds",
    ),
    ("pipeline/outage", "pipeline.findings.outages.UNUSUAL", 3, "three times as long as 95 %"),
    ("pipeline/outage", "pipeline.findings.outages.REPLACED_GROUPS", 2, "Two replaced groups"),
    (
        "pipeline/outage",
        "pipeline.findings.outages.SILENT_GROUPS",
        4,
        "four or more that were silent",
    ),
    (
        "pipeline/outage",
        "pipeline.findings.outages.EXPIRED_TOGETHER",
        4,
        "if four sessions or more",
    ),
    (
        "pipeline/broker-restart",
        "pipeline.findings.many_groups.AT_ONCE_MS",
        30 * SECOND,
        "30 seconds",
    ),
    ("pipeline/broker-restart", "pipeline.findings.many_groups.TOUCHED_GROUPS", 4, "at least four"),
    (
        "pipeline/broker-restart",
        "pipeline.findings.many_groups.AFTER_LOAD_MS",
        2 * MINUTE,
        "two minutes",
    ),
    (
        "pipeline/zombie-commit",
        "pipeline.findings.commits.ZOMBIE_GRACE_MS",
        10 * SECOND,
        "ten seconds",
    ),
    ("pipeline/checks", "pipeline.jobs.check.MAX_FINDINGS", 50, "at most 50 findings"),
    ("report/limits", "pipeline.report.data.MAX_REBALANCES", 1_000, "newest 1,000 rebalances"),
    ("report/limits", "pipeline.report.data.MAX_MEMBERS", 500, "500 members of a group"),
    ("report/limits", "pipeline.report.data.MAX_PARTITIONS", 256, "256 of its partitions"),
    ("report/limits", "pipeline.report.data.MAX_FINDINGS", 500, "500 findings"),
    ("report/epochs", "pipeline.report.reading.SLOWEST_HANDOVERS", 50, "the 50 longest handovers"),
    ("console/one-history", "pipeline.live.group_log.MAX_COMMITS", 50_000, "50,000 commits"),
    ("console/one-history", "pipeline.live.group_log.MAX_RECORDS", 500_000, "500,000 records"),
    ("console/rates", "console.model.rates._RATE_S", 10.0, "last ten seconds"),
    ("console/inside", "server.present.MOST_RANGES", 500, "500 ranges"),
    ("registry/cache", "client.registry.schemas._UNKNOWN_S", 30.0, "after 30 s"),
    ("registry/cache", "client.registry.schemas._AWAY_S", 5.0, "for 5 s"),
    ("client/deadline", "client.cluster.DEFAULT_TIMEOUT_S", 15.0, "15 s by default"),
    ("client/retries", "client.cluster._FIRST_PAUSE_S", 0.05, "begin with 50 ms"),
    ("client/mechanisms", "client.mechanisms._MOST_ITERATIONS", 65_536, "4,096 to 65,536"),
    ("client/checks-of-epochs", "client.health.epochs._HELD_MS", 30 * SECOND, "more than 30 s"),
    ("recording/slow-disk", "recording.recorder._FLUSH_INTERVAL_S", 0.2, "after 0.2 s"),
    ("recording/slow-disk", "recording.recorder._WAITING_BYTES", 64 * MIB, "more than 64 MiB"),
    ("recording/replay", "recording.replay._PATIENCE_S", 5.0, "up to 5 s"),
    ("recovery/write-ahead", "storage.write_ahead_log._MOST_LOGS", 512, "records of 512 logs"),
    (
        "recovery/write-ahead",
        "server.logs.flusher.SETTLE_AFTER_S",
        5.0,
        "five seconds old",
    ),
    ("recovery/write-ahead-errors", "server.logs.flusher.RESUME_AFTER_S", 30.0, "for 30 seconds"),
    (
        "consumer-groups/large-target",
        "coordinator.groups.consumer.target._COMPUTED_AT_ONCE",
        20_000,
        "20,000",
    ),
    (
        "consumer-groups/large-upgrade",
        "coordinator.groups.consumer.upgrade._CONVERTED_AT_ONCE",
        64,
        "64 members",
    ),
    (
        "consumer-groups/large-downgrade",
        "coordinator.groups.consumer.downgrade._CONVERTED_AT_ONCE",
        100,
        "100 members",
    ),
    (
        "consumer-groups/regex",
        "coordinator.groups.consumer.regexes.MIN_REFRESH_MS",
        10 * SECOND,
        "within 10 s",
    ),
    (
        "share-groups/target",
        "coordinator.groups.share.target._COMPUTED_AT_ONCE",
        1_500,
        "more than 1,500",
    ),
    (
        "streams-groups/target",
        "coordinator.groups.streams.target._COMPUTED_AT_ONCE",
        1_000,
        "more than 1,000 tasks",
    ),
    (
        "transactions/end",
        "coordinator.transactions.shard.MAX_END_WAIT_MS",
        SECOND,
        "after one second",
    ),
    ("topics/auto-creation", "server.handlers.metadata.MOST_CREATED", 100, "at most 100 topics"),
)


def test_numbers_of_rules_are_those_of_the_code() -> None:
    wrong = []
    for rule, constant, value, words in NUMBERS:
        module, _, name = constant.rpartition(".")
        if getattr(import_module(f"coterie.{module}"), name) != value:
            wrong.append(f"{rule}: {constant} is another number")
        if words not in rule_text(rule):
            wrong.append(f"{rule} does not say {words!r}")
    assert wrong == []


def rule_text(rule: str) -> str:
    """Return the text of a rule in one line."""
    chapter, _, anchor = rule.partition("/")
    text = (SPECIFICATION / f"{chapter}.md").read_text(encoding="utf-8")
    _, _, behind = text.partition(f"### {anchor}\n")
    return " ".join(re.split(r"^#", behind, maxsplit=1, flags=re.MULTILINE)[0].split())
