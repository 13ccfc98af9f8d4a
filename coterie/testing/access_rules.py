"""Access rules of a broker of a test: texts, and changes while clients work."""

from collections.abc import Iterable, Mapping

from coterie.security.acl import Acl
from coterie.security.acl_text import InvalidAcl, parse_acl
from coterie.server.authorization.access import STANDARD_AUTHORIZER
from coterie.server.broker import Broker as Server
from coterie.server.config.broker_keys import AUTHORIZER_CLASS
from coterie.testing.errors import WrongUse


def authorizer_settings(config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a broker with access rules, besides those of `config`.

    Raises:
        WrongUse: by `config` it has another authorizer, or none.
    """
    if config.get(AUTHORIZER_CLASS, STANDARD_AUTHORIZER) != STANDARD_AUTHORIZER:
        raise WrongUse(
            f"config: {AUTHORIZER_CLASS}: acls=[...] has chosen {STANDARD_AUTHORIZER}: leave out"
            " one of them"
        )
    return {AUTHORIZER_CLASS: STANDARD_AUTHORIZER}


def parsed_rules(texts: Iterable[str]) -> list[Acl]:
    """Return the rules of texts.

    Raises:
        WrongUse: a text is no rule.
    """
    try:
        return [parse_acl(each) for each in texts]
    except InvalidAcl as error:
        raise WrongUse(f"acls: {error}") from None


def change_rules(server: Server, add: Iterable[Acl], remove: Iterable[Acl]) -> None:
    """Add and remove rules of a broker; they count for the next request.

    Raises:
        WrongUse: the broker has no authorizer, or not a rule that is to be removed.
    """
    if server.access is None:
        raise WrongUse("this broker has no authorizer: make it with acls=[...]")
    gone = list(remove)
    if missing := [each for each in gone if each not in server.acls.ids]:
        raise WrongUse(f"this broker has no such rule: {missing[0].java_text}")
    server.access.change(list(add), gone, lambda _: None)
