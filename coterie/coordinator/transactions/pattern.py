r"""Regular expressions that match in linear time, for filters that clients send.

Python's own expressions take exponential time for some patterns, and a client would hold the event
loop with one. Kafka uses RE2, so this is the part of RE2's syntax that ids need: alternatives,
groups, classes, `.`, anchors, the repetitions `* + ? {m,n}` and the classes `\d \w \s`. Everything
else is refused as invalid. RE2 refuses references and look-around, too [transactions/patterns].

A pattern becomes a graph of states, and a text is followed through all of them at once.
"""

from typing import NamedTuple

# As in RE2.
_MAX_REPEAT = 1_000
# The most states of a pattern; each costs time for every character.
_MAX_STATES = 10_000
# The most groups within each other.
_MAX_DEPTH = 100
_LAST_CHARACTER = 0x10FFFF

_DIGITS = [(0x30, 0x39)]
_SPACES = [(0x09, 0x0A), (0x0C, 0x0D), (0x20, 0x20)]
_WORDS = [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)]
_CLASSES = {"d": _DIGITS, "s": _SPACES, "w": _WORDS}
_CONTROLS = {"t": 9, "n": 10, "f": 12, "r": 13}
_ANY = [(0, 9), (11, _LAST_CHARACTER)]

Ranges = list[tuple[int, int]]


class InvalidPattern(ValueError):  # noqa: N818 - it describes the pattern
    """A text is not a regular expression, or is one that is not supported."""


class _State:
    """A state: it takes a character of `ranges`, or goes on without one to each of `following`.

    Attributes:
        ranges: the characters that it takes; None if it takes none.
        following: the next states.
        anchor: "^" or "$" if it may be passed only at the beginning or the end; otherwise "".
    """

    __slots__ = ("anchor", "following", "ranges")

    def __init__(self, ranges: Ranges | None = None, anchor: str = "") -> None:
        self.ranges = ranges
        self.anchor = anchor
        self.following: list[_State] = []


class _Part(NamedTuple):
    """A part of the graph with one entry and one exit."""

    first: _State
    last: _State


class _Tree(NamedTuple):
    """A part of a pattern.

    Attributes:
        kind: "set", "anchor", "join", "or" or "repeat".
        ranges: of a set.
        anchor: of an anchor.
        parts: what is joined, tried or repeated.
        least, most: how often; without a limit `most` is None.
    """

    kind: str
    ranges: Ranges
    anchor: str
    parts: "list[_Tree]"
    least: int = 0
    most: int | None = None


class Pattern:
    """A regular expression.

    Attributes:
        states: how many states it has; each costs time for every character of a text.
    """

    __slots__ = ("_accepting", "_start", "states")

    def __init__(self, text: str) -> None:
        """Compile a pattern.

        Raises:
            InvalidPattern: it is none, or has too many states.
        """
        self.states = 0
        part = self._build(_Parser(text).parsed())
        self._start, self._accepting = part.first, part.last

    def matches(self, text: str) -> bool:
        """Return whether the whole text matches."""
        end = len(text)
        current = _reachable([self._start], at_start=True, at_end=end == 0)
        for position, character in enumerate(text, 1):
            code = ord(character)
            following = [
                state.following[0]
                for state in current
                if state.ranges is not None
                and any(first <= code <= last for first, last in state.ranges)
            ]
            if not following:
                return False
            current = _reachable(following, at_start=False, at_end=position == end)
        return self._accepting in current

    # -- from the tree to the graph ----------------------------------------------------------------

    def _state(self, ranges: Ranges | None = None, anchor: str = "") -> _State:
        self.states += 1
        if self.states > _MAX_STATES:
            raise InvalidPattern("the pattern is too large")
        return _State(ranges, anchor)

    def _build(self, tree: _Tree) -> _Part:
        if tree.kind == "set" or tree.kind == "anchor":
            first = self._state(tree.ranges if tree.kind == "set" else None, tree.anchor)
            last = self._state()
            first.following.append(last)
            return _Part(first, last)
        if tree.kind == "join":
            return self._join([self._build(each) for each in tree.parts])
        if tree.kind == "or":
            first, last = self._state(), self._state()
            for each in tree.parts:
                part = self._build(each)
                first.following.append(part.first)
                part.last.following.append(last)
            return _Part(first, last)
        return self._repeat(tree)

    def _join(self, parts: list[_Part]) -> _Part:
        first = last = self._state()
        for part in parts:
            last.following.append(part.first)
            last = part.last
        return _Part(first, last)

    def _repeat(self, tree: _Tree) -> _Part:
        assert tree.kind == "repeat", "a tree is of one of the five kinds"
        assert tree.most is None or tree.least <= tree.most, "a repetition has ordered bounds"
        (repeated,) = tree.parts
        parts = [self._build(repeated) for _ in range(tree.least)]
        if tree.most is None:
            part = self._build(repeated)
            first, last = self._state(), self._state()
            first.following += [part.first, last]
            part.last.following.append(first)
            return self._join([*parts, _Part(first, last)])
        skip = self._state()
        for _ in range(tree.most - tree.least):
            part = self._build(repeated)
            first = self._state()
            first.following += [part.first, skip]
            parts.append(_Part(first, part.last))
        joined = self._join(parts)
        joined.last.following.append(skip)
        return _Part(joined.first, skip)


