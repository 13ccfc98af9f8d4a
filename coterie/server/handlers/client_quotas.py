"""DescribeClientQuotas and AlterClientQuotas (KIP-546) [quotas/alter-checks]."""

from collections import Counter
from collections.abc import Generator

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntry,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntity,
    AlterClientQuotasResponseEntry,
)
from coterie.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeClientQuotasResponseEntity,
    DescribeClientQuotasResponseEntry,
    DescribeClientQuotasResponseValue,
)
from coterie.server.handlers.topic_changes import answer_with_change
from coterie.server.metadata.stored_settings import QuotaEntity
from coterie.server.metadata.topic_changes import Change
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.route import Handler
from coterie.server.network.sliced_response import answer_in_slices, made_in_steps
from coterie.server.quotas.checks import (
    Component,
    QuotaChange,
    QuotaRefused,
    check_changes,
    check_filter,
    entity_of,
    matches,
)
from coterie.server.quotas.client_quotas import TooManyQuotas
from coterie.server.services import Services
from coterie.storage.errors import describe_error

# The error of an entity, and the text for the client.
_Outcome = tuple[ErrorCode, str | None]


def _describe(
    broker: Services, request: DescribeClientQuotasRequest, connection: Exchange
) -> DescribeClientQuotasResponse | None:
    return answer_in_slices(broker, connection, _matching(broker, request))


def _matching(
    broker: Services, request: DescribeClientQuotasRequest
) -> Generator[None, None, DescribeClientQuotasResponse]:
    components = yield from made_in_steps(
        lambda each: Component(each.entity_type, each.match_type, each.match), request.components
    )
    try:
        check_filter(components)
    except QuotaRefused as refused:
        return DescribeClientQuotasResponse(
            error_code=refused.error, error_message=refused.text, entries=None
        )
    entries = []
    for entity, values in list(broker.quotas.all()):
        yield
        if matches(entity, components, strict=request.strict):
            entries.append(
                DescribeClientQuotasResponseEntry(
                    entity=[
                        DescribeClientQuotasResponseEntity(entity_type=kind, entity_name=name)
                        for kind, name in entity
                    ],
                    values=[
                        DescribeClientQuotasResponseValue(key=key, value=value)
                        for key, value in values.items()
                    ],
                )
            )
    return DescribeClientQuotasResponse(
        error_code=ErrorCode.NONE, error_message="", entries=entries
    )


def _alter(
    broker: Services, request: AlterClientQuotasRequest, connection: Exchange
) -> AlterClientQuotasResponse | None:
    return answer_with_change(broker, connection, _alter_all(broker, request))


def _alter_all(
    broker: Services, request: AlterClientQuotasRequest
) -> Change[AlterClientQuotasResponse]:
    # Entities that are named twice are changed by neither entry and answered once.
    all_names = yield from made_in_steps(_names, request.entries)
    named = dict(zip(all_names, request.entries, strict=True))
    times = Counter(all_names)
    outcomes: dict[QuotaEntity, _Outcome] = {}
    valid: dict[QuotaEntity, list[QuotaChange]] = {}
    for names, entry in named.items():
        yield None
        try:
            entity, changes = _checked(entry, is_repeated=times[names] > 1)
        except QuotaRefused as refused:
            outcomes[names] = refused.error, refused.text
        else:
            outcomes[names] = ErrorCode.NONE, None
            valid[entity] = changes
    if valid and not request.validate_only:
        failure: _Outcome | None = None
        try:
            yield from broker.quotas.change(valid)
        except OSError as error:
            failure = ErrorCode.KAFKA_STORAGE_ERROR, describe_error(error)
        except TooManyQuotas as refused_all:
            failure = ErrorCode.POLICY_VIOLATION, str(refused_all)
        if failure is not None:
            for names, (code, _) in outcomes.items():
                if code is ErrorCode.NONE:
                    outcomes[names] = failure
    entries = yield from made_in_steps(_answer, outcomes.items())
    return AlterClientQuotasResponse(entries=entries)


def _answer(entity: tuple[QuotaEntity, _Outcome]) -> AlterClientQuotasResponseEntry:
    names, (code, text) = entity
    return AlterClientQuotasResponseEntry(
        error_code=code,
        error_message=text,
        entity=[
            AlterClientQuotasResponseEntity(entity_type=kind, entity_name=name)
            for kind, name in names
        ],
    )


def _names(entry: AlterClientQuotasRequestEntry) -> QuotaEntity:
    return tuple(sorted({each.entity_type: each.entity_name for each in entry.entity}.items()))


def _checked(
    entry: AlterClientQuotasRequestEntry, *, is_repeated: bool
) -> tuple[QuotaEntity, list[QuotaChange]]:
    """Return the entity of an entry, and its changes.

    Raises:
        QuotaRefused: the entry is invalid.
    """
    changes = [QuotaChange(op.key, None if op.remove else op.value) for op in entry.ops]
    if is_repeated or len({change.key for change in changes}) < len(changes):
        entries = ", ".join(f"{kind}={name}" for kind, name in _names(entry))
        raise QuotaRefused(f"Ignoring duplicate entity ClientQuotaEntity(entries={{{entries}}})")
    entity = entity_of([(each.entity_type, each.entity_name) for each in entry.entity])
    check_changes(entity, changes)
    return entity, changes


HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _describe,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter,
}
