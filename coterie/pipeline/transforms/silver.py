"""Silver: records of the group log and the journal, decoded and typed.

Every record is decoded once, in the run that read it. Only `group_generations` is computed from old
and new rows, because a rewrite is recognized by the generation before it.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from coterie.pipeline.codec.commits import KEY_TYPES as COMMIT_KEY_TYPES
from coterie.pipeline.codec.epochs import KINDS
from coterie.pipeline.codec.groups import KEY_TYPE as GROUP_KEY_TYPE
from coterie.pipeline.schemas import COMMITS, CONSUMER_EPOCHS, GROUPS, spark_schema
from coterie.pipeline.tables import TABLES
from coterie.pipeline.transforms.decoding import events_of, view_of
from coterie.protocol.record_batch_layout import CONTROL, TRANSACTIONAL

Labels = Mapping[str, str]

_COMMIT_MARKER = b"\x00\x01"


def offset_commits(
    new: DataFrame, labels: Labels, older_transactional: DataFrame | None = None
) -> DataFrame:
    """Return the commits that count since the last run [pipeline/transactional-commits].

    Args:
        new: new rows of `log_records`.
        labels: by input the label of its groups.
        older_transactional: older rows for which `is_transactional` holds; needed if a new row is a
            marker.
    """
    plain = new.where(f.col("key_type").isin(*COMMIT_KEY_TYPES) & ~_has(TRANSACTIONAL))
    counting = plain
    if older_transactional is not None:
        columns = new.columns
        both = new.where(is_transactional()).withColumn("is_new", f.lit(True))
        both = both.unionByName(
            older_transactional.where(is_transactional()).withColumn("is_new", f.lit(False))
        )
        counting = plain.unionByName(_committed(both).select(*columns))
    return counting.mapInArrow(view_of("commits", labels), spark_schema(COMMITS))


def is_transactional() -> Column:
    """Return whether a row of bronze belongs to a transaction or is the marker that ends one."""
    return _has(TRANSACTIONAL) | is_marker()


def is_marker() -> Column:
    """Return whether a row of bronze is the marker that ends a transaction."""
    return _has(CONTROL)


def _has(attribute: int) -> Column:
    # Rows of the connector have no attributes, and only committed ones are returned by it.
    return f.coalesce(f.col("attributes").bitwiseAND(attribute) != 0, f.lit(False))


def _committed(rows: DataFrame) -> DataFrame:
    """Return the commits of transactions whose marker is new and says commit."""
    following = (
        Window.partitionBy("input", "log_partition", "producer_id")
        .orderBy("log_offset")
        .rowsBetween(Window.currentRow, Window.unboundedFollowing)
    )
    marker = f.when(
        is_marker(),
        f.struct((f.substring("key", 3, 2) == f.lit(_COMMIT_MARKER)).alias("commits"), "is_new"),
    )
    marked = rows.withColumn("marker", f.first(marker, ignorenulls=True).over(following))
    return marked.where(
        f.col("key_type").isin(*COMMIT_KEY_TYPES)
        & ~is_marker()
        & f.col("marker.commits")
        & f.col("marker.is_new")
    )


def group_generations(new: DataFrame, labels: Labels, known: DataFrame | None = None) -> DataFrame:
    """Return every logged generation, old and new.

    Args:
        new: new rows of `log_records`.
        labels: by input the label of its groups.
        known: the table so far.
    """
    raw = new.where(f.col("key_type") == GROUP_KEY_TYPE)
    rows = raw.mapInArrow(view_of("groups", labels), spark_schema(GROUPS))
    if known is not None:
        rows = rows.unionByName(known.drop("is_rewrite"))
    return with_rewrites(rows)


def with_rewrites(rows: DataFrame) -> DataFrame:
    """Add to rows of the view `groups` whether they are rewrites [pipeline/static-rewrite]."""
    order = Window.partitionBy("group_id").orderBy("log_offset")
    before = f.lag("generation").over(order)
    again = f.coalesce(
        (before == f.col("generation")) & ~f.lag("is_tombstone").over(order),
        f.lit(False),
    )
    return rows.withColumn("is_rewrite", again)


def consumer_epochs(new: DataFrame, labels: Labels) -> DataFrame:
    """Return the records of KIP-848 groups among new rows of `log_records`."""
    raw = new.where(f.col("key_type").isin(*KINDS))
    return raw.mapInArrow(view_of("consumer_epochs", labels), spark_schema(CONSUMER_EPOCHS))


def group_events(new: DataFrame, labels: Labels) -> DataFrame:
    """Return the facts among new rows of `journal_records`."""
    return new.mapInArrow(events_of(labels), spark_schema(TABLES["group_events"].schema))
