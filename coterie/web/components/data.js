// The data that coterie/pipeline/report/data.py writes, with names for the columns of its rows.
// What is read once is a snapshot; a page that is live reads the next one.

const COLUMNS = {
  rebalance: ['started', 'completed', 'fromGeneration', 'toGeneration', 'cause', 'reason', 'by',
    'duration', 'join', 'sync', 'unowned', 'members', 'joined', 'left', 'replaced', 'moved', 'needed',
    'evidence', 'type'],
  bump: ['epoch', 'at', 'cause', 'by', 'members', 'target', 'moved', 'stable', 'assignor', 'evidence'],
  handover: ['partition', 'epoch', 'at', 'giver', 'taker', 'noticed', 'giveUp', 'takeOver', 'ended'],
  member: ['who', 'client', 'host', 'joined', 'left', 'entry', 'exit', 'evidence', 'caused'],
  partition: ['name', 'committed', 'end', 'lag', 'timeLag', 'stalled', 'moves', 'gap'],
  task: ['name', 'moves', 'gap'],
  shared: ['name', 'start', 'since', 'last', 'complete', 'waiting', 'most', 'accepted', 'released',
    'timedOut', 'givenUp', 'again'],
  poison: ['name', 'offset', 'deliveries', 'became', 'ended', 'from', 'to'],
  failed: ['at', 'name', 'first', 'last', 'became', 'deliveries', 'ended', 'who'],
  caused: ['client', 'members', 'cause', 'rebalances', 'unowned', 'isComplete'],
  finding: ['severity', 'rule', 'group', 'subject', 'from', 'to', 'at', 'evidence', 'cost', 'groups',
    'silentFrom', 'silentTo', 'groupTimes'],
  segment: ['log', 'segment', 'records', 'keys', 'overwritten', 'tombstones', 'cleaned', 'damaged',
    'bytes'],
};
const TIMES = new Set(['started', 'completed', 'from', 'to', 'at', 'since']);

function named(kind, row, zero) {
  const found = {};
  COLUMNS[kind].forEach((name, number) => {
    const isTime = TIMES.has(name) || (kind === 'member' && (name === 'joined' || name === 'left'));
    found[name] = isTime && row[number] !== null ? row[number] + zero : row[number];
  });
  return found;
}

// The data with times of the clock: `whole` is all of its time, and each group knows what it needs to
// be drawn: `zero`, `whole`, `silences` in which nothing was recorded, and when members were `replaced`.
export function readData(data) {
  const { zero } = data;
  const whole = data.span ? [data.span[0] + zero, data.span[1] + zero] : null;
  const findings = data.findings.rows.map(row => named('finding', row, zero));
  // The restarts of brokers, which concern many groups.
  const restarts = findings.filter(each => each.rule === 'broker restart');
  const silences = restarts.flatMap(each =>
    each.silentFrom.map((at, n) => [at + zero, each.silentTo[n] + zero]));
  const replaced = new Map();
  for (const each of restarts)
    each.groupTimes.forEach((at, n) => {
      const times = replaced.get(each.groups[n]) || [];
      replaced.set(each.groups[n], [...times, at + zero]);
    });
  const groups = data.groups.map(group =>
    ({ ...group, zero, whole, silences, replaced: replaced.get(group.id) || [] }));
  return { ...data, whole, findings, found: data.findings.total, silences, groups };
}

export function readSegments(data) {
  return data.health.rows.map(row => named('segment', row, data.zero));
}

// The time at which a rebalance is drawn: its beginning, or its end if only that is known.
export function when(rebalance) {
  return rebalance.started === null ? rebalance.completed : rebalance.started;
}

// What numbers the states of a group: a classic group has generations, the others have epochs.
export function unitOf(rebalance) {
  return rebalance && rebalance.type && rebalance.type !== 'classic' ? 'epoch' : 'generation';
}

// What the members of a group are given.
export function workOf(group) {
  return group.tasks ? 'task' : 'partition';
}

// The rows of a group as objects, made when they are needed for the first time.
export function rowsOf(group) {
  const rows = (kind, found) => (found || []).map(row => named(kind, row, group.zero));
  if (!group.rows)
    group.rows = {
      rebalances: rows('rebalance', group.rebalances),
      members: rows('member', group.members),
      partitions: rows('partition', group.partitions),
      tasks: rows('task', group.taskMoves),
      bumps: rows('bump', group.bumps),
      handovers: rows('handover', group.handovers),
      caused: rows('caused', group.caused),
      shared: rows('shared', group.shared),
      poison: rows('poison', group.poison),
      failed: rows('failed', group.failed),
    };
  return group.rows;
}

// The static members that came back without a rebalance.
export function restartsOf(group) {
  return rowsOf(group).members.filter(row => row.entry.endsWith('without rebalance'));
}

export function spanOf(group) {
  return group.span ? [group.span[0] + group.zero, group.span[1] + group.zero] : group.whole;
}
