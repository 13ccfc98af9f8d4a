// The data that coterie/pipeline/report/data.py wrote, with names for the columns of its rows.
const DATA = JSON.parse(document.getElementById('data').textContent);
const ZERO = DATA.zero;
const WHOLE = DATA.span ? [DATA.span[0] + ZERO, DATA.span[1] + ZERO] : null;

const COLUMNS = {
  rebalance: ['started', 'completed', 'fromGeneration', 'toGeneration', 'cause', 'reason', 'by',
    'duration', 'join', 'sync', 'unowned', 'members', 'joined', 'left', 'replaced', 'moved', 'needed',
    'evidence', 'type'],
  bump: ['epoch', 'at', 'cause', 'by', 'members', 'target', 'moved', 'stable', 'assignor', 'evidence'],
  handover: ['partition', 'epoch', 'at', 'giver', 'taker', 'noticed', 'giveUp', 'takeOver', 'ended'],
  member: ['who', 'client', 'host', 'joined', 'left', 'entry', 'exit', 'evidence', 'caused'],
  partition: ['name', 'committed', 'end', 'lag', 'timeLag', 'stalled', 'moves', 'gap'],
  caused: ['client', 'members', 'cause', 'rebalances', 'unowned', 'isComplete'],
  finding: ['severity', 'rule', 'group', 'subject', 'from', 'to', 'at', 'evidence', 'cost', 'groups',
    'silentFrom', 'silentTo', 'groupTimes'],
  segment: ['log', 'segment', 'records', 'keys', 'overwritten', 'tombstones', 'cleaned', 'damaged',
    'bytes'],
};
const TIMES = new Set(['started', 'completed', 'from', 'to', 'at']);

function named(kind, row) {
  const found = {};
  COLUMNS[kind].forEach((name, number) => {
    const isTime = TIMES.has(name) || (kind === 'member' && (name === 'joined' || name === 'left'));
    found[name] = isTime && row[number] !== null ? row[number] + ZERO : row[number];
  });
  return found;
}

// The time at which a rebalance is drawn: its beginning, or its end if only that is known.
function when(rebalance) {
  return rebalance.started === null ? rebalance.completed : rebalance.started;
}

// What numbers the states of a group: a classic group has generations, a consumer group (KIP-848) epochs.
function unitOf(rebalance) {
  return rebalance && rebalance.type === 'consumer' ? 'epoch' : 'generation';
}

// The rows of a group as objects, made when they are needed for the first time.
function rowsOf(group) {
  if (!group.rows)
    group.rows = {
      rebalances: (group.rebalances || []).map(row => named('rebalance', row)),
      members: (group.members || []).map(row => named('member', row)),
      partitions: (group.partitions || []).map(row => named('partition', row)),
      bumps: (group.bumps || []).map(row => named('bump', row)),
      handovers: (group.handovers || []).map(row => named('handover', row)),
      caused: (group.caused || []).map(row => named('caused', row)),
    };
  return group.rows;
}

// The static members that came back without a rebalance.
function restartsOf(group) {
  return rowsOf(group).members.filter(row => row.entry.endsWith('without rebalance'));
}

function spanOf(group) {
  return group.span ? [group.span[0] + ZERO, group.span[1] + ZERO] : WHOLE;
}

const FINDINGS = DATA.findings.rows.map(row => named('finding', row));

// The restarts of brokers, which concern many groups.
const RESTARTS = FINDINGS.filter(each => each.rule === 'broker restart');

// The times in which nothing was recorded of any group, and when the members of groups were replaced.
const SILENCES = RESTARTS.flatMap(each => each.silentFrom.map((at, n) => [at + ZERO, each.silentTo[n] + ZERO]));
const REPLACED = RESTARTS.flatMap(each => each.groupTimes.map((at, n) =>
  ({ group: each.groups[n], at: at + ZERO })));

// Shade the silences behind the lanes of all groups. What follows is working time.
function shadeSilences({ context, top, height, from, to, x }) {
  context.fillStyle = colour('outage');
  for (const [begin, end] of SILENCES)
    if (begin <= to && end >= from)
      context.fillRect(x(begin), top - 4, Math.max(3, x(end) - x(begin)), height);
}

// Mark when the members of a group were replaced, over a part of the height.
function markReplaced({ context, from, to, x }, group, top, height) {
  context.fillStyle = colour('alarm');
  for (const { at } of REPLACED.filter(each => each.group === group.id && each.at >= from && each.at <= to))
    context.fillRect(x(at) - 1, top, 3, height);
}
