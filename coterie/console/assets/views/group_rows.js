// The order in which groups are listed. It changes only when the reader does not point at the list:
// a row never moves away under a pointer or a focus.
import { compare } from '/shared/tables.js';

// The columns that can be sorted: a title, the value that orders, and whether large values come first.
export const ORDERS = {
  group: { title: 'Group', value: row => row.group },
  state: { title: 'State', value: row => row.state },
  members: { title: 'Members', value: row => row.members, number: true },
  partitions: { title: 'Partit.', value: row => row.partitions, number: true },
  lag: { title: 'Lag', value: row => row.lag, number: true },
  records_per_s: { title: 'Records/s', value: row => row.records_per_s, number: true },
  catch_up_s: { title: 'Caught up in', value: row => row.catch_up_s, number: true },
  rebalances_1h: { title: 'Rebal./h', value: row => row.rebalances_1h, number: true },
  last: { title: 'Last rebalance', value: row => row.last_rebalance && row.last_rebalance.at_ms, number: true },
  strip: { title: '15 minutes', value: null },
  last_commit_ms: { title: 'Last commit', value: row => row.last_commit_ms, number: true },
};

export class GroupRows {
  constructor() {
    this.rows = new Map();
    // The names in the order in which they are shown, and those that are gone but hold their place.
    this.names = [];
    this.gone = new Set();
    this.order = null;
    this.direction = 1;
    this.filter = '';
    this.state = '';
    // Whether the reader points at the list, and whether the order would be another one.
    this.isHeld = false;
    this.isLate = false;
  }

  // Take rows that changed and names that are gone; return the names whose state or past is another one.
  update({ changed, removed }, isWhole) {
    const news = [];
    if (isWhole) {
      const names = new Set(changed.map(row => row.group));
      for (const name of this.rows.keys()) if (!names.has(name)) this.gone.add(name);
    }
    for (const row of changed) {
      const before = this.rows.get(row.group);
      if (before && isNews(before, row)) news.push(row.group);
      this.rows.set(row.group, row);
      this.gone.delete(row.group);
    }
    for (const name of removed) if (this.rows.has(name)) this.gone.add(name);
    this.arrange();
    return news;
  }

  // Put the names in order, or say that they are not while the order is held.
  arrange() {
    const fresh = this.sorted();
    if (!this.isHeld) {
      for (const name of this.gone) this.rows.delete(name);
      this.gone.clear();
      this.names = fresh;
      this.isLate = false;
      return;
    }
    const shown = new Set(this.names);
    this.names.push(...fresh.filter(name => !shown.has(name)));
    this.isLate = this.gone.size > 0 || fresh.some((name, n) => this.names[n] !== name);
  }

  hold(isHeld) {
    if (this.isHeld === isHeld) return;
    this.isHeld = isHeld;
    if (!isHeld) this.arrange();
  }

  // Sort again although the reader points at the list: the reader has asked for it.
  again() {
    const { isHeld } = this;
    this.isHeld = false;
    this.arrange();
    this.isHeld = isHeld;
  }

  sortBy(name) {
    const { number } = ORDERS[name];
    this.direction = this.order === name ? -this.direction : number ? -1 : 1;
    this.order = name;
    this.again();
  }

  find(filter, state) {
    this.filter = filter;
    this.state = state;
    this.again();
  }

  sorted() {
    const found = [...this.rows.values()].filter(row => !this.gone.has(row.group) && this.fits(row));
    const value = this.order ? ORDERS[this.order].value : row => row.trouble || null;
    const direction = this.order ? this.direction : -1;
    return found.sort((one, other) => compare(value(one), value(other), direction)
      || compare(one.group, other.group, 1)).map(row => row.group);
  }

  fits(row) {
    return (!this.state || row.state === this.state) && row.group.toLowerCase().includes(this.filter.toLowerCase());
  }

  states() {
    const counts = new Map();
    for (const row of this.rows.values())
      if (!this.gone.has(row.group)) counts.set(row.state, (counts.get(row.state) || 0) + 1);
    return [...counts].sort((one, other) => compare(one[0], other[0], 1));
  }
}

// Whether a row says something that a reader should notice; numbers change all the time.
function isNews(before, row) {
  const at = each => each.last_rebalance ? each.last_rebalance.at_ms : null;
  return before.state !== row.state || before.members !== row.members || before.partitions !== row.partitions
    || at(before) !== at(row);
}
