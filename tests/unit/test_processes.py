"""Child processes: what is waited for, how they end, what is left, and what members write."""

import signal
import sys
from pathlib import Path

import pytest

from coterie.processes import Child, Children, ProcessFailed
from coterie.processes.lines import FileReader, Writer
from coterie.processes.member.application import ranges_of
from coterie.processes.member_process import member_command

SLEEP = (sys.executable, "-c", "print('awake', flush=True); import time; time.sleep(60)")
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)",
    "print('up', flush=True)",
    "time.sleep(60)",
)


def test_no_process_is_left_even_if_it_is_stopped(tmp_path: Path) -> None:
    with Children(tmp_path) as children:
        running = children.start("running", SLEEP)
        stopped = children.start("stopped", SLEEP)
        stopped.signal(signal.SIGSTOP)
        assert running.running
    assert not running.running
    assert not stopped.running


def test_log_of_a_process_that_ends_is_shown(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "print('no such thing')"]
    with Children(tmp_path) as children:
        child = children.start("server", command)
        ended = r"server ended with exit code 0\. Its log ends:\nno such thing"
        with pytest.raises(ProcessFailed, match=ended):
            child.wait_for_port(("127.0.0.1", 1))
        # It was printed before the end; after it there is nothing.
        assert child.wait_for_line("no (such)")[1] == "such"
        with pytest.raises(ProcessFailed, match="exit code 0"):
            child.wait_for_line("thing")


def test_process_that_does_not_end_is_killed(tmp_path: Path) -> None:
    command = (sys.executable, "-c", "\n".join(STUBBORN))
    child = Child("The server", command, tmp_path / "log")
    child.wait_for_line("up")
    with pytest.raises(ProcessFailed, match=r"was still running after 0\.2 s\. Its log ends:\nup"):
        child.end(limit_s=0.2)
    assert not child.running


def test_what_is_not_ready_in_time_or_cannot_be_run_is_an_error(tmp_path: Path) -> None:
    child = Child("The server", SLEEP, tmp_path / "log")
    child.wait_for_line("awake")
    with pytest.raises(ProcessFailed, match=r"did not respond within 0\.1 s"):
        child.wait_for_answer(("127.0.0.1", 1), limit_s=0.1)
    assert child.kill() == -signal.SIGKILL
    with pytest.raises(ProcessFailed, match=r"/no/such can't be started: No such file"):
        Child("The server", ["/no/such"], tmp_path / "log")


def test_offset_that_was_not_delivered_is_in_no_range() -> None:
    records = [("t", 0, 5), ("t", 0, 6), ("t", 0, 9), ("t", 1, 10), ("u", 1, 11), ("t", 0, 10)]
    assert ranges_of(records) == [
        ("t", 0, 5, 6), ("t", 0, 9, 9), ("t", 1, 10, 10), ("u", 1, 11, 11), ("t", 0, 10, 10),
    ]  # fmt: skip


def test_lines_are_read_once_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "member.jsonl"
    writer, reader = Writer(str(path)), FileReader(path)
    writer.write_at(1, "assigned", partitions=[["t", 0]])
    (line,) = reader.new_lines()
    assert (line.at_us, line.member, line.event) == (1, "member", "assigned")
    assert line.partitions == [("t", 0)]
    with path.open("ab") as file:
        file.write(b'{"at":2,"ev')
    assert reader.new_lines() == []
    with path.open("ab") as file:
        file.write(b'ent":"closed"}\n')
    assert [each.event for each in reader.new_lines()] == ["closed"]
    writer.close()


def test_options_of_a_member_become_words() -> None:
    options = {"topic": ["t", "u"], "instance": None, "auto_commit": True, "poll_gap_ms": 0.0}
    words = ["--topic=t", "--topic=u", "--auto-commit", "--poll-gap-ms=0.0"]
    assert member_command(options)[3:] == words
    assert member_command({"auto_commit": False})[3:] == []
