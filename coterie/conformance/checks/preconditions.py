"""Why a check cannot run against a broker, or is not meant for it."""

from collections.abc import Mapping

from coterie.conformance.checks.check import Check
from coterie.conformance.commands import setting_value
from coterie.conformance.over_tcp.target import Target
from coterie.conformance.over_tcp.versions import served_version
from coterie.conformance.releases import Release, release_text
from coterie.conformance.syntax import parse_arguments, parse_duration_ms

# The longest time that a check may wait unless the run is thorough.
QUICK_LIMIT_MS = 45_000
_THOROUGH_LIMIT_MS = 700_000

# The settings that a transcript of groups relies on unless it changes them.
_DELAY = "group.initial.rebalance.delay.ms"
_DEFAULTS = {_DELAY: "3000", "group.max.size": "2147483647"}
_REFUSED_SESSION = "INVALID_SESSION_TIMEOUT"
_SESSION_MIN = "group.min.session.timeout.ms"
_SESSION_MAX = "group.max.session.timeout.ms"
_DEFAULT_SESSION_MS = 10_000
# What `given` sends.
_SETUP = (("JoinGroup", 9), ("SyncGroup", 5), ("LeaveGroup", 5))
_GROUP_APIS = frozenset({"JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"})


def reason_to_skip(check: Check, target: Target, release: Release, *, thorough: bool) -> str:
    """Return why a check does not run; empty if it does."""
    return (
        _release_reason(check, release)
        or _time_reason(check, thorough=thorough)
        or _api_reason(check, target)
        or _settings_reason(check, target)
    )


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


def _settings_reason(check: Check, target: Target) -> str:
    if not any(each.api in _GROUP_APIS for each in check.requests) and not any(
        text.startswith("given ") for text in _commands(check)
    ):
        return _configured_reason(_configured(check), target)
    settings = _DEFAULTS | _configured(check)
    if check.area not in ("errors_by_state", "traces", "stories") and not _waits(check):
        settings.pop(_DELAY, None)
    return _configured_reason(settings, target) or _session_reason(check, target)


def _waits(check: Check) -> bool:
    """Return whether a check lets time pass or begins with a group: both include the delay."""
    return any(text.startswith(("tick ", "given ")) for text in _commands(check))


def _configured(check: Check) -> dict[str, str]:
    """Return the settings that a check needs; `1|2` stands for one of several values."""
    settings = {}
    for text in _commands(check):
        if text.startswith("config "):
            for name, _, value in (each.partition("=") for each in text.split()[1:]):
                settings[name] = "|".join(str(setting_value(each)) for each in value.split("|"))
    return settings


def _configured_reason(settings: Mapping[str, str], target: Target) -> str:
    for name, expected in settings.items():
        actual = target.settings.get(name, _DEFAULTS.get(name, "unknown"))
        if actual not in expected.split("|"):
            return f"needs {name}={expected}, the broker has {actual}"
    return ""


def _session_reason(check: Check, target: Target) -> str:
    """Compare the session timeouts that must be valid with the broker's bounds."""
    if any(_REFUSED_SESSION in line for each in check.transcript.blocks for line in each.expected):
        return ""  # the check is about timeouts that are refused
    low = int(target.settings.get(_SESSION_MIN, "6000"))
    high = int(target.settings.get(_SESSION_MAX, "1800000"))
    for each in check.requests:
        if each.api != "JoinGroup":
            continue
        text = parse_arguments(each.arguments).named.get("session", f"{_DEFAULT_SESSION_MS}ms")
        session_ms = parse_duration_ms(text)
        if not low <= session_ms <= high:
            return f"needs a session timeout of {session_ms} ms, the broker allows {low} to {high}"
    return ""
