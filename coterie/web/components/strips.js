// The rebalances of many groups over time: a lane for each group, a mark for each rebalance.
import { causeKind, keysOf, markReplaced, nearest, shadeSilences } from './marks.js';
import { inside, label, plot } from './plot.js';
import { colour, el } from './view.js';
import { counted } from './words.js';

const ROW = 18;

// Arguments:
//   lanes     returns the groups from top to bottom: { id, name, replaced: times, marks: [{ started, completed,
//             cause, isUnowned: whether partitions had no owner }] }; a mark begins at `when(mark)`
//   most      how many groups are shown before all are asked for
//   span      the time to draw
//   silences  returns times in which nothing was recorded
//   when      the time at which a mark is drawn
//   lines     of the tip of a mark
//   open      opens a group
export function strips({ lanes, most, span, silences, when, lines, open }) {
  let every = lanes(), isWhole = false;
  const keys = el('div'), rest = el('p', { class: 'note' });
  const shown = () => isWhole ? every : every.slice(0, most);

  function draw(frame) {
    const { context, top, left, right } = frame;
    shown().forEach((group, n) => {
      label(context, group.id || '(empty name)', left - 8, top + n * ROW + 11, left - 10);
      context.fillStyle = colour('panel');
      context.fillRect(left, top + n * ROW, right - left, ROW - 4);
    });
    inside(frame, () => {
      shadeSilences(frame, silences());
      shown().forEach((group, n) => drawLane(frame, group, top + n * ROW));
    });
  }

  function drawLane(frame, group, y) {
    const { context, from, to, x } = frame;
    for (const mark of group.marks) {
      const at = when(mark), end = mark.completed === null ? at : mark.completed;
      if (at === null || at > to || end < from) continue;
      if (mark.isUnowned) {
        context.fillStyle = colour('outage');
        context.fillRect(x(at), y, Math.max(3, x(end) - x(at)), ROW - 4);
      }
      [, context.fillStyle] = causeKind(mark.cause);
      context.fillRect(x(at) - 1, y, mark.isUnowned ? 2.5 : Math.max(2.5, x(end) - x(at)), ROW - 4);
    }
    markReplaced(frame, group, y - 2, ROW);
  }

  function hit(x, y, frame, near) {
    const group = shown()[Math.floor((y - frame.top) / ROW)];
    if (!group || y < frame.top) return null;
    const mark = nearest(group.marks.filter(each => when(each) !== null), x, frame, near);
    return { lines: mark ? [group.id, ...lines(group, mark)]
      : [group.id, counted(group.marks.length, 'rebalance')], pick: () => open(group) };
  }

  const drawing = plot({
    label: () => `Rebalances of ${counted(shown().length, 'group')} over time`,
    height: () => shown().length * ROW, left: width => stripRoom(shown(), width), span, draw, hit,
  });

  // Draw the groups as they are now.
  function update() {
    every = lanes();
    const found = new Set(every.flatMap(group => group.marks.map(mark => causeKind(mark.cause))));
    keys.replaceChildren(keysOf([...found]));
    rest.hidden = shown().length >= every.length;
    rest.replaceChildren(el('button', { type: 'button', onclick: () => { isWhole = true; update(); } },
      `Show all ${counted(every.length, 'group')}`));
    drawing.paint();
  }

  update();
  return { element: el('div', {}, drawing.element, keys, rest), update };
}

// The room for the names of groups, of the width.
export function stripRoom(groups, width) {
  return Math.min(width < 600 ? 100 : 200, Math.max(60, ...groups.map(group => group.id.length * 6.4 + 14)));
}
