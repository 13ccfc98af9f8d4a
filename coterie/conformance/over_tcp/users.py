"""The users and rights of a check of a broker with logins and an authorizer.

The administrator of a run is the user of `--command-config`. A check has users of its own, whose
names begin with the prefix of the run, with SCRAM-SHA-256 and one password for the whole run.
Brokers learn of users and rules a little later than they answer, so both are waited for.

Invariant: nothing but users and rules of the run's names is added or removed.
"""

import asyncio
import re
import secrets
from base64 import b64encode
from collections.abc import Iterable

from coterie.address import Address
from coterie.client.client_properties import credentials_of
from coterie.client.errors import LoginFailed
from coterie.client.mechanisms import bearer_message, scram
from coterie.client.security import Security
from coterie.conformance.over_tcp.connection import CheckConnection, Inbox, RefusedError
from coterie.conformance.over_tcp.target import Target
from coterie.conformance.transcript import ResponseError
from coterie.conversation.learnt_names import LearntNames
from coterie.conversation.syntax import TranscriptError
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsRequestDeletion,
    AlterUserScramCredentialsRequestUpsertion,
    AlterUserScramCredentialsResponse,
)
from coterie.protocol.messages.create_acls import CreateAclsResponse
from coterie.protocol.messages.delete_acls import DeleteAclsResponse
from coterie.protocol.messages.describe_acls import DescribeAclsResponse
from coterie.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from coterie.security.acl import EVERYTHING, Acl, AclFilter
from coterie.security.acl_messages import (
    creation_request,
    deletion_request,
    described_acls,
    description_request,
)
from coterie.security.acl_text import parse_acl
from coterie.security.mechanisms import Mechanism
from coterie.security.scram import MIN_ITERATIONS, NUMBERS, salted_password

_MECHANISM = Mechanism.SCRAM_SHA_256
_NUMBER = NUMBERS[_MECHANISM]
_PASSWORD_BYTES = 16
_SALT_BYTES = 16
# How long a broker may take until it knows a user or a rule, and how often it is asked.
_KNOWN_LIMIT_S = 10.0
_POLL_S = 0.05
# The nonce of `scram_first`: it is the same in each run, so that a check can send it again.
_NONCE = "rOprNGfwEbeRWgbNEkqO"

_USER = re.compile(r"User:@(\w+)")
_OWN = re.compile(r"@(\w+)")
_FUNCTION = re.compile(r"\b(utf8|bearer|scram_first|scram_last)\(([^()]*)\)")
_ESCAPES = {"\\0": "\0", "\\1": "\1"}


