"""A disk that does no work before a test lets it."""

from collections.abc import Iterator

from coterie.server.workers import Done


class SlowDisk:
    """Does no work before a test lets it."""

    def __init__(self) -> None:
        self.work: list[tuple[Iterator[object], Done]] = []

    @property
    def idle(self) -> bool:
        return not self.work

    def submit(self, steps: Iterator[object], done: Done) -> None:
        self.work.append((steps, done))

    def stop(self) -> None:
        pass

    @property
    def run_all(self) -> None:
        return

    def finish(self) -> None:
        """Do the work that was submitted."""
        work, self.work = self.work, []
        for steps, done in work:
            try:
                list(steps)
            except OSError as error:
                done(error)
            else:
                done(None)
