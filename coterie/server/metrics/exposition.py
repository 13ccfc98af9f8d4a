"""The text format in which Prometheus reads metrics (version 0.0.4), written.

A family is one metric with all its samples. The format is a page of rules, so it is written here;
the tests have it read by Prometheus' own client library.
"""

from collections.abc import Iterable
from typing import Literal, NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Names and values that tell the samples of a family apart.
Labels = tuple[tuple[str, str], ...]


class Family(NamedTuple):
    """One metric.

    Attributes:
        name: a counter's ends with `_total`.
        kind: a counter only grows, a gauge goes up and down.
        documentation: what it counts; begins with Kafka's name for it where Kafka has it.
        samples: labels and value of each, no two with the same labels.
    """

    name: str
    kind: Literal["counter", "gauge"]
    documentation: str
    samples: list[tuple[Labels, float]]


def gauge(name: str, documentation: str, value: float) -> Family:
    """A gauge of one sample."""
    return Family(name, "gauge", documentation, [((), value)])


def counter(name: str, documentation: str, value: float) -> Family:
    """A counter of one sample."""
    return Family(name, "counter", documentation, [((), value)])


def by_label(
    kind: Literal["counter", "gauge"],
    name: str,
    documentation: str,
    label: str,
    values: Iterable[tuple[str, float]],
) -> Family:
    """A family whose samples differ in one label."""
    samples: list[tuple[Labels, float]] = [(((label, text),), value) for text, value in values]
    return Family(name, kind, documentation, samples)


def render(families: Iterable[Family]) -> bytes:
    """The text of all families, in their order."""
    lines: list[str] = []
    for name, kind, documentation, samples in families:
        text = documentation.replace("\\", "\\\\").replace("\n", "\\n")
        lines += (f"# HELP {name} {text}", f"# TYPE {name} {kind}")
        lines += [f"{name}{_labels(labels)} {_number(value)}" for labels, value in samples]
    return "".join(line + "\n" for line in lines).encode()


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    """A number as Prometheus writes it: no exponent where it is whole."""
    return str(int(value)) if value == int(value) else repr(float(value))
