"""Silver: records of the group log and the journal, decoded and typed.

Every record is decoded once, in the run that read it. Only `group_generations` is computed from old
and new rows, because a rewrite is recognized by the generation before it.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from coterie.pipeline.codec.commits import KEY_TYPES as COMMIT_KEY_TYPES
from coterie.pipeline.records.epochs import KINDS
from coterie.pipeline.records.groups import KEY_TYPE as GROUP_KEY_TYPE
from coterie.pipeline.tables import TABLES
from coterie.pipeline.transforms.commit_runs import int64s, name_codes
from coterie.pipeline.transforms.decoding import view_of
from coterie.pipeline.transforms.transactions import Transactions, has_attribute
from coterie.protocol.record_batch_layout import TRANSACTIONAL

Labels = Mapping[str, str]


def offset_commits(
    rows: pa.RecordBatch,
    labels: Labels,
    transactions: Transactions | None = None,
    *,
    is_old: bool = False,
) -> Iterator[pa.RecordBatch]:
    """Yield the commits that count since the last run [group-log/transactions].

    Args:
        rows: rows of `log_records`.
        labels: by input the label of its groups.
        transactions: the markers; None if this run has read none.
        is_old: whether an earlier run has read these rows, so that only transactions count.
    """
    if is_old:
        counting = pa.nulls(rows.num_rows, pa.bool_()).fill_null(False)
    else:
        is_plain = pc.invert(has_attribute(rows, TRANSACTIONAL))
        counting = pc.and_(_has_type(rows, COMMIT_KEY_TYPES), is_plain)
    if transactions is not None:
        counting = pc.or_(counting, pa.array(transactions.committed(rows)))
    yield from view_of("commits", labels)([rows.filter(counting)])


def consumer_epochs(rows: pa.RecordBatch, labels: Labels) -> Iterator[pa.RecordBatch]:
    """Yield the records of groups with epochs among rows of `log_records`."""
    yield from view_of("consumer_epochs", labels)([rows.filter(_has_type(rows, tuple(KINDS)))])


def groups(rows: pa.RecordBatch, labels: Labels) -> Iterator[pa.RecordBatch]:
    """Yield the generations of classic groups among rows of `log_records`."""
    yield from view_of("groups", labels)([rows.filter(_has_type(rows, (GROUP_KEY_TYPE,)))])


def _has_type(rows: pa.RecordBatch, key_types: tuple[int, ...]) -> pa.Array:
    chosen = pc.is_in(rows.column("key_type"), pa.array(key_types, pa.int16()))
    return chosen.fill_null(False)


def with_rewrites(rows: pa.Table) -> pa.Table:
    """Return rows of the view `groups` as rows of `group_generations`.

    The column that is added says whether a row is a rewrite [pipeline/static-restart].

    Args:
        rows: all rows of some groups, in any order.
    """
    if not rows.num_rows:
        return TABLES["group_generations"].schema.empty_table()
    group = name_codes(rows, "group_id")
    order = np.lexsort((int64s(rows, "log_offset"), group))
    rows, group = rows.take(pa.array(order)), group[order]
    generation = int64s(rows, "generation")
    is_tombstone = rows.column("is_tombstone").to_numpy()
    again = np.zeros(len(group), np.bool_)
    again[1:] = (
        (group[1:] == group[:-1])
        & (generation[1:] == generation[:-1])
        & (generation[1:] >= 0)
        & ~is_tombstone[:-1]
    )
    return rows.append_column("is_rewrite", pa.array(again))
