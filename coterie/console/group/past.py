"""The history of a group as the report page shows it, and under other protocols.

What `coterie pipeline show` works out from a data directory is worked out here from what a broker
says: the facts of its journal and the records of its group log. Both call the same functions, so
both say the same [console/one-history].
"""

from typing import Any, NamedTuple

from coterie.client.cluster import Cluster
from coterie.lab.machines import MACHINES
from coterie.lab.recorded import ASSUMPTIONS as SCRIPT_ASSUMPTIONS
from coterie.lab.recorded import recorded_of
from coterie.lab.run import Run, RunOptions
from coterie.lab.scenario import scenario_text
from coterie.pipeline.live.group_record import GroupRecord
from coterie.pipeline.replay_rows import replay_row, summed
from coterie.pipeline.report.content import content_of
from coterie.pipeline.report.data import page_data
from coterie.pipeline.report.history import Story, story_of
from coterie.pipeline.report.page import render
from coterie.pipeline.timeline.model import GroupHistory
from coterie.pipeline.what_if import ASSUMPTIONS, NAMES, WITH_ROOMS, replay

# The protocols of consumers that the lab has; the others are of Connect, of earlier releases and of
# other systems.
MACHINES_SHOWN = ("eager-3", "static", "cooperative", "consumer")
ASSIGNORS_SHOWN = tuple(name for name in NAMES if name not in WITH_ROOMS)
# One run stands for all: the script is recorded, and what is drawn from the seed are delays.
_SEED = 1

Json = dict[str, Any]


class Past(NamedTuple):
    """A group's history.

    Attributes:
        history: it.
        story: its rows.
        inputs: where it comes from, in words.
    """

    history: GroupHistory
    story: Story
    inputs: list[str]


def past_of(recorded: GroupRecord, cluster: Cluster, bootstrap: str) -> Past:
    """Work out the history of a group.

    Args:
        recorded: what is recorded of it.
        cluster: the cluster.
        bootstrap: the address of the broker, for people.
    """
    history = recorded.history(cluster)
    inputs = [f"{' and '.join(recorded.sources)} of {bootstrap}"]
    return Past(history, story_of(history), inputs)


def history_data(past: Past) -> Json:
    """Return the data of the report page for one group."""
    return page_data(_content(past))


def report_page(past: Past, title: str) -> str:
    """Return the report page of one group as HTML."""
    return render(_content(past), title)


def script_text(past: Past) -> str:
    """Return the history as a scenario's file for `coterie lab run`.

    Raises:
        WrongInput: the history has nothing that can be replayed.
    """
    recorded = recorded_of(past.history.group_id, past.story)
    about = "".join(f"# {each}\n" for each in SCRIPT_ASSUMPTIONS)
    return f"{about}\n{scenario_text(recorded.scenario)}"


def _content(past: Past) -> Any:
    group = past.story.group
    if group.span_ms is None:
        return content_of({}, past.inputs)
    return content_of({}, past.inputs)._replace(groups=[group])


def replayed(past: Past, name: str) -> Json:
    """Return what would have happened under another assignor or protocol.

    Args:
        past: the history.
        name: one of `ASSIGNORS_SHOWN`, which is replayed as `coterie pipeline replay` does, or of
            `MACHINES_SHOWN`, which the lab runs as `--script-from` does.

    Raises:
        WrongInput: the history has nothing that can be replayed.
    """
    if name in ASSIGNORS_SHOWN:
        row = replay_row(replay(past.history, name))
        return {"assignor": name, "kind": "assignor"} | {
            "summed": summed(row),
            "rebalances": row["rebalances"],
            "assumptions": list(ASSUMPTIONS),
        }
    recorded = recorded_of(past.history.group_id, past.story)
    outcome = Run(name, recorded.scenario, _SEED, RunOptions()).finish()
    return {
        "assignor": name,
        "kind": "protocol",
        "about": MACHINES[name].summary,
        # By the names of the lab's metrics.
        "recorded": {
            "generations": recorded.rebalances,
            "moves": recorded.moved,
            "unowned": recorded.unowned_s,
        },
        "left_out": recorded.left_out,
        "summed": outcome.metrics,
        "outcome": outcome.row(),
        "assumptions": list(SCRIPT_ASSUMPTIONS),
    }
