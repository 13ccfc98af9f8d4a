"""The partitions that the tasks of streams groups read, for what is compared with commits.

Commits are of partitions; `ownership` has tasks of streams groups [pipeline/streams-tasks].
"""

import pyarrow as pa
import pyarrow.compute as pc


def partitions_read(ownership: pa.Table) -> pa.Table:
    """Return ownership of partitions: those of an active task are the ones that it reads.

    Args:
        ownership: rows of that table, with at least `topic`, `role` and `reads`.

    Returns:
        The rows without these two columns; copies of tasks are left out.
    """
    partitions = ownership.filter(pc.is_null(ownership.column("role")))
    reading = ownership.filter(pc.is_valid(ownership.column("reads"))).combine_chunks()
    found = [partitions.drop_columns(["role", "reads"])]
    if reading.num_rows:
        reads = reading.column("reads").combine_chunks()
        rows = reading.take(pc.list_parent_indices(reads)).drop_columns(["role", "reads"])
        place = rows.schema.get_field_index("topic")
        found.append(rows.set_column(place, rows.schema.field(place), pc.list_flatten(reads)))
    return pa.concat_tables(found)
