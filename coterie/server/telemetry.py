"""Counters of the metrics that clients have pushed [telemetry/counted]."""

from coterie.server.config.config import Config


class Telemetry:
    """What clients have pushed since the start.

    Attributes:
        is_announced: whether clients are invited to push metrics.
        instances: clients that were given an id.
        pushes, pushed_bytes: accepted pushes, and the bytes of their metrics.
    """

    def __init__(self, config: Config) -> None:
        self.is_announced = config.get_bool("telemetry.announce.enable")
        self.instances = 0
        self.pushes = 0
        self.pushed_bytes = 0
