"""The page: totals, what is conspicuous, the groups by what rebalances cost them, their stories.

The order is that of questions: is anything wrong, which group, when, whose doing, what did it cost,
and can the records be trusted. Everything a name can hold is escaped.
"""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from coterie.pipeline.report.charts import commits_chart, lag_chart
from coterie.pipeline.report.content import Content, GroupContent, Row
from coterie.pipeline.report.gantt import gantt, member_colours
from coterie.pipeline.report.style import SCRIPT, STYLE
from coterie.pipeline.report.svg import duration, moment

# Groups that are drawn; the table above them has all.
MAX_DRAWN_GROUPS = 60
# Rows of a group's table of rebalances; the newest ones.
MAX_REBALANCE_ROWS = 400
MAX_INSTIGATORS = 8
MAX_KEYS = 24
MAX_ANOMALIES = 200

_HOW_TO_READ = (
    "<p class='note'>Lines mark rebalances, dashed where only inferred from the group log; rest the"
    " pointer on a line or bar for what it was.</p>"
)


def render(content: Content, title: str = "Rebalances") -> str:
    """The whole page, as HTML."""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1>",
        *_heading(content),
        *_anomalies(content),
        *_group_table(content),
    ]
    span = content.span_ms()
    if span is not None:
        for group in content.groups[:MAX_DRAWN_GROUPS]:
            parts += _group(group, group.span_ms() or span)
    parts += _health(content)
    parts.append(f"<script>{SCRIPT}</script></body></html>")
    return "\n".join(parts) + "\n"


def _heading(content: Content) -> list[str]:
    span = content.span_ms()
    when = "no records" if span is None else f"{moment(span[0])} to {moment(span[1])} UTC"
    rebalances = [row for group in content.groups for row in group.rebalances]
    proven = sum(row["evidence"] == "journal" for row in rebalances)
    excess = sum(group.excess_moved for group in content.groups)
    figures = (
        (len(content.groups), "groups"),
        (len(rebalances), "rebalances"),
        (proven, "told by the journal"),
        (duration(sum(group.unowned_ms for group in content.groups)), "partitions without owner"),
        (sum(group.moved for group in content.groups), "partitions moved"),
        (excess, "of them needlessly"),
        (content.quarantined, "damaged places left out"),
    )
    boxes = "".join(
        f"<div class='figure'><b>{escape(_grouped(value))}</b><span>{escape(words)}</span></div>"
        for value, words in figures
    )
    inputs = ", ".join(content.inputs) or "no input"
    return [
        f"<p class='note'>{escape(inputs)}<br>{escape(when)}</p>",
        f"<div class='figures'>{boxes}</div>",
    ]


def _anomalies(content: Content) -> list[str]:
    rows = [row for group in content.groups for row in group.tables["anomalies"]]
    if not rows:
        return ["<h2>Conspicuous</h2><p class='note'>Nothing was found by the rules.</p>"]
    order = {"critical": 0, "warning": 1}
    rows.sort(key=lambda row: (order.get(row["severity"], 2), -(row["window_start_ts"] or 0)))
    cells = [
        (
            _marked(row["severity"], str(row["severity"])),
            escape(row["rule"]),
            _link(row["group_id"]),
            escape(row["subject"] or ""),
            escape(moment(row["window_start_ts"])),
            escape(row["evidence"] or ""),
        )
        for row in rows[:MAX_ANOMALIES]
    ]
    heads = ("", "what", "group", "whom", "when", "evidence")
    more = _more(len(rows), MAX_ANOMALIES, "findings")
    return ["<h2>Conspicuous</h2>", _table(heads, cells), more]


def _group_table(content: Content) -> list[str]:
    cells = []
    for group in content.groups:
        first = next(iter(group.instigators()), None)
        cells.append(
            (
                _link(group.group_id),
                _grouped(len(group.rebalances)),
                escape(duration(group.unowned_ms)),
                _grouped(group.moved),
                _grouped(group.excess_moved),
                "" if first is None else escape(f"{first[0]} ({first[2]}, {first[1]})"),
            )
        )
    heads = ("group", "#rebalances", "#without owner", "#moved", "#needlessly", "most often by")
    search = "<input id='find' type='search' placeholder='Find a group' aria-label='Find a group'>"
    names = [group.group_id for group in content.groups]
    return ["<h2>Groups</h2>", search, _table(heads, cells, groups=names)]


