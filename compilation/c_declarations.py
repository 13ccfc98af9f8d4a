"""The declarations of a C file: those of the headers of all modules that the file needs.

mypyc declares what all modules have in two headers of some 3 MB, which every file includes. Reading
them takes a compiler longer than most files, and each change of a class would change every file. So
a file gets its own copy of the declarations that it names, and of those that these name.
"""

import re
from collections.abc import Iterable, Iterator

# Every name that mypyc declares begins like this, except `..._free_instance`, which has a type
# that does.
_NAME = re.compile(r"CPy\w+|coterie___\w+|tuple_T\w+")
_INCLUDE = re.compile(r'^#include ["<](?!__native)[^">]+[">]\n', re.MULTILINE)
_INCLUDED_HEADERS = re.compile(r'^#include "__native[^"]+"\n', re.MULTILINE)
# A tuple, which mypyc's own header may declare too; the type of a class; or a line. What follows
# the end of a line is found nine times as fast as what begins one.
_DECLARATION = re.compile(
    r"\n(?:#ifndef MYPYC_DECLARED_(?P<tuple>\w+)\n.*?\n#endif(?=\n)"
    r"|typedef struct \{\n.*?\n\} (?P<type>\w+);(?=\n)"
    r"|(?P<line>(?:RUNS_ONCE )?(?:extern|int) [^\n]*);(?=\n))",
    re.DOTALL,
)
# A private attribute, which C has with one underscore more.
_PRIVATE = re.compile(r"^ {4}\w[^\n(]*\b(__[a-z]\w*);\n", re.MULTILINE)
# Each module has constants of its own (`c_literals`).
_LEFT_OUT = re.compile(r"CPyStatics|CPyLit_\w+")


class Declarations:
    """The declarations of two headers, by name."""

    def __init__(self, *headers: str) -> None:
        self._texts: dict[str, str] = {}
        # The order of the headers: what others name comes before them.
        self._places: dict[str, int] = {}
        self._needs: dict[str, set[str]] = {}
        includes = dict.fromkeys(line for text in headers for line in _INCLUDE.findall(text))
        self.includes = "".join(includes)
        for header in headers:
            for name, text in _declarations(header):
                self._add(name, text)

    def _add(self, name: str, text: str) -> None:
        if _LEFT_OUT.fullmatch(name):
            return
        named = set(_NAME.findall(text))
        if not _NAME.fullmatch(name):
            # It is declared wherever its type is.
            (name,) = (each for each in named if each in self._texts)
            self._texts[name] += text
            return
        # Each module declares the tuples that it has.
        if name in self._texts:
            return
        self._texts[name] = text
        self._places[name] = len(self._places)
        self._needs[name] = named - {name}

    def needed_by(self, source: str) -> str:
        """Return the text of the declarations that a C file needs."""
        needed: set[str] = set()
        named: Iterable[str] = set(_NAME.findall(source))
        while named:
            found = {name for name in named if name in self._texts} - needed
            needed |= found
            named = {other for name in found for other in self._needs[name]}
        return "".join(self._texts[name] for name in sorted(needed, key=self._places.__getitem__))

    def completed(self, source: str) -> str:
        """Return a C file with the declarations that it needs in place of the headers."""
        text, count = _INCLUDED_HEADERS.subn("", source)
        assert count == 2, f"{count} headers of mypyc are included, not 2"
        declared = self.needed_by(text)
        # Some are macros of a system: macOS has `__cold` and `__single`.
        free = "".join(f"#undef {name}\n" for name in sorted(set(_PRIVATE.findall(declared))))
        return f"{self.includes}\n{free}{declared}\n{text}"


def _declarations(header: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each declaration of a header."""
    for found in _DECLARATION.finditer("\n" + header):
        declared = found["tuple"] or found["type"]
        if declared is None:
            # Before the arguments of a function, or the size of a table.
            before = found["line"].partition("(")[0].partition("[")[0]
            declared = before.rpartition(" ")[2].lstrip("*")
            assert declared.isidentifier(), found[0]
        yield declared, found[0][1:] + "\n"
