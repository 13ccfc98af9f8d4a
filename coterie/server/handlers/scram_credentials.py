"""DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554): no user has any.

Without a SASL listener a credential would have no effect, so none is stored [security/scram].
"""

from collections import Counter
from collections.abc import Generator

from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestDeletion,
    AlterUserScramCredentialsRequestUpsertion,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResponseResult,
)
from coterie.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResponseResult,
)
from coterie.server.network.delayed_response import Exchange
from coterie.server.network.route import Handler
from coterie.server.network.sliced_response import (
    MADE_AT_ONCE,
    answer_each,
    answer_in_slices,
    made_in_steps,
)
from coterie.server.services import Services

# SCRAM-SHA-256 and SCRAM-SHA-512.
_MECHANISMS = (1, 2)
_MIN_ITERATIONS = 4_096
_MAX_ITERATIONS = 16_384
_NO_SASL = "SCRAM credentials are not supported: this broker has no SASL listener."

# An error, and its text for the client.
_Refusal = tuple[ErrorCode, str]


def _describe(
    broker: Services, request: DescribeUserScramCredentialsRequest, connection: Exchange
) -> DescribeUserScramCredentialsResponse | None:
    times = Counter(each.name for each in request.users or ())

    def answer(named: tuple[str, int]) -> DescribeUserScramCredentialsResponseResult:
        name, count = named
        if count > 1:
            error = ErrorCode.DUPLICATE_RESOURCE
            text = "Cannot describe SCRAM credentials for the same user twice in a single request"
        else:
            error = ErrorCode.RESOURCE_NOT_FOUND
            text = "Attempt to describe a user credential that does not exist"
        return DescribeUserScramCredentialsResponseResult(
            user=name, error_code=error, error_message=f"{text}: {name}", credential_infos=[]
        )

    return answer_each(
        broker,
        connection,
        times.items(),
        answer,
        lambda answers: DescribeUserScramCredentialsResponse(
            error_code=ErrorCode.NONE, error_message="", results=answers
        ),
    )


def _alter(
    broker: Services, request: AlterUserScramCredentialsRequest, connection: Exchange
) -> AlterUserScramCredentialsResponse | None:
    return answer_in_slices(broker, connection, _refuse_each(request))


def _refuse_each(
    request: AlterUserScramCredentialsRequest,
) -> Generator[None, None, AlterUserScramCredentialsResponse]:
    refused: dict[str, _Refusal] = {}
    for count, deletion in enumerate(request.deletions, 1):
        if not count % MADE_AT_ONCE:
            yield
        if deletion.name not in refused:
            refused[deletion.name] = _refused_deletion(deletion)
    upserted: set[str] = set()
    for count, upsertion in enumerate(request.upsertions, 1):
        if not count % MADE_AT_ONCE:
            yield
        if upsertion.name in upserted:
            refused[upsertion.name] = (
                ErrorCode.DUPLICATE_RESOURCE,
                "A user credential cannot be altered twice in the same request",
            )
        elif upsertion.name not in refused:
            refused[upsertion.name] = _refused_upsertion(upsertion)
            if refused[upsertion.name][0] is ErrorCode.SECURITY_DISABLED:
                upserted.add(upsertion.name)

    def answer(named: tuple[str, _Refusal]) -> AlterUserScramCredentialsResponseResult:
        name, (error, text) = named
        return AlterUserScramCredentialsResponseResult(
            user=name, error_code=error, error_message=text
        )

    results = yield from made_in_steps(answer, refused.items())
    return AlterUserScramCredentialsResponse(results=results)


def _refused_deletion(deletion: AlterUserScramCredentialsRequestDeletion) -> _Refusal:
    refusal = _refused_name(deletion.name, deletion.mechanism)
    if refusal is not None:
        return refusal
    text = "Attempt to delete a user credential that does not exist"
    return ErrorCode.RESOURCE_NOT_FOUND, text


def _refused_upsertion(upsertion: AlterUserScramCredentialsRequestUpsertion) -> _Refusal:
    refusal = _refused_name(upsertion.name, upsertion.mechanism)
    if refusal is not None:
        return refusal
    if upsertion.iterations < _MIN_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
    if upsertion.iterations > _MAX_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
    return ErrorCode.SECURITY_DISABLED, _NO_SASL


def _refused_name(name: str, mechanism: int) -> _Refusal | None:
    if not name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if mechanism not in _MECHANISMS:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    return None


HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _describe,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter,
}