def _group(group: GroupContent, span_ms: tuple[int, int]) -> list[str]:
    colours = member_colours(group.tables["ownership"])
    keys = "".join(
        f"<span class='key'><i style='background:{colour}'></i>{escape(key)}</span>"
        for key, colour in list(colours.items())[:MAX_KEYS]
    )
    parts = [
        f"<section data-group='{escape(group.group_id, quote=True)}'>",
        f"<h2 id='{_anchor(group.group_id)}'>{escape(group.group_id)}</h2>",
    ]
    if colours:
        parts += [
            gantt(group, span_ms),
            f"<p class='note'>{keys}{_more(len(colours), MAX_KEYS, 'members')}</p>",
            _HOW_TO_READ,
        ]
    parts.append(
        f"<div class='charts'>{lag_chart(group, span_ms)}{commits_chart(group, span_ms)}</div>"
    )
    if group.rebalances:
        parts += [*_instigators(group), *_rebalances(group)]
    return [*parts, "</section>"]


def _instigators(group: GroupContent) -> list[str]:
    ranked = group.instigators()
    cells = [
        (escape(key), escape(cause), _grouped(count), escape(duration(unowned_ms)))
        for key, cause, count, unowned_ms in ranked[:MAX_INSTIGATORS]
    ]
    heads = ("member", "mostly by", "#rebalances", "#without owner")
    more = _more(len(ranked), MAX_INSTIGATORS, "members")
    return ["<h3>Whose doing</h3>", _table(heads, cells), more]


def _rebalances(group: GroupContent) -> list[str]:
    cells = []
    for row in reversed(group.rebalances[-MAX_REBALANCE_ROWS:]):
        by = row["trigger_member_key"] or ""
        reason = f": {row['trigger_reason']}" if row["trigger_reason"] else ""
        cells.append(
            (
                escape(moment(row["started_ts"] or row["completed_ts"])),
                escape(f"{_or(row['from_generation'])} → {_or(row['to_generation'])}"),
                escape(f"{row['trigger']}{reason}"),
                escape(by),
                escape(duration(row["duration_ms"])),
                escape(duration(row["join_ms"])),
                escape(duration(row["sync_ms"])),
                escape(duration(row["unowned_partition_ms"])),
                escape(_changes(row)),
                f"{row['moved']} ({_or(row['moved_min'])})",
                escape(row["evidence"]),
            )
        )
    heads = (
        "when",
        "generation",
        "why",
        "who",
        "#took",
        "#join",
        "#sync",
        "#without owner",
        "members",
        "#moved (needed)",
        "known from",
    )
    more = _more(len(group.rebalances), MAX_REBALANCE_ROWS, "rebalances, older")
    return ["<h3>Rebalances</h3>", _table(heads, cells), more]


def _changes(row: Row) -> str:
    parts = [
        f"{sign}{len(row[name])}"
        for sign, name in (("+", "joined"), ("-", "left"), ("=", "replaced"))
        if row[name]
    ]
    return " ".join([str(row["members"]), *([f"({' '.join(parts)})"] if parts else [])])


def _health(content: Content) -> list[str]:
    if not content.health:
        return []
    cells = [
        (
            escape(f"{row['input']} {row['log_partition']}"),
            _grouped(row["segment_base"]),
            _grouped(row["records"]),
            _grouped(row["keys"]),
            f"{row['duplicate_ratio']:.0%}" if row["duplicate_ratio"] is not None else "",
            _grouped(row["tombstones"]),
            _grouped(row["horizon_batches"]),
            _marked("critical" if row["quarantined"] else "", _grouped(row["quarantined"])),
        )
        for row in content.health
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
    )
    return ["<h2>The log itself</h2>", _table(heads, cells)]


def _table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], groups: Sequence[str] | None = None
) -> str:
    """A table of cells that are HTML already; `#` before a heading: numbers, to the right."""
    right = [head.startswith("#") for head in heads]
    top = "".join(
        f"<th class='n'>{escape(head[1:])}</th>"
        if head.startswith("#")
        else f"<th>{escape(head)}</th>"
        for head in heads
    )
    lines = []
    for number, row in enumerate(rows):
        cells = "".join(
            f"<td class='n'>{cell}</td>" if numeric else f"<td>{cell}</td>"
            for cell, numeric in zip(row, right, strict=True)
        )
        mark = "" if groups is None else f" data-group='{escape(groups[number], quote=True)}'"
        lines.append(f"<tr{mark}>{cells}</tr>")
    body = "\n".join(lines)
    head = f"<thead><tr>{top}</tr></thead>"
    return f"<div class='scroll'><table>{head}<tbody>{body}</tbody></table></div>"


def _more(there: int, shown: int, what: str) -> str:
    return (
        f"<p class='note'>{there - shown} more {what} are not shown.</p>" if there > shown else ""
    )


def _marked(css: str, words: str) -> str:
    return f"<span class='{css}'>{escape(words)}</span>" if css else escape(words)


def _link(group_id: str) -> str:
    return f"<a href='#{_anchor(group_id)}'>{escape(group_id)}</a>"


def _anchor(group_id: str) -> str:
    """A group's place on the page; any id becomes a safe name."""
    return "group-" + group_id.encode().hex()


def _grouped(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _or(value: Any) -> str:
    return "?" if value is None else str(value)
