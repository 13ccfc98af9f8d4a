"""Mutations of frames as fuzzers of wire formats make them, with numbers that often cause bugs."""

import random

# Counts, lengths and offsets at which bugs are likely.
_NUMBERS = (0, 1, -1, 2, 127, 128, 255, 256, 32767, 32768, 65535, 2**31 - 1, -(2**31), 1_000_000)
_VARINTS = (b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\xff\xff", b"\x80\x80\x80\x80\x10", b"\x80")
# The number of mutations of a frame: mostly one, because each makes it less likely that the frame
# still reaches a handler.
_COUNTS = (0, 1, 1, 1, 1, 1, 2, 2, 3, 5)
# Kinds of mutation: changing a value is more frequent than shifting the rest of the frame.
_KINDS = (0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 4, 5, 6, 7, 8)


class Mutator:
    """Mutates frames, reproducibly for a seed."""

    def __init__(self, corpus: list[bytes], seed: int) -> None:
        self._corpus = corpus
        self._random = random.Random(seed)

    def next(self) -> bytes:
        """Return a mutated frame of the corpus; its length is mostly correct."""
        body = self.changed(self._random.choice(self._corpus)[4:], self._random.choice(_COUNTS))
        length = len(body)
        if self._random.random() < 0.02:
            length = self._random.choice(_NUMBERS)
        return (length & 0xFFFFFFFF).to_bytes(4) + body

    def changed(self, body: bytes, count: int) -> bytes:
        """Return bytes after so many mutations."""
        mutated = bytearray(body)
        for _ in range(count):
            mutated = self._mutate(mutated)
        return bytes(mutated)

    def _mutate(self, body: bytearray) -> bytearray:
        chance = self._random
        if not body:
            return bytearray(chance.randbytes(chance.randint(0, 30)))
        # Mutating the header of 10 bytes too often would never reach a body.
        first = 0 if chance.random() < 0.05 else min(10, len(body) - 1)
        at = chance.randrange(first, len(body))
        kind = chance.choice(_KINDS)
        if kind == 0:
            body[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            body[at] = chance.choice((0, 1, 2, 127, 128, 254, 255))
        elif kind == 2:
            size = chance.choice((1, 2, 4, 8))
            number = chance.choice(_NUMBERS) & (1 << 8 * size) - 1
            body[at : at + size] = number.to_bytes(size)
        elif kind == 3:
            del body[at:]
        elif kind == 4:
            body[at:at] = chance.randbytes(chance.randint(1, 8))
        elif kind == 5:
            del body[at : at + chance.randint(1, 8)]
        elif kind == 6:
            other = chance.choice(self._corpus)
            cut = chance.randrange(4, len(other))
            body[at:] = other[cut:]
        elif kind == 7:
            size = chance.randint(1, 40)
            body[at:at] = body[at : at + size] * chance.randint(1, 20)
        else:
            body[at : at + 1] = chance.choice(_VARINTS)
        return body
