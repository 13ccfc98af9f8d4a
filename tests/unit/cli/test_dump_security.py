"""`coterie dump security`: what is kept, and no key of it."""

import json
from pathlib import Path

from click.testing import CliRunner

from coterie.cli.main import main
from coterie.protocol.messages.security_records import encode_security_record
from coterie.storage.record_file import security_log
from coterie.storage.system_files import system_files
from tests.unit.protocol.test_security_records import GOLDEN


def test_records_are_shown_without_secrets(tmp_path: Path) -> None:
    log = security_log(system_files(), str(tmp_path), durable=True)
    for record, _ in GOLDEN:
        log.append([encode_security_record(record)], now_ms=0)
    log.close()
    result = CliRunner().invoke(main, ["dump", "security", str(tmp_path), "--json"])
    assert result.exit_code == 0, result.output
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["record"] for row in rows] == [
        "UserScramCredential",
        "RemoveUserScramCredential",
        "AccessControlEntry",
        "RemoveAccessControlEntry",
        "DelegationToken",
        "RemoveDelegationToken",
    ]
    assert rows[0] == {
        "offset": 0,
        "record": "UserScramCredential",
        "name": "fixed",
        "mechanism": 1,
        "salt": "[hidden]",
        "stored_key": "[hidden]",
        "server_key": "[hidden]",
        "iterations": 4096,
    }
    assert rows[2]["principal"] == "User:alice"
    assert rows[4]["token_id"] == "[hidden]"
    lines = CliRunner().invoke(main, ["dump", "security", f"{tmp_path}/coterie.security-0"]).output
    assert lines.startswith("UserScramCredential  offset=0  name=fixed  mechanism=1")
    for secret in ("8891dfa0", "f098b847", "123salty", "31323373", "=token"):
        assert secret not in result.output + lines


def test_a_missing_or_damaged_file_is_an_error(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["dump", "security", str(tmp_path)])
    assert result.exit_code == 1
    assert "No such file" in result.output
    log = security_log(system_files(), str(tmp_path), durable=True)
    log.append([encode_security_record(GOLDEN[0][0])], now_ms=0)
    log.close()
    file = tmp_path / "coterie.security-0"
    file.write_bytes(file.read_bytes()[:-3] + b"xyz")
    result = CliRunner().invoke(main, ["dump", "security", str(tmp_path)])
    assert result.exit_code == 1
    assert "is damaged" in result.output
