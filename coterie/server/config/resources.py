"""What AlterConfigs and IncrementalAlterConfigs change: resources, operations and refusals.

The texts are Kafka's [settings/alter-checks].
"""

from collections.abc import Mapping
from typing import NamedTuple

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.incremental_alter_configs import APPEND, DELETE, SET, SUBTRACT
from coterie.server.config.keys import ConfigKey
from coterie.server.metadata.topic_changes import Change as TopicChange
from coterie.storage.errors import describe_error

# Altered settings of the broker, of the cluster, of all groups and of all subscriptions of client
# metrics: all are kept in memory and in the settings file.
MAX_ALTERED_SETTINGS = 1_000
MAX_ALTERED_CHARACTERS = 1024 * 1024
# The message of an error.
MAX_TEXT_CHARACTERS = 2_000

OPERATIONS = {SET: "SET", DELETE: "DELETE", APPEND: "APPEND", SUBTRACT: "SUBTRACT"}


class ChangeRefused(Exception):  # noqa: N818 - a refusal is an answer, not a failure of the server
    """A resource is not changed.

    Attributes:
        error: Kafka's error code.
        text: Kafka's message; None where Kafka sends none.
    """

    def __init__(self, error: ErrorCode, text: str | None) -> None:
        super().__init__(error, text)
        self.error = error
        # Names and values in the text come from the client and may fill a whole string.
        self.text = None if text is None else text[:MAX_TEXT_CHARACTERS]


class Change(NamedTuple):
    """One setting to change: an operation of IncrementalAlterConfigs, and its value if any."""

    name: str
    operation: int
    value: str | None


class Resource(NamedTuple):
    """A resource of a request, and the changes of its settings."""

    resource_type: int
    resource_name: str
    changes: list[Change]


# The result of one resource: its error, and the text for the client.
Outcome = tuple[ErrorCode, str | None]


def check_size(values: Mapping[str, str]) -> None:
    """Check that altered settings are not too many.

    Raises:
        ChangeRefused: they are.
    """
    characters = sum(len(each) + len(value) for each, value in values.items())
    if len(values) > MAX_ALTERED_SETTINGS or characters > MAX_ALTERED_CHARACTERS:
        text = (
            f"At most {MAX_ALTERED_SETTINGS} settings of {MAX_ALTERED_CHARACTERS} characters may be"
            " altered."
        )
        raise ChangeRefused(ErrorCode.POLICY_VIOLATION, text)


def store(change: TopicChange[None]) -> TopicChange[None]:
    """Make a change that is stored in a file."""
    try:
        yield from change
    except OSError as error:
        raise ChangeRefused(ErrorCode.KAFKA_STORAGE_ERROR, describe_error(error)) from error


def apply(values: dict[str, str], change: Change, key: ConfigKey | None) -> None:
    """Make one change in `values`; the result is not checked."""
    if change.operation == DELETE:
        values.pop(change.name, None)
        return
    text = change.value or ""
    if change.operation in (APPEND, SUBTRACT):
        # A list without a value of its own begins with the default, not with an inherited value.
        default = key.default if key is not None else None
        current = values.get(change.name, default or "")
        text = _changed_list(current, text, append=change.operation == APPEND)
    values[change.name] = text


def _changed_list(current: str, given: str, *, append: bool) -> str:
    """Return a list with elements added or removed. As in Kafka, blanks make elements differ."""
    elements = [element for element in current.split(",") if element]
    named = [element for element in given.split(",") if element]
    if append:
        elements += [element for element in named if element not in elements]
    else:
        elements = [element for element in elements if element not in named]
    return ",".join(elements)
