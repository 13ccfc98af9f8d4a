"""Groups without members whose committed offsets expire soon (KIP-211)."""

from collections.abc import Iterator

from coterie.pipeline.findings.finding import WARNING, Finding, Rule, clock, cost_of, counted
from coterie.pipeline.findings.group import Group, rows_of

# offsets.retention.minutes, Kafka's default.
OFFSETS_RETENTION_MS = 7 * 24 * 3600 * 1000
# A day leaves time to act, including a night and a morning [pipeline/group-expiry].
EXPIRY_NOTICE_MS = 24 * 3600 * 1000

_HOUR_MS = 3600 * 1000

EXPIRY = Rule(
    "group_about_to_expire", WARNING, "the offsets of a group without members expire within a day"
)


def group_about_to_expire(group: Group) -> Iterator[Finding]:
    """Find groups without members whose committed offsets expire within a day."""
    # The state of a share group never expires.
    if group.is_share_group or any(session.to_ms is None for session in group.sessions):
        return
    newest: dict[tuple[str, int], tuple[int, int | None]] = {}
    committed_ms = -1
    columns = ["topic", "partition", "window_start_ts", "last_ts", "last_offset"]
    for row in rows_of(group.rows.minutes, columns):
        place = row["topic"], row["partition"]
        if place not in newest or newest[place][0] < row["window_start_ts"]:
            newest[place] = row["window_start_ts"], row["last_offset"]
        # A minute may have nothing but deletions.
        committed_ms = max(committed_ms, row["last_ts"] or -1)
    offsets = sum(offset is not None for _, offset in newest.values())
    if not offsets:
        return
    # A group that never had members, such as a consumer that assigns itself, expires after its last
    # commit.
    left = [session.to_ms for session in group.sessions if session.to_ms is not None]
    since_ms = max(left, default=committed_ms)
    expires_ms = since_ms + group.retention_ms
    left_ms = expires_ms - group.now_ms
    if left_ms > EXPIRY_NOTICE_MS:
        return
    when = "expired" if left_ms <= 0 else "expire"
    evidence = (
        f"{counted(offsets, 'committed offset')} {when} at {clock(expires_ms, group.now_ms)};"
        f" nobody is in the group since {clock(since_ms, group.now_ms)}"
    )
    lag = group.mean_lag(group.now_ms, group.now_ms) * offsets
    yield Finding(
        EXPIRY.name,
        group.group_id,
        since_ms,
        expires_ms,
        since_ms,
        None,
        left_ms / _HOUR_MS,
        evidence,
        cost_of(1.0, lag),
    )
