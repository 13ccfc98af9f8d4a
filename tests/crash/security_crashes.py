"""Crashes while users, access rules and delegation tokens change: what was answered is kept.

A broker starts on the disk that the crash has left. Then

- what it tells about users, rules and tokens is the state after one of the changes: not before the
  last one that was answered, and nothing of which only a part has come through;
- a password is right if it belongs to this state;
- a further change is kept over one more start, with all that was there.
"""

from coterie.security.scram import ScramKeys, keys_of, salted_password
from coterie.server.broker import Broker
from coterie.storage.record_file import SECURITY_LOG
from tests.crash.broker_run import start_broker
from tests.crash.losses import Crash
from tests.crash.restart import Wrong
from tests.crash.security_story import (
    SALT,
    SETTINGS,
    SHA_256,
    STORIES,
    State,
    admin,
    alter,
    early_rewriting,
    observed,
    password,
    record_story,
)
from tests.crash.story_crashes import StoryCrashes
from tests.unit.server.manual import loop_of

FILE = "{}-{}".format(*SECURITY_LOG)
_LAST_ITERATIONS = 5_000


class SecurityCrashes(StoryCrashes):
    """The crashes of one story of users, rules and tokens."""

    what = "security"
    stories = tuple(STORIES)
    settings = SETTINGS
    record = staticmethod(record_story)

    def allowed(self, operations: int) -> list[State]:
        """Return the states that may be found after so many operations."""
        moments = self.story.moments
        answered = [
            number
            for number, each in enumerate(moments)
            if each.answered is not None and each.answered <= operations
        ]
        return [each.state for each in moments[answered[-1] :] if each.asked <= operations]

    def check(self, crash: Crash) -> None:
        """See `StoryCrashes`."""
        with early_rewriting():
            broker = self.start_after(crash)
            found = observed(admin(broker))
            if found not in self.allowed(crash.operations):
                raise Wrong(f"{found}, where one of {self.allowed(crash.operations)} is expected")
            _check_passwords(broker, found)
            self._live_on(broker, found)

    def _live_on(self, broker: Broker, found: State) -> None:
        """Change something more, and start once more."""
        client = admin(broker)
        last = alter(("last", SHA_256, _LAST_ITERATIONS))
        client.send(last.request, last.version)
        while not (answers := client.answers()):
            client.loop.jump()
        last.effect(found, answers[0][1])
        data, loop = broker._data, loop_of(broker)
        data._lock.release()
        loop.forget()
        again = start_broker(data.files.filesystem, loop, self.settings, flush=self.story.flush)
        if observed(admin(again)) != found:
            raise Wrong(f"{observed(admin(again))} after a second start, where {found} was told")


# The password of each is hashed once.
_KEYS: dict[tuple[str, int, int], ScramKeys] = {}


def _check_passwords(broker: Broker, state: State) -> None:
    """Check that each user's password is the one of this state."""
    for (kind, *what), iterations in state.items():
        if kind != "user":
            continue
        name, mechanism = what
        key = name, mechanism, iterations
        if key not in _KEYS:
            salted = salted_password(mechanism, password(name, iterations), SALT, iterations)
            _KEYS[key] = keys_of(mechanism, salted, SALT, iterations)
        expected, kept = _KEYS[key], broker.credentials.find(name, mechanism)
        assert kept is not None, "it was described"
        if (kept.salt, kept.stored_key, kept.server_key) != (
            expected.salt,
            expected.stored_key,
            expected.server_key,
        ):
            raise Wrong(f"the password of {name} for mechanism {mechanism} is not kept")
