"""What the scripted broker does to requests and responses, as data.

A rule names an API and an action. The first rule that covers a request and is not used up decides.
The actions of `coterie.testing` that make sense here have the same names and meaning.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from coterie.client_check.conversation import ClientExchange
from coterie.protocol.api_keys import ApiKey
from coterie.testing.actions import (
    OUTCOMES,
    AnswerError,
    CloseAfter,
    CloseBefore,
    CutAnswer,
    Delay,
    NeverAnswer,
)
from coterie.testing.requests import api_named


class SetFields(NamedTuple):
    """Let the server handle the request, and change fields of its response.

    Attributes:
        fields: new values by path, such as "topics.partitions.leader_epoch"; a path goes through
            every element of the lists on its way.
        request_fields: the same for the request, before the server gets it.
    """

    fields: Mapping[str, Any] = {}
    request_fields: Mapping[str, Any] = {}


class Trickle(NamedTuple):
    """Send the response in small parts.

    Attributes:
        single_bytes: so many bytes are sent one by one.
        part_bytes: the size of the parts after them.
        pause_s: the seconds between two parts.
    """

    single_bytes: int = 16
    part_bytes: int = 128
    pause_s: float = 0.001


class AddTags(NamedTuple):
    """Add a tagged field that no client knows, to the header and to the body, where allowed."""


class RefuseVersion(NamedTuple):
    """Answer ApiVersions as a broker that knows only version 0 of it: UNSUPPORTED_VERSION."""


Action = (
    AnswerError
    | Delay
    | NeverAnswer
    | CloseBefore
    | CloseAfter
    | CutAnswer
    | SetFields
    | Trickle
    | AddTags
    | RefuseVersion
)


class Rule:
    """An action and the requests that it concerns.

    Attributes:
        action: what is done.
        hits: the requests that met the rule.
    """

    def __init__(
        self,
        action: Action,
        api: str | None,
        *,
        times: int | None = None,
        skip: int = 0,
        with_field: str = "",
    ) -> None:
        """Describe a rule.

        Args:
            action: what is done.
            api: Kafka's name of an API; None for all.
            times: how many requests it concerns; None for all.
            skip: how many pass before.
            with_field: it concerns only requests in which this field is not null.
        """
        self.action = action
        self.hits: list[ClientExchange] = []
        self._api: ApiKey | None = None if api is None else api_named(api)
        self._times = times
        self._skip = skip
        self._field = with_field
        self._is_removed = False

    @property
    def is_used_up(self) -> bool:
        """Whether it concerns no further request."""
        return self._is_removed or (self._times is not None and len(self.hits) >= self._times)

    def remove(self) -> None:
        """Let requests pass from now on."""
        self._is_removed = True

    def covers(self, exchange: ClientExchange) -> bool:
        """Decide whether a request meets the rule, and count it."""
        if self.is_used_up or self._api not in (None, exchange.api):
            return False
        if self._field and getattr(exchange.request, self._field) is None:
            return False
        if self._skip:
            self._skip -= 1
            return False
        self.hits.append(exchange)
        return True


def set_fields(message: Any, fields: Mapping[str, Any]) -> None:
    """Set fields of a message by their paths; see `SetFields`."""
    for path, value in fields.items():
        *way, name = path.split(".")
        structs = [message]
        for step in way:
            found = [getattr(each, step) for each in structs]
            structs = [each for one in found for each in (one if isinstance(one, list) else [one])]
        for each in structs:
            setattr(each, name, value)


def action_text(action: Action) -> str:
    """Return what an action does, for the conversation; "" if the response shows it."""
    match action:
        case Delay(seconds):
            return f"handled {seconds:g} s later"
        case Trickle():
            return "the answer came in parts of a few bytes"
        case AddTags():
            return "with unknown tagged fields"
        case _:
            return OUTCOMES.get(type(action), "")
