// What a page shows of a group: lanes of owners, charts over the same time, and tables.
import { restartsOf, rowsOf, spanOf, unitOf, when, workOf } from './data.js';
import { chart } from './chart.js';
import { failedTable, poisonTable, sharedTable } from './deliveries.js';
import { ownership } from './ownership.js';
import { allRows, column, table } from './tables.js';
import { inRange, range, watch } from './time.js';
import { el, memberOf, memberText, nameOf, timeCell } from './view.js';
import { UNKNOWN, atLeast, counted, duration, grouped } from './words.js';

const CHARTS = ['Lag, messages', 'Progress, messages/s'];
const ABOUT_LANES = ', a bar the time of an owner, a gap the time without one, a line'
  + ' a rebalance; it is dashed if only the group’s log shows it.';
const ABOUT_COPIES = ' Standby tasks have lanes of their own: the members that keep copies.';
const ABOUT_READERS = ' Members that read a partition at the same time have lanes of their own.';
const ABOUT_RESTARTS = ' A triangle is a static member that came back without a rebalance.';

// The body of a group as `{ element, update }`. What has nothing to show is hidden; `update` shows the
// group as it is now. `without` names parts that are left out, `titles` has other titles of parts; `whole`
// returns the time that is drawn while no other is chosen.
export function groupBody(first, { without = [], titles = {}, whole = spanOf } = {}) {
  let group = first;
  const of = () => group, span = () => range || whole(group);
  const parts = PARTS.filter(([name]) => !without.includes(name)).map(([name, has, make]) => {
    const host = el('div', { hidden: true });
    return { host, has, make: () => make(of, span, titles[name]), made: null };
  });

  function update(next) {
    group = next;
    for (const part of parts) {
      part.host.hidden = !part.has(group);
      if (part.host.hidden) continue;
      if (part.made) part.made.update(group);
      else {
        part.made = part.make();
        part.host.append(...part.made.elements);
      }
    }
  }

  update(first);
  return { element: el('div', { class: 'body' }, ...parts.map(part => part.host)), update };
}

// The parts from top to bottom: a name, whether a group has it, and what makes its elements.
const PARTS = [
  ['lanes', group => group.owned.length, lanesPart],
  ['charts', group => (group.charts || []).some(Boolean), chartsPart],
  ['caused', group => rowsOf(group).caused.length, of => titled('Caused by', causedTable(of))],
  ['rebalances', group => rowsOf(group).rebalances.length, of => titled('Rebalances', rebalanceTable(of),
    () => newest(rowsOf(of()).rebalances.length, of().count, 'rebalance'))],
  ['epochs', group => rowsOf(group).bumps.length, of => titled('Epochs', bumpTable(of))],
  ['handovers', group => rowsOf(group).handovers.length,
    of => titled('Slowest handovers', handoverTable(of))],
  ['poison', group => rowsOf(group).poison.length, of => titled('Records that fail', poisonTable(of))],
  ['shared', group => rowsOf(group).shared.length, of => titled('Share partitions', sharedTable(of))],
  ['failed', group => rowsOf(group).failed.length,
    of => titled('Newest deliveries not accepted', failedTable(of))],
  ['members', group => rowsOf(group).members.length, (of, span, title = 'Members') => titled(title, memberTable(of),
    () => newest(rowsOf(of()).members.length, of().memberCount, 'member'))],
  ['partitions', group => rowsOf(group).partitions.length, of => titled('Partitions', partitionTable(of))],
  ['tasks', group => rowsOf(group).tasks.length, of => titled('Tasks', taskTable(of))],
];

function lanesPart(of, span) {
  const note = el('p', { class: 'note' }), drawing = ownership(of(), span);
  const about = () => { note.textContent = `A lane is a ${workOf(of())}${ABOUT_LANES}`
    + (of().tasks ? ABOUT_COPIES : '') + (rowsOf(of()).shared.length ? ABOUT_READERS : '') + (restartsOf(of()).length ? ABOUT_RESTARTS : ''); };
  about();
  return { elements: [note, drawing.element], update: group => { about(); drawing.update(group); } };
}

