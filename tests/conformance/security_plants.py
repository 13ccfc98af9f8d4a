"""Bugs planted into logins, access rules and tokens, each with the check that should find it.

A text is replaced where one of several comparisons in a function is wrong: neither an argument nor
a call stands for it.
"""

from typing import Any

from coterie.protocol.authorized_operations import AclOperation
from tests.faults import Function, Of, answers, calling, does_nothing, given, keeps
from tests.planting import Plant


def _in_capitals(handshake: Function) -> Function:
    """Choose a mechanism by its name in capitals."""
    return lambda login, name, *others: handshake(login, name.upper(), *others)


def _or_describes(allows: Function) -> Function:
    """Let a rule for any operation allow DESCRIBE."""

    def run(of_rule: int, wanted: int) -> Any:
        return wanted == AclOperation.DESCRIBE or allows(of_rule, wanted)

    return run


SECURITY_PLANTS: tuple[Plant, ...] = (
    Plant(
        "every request is taken before the login",
        "coterie.security.login:Login.takes",
        kinds=("logins/request_behind_the_handshake/versions",),
        fault=answers(True),
    ),
    Plant(
        "a second ApiVersions is answered before the login",
        "coterie.security.login:Login.versions_answered",
        fault=does_nothing,
        kinds=("logins/versions_asked_twice",),
    ),
    Plant(
        "names of mechanisms are not case-sensitive",
        "coterie.security.login:Login.handshake",
        fault=_in_capitals,
        kinds=("logins/mechanism_in_lower_case",),
    ),
    Plant(
        "a token of PLAIN may have more parts",
        "coterie.security.plain:PlainServer.step",
        'split("\\0", _TOKENS)',
        'split("\\0", _TOKENS - 1)',
        ("logins/plain_failures/four_parts",),
    ),
    Plant(
        "the proof of SCRAM is not compared",
        "coterie.security.scram:ScramConversation._final",
        "is_right = hmac.compare_digest(stored_key, self._keys.stored_key)",
        "is_right = True",
        ("logins/scram_wrong_password",),
    ),
    Plant(
        "a final message of SCRAM is accepted again",
        "coterie.security.scram:ScramConversation._first",
        fault=given({"self._nonce": "0123456789"}),
        kinds=("logins/scram_replayed",),
    ),
    Plant(
        "the authorization id of SCRAM is not compared",
        "coterie.security.scram:ScramConversation._first",
        "if other and other != name:",
        "if False:",
        ("logins/scram_malformed/other_authzid",),
    ),
    Plant(
        "an expired OAuth token is accepted",
        "coterie.security.oauthbearer:UnsecuredTokens.validate",
        "if now_ms - self.skew_ms >= expires_s * 1000:",
        "if False:",
        ("oauth_logins/refused_token/expired",),
    ),
    Plant(
        "the authorization id of OAUTHBEARER is not compared",
        "coterie.security.oauthbearer:OAuthBearerConversation.step",
        "if other and other != who.name:",
        "if False:",
        ("oauth_logins/other_authzid",),
    ),
    Plant(
        "a refusal in a second login is encoded as the route has it",
        "coterie.server.network.session_routes:SessionRoutes._fail",
        "type(answer).framer(connection.version)(",
        "connection.route.framer(",
        ("relogins/request_between/metadata",),
    ),
    Plant(
        "a frame before the login has no limit",
        "coterie.server.security.login_connection:LoginConnection._next_frame",
        fault=given({"self._listener.largest_bytes": 1 << 31}),
        kinds=("logins/frame_too_large/one_byte",),
    ),
    Plant(
        "a login has no end",
        "coterie.server.network.session_routes:SessionRoutes._serve",
        fault=given({"self._session.expires_ms": None}),
        kinds=("relogins/request_after_the_lifetime",),
    ),
    Plant(
        "another user may log in again",
        "coterie.security.login:Login._check_same_user",
        fault=does_nothing,
        kinds=("relogins/other_user",),
    ),
    Plant(
        "another mechanism may follow",
        "coterie.security.login:Login.changes_mechanism",
        fault=answers(value=False),
        kinds=("relogins/other_mechanism",),
    ),
    Plant(
        "a rule that allows beats one that denies",
        "coterie.security.authorizer:Authorizer.decide",
        'return Decision(False, acl, "")',
        "continue",
        ("topic_access/deny",),
    ),
    Plant(
        "a rule that denies implies others",
        "coterie.security.authorizer:Authorizer.decide",
        "elif acl.operation in (operation, AclOperation.ALL):",
        "elif _allows(operation, acl.operation):",
        ("topic_access/deny_implies_nothing",),
    ),
    Plant(
        "the host of a rule is not compared",
        "coterie.security.authorizer:Authorizer.decide",
        "if acl.host not in (ANY_HOST, host):",
        "if False:",
        ("topic_access/other_host",),
    ),
    Plant(
        "a decision outlives its rule",
        "coterie.security.acl_store:AclStore.remove",
        fault=keeps("self.version"),
        kinds=("topic_access/right_taken_away",),
    ),
    Plant(
        "every operation implies DESCRIBE",
        "coterie.security.authorizer:_allows",
        fault=_or_describes,
        kinds=("topic_access/implied_describe/CREATE",),
    ),
    Plant(
        "a rule that denies a prefix does not count for a type",
        "coterie.security.authorizer:_is_left",
        fault=given(denied=Of("{**denied, PatternType.PREFIXED: set()}")),
        kinds=("topic_access/idempotent_producer_denied",),
    ),
    Plant(
        "followers may fetch what they may read",
        "coterie.server.authorization.fetches:_MayRead.__init__",
        fault=calling(
            "coterie.server.authorization.access:ClientAccess.may_with_cluster", answers(None)
        ),
        kinds=("topic_access/fetch_as_a_follower",),
    ),
    Plant(
        "a batch of a transaction needs no right on the transactional id",
        "coterie.server.authorization.produce:produce",
        fault=calling(
            "coterie.server.handlers.transactional_produce:has_transactional_batch",
            answers(value=False),
        ),
        kinds=("transaction_access/produce",),
    ),
    Plant(
        "whoever asks for a topic may create it",
        "coterie.server.authorization.topics:_Visible.may_create",
        kinds=("topic_access/automatic_creation",),
        fault=answers(True),
    ),
    Plant(
        "a filter takes ALL for any operation",
        "coterie.security.acl:AclFilter.fits",
        fault=given(
            {
                "self.operation": Of(
                    "AclOperation.ANY if self.operation == AclOperation.ALL else self.operation"
                )
            }
        ),
        kinds=("access_rules/filters/all_is_no_wildcard",),
    ),
    Plant(
        "a filter for a name finds longer prefixes",
        "coterie.security.acl:AclFilter._fits_name",
        "if kind != PatternType.MATCH:",
        "if kind == PatternType.ANY:",
        ("access_rules/filters/prefixed_by_a_longer_name",),
    ),
    Plant(
        "codes of filters are stored",
        "coterie.server.handlers.acls:_is_of_filters",
        kinds=("access_rules/codes_of_filters/match",),
        fault=answers(False),
    ),
    Plant(
        "a token may make tokens",
        "coterie.server.handlers.delegation_tokens:_refusal",
        fault=given({"connection.client.by_token": False}),
        kinds=("delegation_tokens/token_of_a_token/create",),
    ),
    Plant(
        "everybody may renew a token",
        "coterie.security.delegation_tokens:is_owner_or_renewer",
        kinds=("delegation_tokens/renew_by_a_stranger",),
        fault=answers(True),
    ),
    Plant(
        "a token lasts beyond its longest life",
        "coterie.security.delegation_tokens:expiring",
        "expiration_timestamp=min(expires_ms, token.max_timestamp)",
        "expiration_timestamp=expires_ms",
        ("delegation_tokens/renew",),
    ),
    Plant(
        "a user that is named twice is described",
        "coterie.server.handlers.scram_credentials:_describe",
        "if count > 1:",
        "if False:",
        ("credentials/named_twice",),
    ),
)