class Users:
    """The users of one check, and how its clients log in."""

    def __init__(self, target: Target, names: LearntNames) -> None:
        """Begin without users."""
        self._target = target
        self._names = names
        self._password = secrets.token_urlsafe(_PASSWORD_BYTES)
        # How the connections of a client are secured; those of others are the administrator's.
        self._clients: dict[str, Security] = {}

    # -- what is set up ----------------------------------------------------------------------------

    async def create(self, users: Iterable[str]) -> None:
        """Create users, and wait until the broker knows them.

        Raises:
            RefusedError: the broker refuses it.
        """
        wanted = [self._names.own(user) for user in users]
        if not wanted:
            return
        salt = secrets.token_bytes(_SALT_BYTES)
        salted = salted_password(_NUMBER, self._password, salt, MIN_ITERATIONS)
        upsertions = [
            AlterUserScramCredentialsRequestUpsertion(
                name=name,
                mechanism=_NUMBER,
                iterations=MIN_ITERATIONS,
                salt=salt,
                salted_password=salted,
            )
            for name in wanted
        ]
        request = AlterUserScramCredentialsRequest(deletions=[], upsertions=upsertions)
        answer = await self._target.call(request, AlterUserScramCredentialsResponse)
        for each in answer.results:
            if each.error_code:
                error = ErrorCode(each.error_code).name
                raise RefusedError(f"the broker refuses to create users: {error}")
        for user in users:
            self._clients[user] = self._security(self._names.own(user), self._password)
            await self._wait_for_login(user)

    async def login(self, client: str, token_id: str, hmac: str) -> None:
        """Let a client log in with a delegation token; the key is in hexadecimal."""
        key = bytes.fromhex(hmac.removeprefix("0x"))
        security = self._security(token_id, b64encode(key).decode())
        self._clients[client] = security._replace(jaas={**security.jaas, "tokenauth": "true"})
        await self._wait_for_login(client)

    async def _wait_for_login(self, client: str) -> None:
        """Wait until the broker knows the user or the token with which a client logs in."""
        for _ in range(int(_KNOWN_LIMIT_S / _POLL_S)):
            try:
                connection = await self.open(client, asyncio.Queue())
            except (LoginFailed, ConnectionError):
                await asyncio.sleep(_POLL_S)
            else:
                connection.close()
                return
        raise ResponseError(f"{client} cannot log in with what the broker has accepted")

    async def allow(self, text: str) -> None:
        """Add a rule, such as `User:@alice ALLOW READ TOPIC @sales`, and wait for it.

        Raises:
            RefusedError: the broker refuses it.
        """
        acl = parse_acl(_OWN.sub(lambda match: self._names.own(match[1]), text))
        answer = await self._target.call(creation_request([acl]), CreateAclsResponse)
        error = ErrorCode(answer.results[0].error_code)
        if error is not ErrorCode.NONE:
            raise RefusedError(f"the broker refuses to add rules: {error.name}")
        for _ in range(int(_KNOWN_LIMIT_S / _POLL_S)):
            if await self._has(acl):
                return
            await asyncio.sleep(_POLL_S)
        raise ResponseError(f"the rule {text} was added but does not appear")

    async def _has(self, acl: Acl) -> bool:
        wanted = description_request(AclFilter(*acl))
        answer = await self._target.call(wanted, DescribeAclsResponse)
        return acl in described_acls(answer)

    # -- clients -----------------------------------------------------------------------------------

    def connect(self, client: str) -> None:
        """Let a client connect without a login."""
        self._clients[client] = self._target.security._replace(mechanism="", jaas={})

    def _security(self, user: str, password: str) -> Security:
        jaas = {"username": user, "password": password}
        return self._target.security._replace(mechanism=_MECHANISM.value, jaas=jaas)

    async def open(
        self, client: str, inbox: Inbox, address: Address | None = None
    ) -> CheckConnection:
        """Return a new connection of a client, which has logged in as that client does.

        It is to the broker at an address, or to that of the target.
        """
        security = self._clients.get(client.partition(".")[0], self._target.security)
        return await CheckConnection.open(client, address or self._target.address, inbox, security)

    # -- texts of requests -------------------------------------------------------------------------

    def filled(self, text: str) -> str:
        """Return a command with names of this run and the bytes of logins.

        `User:@alice` is a principal of this run. `utf8(n,,n=@alice)` stands for the bytes of a
        text, in which `\\0` and `\\1` are these characters. `scram_first(alice)` is the first token
        of a login, `scram_last(alice, 0x00ff)` the last one, for the answer of the broker to the
        first; a third value is the password, if it is not that of the user. In place of a user
        there may be a client with a token. `bearer()` is the message of OAUTHBEARER with the token
        of the administrator, and `bearer(root)` the same with an authorization id.
        """
        text = _USER.sub(lambda match: f"User:{self._names.own(match[1])}", text)
        return _FUNCTION.sub(lambda match: f"0x{self._token(*match.groups()).hex()}", text)

    def _token(self, function: str, text: str) -> bytes:
        if function == "utf8":
            for escape, character in _ESCAPES.items():
                text = text.replace(escape, character)
            return _OWN.sub(lambda match: self._names.own(match[1]), text).encode()
        if function == "bearer":
            other = _OWN.sub(lambda match: self._names.own(match[1]), text)
            token = credentials_of(self._target.security).secret
            return bearer_message(token, other)
        user, *more = (part.strip() for part in text.split(","))
        known = self._clients.get(user) or self._security(self._names.own(user), self._password)
        credentials = credentials_of(known)
        if len(more) > 1:
            credentials = credentials._replace(secret=more[1])
        tokens = scram(credentials, _NUMBER, _NONCE)
        first = next(tokens)
        if function == "scram_first":
            return first
        if not more or not more[0].startswith("0x"):
            raise TranscriptError(f"{function}({text}) needs the answer of the broker")
        return tokens.send(bytes.fromhex(more[0].removeprefix("0x")))


async def remove_users_and_rules(target: Target, prefix: str) -> list[str]:
    """Remove the users and rules whose names begin with a prefix; return what is left."""
    secured = target.secured
    if secured is None or not secured.has_authorizer:
        return []
    kept = []
    everything = await target.call(description_request(EVERYTHING), DescribeAclsResponse)
    rules = [each for each in described_acls(everything) if _is_of_run(each, prefix)]
    if rules:
        request = deletion_request(AclFilter(*each) for each in rules)
        removed = await target.call(request, DeleteAclsResponse)
        for rule, result in zip(rules, removed.filter_results, strict=True):
            if result.error_code:
                kept.append(f"rule of {rule.principal}: {ErrorCode(result.error_code).name}")
    listed = await target.call(
        DescribeUserScramCredentialsRequest(users=None), DescribeUserScramCredentialsResponse
    )
    deletions = [
        AlterUserScramCredentialsRequestDeletion(name=each.user, mechanism=info.mechanism)
        for each in listed.results
        if each.user.startswith(prefix)
        for info in each.credential_infos
    ]
    # A request may name a user once, and a user of a check may have two credentials.
    for mechanism in NUMBERS.values():
        some = [each for each in deletions if each.mechanism == mechanism]
        if some:
            altered = await target.call(
                AlterUserScramCredentialsRequest(deletions=some, upsertions=[]),
                AlterUserScramCredentialsResponse,
            )
            kept += [
                f"user {each.user}: {ErrorCode(each.error_code).name}"
                for each in altered.results
                if each.error_code
            ]
    return kept


def _is_of_run(rule: Acl, prefix: str) -> bool:
    return rule.principal.startswith(f"User:{prefix}") or rule.name.startswith(prefix)
