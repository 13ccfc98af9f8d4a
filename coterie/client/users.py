"""SCRAM credentials of users: list, set and remove them [client/users].

A password is hashed here: the broker gets the salted password, as from Kafka's own tools.
"""

from collections.abc import Sequence
from typing import NamedTuple

from coterie.client.cluster import Cluster
from coterie.client.errors import Refused
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestDeletion,
    AlterUserScramCredentialsRequestUpsertion,
    AlterUserScramCredentialsResponse,
)
from coterie.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequestUser,
    DescribeUserScramCredentialsResponse,
)
from coterie.security.scram import NUMBERS, salted_password

MECHANISMS = {number: mechanism.value for mechanism, number in NUMBERS.items()}


class User(NamedTuple):
    """A user with credentials.

    Attributes:
        name: the user.
        iterations: of each credential, by the name of its mechanism.
    """

    name: str
    iterations: dict[str, int]


def list_users(cluster: Cluster, names: Sequence[str]) -> list[User]:
    """Return users with their credentials.

    Args:
        cluster: the cluster.
        names: the users; none for all. Those without credentials are left out.

    Raises:
        ClientError: the cluster cannot be asked or refuses the request.
    """
    request = DescribeUserScramCredentialsRequest(
        users=[DescribeUserScramCredentialsRequestUser(name=name) for name in names] or None
    )
    response = cluster.call_controller(request, DescribeUserScramCredentialsResponse)
    if response.error_code:
        raise Refused(response.error_code, "Listing users", response.error_message)
    found = []
    for each in response.results:
        if each.error_code not in (ErrorCode.NONE, ErrorCode.RESOURCE_NOT_FOUND):
            raise Refused(each.error_code, f"Listing {each.user}", each.error_message)
        infos = sorted(each.credential_infos, key=lambda info: int(info.mechanism))
        iterations = {MECHANISMS.get(info.mechanism, "?"): info.iterations for info in infos}
        if iterations:
            found.append(User(each.user, iterations))
    return sorted(found)


def add_user(
    cluster: Cluster, name: str, mechanism: str, password: str, iterations: int, salt: bytes
) -> None:
    """Set the credential of a user for one mechanism.

    Args:
        cluster: the cluster.
        name: the user.
        mechanism: the name of the mechanism.
        password: the password.
        iterations: how often it is hashed.
        salt: random bytes.

    Raises:
        ClientError: the cluster cannot be asked or refuses the change.
    """
    number = _number(mechanism)
    upsertion = AlterUserScramCredentialsRequestUpsertion(
        name=name,
        mechanism=number,
        iterations=iterations,
        salt=salt,
        salted_password=salted_password(number, password, salt, iterations),
    )
    _alter(cluster, AlterUserScramCredentialsRequest(deletions=[], upsertions=[upsertion]))


def remove_user(cluster: Cluster, name: str, mechanism: str) -> None:
    """Remove the credential of a user for one mechanism.

    Raises:
        ClientError: the cluster cannot be asked or refuses the change.
    """
    deletion = AlterUserScramCredentialsRequestDeletion(name=name, mechanism=_number(mechanism))
    _alter(cluster, AlterUserScramCredentialsRequest(deletions=[deletion], upsertions=[]))


def _number(mechanism: str) -> int:
    return next(number for number, name in MECHANISMS.items() if name == mechanism)


def _alter(cluster: Cluster, request: AlterUserScramCredentialsRequest) -> None:
    # A request may alter a user once, so each mechanism is a request.
    response = cluster.call_controller(request, AlterUserScramCredentialsResponse)
    for each in response.results:
        if each.error_code:
            raise Refused(each.error_code, f"{each.user} was not changed", each.error_message)
