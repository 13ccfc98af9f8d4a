"""The table of operations has every verb of `coterie.testing`."""

import inspect
from pathlib import Path
from typing import Any

import pytest

from coterie.control.broker_operations import BROKER
from coterie.control.cluster_operations import CLUSTER
from coterie.control.docstrings import names_in, summary_of
from coterie.control.link import all_operations
from coterie.control.operations import Table
from coterie.testing import Broker, Cluster, Fault, Group, ProcessBroker, ProcessCluster, Requests

ROOT = Path(__file__).parents[3]

# Why a public method has no row.
WITHOUT_ROW = {
    "Broker.start": "the process is the start",
    "Broker.close": "Control.close also ends the process",
    "Broker.console": "its own port; it is in the process of the test",
    "Broker.groups_page": "made in this process; `coterie pipeline report` reads other journals",
    "Broker.clock": "clocks of another process cannot be virtual",
    "Broker.address": "Control.ready",
    "Broker.unique": "the test counts, not the broker",
    "Broker.delete_unique": "made from delete_topic and Group.delete",
    "Broker.virtual_time": "clocks of another process cannot be virtual",
    "Broker.thread": "not data",
    "Broker.server": "not data",
    "Broker.servers": "not data",
    "Broker.client_config": "for Python's libraries; made from bootstrap_servers",
    "Broker.bootstrap_servers": "Control.ready",
    "Broker.requests": "Control.requests",
    "Broker.use_certificate": "the files are those of the test; Broker.reload_certificates",
    "Group.described": "in the report",
    "Group.history_lines": "made from history and moves",
    "Fault.begin": "the broker calls it",
    "Fault.covers": "the broker calls it",
    "Fault.is_met": "the broker calls it",
    "Fault.is_over": "the broker calls it",
    "Fault.is_removed": "in the state of a fault",
    "Fault.why_passed": "in the error of must_have_hit",
    "Requests.add": "the broker calls it",
    "Cluster.console": "its own port; it is in the process of the test",
    "Cluster.groups_page": "made in this process; `coterie pipeline report` reads other journals",
    "Cluster.close": "Control.close also ends the process",
    "Cluster.start": "the process is the start; Control.start is for one broker",
    "Cluster.address": "in Control.state",
    "Cluster.brokers": "in Control.state",
    "Cluster.paused_brokers": "in Control.state",
    "Cluster.bootstrap_servers": "Control.ready",
    "Cluster.client_config": "for Python's libraries; made from bootstrap_servers",
    "Cluster.use_certificate": "the files are those of the test; Cluster.reload_certificates",
    "Cluster.paused": "a block of the test; Cluster.pause and Cluster.resume",
    "Cluster.virtual_time": "clocks of another process cannot be virtual",
    "Cluster.thread": "not data",
    "Cluster.server_cluster": "not data",
    "Cluster.servers": "not data",
    "Cluster.clock": "clocks of another process cannot be virtual",
    "Cluster.unique": "the test counts, not the brokers",
    "Cluster.delete_unique": "made from delete_topic and Group.delete",
    "Cluster.requests": "Control.requests",
}
# Of both ports; those with the same id differ in what they answer.
OPERATIONS = {**all_operations(), **all_operations(CLUSTER)}


def public(cls: type) -> list[str]:
    return [
        f"{cls.__name__}.{name}"
        for name, value in inspect.getmembers(cls)
        if name[0] != "_" and (inspect.isfunction(value) or isinstance(value, property))
    ]


@pytest.mark.parametrize("cls", [Broker, Group, Fault, Requests, Cluster])
def test_every_public_method_has_a_row_or_a_reason(cls: type) -> None:
    missing = [each for each in public(cls) if each not in {*OPERATIONS, *WITHOUT_ROW}]
    assert not missing, "add rows to coterie/control/broker_operations.py, or reasons here"


def test_reasons_are_of_methods_that_exist_and_have_no_row() -> None:
    known = {each for cls in (Broker, Group, Fault, Requests, Cluster) for each in public(cls)}
    assert set(WITHOUT_ROW) <= known
    assert not set(WITHOUT_ROW) & set(OPERATIONS)


@pytest.mark.parametrize("table", [BROKER, CLUSTER], ids=["broker", "cluster"])
def test_operations_are_unique(table: Table) -> None:
    rows = table.rows
    assert len({(row.method, row.path) for row in rows}) == len(rows)
    assert len(all_operations(table)) == len(rows)


def test_what_both_ports_have_takes_the_same() -> None:
    """A client for one broker need not know how many there are."""
    single = {(each.row.method, each.row.path): each for each in all_operations().values()}
    for each in all_operations(CLUSTER).values():
        known = single.get((each.row.method, each.row.path))
        names = [one.name for one in each.all_parameters]
        if known is not None:
            taken = [one.name for one in known.all_parameters]
            # A topic of several brokers also has replicas.
            assert names[: len(taken)] == taken


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=lambda each: each.operation_id)
def test_operation_and_its_parameters_are_described(operation: Any) -> None:
    assert operation.texts[0].endswith(".")
    variables = {each.name for each in operation.all_parameters if each.place == "path"}
    assert variables == set(operation.variables)


@pytest.mark.parametrize(
    ("here", "elsewhere"), [(Broker, ProcessBroker), (Cluster, ProcessCluster)]
)
def test_what_is_in_a_process_has_the_methods_of_what_is_in_a_thread(
    here: type, elsewhere: type
) -> None:
    for name, value in inspect.getmembers(here):
        if name[0] == "_" or not inspect.isfunction(value):
            continue
        wanted = inspect.signature(value).parameters
        assert list(inspect.signature(getattr(elsewhere, name)).parameters) == list(wanted), name
    assert list(inspect.signature(elsewhere).parameters) == list(inspect.signature(here).parameters)
    for own in ("topic", "produce", "advance", "fault", "topics", "groups"):
        assert vars(elsewhere)[own] is not getattr(here, own), f"{own} is a request"


def test_docstring_is_taken_apart() -> None:
    def documented() -> None:
        """Do a thing.

        It takes
        a while.

        Args:
            a: the first,
                in two lines.
            b, c: others.

        Raises:
            d: not an argument.
        """

    assert summary_of(documented) == ("Do a thing.", "It takes a while.")
    assert names_in(documented) == {"a": "the first, in two lines.", "b": "others.", "c": "others."}
