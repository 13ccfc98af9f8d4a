// Marks on drawings: what caused a rebalance and its tip, silences, members that were replaced.
import { unitOf, when } from './data.js';
import { colour, el, memberText } from './view.js';
import { UNKNOWN, both, counted, duration, grouped } from './words.js';

const CAUSES = [
  // Which of both it was is not known.
  ['leave or expiry', '#cc79a7', cause => cause === 'leave or expiry'],
  ['expiry', '#d55e00', cause => cause.includes('expir') && !cause.includes('leave')],
  ['leave', '#e69f00', cause => cause.includes('leave') || cause.includes('left')],
  ['join', '#0072b2', cause => cause === 'join'],
  ['other', '#8a6fb0', () => true],
];

export function causeKind(cause) {
  return CAUSES.find(([, , fits]) => fits(cause));
}

// What the colours of some causes mean.
export function keysOf(kinds) {
  return el('div', { class: 'keys' }, ...CAUSES.filter(each => kinds.includes(each)).map(([name, fill]) => {
    const box = el('i');
    box.style.background = fill;
    return el('span', {}, box, name);
  }));
}

export function rebalanceTip(group, row) {
  const by = row.by === null ? '' : ` by ${memberText(group, row.by)}`;
  const change = [['joined', '+'], ['left', '−'], ['replaced', '=']].flatMap(([name, sign]) =>
    row[name].slice(0, 4).map(each => `${sign} ${memberText(group, each)}`));
  return [
    `${row.cause}${by}, ${unitOf(row)} ${row.toGeneration === null ? UNKNOWN : row.toGeneration}`,
    both(when(row)),
    `took ${duration(row.duration)}, without owner ${duration(row.unowned)} over all partitions`,
    `moved ${grouped(row.moved)} (needed ${grouped(row.needed)}), ${counted(row.members || 0, 'member')}`,
    change.join(', '),
    row.reason || '',
  ];
}

// A triangle that points down to a time.
export function triangle(context, x, y) {
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x - 5, y - 8);
  context.lineTo(x + 5, y - 8);
  context.fill();
}

// The rebalance whose beginning is nearest to a pixel, if it is near enough.
export function nearest(rows, x, frame, near) {
  let found = null;
  for (const row of rows) {
    const distance = Math.abs(frame.x(when(row)) - x);
    if (distance <= near && (!found || distance < Math.abs(frame.x(when(found)) - x))) found = row;
  }
  return found;
}

// Shade the times in which nothing was recorded of any group. What follows is working time.
export function shadeSilences({ context, top, height, from, to, x }, silences) {
  context.fillStyle = colour('outage');
  for (const [begin, end] of silences)
    if (begin <= to && end >= from)
      context.fillRect(x(begin), top - 4, Math.max(3, x(end) - x(begin)), height);
}

// Mark when the members of a group were replaced, over a part of the height.
export function markReplaced({ context, from, to, x }, group, top, height) {
  context.fillStyle = colour('alarm');
  for (const at of group.replaced.filter(each => each >= from && each <= to))
    context.fillRect(x(at) - 1, top, 3, height);
}
