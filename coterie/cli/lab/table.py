"""The table of outcomes: a line for each."""

from typing import Any

from coterie.cli.output import Column

COLUMNS = [
    Column("MACHINE", "machine", 14),
    Column("UNOWNED s", "unowned", 10, number=True),
    Column("%", "unavailability", 6, number=True),
    Column("TWICE s", "double", 8, number=True),
    Column("MOVES", "moves", 6, number=True),
    Column("NEEDLESS", "needless", 9, number=True),
    Column("SETTLED s", "settle_s", 10, number=True),
    Column("GENERATIONS", "generations", 12, number=True),
    Column("GAVE UP", "give_ups", 8, number=True),
    Column("DUPLICATES", "duplicates", 11, number=True),
    Column("REQUESTS", "requests", 9, number=True),
]


def row_texts(machine: str, metrics: dict[str, float | None]) -> dict[str, Any]:
    """Return the texts of a line."""
    row: dict[str, Any] = {"machine": machine}
    for name, value in metrics.items():
        if value is None:
            row[name] = "never" if name == "settle_s" else "-"
        elif name == "unavailability":
            row[name] = f"{value * 100:.2f}"
        elif name in ("unowned", "double", "settle_s"):
            row[name] = f"{value:,.1f}"
        else:
            row[name] = f"{value:,.0f}"
    return row
