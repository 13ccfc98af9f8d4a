// The rebalances of all groups over time: a strip with their number, which always covers the whole
// time and in which the chosen part is marked, and a lane for each group.
import { rowsOf, when } from '/shared/data.js';
import { rebalanceTip } from '/shared/marks.js';
import { label, plot } from '/shared/plot.js';
import { stripRoom, strips } from '/shared/strips.js';
import { range } from '/shared/time.js';
import { colour, el } from '/shared/view.js';
import { both, counted } from '/shared/words.js';

export const FIRST_GROUPS = 20;
const STRIP = 40, BUCKET = 4;

export function timeline(data, open) {
  const every = data.groups.filter(group => group.rebalances && group.rebalances.length)
    .map(group => ({ id: group.id, group, replaced: group.replaced, marks: rowsOf(group).rebalances }));
  const moments = every.flatMap(each => each.marks.map(when)).filter(at => at !== null);
  const first = every.slice(0, FIRST_GROUPS);
  const counts = plot({
    label: () => `${counted(moments.length, 'rebalance')} of all groups over time`,
    height: () => STRIP, left: width => stripRoom(first, width), span: () => data.whole,
    draw: frame => drawCounts(frame, moments),
    hit: (x, y, frame) => x < frame.left ? null
      : { lines: [`${counted(countAt(moments, frame, x), 'rebalance')}`, both(frame.at(x))] },
  });
  const rows = strips({
    lanes: () => every, most: FIRST_GROUPS, span: () => range || data.whole, when,
    silences: () => data.silences, lines: (lane, row) => rebalanceTip(lane.group, row), open,
  });
  return el('div', { class: 'timeline' }, counts.element, rows.element);
}

function drawCounts({ context, top, left, right, height, from, to, x }, moments) {
  const counts = new Array(Math.ceil((right - left) / BUCKET)).fill(0);
  for (const at of moments)
    counts[Math.min(counts.length - 1, Math.max(0, Math.floor((x(at) - left) / BUCKET)))]++;
  const most = Math.max(1, ...counts);
  context.fillStyle = colour('link');
  counts.forEach((count, n) => {
    const high = count / most * (height - top - 4);
    context.fillRect(left + n * BUCKET, height - high, BUCKET - 1, high);
  });
  label(context, `${most}`, left - 6, top + 8, left);
  if (!range) return;
  const begin = Math.max(left, x(Math.max(from, range[0]))), end = Math.min(right, x(Math.min(to, range[1])));
  context.fillStyle = colour('shade');
  context.fillRect(begin, top - 4, Math.max(2, end - begin), height);
  context.strokeStyle = colour('link');
  context.strokeRect(begin, top - 4, Math.max(2, end - begin), height - top + 4);
}

function countAt(moments, { x }, place) {
  return moments.filter(at => Math.abs(x(at) - place) <= BUCKET / 2 + 1).length;
}
