"""Check rules that always hold, on the tables of a run and on the logs from which they were read.

The rules are those of Kafka's classic protocol and of compaction, so they also test the server that
wrote the logs, which our own tests do. Errors and warnings: [pipeline/check-severity].
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from coterie.pipeline.codec.commits import KEY_TYPES as COMMIT_KEY_TYPES
from coterie.pipeline.codec.epochs import KINDS
from coterie.pipeline.codec.groups import KEY_TYPE as GROUP_KEY_TYPE
from coterie.pipeline.jobs.range_source import read_ranges
from coterie.pipeline.options import MAX_SPLIT_BYTES
from coterie.pipeline.ranges import log_end, plan_ranges
from coterie.pipeline.segments import NoSuchLog, find_partitions
from coterie.pipeline.store import Store
from coterie.pipeline.transforms.anomalies import without_owner
from coterie.pipeline.transforms.progress import KEY
from coterie.pipeline.transforms.silver import is_transactional
from coterie.protocol.java_hash import partition_for
from coterie.protocol.topic_names import OFFSETS_TOPIC

ERROR, WARNING = "error", "warning"

# The findings of one rule that are reported. Thousands of them usually have one reason.
MAX_FINDINGS = 50
# Kafka's default of delete.retention.ms. Compaction keeps the tombstone of a deleted key this long.
DELETE_RETENTION_MS = 24 * 3600 * 1000

_GROUP_KEY_TYPES = (*COMMIT_KEY_TYPES, GROUP_KEY_TYPE, *KINDS)
_DETAIL = (
    "members array<struct<member_key string, topics array<string>,"
    " assigned array<struct<topic string, partition int>>>>"
)
# A group that is created again begins with these numbers. Compaction may have removed the tombstone
# before them.
_FIRST_GENERATIONS = (0, 1)


class Finding(NamedTuple):
    """A place where a rule does not hold.

    Attributes:
        rule: the name of the rule.
        severity: error or warning.
        subject: a group, a partition or a log.
        detail: what was found, as a sentence.
    """

    rule: str
    severity: str
    subject: str
    detail: str


class Checked(NamedTuple):
    """The input of the rules.

    Attributes:
        spark, store: as given.
        generations: every known completed generation: `source` (log or journal), `group_id`,
            `generation`, `place` (its offset there), `resets` (whether it is a deletion instead),
            `is_rewrite`, `members` (key, topics, assigned).
        delete_retention_ms: how long the brokers keep tombstones.
    """

    spark: SparkSession
    store: Store
    generations: DataFrame
    delete_retention_ms: int

    def read(self, table: str) -> DataFrame:
        """Return a table."""
        return self.store.read(self.spark, table)


def check(
    spark: SparkSession, store: Store, *, delete_retention_ms: int = DELETE_RETENTION_MS
) -> list[Finding]:
    """Check all rules.

    Args:
        spark: the session.
        store: the output of a run.
        delete_retention_ms: how long the brokers keep tombstones.

    Returns:
        The findings by rule; none if all rules hold.
    """
    generations = _generations(
        store.read(spark, "group_generations"), store.read(spark, "group_events")
    )
    kept = generations.persist()
    try:
        checked = Checked(spark, store, kept, delete_retention_ms)
        return [finding for rule in RULES for finding in rule(checked)]
    finally:
        kept.unpersist()


def _generations(logged: DataFrame, events: DataFrame) -> DataFrame:
    member = lambda each: f.struct(each["member_key"], each["topics"], each["assigned"])  # noqa: E731
    of_log = logged.select(
        f.lit("log").alias("source"),
        "group_id",
        "generation",
        f.col("log_offset").alias("place"),
        f.col("is_tombstone").alias("resets"),
        "is_rewrite",
        f.transform("members", member).alias("members"),
    )
    facts = events.where(
        f.col("fact").isin(
            "generation_completed", "group_emptied", "group_deleted", "group_expired"
        )
    )
    of_journal = facts.select(
        f.lit("journal").alias("source"),
        "group_id",
        "generation",
        f.col("log_offset").alias("place"),
        f.col("fact").isin("group_deleted", "group_expired").alias("resets"),
        f.lit(False).alias("is_rewrite"),
        f.from_json("detail", _DETAIL)["members"].alias("members"),
    )
    return of_log.unionByName(of_journal)


def one_owner(checked: Checked) -> Iterator[Finding]:
    """Find partitions with several owners in a generation [pipeline/one-owner]."""
    given = _assigned(checked.generations)
    owners = given.groupBy("source", "group_id", "generation", "place", "topic", "partition").agg(
        f.sort_array(f.collect_set("member_key")).alias("owners"), f.count("*").alias("times")
    )
    for row in _some(owners.where("times > 1")):
        yield Finding(
            "one_owner",
            ERROR,
            row["group_id"],
            f"generation {row['generation']} ({row['source']}): {row['topic']}-{row['partition']}"
            f" was assigned {row['times']} times: {', '.join(row['owners'])}",
        )


def assigned_within_subscribed(checked: Checked) -> Iterator[Finding]:
    """Find assigned topics without subscription [pipeline/assigned-within-subscribed]."""
    given = _assigned(checked.generations).where(f.col("topics").isNotNull())
    for row in _some(given.where(~f.array_contains("topics", f.col("topic")))):
        yield Finding(
            "assigned_within_subscribed",
            ERROR,
            row["group_id"],
            f"generation {row['generation']} ({row['source']}): {row['member_key']} was assigned"
            f" {row['topic']}-{row['partition']}, but subscribes to {', '.join(row['topics'])}",
        )


def _assigned(generations: DataFrame) -> DataFrame:
    """Return a row for each partition that a generation assigns to a member."""
    place = ("source", "group_id", "generation", "place")
    members = generations.select(*place, f.explode("members").alias("member"))
    given = members.select(
        *place, "member.member_key", "member.topics", f.explode("member.assigned").alias("given")
    )
    return given.select("*", "given.*").drop("given")


def generations_increase(checked: Checked) -> Iterator[Finding]:
    """Find generations whose number is not larger than the one before
    [pipeline/generations-increase].
    """
    order = Window.partitionBy("source", "group_id").orderBy("place")
    before = f.lag(f.struct("generation", "resets")).over(order)
    rows = checked.generations.withColumn("before", before).where(
        ~f.col("resets")
        & ~f.col("is_rewrite")
        & ~f.col("before.resets")
        & (f.col("generation") <= f.col("before.generation"))
    )
    for row in _some(rows):
        is_first = row["generation"] in _FIRST_GENERATIONS
        yield Finding(
            "generations_increase",
            WARNING if is_first else ERROR,
            row["group_id"],
            f"generation {row['generation']} follows {row['before']['generation']} in the"
            f" {row['source']} at offset {row['place']}"
            + ("; the group may have been deleted and created again" if is_first else ""),
        )


def commits_of_owned_partitions(checked: Checked) -> Iterator[Finding]:
    """Find commits of partitions that no member of the group owned [pipeline/owned-commits]."""
    commits = checked.read("offset_commits").where("not is_tombstone and record_ts is not null")
    each = commits.select(
        *KEY,
        f.col("record_ts").alias("first_ts"),
        f.col("record_ts").alias("last_ts"),
        f.lit(1).alias("commits"),
    )
    count = checked.store.rows("offset_commits")
    unowned = without_owner(each, checked.read("ownership"), count)
    found = unowned.groupBy(*KEY).agg(f.count("*").alias("times"), f.min("first_ts").alias("at"))
    for row in _some(found):
        yield Finding(
            "commits_of_owned_partitions",
            WARNING,
            row["group_id"],
            f"{row['times']} commits of {row['topic']}-{row['partition']} while no member owned"
            f" it, the first at {row['at'].isoformat()}",
        )


def key_in_its_partition(checked: Checked) -> Iterator[Finding]:
    """Find groups with records in another partition than their own [pipeline/home-partition]."""
    counts = {
        source: checked.store.about(source).get("partitions", {}).get(OFFSETS_TOPIC)
        for source in checked.store.inputs
    }
    length = f.conv(f.hex(f.substring("key", 3, 2)), 16, 10).cast("int")
    keys = checked.read("log_records").where(f.col("key_type").isin(*_GROUP_KEY_TYPES))
    homes = keys.select(
        "input", "log_partition", f.col("key").substr(f.lit(5), length).alias("group_id")
    ).distinct()
    wrong = homes.mapInArrow(_misplaced(counts), "input string, log_partition int, group_id binary")
    for row in _some(wrong):
        group_id = bytes(row["group_id"]).decode(errors="replace")
        count = counts[row["input"]]
        assert count is not None, "only inputs with a known count are compared"
        yield Finding(
            "key_in_its_partition",
            ERROR,
            group_id,
            f"has records in {OFFSETS_TOPIC}-{row['log_partition']}; of {count} partitions it"
            f" belongs to {partition_for(group_id, count)}",
        )


def _misplaced(
    counts: Mapping[str, int | None],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def find(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for rows in batches:
            wrong = []
            for row in rows.to_pylist():
                count = counts.get(row["input"])
                if count is None:
                    continue
                group_id = row["group_id"].decode(errors="replace")
                wrong.append(partition_for(group_id, count) != row["log_partition"])
            if any(wrong):
                yield rows.filter(pa.array(wrong))

    return find


def journal_and_log_agree(checked: Checked) -> Iterator[Finding]:
    """Find generations of which journal and log disagree [pipeline/journal-matches-log]."""
    assignment = f.array_sort(
        f.transform(
            "members",
            lambda each: f.struct(
                each["member_key"], f.array_sort(each["assigned"]).alias("assigned")
            ),
        )
    )
    rows = checked.generations.where(~f.col("resets") & ~f.col("is_rewrite")).withColumn(
        "assignment", assignment
    )
    in_journal = rows.where("source = 'journal' and size(members) > 0")
    in_log = rows.where("source = 'log'").groupBy("group_id", "generation")
    logged = in_log.agg(f.collect_set(f.to_json("assignment")).alias("logged"))
    newest = (
        checked.generations.where("source = 'log'")
        .groupBy("group_id")
        .agg(
            f.max_by("generation", "place").alias("newest"),
            f.max_by("resets", "place").alias("is_deleted"),
        )
    )
    both = in_journal.join(logged, ["group_id", "generation"], "left").join(
        newest, "group_id", "left"
    )
    last = Window.partitionBy("group_id").orderBy(f.desc("place"))
    both = both.withColumn("is_last", f.row_number().over(last) == 1)
    missing = (
        f.col("logged").isNull()
        & f.col("is_last")
        & ~f.coalesce("is_deleted", f.lit(False))
        & (f.coalesce("newest", f.lit(-1)) < f.col("generation"))
    )
    differs = ~f.array_contains("logged", f.to_json("assignment"))
    for row in _some(both.withColumn("missing", missing).where(missing | differs)):
        what = "is not in the log" if row["missing"] else "has another assignment in the log"
        yield Finding(
            "journal_and_log_agree",
            ERROR,
            row["group_id"],
            f"generation {row['generation']} of the journal {what}",
        )


def log_kept_its_records(checked: Checked) -> Iterator[Finding]:
    """Find logs that have lost their end, or the last value of a key [pipeline/kept-records]."""
    for source in checked.store.inputs:
        logs = _logs_of(checked.store, source)
        yield from _lost_ends(checked.store, source, logs)
        if logs:
            yield from _lost_keys(checked, source, logs)


def _logs_of(store: Store, source: str) -> dict[int, str]:
    """Return the directories of an input's group log that still exist."""
    found: dict[int, str] = {}
    for path in store.about(source).get("paths", []):
        try:
            found = find_partitions(path, OFFSETS_TOPIC) | found
        except NoSuchLog:
            continue
    return found


