"""The page: totals, findings, the groups by what their rebalances cost, and a section a group.

The order is that of a reader's questions: is anything wrong, in which group, when, who caused it,
what did it cost, and can the records be trusted. The HTML is in `templates`; this module selects,
sorts and cuts the rows. The page loads nothing from elsewhere.
"""

import functools
import os
import tempfile
from typing import Any

import jinja2

from coterie.pipeline.report import words
from coterie.pipeline.report.content import Content, Listing, Row
from coterie.pipeline.report.group import anchor, group_section, members_changed

DEFAULT_TITLE = "Rebalances"
# The page draws this many groups; the table above them lists all.
MAX_DRAWN_GROUPS = 60
MAX_FINDINGS = 200
MAX_SEGMENTS = 200
# Severities with a style of their own, the most severe first; others follow.
_SEVERITIES = ("critical", "warning")


def render(content: Content, title: str = DEFAULT_TITLE) -> str:
    """Return the whole page as HTML."""
    span_ms = content.span_ms()
    drawn = content.groups if span_ms is not None else []
    sections = [
        group_section(group, group.span_ms or span_ms)
        for group in drawn[:MAX_DRAWN_GROUPS]
        if span_ms is not None
    ]
    page: str = (
        _environment()
        .get_template("page.html")
        .render(
            title=title,
            inputs=content.inputs,
            span_ms=span_ms,
            figures=_figures(content),
            severities=_SEVERITIES,
            findings=_findings(content),
            groups=content.groups,
            sections=Listing(sections, len(drawn)),
            health=_health(content),
        )
    )
    return page


def write_page(path: str, text: str) -> None:
    """Replace the file at `path` in one step: a reader sees the old page or the whole new one.

    Raises:
        OSError: the page cannot be written there.
    """
    directory = os.path.dirname(os.path.abspath(path))
    descriptor, new = tempfile.mkstemp(prefix=".report-", suffix=".html", dir=directory)
    try:
        with open(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        # mkstemp creates a file that only its owner can read. The page gets the permissions that
        # any program would give it.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(new, 0o666 & ~mask)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("coterie.pipeline.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_as_text,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        each.__name__: each
        for each in (
            anchor, members_changed, words.cut, words.duration, words.grouped, words.hint,
            words.known, words.moment, words.printable, words.took,
        )
    }  # fmt: skip
    return environment


def _as_text(value: Any) -> Any:
    """Prepare every value that a template writes: None is empty, and all characters are visible."""
    if value is None:
        return ""
    # What a macro or `safe` returned is a subclass of str, and HTML already.
    return words.printable(value) if type(value) is str else value


def _figures(content: Content) -> list[tuple[int | str, str]]:
    rebalances = [row for group in content.groups for row in group.rebalances]
    is_known = any(group.is_unowned_known for group in content.groups)
    unowned_ms = sum(group.unowned_ms for group in content.groups)
    return [
        (len(content.groups), "groups"),
        (len(rebalances), "rebalances"),
        (sum(row["evidence"] == "journal" for row in rebalances), "recorded in the journal"),
        (
            words.duration(unowned_ms) if is_known or not rebalances else words.UNKNOWN,
            "time without owner",
        ),
        (sum(group.moved for group in content.groups), "partitions moved"),
        (sum(group.excess_moved for group in content.groups), "moved without need"),
        (content.quarantined, "damaged places skipped"),
    ]


def _findings(content: Content) -> Listing:
    ranks = {severity: rank for rank, severity in enumerate(_SEVERITIES)}

    def order(row: Row) -> tuple[int, int]:
        return ranks.get(row["severity"], len(ranks)), -(row["window_start_ts"] or 0)

    rows = sorted((row for group in content.groups for row in group.tables["anomalies"]), key=order)
    return Listing(rows[:MAX_FINDINGS], len(rows))


def _health(content: Content) -> Listing:
    rows = sorted(
        content.health, key=lambda row: (-(row["quarantined"] or 0), -(row["bytes"] or 0))
    )
    return Listing(rows[:MAX_SEGMENTS], len(rows))
