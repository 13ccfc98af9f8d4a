"""Planted bugs about users, rules and tokens, which crashes of their stories must find."""

from tests.planting import Plant

_LOG = "coterie.server.security.security_log:"
_FILE = "coterie.storage.record_file:RecordFile."

PLANTS = (
    Plant(
        "a change of security is acknowledged before it is synced",
        f"{_LOG}SecurityLog._write",
        "if self._flush.commit:",
        "if self._flush.commit and self._file.file is None:",
        ("power:users:commit",),
    ),
    Plant(
        "the name of a new security log is not synced",
        f"{_FILE}sync",
        "self._filesystem.sync_directory(directory)",
        "pass",
        ("power:users:commit",),
    ),
    Plant(
        "the records of one change of security are several batches",
        f"{_LOG}SecurityLog._write",
        "self._file.append(values, self._environment.now_ms())",
        "[self._file.append([each], self._environment.now_ms()) for each in values]",
        ("death:rules:commit",),
    ),
    Plant(
        "a rewritten security log is not synced before it has its name",
        f"{_FILE}write_copy",
        "if self._durable:",
        "if False:",
        ("power:users:commit",),
    ),
    Plant(
        "the name of a rewritten security log is not synced",
        f"{_FILE}replace",
        "copy.next_offset, True",
        "copy.next_offset, False",
        ("power:users:commit",),
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
        "yield from self._tokens.values()",
        "yield from ()",
        ("death:tokens:commit",),
    ),
    Plant(
        "a rewrite keeps one mechanism of a user",
        "coterie.security.credentials:Credentials.records",
        "yield from mechanisms.values()",
        "yield from list(mechanisms.values())[:1]",
        ("death:users:commit",),
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
        "file.truncate(self.size_bytes)",
        "pass",
        ("death:users:commit",),
    ),
    Plant(
        "a start shows what a loss of power may still lose",
        f"{_FILE}read",
        "if self._durable and trust is not TailTrust.CLEAN and self.size_bytes:",
        "if False:",
        ("power:users:commit",),
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
        "self._filesystem.remove(self.path + COPY_SUFFIX)",
        "self._filesystem.rename(self.path + COPY_SUFFIX, self.path)",
        ("death:users:commit",),
    ),
    Plant(
        "a start takes records of the security log for damage",
        f"{_FILE}_cut",
        "why = refusal(file, self.size_bytes, size, self.next_offset, gaps=False)",
        "why = 'damaged'",
        ("death:rules:commit",),
    ),
    Plant(
        "a password is kept with the wrong key",
        "coterie.security.credentials:credential_of",
        "server_key=keys.server_key",
        "server_key=keys.stored_key",
        ("death:users:commit",),
    ),
)
