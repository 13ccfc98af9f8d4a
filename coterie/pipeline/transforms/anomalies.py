"""Findings: rules over the other tables, each a function with its limits next to it.

A rule reports the group, the time, the subject (a member's key, or a topic and partition), a number
and a sentence. The end of the records counts as "now" [pipeline/findings].
"""

from collections.abc import Callable
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from coterie.pipeline.schemas import spark_schema
from coterie.pipeline.tables import TABLES
from coterie.pipeline.transforms.progress import KEY, MINUTE_MS
from coterie.pipeline.transforms.unowned import UNOWNED, unowned

CRITICAL, WARNING, INFO = "critical", "warning", "info"

# A deployment of a few members costs one rebalance each, and stays below five in ten minutes. A
# member that fails again and again at Kafka's session timeout of 45 s causes a dozen
# [pipeline/rebalance-storm].
STORM_REBALANCES = 5
STORM_MINUTES = 10

# Kafka's max.poll.interval.ms is five minutes by default. A member that leaves earlier has hardly
# worked. Three such members within half an hour are no deployment [pipeline/flapping-member].
SHORT_SESSION_MINUTES = 5
FLAPS = 3
FLAP_MINUTES = 30

# Commits and assignments are timed at different places, and a commit may be in flight. Ten seconds
# is the shortest session timeout that clients use by default [pipeline/zombie-commit].
ZOMBIE_GRACE_MS = 10_000

# A single move without need may be chance if two assignments are equally good.
NEEDLESS_MOVES = 2
# With a range assignment of several topics members differ by one partition per topic, which is
# normal. Twice as many partitions is a burden [pipeline/unbalanced-assignment].
UNBALANCED_RATIO = 2
UNBALANCED_PARTITIONS = 2

# offsets.retention.minutes, Kafka's default.
OFFSETS_RETENTION_MS = 7 * 24 * 3600 * 1000
# A day leaves time to act, including a night and a morning [pipeline/group-expiry].
EXPIRY_NOTICE_MS = 24 * 3600 * 1000

_SECOND_MS = 1000
_FOREVER_MS = 1 << 62
# About 100 MB, with numpy's intermediate arrays.
_ROWS_OF_A_WORKER = 500_000


class Tables(NamedTuple):
    """The input of the rules.

    Attributes:
        minutes: see `progress.commit_minutes`; the others are the tables of their names.
        retention_ms: how long the offsets of a group without members are kept.
    """

    rebalances: DataFrame
    ownership: DataFrame
    member_sessions: DataFrame
    group_generations: DataFrame
    minutes: DataFrame
    lag_1m: DataFrame
    retention_ms: int = OFFSETS_RETENTION_MS


class Rule(NamedTuple):
    """A rule.

    Attributes:
        name: in the column `rule`.
        severity: critical, warning or info.
        about: what it means, in a few words.
        find: returns the columns of `anomalies` without rule and severity.
    """

    name: str
    severity: str
    about: str
    find: Callable[[Tables], DataFrame]


def anomalies(tables: Tables) -> DataFrame:
    """Return the findings of all rules."""
    found = [
        rule.find(tables).select(
            f.lit(rule.name).alias("rule"),
            f.lit(rule.severity).alias("severity"),
            "group_id",
            "window_start_ts",
            "window_end_ts",
            "subject",
            f.col("value").cast("double").alias("value"),
            "evidence",
        )
        for rule in RULES
    ]
    every = found[0]
    for rows in found[1:]:
        every = every.unionByName(rows)
    return every.select(*TABLES["anomalies"].schema.names)


def rebalance_storm(tables: Tables) -> DataFrame:
    """Find groups with many rebalances in a short time, which hardly work."""
    rows = tables.rebalances.select(
        "group_id",
        f.lit(None).cast("string").alias("subject"),
        f.coalesce("started_ts", "completed_ts").alias("at_ts"),
        f.coalesce("trigger", f.lit("unknown")).alias("what"),
    )
    evidence = f.format_string(
        f"%s rebalances within {STORM_MINUTES} minutes, mostly: %s", "value", "what"
    )
    bursts = _bursts(rows, STORM_REBALANCES, STORM_MINUTES)
    return bursts.withColumn("evidence", evidence)


