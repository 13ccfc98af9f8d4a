"""The tables of the pipeline: what a row of each is, and what its columns mean."""

from collections.abc import Iterator
from pathlib import Path

from documentation.reference.tables import code, lines_of

_FILE = Path(__file__).parent / "pipeline_columns.tsv"
# What stands in place of a table before columns that mean the same in several ones.
EVERY_TABLE = "*"
_HEAD = """# Tables of the pipeline

Parquet files in `OUTPUT/<table>/part=*`; `OUTPUT/manifest.json` says which parts count. Columns
that end in `_ts` are microseconds UTC, columns that end in `_ms` are durations in milliseconds.
What is unknown is null. Runs add parts to the tables of bronze, and to `offset_commits`,
`group_events`, `consumer_epochs` and `share_states`; they replace the other tables.
[The rules](../spec/pipeline.md) say in detail what the values mean, and
[the findings](../pipeline.md#findings) what the rows of `anomalies` do.

These columns mean the same in several tables:

"""


def described() -> Iterator[tuple[str, list[str], str]]:
    """Yield tables, some of their columns, and what these mean.

    The first line of a table has no columns, and says what a row is.
    """
    for table, names, text in lines_of(_FILE, 3):
        yield table, [name for name in names.split(",") if name], text


def tables_page() -> str:
    """Return the page, which has a heading for each table."""
    parts = [_HEAD]
    for table, names, text in described():
        if names:
            parts.append(f"* {', '.join(map(code, names))}{text and ': '}{text}\n")
        else:
            parts.append(f"\n### {table}\n\n{text}\n\n")
    return "".join(parts)
