"""What the consumers for tests share: connections, the coordinator, commits, the end."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from typing import TypeVar

from coterie.address import Address
from coterie.assignors.model import TopicPartition
from coterie.client.mechanisms import Credentials
from coterie.protocol.errors import ErrorCode
from coterie.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from coterie.protocol.messages.offset_commit import OffsetCommitRequest
from coterie.protocol.messages.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopic
from coterie.protocol.wire import Message
from tests.client_check.reading import Reader
from tests.client_check.wire import Link, Lost

R = TypeVar("R", bound=Message)

COMMIT_S = 5.0
BACKOFF_S = 0.1
LOOK_UP = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Fatal(Exception):  # noqa: N818 - ends the program
    """An error that repeating does not cure."""


class Program(ABC):
    """A program with one consumer.

    Attributes:
        group_id, topic, client_id, bootstrap: of its command.
        flaws: what it does wrong, a word for each.
        reader: what it does with its partitions.
        stopped: is set to end it.
        errors: what it has printed on its standard error.
    """

    def __init__(
        self, values: dict[str, str], printed: Callable[[str], object], flaws: Iterable[str]
    ) -> None:
        self.flaws = frozenset(flaws)
        self.group_id = values["group"]
        self.topic = values["topic"]
        self.client_id = values["client_id"]
        self.bootstrap = Address.parse(values["bootstrap"])
        self._login = _credentials(values) if "password" in values else None
        self.errors: list[str] = []
        self.reader = Reader(self, printed)
        self.stopped = asyncio.Event()
        self._links: list[Link] = []
        self._coordinator: Link | None = None

    # --- what a protocol is -----------------------------------------------------------------------

    @abstractmethod
    def loops(self) -> list[Callable[[], Coroutine[None, None, None]]]:
        """Return what runs until the end, besides reading and commits."""

    @abstractmethod
    async def leave(self) -> None:
        """Leave the group, if it is a member that leaves."""

    @abstractmethod
    def handle(self, error: int) -> None:
        """Do what an error of the coordinator demands.

        Raises:
            Fatal: nothing can be done.
        """

    @property
    @abstractmethod
    def may_commit(self) -> bool:
        """Whether it is a member that commits from time to time."""

    @abstractmethod
    def commit_request(
        self,
        offsets: Mapping[TopicPartition, int],
        version: int,
        topic_ids: Mapping[str, bytes] | None = None,
    ) -> OffsetCommitRequest:
        """Return a commit."""

    def offsets_of(self, topics: list[OffsetFetchRequestTopic]) -> OffsetFetchRequestGroup:
        """Return what OffsetFetch asks for."""
        return OffsetFetchRequestGroup(group_id=self.group_id, topics=topics)

    # --- the program ------------------------------------------------------------------------------

    async def run(self) -> int:
        """Consume until `stopped` is set; return the exit code."""
        try:
            return await self._run()
        finally:
            for link in self._links:
                link.close()

    async def _run(self) -> int:
        loops = [self.reader.fetches, self._commits, self._stop, *self.loops()]
        tasks = [asyncio.create_task(each()) for each in loops]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.wait(tasks)
        for each in done:
            error = None if each.cancelled() else each.exception()
            if isinstance(error, Fatal):
                return 1
            if error is not None:
                raise error
        with suppress(Lost, TimeoutError):
            await self.reader.commit()
            await self.leave()
        return 0

    async def _stop(self) -> None:
        await self.stopped.wait()

    async def _commits(self) -> None:
        while True:
            await asyncio.sleep(COMMIT_S)
            while self.may_commit:
                try:
                    if await self.reader.commit():
                        break
                except Lost:
                    pass
                await asyncio.sleep(BACKOFF_S)

    async def try_commit(self) -> None:
        """Commit what was read, if the coordinator can be reached."""
        with suppress(Lost):
            await self.reader.commit()

    # --- the coordinator --------------------------------------------------------------------------

    async def coordinator(self) -> Link:
        """Return the connection to the coordinator, which is looked up if it is not known."""
        while self._coordinator is None:
            link = await self.open(self.bootstrap)
            request = FindCoordinatorRequest(key=self.group_id, coordinator_keys=[self.group_id])
            try:
                response = await link.ask(request, FindCoordinatorResponse)
            finally:
                link.close()
            found = response.coordinators[0] if response.coordinators else response
            if found.error_code:
                await asyncio.sleep(BACKOFF_S)
            else:
                self._coordinator = await self.open(Address(found.host, found.port))
        return self._coordinator

    async def open(self, address: Address) -> Link:
        """Open a connection."""
        link = Link(self.flaws, self.client_id, self._login, self.report)
        self._links.append(link)
        await link.open(address.host, address.port)
        return link

    def report(self, error: str) -> None:
        """Print a line on the standard error."""
        if "says-nothing" not in self.flaws:
            self.errors.append(error)

    def forget_coordinator(self) -> None:
        """Look the coordinator up before the next request."""
        if self._coordinator is not None:
            self._coordinator.close()
        self._coordinator = None

    async def ask_coordinator(self, request: Message, response: type[R]) -> R:
        """Return the response of the coordinator; a lost connection is made again later."""
        try:
            link = await self.coordinator()
            return await link.ask(request, response)
        except Lost:
            self.forget_coordinator()
            if "joins-anew-when-cut" in self.flaws:
                with suppress(Lost):
                    await self.leave()
                self.handle(ErrorCode.UNKNOWN_MEMBER_ID)
            raise


def _credentials(values: Mapping[str, str]) -> Credentials:
    return Credentials(values["mechanism"], values["username"], values["password"])
