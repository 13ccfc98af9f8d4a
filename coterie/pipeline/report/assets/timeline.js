// The rebalances of all groups over time: a strip with their number, which always covers the whole
// time and in which the chosen part is marked, and a row for each group.
import { rowsOf, when } from '/shared/data.js';
import { causeKind, keysOf, markReplaced, nearest, rebalanceTip, shadeSilences } from '/shared/marks.js';
import { inside, label, plot } from '/shared/plot.js';
import { range } from '/shared/time.js';
import { colour, el } from '/shared/view.js';
import { both, counted, grouped } from '/shared/words.js';

export const FIRST_GROUPS = 20;
const ROW = 18, STRIP = 40, BUCKET = 4;

export function timeline(data, open) {
  const every = data.groups.filter(group => group.rebalances && group.rebalances.length);
  let shown = Math.min(FIRST_GROUPS, every.length);
  const moments = every.flatMap(group => rowsOf(group).rebalances.map(when)).filter(at => at !== null);

  function drawStrip({ context, top, left, right, height, from, to, x }) {
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

  const room = width => Math.min(width < 600 ? 100 : 200,
    Math.max(60, ...every.slice(0, shown).map(group => group.id.length * 6.4 + 14)));
  const strip = plot({
    label: () => `${counted(moments.length, 'rebalance')} of all groups over time`,
    height: () => STRIP, left: room, span: () => data.whole, draw: drawStrip,
    hit: (x, y, frame) => x < frame.left ? null
      : { lines: [`${counted(countAt(moments, frame, x), 'rebalance')}`, both(frame.at(x))] },
  });

  function draw(frame) {
    const { context, top, left, right, from, to, x } = frame;
    every.slice(0, shown).forEach((group, n) => {
      const y = top + n * ROW;
      label(context, group.id || '(empty name)', left - 8, y + 11, left - 10);
      context.fillStyle = colour('panel');
      context.fillRect(left, y, right - left, ROW - 4);
    });
    inside(frame, () => shadeSilences(frame, data.silences));
    every.slice(0, shown).forEach((group, n) => {
      const y = top + n * ROW;
      inside(frame, () => {
        for (const row of rowsOf(group).rebalances) {
          const at = when(row), end = row.completed === null ? at : row.completed;
          if (at === null || at > to || end < from) continue;
          [, context.fillStyle] = causeKind(row.cause);
          context.fillRect(x(at) - 1, y, Math.max(2.5, x(end) - x(at)), ROW - 4);
        }
        markReplaced(frame, group, y - 2, ROW);
      });
    });
  }

  function hit(x, y, frame, near) {
    const group = every.slice(0, shown)[Math.floor((y - frame.top) / ROW)];
    if (!group || y < frame.top) return null;
    const row = nearest(rowsOf(group).rebalances.filter(each => when(each) !== null), x, frame, near);
    return { lines: row ? [group.id, ...rebalanceTip(group, row)] : [group.id,
      counted(group.rebalances.length, 'rebalance')], pick: () => open(group) };
  }

  const rows = plot({
    label: () => `Rebalances of ${counted(shown, 'group')} over time`,
    height: () => shown * ROW, left: room, span: () => range || data.whole, draw, hit,
  });
  const kinds = new Set(every.flatMap(group => rowsOf(group).rebalances.map(row => causeKind(row.cause))));
  const keys = keysOf([...kinds]);
  const all = shown < every.length ? el('button', { type: 'button', onclick: () => {
    shown = every.length;
    all.remove();
    strip.paint();
    rows.paint();
  } }, `Show all ${grouped(every.length)} groups`) : null;
  return el('div', { class: 'timeline' }, strip.element, rows.element, keys, all);
}

function countAt(moments, { x }, place) {
  return moments.filter(at => Math.abs(x(at) - place) <= BUCKET / 2 + 1).length;
}
