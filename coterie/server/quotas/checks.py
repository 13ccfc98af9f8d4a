"""What quotas may be set, and which entities a filter matches (KIP-546, KIP-612).

The checks, their order and their texts are those of Kafka's controller [quotas/alter-checks].
"""

import math
from collections.abc import Collection, Sequence
from typing import NamedTuple

from coterie.address import peer_address
from coterie.protocol.errors import ErrorCode
from coterie.server.metadata.stored_settings import QuotaEntity

USER = "user"
CLIENT_ID = "client-id"
IP = "ip"
ENTITY_TYPES = (CLIENT_ID, USER, IP)

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

_LONG_KEYS = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE)
_INT_KEYS = (CONNECTION_CREATION_RATE,)
_CLIENT_KEYS = (*_LONG_KEYS, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
_ADDRESS_KEYS = (CONNECTION_CREATION_RATE,)

# How far a value may be from a whole number and count as one.
_TOLERANCE = 1e-6

# Match types of a filter.
EXACT = 0
DEFAULT = 1
ANY = 2


class QuotaRefused(Exception):  # noqa: N818 - a refusal is an answer, not a failure of the server
    """A filter or a change is invalid.

    Attributes:
        error: Kafka's error code.
        text: Kafka's message.
    """

    def __init__(self, text: str, error: ErrorCode = ErrorCode.INVALID_REQUEST) -> None:
        super().__init__(error, text)
        self.error = error
        self.text = text


class QuotaChange(NamedTuple):
    """A quota to set, or to remove if `value` is None."""

    key: str
    value: float | None


class Component(NamedTuple):
    """A part of a filter: the names that an entity of one type may have."""

    entity_type: str
    match_type: int
    match: str | None


def entity_of(parts: Sequence[tuple[str, str | None]]) -> QuotaEntity:
    """Return an entity; of a type that is named twice the last name counts.

    Raises:
        QuotaRefused: there is no such entity.
    """
    names = dict(parts)
    if not names:
        raise QuotaRefused("Invalid empty client quota entity")
    for kind, name in names.items():
        if kind not in ENTITY_TYPES:
            raise QuotaRefused(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise QuotaRefused(f"Empty {kind} not supported")
    return tuple((kind, names[kind]) for kind in ENTITY_TYPES if kind in names)


def check_changes(entity: QuotaEntity, changes: Sequence[QuotaChange]) -> None:
    """Check the changes of an entity.

    Raises:
        QuotaRefused: a change is invalid.
    """
    names = dict(entity)
    keys: tuple[str, ...] = _CLIENT_KEYS
    if IP in names:
        if len(names) > 1:
            text = (
                "Invalid quota entity combination, IP entity shouldnot be combined with User or"
                " ClientId"
            )
            raise QuotaRefused(text)
        if names[IP] is not None and peer_address(names[IP] or "") is None:
            raise QuotaRefused(f"{names[IP]} is not a valid IP or resolvable host.")
        keys = _ADDRESS_KEYS
    for key, value in changes:
        if value is not None:
            _check_value(key, value, keys)


def _check_value(key: str, value: float, keys: tuple[str, ...]) -> None:
    if key not in keys:
        raise QuotaRefused(f"Invalid configuration key {key}")
    if value <= 0:
        raise QuotaRefused(f"Quota {key} must be greater than 0")
    if math.isnan(value):
        # No comparison of Kafka's is true of it [quotas/no-number].
        return
    for name, limit, whole in (("LONG", 2**63 - 1, _LONG_KEYS), ("INT", 2**31 - 1, _INT_KEYS)):
        if key not in whole:
            continue
        if value > limit:
            raise QuotaRefused(f"Proposed value for {key} is too large for {_article(name)}.")
        if abs(int(value + _TOLERANCE) - value) > _TOLERANCE:
            raise QuotaRefused(f"{key} cannot be a fractional value.")


def _article(name: str) -> str:
    return f"an {name}" if name == "INT" else f"a {name}"


def check_filter(components: Sequence[Component]) -> None:
    """Check the components of a filter.

    Raises:
        QuotaRefused: it is invalid.
    """
    seen: set[str] = set()
    for kind, match_type, match in components:
        if not kind:
            raise QuotaRefused("Invalid empty entity type.")
        if kind in seen:
            raise QuotaRefused(f"Entity type {kind} cannot appear more than once in the filter.")
        if kind not in ENTITY_TYPES:
            error = ErrorCode.UNSUPPORTED_VERSION
            raise QuotaRefused(f"Unsupported entity type {kind}", error)
        if match_type not in (EXACT, DEFAULT, ANY):
            raise QuotaRefused(f"Unknown match type {match_type}")
        if match_type == EXACT and match is None:
            text = "Request specified MATCH_TYPE_EXACT, but set match string to null."
            raise QuotaRefused(text)
        if match_type != EXACT and match is not None:
            name = "DEFAULT" if match_type == DEFAULT else "SPECIFIED"
            text = f"Request specified MATCH_TYPE_{name}, but also specified a match string."
            raise QuotaRefused(text)
        seen.add(kind)
    if IP in seen and len(seen) > 1:
        raise QuotaRefused(
            "Invalid entity filter component combination. IP filter component should not be used"
            " with user or clientId filter component."
        )


def matches(entity: QuotaEntity, components: Collection[Component], *, strict: bool) -> bool:
    """Return whether an entity fits a filter that was checked.

    Args:
        entity: the entity.
        components: the types that the entity must have, and the names.
        strict: whether the entity must have no other types.
    """
    names = dict(entity)
    for kind, match_type, match in components:
        if kind not in names:
            return False
        if match_type != ANY and names[kind] != (match if match_type == EXACT else None):
            return False
    return not strict or len(names) == len(components)
