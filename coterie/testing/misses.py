"""Why no request has met a fault, as a sentence."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from coterie.server.services import Services
from coterie.testing.actions import DiskAction, SlowDisk
from coterie.testing.faults import Fault
from coterie.testing.requests import Request, api_named

_SHOWN_OTHERS = 3


def why_not_met(
    fault: Fault, times: int | None, requests: Iterable[Request], received: int, broker: Services
) -> str:
    """Return why a fault was not met as often as a test expects.

    Args:
        fault: the fault.
        times: how often it should have been met; None for once or more often.
        requests: the newest requests.
        received: how many requests were received so far.
        broker: the broker, which knows the topics of requests.
    """
    if isinstance(fault.action, DiskAction):
        return _about_files(fault, times)
    subject = str(fault.scope)
    kept = list(requests)
    covered = {
        number: fault.covers(api_named(each.api), each, broker)
        for number, each in enumerate(kept, received - len(kept))
    }
    ended = received if fault.ended is None else fault.ended
    before = sum(covered[each] for each in covered if each < fault.received)
    after = sum(covered[each] for each in covered if each >= ended)
    meanwhile = [each for each in covered if fault.received <= each < ended]
    count = sum(covered[each] for each in meanwhile)
    if times is not None and fault.hits:
        text = f"{fault.hits} {subject} met the fault, not {times}"
        return f"{text}; {count} {_were(count)} received while it was installed"
    if count:
        text = f"{count} {subject} {_were(count)} received while the fault was installed"
        return f"{text}, and none met it{fault.why_passed}"
    parts = [f"no {subject} was received while the fault was installed", f"{before} before"]
    if after:
        parts.append(f"{after} after it was removed")
    first = received - len(kept)
    name = None if fault.scope.api is None else fault.scope.api.kafka_name
    others = {
        number: kept[number - first]
        for number in covered
        if not covered[number] and name in (None, kept[number - first].api)
    }
    during = [each for number, each in others.items() if fault.received <= number < ended]
    earlier = [each for number, each in others.items() if number < fault.received]
    return "; ".join(parts) + (_others("meanwhile", during) or _others("before", earlier))


def _others(when: str, requests: list[Request]) -> str:
    """Describe requests that the scope leaves out."""
    counts = Counter(
        f"{each.api} v{each.version} of client '{each.client_id}'{_group(each)}"
        for each in requests
    )
    shown = [f"{count} {text}" for text, count in counts.most_common(_SHOWN_OTHERS)]
    more = ", ..." if len(counts) > _SHOWN_OTHERS else ""
    return f"\n{when}: {', '.join(shown)}{more}" if shown else ""


def _group(request: Request) -> str:
    group: Any = getattr(request.message, "group_id", None)
    return f" in group '{group}'" if group else ""


def _about_files(fault: Fault, times: int | None) -> str:
    what = "synced" if isinstance(fault.action, SlowDisk) else "written"
    topic = f" to topic '{fault.scope.topic}'" if fault.scope.topic else ""
    if times is not None and fault.hits:
        return f"{fault.hits} operations of the disk met the fault, not {times}"
    return f"nothing was {what}{topic} while the fault was installed"


def _were(count: int) -> str:
    return "was" if count == 1 else "were"
