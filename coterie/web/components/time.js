// The time that all drawings and tables of rebalances of a page show.
import { SECOND } from './words.js';

// The chosen time; null for everything.
export let range = null;
let whole = null;
const watchers = new Set(), drawings = new Set();
let isScheduled = false;

// Call a function whenever the time that is shown has changed.
export function watch(watcher) {
  watchers.add(watcher);
}

// Call a function that draws whenever the time that is shown has changed, or has moved on.
export function watchTime(paint) {
  drawings.add(paint);
}

// Draw again what has an axis up to now.
export function moveOn() {
  for (const paint of drawings) paint();
}

// Forget everything that was drawn: the page shows something else now.
export function forgetTime() {
  watchers.clear();
  drawings.clear();
  range = null;
  whole = null;
}

// Say what the whole time is. While it moves on, what shows all of it moves with it.
export function setWhole(next) {
  whole = next;
}

export function redraw() {
  if (isScheduled) return;
  isScheduled = true;
  requestAnimationFrame(() => {
    isScheduled = false;
    for (const watcher of [...drawings, ...watchers]) watcher();
  });
}

export function setRange(next) {
  range = next && whole && next[1] > next[0] ? [Math.round(next[0]), Math.round(next[1])] : null;
  redraw();
}

// Show a moment with what happened shortly before and after it.
export function showAround(from, to) {
  const end = to === null ? from : to, around = Math.max((end - from) * 0.5, 5 * SECOND);
  setRange([from - around, end + around]);
}

export function inRange(from, to) {
  return !range || (from <= range[1] && (to === null ? from : to) >= range[0]);
}