def flapping_member(tables: Tables) -> DataFrame:
    """Find members that join and leave again and again, dynamic ones by client id and host."""
    ended = tables.member_sessions.where(f.col("last_seen_ts").isNotNull())
    length_ms = f.unix_millis("last_seen_ts") - f.unix_millis("first_seen_ts")
    is_static = f.col("member_key") != f.col("member_id")
    rows = ended.where(length_ms < SHORT_SESSION_MINUTES * MINUTE_MS).select(
        "group_id",
        f.when(is_static, f.col("member_key"))
        .otherwise(f.concat("client_id", "client_host"))
        .alias("subject"),
        f.col("last_seen_ts").alias("at_ts"),
        f.coalesce("exit_kind", f.lit("unknown")).alias("what"),
    )
    evidence = f.format_string(
        f"joined and left %s times within {FLAP_MINUTES} minutes, mostly by: %s", "value", "what"
    )
    return _bursts(rows, FLAPS, FLAP_MINUTES).select("*", evidence.alias("evidence"))


def _bursts(rows: DataFrame, count: int, minutes: int) -> DataFrame:
    """Find bursts of at least `count` rows of a subject within `minutes`; one row per burst.

    Args:
        rows: `group_id, subject, at_ts, what`.
        count: the number of rows.
        minutes: the time.
    """
    who = ("group_id", "subject")
    recent = (
        Window.partitionBy(*who)
        .orderBy(f.unix_millis("at_ts"))
        .rangeBetween(-minutes * MINUTE_MS, 0)
    )
    order = Window.partitionBy(*who).orderBy("at_ts")
    hot = rows.select(
        *who,
        "at_ts",
        "what",
        f.count("*").over(recent).alias("n"),
        f.min("at_ts").over(recent).alias("since_ts"),
    ).where(f.col("n") >= count)
    apart_ms = f.unix_millis("at_ts") - f.unix_millis(f.lag("at_ts").over(order))
    begins = hot.withColumn("begins", f.coalesce(apart_ms > minutes * MINUTE_MS, f.lit(True)))
    numbered = begins.withColumn("burst", f.count_if("begins").over(order))
    return numbered.groupBy(*who, "burst").agg(
        f.min("since_ts").alias("window_start_ts"),
        f.max("at_ts").alias("window_end_ts"),
        f.max("n").alias("value"),
        f.mode("what", True).alias("what"),
    )


def rewind(tables: Tables) -> DataFrame:
    """Find committed offsets that went back, so that messages are read again.

    One row per partition and hour.
    """
    back = tables.minutes.where(f.col("rewinds") > 0)
    return (
        back.groupBy(*KEY, f.date_trunc("hour", "window_start_ts").alias("hour"))
        .agg(
            f.min("window_start_ts").alias("window_start_ts"),
            f.max("last_ts").alias("window_end_ts"),
            f.max("rewound_by").alias("value"),
            f.max_by("rewound_offset", "rewound_by").alias("at_offset"),
            f.sum("rewinds").alias("times"),
        )
        .select(
            "*",
            _partition_name(),
            f.format_string(
                "went back %2$s times, by up to %1$s; the largest step is at log offset %3$s",
                "value",
                "times",
                "at_offset",
            ).alias("evidence"),
        )
    )


def zombie_commit(tables: Tables) -> DataFrame:
    """Find commits of a partition that no member owned while the group had members.

    A commit does not contain its member, so the log cannot show more [pipeline/zombie-commit].
    """
    unowned_commits = without_owner(tables.minutes, tables.ownership)
    evidence = f.format_string("%s commits while no member of the group owned it", "value")
    return (
        unowned_commits.groupBy(*KEY)
        .agg(
            f.min("first_ts").alias("window_start_ts"),
            f.max("last_ts").alias("window_end_ts"),
            f.sum("commits").alias("value"),
        )
        .select("*", _partition_name(), evidence.alias("evidence"))
    )


