"""Random principals, rules and requests, sent to a Kafka and to our broker.

    python -m tests.compared.access 127.0.0.1:21700 [--requests 20000] [--seed 1]

Each round has new rules for a few names, literal, prefixed and general ones, that allow and deny.
Then users send random requests of random versions, and every answer is compared. A difference is
printed with the rules that were there.
"""

import argparse
import random
import sys
import time
from typing import Any

from coterie.address import Address
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.resources import ResourceType
from coterie.security.acl import ANY_HOST, CLUSTER_NAME, EVERYBODY, Acl, PatternType, Permission
from tests.compared.access.cases import KAFKAS, REQUESTS, line
from tests.compared.access.sides import KafkaSide, OurSide, Side

_USERS = ["p0", "p1", "p2", "p3"]
_A_ROUND = 200
_RULES_A_ROUND = 24
_TOPICS = ["t1", "t2", "t22", "u1"]
_ABSENT = ["t3", "v"]
_GROUPS = ["g1", "g2", "h"]
_IDS = ["x1", "x2"]
_KINDS = {
    ResourceType.TOPIC: _TOPICS + _ABSENT,
    ResourceType.GROUP: [*_GROUPS, "g-absent"],
    ResourceType.TRANSACTIONAL_ID: [*_IDS, "x-absent"],
}
_HOSTS = [ANY_HOST] * 6 + ["127.0.0.1", "10.9.9.9"]
_OPERATIONS = [each for each in AclOperation if each >= AclOperation.ALL]
# Requests whose answers depend on what others have done, or that close the connection.
_LEFT_OUT = {"DeleteTopics", "CreateAcls", "DeleteAcls", "DescribeAcls"}


def rules(draw: random.Random) -> list[Acl]:
    """Draw the rules of a round."""
    found = []
    for _ in range(draw.randrange(_RULES_A_ROUND)):
        kind = draw.choice([*_KINDS, ResourceType.TOPIC, ResourceType.CLUSTER])
        pattern = PatternType.LITERAL
        if kind is ResourceType.CLUSTER:
            name = draw.choice([CLUSTER_NAME, CLUSTER_NAME, "*"][:2])
        else:
            name = draw.choice([*_KINDS[kind], *_KINDS[kind], "*"])
            if draw.random() < 0.3:
                pattern = PatternType.PREFIXED
                name = name[: draw.randrange(1, len(name) + 1)]
        found.append(
            Acl(
                kind,
                name,
                pattern,
                draw.choice([f"User:{each}" for each in _USERS] * 2 + [EVERYBODY]),
                draw.choice(_HOSTS),
                draw.choice(_OPERATIONS),
                draw.choice([Permission.ALLOW] * 4 + [Permission.DENY]),
            )
        )
    return found


def request(draw: random.Random) -> str:
    """Draw a request, as a line."""
    name, values = draw.choice([each for each in REQUESTS if each[0] not in _LEFT_OUT])
    api = next(each for each in ApiKey if each.kafka_name == name)
    first, last = KAFKAS.get(api, SERVED_VERSIONS[api])
    if api is ApiKey.METADATA and values["topics"] != "null":
        # Older versions create topics, which Kafka's broker hears of later.
        first = 4
    renamed = {
        "t1": draw.choice(_TOPICS),
        "t2": draw.choice(_TOPICS),
        "absent": draw.choice(_ABSENT),
        "g1": draw.choice(_GROUPS),
        "g2": draw.choice(_GROUPS),
        "x1": draw.choice(_IDS),
        "x2": draw.choice(_IDS),
    }
    version = draw.randrange(first, last + 1)
    text = line(draw.choice(_USERS), api, version, _renamed(values, renamed))
    # Old records would be deleted while this runs.
    return text.replace("time: 1000", "time: now")


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {each: _renamed(inner, names) for each, inner in value.items()}
    if isinstance(value, list):
        renamed = [_renamed(each, names) for each in value]
        # What is named twice has rules of its own, which other tests compare.
        unique: dict[str, Any] = {}
        for each in renamed:
            unique.setdefault(_key(each), each)
        return list(unique.values())
    if isinstance(value, str):
        if value.startswith("@"):
            return f"@{names.get(value[1:], value[1:])}"
        return names.get(value, value)
    return value


def _key(value: Any) -> str:
    if isinstance(value, dict):
        named = [
            value.get(each)
            for each in ("resource_type", "name", "topic", "resource_name", "group_id")
        ]
        return str(named) if any(named) else str(value)
    return str(value)


def run(kafka: Side, ours: Side, draw: random.Random, requests: int) -> int:
    """Compare so many requests; return how many answers differ."""
    differences = sent = 0
    began_s = time.monotonic()
    while sent < requests:
        drawn = rules(draw)
        for side in (kafka, ours):
            side.set_rules(drawn)
        for _ in range(_A_ROUND):
            text = request(draw)
            sent += 1
            expected, found = kafka.answer(text), ours.answer(text)
            if expected != found:
                differences += 1
                print(f"{text}\n  Kafka {expected}\n  ours  {found}")
                user = text.partition(">")[0]
                for each in drawn:
                    if each.principal in (f"User:{user}", EVERYBODY):
                        print(f"    {each.java_text}")
        print(
            f"{sent} requests, {differences} differ, {time.monotonic() - began_s:.0f} s", flush=True
        )
    return differences


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address", type=Address.parse)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    keys = [(0, each) for each in [*_GROUPS, "g-absent"]] + [(1, each) for each in _IDS]
    with KafkaSide(options.address) as kafka, OurSide() as ours:
        for side in (kafka, ours):
            side.begin(_TOPICS, keys)
        differences = run(kafka, ours, random.Random(options.seed), options.requests)
    sys.exit(bool(differences))


if __name__ == "__main__":
    main()
