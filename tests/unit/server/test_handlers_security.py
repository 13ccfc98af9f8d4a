"""Voters. Most of security is in `tests/golden/answers`.

Rules: [security/no-authorizer].
"""

from typing import Any

import pytest

from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.add_raft_voter import AddRaftVoterRequest
from coterie.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from coterie.protocol.messages.unregister_broker import UnregisterBrokerRequest
from coterie.protocol.wire import ZERO_UUID
from tests.unit.server.manual import Client, make_broker

SOME_ID = bytes(range(16))


@pytest.fixture
def client() -> Client:
    return Client(make_broker())


class TestMembers:
    """[topics/quorum]"""

    def test_this_broker_registers_again(self, client: Client) -> None:
        answer = client.call(UnregisterBrokerRequest(broker_id=1), 0)
        assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, "")
        assert client.call(UnregisterBrokerRequest(broker_id=1), 0).error_code == ErrorCode.NONE

    @pytest.mark.parametrize(
        ("cluster_id", "voter_id", "directory_id", "error", "text"),
        [
            ("other", 2, SOME_ID, 104, 'The given id "other" doesn\'t match the cluster id'),
            (None, -1, SOME_ID, 42, "voter request didn't include a valid voter"),
            (None, 2, ZERO_UUID, 42, "voter request didn't include a valid voter"),
            (None, 2, SOME_ID, 35, " voter because the kraft.version feature is 0"),
        ],
    )
    def test_voters_stay_the_same(
        self,
        client: Client,
        cluster_id: str | None,
        voter_id: int,
        directory_id: bytes,
        error: int,
        text: str,
    ) -> None:
        requests: list[tuple[Any, int]] = [
            (
                AddRaftVoterRequest(
                    cluster_id=cluster_id,
                    timeout_ms=1,
                    voter_id=voter_id,
                    voter_directory_id=directory_id,
                    listeners=[],
                ),
                1,
            ),
            (
                RemoveRaftVoterRequest(
                    cluster_id=cluster_id, voter_id=voter_id, voter_directory_id=directory_id
                ),
                0,
            ),
        ]
        for request, version in requests:
            answer = client.call(request, version)
            assert answer.error_code == error
            assert text in answer.error_message