def _reachable(states: list[_State], *, at_start: bool, at_end: bool) -> set[_State]:
    """Return states, and those that follow them without a character."""
    found: set[_State] = set()
    waiting = list(states)
    while waiting:
        state = waiting.pop()
        if state in found:
            continue
        if (state.anchor == "^" and not at_start) or (state.anchor == "$" and not at_end):
            continue
        found.add(state)
        if state.ranges is None:
            waiting += state.following
    return found


class _Parser:
    """Reads a pattern."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def parsed(self) -> _Tree:
        """Return the whole pattern as a tree."""
        tree = self._alternatives()
        assert self._depth == 0, "each group that was opened is closed"
        if self._at < len(self._text):
            raise InvalidPattern("unexpected )")
        return tree

    def _peek(self) -> str:
        return self._text[self._at] if self._at < len(self._text) else ""

    def _take(self) -> str:
        character = self._peek()
        if not character:
            raise InvalidPattern("the pattern ends too early")
        self._at += 1
        return character

    def _takes(self, text: str) -> bool:
        if not self._text.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _alternatives(self) -> _Tree:
        found = [self._sequence()]
        while self._takes("|"):
            found.append(self._sequence())
        return _Tree("or", [], "", found)

    def _sequence(self) -> _Tree:
        found: list[_Tree] = []
        while self._peek() not in ("", "|", ")"):
            found.append(self._repeated(self._atom()))
        return _Tree("join", [], "", found)

    def _repeated(self, tree: _Tree) -> _Tree:
        count: tuple[int, int | None] | None
        if self._takes("*"):
            count = 0, None
        elif self._takes("+"):
            count = 1, None
        elif self._takes("?"):
            count = 0, 1
        else:
            count = self._counts()
        if count is None:
            return tree
        # Which repetition is preferred does not matter where the whole text has to match.
        self._takes("?")
        if self._peek() in ("*", "+", "?"):
            raise InvalidPattern("a repetition of a repetition")
        least, most = count
        return _Tree("repeat", [], "", [tree], least, most)

    def _counts(self) -> tuple[int, int | None] | None:
        """Return the bounds of `{m}`, `{m,}` or `{m,n}`; None for a brace that is a character."""
        if self._peek() != "{":
            return None
        end = self._text.find("}", self._at)
        least, comma, most = self._text[self._at + 1 : max(end, self._at + 1)].partition(",")
        if not _is_number(least) or not (most == "" or _is_number(most)):
            return None
        assert end > self._at, "a repetition ends behind its beginning"
        self._at = end + 1
        low = int(least)
        high = None if comma and not most else int(most or least)
        if low > _MAX_REPEAT or (high is not None and not low <= high <= _MAX_REPEAT):
            raise InvalidPattern("bad repetition")
        return low, high

    def _atom(self) -> _Tree:
        character = self._take()
        if character == "(":
            return self._group()
        if character == "[":
            return _Tree("set", self._class(), "", [])
        if character == ".":
            return _Tree("set", _ANY, "", [])
        if character in "^$":
            return _Tree("anchor", [], character, [])
        if character in "*+?":
            raise InvalidPattern("nothing to repeat")
        if character == "\\":
            return _Tree("set", self._escaped(), "", [])
        return _Tree("set", [(ord(character), ord(character))], "", [])

    def _group(self) -> _Tree:
        if self._peek() == "?" and not self._takes("?:"):
            raise InvalidPattern("only plain groups are supported")
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise InvalidPattern("too many groups within each other")
        tree = self._alternatives()
        if not self._takes(")"):
            raise InvalidPattern("missing )")
        self._depth -= 1
        return tree

    def _escaped(self) -> Ranges:
        character = self._take()
        if character.lower() in _CLASSES:
            ranges = _CLASSES[character.lower()]
            return _all_but(ranges) if character.isupper() else ranges
        if character in _CONTROLS:
            return [(_CONTROLS[character], _CONTROLS[character])]
        if character.isalnum():
            raise InvalidPattern(f"\\{character} is not supported")
        return [(ord(character), ord(character))]

    def _class(self) -> Ranges:
        negated = self._takes("^")
        ranges: Ranges = []
        is_first = True
        while is_first or self._peek() != "]":
            is_first = False
            first = self._class_member()
            if first[0][0] != first[-1][1] or self._peek() != "-" or self._is_last_dash():
                ranges += first
                continue
            self._take()
            last = self._class_member()
            if last[0][0] != last[-1][1] or last[0][0] < first[0][0]:
                raise InvalidPattern("bad range in a class")
            ranges.append((first[0][0], last[0][0]))
        self._take()
        assert ranges, "a class has a member"
        return _all_but(ranges) if negated else ranges

    def _is_last_dash(self) -> bool:
        return self._text.startswith("-]", self._at)

    def _class_member(self) -> Ranges:
        character = self._take()
        if character == "\\":
            return self._escaped()
        if character == "[" and self._peek() == ":":
            raise InvalidPattern("named classes are not supported")
        return [(ord(character), ord(character))]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len(str(_MAX_REPEAT))


def _all_but(ranges: Ranges) -> Ranges:
    """Return the characters that are in none of the ranges."""
    found: Ranges = []
    begin = 0
    for first, last in sorted(ranges):
        if first > begin:
            found.append((begin, first - 1))
        begin = max(begin, last + 1)
    if begin <= _LAST_CHARACTER:
        found.append((begin, _LAST_CHARACTER))
    return found
