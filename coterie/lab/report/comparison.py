"""The model beside what real clients did: a range and one dot for each run."""

from functools import cache
from html import escape

from coterie.lab.measured import SMALL_CELLS
from coterie.lab.measured_eras import ERA_CELLS

_SEEDS = 12
_WIDTH, _ROW, _LEFT = 460, 22, 195
_DO = {"join": "one joins", "leave": "one leaves", "crash": "kill -9", "pause": "pause of 15 s"}


@cache
def comparison() -> str:
    """Return the drawing; the simulation takes some seconds."""
    most = 45.0
    parts = []
    for line, cell in enumerate(SMALL_CELLS):
        found = cell.simulated(_SEEDS)
        middle = line * _ROW + _ROW / 2

        def x(value: float) -> float:
            return _LEFT + value / most * (_WIDTH - _LEFT - 10)

        label = f"{cell.machine}, {_DO[cell.do]}"
        if not cell.commits_on_close:
            label += ", no commit"
        dots = "".join(
            f'<circle cx="{x(value):.1f}" cy="{middle}" r="4"><title>{value}</title></circle>'
            for value in cell.measured
        )
        parts.append(
            f'<text x="{_LEFT - 6}" y="{middle + 4}" text-anchor="end">{escape(label)}</text>'
            f'<path class="range" d="M{x(found[0]):.1f} {middle}H{x(found[-1]):.1f}"/>{dots}'
        )
    height = len(SMALL_CELLS) * _ROW
    return (
        "<p>Four real members of librdkafka 2.16.1 with twelve partitions, on Coterie and on Kafka"
        " 4.3.1 (dots, measured), and the range of the model (bars, simulated) in"
        f" partition-seconds, from 0 to {most:g}. The heartbeat phase of each bar is chosen: young"
        " groups beat together.</p>"
        f'<svg class="cells" viewBox="0 0 {_WIDTH} {height}" role="img">{"".join(parts)}</svg>'
        f"{_eras()}"
    )


def _eras() -> str:
    """Return the table of the consumers of other eras."""
    rows = []
    for cell in ERA_CELLS:
        found = cell.simulated()
        measured = ", ".join(f"{value:,g}" for value in cell.measured)
        rows.append(
            f"<tr><td>{escape(cell.machine)}</td><td>{escape(cell.name)}</td><td>{measured}</td>"
            f"<td>{found[0]:,.4g} to {found[-1]:,.4g}</td></tr>"
        )
    return (
        "<p>Real consumers of Kafka 0.8.2.2, and of RocketMQ 5.4.0; each value is one run, on two"
        " cores that were busy with other work.</p><table><tr><th>machine</th><th>what</th>"
        f"<th>measured</th><th>simulated</th></tr>{''.join(rows)}</table>"
    )
