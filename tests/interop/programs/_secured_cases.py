"""What clients of a secured broker do, for programs in other languages.

A program gets each case as a line of JSON, and answers each with a line that has its error. Whoever
may do everything produces, consumes in a group, and commits; the others get the error that their
library has for it.
"""

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from coterie.processes import Child
from tests.interop.kafka_node import KafkaNode
from tests.interop.model import Failed, Surroundings
from tests.interop.topics import create_topics
from tests.live.secured.setup import (
    CERTIFICATES,
    MECHANISMS,
    PASSWORDS,
    TOKEN,
    TOKEN_WAYS,
    WAYS,
    WRONG_HOST_WAYS,
    WRONG_PASSWORD,
    Setup,
    Way,
    oauth_token,
)

_LIMIT_S = 60.0
_ANSWER = re.compile(r"^answer (.*)$", re.MULTILINE)


class Errors(NamedTuple):
    """What a library says, as patterns.

    Attributes:
        logins: of a failed login, by mechanism.
        host: the certificate of the broker is that of another host.
        topic: there is no right to write to the topic.
        group: there is no right to read in the group.
    """

    logins: Mapping[str, str]
    host: str
    topic: str
    group: str


class _Case(NamedTuple):
    """A client, and the pattern of its error; an empty one means that everything works."""

    label: str
    way: Way
    error: str
    user: str = "alice"
    password: str | None = None
    consumes_only: bool = False


def _cases(errors: Errors, *, has_tokens: bool) -> Iterator[_Case]:
    for way in (*WAYS, *(TOKEN_WAYS if has_tokens else ())):
        yield _Case("everything", way, "")
    for listener in ("SASL_PLAINTEXT", "SASL_SSL"):
        for mechanism in MECHANISMS:
            way = Way(listener, mechanism)
            yield _Case("wrong password", way, errors.logins[mechanism], password=WRONG_PASSWORD)
    if has_tokens:
        error = errors.logins["SCRAM-SHA-256"]
        yield _Case("wrong password", TOKEN_WAYS[1], error, password=WRONG_PASSWORD)
    for way in WRONG_HOST_WAYS:
        yield _Case("wrong host", way, errors.host)
    for way in (CERTIFICATES, Way("SASL_SSL", "SCRAM-SHA-512")):
        yield _Case("no right to write", way, errors.topic, user="bob")
        yield _Case("no right to read", way, errors.group, user="bob", consumes_only=True)


def run_cases(
    around: Surroundings,
    command: Sequence[str],
    name: str,
    errors: Errors,
    *,
    folder: Path | None = None,
    has_tokens: bool = True,
) -> None:
    """Run all cases with a program, against a Kafka and a broker of ours.

    Args:
        around: where it runs.
        command: starts the program.
        name: of the library.
        errors: what the library says.
        folder: where the program is started, if that matters.
        has_tokens: whether the library can log in with delegation tokens.

    Raises:
        Failed: a client did not do what it should.
    """
    cases = list(_cases(errors, has_tokens=has_tokens))
    setup = Setup(around.directory / "kafka-certificates")
    kafka = KafkaNode(around, setup=setup).start()
    setup.prepare()
    wrong = []
    for where, broker in (("Kafka", setup), ("ours", around.setup)):
        child = around.children.start(f"{name} and {where}", command, directory=folder)
        topic = around.name("secured")
        create_topics(broker.bootstrap("PLAINTEXT"), {topic: 1})
        for number, case in enumerate(cases):
            request = _request(broker, case, topic, f"{topic}-{number}")
            found = _answer(around, child, request, number)
            if not (re.search(case.error, found) if case.error else not found):
                wrong.append(f"{where}: {case.label}, {case.way}: {found or 'no error'}")
        child.kill()
    kafka.kill()
    if wrong:
        raise Failed("\n".join((f"{len(cases)} cases of {name}:", *wrong)))
    around.note(f"{len(cases)} cases of {name}, which end as with Kafka")


def _answer(around: Surroundings, child: Child, request: dict[str, Any], number: int) -> str:
    child.write(json.dumps(request))

    def answers() -> list[str]:
        return _ANSWER.findall(child.log.read_text(errors="replace"))

    around.until(lambda: len(answers()) > number, _LIMIT_S, request["value"], child)
    return str(json.loads(answers()[number])["error"])


def _request(setup: Setup, case: _Case, topic: str, group: str) -> dict[str, Any]:
    """Return the line of a case."""
    way, user = case.way, case.user
    mechanism, name, password = way.mechanism, user, case.password or PASSWORDS[user]
    if mechanism == TOKEN:
        mechanism = "SCRAM-SHA-256"
        name, secret = setup.tokens[user]
        password = case.password or secret
    is_expired = case.password is not None
    return {
        "bootstrap": setup.bootstrap(way.listener),
        "topic": topic,
        "group": group,
        "value": f"{case.label}, {way}",
        "consumes_only": case.consumes_only,
        "properties": setup.client_properties(way, user, case.password),
        "tls": way.protocol.endswith("SSL"),
        "authority": setup.authority,
        "certificate": "" if way.mechanism else setup.path(f"{user}.crt"),
        "key": "" if way.mechanism else setup.path(f"{user}.key"),
        "mechanism": mechanism,
        "name": name,
        "password": password,
        "is_token": way.mechanism == TOKEN,
        "token": oauth_token(user, time.time(), is_expired=is_expired),
    }
