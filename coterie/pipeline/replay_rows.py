"""Replays as rows: what `coterie pipeline replay --json` and the console say of one."""

from typing import Any

from coterie.pipeline.what_if import GroupReplay, ReplayedRebalance


def replay_row(replayed: GroupReplay) -> dict[str, Any]:
    """Return a replay as a row, with times in epoch milliseconds."""
    return {
        "group_id": replayed.group_id,
        "assignor": replayed.assignor,
        "protocols": list(replayed.protocols),
        "rebalances": [_rebalance_row(each) for each in replayed.rebalances],
        "left_out": replayed.left_out,
        "problem": replayed.problem,
    }


def _rebalance_row(replayed: ReplayedRebalance) -> dict[str, Any]:
    row = replayed._asdict()
    row["completed_ts"] = row.pop("completed_ms")
    return row


def summed(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a replay with the sums over its rebalances.

    The time without owner is summed over the rebalances for which both times are known (`timed`),
    and null if there is none.
    """
    rebalances = row["rebalances"]
    timed = [
        each
        for each in rebalances
        if each["unowned_ms"] is not None and each["recorded_unowned_ms"] is not None
    ]
    return {
        "group": row["group_id"],
        "recorded_protocols": row["protocols"],
        "assignor": row["assignor"],
        "rebalances": len(rebalances),
        "left_out": row["left_out"],
        "recorded_moved": sum(each["recorded_moved"] for each in rebalances),
        "moved": sum(each["moved"] for each in rebalances),
        "recorded_needless": _needless(rebalances, "recorded_moved", "recorded_moved_min"),
        "needless": _needless(rebalances, "moved", "moved_min"),
        "timed": len(timed),
        "recorded_unowned_ms": _sum(timed, "recorded_unowned_ms"),
        "unowned_ms": _sum(timed, "unowned_ms"),
        "problem": row["problem"],
    }


def _needless(rebalances: list[dict[str, Any]], moved: str, least: str) -> int:
    """Sum the moves above the minimum. A less balanced assignment may have fewer than these."""
    return sum(max(0, each[moved] - each[least]) for each in rebalances if each[least] is not None)


def _sum(rebalances: list[dict[str, Any]], name: str) -> int | None:
    return sum(each[name] for each in rebalances) if rebalances else None
