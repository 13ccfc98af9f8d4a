// Sizes of bytes as text.
import { UNKNOWN } from '/shared/words.js';

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

export function size(bytes) {
  if (bytes === null || bytes === undefined) return UNKNOWN;
  let value = bytes, unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${unit ? value.toFixed(1) : value} ${UNITS[unit]}`;
}
