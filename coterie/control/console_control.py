"""The control that the console of own brokers has: operations of the control port, without HTTP."""

from collections.abc import Mapping
from typing import Any

from coterie.control.control import ProcessControl
from coterie.control.link import all_operations
from coterie.control.shapes import decode_fields
from coterie.server.network.http_errors import Refused
from coterie.server.network.json_values import BadValue
from coterie.testing.errors import BrokerNotStarted, WrongUse
from coterie.testing.views import Views


class ConsoleControl:
    """Control of a broker or of several, by the operations that both have; see `BrokerControl`."""

    def __init__(self, control: ProcessControl) -> None:
        """Control what `control` controls; faults have the numbers that they have there."""
        self._control = control

    def perform(self, method: str, path: str, fields: Mapping[str, Any]) -> Any:
        """Perform an operation that does not wait, and return its answer as JSON.

        Args:
            method, path: those of its row.
            fields: as JSON, with those that the path names.

        Raises:
            Refused: a field is wrong, or the brokers do not run.
        """
        operation = next(
            each
            for each in all_operations().values()
            if (each.row.method, each.row.path) == (method, path)
        )
        assert not operation.waits, "only a control port waits"
        known = operation.all_parameters
        shapes = {each.name: each.shape for each in known}
        required = [each.name for each in known if each.is_required]
        try:
            arguments = decode_fields(fields, "", shapes, required)
            subject = self._control.subject(operation.subject, arguments)
            return operation.shown(self._control, operation.calls(subject, arguments))
        except (BadValue, WrongUse) as error:
            raise Refused("BadRequest", str(error)) from None
        except BrokerNotStarted as error:
            raise Refused("BrokerDown", str(error)) from None


def control_of(kafka: Views) -> ConsoleControl:
    """Return the control of the brokers of a test, in a thread or in processes of their own."""
    return ConsoleControl(ProcessControl(kafka))
