"""Read the gold tables of an output directory with pyarrow, without Spark and Java.

The commits and lags of each minute are summed here, and rows that a drawing could not show are
dropped, so time and memory depend on the number of rebalances and not on that of commits.
"""

import json
from collections.abc import Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from coterie.pipeline.report.content import Content, GroupContent, Row, content_of, group_content
from coterie.pipeline.report.history import CompletedGeneration
from coterie.pipeline.store import Store
from coterie.pipeline.tables import TABLES
from coterie.pipeline.timeline.share_partitions import ACCEPTED

# The rows of one group that are kept. More bars could not be distinguished in a drawing, and the
# newest are the ones that a reader looks for.
NEWEST_OWNERSHIP = 6_000
NEWEST_BUMPS = 1_000
SLOWEST_HANDOVERS = 50
NEWEST_DELIVERIES = 300
# Later than every time of a record.
_NEVER_MS = 1 << 52
_GENERATION_COMPLETED = "generation_completed"
_FACT_COLUMNS = ("group_id", "fact", "generation", "at_ts", "detail")
_GENERATION_COLUMNS = (
    "group_id",
    "generation",
    "record_ts",
    "is_rewrite",
    "is_tombstone",
    "members",
)
_MINUTE = ("group_id", "window_start_ts")
_PARTITION = ("group_id", "topic", "partition")
_KEEP_NULLS = pc.ScalarAggregateOptions(skip_nulls=False)


def read_content(store: Store) -> Content:
    """Read everything that the page shows.

    Args:
        store: the output directory of a run.
    """
    tables: dict[str, Iterable[Row]] = {
        name: _rows(_table(store, name)) for name in ("rebalances", "member_sessions", "anomalies")
    }
    tables["ownership"] = _first_of_groups(
        _table(store, "ownership"), [("from_ts", "descending")], NEWEST_OWNERSHIP
    )
    tables["epoch_bumps"] = _first_of_groups(
        _table(store, "epoch_bumps"), [("at_ts", "descending")], NEWEST_BUMPS
    )
    tables["epoch_handovers"] = _slowest_handovers(_table(store, "epoch_handovers"))
    tables |= _deliveries(store)
    tables["progress"] = _rows(_progress(_table(store, "commit_velocity_1m")))
    lag = _table(store, "lag_1m")
    tables["lag"] = _rows(_summed_lag(lag))
    tables["partition_lag"] = _rows(_newest_lag(lag))
    tables["partition_moves"] = _rows(_moves(_table(store, "partition_moves")))
    health = _rows(_table(store, "log_health"))
    return content_of(tables, _inputs(store), health, store.rows("quarantine"))


def _deliveries(store: Store) -> dict[str, Iterable[Row]]:
    """Read what the page shows of share groups."""
    newest = [("last_ts", "descending")]
    failed = _table(store, "share_deliveries")
    accepted = pc.equal(failed.column("ended_by"), ACCEPTED)
    failed = failed.filter(pc.invert(pc.fill_null(accepted, fill_value=False)))
    poison = _table(store, "poison_records")
    return {
        "share_partitions": _rows(_table(store, "share_partitions")),
        "poison_records": _first_of_groups(poison, newest, NEWEST_DELIVERIES),
        "failed_deliveries": _first_of_groups(failed, [("at_ts", "descending")], NEWEST_DELIVERIES),
    }


def _inputs(store: Store) -> list[str]:
    """Return the paths of each input, with the input's name where that is not the path itself."""
    found = []
    for source in store.inputs:
        paths = [path for path in store.about(source).get("paths", ()) if path != source]
        found.append(f"{', '.join(paths)} ({source})" if paths else source)
    return found


def read_group(store: Store, group_id: str) -> GroupContent:
    """Read one group's rebalances, ownership and members.

    Args:
        store: the output directory of a run.
        group_id: the group; an unknown one has no rows.
    """
    names = (
        "rebalances", "ownership", "member_sessions", "anomalies", "epoch_bumps", "epoch_handovers",
    )  # fmt: skip
    return group_content(
        group_id, {name: _rows(_table(store, name, group_id=group_id)) for name in names}
    )


def read_moves(store: Store, group_id: str) -> list[Row]:
    """Read the rows of `partition_moves` of a group, by time."""
    rows = _rows(_table(store, "partition_moves", group_id=group_id))
    return sorted(rows, key=lambda row: (row["at_ts"], row["topic"], row["partition"]))


def read_generations(store: Store, group_id: str) -> list[CompletedGeneration]:
    """Read the completed generations of a group: from the journal, and before that from the log."""
    from_journal = [
        _completed(row["generation"], row["at_ts"], json.loads(row["detail"] or "{}"))
        for row in _rows(_table(store, "group_events", _FACT_COLUMNS, group_id=group_id))
        if row["fact"] == _GENERATION_COMPLETED
    ]
    first = min(from_journal, key=lambda each: each.at_ms, default=None)
    generations = _table(store, "group_generations", _GENERATION_COLUMNS, group_id=group_id)
    logged = [
        _completed(row["generation"], row["record_ts"], row)
        for row in _rows(generations)
        if not (row["is_rewrite"] or row["is_tombstone"]) and row["record_ts"] is not None
    ]
    earlier = [each for each in logged if first is None or each.at_ms < first.at_ms]
    if first is not None and earlier and earlier[-1].generation == first.generation:
        # Its record is some milliseconds older than its fact.
        earlier.pop()
    return sorted(earlier + from_journal, key=lambda each: (each.at_ms, each.generation))


