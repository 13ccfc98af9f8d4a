"""Why a check cannot run against a broker, or is not meant for it."""

import re
from collections.abc import Mapping

from coterie.client.security import OAUTHBEARER
from coterie.conformance.checks.check import Check
from coterie.conformance.checks.group_settings import DEFAULT_GROUP_SETTINGS, setting_in_the_way
from coterie.conformance.commands import setting_value
from coterie.conformance.over_tcp.target import GROUP_LEVEL, Target
from coterie.conformance.over_tcp.versions import served_version
from coterie.conformance.releases import Release, release_text
from coterie.conversation.requests import REQUEST_APIS

# The longest time that a check may wait unless the run is thorough.
QUICK_LIMIT_MS = 45_000
_THOROUGH_LIMIT_MS = 700_000

_UNKNOWN = "unknown"
# What a broker has that does not report a setting.
_VERIFICATION = "transaction.partition.verification.enable"
_DELETION = "delete.topic.enable"
_DEFAULTS = {**DEFAULT_GROUP_SETTINGS, _VERIFICATION: "true", _DELETION: "true"}
_TRANSACTION_TIMEOUT = "transaction.max.timeout.ms"
_TIMEOUT = re.compile(r"\btransaction_timeout_ms=(\d+)")
# A connection on which a check waits must not be closed before. `given` waits for the delay.
_IDLE = "connections.max.idle.ms"
_DEFAULT_IDLE_MS = 600_000
_GIVEN_MS = 6_000
# So many fetch sessions may be open at once that none takes the place of another; Kafka's default.
_SESSIONS = "max.incremental.fetch.session.cache.slots"
_OPENS_A_SESSION = re.compile(r"\bsession_epoch=0\b")
_SLOTS = 1_000
# What switches the protocols of groups on, besides the levels of their features: the word, and the
# APIs that need it.
_PROTOCOLS = "group.coordinator.rebalance.protocols"
_APIS_OF_PROTOCOLS = {
    "consumer": ("ConsumerGroupHeartbeat", "ConsumerGroupDescribe"),
    "streams": ("StreamsGroupHeartbeat", "StreamsGroupDescribe"),
}
# What a broker of checks of logins and rights has.
_AUTHORIZER = "authorizer.class.name"
_TOKEN, _TOKEN_KEY = "DelegationToken", "delegation.token.secret.key"
# What `given` sends.
_SETUP = (("JoinGroup", 9), ("SyncGroup", 5), ("LeaveGroup", 5))


def reason_to_skip(check: Check, target: Target, release: Release, *, thorough: bool) -> str:
    """Return why a check does not run; empty if it does."""
    return (
        _cluster_reason(check, target)
        or _release_reason(check, release)
        or _time_reason(check, thorough=thorough)
        or _security_reason(check, target)
        or _api_reason(check, target)
        or _settings_reason(check, target)
    )


def _cluster_reason(check: Check, target: Target) -> str:
    brokers = len(target.cluster)
    if check.brokers <= max(1, brokers):
        return ""
    return f"needs a cluster of {check.brokers} brokers, this one has {brokers}"


def _release_reason(check: Check, release: Release) -> str:
    expected = f"the expectations are those of Kafka {release_text(release)}"
    if check.since is not None and release < check.since:
        return f"holds since Kafka {release_text(check.since)}, and {expected}"
    if check.until is not None and release > check.until:
        return f"holds until Kafka {release_text(check.until)}, and {expected}"
    return ""


def _time_reason(check: Check, *, thorough: bool) -> str:
    waits_ms = check.waits_ms
    if waits_ms > _THOROUGH_LIMIT_MS:
        return f"takes {waits_ms // 1000} s"
    if waits_ms > QUICK_LIMIT_MS and not thorough:
        return f"takes {waits_ms // 1000} s; --thorough runs it"
    return ""


def _commands(check: Check) -> list[str]:
    return [command.text for block in check.transcript.blocks for command in block.commands]


def _api_reason(check: Check, target: Target) -> str:
    needed = [(*each[1:], check.is_exact) for each in check.requests]
    if any(text.startswith("given ") for text in _commands(check)):
        needed += [(api, version, "", False) for api, version in _SETUP]
    for api, version, arguments, exact in needed:
        if "wire={" in arguments and ("api_key" in arguments or "version" in arguments):
            continue  # the check is about a request that no broker serves
        if served_version(api, version, arguments, target, exact=exact) is None:
            return f"the broker does not serve {api} version {version}"
    return ""


