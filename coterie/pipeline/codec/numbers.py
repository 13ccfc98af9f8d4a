"""Reading numbers at many positions of a buffer at once, with numpy.

A position array in, a value array out. Behind the last byte zeros are read: the callers compare
ends with what is allowed and discard what came of such reads, so a damaged length costs a wrong
number that nobody uses and never an exception.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# A varint of 64 bits has ten bytes at most; what is longer is no varint.
_MAX_VARINT_SHIFT = 63
# The most that is read at one position: a batch header.
_WIDEST_BYTES = 64
_WITHOUT_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)


class Varints(NamedTuple):
    """Values, the positions after them, and which of them had more than ten bytes."""

    values: Int64s
    after: Int64s
    overlong: Bools | None


class Buffer:
    """Bytes that numbers are read from at many positions at once."""

    __slots__ = ("_last", "_views", "data", "octets")

    def __init__(self, data: bytes) -> None:
        """Make the views over `data`, which is not copied unless it is shorter than a number."""
        self.data = data
        padded = data if len(data) >= _WIDEST_BYTES else data + bytes(_WIDEST_BYTES)
        self.octets = np.frombuffer(padded, np.uint8)
        self._last = len(padded) - 1
        self._views: dict[int, npt.NDArray[Any]] = {}

    def __len__(self) -> int:
        return len(self.data)

    def read(self, dtype: str, positions: Int64s) -> Int64s:
        """The big-endian integers of numpy type `dtype` (such as ">i4") at the positions."""
        return self.read_as(np.dtype(dtype), positions).astype(np.int64)

    def read_as(self, dtype: np.dtype[Any], positions: Int64s) -> npt.NDArray[Any]:
        """Whatever of a fixed size stands at the positions, as it stands there."""
        view = self._views.get(dtype.itemsize)
        if view is None:
            # One value begins at every byte: the strides overlap, nothing is copied. Numpy copies
            # bytes without a meaning several times faster than structures.
            count = max(self._last + 2 - dtype.itemsize, 0)
            view = np.ndarray((count,), f"V{dtype.itemsize}", self.octets, strides=(1,))
            self._views[dtype.itemsize] = view
        try:
            return view[positions].view(dtype)
        except IndexError:
            return self._read_near_end(view, positions).view(dtype)

    def _read_near_end(self, view: npt.NDArray[Any], positions: Int64s) -> npt.NDArray[Any]:
        """The same where some of it would stand behind the last byte: zeros are read there."""
        count = len(view)
        values = view[np.clip(positions, 0, count - 1)]
        beyond = positions >= count
        padded = np.concatenate([self.octets[count:], np.zeros(_WIDEST_BYTES, np.uint8)])
        last = len(self.octets) - count
        near = np.ndarray((last + 1,), view.dtype, padded, strides=(1,))
        values[beyond] = near[np.minimum(positions[beyond] - count, last)]
        return values

    def bytes_at(self, positions: Int64s) -> Int64s:
        """The unsigned bytes at the positions."""
        return self.octets.take(positions, mode="clip").astype(np.int64)

    def unsigned_varints(self, positions: Int64s) -> Varints:
        """Unsigned varints: seven bits a byte, low bits first."""
        values = self.bytes_at(positions)
        after = positions + 1
        more = np.flatnonzero(values > 127)
        if not more.size:
            return Varints(values, after, None)
        overlong = None
        values[more] &= 127
        shift = 7
        while more.size:
            if shift > _MAX_VARINT_SHIFT:
                overlong = np.zeros(len(values), np.bool_)
                overlong[more] = True
                break
            byte = self.bytes_at(after[more])
            values[more] |= (byte & 127) << shift
            after[more] += 1
            more = more[byte > 127]
            shift += 7
        return Varints(values, after, overlong)

    def varints(self, positions: Int64s) -> Varints:
        """Signed varints: the same, zigzag."""
        rest, after, overlong = self.unsigned_varints(positions)
        signs = rest & 1
        rest >>= 1
        rest &= _WITHOUT_SIGN
        if signs.any():
            rest ^= -signs
        return Varints(rest, after, overlong)
