"""Verbs of many small requests at once: of members, commits, and all APIs without arrays."""

from collections import Counter
from collections.abc import Iterator

from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.errors import ErrorCode
from tests.soak.turns.answers import Answers
from tests.soak.turns.client import Client
from tests.soak.turns.requests import frame, has_arrays, largest, newest
from tests.soak.turns.session import Session, Verb

_CONNECTIONS = 100
_OTHER_GROUPS = 6

# They are verbs of their own, here and in transactions.py.
_APART = {
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.HEARTBEAT,
    ApiKey.SYNC_GROUP,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.END_TXN,
}
# What is refused: there is no authorizer, token, second broker or second voter, and no client of
# these metrics.
_EXPECTED = {
    ApiKey.DESCRIBE_ACLS: ErrorCode.SECURITY_DISABLED,
    ApiKey.RENEW_DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    ApiKey.EXPIRE_DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    ApiKey.UNREGISTER_BROKER: ErrorCode.BROKER_ID_NOT_REGISTERED,
    ApiKey.PUSH_TELEMETRY: ErrorCode.INVALID_REQUEST,
    ApiKey.REMOVE_RAFT_VOTER: ErrorCode.INVALID_REQUEST,
}
_VALUES = {"client_software_name": "turns", "client_software_version": "1"}
# Members get their ids with the first answer in this version.
_JOIN_VERSION = 3


def many(session: Session) -> Iterator[Verb]:
    """Yield the verbs."""
    sizes = session.sizes
    for api in SERVED_VERSIONS:
        if api not in _APART and not has_arrays(api):
            yield session.verb(
                f"{api.kafka_name}, pipelined",
                api,
                lambda api=api: [  # type: ignore[misc]
                    largest(api, first=number % sizes.groups, values=_VALUES)
                    for number in range(sizes.pipelined)
                ],
                expected=_EXPECTED.get(api, ErrorCode.NONE),
            )
    yield from _members(session)
    api = ApiKey.INIT_PRODUCER_ID
    request = frame(api, newest(api), transactional_id=None, transaction_timeout_ms=0)
    yield session.verb(
        "InitProducerId, pipelined, idempotent", api, lambda: [request] * sizes.pipelined
    )
    yield Verb("OffsetCommit, pipelined by 100 connections", lambda: _from_many(session))


def _members(session: Session) -> Iterator[Verb]:
    """Yield what the only members of new groups do."""
    sizes = session.sizes
    # The limit includes the honest member's group, those of the largest joins, and of consumers.
    new = range(sizes.groups - sizes.pipelined, sizes.groups - _OTHER_GROUPS)

    def join() -> Answers:
        api = ApiKey.JOIN_GROUP
        requests = [
            frame(
                api,
                _JOIN_VERSION,
                group_id=f"g{number}",
                session_timeout_ms=300_000,
                rebalance_timeout_ms=300_000,
                protocol_type="consumer",
                protocols=[{"name": "range", "metadata": b""}],
                member_id="",
            )
            for number in new
        ]
        answers = session.exchange(api, _JOIN_VERSION, requests)
        session.members = [
            {"group_id": f"g{number}", "generation_id": 1, "member_id": answer.member_id}
            for number, (answer, _) in zip(new, answers.decoded(), strict=False)
            if not answer.error_code
        ]
        return answers

    yield Verb("JoinGroup, pipelined, of new groups", join, is_needed=True)
    protocol = {"protocol_type": "consumer", "protocol_name": "range"}
    for api, fields in ((ApiKey.SYNC_GROUP, protocol), (ApiKey.HEARTBEAT, {})):
        yield session.verb(
            f"{api.kafka_name}, pipelined",
            api,
            lambda api=api, fields=fields: [  # type: ignore[misc]
                frame(api, newest(api), **each, **fields) for each in session.members
            ],
        )._replace(is_needed=api is ApiKey.SYNC_GROUP)
    api = ApiKey.LEAVE_GROUP
    yield session.verb(
        "LeaveGroup, pipelined",
        api,
        lambda: [
            frame(api, newest(api), group_id=each["group_id"], members=[_leaving(each)])
            for each in session.members
        ],
    )


def _leaving(member: dict[str, object]) -> dict[str, object]:
    return {"member_id": member["member_id"]}


def _from_many(session: Session) -> Answers:
    """Let many connections send at once, before any of them reads."""
    sizes = session.sizes
    each = min(max(sizes.pipelined // 20, 1), sizes.groups - sizes.pipelined)
    requests = list(session.commits(1, 1 + each))
    clients = [Client(session.port) for _ in range(_CONNECTIONS)]
    sending = [client.send(requests) for client in clients]
    frames: Counter[bytes] = Counter()
    for client in clients:
        frames += client.receive(len(requests))
    for thread in sending:
        thread.join()
    for client in clients:
        client.close()
    return Answers(ApiKey.OFFSET_COMMIT, newest(ApiKey.OFFSET_COMMIT), frames)
