"""Read numbers at many positions of a buffer at once, with numpy.

The functions take an array of positions and return an array of values. Reads behind the last byte
give zeros instead of an exception. Callers compare the ends of fields with the limits afterwards,
and discard the values of records whose lengths are damaged.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Int64s = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

# A varint of 64 bits has at most ten bytes.
_MAX_VARINT_SHIFT = 63
# The largest item that is read at one position is a batch header.
_WIDEST_BYTES = 64
_WITHOUT_SIGN = np.int64(0x7FFFFFFFFFFFFFFF)


class Varints(NamedTuple):
    """Values, the positions after them, and which of them had more than ten bytes."""

    values: Int64s
    after: Int64s
    overlong: Bools | None


class Buffer:
    """Bytes from which numbers are read at many positions at once."""

    __slots__ = ("_last", "_views", "data", "octets")

    def __init__(self, data: bytes) -> None:
        """Wrap `data`, which is not copied unless it is shorter than the largest item."""
        self.data = data
        padded = data if len(data) >= _WIDEST_BYTES else data + bytes(_WIDEST_BYTES)
        self.octets = np.frombuffer(padded, np.uint8)
        self._last = len(padded) - 1
        self._views: dict[int, npt.NDArray[Any]] = {}

    def __len__(self) -> int:
        return len(self.data)

    def read(self, dtype: str, positions: Int64s) -> Int64s:
        """Read the big-endian integers of numpy type `dtype` (such as ">i4") at the positions."""
        return self.read_as(np.dtype(dtype), positions).astype(np.int64)

    def read_as(self, dtype: np.dtype[Any], positions: Int64s) -> npt.NDArray[Any]:
        """Read items of a fixed size at the positions, in the type in which they are stored."""
        view = self._views.get(dtype.itemsize)
        if view is None:
            # An item begins at every byte: the strides overlap, and nothing is copied. The item
            # type is void because numpy copies plain bytes several times faster than structures.
            count = max(self._last + 2 - dtype.itemsize, 0)
            view = np.ndarray((count,), f"V{dtype.itemsize}", self.octets, strides=(1,))
            self._views[dtype.itemsize] = view
        try:
            return view[positions].view(dtype)
        except IndexError:
            return self._read_near_end(view, positions).view(dtype)

    def _read_near_end(self, view: npt.NDArray[Any], positions: Int64s) -> npt.NDArray[Any]:
        """Read items of which some reach behind the last byte; zeros are read there."""
        count = len(view)
        values = view[np.clip(positions, 0, count - 1)]
        beyond = positions >= count
        padded = np.concatenate([self.octets[count:], np.zeros(_WIDEST_BYTES, np.uint8)])
        last = len(self.octets) - count
        near = np.ndarray((last + 1,), view.dtype, padded, strides=(1,))
        values[beyond] = near[np.minimum(positions[beyond] - count, last)]
        return values

    def bytes_at(self, positions: Int64s) -> Int64s:
        """Read the unsigned bytes at the positions."""
        return self.octets.take(positions, mode="clip").astype(np.int64)

    def unsigned_varints(self, positions: Int64s) -> Varints:
        """Read unsigned varints: seven bits per byte, low bits first."""
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
        """Read signed varints, which are zigzag-encoded."""
        rest, after, overlong = self.unsigned_varints(positions)
        signs = rest & 1
        rest >>= 1
        rest &= _WITHOUT_SIGN
        if signs.any():
            rest ^= -signs
        return Varints(rest, after, overlong)
