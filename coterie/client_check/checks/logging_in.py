"""Logins and rights: refused ones, those that end, and clients that lack a right."""

from functools import partial

from coterie.client_check.checks.fetching import refused_at_first
from coterie.client_check.conversation import ClientExchange
from coterie.client_check.membership import BOTH
from coterie.client_check.model import Check, Judgement, scenario
from coterie.client_check.run import Run
from coterie.protocol.api_keys import ApiKey
from coterie.protocol.errors import ErrorCode
from coterie.testing.actions import AnswerError

_BEFORE = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
_LIFETIME_MS = 4_000
# How long clients are watched, and how often they may ask meanwhile: one that waits a little longer
# after each refusal, as Kafka's clients do, stays far below.
_WATCHED_S = 10.0
_MOST_LOGINS = 40
_MOST_REQUESTS = 100
_WRONG = "not the password"


def _logins(run: Run) -> list[ClientExchange]:
    """Return the tokens of logins that have ended them, with success or without."""
    return [
        each
        for each in run.talk.of("SaslAuthenticate")
        if each.response is not None and (each.response.error_code or not _follows(run, each))
    ]


def _follows(run: Run, token: ClientExchange) -> bool:
    """Return whether the next request on the connection is a further token of the same login."""
    later = [
        each
        for each in run.talk.exchanges
        if each.connection == token.connection and each.place > token.place
    ]
    return bool(later) and later[0].api is ApiKey.SASL_AUTHENTICATE


def _too_early(run: Run) -> ClientExchange | None:
    """Return a request that came on a connection before its login."""
    done = {each.connection: each.place for each in reversed(_logins(run))}
    return next(
        (
            each
            for each in run.talk.exchanges
            if each.api not in _BEFORE and each.place < done.get(each.connection, each.place + 1)
        ),
        None,
    )


def _check_reported(run: Run, name: str) -> None:
    """Check that the program has ended, or has said something on its standard error."""
    is_said = run.program.exit_code is not None or run.program.last_errors()
    reason = "it goes on without a word on its standard error"
    run.check(name, is_said, reason, Judgement.DIFFERS)


@scenario(
    Check(
        "logins/before-requests",
        "On each of its connections the client logs in before it sends anything but ApiVersions.",
        "KIP-152; [security/login-states]",
    ),
    Check(
        "logins/hides-the-password",
        "With SCRAM the password is in none of its tokens.",
        "RFC 5802; [security/scram-login]",
    ),
    is_secured=True,
    protocols=BOTH,
)
async def logs_in(run: Run) -> None:
    """The client logs in."""
    try:
        await run.begin()
        await run.read_more()
    finally:
        early = _too_early(run)
        if early is not None:
            reason = f"{early.api.kafka_name} comes before the login"
            run.verdict("logins/before-requests", Judgement.BREAKS, reason)
            # The broker closes such a connection, so it is known what was in the way.
            run.has_not_started = False
    run.passes("logins/before-requests")
    password = run.values["password"].encode()
    if not run.values["mechanism"].startswith("SCRAM"):
        run.skip("logins/hides-the-password", "PLAIN sends the password as it is")
    tokens = [each.request.auth_bytes for each in run.talk.of("SaslAuthenticate")]
    is_shown = any(password in bytes(each) for each in tokens)
    run.check("logins/hides-the-password", not is_shown, "the password is in a token")


@scenario(
    Check(
        "logins/again-in-time",
        "Before its login ends the client logs in again on the same connection.",
        "KIP-368; [security/reauthentication]",
    ),
    Check(
        "logins/keeps-its-group",
        "The end of a login does not cost the client its place in the group, and it reads on.",
        "KIP-368",
    ),
    is_secured=True,
    protocols=BOTH,
)
async def login_ends(run: Run) -> None:
    """Logins last for four seconds."""
    run.broker.limit_logins(_LIFETIME_MS)
    await run.begin()
    joins = len(run.joins())
    await run.sleep(3 * _LIFETIME_MS / 1000)
    await run.read_more()
    finished: set[int] = set()
    again = False
    for each in run.talk.exchanges:
        again = again or (each.api is ApiKey.SASL_HANDSHAKE and each.connection in finished)
        if each.api not in _BEFORE:
            finished.add(each.connection)
    reason = "its connections are closed when their logins end, and it connects anew"
    run.check("logins/again-in-time", again, reason, Judgement.DIFFERS)
    rejoined = len(run.joins()) > joins
    reason = "it joined the group again"
    run.check("logins/keeps-its-group", not rejoined, reason, Judgement.DIFFERS)


