"""The quotas of a broker: stored values, and which of them counts for a client.

Invariant: a change is in the file of settings before it is in memory.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from coterie.server.config.config import Config
from coterie.server.metadata.settings_file import SettingsFile
from coterie.server.metadata.stored_settings import QuotaEntity
from coterie.server.metadata.topic_changes import Change
from coterie.server.quotas.checks import QuotaChange
from coterie.server.quotas.throttling import Throttling
from coterie.server.workers import once

# They are in memory and in one file, so their number has a bound [quotas/entities].
MAX_ENTITIES = 10_000


class TooManyQuotas(Exception):  # noqa: N818 - a refusal is an answer, not a failure of the server
    """A change would make the number of entities with quotas exceed its limit."""


class ClientQuotas:
    """The quotas of all entities.

    Attributes:
        throttling: counts what clients do.
        when_changed: functions that are called after quotas were changed.
    """

    def __init__(self, settings: SettingsFile, config: Config) -> None:
        """Take the stored quotas."""
        self._settings = settings
        self.throttling = Throttling(config)
        self.throttling.take(self.all())
        self.when_changed: list[Callable[[], None]] = []

    def all(self) -> Iterable[tuple[QuotaEntity, Mapping[str, float]]]:
        """Return the entities with their quotas by key."""
        return self._settings.stored.quotas.items()

    def change(self, changes: Mapping[QuotaEntity, Sequence[QuotaChange]]) -> Change[None]:
        """Set and remove quotas that the caller has checked.

        Raises:
            TooManyQuotas: too many entities would have quotas.
            OSError: they could not be stored, and are not changed.
        """
        quotas = {entity: dict(values) for entity, values in self.all()}
        for entity, each in changes.items():
            values = quotas.setdefault(entity, {})
            for key, value in each:
                if value is None:
                    values.pop(key, None)
                else:
                    values[key] = value
            if not values:
                del quotas[entity]
        if len(quotas) > MAX_ENTITIES:
            raise TooManyQuotas(f"At most {MAX_ENTITIES} entities may have quotas.")
        if quotas != self._settings.stored.quotas:
            yield once(partial(self._settings.set_quotas, quotas))
            self.throttling.take(self.all())
            for call in self.when_changed:
                call()
