"""Divide rows by group: in every table of the pipeline a group has a `group_id`."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from coterie.pipeline.transforms.commit_runs import name_codes


def by_group(rows: pa.Table, *order: str) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows of each group, the groups by name. Rows without a group are left out.

    Args:
        rows: rows with a column `group_id`.
        order: the columns by which the rows of a group are sorted.
    """
    keys = [("group_id", "ascending"), *((name, "ascending") for name in order)]
    ordered = rows.filter(rows.column("group_id").is_valid()).sort_by(keys).combine_chunks()
    if not ordered.num_rows:
        return
    codes = name_codes(ordered, "group_id")
    starts = np.flatnonzero(np.append(True, codes[1:] != codes[:-1])).tolist()
    names = ordered.column("group_id")
    for begin, end in zip(starts, [*starts[1:], ordered.num_rows], strict=True):
        yield names[begin].as_py(), ordered.slice(begin, end - begin)
