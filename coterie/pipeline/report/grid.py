"""Tables of the page, as HTML."""

from collections.abc import Iterable, Sequence
from html import escape


def table(
    caption: str,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    groups: Sequence[str] | None = None,
) -> str:
    """A table.

    Args:
        caption: what it is, for those who hear the page.
        heads: one a column; with `#` in front: numbers, to the right.
        rows: of cells that are HTML already.
        groups: for each row the group that it is about, so that the search finds it.
    """
    css = ["n" if head.startswith("#") else "" for head in heads]
    top = "".join(
        f"<th scope='col'{_class(kind)}>{escape(head.lstrip('#'))}</th>"
        for head, kind in zip(heads, css, strict=True)
    )
    lines = []
    for number, row in enumerate(rows):
        cells = "".join(
            f"<td{_class(kind)}>{cell}</td>" for cell, kind in zip(row, css, strict=True)
        )
        mark = "" if groups is None else f" data-group='{escape(groups[number], quote=True)}'"
        lines.append(f"<tr{mark}>{cells}</tr>")
    body = "\n".join(lines)
    # It scrolls, so it must be reachable by keyboard.
    label = escape(caption, quote=True)
    return (
        f"<div class='scroll' role='region' tabindex='0' aria-label='{label}'>"
        f"<table><caption>{escape(caption)}</caption><thead><tr>{top}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def more(there: int, shown: int, what: str) -> str:
    """A sentence about what is left out, if anything is."""
    if there <= shown:
        return ""
    return f"<p class='note'>{there - shown:,} more {escape(what)} are not shown.</p>"


def _class(kind: str) -> str:
    return f" class='{kind}'" if kind else ""
