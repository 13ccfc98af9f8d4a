"""Tables for people, JSON for programs, from the same rows.

A row is a dictionary with stable keys: `--json` prints it as it is, a table shows some of its keys
as columns laid out like those of Kafka's own tools. Results go to standard output and everything
else to standard error. Colours appear on a terminal only; NO_COLOR and FORCE_COLOR are obeyed
(https://no-color.org).
"""

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])
Row = dict[str, Any]

NOTHING = "-"

_STATE_STYLES = {
    "Stable": "green",
    "Empty": "dim",
    "Dead": "red",
    "PreparingRebalance": "yellow",
    "CompletingRebalance": "yellow",
    "Assigning": "yellow",
    "Reconciling": "yellow",
}


def plain(value: Any) -> str:
    """A value as a cell: Kafka's dash for nothing."""
    return NOTHING if value is None or value == "" else printable(str(value))


def printable(text: str) -> str:
    """Text with escapes for what is not printable: any client may put terminal codes into its
    names.
    """
    return (
        text
        if text.isprintable()
        else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    )


def unstyled(_: Any) -> str:
    """No colour."""
    return ""


def by_state(value: Any) -> str:
    """The colour of a group's state."""
    return _STATE_STYLES.get(str(value), "")


def by_lag(value: Any) -> str:
    """The colour of a lag: what is behind stands out."""
    return "yellow" if value else ""


class Column(NamedTuple):
    """A column of a table.

    `width` is the least width, as in Kafka's tools; `text` makes a cell of the row's value, `style`
    a rich style.
    """

    title: str
    key: str
    width: int = 15
    text: Callable[[Any], str] = plain
    style: Callable[[Any], str] = unstyled


def assignment_text(assignment: Any) -> str:
    """An assignment in Kafka's short form: topic:0,1;other:2."""
    if not assignment:
        return NOTHING
    return ";".join(
        f"{printable(topic)}:{','.join(map(str, partitions))}"
        for topic, partitions in sorted(assignment.items())
    )


def print_table(columns: Sequence[Column], rows: Iterable[Row]) -> None:
    """Print a header and the rows, each column as wide as its widest cell."""
    rows = list(rows)
    cells = [[column.text(row.get(column.key)) for column in columns] for row in rows]
    widths = [
        max(column.width, len(column.title), *(len(line[n]) for line in cells), 0)
        for n, column in enumerate(columns)
    ]
    styles = [[column.style(row.get(column.key)) for column in columns] for row in rows]
    print_line([column.title for column in columns], widths, ["bold"] * len(columns))
    for line, line_styles in zip(cells, styles, strict=True):
        print_line(line, widths, line_styles)


def print_line(cells: Sequence[str], widths: Sequence[int], styles: Sequence[str]) -> None:
    """Print cells padded to their widths, with one space between them and none at the end."""
    padded = [cell.ljust(width) for cell, width in zip(cells, widths, strict=True)]
    padded[-1] = cells[-1]
    if not in_colour():
        click.echo(" ".join(padded).rstrip())
        return
    print_styled(
        part
        for n, (text, style) in enumerate(zip(padded, styles, strict=True))
        for part in ((" ", "") if n else ("", ""), (text, style))
    )


def print_styled(parts: Iterable[tuple[str, str]]) -> None:
    """Print one line of (text, rich style) parts; without colours where those do not belong."""
    if not in_colour():
        click.echo("".join(text for text, _ in parts).rstrip())
        return
    # Imported only for a terminal: a tenth of a second that no pipe has to wait for.
    from rich.console import Console
    from rich.text import Text

    console = Console(file=sys.stdout, force_terminal=True, highlight=False, soft_wrap=True)
    console.print(Text.assemble(*parts), soft_wrap=True)


def in_colour() -> bool:
    """Whether standard output takes colours."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def print_json(value: Any) -> None:
    """Print a value as indented JSON."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def note(text: str) -> None:
    """Tell the person something that is no result: a line on standard error."""
    click.echo(text, err=True)


def json_option(function: F) -> F:
    """Add --json to a command, as the argument `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.")(
        function
    )
