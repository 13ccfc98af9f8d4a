// Numbers, durations and times as text. Times are shown in UTC, and in the reader's own time zone
// where that differs.
export const UNKNOWN = '?';
export const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;

export function grouped(value) {
  return value === null || value === undefined ? UNKNOWN : value.toLocaleString('en-GB');
}

export function counted(count, noun) {
  return `${grouped(count)} ${noun}${count === 1 ? '' : 's'}`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return UNKNOWN;
  if (ms < SECOND) return `${Math.round(ms)} ms`;
  if (ms < MINUTE) return `${(ms / SECOND).toFixed(1)} s`;
  const seconds = Math.round(ms / SECOND), minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${String(seconds % 60).padStart(2, '0')} s`;
  return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, '0')} min`;
}

// A duration of which only a part may be known.
export function atLeast(ms, isComplete) {
  return ms === null || isComplete ? duration(ms) : `≥ ${duration(ms)}`;
}

export function short(value) {
  for (const [unit, letter] of [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']])
    if (Math.abs(value) >= unit) return `${(value / unit).toFixed(1)} ${letter}`;
  return Number.isInteger(value) ? String(value) : value.toFixed(1);
}

// The reader's offset from UTC at a time, in milliseconds.
export function offset(at) {
  return -new Date(at).getTimezoneOffset() * MINUTE;
}

export function zone(at) {
  const minutes = Math.abs(offset(at)) / MINUTE;
  const rest = minutes % 60 ? `:${String(minutes % 60).padStart(2, '0')}` : '';
  return `UTC${offset(at) < 0 ? '−' : '+'}${Math.floor(minutes / 60)}${rest}`;
}

export function moment(at) {
  return at === null || at === undefined ? 'unknown'
    : new Date(at).toISOString().slice(0, 23).replace('T', ' ');
}

export function local(at) {
  return `${moment(at + offset(at))} ${zone(at)}`;
}

// The reader's time below a time in UTC: without the day, if that is the same.
export function localBelow(at) {
  const text = local(at);
  return text.startsWith(moment(at).slice(0, 10)) ? text.slice(11) : text;
}

// A time in full, in UTC and in the reader's own zone.
export function both(at) {
  return offset(at) ? `${moment(at)} UTC, ${local(at)}` : `${moment(at)} UTC`;
}

// The label of a time on an axis of this length.
export function clock(at, span) {
  const text = new Date(at).toISOString(), day = new Date(at).toLocaleDateString('en-GB',
    { day: 'numeric', month: 'short', timeZone: 'UTC' });
  if (span > 3 * DAY) return day;
  if (span > DAY) return `${day} ${text.slice(11, 16)}`;
  if (span > 10 * MINUTE) return text.slice(11, 16);
  return span > 10 * SECOND ? text.slice(11, 19) : text.slice(11, 23);
}

export const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5,
  9e5, 18e5, 36e5, 72e5, 108e5, 216e5, 432e5, DAY, 2 * DAY, 7 * DAY, 30 * DAY, 90 * DAY];

// At most `most` round times between two times.
export function ticks(from, to, most) {
  const step = STEPS.find(each => (to - from) / each <= most) || STEPS[STEPS.length - 1];
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}
