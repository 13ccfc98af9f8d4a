// Ownership over time: a lane for each partition or task, a bar for each owner, a line for each rebalance.
// A gap in a lane is time without owner: that is the cost of a rebalance.
import { restartsOf, rowsOf, unitOf, when } from './data.js';
import { markReplaced, nearest, rebalanceTip, shadeSilences, triangle } from './marks.js';
import { BAR_COLOURS, inside, label, plot } from './plot.js';
import { showAround } from './time.js';
import { colour, el, memberOf, memberText } from './view.js';
import { both, counted, duration, moment } from './words.js';

const LANE = 16, BAR = 11, FIRST_LANES = 32, MOST_KEYS = 24;

export function labelRoom(names) {
  const longest = Math.max(3, ...names.map(name => name.length));
  return width => Math.min(width < 600 ? 84 : 200, Math.max(44, longest * 6.4 + 14));
}

// What was owned, by lane, in order of time.
export function barsOf(group) {
  const lanes = group.lanes.map(() => []);
  for (const [who, generation, begin, length, ...runs] of group.owned) {
    const from = begin + group.zero, to = length === null ? null : from + length;
    for (let run = 0; run < runs.length; run += 2)
      for (let lane = runs[run]; lane < runs[run] + runs[run + 1]; lane++)
        lanes[lane].push({ who, generation, from, to });
  }
  for (const bars of lanes) bars.sort((one, other) => one.from - other.from);
  return lanes;
}

// The lanes of a group over `span()`. `update` draws the group as it is now; an owner keeps its colour.
export function ownership(first, span) {
  let group, lanes, marks, restarts, owners;
  let shown = 0, isWhole = false;
  const fills = new Map(), keys = el('div', { class: 'keys' }), rest = el('p', { class: 'note' });
  const keyOf = who => group.names[who][1] || group.names[who][0];
  const fillOf = who => fills.get(keyOf(who));
  const visible = ({ from, to }) => marks.filter(row => when(row) <= to && when(row) >= from);

  function read(next) {
    group = next;
    lanes = barsOf(group);
    marks = rowsOf(group).rebalances.filter(row => when(row) !== null);
    restarts = restartsOf(group);
    shown = isWhole ? lanes.length : Math.min(FIRST_LANES, lanes.length);
    owners = [...new Set(group.owned.map(each => each[0]))];
    for (const who of owners)
      if (!fills.has(keyOf(who))) fills.set(keyOf(who), BAR_COLOURS[fills.size % BAR_COLOURS.length]);
    keys.replaceChildren(...owners.slice(0, MOST_KEYS).map(who => keyOfOwner(who)),
      owners.length > MOST_KEYS ? `and ${counted(owners.length - MOST_KEYS, 'more member')}` : '');
    showRest();
  }

  function keyOfOwner(who) {
    const box = el('i');
    box.style.background = fillOf(who);
    return el('span', {}, box, memberOf(group, who));
  }

  function showRest() {
    rest.hidden = group.laneCount <= shown;
    rest.replaceChildren(`${shown} of ${counted(group.laneCount, group.tasks ? 'lane' : 'partition')}. `,
      lanes.length > shown ? el('button', { type: 'button', onclick: showAll },
        lanes.length === group.laneCount ? 'Show all' : `Show ${lanes.length}`) : '');
  }

  function showAll() {
    isWhole = true;
    shown = lanes.length;
    showRest();
    drawing.paint();
  }

  function draw(frame) {
    const { context, top, left, height, from, to, x } = frame;
    group.lanes.slice(0, shown).forEach((name, n) =>
      label(context, name, left - 8, top + n * LANE + BAR - 1, left - 10));
    inside(frame, () => {
      shadeSilences(frame, group.silences);
      const near = visible(frame);
      for (const row of near)
        if (row.completed !== null && x(row.completed) - x(when(row)) > 2) {
          context.fillStyle = colour('shade');
          context.fillRect(x(when(row)), top - 4, x(row.completed) - x(when(row)), height);
        }
      lanes.slice(0, shown).forEach((bars, n) => {
        for (const bar of bars) {
          const end = bar.to === null ? to : bar.to;
          if (end < from || bar.from > to) continue;
          context.fillStyle = fillOf(bar.who);
          context.fillRect(x(bar.from), top + n * LANE, Math.max(0.6, x(end) - x(bar.from)), BAR);
        }
      });
      context.globalAlpha = near.length > 60 ? 0.5 : 0.9;
      for (const row of near) {
        context.strokeStyle = colour('alarm');
        context.setLineDash(row.evidence === 'journal' ? [] : [4, 3]);
        context.beginPath();
        context.moveTo(x(when(row)), top - 8);
        context.lineTo(x(when(row)), height);
        context.stroke();
      }
      context.globalAlpha = 1;
      context.setLineDash([]);
      context.fillStyle = colour('link');
      for (const { joined } of restarts) triangle(context, x(joined), top - 2);
      markReplaced(frame, group, top - 8, 8);
    });
  }

  function hit(x, y, frame, near) {
    const back = y < frame.top && restarts.find(row => Math.abs(frame.x(row.joined) - x) <= near);
    if (back) return { lines: [`${memberText(group, back.who)}: ${back.entry}`, both(back.joined)] };
    const mark = nearest(visible(frame), x, frame, near);
    if (mark) return { lines: rebalanceTip(group, mark),
      pick: () => showAround(when(mark), mark.completed) };
    const bars = lanes[Math.floor((y - frame.top) / LANE)], at = frame.at(x);
    if (!bars || y < frame.top || x < frame.left) return null;
    const bar = bars.find(each => each.from <= at && (each.to === null || each.to >= at));
    const name = group.lanes[Math.floor((y - frame.top) / LANE)];
    if (!bar) return { lines: [name, 'no owner, or not recorded', both(at)] };
    const length = bar.to === null ? `since ${both(bar.from)}`
      : `for ${duration(bar.to - bar.from)} from ${both(bar.from)}`;
    const [owner, full] = group.names[bar.who];
    const unit = unitOf(rowsOf(group).rebalances.find(row => when(row) <= bar.from));
    return { lines: [`${name}: ${owner}`, length, `${unit} ${bar.generation}`, full || ''] };
  }

  read(first);
  const drawing = plot({
    label: () => `Ownership of ${counted(shown, group.tasks ? 'lane' : 'partition')} of ${group.id} from ${
      moment(span()[0])} to ${moment(span()[1])} UTC, ${counted(marks.length, 'rebalance')}`,
    height: () => shown * LANE, left: width => labelRoom(group.lanes)(width), span, draw, hit,
  });

  function update(next) {
    read(next);
    drawing.paint();
  }

  return { element: el('div', { class: 'ownership' }, drawing.element, keys, rest), update };
}
