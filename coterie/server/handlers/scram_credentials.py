"""DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554) [security/scram]."""

from collections import Counter
from collections.abc import Generator, Iterator

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
    DescribeUserScramCredentialsResponseCredential,
    DescribeUserScramCredentialsResponseResult,
)
from coterie.protocol.messages.security_records import (
    RemoveUserScramCredentialRecord,
    SecurityRecord,
    UserScramCredentialRecord,
)
from coterie.security.credentials import MOST_USERS, Credentials, credential_of
from coterie.security.scram import MAX_ITERATIONS, MIN_ITERATIONS, NUMBERS, keys_of
from coterie.server.network.delayed_response import DelayedResponse, Exchange
from coterie.server.network.route import Handler
from coterie.server.network.sliced_response import (
    MADE_AT_ONCE,
    answer_each,
    run_in_slices,
)
from coterie.server.services import Services
from coterie.storage.errors import describe_error

_MECHANISMS = frozenset(NUMBERS.values())

# An error, and its text for the client.
_Refusal = tuple[ErrorCode, str | None]
_Alteration = AlterUserScramCredentialsRequestDeletion | AlterUserScramCredentialsRequestUpsertion
_TWICE = (
    ErrorCode.DUPLICATE_RESOURCE,
    "A user credential cannot be altered twice in the same request",
)


def _describe(
    broker: Services, request: DescribeUserScramCredentialsRequest, connection: Exchange
) -> DescribeUserScramCredentialsResponse | None:
    users = broker.credentials.users
    # No names are all users.
    times = Counter([each.name for each in request.users] if request.users else list(users))

    def answer(named: tuple[str, int]) -> DescribeUserScramCredentialsResponseResult:
        name, count = named
        found = users.get(name)
        infos: list[DescribeUserScramCredentialsResponseCredential] = []
        error, text = ErrorCode.NONE, ""
        if count > 1:
            error = ErrorCode.DUPLICATE_RESOURCE
            text = (
                "Cannot describe SCRAM credentials for the same user twice in a single request:"
                f" {name}"
            )
        elif found is None:
            error = ErrorCode.RESOURCE_NOT_FOUND
            text = f"Attempt to describe a user credential that does not exist: {name}"
        else:
            infos = [
                DescribeUserScramCredentialsResponseCredential(
                    mechanism=mechanism, iterations=found[mechanism].iterations
                )
                for mechanism in sorted(found)
            ]
        return DescribeUserScramCredentialsResponseResult(
            user=name, error_code=error, error_message=text, credential_infos=infos
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
    """Apply the alterations that are right, beside the others."""
    response = DelayedResponse(connection)
    if len(request.deletions) + len(request.upsertions) <= MADE_AT_ONCE:
        connection.delay(response)
        made = _Made(broker.credentials)
        for each in _alterations(request):
            made.take(each)
        made.store(broker, response)
    else:
        connection.delay_and_mute(response)
        run_in_slices(
            broker,
            connection,
            _in_steps(broker, request),
            lambda made: made.store(broker, response),
        )
    return None


def _alterations(request: AlterUserScramCredentialsRequest) -> Iterator[_Alteration]:
    yield from request.deletions
    yield from request.upsertions


def _in_steps(
    broker: Services, request: AlterUserScramCredentialsRequest
) -> "Generator[None, None, _Made]":
    made = _Made(broker.credentials)
    for count, each in enumerate(_alterations(request), 1):
        made.take(each)
        if not count % MADE_AT_ONCE:
            yield
    return made


class _Made:
    """What a request makes of each user: a record, or a refusal."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        # None for an empty salted password, which Kafka notices last.
        self._records: dict[str, SecurityRecord | None] = {}
        self._refused: dict[str, _Refusal] = {}
        # Each user once, in the order of the request.
        self._users: dict[str, None] = {}
        self._new = 0

    def take(self, asked: _Alteration) -> None:
        """Take a deletion or an upsertion. The first error of a user counts."""
        name = asked.name
        self._users[name] = None
        if name in self._refused:
            return
        if name in self._records:
            del self._records[name]
            self._refused[name] = _TWICE
            return
        refusal = self._refusal(asked)
        if refusal is not None:
            self._refused[name] = refusal
        elif isinstance(asked, AlterUserScramCredentialsRequestDeletion):
            record = RemoveUserScramCredentialRecord(name=name, mechanism=asked.mechanism)
            self._records[name] = record
        else:
            self._records[name] = _credential(asked) if asked.salted_password else None
            self._new += name not in self._credentials.users

    def _refusal(self, asked: _Alteration) -> _Refusal | None:
        """Return why an alteration is refused, in Kafka's order and words."""
        if not asked.name:
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
        if asked.mechanism not in _MECHANISMS:
            return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
        if isinstance(asked, AlterUserScramCredentialsRequestDeletion):
            if self._credentials.find(asked.name, asked.mechanism) is None:
                text = "Attempt to delete a user credential that does not exist"
                return ErrorCode.RESOURCE_NOT_FOUND, text
            return None
        if asked.iterations < MIN_ITERATIONS:
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
        if asked.iterations > MAX_ITERATIONS:
            return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
        users = self._credentials.users
        if asked.name not in users and len(users) + self._new >= MOST_USERS:
            text = f"At most {MOST_USERS} users may have credentials."
            return ErrorCode.POLICY_VIOLATION, text
        return None

    def store(self, broker: Services, response: DelayedResponse) -> None:
        """Store the records, and answer when they are durable."""
        records = [each for each in self._records.values() if each is not None]
        for name, record in self._records.items():
            if record is None:
                self._refused[name] = ErrorCode.UNKNOWN_SERVER_ERROR, None
        if records:
            broker.security_log.append(records, lambda error: response.send(self._answer(error)))
        else:
            response.send(self._answer(None))

    def _answer(self, failure: Exception | None) -> AlterUserScramCredentialsResponse:
        stored: _Refusal = ErrorCode.NONE, None
        if failure is not None:
            stored = ErrorCode.KAFKA_STORAGE_ERROR, describe_error(failure)
        results = []
        for name in self._users:
            error, text = self._refused.get(name, stored)
            results.append(
                AlterUserScramCredentialsResponseResult(
                    user=name, error_code=error, error_message=text
                )
            )
        return AlterUserScramCredentialsResponse(results=results)


def _credential(asked: AlterUserScramCredentialsRequestUpsertion) -> UserScramCredentialRecord:
    keys = keys_of(asked.mechanism, asked.salted_password, asked.salt, asked.iterations)
    return credential_of(asked.name, asked.mechanism, keys)


HANDLERS: dict[ApiKey, Handler] = {
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _describe,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter,
}
