"""The records of groups but their commits, brought together by group for their histories."""

from collections.abc import Callable, Mapping

import pyarrow as pa

from coterie.pipeline.engine import Engine
from coterie.pipeline.exchange import Outbox
from coterie.pipeline.part_files import Share, read_share, shares
from coterie.pipeline.schemas import CONSUMER_EPOCHS, GROUPS
from coterie.pipeline.store import Store
from coterie.pipeline.tables import TABLES
from coterie.pipeline.transforms import histories

Labels = dict[str, str]
Reader = Callable[[list[Share], Outbox, Labels], None]

_FACT_ROWS = 500_000
# Records of groups are nested, and larger.
_GROUP_ROWS = 1 << 16
_INITIALIZED = pa.schema([CONSUMER_EPOCHS.field("initialized")])
_TOPIC_COLUMNS = pa.schema(
    [TABLES["offset_commits"].schema.field(name) for name in ("topic_id", "topic")]
)


def _read_journal(task: list[Share], outbox: Outbox, labels: Labels) -> None:
    for rows in read_share(task, histories.JOURNAL_COLUMNS, _FACT_ROWS):
        outbox.add("facts", histories.facts(rows, labels))


def _read_generations(task: list[Share], outbox: Outbox, _: Labels) -> None:
    for rows in read_share(task, GROUPS, _GROUP_ROWS):
        outbox.add("logged", rows)


def _read_epochs(task: list[Share], outbox: Outbox, _: Labels) -> None:
    for rows in read_share(task, CONSUMER_EPOCHS, _GROUP_ROWS):
        outbox.add("epochs", rows)


# By table how a task passes its rows on, as the kinds `histories.HISTORY_ROWS`.
READERS: dict[str, Reader] = {
    "journal_records": _read_journal,
    "group_generations": _read_generations,
    "consumer_epochs": _read_epochs,
}


def topic_names(engine: Engine, store: Store, recorded: Mapping[str, str]) -> dict[str, str]:
    """Return topic names by id, as far as commits have both [pipeline/topic-ids].

    Args:
        engine: runs the tasks.
        store: the output directory.
        recorded: names by id that the inputs record, which are part of the result.
    """
    # Only these records need names.
    if not store.rows("consumer_epochs"):
        return {}
    tasks = shares(store.files("offset_commits"))

    def work(number: int) -> dict[str, str]:
        found: dict[str, str] = {}
        for rows in read_share(tasks[number], _TOPIC_COLUMNS, _FACT_ROWS):
            named = rows.filter(rows.column("topic_id").is_valid())
            pairs = pa.Table.from_batches([named]).group_by(_TOPIC_COLUMNS.names).aggregate([])
            found |= dict(zip(*(each.to_pylist() for each in pairs.columns), strict=True))
        return found

    names = dict(recorded)
    for found in engine.run(len(tasks), work):
        names |= found
    return names | _names_of_shared(engine, store)


def _names_of_shared(engine: Engine, store: Store) -> dict[str, str]:
    """Return the names that share groups record of topics."""
    tasks = shares(store.files("consumer_epochs"))

    def work(number: int) -> dict[str, str]:
        return {
            each["topic_id"]: each["topic"]
            for rows in read_share(tasks[number], _INITIALIZED, _GROUP_ROWS)
            for each in rows.column("initialized").flatten().to_pylist()
        }

    return {key: name for found in engine.run(len(tasks), work) for key, name in found.items()}