function chartsPart(of, span) {
  const host = el('div', { class: 'charts' }), made = [];
  const absolute = ([first, step, values]) => [first + of().zero, step, values];

  function update(group) {
    CHARTS.forEach((title, n) => {
      const values = group.charts && group.charts[n];
      if (!values) return;
      if (made[n]) made[n].update(absolute(values));
      else {
        made[n] = chart(title, absolute(values), span);
        host.append(made[n].element);
      }
    });
  }

  update(of());
  return { elements: [host], update };
}

// A table with its heading, and below it what is left out.
function titled(title, made, left = () => '') {
  const note = el('p', { class: 'note' });

  function update() {
    note.textContent = left();
    note.hidden = !note.textContent;
    made.update();
  }

  note.textContent = left();
  note.hidden = !note.textContent;
  return { elements: [el('h3', {}, title), made.element, note], update };
}

function newest(shown, count, noun) {
  return count > shown ? `The newest ${grouped(shown)} of ${counted(count, noun)}.` : '';
}

// Those rows that the chosen time has, and how many there are.
function chosen(rows, fits) {
  return () => ({ found: rows().filter(fits), every: rows() });
}

function causedTable(of) {
  return table(`Who caused rebalances of ${of().id}`, [
    column('client', row => row.client, { cell: row => nameOf(row.client) }),
    column('members', row => row.members || null, { number: true }),
    column('main cause', row => row.cause),
    column('rebalances', row => row.rebalances, { number: true }),
    column('time without owner', row => row.unowned,
      { number: true, cell: row => atLeast(row.unowned, row.isComplete) }),
  ], allRows(() => rowsOf(of()).caused), 'client');
}

// In the tables `of()` is the group as it is now.
function rebalanceTable(of) {
  // Of one that has begun and not ended the phases that are over have a length.
  const isOpen = row => row.started !== null && row.completed === null;
  const time = name => ({ number: true, cell: row => row[name] === null && isOpen(row) ? 'not over' : duration(row[name]) });
  const all = () => rowsOf(of()).rebalances;
  const made = table(`Rebalances of ${of().id}`, [
    column('when', when, { time: true, cell: row => timeCell(when(row), row.completed) }),
    column([...new Set(all().map(unitOf))].sort().join(', ') || 'generation', row => row.toGeneration, { cell: generations }),
    column('cause', row => row.cause + (row.reason || ''),
      { cell: row => row.reason ? el('span', {}, `${row.cause}: `, nameOf(row.reason)) : row.cause }),
    column('caused by', row => memberText(of(), row.by), { cell: row => memberOf(of(), row.by) }),
    column('duration', row => row.duration, time('duration')),
    column('join', row => row.join, time('join')),
    column('sync', row => row.sync, time('sync')),
    column('time without owner', row => row.unowned, time('unowned')),
    column('members', row => row.members, { number: true, cell: row => membersAfter(of(), row) }),
    column('moved', row => row.moved, { number: true }),
    column('without need', row => row.moved === null || row.needed === null ? null
      : Math.max(0, row.moved - row.needed), { number: true }),
    column('evidence', row => row.evidence),
  ], chosen(all, row => inRange(when(row), row.completed)), 'rebalance');
  watch(made.update);
  return made;
}

function generations(row) {
  if (row.fromGeneration === null) return `→ ${row.toGeneration === null ? UNKNOWN : row.toGeneration}`;
  return `${row.fromGeneration} → ${row.toGeneration === null ? UNKNOWN : row.toGeneration}`;
}

// The rises of the epoch of a consumer group: who caused each, and how long its members took.
function bumpTable(of) {
  const time = name => ({ number: true, cell: row => duration(row[name]) });
  const made = table(`Epochs of ${of().id}`, [
    column('when', row => row.at, { time: true, cell: row => timeCell(row.at, row.at) }),
    column('epoch', row => row.epoch, { number: true }),
    column('cause', row => row.cause),
    column('caused by', row => memberText(of(), row.by), { cell: row => memberOf(of(), row.by) }),
    column('members', row => row.members, { number: true }),
    column('target after', row => row.target, time('target')),
    column('to move', row => row.moved, { number: true }),
    column('stable after', row => row.stable, time('stable')),
    column('assignor', row => row.assignor),
    column('evidence', row => row.evidence),
  ], chosen(() => rowsOf(of()).bumps, row => inRange(row.at, row.at)), 'epoch');
  watch(made.update);
  return made;
}