def _security_reason(check: Check, target: Target) -> str:
    """Return what a broker lacks for a check of logins and rights."""
    if not check.mechanisms:
        return ""
    secured = target.secured
    if secured is None:
        return "needs a login: --command-config with a super user, at a listener with SASL"
    if not secured.has_authorizer:
        return f"needs {_AUTHORIZER}, the broker has none"
    missing = [each for each in check.mechanisms if each not in secured.mechanisms]
    if missing:
        listed = ", ".join(secured.mechanisms)
        return f"needs the mechanism {', '.join(missing)}, the listener has {listed}"
    if OAUTHBEARER in check.mechanisms and target.security.mechanism != OAUTHBEARER:
        return f"needs an administrator that logs in with {OAUTHBEARER}, for its tokens"
    if not secured.has_tokens and any(_TOKEN in each.api for each in check.requests):
        return f"needs {_TOKEN_KEY}, the broker has none"
    return ""


def _settings_reason(check: Check, target: Target) -> str:
    reason = (
        _configured_reason(_configured(check), target)
        or _limit_reason(check, target)
        or _protocol_reason(check, target)
    )
    if reason or not uses_groups(check):
        return reason
    names = setting_in_the_way(check.transcript, target.settings)
    return "; ".join(
        f"needs {name}={DEFAULT_GROUP_SETTINGS[name]}, the broker has {target.settings[name]}"
        for name in names
    )


def _protocol_reason(check: Check, target: Target) -> str:
    """Return how the broker switches a protocol of groups off that a check needs."""
    called = {each.api for each in check.requests}
    for word, apis in _APIS_OF_PROTOCOLS.items():
        if called.isdisjoint(apis):
            continue
        if word == "consumer" and target.settings.get(GROUP_LEVEL) == "0":
            return f"needs {GROUP_LEVEL}=1, the broker has 0"
        protocols = target.settings.get(_PROTOCOLS, word)
        if word not in protocols:
            return f"needs {_PROTOCOLS} with {word}, the broker has {protocols}"
    return ""


def _limit_reason(check: Check, target: Target) -> str:
    """Compare what a check takes for granted with the limits of the broker."""
    for name, needed in _least(check).items():
        actual = target.settings.get(name, "")
        if actual.isdigit() and int(actual) < needed:
            return f"needs {name} of at least {needed}, the broker has {actual}"
    return ""


def _least(check: Check) -> dict[str, int]:
    """Return the settings that must have at least some value."""
    commands = _commands(check)
    needed = {}
    timeouts_ms = [int(each) for text in commands for each in _TIMEOUT.findall(text)]
    if timeouts_ms and _TRANSACTION_TIMEOUT not in _configured(check):
        needed[_TRANSACTION_TIMEOUT] = max(timeouts_ms)
    if any(map(_OPENS_A_SESSION.search, commands)):
        needed[_SESSIONS] = _SLOTS
    silence_ms = _silence_ms(check)
    if silence_ms:
        needed[_IDLE] = silence_ms
    return needed


def _silence_ms(check: Check) -> int:
    """Return how long a connection of a check may be silent at most.

    What holds with Kafka's default, ten minutes, is known; so a longer time is not asked for.
    """
    given_ms = sum(_GIVEN_MS for text in _commands(check) if text.startswith("given "))
    return min(check.waits_ms + given_ms, _DEFAULT_IDLE_MS)


def uses_groups(check: Check) -> bool:
    """Return whether a check is about groups, whose settings then matter."""
    return any(each.api in REQUEST_APIS for each in check.requests) or any(
        text.startswith("given ") for text in _commands(check)
    )


def _configured(check: Check) -> dict[str, str]:
    """Return the settings that a check needs; `1|2` stands for one of several values."""
    settings = {}
    for text in _commands(check):
        if text.startswith("config "):
            for name, _, value in (each.partition("=") for each in text.split()[1:]):
                if ":" in name:
                    continue  # the setting of one group, which the check makes
                settings[name] = "|".join(map(_setting_text, value.split("|")))
    if any("delete-topic " in text or "> DeleteTopics " in text for text in _commands(check)):
        settings.setdefault(_DELETION, "true")
    return settings


def _setting_text(text: str) -> str:
    """Return a value as brokers report it: a duration in milliseconds, a word as it is."""
    return str(setting_value(text)) if text[0].isdigit() else text


def _configured_reason(settings: Mapping[str, str], target: Target) -> str:
    for name, expected in settings.items():
        default = str(_DEFAULTS.get(name, _UNKNOWN))
        actual = target.settings.get(name, default)
        if actual not in expected.split("|"):
            has = f"has {actual}" if actual != _UNKNOWN else "does not report it"
            return f"needs {name}={expected}, the broker {has}"
    return ""
