"""What the consumers of other eras did lies in what the model says, or within a tenth of it."""

import pytest

from coterie.lab.measured_eras import ERA_CELLS, EraCell


@pytest.mark.parametrize("cell", ERA_CELLS, ids=lambda cell: f"{cell.machine} {cell.name}")
def test_cell_is_in_the_range_of_the_model(cell: EraCell) -> None:
    found = cell.simulated()
    for measured in cell.measured:
        assert 0.9 * found[0] <= measured <= 1.1 * found[-1], found
