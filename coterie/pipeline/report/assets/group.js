// A group: a line that is always there, and a body that is made when the group is opened.
function groupElement(group) {
  const by = group.by ? [nameOf(group.by[0]), ` (${counted(group.by[1], 'time')}, ${group.by[1] > 1 ? 'mostly ' : ''}${group.by[2]})`] : [];
  const element = el('details', { 'data-group': group.id, id: anchorOf(group.id) }, el('summary', {},
    el('span', { class: 'id' }, nameOf(group.id)),
    el('span', { class: 'n', 'data-label': group.count === 1 ? 'rebalance' : 'rebalances' },
      grouped(group.count)),
    el('span', { class: 'n', 'data-label': 'without owner' }, atLeast(...group.unowned)),
    el('span', { class: 'n', 'data-label': 'moved' }, grouped(group.moved)),
    el('span', { class: 'n', 'data-label': 'without need' }, grouped(group.excess)),
    el('span', { class: 'by' }, ...by)));
  element.addEventListener('toggle', () => {
    if (!element.open || element.querySelector('.body')) return;
    element.append(el('div', { class: 'body' }, ...bodyOf(group)));
    redraw();
  });
  return element;
}

function anchorOf(id) {
  return `group-${encodeURIComponent(id)}`;
}

function bodyOf(group) {
  if (!group.rebalances) return [el('p', { class: 'note' }, 'The page has no details of this group.')];
  const { rebalances, members, partitions, caused, bumps, handovers } = rowsOf(group);
  const own = spanOf(group), span = () => range || own, parts = [];
  if (group.owned.length)
    parts.push(el('p', { class: 'note' }, 'A lane is a partition, a bar the time of an owner, a gap the',
      ' time without one, a line a rebalance; it is dashed if only the group’s log shows it.',
      restartsOf(group).length ? ' A triangle is a static member that came back without a rebalance.' : ''),
    ownership(group, span));
  const charts = (group.charts || []).map((values, n) =>
    values && chart(['Lag, messages', 'Progress, messages/s'][n], values, span)).filter(Boolean);
  if (charts.length) parts.push(el('div', { class: 'charts' }, ...charts));
  const name = group.id;
  if (caused.length)
    parts.push(el('h3', {}, 'Caused by'), table(`Who caused rebalances of ${name}`, [
      column('client', row => row.client, { cell: row => nameOf(row.client) }),
      column('members', row => row.members || null, { number: true }),
      column('main cause', row => row.cause),
      column('rebalances', row => row.rebalances, { number: true }),
      column('time without owner', row => row.unowned,
        { number: true, cell: row => atLeast(row.unowned, row.isComplete) }),
    ], () => [...caused], 'client').element);
  if (rebalances.length) parts.push(el('h3', {}, 'Rebalances'), rebalanceTable(group, rebalances));
  if (group.count > rebalances.length)
    parts.push(el('p', { class: 'note' }, `The newest ${grouped(rebalances.length)} of ${
      counted(group.count, 'rebalance')}.`));
  if (bumps.length) parts.push(el('h3', {}, 'Epochs'), bumpTable(group, bumps));
  if (handovers.length)
    parts.push(el('h3', {}, 'Slowest handovers'), handoverTable(group, handovers));
  if (members.length) parts.push(el('h3', {}, 'Members'), memberTable(group, members));
  if (group.memberCount > members.length)
    parts.push(el('p', { class: 'note' }, `The newest ${grouped(members.length)} of ${
      counted(group.memberCount, 'member')}.`));
  if (partitions.length) parts.push(el('h3', {}, 'Partitions'), partitionTable(name, partitions));
  return parts;
}

function rebalanceTable(group, rows) {
  const time = name => ({ number: true, cell: row => duration(row[name]) });
  const made = table(`Rebalances of ${group.id}`, [
    column('when', when, { time: true, cell: row => timeCell(when(row), row.completed) }),
    column([...new Set(rows.map(unitOf))].sort().join(', '), row => row.toGeneration, { cell: generations }),
    column('cause', row => row.cause + (row.reason || ''),
      { cell: row => row.reason ? el('span', {}, `${row.cause}: `, nameOf(row.reason)) : row.cause }),
    column('caused by', row => memberText(group, row.by), { cell: row => memberOf(group, row.by) }),
    column('duration', row => row.duration, time('duration')),
    column('join', row => row.join, time('join')),
    column('sync', row => row.sync, time('sync')),
    column('time without owner', row => row.unowned, time('unowned')),
    column('members', row => row.members, { number: true, cell: row => membersAfter(group, row) }),
    column('moved', row => row.moved, { number: true }),
    column('without need', row => row.moved === null || row.needed === null ? null
      : Math.max(0, row.moved - row.needed), { number: true }),
    column('evidence', row => row.evidence),
  ], () => rows.filter(row => inRange(when(row), row.completed)), 'rebalance');
  watchers.add(made.update);
  return made.element;
}

