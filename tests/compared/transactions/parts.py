"""The parts of a conversation that are more than one step, and the versions of a producer."""

from typing import NamedTuple

from tests.compared.transactions.data_steps import Fetch
from tests.compared.transactions.step import Step


class Versions(NamedTuple):
    """The versions that a producer speaks, first and last."""

    produce: tuple[int, int]
    commit_offsets: tuple[int, int]
    end: tuple[int, int]
    adds: bool


OLD = Versions((3, 11), (0, 4), (0, 4), adds=True)
NEW = Versions((12, 13), (5, 5), (5, 5), adds=False)
BOTH = Versions((3, 13), (0, 5), (0, 5), adds=True)


class WaitingFetch(NamedTuple):
    """A fetch at the last stable offset, a step that may end its wait, and then its answer."""

    fetch: Fetch
    meanwhile: Step


class Timeout(NamedTuple):
    """A transaction that is left open until its time has passed."""

    before: tuple[Step, ...]
    transactional_id: str
    after: tuple[Step, ...]


Part = Step | WaitingFetch | Timeout
