// Sizes of bytes, and what is written in a second, as text.
import { UNKNOWN, short } from '/shared/words.js';

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

export function isKnown(rate) {
  return rate !== null && rate !== undefined;
}

// "12.3 records/s, 1.2 KiB/s" of a topic or of all; nothing while it is not known.
export function written({ records_per_s: records, bytes_per_s: bytes }) {
  return [isKnown(records) ? `${short(records)} records/s` : '', isKnown(bytes) ? `${size(Math.round(bytes))}/s` : '']
    .filter(Boolean).join(', ');
}
