"""What commands print: tables for people, JSON for programs, both from the same rows.

A row is a dictionary with stable keys. `--json` prints it as it is; a table shows some of its keys
as columns, under the titles that Kafka's own tools use. Results go to standard output, remarks and
errors to standard error.

On a terminal a table is fitted to the terminal's width: titles are short and columns without values
are left out [terminal/layout]. In a pipe or a file, and where a command says so, it has at least
the column widths of Kafka's tools and is never wrapped or cut, because scripts read it. Colours
appear on a terminal only; NO_COLOR and FORCE_COLOR are obeyed (https://no-color.org).
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from shutil import get_terminal_size
from typing import Any, NamedTuple

import click

from coterie.client import names
from coterie.client.names import counted

Row = dict[str, Any]
# A line as parts of text, each with its style.
Line = Sequence[tuple[str, str]]

# What a cell without a value shows, as in Kafka's tools.
NOTHING = "-"

# Wider than any table: rich must not wrap a line that goes into a pipe.
_PIPE_WIDTH = 1 << 30

# A word with the spaces before it.
_WORD = re.compile(r"\s*\S+|\s+$")

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_UNIT_STEP = 1024
_STATE_STYLES = {
    "Stable": "green",
    "Empty": "dim",
    "Dead": "red",
    "PreparingRebalance": "yellow",
    "CompletingRebalance": "yellow",
    "Assigning": "yellow",
    "Reconciling": "yellow",
    "NotReady": "yellow",
}


printable = names.printable


def cell_text(value: Any) -> str:
    """Return a value as the text of a cell."""
    return NOTHING if value is None or value == "" else printable(str(value))


def bytes_text(size_bytes: int | None) -> str:
    """Return a size for people, such as 1.5 MiB."""
    if size_bytes is None:
        return NOTHING
    size, unit = float(size_bytes), 0
    while size >= _UNIT_STEP and unit < len(_UNITS) - 1:
        size, unit = size / _UNIT_STEP, unit + 1
    return f"{size_bytes} B" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def assignment_text(assignment: Any) -> str:
    """Return an assignment in Kafka's short form: topic:0,1;other:2."""
    if not assignment:
        return NOTHING
    return ";".join(
        f"{printable(topic)}:{','.join(map(str, partitions))}"
        for topic, partitions in sorted(assignment.items())
    )


def print_checks(checks: Sequence[Row], *, as_json: bool) -> None:
    """Print what checks there are: of each its name, what it says, and where its rule is from."""
    if as_json:
        click.echo(json.dumps({"checks": checks}, indent=2))
        return
    for check in checks:
        click.echo(f"{check['name']}\n    {check['sentence']}\n    {check['source']}")
    click.echo(counted(len(checks), "check"), err=True)


def no_style(_: Any) -> str:
    """Return the style of a cell without colour."""
    return ""


def state_style(value: Any) -> str:
    """Return the style of a group's state."""
    return _STATE_STYLES.get(str(value), "")