function generations(row) {
  if (row.fromGeneration === null) return `→ ${row.toGeneration === null ? UNKNOWN : row.toGeneration}`;
  return `${row.fromGeneration} → ${row.toGeneration === null ? UNKNOWN : row.toGeneration}`;
}

// The rises of the epoch of a consumer group: who caused each, and how long its members took.
function bumpTable(group, rows) {
  const time = name => ({ number: true, cell: row => duration(row[name]) });
  const made = table(`Epochs of ${group.id}`, [
    column('when', row => row.at, { time: true, cell: row => timeCell(row.at, row.at) }),
    column('epoch', row => row.epoch, { number: true }),
    column('cause', row => row.cause),
    column('caused by', row => memberText(group, row.by), { cell: row => memberOf(group, row.by) }),
    column('members', row => row.members, { number: true }),
    column('target after', row => row.target, time('target')),
    column('to move', row => row.moved, { number: true }),
    column('stable after', row => row.stable, time('stable')),
    column('assignor', row => row.assignor),
    column('evidence', row => row.evidence),
  ], () => rows.filter(row => inRange(row.at, row.at)), 'epoch');
  watchers.add(made.update);
  return made.element;
}

function handoverTable(group, rows) {
  const time = name => ({ number: true, cell: row => duration(row[name]) });
  return table(`Slowest handovers of ${group.id}`, [
    column('partition', row => row.partition, { cell: row => nameOf(row.partition) }),
    column('epoch', row => row.epoch, { number: true }),
    column('when', row => row.at, { time: true, cell: row => timeCell(row.at, row.at) }),
    column('from', row => memberText(group, row.giver), { cell: row => memberOf(group, row.giver) }),
    column('to', row => memberText(group, row.taker), { cell: row => memberOf(group, row.taker) }),
    column('asked after', row => row.noticed, time('noticed')),
    column('given up after', row => row.giveUp, time('giveUp')),
    column('taken over after', row => row.takeOver, time('takeOver')),
    column('ended', row => row.ended || 'still kept'),
  ], () => [...rows], 'handover').element;
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

function memberTable(group, rows) {
  return table(`Members of ${group.id}`, [
    column('member', row => memberText(group, row.who), { cell: row => memberOf(group, row.who) }),
    column('client', row => row.client, { cell: row => nameOf(row.client) }),
    column('host', row => row.host, { cell: row => nameOf(row.host) }),
    column('joined', row => row.joined, { time: true, cell: row => timeCell(row.joined, row.joined) }),
    column('left', row => row.left, { time: true,
      cell: row => row.left === null ? 'still a member' : timeCell(row.left, row.left) }),
    column('entry', row => row.entry === 'join' ? null : row.entry),
    column('exit', row => row.exit, { cell: row => row.evidence
      ? el('span', { 'data-tip': row.evidence, tabindex: 0 }, row.exit) : row.exit }),
    column('rebalances caused', row => row.caused, { number: true }),
  ], () => [...rows], 'member').element;
}

function partitionTable(name, rows) {
  return table(`Partitions of ${name}`, [
    column('partition', row => row.name, { cell: row => nameOf(row.name) }),
    column('committed', row => row.committed, { number: true }),
    column('log end', row => row.end, { number: true }),
    column('lag', row => row.lag, { number: true }),
    column('time lag', row => row.timeLag, { number: true,
      cell: row => row.timeLag ? `≤ ${duration(row.timeLag)}` : duration(row.timeLag) }),
    column('state', row => row.stalled ? 'stalled' : null,
      { cell: row => row.stalled ? el('span', { class: 'critical' }, 'stalled') : '' }),
    column('moves', row => row.moves, { number: true }),
    column('time without owner', row => row.moves ? row.gap : null,
      { number: true, cell: row => row.moves ? duration(row.gap) : '' }),
  ], () => [...rows], 'partition').element;
}
