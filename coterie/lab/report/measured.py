"""Runs of real processes: what the model says about each, and who read what."""

from html import escape
from typing import Any, NamedTuple

from coterie.lab.errors import WrongInput
from coterie.lab.live.beside import Range, simulated_ranges
from coterie.lab.live.cells import live_scenario
from coterie.lab.report.strips import end_of_rows_us, legend, strip
from coterie.lab.summary import cell_of

_SEEDS = 6
_WIDTH, _ROW, _LEFT = 640, 20, 270
_PHASE_LINES = 3

Row = dict[str, Any]


class _Kind(NamedTuple):
    """Runs that differ in the seed only."""

    scenario: str
    client: str
    machine: str
    broker: str
    members: int
    partitions: int
    settings: tuple[tuple[str, str], ...]

    @property
    def label(self) -> str:
        """The name in the drawing."""
        return f"{self.scenario}, {self.client}, {self.machine}, {self.broker}"


def measured_section(rows: list[Row], timelines: list[Row]) -> str:
    """Return the drawing and the strips of measured runs; "" without any."""
    kinds: dict[_Kind, list[Row]] = {}
    for row in rows:
        kinds.setdefault(_kind_of(row), []).append(row)
    if not kinds:
        return ""
    software = sorted({dict(row["settings"]).get("software", "") for row in rows} - {""})
    drawn = {kind: (_ranges(kind), runs) for kind, runs in sorted(kinds.items())}
    return (
        f"<p>{len(rows)} runs of real processes ({escape(', '.join(software))}): each dot is one of"
        " them, and each bar what 90 % of the simulated runs lie between, in partition-seconds"
        " without a reader. The three bars of a line are the heartbeat phases kept, restarted and"
        " drifting. Live runs carry the noise of the machine on which they were made.</p>"
        f"{_drawing(drawn)}{legend()}{_strips(timelines)}"
    )


def _kind_of(row: Row) -> _Kind:
    cell = cell_of(row)
    settings = dict(cell.settings)
    client, broker = settings.pop("client", "?"), settings.pop("broker", "?")
    settings.pop("software", None)
    return _Kind(
        cell.scenario, client, cell.machine, broker, cell.members, cell.partitions,
        tuple(sorted(settings.items())),
    )  # fmt: skip


def _ranges(kind: _Kind) -> list[Range]:
    try:
        scenario = live_scenario(kind.scenario).resized(kind.members, kind.partitions)
        return simulated_ranges(scenario, kind.machine, dict(kind.settings), _SEEDS)
    except WrongInput:
        # A scenario of a file that is not here.
        return []


def _drawing(drawn: dict[_Kind, tuple[list[Range], list[Row]]]) -> str:
    values = [row["unowned"] for _, runs in drawn.values() for row in runs]
    values += [each.high for ranges, _ in drawn.values() for each in ranges]
    most: float = max(1.0, *values) * 1.05
    parts = []

    def x(value: float) -> float:
        return _LEFT + value / most * (_WIDTH - _LEFT - 10)

    for line, (kind, (ranges, runs)) in enumerate(drawn.items()):
        middle = line * _ROW + _ROW / 2
        parts.append(
            f'<text x="{_LEFT - 6}" y="{middle + 4}" text-anchor="end">{escape(kind.label)}</text>'
        )
        for index, each in enumerate(ranges):
            y = middle + (index - 1) * _ROW / (_PHASE_LINES + 1)
            end = max(x(each.high), x(each.low) + 2)
            title = f"{each.phase}: {each.low:.1f} to {each.high:.1f}"
            parts.append(
                f'<path class="range thin" d="M{x(each.low):.1f} {y:g}H{end:.1f}">'
                f"<title>{title}</title></path>"
            )
        parts += [
            f'<circle cx="{x(row["unowned"]):.1f}" cy="{middle}" r="4">'
            f"<title>{row['unowned']:.1f}</title></circle>"
            for row in runs
        ]
    height = len(drawn) * _ROW
    return (
        f'<div class="wide"><svg class="cells" viewBox="0 0 {_WIDTH} {height + 16}" role="img">'
        f"{''.join(parts)}"
        f'<text x="{_LEFT}" y="{height + 13}">0</text>'
        f'<text x="{_WIDTH - 10}" y="{height + 13}" text-anchor="end">{most:.0f}</text></svg></div>'
    )


def _strips(timelines: list[Row]) -> str:
    """Return who read what in the first run of each kind."""
    runs: dict[_Kind, dict[int, list[Row]]] = {}
    for row in timelines:
        runs.setdefault(_kind_of(row), {}).setdefault(row["seed"], []).append(row)
    parts = []
    for kind, by_seed in sorted(runs.items()):
        rows = by_seed[min(by_seed)]
        end_us = end_of_rows_us(rows)
        marks = "".join(f"<span>{end_us * part / 4e6:,.4g} s</span>" for part in range(5))
        parts.append(
            f"<details><summary>{escape(kind.label)} <small>measured</small></summary>"
            f'{strip(rows, end_us)}<div class="axis">{marks}</div></details>'
        )
    return "".join(parts)