@scenario(
    Check(
        "logins/pauses-after-refusals",
        f"After a refused login the client waits: it makes at most {_MOST_LOGINS} in"
        f" {_WATCHED_S:g} s.",
        "reconnect.backoff.max.ms of Kafka's clients",
        ("password",),
    ),
    Check(
        "logins/reports-refusals",
        "The program says that its login is refused, or ends.",
        "KIP-152",
        ("password",),
    ),
    is_secured=True,
    protocols=BOTH,
    password=_WRONG,
)
async def wrong_password(run: Run) -> None:
    """The password is wrong."""
    await run.start()
    await run.reached(lambda: _logins(run), "tried to log in", 30.0)
    await run.sleep(_WATCHED_S)
    count = len(_logins(run))
    reason = f"it logs in {count} times"
    few = count <= _MOST_LOGINS
    run.check("logins/pauses-after-refusals", few, reason, Judgement.DIFFERS)
    _check_reported(run, "logins/reports-refusals")


scenario(
    Check(
        "logins/after-a-refusal",
        "A client whose first login was refused reads when a later one succeeds.",
        "[security/scram]",
    ),
    title="The first login is refused.",
    is_secured=True,
    protocols=BOTH,
)(
    partial(
        refused_at_first,
        api="SaslAuthenticate",
        error=ErrorCode.SASL_AUTHENTICATION_FAILED,
        times=1,
    )
)


@scenario(
    Check(
        "access/goes-on-with-a-topic",
        "When a topic may be read again the client reads on where it was, unless it has ended.",
        "[security/fetch]",
    ),
    Check(
        "access/reports-a-refused-topic",
        "The program says that it may not read a topic, or ends.",
        "KafkaConsumer of Kafka's clients",
    ),
    is_secured=True,
    protocols=BOTH,
)
async def refused_topic(run: Run) -> None:
    """The right to read the topic is taken away, and given back."""
    await run.begin()
    end = await run.read_more()
    rule = run.rule(AnswerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED), "Fetch", times=None)
    refused = await run.hit(rule, "sent a Fetch")
    await run.sleep(_WATCHED_S / 2)
    rule.remove()
    _check_reported(run, "access/reports-a-refused-topic")
    if run.program.exit_code is not None:
        run.skip("access/goes-on-with-a-topic", "the program has ended")
        return
    await run.read_more()
    moved = run.read_again(end, refused.place)
    reason = f"it reads from {min(run.positions(moved).values())} again" if moved else ""
    run.check("access/goes-on-with-a-topic", not moved, reason, Judgement.DIFFERS)


@scenario(
    Check(
        "access/pauses-at-a-refused-group",
        f"A client that may not join its group asks at most {_MOST_REQUESTS} times in"
        f" {_WATCHED_S:g} s.",
        "[security/groups]",
    ),
    Check(
        "access/reports-a-refused-group",
        "The program says that it may not use its group, or ends.",
        "KafkaConsumer of Kafka's clients",
    ),
    is_secured=True,
    protocols=BOTH,
)
async def refused_group(run: Run) -> None:
    """The client may not use its group."""
    refusal = AnswerError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    rules = [run.rule(refusal, api, times=None) for api in ("JoinGroup", "ConsumerGroupHeartbeat")]
    await run.start()
    await run.reached(lambda: rules[0].hits or rules[1].hits, "asked to join", 30.0)
    await run.sleep(_WATCHED_S)
    count = sum(len(each.hits) for each in rules)
    reason = f"it asks {count} times"
    few = count <= _MOST_REQUESTS
    run.check("access/pauses-at-a-refused-group", few, reason, Judgement.DIFFERS)
    _check_reported(run, "access/reports-a-refused-group")