def _lost_ends(store: Store, source: str, logs: Mapping[int, str]) -> Iterator[Finding]:
    for number, offset in sorted(store.position(source).items()):
        if number in logs and (end := log_end(logs[number])) < offset:
            yield Finding(
                "log_kept_its_records",
                ERROR,
                logs[number],
                f"was read to offset {offset}, but ends at {end} now",
            )


def _lost_keys(checked: Checked, source: str, logs: Mapping[int, str]) -> Iterator[Finding]:
    ranges = [
        each
        for number, directory in logs.items()
        for each in plan_ranges(directory, number, MAX_SPLIT_BYTES)
    ]
    now = read_ranges(checked.spark, ranges)
    by = ["log_partition", "key"]
    # Compaction removes the records of aborted transactions, so they are not expected to be there.
    read = checked.read("log_records").where(
        (f.col("input") == source)
        & f.col("key").isNotNull()
        & ~is_transactional()
        & f.col("log_partition").isin(*logs)
    )
    last = read.groupBy(*by).agg(
        f.max("log_offset").alias("was_at"),
        f.max_by(f.col("value").isNull(), "log_offset").alias("is_deleted"),
    )
    there = now.where(f.col("key").isNotNull()).groupBy(*by).agg(f.max("log_offset").alias("is_at"))
    lost = (
        last.where(~f.col("is_deleted"))
        .join(there, by, "left")
        .where(f.coalesce("is_at", f.lit(-1)) < f.col("was_at"))
    )
    age_ms = _age_ms(checked.store)
    proven = age_ms is not None and age_ms < checked.delete_retention_ms
    for row in _some(lost):
        where = "missing" if row["is_at"] is None else f"last at offset {row['is_at']}"
        yield Finding(
            "log_kept_its_records",
            ERROR if proven else WARNING,
            logs[row["log_partition"]],
            f"the key {bytes(row['key'])!r} was at offset {row['was_at']}, but is {where} now"
            + ("" if proven else "; it may have been deleted, and its tombstone compacted away"),
        )


def _age_ms(store: Store) -> float | None:
    """Return how long ago the last run ended; None without a run."""
    finished = [run["finished"] for run in store.runs if "finished" in run]
    if not finished:
        return None
    return (datetime.now(UTC) - datetime.fromisoformat(finished[-1])).total_seconds() * 1000


def _some(rows: DataFrame) -> list[Any]:
    return rows.limit(MAX_FINDINGS).collect()


RULES: tuple[Callable[[Checked], Iterator[Finding]], ...] = (
    one_owner,
    assigned_within_subscribed,
    generations_increase,
    commits_of_owned_partitions,
    key_in_its_partition,
    journal_and_log_agree,
    log_kept_its_records,
)
