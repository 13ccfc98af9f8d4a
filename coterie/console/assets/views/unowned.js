// How long partitions were without owner, from the history of their group.
import { barsOf } from '/shared/ownership.js';

// Milliseconds without owner between two times, by the name of the partition. The time before the first
// owner that is known does not count: the history may begin later than the group.
export function unownedBy(group, from, to) {
  const found = new Map();
  barsOf(group).forEach((bars, lane) => {
    if (!bars.length) return;
    let sum = 0, owned = Math.max(from, bars[0].from);
    for (const bar of bars) {
      sum += Math.max(0, Math.min(bar.from, to) - owned);
      owned = Math.max(owned, bar.to ?? to);
    }
    found.set(group.lanes[lane], sum + Math.max(0, to - owned));
  });
  return found;
}
