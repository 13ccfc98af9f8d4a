"""Random principals, rules and requests, sent to a Kafka and to our broker.

    python -m tests.compared.access 127.0.0.1:21700 [--requests 20000] [--seed 1]

Each round has new rules for a few names, literal, prefixed and general ones, that allow and deny.
Then users send random requests of random versions, and every answer is compared: of single
requests, of fetch sessions that last longer than the rules, of members with regular expressions,
and of topics that Metadata creates. A difference is printed with the rules that were there. With
`--everyone` both brokers have `allow.everyone.if.no.acl.found=true`.
"""

import argparse
import random
import sys
import time
from collections import Counter
from typing import Any

from coterie.address import Address
from coterie.protocol.api_keys import SERVED_VERSIONS, ApiKey
from coterie.protocol.authorized_operations import AclOperation
from coterie.protocol.resources import ResourceType
from coterie.security.acl import ANY_HOST, CLUSTER_NAME, EVERYBODY, Acl, PatternType, Permission
from tests.compared.access.cases import KAFKAS, REQUESTS, line
from tests.compared.access.lasting import (
    Members,
    Sessions,
    ask_for_topics,
    created_topics,
    draw_fetch,
    draw_member,
)
from tests.compared.access.sides import SETTINGS, KafkaSide, OurSide, Side

_USERS = ["p0", "p1", "p2", "p3"]
_A_ROUND = 200
_RULES_A_ROUND = 24
_MEMBERS_A_ROUND = 2
_CREATIONS_A_ROUND = 3
# How many of the requests are fetches in sessions.
_SESSION_SHARE = 0.25
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
# Without this rule, few members would join.
_ALL_GROUPS = Acl(
    ResourceType.GROUP,
    "*",
    PatternType.LITERAL,
    EVERYBODY,
    ANY_HOST,
    AclOperation.READ,
    Permission.ALLOW,
)
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


class _Comparison:
    """The two brokers, and what was found so far."""

    def __init__(self, kafka: Side, ours: Side, draw: random.Random) -> None:
        self._sides = kafka, ours
        self._draw = draw
        self._sessions = Sessions(kafka), Sessions(ours)
        self._members = Members(kafka, ours)
        self._rules: list[Acl] = []
        self._rounds = 0
        self.counts: Counter[str] = Counter()
        self.differences = 0

    def round(self) -> None:
        """Have new rules, and send requests."""
        draw = self._draw
        self._rounds += 1
        self._rules = rules(draw)
        if self._rounds % 2:
            self._rules.append(_ALL_GROUPS)
        for side in self._sides:
            side.set_rules(self._rules)
        for _ in range(_A_ROUND):
            if draw.random() < _SESSION_SHARE:
                step = draw_fetch(draw, _USERS, _TOPICS)
                found = tuple(each.answer(step) for each in self._sessions)
                self._compare("fetches in sessions", step.user, step, found)
            else:
                text = request(draw)
                found = tuple(side.answer(text) for side in self._sides)
                self._compare("requests", text.partition(">")[0], text, found)
        for group in self._members.due():
            member = draw_member(draw, _USERS, group)
            found = self._members.join(member)
            if self._members.were_taken_away(group):
                self.counts["second members without partitions in Kafka"] += 1
            else:
                self._compare("second members", member.user, member, found)
            self._members.end(group)
        for number in range(_MEMBERS_A_ROUND):
            group = f"{draw.choice(_GROUPS)}-{self._rounds}-{number}"
            member = draw_member(draw, _USERS, group)
            self._compare("members", member.user, member, self._members.join(member))
        self._create()

    def _create(self) -> None:
        """Let Metadata create topics, and compare which ones are there then."""
        draw, wanted = self._draw, list[str]()
        for number in range(_CREATIONS_A_ROUND):
            names = [
                f"{draw.choice(_TOPICS + _ABSENT)}-{self._rounds}-{number}-{each}"
                for each in range(2)
            ]
            wanted += names
            user, version = draw.choice(_USERS), draw.randrange(1, 14)
            asked = [*names, draw.choice(_TOPICS)]
            found = tuple(ask_for_topics(side, user, version, asked) for side in self._sides)
            self._compare("topics asked for", user, asked, found)
        there = created_topics(*self._sides, wanted)
        self._compare("rounds with created topics", "", wanted, there)

    def _compare(self, kind: str, user: str, asked: object, found: tuple[str, ...]) -> None:
        self.counts[kind] += 1
        if found[0] == found[1]:
            return
        self.differences += 1
        print(f"{asked}\n  Kafka {found[0]}\n  ours  {found[1]}")
        for each in self._rules:
            if each.principal in (f"User:{user}", EVERYBODY):
                print(f"    {each.java_text}")


def run(kafka: Side, ours: Side, draw: random.Random, requests: int) -> int:
    """Compare so many requests; return how many answers differ."""
    comparison = _Comparison(kafka, ours, draw)
    began_s = time.monotonic()
    while comparison.counts["requests"] + comparison.counts["fetches in sessions"] < requests:
        comparison.round()
        sent = ", ".join(f"{count} {kind}" for kind, count in comparison.counts.items())
        seconds = time.monotonic() - began_s
        print(f"{sent}: {comparison.differences} differ, {seconds:.0f} s", flush=True)
    return comparison.differences


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address", type=Address.parse)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--everyone", action="store_true")
    options = parser.parse_args()
    keys = [(0, each) for each in [*_GROUPS, "g-absent"]] + [(1, each) for each in _IDS]
    settings = SETTINGS | {"allow.everyone.if.no.acl.found": str(options.everyone).lower()}
    with KafkaSide(options.address) as kafka, OurSide(settings) as ours:
        for side in (kafka, ours):
            side.begin(_TOPICS, keys)
        differences = run(kafka, ours, random.Random(options.seed), options.requests)
    sys.exit(bool(differences))


if __name__ == "__main__":
    main()
