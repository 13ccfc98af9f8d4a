"""A verb: a change that a console can make, as data."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from coterie.client.cluster import Cluster
from coterie.console.changes.plan import Plan, Row
from coterie.console.routes import Parameter


class Verb(NamedTuple):
    """A change that a console can make.

    Attributes:
        name: as in the address.
        about: what it does, in a sentence.
        parameters: the fields that describe the change.
        plan: makes the plan of a change that the fields describe.
        carry_out: carries out a plan; returns a row for each target, with an `error` or None.
    """

    name: str
    about: str
    parameters: tuple[Parameter, ...]
    plan: Callable[[Cluster, Mapping[str, Any]], Plan]
    carry_out: Callable[[Cluster, Plan], list[Row]]