def lag_style(value: Any) -> str:
    """Return the style of a lag: a partition that is behind is highlighted."""
    return "yellow" if value else ""


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        title: the heading.
        key: the key of the rows that the column shows.
        width: the least width in a pipe, in characters.
        text: makes the text of a cell from the row's value.
        style: makes the style of a cell from the row's value.
        short: the heading on a terminal, if it is another one.
        number: whether the cells are aligned to the right on a terminal.
    """

    title: str
    key: str
    width: int = 15
    text: Callable[[Any], str] = cell_text
    style: Callable[[Any], str] = no_style
    short: str = ""
    number: bool = False


def is_for_people() -> bool:
    """Return whether standard output is a terminal."""
    return sys.stdout.isatty()


def print_table(
    columns: Sequence[Column], rows: Iterable[Row], *, fitted: bool | None = None
) -> None:
    """Print a heading and the rows.

    Args:
        columns: the columns.
        rows: the rows, each with at least the keys of the columns.
        fitted: whether to fit the table to the terminal; by default if there is one.
    """
    # Imported here because rich takes a tenth of a second, which commands without a table save.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    fitted = is_for_people() if fitted is None else fitted and is_for_people()
    colour = in_colour()
    rows = list(rows)
    if fitted:
        columns = _with_values(columns, rows)
    table = Table(box=None, padding=(0, 2 if fitted else 1, 0, 0), pad_edge=False)
    for column in columns:
        if fitted:
            table.add_column(
                Text(column.short or column.title),
                overflow="fold",
                justify="right" if column.number else "left",
                no_wrap=column.number,
            )
        else:
            table.add_column(Text(column.title), min_width=column.width, no_wrap=True)
    for row in rows:
        values = [row.get(column.key) for column in columns]
        table.add_row(
            *(
                Text(column.text(value), style=column.style(value))
                for column, value in zip(columns, values, strict=True)
            )
        )
    console = Console(
        width=None if fitted else _PIPE_WIDTH,
        force_terminal=colour,
        color_system="standard" if colour else None,
    )
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        click.echo(line.rstrip(), color=colour)


def _with_values(columns: Sequence[Column], rows: Sequence[Row]) -> list[Column]:
    """Return the columns that have a value in any row; without rows, all of them."""
    return [
        column
        for column in columns
        if not rows or any(column.text(row.get(column.key)) != NOTHING for row in rows)
    ]


def print_line(line: Line) -> None:
    """Print one line, in colour where colours are used."""
    colour = in_colour()
    text = "".join(styled(part, style) if colour else part for part, style in line)
    click.echo(text.rstrip(), color=colour)


def print_folded(line: Line, indent: int) -> None:
    """Print a line; on a terminal it is folded at the terminal's width."""
    columns = get_terminal_size().columns if is_for_people() else 0
    for part in folded(line, columns, indent) if columns else (line,):
        print_line(part)


def folded(line: Line, width: int, indent: int) -> list[Line]:
    """Fold a line at spaces into lines of at most `width` characters.

    Args:
        line: the line.
        width: the width of the terminal.
        indent: the spaces before each line but the first.
    """
    lines: list[list[tuple[str, str]]] = [[]]
    used = 0
    for text, style in line:
        for word in _WORD.findall(text):
            if used + len(word) > width and used > indent:
                lines.append([(" " * indent, "")])
                used = indent
                word = word.lstrip()
            # A word that is longer than a line is broken.
            while used + len(word) > width:
                lines[-1].append((word[: width - used], style))
                word = word[width - used :]
                lines.append([(" " * indent, "")])
                used = indent
            lines[-1].append((word, style))
            used += len(word)
    return list(lines)


def styled(text: str, style: str) -> str:
    """Return text with the control sequences of a style: "bold", "dim" or the name of a colour."""
    if not style:
        return text
    if style in ("bold", "dim"):
        return click.style(text, bold=style == "bold" or None, dim=style == "dim" or None)
    return click.style(text, fg=style)


def in_colour() -> bool:
    """Return whether standard output takes colours."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def print_json(value: Any, *, one_line: bool = False) -> None:
    """Print a value as JSON, indented or on one line."""
    click.echo(json.dumps(value, indent=None if one_line else 2, ensure_ascii=False))


def print_rows(columns: Sequence[Column], rows: Sequence[Row], *, as_json: bool) -> None:
    """Print rows as JSON or as a table."""
    if as_json:
        print_json(rows)
    else:
        print_table(columns, rows)


def note(text: str) -> None:
    """Print a remark, which is not part of the result, to standard error."""
    click.echo(text, err=True)


@contextmanager
def byte_progress(title: str, total_bytes: int, *, shown: bool) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error with the bytes done, the speed and the time left.

    Args:
        title: the text before the bar.
        total_bytes: the number of bytes of the whole work.
        shown: False for no bar; there is none either if standard error is not a terminal.

    Yields:
        A function to call with the number of bytes done since the last call.
    """
    if not shown or not sys.stderr.isatty():
        yield lambda _: None
        return
    # Imported here for the same reason as in `print_table`.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total_bytes)
        yield lambda count: bar.advance(task, count)
