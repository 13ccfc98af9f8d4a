"""The Python example of the README works as it is written, but for the port."""

import re
from pathlib import Path

import pytest

from tests.live.broker_process import Broker

README = Path(__file__).resolve().parents[2] / "README.md"
EXAMPLE = re.compile(r"```python\n(.*?)```", re.DOTALL)


def test_python_example_produces_and_consumes(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    (example,) = EXAMPLE.findall(README.read_text(encoding="utf-8"))
    assert "127.0.0.1:9092" in example
    names: dict[str, object] = {}
    exec(example.replace("127.0.0.1:9092", broker.bootstrap), names)
    assert capsys.readouterr().out == "b'one espresso'\n"
    consumer = names["orders"]
    consumer.close()  # type: ignore[attr-defined]
