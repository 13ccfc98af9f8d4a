"""The documents of the pipeline describe exactly the tables, columns, rules and commands that
exist, and the printed story is the tested one.
"""

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="needs pip install coterie[pipeline]")

from coterie.cli.pipeline import PipelineCommands
from coterie.pipeline.tables import TABLES
from documentation.reference.pipeline_tables import EVERY_TABLE
from documentation.reference.pipeline_tables import described as of_columns

DOCS = Path(__file__).parents[3] / "docs"
TEXT = (DOCS / "pipeline.md").read_text(encoding="utf-8")
SAME_AS_LOG_RECORDS = ("journal_records", "share_state_records")


def test_every_table_is_described_with_its_columns_in_order() -> None:
    described: dict[str, list[str]] = {}
    for table, columns, _ in of_columns():
        if table != EVERY_TABLE:
            described.setdefault(table, []).extend(columns)
    for name in SAME_AS_LOG_RECORDS:
        assert described[name] == []
        described[name] = described["log_records"]
    assert described == {name: table.schema.names for name, table in TABLES.items()}


def test_every_command_is_described() -> None:
    assert [name for name in PipelineCommands.summaries if f"**`{name}`**" not in TEXT] == []


def test_story_in_the_document_is_the_tested_one() -> None:
    from tests.pipeline.report.test_story import PRINTED

    shown = [line.strip() for line in TEXT.splitlines()]
    last = PRINTED.splitlines()[-10:]
    assert [line for line in last if line.strip() not in shown] == []