function handoverTable(of) {
  const time = name => ({ number: true, cell: row => duration(row[name]) });
  return table(`Slowest handovers of ${of().id}`, [
    column(workOf(of()), row => row.partition, { cell: row => nameOf(row.partition) }),
    column('epoch', row => row.epoch, { number: true }),
    column('when', row => row.at, { time: true, cell: row => timeCell(row.at, row.at) }),
    column('from', row => memberText(of(), row.giver), { cell: row => memberOf(of(), row.giver) }),
    column('to', row => memberText(of(), row.taker), { cell: row => memberOf(of(), row.taker) }),
    column('asked after', row => row.noticed, time('noticed')),
    column('given up after', row => row.giveUp, time('giveUp')),
    column('taken over after', row => row.takeOver, time('takeOver')),
    column('ended', row => row.ended || 'still kept'),
  ], allRows(() => rowsOf(of()).handovers), 'handover');
}

// The number of members after a rebalance, with those that came and went in the tip.
function membersAfter(group, row) {
  const changes = [['joined', '+'], ['left', '−'], ['replaced', '=']].filter(([name]) => row[name].length);
  if (!changes.length) return grouped(row.members);
  const names = changes.flatMap(([name, sign]) =>
    row[name].slice(0, 12).map(each => `${sign} ${memberText(group, each)}`));
  return el('span', { 'data-tip': names.join(', '), tabindex: 0 },
    `${grouped(row.members)} (${changes.map(([name, sign]) => sign + row[name].length).join(' ')})`);
}

function memberTable(of) {
  return table(`Members of ${of().id}`, [
    column('member', row => memberText(of(), row.who), { cell: row => memberOf(of(), row.who) }),
    column('client', row => row.client, { cell: row => nameOf(row.client) }),
    column('host', row => row.host, { cell: row => nameOf(row.host) }),
    column('joined', row => row.joined, { time: true, cell: row => timeCell(row.joined, row.joined) }),
    column('left', row => row.left, { time: true,
      cell: row => row.left === null ? 'still a member' : timeCell(row.left, row.left) }),
    column('entry', row => row.entry === 'join' ? null : row.entry),
    column('exit', row => row.exit, { cell: row => row.evidence
      ? el('span', { 'data-tip': row.evidence, tabindex: 0 }, row.exit) : row.exit }),
    column('rebalances caused', row => row.caused, { number: true }),
  ], allRows(() => rowsOf(of()).members), 'member');
}

function partitionTable(of) {
  return table(`Partitions of ${of().id}`, [
    column('partition', row => row.name, { cell: row => nameOf(row.name) }),
    column('committed', row => row.committed, { number: true }),
    column('log end', row => row.end, { number: true }),
    column('lag', row => row.lag, { number: true }),
    column('time lag', row => row.timeLag, { number: true,
      cell: row => row.timeLag ? `≤ ${duration(row.timeLag)}` : duration(row.timeLag) }),
    column('state', row => row.stalled ? 'stalled' : null,
      { cell: row => row.stalled ? el('span', { class: 'critical' }, 'stalled') : '' }),
    // The partitions of a streams group do not move.
    ...moveColumns(row => of().tasks ? null : row.moves),
  ], allRows(() => rowsOf(of()).partitions), 'partition');
}

// The tasks of a streams group that have moved. Offsets are those of partitions.
function taskTable(of) {
  return table(`Tasks of ${of().id}`, [
    column('task', row => row.name, { cell: row => nameOf(row.name) }),
    ...moveColumns(row => row.moves),
  ], allRows(() => rowsOf(of()).tasks), 'task');
}

function moveColumns(moves) {
  return [
    column('moves', moves, { number: true }),
    column('time without owner', row => row.moves ? row.gap : null,
      { number: true, cell: row => row.moves ? duration(row.gap) : '' }),
  ];
}
