"""The table of sampled tests names tests that exist, and each of them still runs some cases."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.sampling import EXTENDED_ONLY, ONE_IN, left_out

ROOT = Path(__file__).parents[2]
SAMPLED = "crash/test_crashes.py::test_crashes_of_a_scenario"


class Named:
    """What a collected test is asked for."""

    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid


def names_left_out(*names: str) -> set[str]:
    items: list[Any] = [Named(name) for name in names]
    return {item.nodeid for item in left_out(items)}


@pytest.mark.parametrize("test", [*ONE_IN, *EXTENDED_ONLY])
def test_a_sampled_test_exists(test: str) -> None:
    path, _, name = test.partition("::")
    assert re.search(rf"^(async )?def {name}\(", (ROOT / "tests" / path).read_text(), re.MULTILINE)
    assert ONE_IN.get(test, 2) > 1


def test_one_in_so_many_cases_runs() -> None:
    assert ONE_IN[SAMPLED] == 5
    names = [f"tests/{SAMPLED}[{case}]" for case in "gabfcde"]
    assert names_left_out("tests/unit/test_other.py::test_other[a]", *names) == {
        f"tests/{SAMPLED}[{case}]" for case in "bcdeg"
    }


def test_few_selected_cases_all_run() -> None:
    assert names_left_out(*(f"tests/{SAMPLED}[{case}]" for case in "ab")) == set()


def test_repetitions_with_spark_are_left_out() -> None:
    name = f"tests/{EXTENDED_ONLY[0]}@spark"
    assert names_left_out(name, "tests/pipeline/test_engines.py::test_other@spark") == {name}
