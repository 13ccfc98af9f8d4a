"""The page: totals, what is conspicuous, the groups by what rebalances cost them, their stories.

The order is that of questions: is anything wrong, which group, when, whose doing, what did it cost,
and can the records be trusted. Nothing is loaded from elsewhere.
"""

import os
import tempfile

from coterie.pipeline.report.content import Content
from coterie.pipeline.report.grid import more, table
from coterie.pipeline.report.group import group_section, link
from coterie.pipeline.report.style import SCRIPT, STYLE
from coterie.pipeline.report.svg import duration, moment
from coterie.pipeline.report.words import UNKNOWN, cut, grouped, name, plain

DEFAULT_TITLE = "Rebalances"
# Groups that are drawn; the table above them has all.
MAX_DRAWN_GROUPS = 60
MAX_ANOMALIES = 200
MAX_SEGMENTS = 200
# The worst first; others behind them.
_SEVERITIES = ("critical", "warning")
# The browser itself sees to it that nothing is loaded from elsewhere.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def render(content: Content, title: str = DEFAULT_TITLE) -> str:
    """The whole page, as HTML."""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        f"<title>{plain(title)}</title><style>{STYLE}</style></head><body>",
        f"<header><h1>{plain(title)}</h1>",
        *_heading(content),
        "</header><main>",
        *_anomalies(content),
        *_group_table(content),
    ]
    span = content.span_ms()
    if span is not None:
        for group in content.groups[:MAX_DRAWN_GROUPS]:
            parts += group_section(group, group.span_ms or span)
        parts.append(more(len(content.groups), MAX_DRAWN_GROUPS, "groups"))
    parts += _health(content)
    parts.append(f"</main><script>{SCRIPT}</script></body></html>")
    return "\n".join(parts) + "\n"


def write_page(path: str, text: str) -> None:
    """Put a page in its place at once: who looks sees the old one or the whole new one.

    Raises:
        OSError: it can't be written there.
    """
    directory = os.path.dirname(os.path.abspath(path))
    descriptor, new = tempfile.mkstemp(prefix=".report-", suffix=".html", dir=directory)
    try:
        with open(descriptor, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        # As any program would create it: mkstemp lets nobody else read.
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(new, 0o666 & ~mask)
        os.replace(new, path)
    except BaseException:
        os.unlink(new)
        raise


def _heading(content: Content) -> list[str]:
    span = content.span_ms()
    when = "no records" if span is None else f"{moment(span[0])} to {moment(span[1])} UTC"
    rebalances = [row for group in content.groups for row in group.rebalances]
    proven = sum(row["evidence"] == "journal" for row in rebalances)
    is_known = any(group.is_unowned_known for group in content.groups)
    unowned = sum(group.unowned_ms for group in content.groups)
    figures = (
        (len(content.groups), "groups"),
        (len(rebalances), "rebalances"),
        (proven, "told by the journal"),
        (duration(unowned) if is_known or not rebalances else UNKNOWN, "partitions without owner"),
        (sum(group.moved for group in content.groups), "partitions moved"),
        (sum(group.excess_moved for group in content.groups), "of them needlessly"),
        (content.quarantined, "damaged places left out"),
    )
    boxes = "".join(
        f"<div class='figure'><dd>{grouped(value)}</dd><dt>{words}</dt></div>"
        for value, words in figures
    )
    inputs = ", ".join(name(each, 120) for each in content.inputs) or "no input"
    return [f"<p class='note'>{inputs}<br>{when}</p>", f"<dl class='figures'>{boxes}</dl>"]


def _anomalies(content: Content) -> list[str]:
    rows = [row for group in content.groups for row in group.tables["anomalies"]]
    if not rows:
        return ["<h2>Conspicuous</h2><p class='note'>Nothing was found by the rules.</p>"]
    ranks = {severity: rank for rank, severity in enumerate(_SEVERITIES)}
    rows.sort(
        key=lambda row: (ranks.get(row["severity"], len(ranks)), -(row["window_start_ts"] or 0))
    )
    cells = [
        (
            _marked(row["severity"]),
            plain((row["rule"] or "").replace("_", " ")),
            link(row["group_id"]),
            name(row["subject"]),
            moment(row["window_start_ts"]),
            f"<span class='long'>{plain(cut(row['evidence'] or '', 200))}</span>",
        )
        for row in rows[:MAX_ANOMALIES]
    ]
    heads = ("severity", "what", "group", "whom", "when", "evidence")
    return [
        "<h2>Conspicuous</h2>",
        table("What the rules found", heads, cells, [row["group_id"] for row in rows]),
        more(len(rows), MAX_ANOMALIES, "findings"),
    ]


def _group_table(content: Content) -> list[str]:
    cells = []
    for group in content.groups:
        first = next(iter(group.instigators()), None)
        by = "" if first is None else f"{name(first.member_key)} ({first.rebalances:,},"
        cells.append(
            (
                link(group.group_id),
                grouped(len(group.rebalances)),
                duration(group.unowned_ms) if group.is_unowned_known else "?",
                grouped(group.moved),
                grouped(group.excess_moved),
                by and f"{by} {plain(first.cause if first else '')})",
            )
        )
    heads = ("group", "#rebalances", "#without owner", "#moved", "#needlessly", "most often by")
    search = "<input id='find' type='search' placeholder='Find a group' aria-label='Find a group'>"
    ids = [group.group_id for group in content.groups]
    return [
        "<h2>Groups</h2>",
        search,
        table("Groups, by the time their partitions had no owner", heads, cells, groups=ids),
    ]


def _health(content: Content) -> list[str]:
    if not content.health:
        return []
    # What is damaged first, then the largest.
    rows = sorted(
        content.health, key=lambda row: (-(row["quarantined"] or 0), -(row["bytes"] or 0))
    )
    cells = [
        (
            f"{name(row['input'])} {row['log_partition']}",
            str(row["segment_base"]),
            grouped(row["records"]),
            grouped(row["keys"]),
            "?" if row["duplicate_ratio"] is None else f"{row['duplicate_ratio']:.0%}",
            grouped(row["tombstones"]),
            grouped(row["horizon_batches"]),
            _damaged(row["quarantined"]),
            grouped(row["bytes"]),
        )
        for row in rows[:MAX_SEGMENTS]
    ]
    heads = (
        "log",
        "#segment",
        "#records",
        "#keys",
        "#overwritten",
        "#tombstones",
        "#cleaned batches",
        "#damaged",
        "#bytes",
    )
    return [
        "<h2>The log itself</h2>",
        table("Segments of the log, damaged ones first, then by size", heads, cells),
        more(len(rows), MAX_SEGMENTS, "segments"),
    ]


def _damaged(count: int | None) -> str:
    return f"<span class='critical'>{count:,}</span>" if count else "0"


def _marked(severity: str) -> str:
    css = f" class='{severity}'" if severity in _SEVERITIES else ""
    return f"<span{css}>{plain(severity)}</span>"
