"""The operations of the control port: a table of methods of `coterie.testing`.

A row names an HTTP method, a path and a method of the typed API. Parameters, results and texts are
those of that method, so server, client (`ProcessBroker`) and OpenAPI document agree with it. To add
a verb, add a row. The table of several brokers is in `cluster_operations`.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from coterie.control.control import Control, ProcessControl
from coterie.control.docstrings import names_in, summary_of
from coterie.control.shapes import Shape, Shapes
from coterie.testing.bounds import BOUNDS
from coterie.testing.broker import Broker
from coterie.testing.faults import Fault
from coterie.testing.groups import Group
from coterie.testing.requests import Requests
from coterie.testing.waiting import Waiting

# The longest time that one request waits; a client that wants more asks again.
MAX_WAIT_S = 600.0
WAIT_PARAMETER = "timeout_s"

# Methods of these classes are called for the group or the fault that the path names.
_SUBJECT_IDS: dict[str, tuple[str, type, str]] = {
    "Group": ("group_id", str, "the id of the group."),
    "Fault": ("fault_id", int, "the number of the fault."),
}


# Of the classes of what runs, only those that a table names are public: Broker and Cluster.
_OF_WHAT_RUNS = ("Lifetime", "Views", "Described", "Secured", "RunningCluster")
# The port adds the same to one broker and to several under one name.
_OF_CONTROL = ("Control", "ProcessControl", "ClusterControl")


class Row(NamedTuple):
    """A row of the table.

    Attributes:
        method, path: how it is called over HTTP.
        verb: the method or property that it calls.
        show: turns the result into data; None where it is data already.
        is_open: whether it needs no token.
    """

    method: str
    path: str
    verb: Any
    show: Callable[[Any, Any], Any] | None = None
    is_open: bool = False


ROWS = (
    Row("GET", "/health", Control.health, is_open=True),
    Row("GET", "/ready", Control.ready, is_open=True),
    Row("POST", "/restart", Broker.restart),
    Row("POST", "/kill", Broker.kill),
    Row("POST", "/lose_power", Broker.lose_power),
    Row("POST", "/flush", Broker.flush),
    Row("POST", "/advance", Broker.advance),
    Row("POST", "/close", Control.close),
    Row("GET", "/features", Broker.features),
    Row("POST", "/features", Broker.set_features),
    Row("GET", "/users", Broker.users),
    Row("POST", "/users", Broker.add_user),
    Row("DELETE", "/users/{user}", Broker.revoke),
    Row("GET", "/acls", Broker.acls),
    Row("POST", "/acls", Broker.add_acls),
    Row("POST", "/acls/remove", Broker.remove_acls),
    Row("POST", "/certificates/reload", Broker.reload_certificates),
    Row("GET", "/moment", Broker.moment),
    Row("GET", "/report", Broker.report),
    Row("GET", "/topics", Broker.topics),
    Row("POST", "/topics", Broker.topic),
    Row("DELETE", "/topics/{name}", Broker.delete_topic),
    Row("GET", "/topics/{topic}/records", Broker.records),
    Row("POST", "/topics/{topic}/records", Broker.produce),
    Row("GET", "/groups", Broker.groups),
    Row("GET", "/groups/{group_id}", Broker.group, Control.group_state),
    Row("DELETE", "/groups/{group_id}", Group.delete),
    Row("GET", "/groups/{group_id}/state", Group.state),
    Row("GET", "/groups/{group_id}/generation", Group.generation),
    Row("GET", "/groups/{group_id}/members", Group.members),
    Row("GET", "/groups/{group_id}/assignment", Group.assignment),
    Row("GET", "/groups/{group_id}/offsets", Group.offsets),
    Row("GET", "/groups/{group_id}/lag", Group.lag),
    Row("GET", "/groups/{group_id}/share_partitions", Group.share_partitions),
    Row("GET", "/groups/{group_id}/deliveries", Group.deliveries),
    Row("GET", "/groups/{group_id}/settings", Group.settings),
    Row("POST", "/groups/{group_id}/settings", Group.configure),
    Row("GET", "/groups/{group_id}/history", Group.history),
    Row("GET", "/groups/{group_id}/moves", Group.moves),
    Row("GET", "/groups/{group_id}/stuck", Group.stuck),
    Row("POST", "/groups/{group_id}/wait/stable", Group.wait_stable, Control.group_state),
    Row("POST", "/groups/{group_id}/wait/empty", Group.wait_empty, Control.group_state),
    Row("POST", "/groups/{group_id}/wait/assigned", Group.wait_assigned, Control.group_state),
    Row("POST", "/groups/{group_id}/wait/committed", Group.wait_committed, Control.group_state),
    Row("POST", "/groups/{group_id}/wait/rebalanced", Group.wait_rebalanced, Control.group_state),
    Row("POST", "/groups/{group_id}/wait/acquired", Group.wait_acquired, Control.group_state),
    Row(
        "POST", "/groups/{group_id}/wait/acknowledged", Group.wait_acknowledged, Control.group_state
    ),
    Row("POST", "/groups/{group_id}/wait/archived", Group.wait_archived, Control.group_state),
    Row("POST", "/groups/{group_id}/rebalance", Group.rebalance),
    Row("POST", "/groups/{group_id}/expel", Group.expel),
    Row("GET", "/faults", Broker.faults, Control.fault_states),
    Row("POST", "/faults", Broker.fault, Control.fault_state),
    Row("GET", "/faults/{fault_id}", Control.fault, Control.fault_state),
    Row("DELETE", "/faults/{fault_id}", Fault.remove),
    Row("POST", "/faults/{fault_id}/must_have_hit", Fault.must_have_hit),
    Row("GET", "/requests", Control.requests),
    Row("DELETE", "/requests", Requests.clear),
    Row("GET", "/requests/{api}", Requests.of),
    Row("GET", "/requests/{api}/last", Requests.last),
)


class Table(NamedTuple):
    """The operations of a control port.

    Attributes:
        kafka: the name of the class whose methods most of them are.
        rows: the operations.
    """

    kafka: str
    rows: tuple[Row, ...]


BROKER = Table("Broker", ROWS)


class Parameter(NamedTuple):
    """A parameter of an operation.

    Attributes:
        name: its name, here and in the typed API.
        place: path, query or body.
        shape: its form as JSON.
        text: what it is.
        default: its value if it is left out.
        is_required: whether it may not be left out.
        is_variadic: whether it is a list whose elements are arguments.
    """

    name: str
    place: str
    shape: Shape
    text: str
    default: Any
    is_required: bool
    is_variadic: bool


class ControlOperation:
    """An operation: a row, and what follows from its method's signature and docstring.

    Attributes:
        row: the row.
        segments: the segments of the path; None for a variable.
        variables: the names of the variables in the path, in order.
        function: the function of the method.
        subject: the class that the method belongs to.
        is_attribute: whether the method is a property.
        waits: whether it waits, for as long as the client says.
        returns: what the method returns, or waits for.
        parameters: the parameters of the method, in their order.
        all_parameters: these, after the id of the group or fault that the path names.
        result: the form of its result as JSON.
    """

    def __init__(self, row: Row, shapes: Shapes, kafka: str) -> None:
        """Take signature and docstring of the method apart; `kafka` is the class of what runs."""
        self.row = row
        names = row.path.strip("/").split("/")
        self.segments = [None if name[0] == "{" else name for name in names]
        self.variables = [name.strip("{}") for name in names if name[0] == "{"]
        self.is_attribute = isinstance(row.verb, property)
        self.function: Any = row.verb.fget if self.is_attribute else row.verb
        owner = self.function.__qualname__.split(".")[0]
        self.subject = kafka if owner in _OF_WHAT_RUNS else owner
        if owner in _OF_CONTROL:
            self.subject = "Control"
        hints = get_type_hints(self.function)
        returned = hints["return"]
        self.waits = get_origin(returned) is Waiting
        if self.waits:
            (returned,) = get_args(returned)
        self.returns = returned
        if row.show is not None:
            returned = get_type_hints(row.show)["return"]
        self.result = shapes.of(returned)
        self.parameters = [
            self._parameter(each, hints[each.name], shapes)
            for each in inspect.signature(self.function).parameters.values()
            if each.name != "self"
        ]
        self.all_parameters = [*_subject_ids(self.subject, shapes), *self.parameters]

    def _parameter(self, parameter: inspect.Parameter, hint: Any, shapes: Shapes) -> Parameter:
        name = parameter.name
        is_variadic = parameter.kind is inspect.Parameter.VAR_POSITIONAL
        shape = shapes.of(list[hint] if is_variadic else hint)
        bounds = BOUNDS.get(name)
        if bounds is not None and not is_variadic:
            shape = shape._replace(schema={**shape.schema, **bounds.schema})
        has_default = parameter.default is not inspect.Parameter.empty
        place = "body" if self.row.method == "POST" else "query"
        return Parameter(
            name,
            "path" if name in self.variables else place,
            shape,
            self._texts.get(name, ""),
            parameter.default if has_default else None,
            not (has_default or is_variadic),
            is_variadic,
        )

    @cached_property
    def _texts(self) -> dict[str, str]:
        return names_in(self.function)

    @property
    def name(self) -> str:
        """The name of the method."""
        return str(self.function.__name__)

    @property
    def operation_id(self) -> str:
        """The name of the method, with its class: Group.wait_stable."""
        return f"{self.subject}.{self.name}"

    @property
    def texts(self) -> tuple[str, str]:
        """What it does, in a sentence and in more of them."""
        return summary_of(self.function)

    def calls(self, subject: Any, arguments: Mapping[str, Any]) -> Any:
        """Call the method of a subject with decoded arguments; return what that returns."""
        if self.is_attribute:
            return getattr(subject, self.name)
        variadic = [each.name for each in self.parameters if each.is_variadic]
        listed = arguments.get(variadic[0], ()) if variadic else ()
        # What is before *values can only be given by position.
        ahead = [each.name for each in self.parameters if each.place == "path"]
        named = {name: each for name, each in arguments.items() if name not in {*variadic, *ahead}}
        method = getattr(subject, self.name)
        return method(*[arguments[name] for name in ahead], *listed, **named)

    def shown(self, control: ProcessControl, result: Any) -> Any:
        """Return what the method has returned, or waited for, as JSON; it blocks."""
        show = self.row.show
        return self.result.encode(result if show is None else show(control, result))

    def arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call of the method by name, without those that were left out.

        Raises:
            TypeError: the method has no such parameters.
        """
        bound = inspect.signature(self.function).bind(None, *args, **kwargs)
        return {name: value for name, value in bound.arguments.items() if name != "self"}


def _subject_ids(subject: str, shapes: Shapes) -> list[Parameter]:
    if subject not in _SUBJECT_IDS:
        return []
    name, kind, text = _SUBJECT_IDS[subject]
    return [Parameter(name, "path", shapes.of(kind), text, None, True, False)]


def operations_of(shapes: Shapes, table: Table = BROKER) -> list[ControlOperation]:
    """Return all operations, in the order of the table."""
    return [ControlOperation(row, shapes, table.kafka) for row in table.rows]