def _completed(generation: int, at_ms: int, row: Row) -> CompletedGeneration:
    owned = {
        member["member_key"]: sorted(
            (each["topic"], each["partition"]) for each in member.get("assigned") or ()
        )
        for member in row.get("members") or ()
    }
    return CompletedGeneration(generation, at_ms, dict(sorted(owned.items())))


def read_minutes(store: Store, group_id: str) -> list[Row]:
    """Read the rows of `commit_velocity_1m` of a group."""
    return _rows(_table(store, "commit_velocity_1m", group_id=group_id))


def group_ids(store: Store) -> list[str]:
    """Return the groups that have a history, or at least commits."""
    seen: set[str] = set()
    for name in ("rebalances", "member_sessions", "commit_velocity_1m"):
        seen.update(_table(store, name, ("group_id",)).column("group_id").unique().to_pylist())
    return sorted(seen)


def _table(
    store: Store, name: str, columns: Sequence[str] | None = None, *, group_id: str | None = None
) -> pa.Table:
    """Read a table, with its times as epoch milliseconds."""
    files = store.files(name)
    schema = TABLES[name].schema
    wanted = list(columns or schema.names)
    if not files:
        table = schema.empty_table().select(wanted)
    else:
        only = None if group_id is None else ds.field("group_id") == group_id
        dataset = ds.dataset(files, format="parquet")
        written = [each for each in wanted if each in dataset.schema.names]
        table = dataset.to_table(columns=written, filter=only)
        for number, each in enumerate(wanted):
            # An earlier version wrote the table without this column.
            if each not in written:
                nulls = pa.nulls(table.num_rows, schema.field(each).type)
                table = table.add_column(number, each, nulls)
    for number, field in enumerate(table.schema):
        # Spark can write Parquet's old 96-bit times, which are read as nanoseconds.
        in_ms, as_number = pa.timestamp("ms", tz="UTC"), pa.int64()
        column = table.column(number)
        if pa.types.is_list(field.type) and pa.types.is_timestamp(field.type.value_type):
            in_ms, as_number = pa.list_(in_ms), pa.list_(as_number)
        elif not pa.types.is_timestamp(field.type):
            continue
        table = table.set_column(number, field.name, column.cast(in_ms, safe=False).cast(as_number))
    return table


def _rows(table: pa.Table) -> list[Row]:
    rows: list[Row] = table.to_pylist()
    return rows


def _first_of_groups(table: pa.Table, order: list[tuple[str, str]], most: int) -> list[Row]:
    """Return the first rows of each group, as many as the page can show."""
    rows: list[Row] = []
    ordered = table.sort_by([("group_id", "ascending"), *order])
    first = 0
    # value_counts keeps the order in which values first occur, which is that of the sorted rows.
    for count in pc.value_counts(ordered.column("group_id")).field("counts").to_pylist():
        rows += ordered.slice(first, min(count, most)).to_pylist()
        first += count
    return rows


def _slowest_handovers(table: pa.Table) -> list[Row]:
    """Return the handovers of each group that took longest, open ones first [report/epochs]."""
    ends = pc.fill_null(table.column("taken_ts"), _NEVER_MS)
    took = pc.subtract(ends, table.column("asked_ts"))
    order = [("took", "descending"), ("asked_ts", "descending")]
    rows = _first_of_groups(table.append_column("took", took), order, SLOWEST_HANDOVERS)
    for row in rows:
        del row["took"]
    return rows


def _progress(table: pa.Table) -> pa.Table:
    """Sum the progress and the commits of each group in each minute."""
    sums = table.group_by(list(_MINUTE)).aggregate([("advance", "sum"), ("commits", "sum")])
    return sums.rename_columns([*_MINUTE, "advance", "commits"])


def _summed_lag(table: pa.Table) -> pa.Table:
    """Sum the lag of each group in each minute; one unknown lag makes the sum unknown."""
    sums = table.group_by(list(_MINUTE)).aggregate([("lag", "sum", _KEEP_NULLS)])
    return sums.rename_columns([*_MINUTE, "lag"])


def _newest_lag(table: pa.Table) -> pa.Table:
    """Return the newest row of each partition."""
    ordered = table.sort_by([("window_start_ts", "ascending")])
    rest = [name for name in ordered.column_names if name not in _PARTITION]
    newest = ordered.group_by(list(_PARTITION), use_threads=False).aggregate(
        [(name, "last", _KEEP_NULLS) for name in rest]
    )
    return newest.rename_columns([*_PARTITION, *rest])


def _moves(table: pa.Table) -> pa.Table:
    """Count the moves of each partition, and sum its time without owner as far as it is known."""
    moved = table.filter(pc.is_valid(table.column("from_member_key")))
    sums = moved.group_by(list(_PARTITION)).aggregate(
        [("to_generation", "count", pc.CountOptions(mode="all")), ("gap_ms", "sum")]
    )
    return sums.rename_columns([*_PARTITION, "moves", "gap_ms"])
