"""What real clients did lies in the model's range, for a beat phase that is named."""

import pytest

from coterie.lab.measured import LARGE_CELLS, SMALL_CELLS, MeasuredCell

# Cells are given with one decimal.
_ROUNDING = 0.1


@pytest.mark.parametrize("cell", [*SMALL_CELLS, *LARGE_CELLS], ids=str)
def test_cell_is_in_the_range_of_the_model(cell: MeasuredCell) -> None:
    found = cell.simulated(cell.runs)
    low, high = found[cell.runs // 20], found[-1 - cell.runs // 20]
    for measured in cell.measured:
        assert low - _ROUNDING <= measured <= high + _ROUNDING, (low, high)
