// The rebalances of the last hour or day, by group. Events have those of 15 minutes, so older ones are asked for
// once, and what the events have had since is kept.
import { get } from '/api.js';
import { HOUR } from '/shared/words.js';

// `draw` is called when the answer is there; `failed` with the error if there is none.
export function olderRebalances(draw, failed) {
  const known = new Map();
  let stop = null, windowMs = HOUR;

  function add(group, strip) {
    const marks = known.get(group) || new Map();
    for (const mark of strip || []) marks.set(mark[0], mark);
    known.set(group, marks);
  }

  return {
    // Ask for everything of so many milliseconds, for the first time or after a break of the events.
    async read(ms) {
      windowMs = ms;
      if (stop) stop.abort();
      const { signal } = stop = new AbortController();
      try {
        for (const { group, strip } of (await get(`/api/rebalances?hours=${windowMs / HOUR}`, signal)).groups) {
          // What came by events meanwhile is newer.
          const newer = known.get(group) || new Map();
          known.delete(group);
          add(group, strip);
          add(group, [...newer.values()]);
        }
        draw();
      } catch (error) {
        if (!signal.aborted) failed(error);
      }
    },
    // Take an event `groups`.
    update({ changed, removed }) {
      for (const row of changed) add(row.group, row.strip);
      for (const name of removed) known.delete(name);
    },
    // The marks of a row, those of its own strip among them.
    of(row) {
      add(row.group, row.strip);
      const begin = Date.now() - windowMs, marks = known.get(row.group);
      for (const [from, mark] of marks) if ((mark[1] ?? Date.now()) < begin) marks.delete(from);
      return [...marks.values()].sort((one, other) => one[0] - other[0]);
    },
    forget() {
      if (stop) stop.abort();
      known.clear();
    },
  };
}
