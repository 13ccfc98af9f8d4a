"""The table of every API, version and missing right: a file with Kafka's answers.

    python -m tests.compared.access.table 127.0.0.1:21700 [--rewrite]

sends the cases to a Kafka and prints what differs from the file, or writes it.
`tests/unit/server/test_access_of_kafka.py` sends them to our broker.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from coterie.address import Address
from coterie.security.acl import ANY_HOST, Acl, PatternType, Permission
from tests.compared.access.cases import GROUPS, IDS, Case, cases
from tests.compared.access.sides import KafkaSide, Side

PATH = Path(__file__).parents[2] / "golden" / "access" / "4.3.1.txt"
_CREATED = ["t1", "t2", "t8", "t9"]
_RIGHTS = "# "


def prepare(side: Side, all_cases: list[Case]) -> None:
    """Make what the cases are about, and give each client its rights."""
    keys = [(0, each) for each in GROUPS] + [(1, each) for each in IDS]
    side.begin(_CREATED, keys)
    for group in ("g1", "g2"):
        request = (
            f"p0> OffsetCommit v9 group_id={group} generation_id_or_member_epoch=-1"
            ' member_id="" topics=[{name: t1, partitions: [{partition_index: 0,'
            ' committed_offset: 3, committed_metadata: ""}]},'
            " {name: t2, partitions: [{partition_index: 0, committed_offset: 3,"
            ' committed_metadata: ""}]}]'
        )
        side.set_rules([_acl("User:p0", operation, kind) for operation, kind in ((2, 2), (2, 3))])
        side.answer(request)
    side.set_rules(
        Acl(
            kind, name, PatternType.LITERAL, f"User:{case.client}", ANY_HOST, operation,
            Permission.ALLOW,
        )
        for case in all_cases
        for operation, kind, name in case.rights
    )  # fmt: skip


def _acl(principal: str, operation: int, kind: int) -> Acl:
    return Acl(kind, "*", PatternType.LITERAL, principal, ANY_HOST, operation, Permission.ALLOW)


def conversation(side: Side) -> Iterator[str]:
    """Yield the lines of the file, with the answers of a broker."""
    all_cases = list(cases())
    prepare(side, all_cases)
    for case in all_cases:
        rights = ", ".join(f"{kind.name} {what.name} {name}" for what, kind, name in case.rights)
        yield f"{_RIGHTS}{case.client}: {rights or 'nothing'}"
        for line in case.lines:
            yield line
            yield side.answer(line)


def main() -> None:
    """Send the cases to a Kafka."""
    parser = argparse.ArgumentParser()
    parser.add_argument("address", type=Address.parse)
    parser.add_argument("--rewrite", action="store_true")
    options = parser.parse_args()
    with KafkaSide(options.address) as side:
        found = list(conversation(side))
    if options.rewrite:
        PATH.write_text("".join(f"{each}\n" for each in found), encoding="utf-8")
        return
    expected = PATH.read_text(encoding="utf-8").splitlines()
    pairs = zip(expected, found, strict=True)
    different = [(old, new) for old, new in pairs if old != new]
    for old, new in different:
        print(f"file  {old}\nKafka {new}")
    print(f"{len(different)} answers differ")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
