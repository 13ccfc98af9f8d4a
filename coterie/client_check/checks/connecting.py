"""Versions and frames: refusals, old brokers, unknown fields, parts of frames, slow answers."""

from functools import partial

from coterie.client_check.membership import BOTH
from coterie.client_check.model import Check, Judgement, scenario
from coterie.client_check.run import RECORDS, Run
from coterie.client_check.script import Action, AddTags, RefuseVersion, SetFields, Trickle
from coterie.protocol.api_keys import ApiKey
from coterie.testing.actions import CutAnswer, Delay

# What Kafka 2.1 announces, the oldest release that present clients support (KIP-896).
KAFKA_2_1 = {
    ApiKey.PRODUCE: (0, 7),
    ApiKey.FETCH: (4, 10),
    ApiKey.LIST_OFFSETS: (1, 4),
    ApiKey.METADATA: (0, 7),
    ApiKey.OFFSET_COMMIT: (2, 6),
    ApiKey.OFFSET_FETCH: (1, 5),
    ApiKey.FIND_COORDINATOR: (0, 2),
    ApiKey.JOIN_GROUP: (0, 3),
    ApiKey.HEARTBEAT: (0, 2),
    ApiKey.LEAVE_GROUP: (0, 2),
    ApiKey.SYNC_GROUP: (0, 2),
    ApiKey.DESCRIBE_GROUPS: (0, 2),
    ApiKey.LIST_GROUPS: (0, 2),
    ApiKey.SASL_HANDSHAKE: (0, 1),
    ApiKey.API_VERSIONS: (0, 2),
    ApiKey.CREATE_TOPICS: (2, 3),
    ApiKey.DELETE_TOPICS: (1, 3),
    ApiKey.INIT_PRODUCER_ID: (0, 1),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 2),
    ApiKey.DESCRIBE_CONFIGS: (1, 2),
    ApiKey.SASL_AUTHENTICATE: (0, 0),
}
_SLOW_S = 0.3
_THROTTLE_MS = 2_000


async def _reads(run: Run, action: Action, api: str | None, times: int | None) -> None:
    """Lay an action over requests; the client must read everything."""
    run.rule(action, api, times=times)
    await run.begin()
    await reads_all(run)
    run.passes(run.name)


def _reads_with(
    title: str, check: Check, action: Action, api: str | None = None, times: int | None = None
) -> None:
    """Register the scenario of a client that reads everything whatever is done to requests."""
    scenario(check, title=title, protocols=BOTH)(
        partial(_reads, action=action, api=api, times=times)
    )


async def reads_all(run: Run) -> None:
    """Wait until the client's positions have reached the last record of every partition."""

    def is_read() -> bool:
        ends = dict.fromkeys(run.partitions(), -1) | run.newest_positions()
        return all(position >= RECORDS for position in ends.values())

    await run.reached(is_read, f"read every partition to offset {RECORDS}", 30.0)


_reads_with(
    "The broker knows only version 0 of ApiVersions.",
    Check(
        "connecting/accepts-refused-version",
        "When ApiVersions is refused with UNSUPPORTED_VERSION the client asks in a lower version.",
        "KIP-511; [framing/served-versions]",
        ("version:ApiVersions>=1",),
    ),
    RefuseVersion(),
    "ApiVersions",
)


@scenario(
    Check(
        "connecting/works-with-an-old-broker",
        "With a broker that announces the versions of Kafka 2.1 the client reads everything.",
        "KIP-35, KIP-896",
    ),
    Check(
        "connecting/uses-versions-of-an-old-broker",
        "No request has a version above those that an old broker announces.",
        "KIP-35; [framing/served-versions]",
    ),
)
async def old_broker(run: Run) -> None:
    """The broker announces what Kafka 2.1 does."""
    run.broker.announced = KAFKA_2_1
    await run.start()
    try:
        await run.stable()
        await reads_all(run)
    finally:
        above = [each.text for each in run.talk.of_kind("malformed") if "announced" in each.text]
        name = "connecting/uses-versions-of-an-old-broker"
        run.check(name, not above, f"it {above[0] if above else ''}")
    run.passes("connecting/works-with-an-old-broker")


_reads_with(
    "Every response has tagged fields that no client knows.",
    Check(
        "frames/unknown-tagged-fields",
        "The client skips tagged fields that it does not know.",
        "KIP-482; [framing/plain-lengths]",
    ),
    AddTags(),
)


@scenario(
    Check(
        "frames/unknown-apis",
        "The client ignores an API that it does not know in the response to ApiVersions.",
        "KIP-35; [framing/served-versions]",
    ),
    protocols=BOTH,
)
async def unknown_api(run: Run) -> None:
    """The broker announces an API that no client knows."""
    run.broker.announces_unknown = True
    await run.begin()
    await reads_all(run)
    run.passes(run.name)


_reads_with(
    "Every response comes in parts of a few bytes.",
    Check(
        "frames/in-parts",
        "The client puts responses together that arrive byte by byte.",
        "[framing/frame-length]",
    ),
    Trickle(),
)
_reads_with(
    "Every response is late.",
    Check(
        "frames/slow-answers",
        "The client reads everything from a broker whose every answer is 0.3 s late.",
        "request.timeout.ms of Kafka's clients",
    ),
    Delay(_SLOW_S),
)
_reads_with(
    "The response to FindCoordinator ends in its middle.",
    Check(
        "frames/cut-answer",
        "When a connection ends in the middle of a response the client connects and asks again.",
        "[framing/frame-length]",
    ),
    CutAnswer(7),
    "FindCoordinator",
    times=1,
)


@scenario(
    Check(
        "fetching/waits-when-throttled",
        "After a response with a throttle time the client waits before it sends on its connection.",
        "KIP-219",
        ("version:Fetch>=8",),
    ),
    Check(
        "heartbeats/while-throttled",
        "A throttled Fetch does not stop heartbeats.",
        "KIP-219; [sessions/session-timeout]",
        ("version:Fetch>=8",),
    ),
    protocols=BOTH,
)
async def throttled(run: Run) -> None:
    """A Fetch is throttled."""
    await run.begin()
    generation, _ = run.identity()
    rule = run.rule(SetFields({"throttle_time_ms": _THROTTLE_MS}), "Fetch")
    fetch = await run.hit(rule, "sent a Fetch")
    await run.reached(lambda: fetch.response, "received the response")
    await run.sleep(_THROTTLE_MS / 1000)
    early = [
        each
        for each in run.talk.exchanges
        if each.connection == fetch.connection
        and each.place > fetch.answered_place
        and each.at_s < fetch.answered_s + 0.9 * _THROTTLE_MS / 1000
    ]
    first = early[0] if early else fetch
    run.check(
        "fetching/waits-when-throttled",
        not early,
        f"{first.api.kafka_name} comes {first.at_s - fetch.answered_s:.2f} s after a response with"
        f" throttle_time_ms={_THROTTLE_MS}",
        Judgement.DIFFERS,
    )
    beat = await run.until(
        lambda: run.talk.first(run.heartbeat, after=fetch.answered_place), run.heartbeat_limit_s
    )
    run.check(
        "heartbeats/while-throttled",
        beat is not None and run.identity()[0] == generation,
        "no heartbeat follows",
    )
