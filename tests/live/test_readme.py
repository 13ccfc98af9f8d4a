"""The Python examples of the README work as they are written, but for the port."""

from pathlib import Path
from typing import Any

import pytest

from coterie.testing import Broker as InProcessBroker
from release.trial import PYTHON_EXAMPLE, readme_example
from tests.live.broker_process import Broker

README = Path(__file__).resolve().parents[2] / "README.md"


def test_python_example_produces_and_consumes(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, object] = {}
    exec(readme_example(broker.bootstrap), names)
    assert capsys.readouterr().out == "b'one espresso'\n"
    consumer = names["orders"]
    consumer.close()  # type: ignore[attr-defined]


def test_example_of_a_test_passes() -> None:
    _, example = PYTHON_EXAMPLE.findall(README.read_text(encoding="utf-8"))
    names: dict[str, Any] = {}
    exec(example, names)
    with InProcessBroker() as kafka:
        names["test_consumer_survives_a_coordinator_that_loads"](kafka)