def without_owner(commits: DataFrame, ownership: DataFrame, count: int = 0) -> DataFrame:
    """Return the commits of partitions that no member owned while the group had members.

    Args:
        commits: the key of a partition, `first_ts`, `last_ts` and `commits`: several commits
            together, or each on its own.
        ownership: the table of that name.
        count: the number of rows of commits, if it is known, so that no worker gets more of them
            than fit into its memory.
    """
    owned = ownership.select(
        *KEY,
        f.unix_millis("from_ts").alias("from_ms"),
        f.coalesce(f.unix_millis("to_ts"), f.lit(_FOREVER_MS)).alias("to_ms"),
    )
    made = commits.where(f.col("commits") > 0).select(
        *UNOWNED.names[:-1],
        f.col("commits").cast("bigint"),
        (f.unix_millis("first_ts") - ZOMBIE_GRACE_MS).alias("from_ms"),
        (f.unix_millis("last_ts") + ZOMBIE_GRACE_MS).alias("to_ms"),
    )
    both = made.unionByName(owned, allowMissingColumns=True)
    if count:
        both = both.repartition(1 + count // _ROWS_OF_A_WORKER, "group_id")
    else:
        both = both.repartition("group_id")
    return both.mapInArrow(unowned, spark_schema(UNOWNED))


def stalled_partition(tables: Tables) -> DataFrame:
    """Find partitions with a lag and without progress, where the log end is known."""
    order = Window.partitionBy(*KEY).orderBy("window_start_ts")
    began = f.col("stalled") & ~f.coalesce(f.lag("stalled").over(order), f.lit(False))
    rows = tables.lag_1m.where("stalled is not null").withColumn("began", began)
    rows = rows.withColumn("stall", f.count_if("began").over(order)).where("stalled")
    evidence = f.format_string(
        "stalled at offset %s, %s messages behind the log end", "at", "value"
    )
    return rows.groupBy(*KEY, "stall").agg(
        f.min("window_start_ts").alias("window_start_ts"),
        f.max("window_start_ts").alias("window_end_ts"),
        f.max("lag").alias("value"),
        f.max("committed_offset").alias("at"),
    ).select(
        "*",
        _partition_name(),
        evidence.alias("evidence"),
    )  # fmt: skip


def needless_moves(tables: Tables) -> DataFrame:
    """Find partitions that moved although a balanced assignment did not need it, by hour."""
    rows = tables.rebalances.where(f.col("excess_moved") >= NEEDLESS_MOVES)
    at = f.coalesce("started_ts", "completed_ts")
    return rows.groupBy("group_id", f.date_trunc("hour", at).alias("hour")).agg(
        f.min(at).alias("window_start_ts"),
        f.max("completed_ts").alias("window_end_ts"),
        f.sum("excess_moved").alias("value"),
        f.sum("moved").alias("moved"),
        f.count("*").alias("times"),
        f.mode("protocol", True).alias("protocol"),
    ).select(
        "*",
        f.lit(None).cast("string").alias("subject"),
        f.format_string(
            "%s of %s moves in %s rebalances were not needed; assignor %s",
            "value", "moved", "times", "protocol",
        ).alias("evidence"),
    )  # fmt: skip


def unbalanced_assignment(tables: Tables) -> DataFrame:
    """Find members with equal subscriptions and very different numbers of partitions."""
    members = f.col("members")
    counts = f.transform(members, lambda member: f.size(member["assigned"]))
    topics = f.transform(members, lambda member: f.array_sort(member["topics"]))
    # Between the halves of a cooperative rebalance some partitions are not assigned.
    settled = tables.rebalances.select("group_id", f.col("to_generation").alias("generation"))
    rows = (
        tables.group_generations.join(settled, ["group_id", "generation"], "left_semi")
        .where((f.col("state") == "Stable") & (f.size("members") > 1))
        .where(f.size(f.array_distinct(topics)) == 1)
        .where(~f.exists(topics, lambda each: each.isNull()))
        .select(
            "group_id",
            "generation",
            "protocol",
            f.coalesce("record_ts", "state_ts").alias("at_ts"),
            f.array_max(counts).alias("most"),
            f.array_min(counts).alias("least"),
        )
        .where(f.col("most") - f.col("least") >= UNBALANCED_PARTITIONS)
        .where(f.col("most") >= UNBALANCED_RATIO * f.col("least"))
    )
    worst = f.struct((f.col("most") - f.col("least")).alias("apart"), "most", "least", "generation")
    return rows.groupBy("group_id").agg(
        f.min("at_ts").alias("window_start_ts"),
        f.max("at_ts").alias("window_end_ts"),
        f.max(worst).alias("worst"),
        f.mode("protocol", True).alias("protocol"),
    ).select(
        "*",
        f.lit(None).cast("string").alias("subject"),
        f.col("worst.apart").alias("value"),
        f.format_string(
            "one member had %s partitions, another %s, in generation %s; assignor %s",
            "worst.most", "worst.least", "worst.generation", "protocol",
        ).alias("evidence"),
    )  # fmt: skip


def group_about_to_expire(tables: Tables) -> DataFrame:
    """Find groups without members whose committed offsets expire within a day (KIP-211)."""
    last = tables.minutes.groupBy(*KEY).agg(
        f.max_by("last_offset", "window_start_ts").alias("committed_offset"),
        f.max("last_ts").alias("committed_ts"),
    )
    groups = (
        last.where(f.col("committed_offset").isNotNull())
        .groupBy("group_id")
        .agg(f.max("committed_ts").alias("committed_ts"), f.count("*").alias("offsets"))
    )
    members = tables.member_sessions.groupBy("group_id").agg(
        f.count_if(f.col("last_seen_ts").isNull()).alias("members"),
        f.max("last_seen_ts").alias("left_ts"),
    )
    ends = tables.minutes.agg(f.max("last_ts").alias("now_ts")).unionByName(
        tables.rebalances.agg(f.max("completed_ts").alias("now_ts"))
    )
    now = ends.agg(f.max("now_ts").alias("now_ts"))
    # A group that never had members, such as a consumer that assigns itself, expires after its last
    # commit.
    since = f.coalesce("left_ts", "committed_ts")
    left_ms = f.unix_millis(since) + tables.retention_ms - f.unix_millis("now_ts")
    return (
        groups.join(members, "group_id", "left")
        .where(f.coalesce("members", f.lit(0)) == 0)
        .crossJoin(f.broadcast(now))
        .withColumn("left_ms", left_ms)
        .where(f.col("left_ms") <= EXPIRY_NOTICE_MS)
        .select(
            "group_id",
            since.alias("window_start_ts"),
            f.timestamp_millis(f.unix_millis(since) + tables.retention_ms).alias("window_end_ts"),
            f.lit(None).cast("string").alias("subject"),
            (f.col("left_ms") / (3600 * _SECOND_MS)).alias("value"),
            f.format_string("%s committed offsets, without members", "offsets").alias("evidence"),
        )
    )


def _partition_name() -> Column:
    return f.concat_ws("-", "topic", f.col("partition").cast("string")).alias("subject")


RULES: tuple[Rule, ...] = (
    Rule(
        "rebalance_storm",
        CRITICAL,
        f"{STORM_REBALANCES} or more rebalances within {STORM_MINUTES} minutes",
        rebalance_storm,
    ),
    Rule(
        "flapping_member",
        WARNING,
        f"{FLAPS} or more sessions of a member within {FLAP_MINUTES} minutes, each shorter than"
        f" {SHORT_SESSION_MINUTES} minutes",
        flapping_member,
    ),
    Rule("rewind", WARNING, "a committed offset went back", rewind),
    Rule("zombie_commit", WARNING, "commits of a partition without an owner", zombie_commit),
    Rule("stalled_partition", CRITICAL, "a lag without progress for minutes", stalled_partition),
    Rule("needless_moves", INFO, "partitions moved without need", needless_moves),
    Rule(
        "unbalanced_assignment",
        INFO,
        "members with equal subscriptions have very different numbers of partitions",
        unbalanced_assignment,
    ),
    Rule(
        "group_about_to_expire",
        WARNING,
        "the offsets of a group without members expire within a day",
        group_about_to_expire,
    ),
)
