"""All changes that a console can make."""

from coterie.console.changes import groups, offsets, settings, topics, transactions
from coterie.console.changes.verb import Verb

VERBS: tuple[Verb, ...] = (
    *offsets.VERBS,
    *groups.VERBS,
    *topics.VERBS,
    *settings.VERBS,
    *transactions.VERBS,
)
