"""Planted bugs about users, rules and tokens, which crashes of their stories must find.

A text is replaced where one of several steps of a function is left out or takes a wrong value.
"""

from typing import Any

from coterie.storage.record_file import COPY_SUFFIX
from tests.faults import Function, Of, answers, calling, does_nothing, given, keeps
from tests.planting import Plant

_LOG = "coterie.server.security.security_log:"
_FILE = "coterie.storage.record_file:RecordFile."


def _one_by_one(append: Function) -> Function:
    """Append each value as a batch of its own."""

    def run(file: Any, values: list[bytes], now_ms: int) -> None:
        for each in values:
            append(file, [each], now_ms)

    return run


def _takes_its_place(_: Function) -> Function:
    """Give a copy the name of its original in place of removing it."""
    return lambda filesystem, path: filesystem.rename(path, path.removesuffix(COPY_SUFFIX))


def _one_of_each_user(records: Function) -> Function:
    """Give the first record of each user."""

    def run(credentials: Any) -> Any:
        found: dict[str, Any] = {}
        for each in records(credentials):
            found.setdefault(each.name, each)
        return found.values()

    return run


PLANTS = (
    Plant(
        "a change of security is acknowledged before it is synced",
        f"{_LOG}SecurityLog._write",
        fault=given({"self._flush.commit": False}),
        kinds=("power:users:commit",),
    ),
    Plant(
        "the name of a new security log is not synced",
        f"{_FILE}sync",
        fault=calling("tests.crash.disk:RecordingFileSystem.sync_directory", does_nothing),
        kinds=("power:users:commit",),
    ),
    Plant(
        "the records of one change of security are several batches",
        f"{_LOG}SecurityLog._write",
        fault=calling(f"{_FILE}append", _one_by_one),
        kinds=("death:rules:commit",),
    ),
    Plant(
        "a rewritten security log is not synced before it has its name",
        f"{_FILE}write_copy",
        fault=calling("tests.crash.disk:RecordingFile.sync", does_nothing),
        kinds=("power:users:commit",),
    ),
    Plant(
        "the name of a rewritten security log is not synced",
        f"{_FILE}replace",
        fault=keeps("self._has_unsynced_name"),
        kinds=("power:users:commit",),
    ),
    Plant(
        "a change during a rewrite goes to the old file",
        f"{_LOG}SecurityLog.append",
        "if self._busy and self._file.failure is None:",
        "if self._syncing and self._file.failure is None:",
        ("death:tokens:never",),
    ),
    Plant(
        "a rewrite leaves out the change that has brought it about",
        f"{_LOG}SecurityLog.append",
        "for each in records:",
        "self._rewrite_if_needed()\n    for each in records:",
        ("death:users:never",),
    ),
    Plant(
        "a rewrite leaves out the tokens",
        "coterie.security.delegation_tokens:DelegationTokens.records",
        fault=answers(()),
        kinds=("death:tokens:commit",),
    ),
    Plant(
        "a rewrite keeps one mechanism of a user",
        "coterie.security.credentials:Credentials.records",
        fault=_one_of_each_user,
        kinds=("death:users:commit",),
    ),
    Plant(
        "a rewrite writes deleted rules again",
        "coterie.security.acl_store:AclStore.remove",
        "del self.ids[acl]",
        "self.ids[acl] = acl_id",
        ("death:rules:commit",),
    ),
    Plant(
        "deleted rules are logged by another id",
        "coterie.server.authorization.access:Access.change",
        "RemoveAccessControlEntryRecord(id=acls.ids[each])",
        "RemoveAccessControlEntryRecord(id=self._new_id())",
        ("death:rules:commit",),
    ),
    Plant(
        "an incomplete end of the security log stays",
        f"{_FILE}_cut",
        fault=calling("tests.crash.disk:RecordingFile.truncate", does_nothing),
        kinds=("death:users:commit",),
    ),
    Plant(
        "a start shows what a loss of power may still lose",
        f"{_FILE}read",
        fault=calling(f"{_FILE}sync", does_nothing),
        kinds=("power:users:commit",),
    ),
    Plant(
        "a start trusts the name of the security log",
        f"{_FILE}read",
        "self._has_unsynced_name = trust is not TailTrust.CLEAN",
        "pass",
        ("power:rules:commit",),
    ),
    Plant(
        "an incomplete copy of the security log takes its place",
        f"{_FILE}read",
        fault=calling("tests.crash.disk:RecordingFileSystem.remove", _takes_its_place),
        kinds=("death:users:commit",),
    ),
    Plant(
        "a start takes records of the security log for damage",
        f"{_FILE}_cut",
        fault=calling("coterie.storage.torn_tail:refusal", answers("damaged")),
        kinds=("death:rules:commit",),
    ),
    Plant(
        "a password is kept with the wrong key",
        "coterie.security.credentials:credential_of",
        fault=given({"keys.server_key": Of("keys.stored_key")}),
        kinds=("death:users:commit",),
    ),
)
