"""What real clients did lies in the model's range, for a beat phase that is named.

What the consumers of other eras did lies in what the model says, or within a tenth of it.
"""

import pytest

from coterie.lab.measured import LARGE_CELLS, SMALL_CELLS, MeasuredCell
from coterie.lab.measured_eras import ERA_CELLS, EraCell

# Cells are given with one decimal.
_ROUNDING = 0.1


@pytest.mark.parametrize("cell", [*SMALL_CELLS, *LARGE_CELLS], ids=str)
def test_cell_is_in_the_range_of_the_model(cell: MeasuredCell) -> None:
    found = cell.simulated(cell.runs)
    low, high = found[cell.runs // 20], found[-1 - cell.runs // 20]
    for measured in cell.measured:
        assert low - _ROUNDING <= measured <= high + _ROUNDING, (low, high)


@pytest.mark.parametrize("cell", ERA_CELLS, ids=lambda cell: f"{cell.machine} {cell.name}")
def test_cell_of_another_era_is_in_the_range_of_the_model(cell: EraCell) -> None:
    found = cell.simulated()
    for measured in cell.measured:
        assert 0.9 * found[0] <= measured <= 1.1 * found[-1], found
