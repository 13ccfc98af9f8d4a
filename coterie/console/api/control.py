"""Faults and the clock of own brokers: rows that exist only where the brokers have a control.

Fields and faults are those of the control port (docs/control.md). There is no preview: a fault is
removed as easily as it is installed, and what a clock lets happen is known to the brokers only.
"""

from typing import Any

from coterie.client.times import now_ms
from coterie.console.api.parameters import number_in
from coterie.console.changes.fields import name, number
from coterie.console.routes import Parameter, Request, Route
from coterie.protocol.api_keys import SERVED_VERSIONS
from coterie.protocol.errors import ErrorCode
from coterie.server.beside import BrokerControl

_SECONDS = Parameter("seconds", "By how much.", {"type": "number", "minimum": 0}, is_required=True)
_FAULT = (
    Parameter(
        "action",
        'What goes wrong, as the control port writes it: {"kind": "Delay", "seconds": 2}.',
        {"type": "object"},
        is_required=True,
    ),
    name("api", "Kafka's name of an API; all without.", is_required=False),
    name("client_id", "Of the requests; all without.", is_required=False),
    name("group", "A group that the requests name; all without.", is_required=False),
    name("topic", "A topic that the requests name; all without.", is_required=False),
    number("times", "How many requests meet it; all without.", 1),
)


def _control(request: Request) -> BrokerControl:
    control = request.place.control
    assert control is not None, "the rows exist only with a control"
    return control


def _state(request: Request) -> dict[str, Any]:
    control = _control(request)
    moment = control.perform("GET", "/moment", {})
    # The brokers are on this machine, whose clock theirs goes with; it may be set meanwhile.
    ahead_s = max(0, round((moment["at_ms"] - now_ms()) / 1000))
    faults = control.perform("GET", "/faults", {})
    return {
        "allows_changes": request.place.allows_changes,
        "now_ms": moment["at_ms"],
        "ahead_s": ahead_s,
        "faults": faults,
    }


def _names(request: Request) -> dict[str, Any]:  # noqa: ARG001 - they are the same everywhere
    return {
        "apis": sorted(each.kafka_name for each in SERVED_VERSIONS),
        "errors": sorted(each.name for each in ErrorCode if each),
    }


def _advance(request: Request) -> dict[str, Any]:
    _control(request).perform("POST", "/advance", request.body)
    return _state(request)


def _install(request: Request) -> dict[str, Any]:
    _control(request).perform("POST", "/faults", request.body)
    return _state(request)


def _remove(request: Request) -> dict[str, Any]:
    fault_id = number_in("fault_id", request.path["fault_id"])
    _control(request).perform("DELETE", "/faults/{fault_id}", {"fault_id": fault_id})
    return _state(request)


ROUTES = (
    Route(
        "GET",
        "/api/control",
        "The faults that are installed, and how far the brokers' clock is ahead.",
        _state,
    ),
    Route("GET", "/api/control/names", "The names of APIs and errors for a fault.", _names),
    Route(
        "POST",
        "/api/control/advance",
        "Put the brokers' clock forward; it cannot be put back.",
        _advance,
        (_SECONDS,),
        changes=True,
    ),
    Route(
        "POST",
        "/api/control/faults",
        "Let requests meet a fault from now on.",
        _install,
        _FAULT,
        changes=True,
    ),
    Route(
        "POST",
        "/api/control/faults/{fault_id}/remove",
        "Let requests be handled as usual again.",
        _remove,
        changes=True,
    ),
)
