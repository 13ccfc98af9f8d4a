// Ownership over time: a lane for each partition, a bar for each owner, a line for each rebalance.
// A gap in a lane is time without owner: that is the cost of a rebalance.
const LANE = 16, BAR = 11, FIRST_LANES = 32;

function labelRoom(names) {
  const longest = Math.max(3, ...names.map(name => name.length));
  return width => Math.min(width < 600 ? 84 : 200, Math.max(44, longest * 6.4 + 14));
}

// What was owned, by lane, in order of time.
function barsOf(group) {
  const lanes = group.lanes.map(() => []);
  for (const [who, generation, begin, length, ...runs] of group.owned) {
    const from = begin + ZERO, to = length === null ? null : from + length;
    for (let run = 0; run < runs.length; run += 2)
      for (let lane = runs[run]; lane < runs[run] + runs[run + 1]; lane++)
        lanes[lane].push({ who, generation, from, to });
  }
  for (const bars of lanes) bars.sort((one, other) => one.from - other.from);
  return lanes;
}

function ownership(group, span) {
  const lanes = barsOf(group), rows = rowsOf(group).rebalances;
  let shown = Math.min(FIRST_LANES, lanes.length);
  const owners = [...new Set(group.owned.map(each => each[0]))];
  const fills = new Map(owners.map((who, n) => [who, BAR_COLOURS[n % BAR_COLOURS.length]]));
  const marks = rows.filter(row => when(row) !== null);
  const restarts = restartsOf(group);
  const visible = ({ from, to }) => marks.filter(row => when(row) <= to && when(row) >= from);

  function draw(frame) {
    const { context, top, left, height, from, to, x } = frame;
    group.lanes.slice(0, shown).forEach((name, n) =>
      label(context, name, left - 8, top + n * LANE + BAR - 1, left - 10));
    inside(frame, () => {
      shadeSilences(frame);
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
          context.fillStyle = fills.get(bar.who);
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

  const drawing = plot({
    label: () => `Ownership of ${counted(shown, 'partition')} of ${group.id} from ${
      moment(span()[0])} to ${moment(span()[1])} UTC, ${counted(marks.length, 'rebalance')}`,
    height: () => shown * LANE, left: labelRoom(group.lanes), span, draw, hit,
  });
  const keys = el('div', { class: 'keys' }, ...owners.slice(0, 24).map(who =>
    el('span', {}, el('i', { style: `background:${fills.get(who)}` }), memberOf(group, who))),
  owners.length > 24 ? `and ${counted(owners.length - 24, 'more member')}` : null);
  const rest = group.laneCount > shown ? el('p', { class: 'note' },
    `${shown} of ${counted(group.laneCount, 'partition')}. `) : null;
  if (rest && lanes.length > shown)
    rest.append(el('button', { type: 'button', onclick: () => {
      shown = lanes.length;
      rest.replaceChildren(`${shown} of ${counted(group.laneCount, 'partition')}.`);
      drawing.paint();
    } }, lanes.length === group.laneCount ? 'Show all' : `Show ${lanes.length}`));
  return el('div', { class: 'ownership' }, drawing.element, keys, rest);
}

// A triangle that points down to a time.
function triangle(context, x, y) {
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x - 5, y - 8);
  context.lineTo(x + 5, y - 8);
  context.fill();
}

// The rebalance whose beginning is nearest to a pixel, if it is near enough.
function nearest(rows, x, frame, near) {
  let found = null;
  for (const row of rows) {
    const distance = Math.abs(frame.x(when(row)) - x);
    if (distance <= near && (!found || distance < Math.abs(frame.x(when(found)) - x))) found = row;
  }
  return found;
}

// Values over time as a line of steps; null interrupts it.
function chart(title, [first, step, values], span) {
  const start = first + ZERO;
  const shown = ({ from, to }) => values.map((value, n) => [start + n * step, value])
    .filter(([at]) => at + step >= from && at <= to);

  function draw(frame) {
    const { context, top, left, right, height, x } = frame, points = shown(frame);
    const known = points.map(([, value]) => value).filter(value => value !== null);
    context.textAlign = 'left';
    context.fillStyle = colour('soft');
    if (!known.length) return context.fillText('unknown', left + 8, top + 40);
    const low = Math.min(0, ...known), high = Math.max(1, ...known);
    const y = value => height - 6 - (value - low) / (high - low) * (height - top - 14);
    context.strokeStyle = colour('line');
    for (const level of [low, (low + high) / 2, high]) {
      context.beginPath();
      context.moveTo(left, y(level));
      context.lineTo(right, y(level));
      context.stroke();
      label(context, short(level), left - 6, y(level) + 4, left);
    }
    inside(frame, () => {
      context.strokeStyle = colour('link');
      context.lineWidth = 1.6;
      context.beginPath();
      let isOpen = false;
      for (const [at, value] of points) {
        if (value !== null) {
          if (isOpen) context.lineTo(x(at), y(value));
          else context.moveTo(x(at), y(value));
          context.lineTo(x(at + step), y(value));
        }
        isOpen = value !== null;
      }
      context.stroke();
    });
    return undefined;
  }

  function hit(x, y, frame) {
    const number = Math.floor((frame.at(x) - start) / step);
    if (x < frame.left || number < 0 || number >= values.length) return null;
    const value = values[number] === null ? 'unknown' : grouped(values[number]);
    return { lines: [`${title}: ${value}`, both(start + number * step), `over ${duration(step)}`] };
  }

  const drawing = plot({ label: () => title, height: () => 130, left: () => 62, span, draw, hit });
  return el('div', {}, el('p', { class: 'note' }, title), drawing.element);
}
