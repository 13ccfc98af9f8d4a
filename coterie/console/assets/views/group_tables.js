// The members, the partitions and the records in flight of a group as they are now.
import { addressOf } from '/address.js';
import { allRows, column, table } from '/shared/tables.js';
import { el, nameOf } from '/shared/view.js';
import { duration, grouped, moment, short } from '/shared/words.js';
import { ago } from '/views/group_list.js';

// Tables of a group; `of()` is the event `group` that came last.
export function memberTable(of) {
  const ms = name => ({ number: true, cell: row => row[name] === null ? '' : duration(row[name]) });
  return table('Members now', [
    column('member', row => row.name, { cell: row => nameOf(row.name, row.consumer_id) }),
    column('has sent', row => row.waits_for),
    column('last heard', row => row.last_heartbeat_ms, { time: true, cell: row => ago(row.last_heartbeat_ms) }),
    column('session left', row => row.session_left_ms, { number: true, cell: row => leftCell(row.session_left_ms) }),
    column('client', row => row.client_id, { cell: row => nameOf(row.client_id) }),
    column('instance', row => row.group_instance_id, { cell: row => nameOf(row.group_instance_id ?? '—') }),
    column('host', row => row.host, { cell: row => nameOf(row.host.replace(/^\//, '')) }),
    column('library', software, { cell: row => software(row) ? nameOf(software(row)) : '' }),
    column('partitions', row => row.partition_count, { number: true }),
    column('owns', row => owns(row) || null, { cell: row => owns(row) ? nameOf(cutTo(owns(row), 60), owns(row)) : '' }),
    ...[['tasks', row => tasksOf(row.streams?.tasks)], ['target', targetOf],
      ['process', row => row.streams?.process_id], ['endpoint', row => row.streams?.endpoint]]
      .map(([title, value]) => column(title, value, { cell: row => value(row) ? nameOf(value(row)) : '' })),
    column('member since', row => row.joined_ms, { time: true, cell: row => sinceCell(row.joined_ms) }),
    column('session timeout', row => row.session_timeout_ms, ms('session_timeout_ms')),
    column('rebalance timeout', row => row.rebalance_timeout_ms, ms('rebalance_timeout_ms')),
    column('rebalances caused', row => row.rebalances_caused, { number: true }),
  ], allRows(() => of().members || []), 'member');
}

// What a share group has in flight: who has locked which records, and for how long still.
export function recordTable(of) {
  const records = row => row.last_offset - row.first_offset + 1;
  const most = () => of().delivery_limit;
  return table('In flight now', [
    column('partition', row => `${row.topic}-${row.partition}`, { cell: placeCell }),
    column('offsets', row => row.first_offset, { number: true, cell: row => el('a', { href: addressOf({
      topic: row.topic, partition: row.partition, offset: row.first_offset }) }, records(row) === 1
      ? grouped(row.first_offset) : `${grouped(row.first_offset)}–${grouped(row.last_offset)}`) }),
    column('locked by', row => row.member ?? row.member_id, { cell: row => row.member_id === null ? ''
      : nameOf(row.member ?? `${row.member_id}, which is no member`, row.member_id) }),
    column('locked for', row => row.lock_ms, { number: true, cell: row => leftCell(row.lock_ms) }),
    column('delivery', row => row.delivery_count, { number: true, cell: row => most() === null
      ? grouped(row.delivery_count) : `${grouped(row.delivery_count)} of ${grouped(most())}` }),
    column('state', row => row.state),
    column('records', records, { number: true }),
  ], allRows(() => of().records || []), 'range');
}

// The subtopologies of a streams group.
export function topologyTable(of) {
  const topics = counts => Object.entries(counts).map(([topic, count]) => `${topic} (${count ?? '?'})`).join(', ');
  const named = (title, value) => column(title, value, { cell: row => value(row) ? nameOf(value(row)) : '' });
  return table('Topology now', [
    named('subtopology', row => row.subtopology_id),
    column('tasks', row => row.task_count, { number: true }),
    named('reads', row => topics({ ...row.source_topics, ...row.repartition_source_topics })),
    named('writes', row => row.repartition_sink_topics.join(', ')),
    named('changelogs', row => topics(row.state_changelog_topics)),
  ], allRows(() => of().topology ? of().topology.subtopologies : []), 'subtopology');
}

// `unowned(row)` is how long the partition was without owner in the last hour; null if that is not known.
export function partitionTable(of, unowned) {
  return table('Partitions now', [
    column('partition', row => `${row.topic}-${row.partition}`, { cell: placeCell }),
    column('owner', row => row.owner, { cell: row => row.owner === null ? '' : nameOf(row.owner) }),
    column('committed', row => row.current_offset, { number: true, cell: committedCell }),
    column('log end', row => row.log_end_offset, { number: true }),
    column('lag', row => row.lag, { number: true }),
    column('oldest unread', row => row.lag_ms || null, { number: true,
      cell: row => row.lag && row.lag_ms ? `${duration(row.lag_ms)} old` : '' }),
    column('records/s', row => row.consumed_per_s, { number: true,
      cell: row => row.consumed_per_s === null ? '' : short(row.consumed_per_s) }),
    column('without owner, 1 h', unowned, { number: true,
      cell: row => unowned(row) === null ? '' : duration(unowned(row)) }),
    column('last commit', row => row.last_commit_ms, { time: true, cell: row => sinceCell(row.last_commit_ms) }),
  ], allRows(() => of().partitions || []), 'partition');
}

function software({ client_software: name, client_software_version: version }) {
  return name ? [name, version].filter(Boolean).join(' ') : null;
}

// "orders 0-3, 7": what a member owns, with runs of partitions.
function owns({ assignment }) {
  if (!assignment) return null;
  const entries = Array.isArray(assignment) ? byTopic(assignment) : Object.entries(assignment);
  return entries.map(([topic, numbers]) => `${topic} ${runs(numbers)}`).join(', ');
}

// "active 0: 0–1; standby 1: 0": tasks by their roles; null without tasks.
function tasksOf(roles) {
  if (!roles) return null;
  return Object.entries(roles).filter(([, tasks]) => Object.keys(tasks).length).map(([role, tasks]) =>
    `${role} ${Object.entries(tasks).map(([id, numbers]) => `${id}: ${runs(numbers)}`).join(', ')}`).join('; ') || null;
}

// What a member is to have, where that is not what it has.
function targetOf({ streams }) {
  const target = streams ? tasksOf(streams.target) : null;
  return streams && target !== tasksOf(streams.tasks) ? target ?? 'nothing' : null;
}

function byTopic(assignment) {
  const found = new Map();
  for (const each of assignment) {
    const [topic, number] = Array.isArray(each) ? each : [each.topic, each.partition ?? each.partitions];
    found.set(topic, [...(found.get(topic) || []), ...[number].flat()]);
  }
  return [...found];
}

function runs(numbers) {
  const found = [];
  for (const number of [...numbers].sort((a, b) => a - b)) {
    const last = found[found.length - 1];
    if (last && last[1] === number - 1) last[1] = number;
    else found.push([number, number]);
  }
  return found.map(([first, last]) => first === last ? first : `${first}–${last}`).join(', ');
}

function cutTo(text, most) {
  return text && text.length > most ? `${text.slice(0, most - 1)}…` : text ?? '';
}

function leftCell(ms) {
  return ms === null ? '' : `${Math.ceil(ms / 1000)} s more`;
}

function sinceCell(at) {
  return at === null || at === undefined ? '' : el('span', { 'data-tip': `${moment(at)} UTC`, tabindex: 0 }, ago(at));
}

function placeCell(row) {
  return el('a', { href: addressOf({ topic: row.topic, partition: row.partition }) },
    nameOf(`${row.topic}-${row.partition}`));
}

// A link to the records at the committed offset: what is read next.
function committedCell(row) {
  const at = row.current_offset;
  return at === null ? '' : el('a', { href: addressOf({ topic: row.topic, partition: row.partition, offset: at }) },
    grouped(at));
}
