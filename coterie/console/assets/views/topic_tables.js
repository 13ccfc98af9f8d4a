// The tables of one topic.
import { addressOf } from '/address.js';
import { column, table } from '/shared/tables.js';
import { el, nameOf } from '/shared/view.js';
import { grouped, moment } from '/shared/words.js';
import { size } from '/views/amounts.js';

export function partitionTable(topic, rows) {
  return table('Partitions', [
    column('partition', row => row.partition, { number: true, cell: row => el('a',
      { href: addressOf({ topic, partition: row.partition }) }, row.partition) }),
    column('leader', row => row.leader ?? 'none', { cell: row => row.leader ?? el('span', { class: 'critical' }, 'none') }),
    column('replicas', row => row.replicas.join(', ')),
    column('in sync', row => row.isr.join(', '), { cell: row => row.isr.length < row.replicas.length
      ? el('span', { class: 'warning' }, row.isr.join(', ') || 'none') : row.isr.join(', ') }),
    column('first offset', row => row.start_offset, { number: true }),
    column('end offset', row => row.end_offset, { number: true }),
    column('last stable', row => row.last_stable_offset, { number: true, cell: row =>
      row.last_stable_offset < row.end_offset ? el('span', { class: 'warning' }, grouped(row.last_stable_offset))
        : grouped(row.last_stable_offset) }),
    column('size', row => row.size_bytes, { number: true, cell: row => size(row.size_bytes) }),
  ], rows, 'partition');
}

export function settingTable(rows) {
  return table('Settings', [
    column('setting', row => row.key, { cell: row => row.documentation
      ? el('span', { 'data-tip': row.documentation, tabindex: 0 }, row.key) : row.key }),
    column('value', row => row.value, { cell: row => row.sensitive ? el('i', {}, 'secret') : nameOf(row.value ?? '') }),
    column('set by', row => row.source),
    column('type', row => row.value_type),
    column('instead of', row => row.synonyms.slice(1).map(each => `${each.value} (${each.source})`).join(', ')),
  ], rows, 'setting');
}

export function groupTable(rows) {
  return table('Groups that read this topic', [
    column('group', row => row.group, { cell: row => el('a', { href: addressOf({ group: row.group }) }, nameOf(row.group)) }),
    column('type', row => row.type),
    column('state', row => row.state),
    column('partitions', row => row.partitions.length, { number: true }),
    column('lag', row => row.lag, { number: true }),
    column('furthest behind', row => furthest(row), { cell: row => {
      const most = worst(row);
      return most && most.lag ? `partition ${most.partition}: ${grouped(most.lag)}` : '';
    } }),
  ], rows, 'group');
}

function worst(row) {
  return row.partitions.reduce((most, each) => most === null || each.lag > most.lag ? each : most, null);
}

function furthest(row) {
  const most = worst(row);
  return most ? most.lag : null;
}

export function producerTable(rows) {
  return table('Producers that partitions remember', [
    column('partition', row => row.partition, { number: true }),
    column('producer', row => row.producer_id, { number: true, cell: row => String(row.producer_id) }),
    column('epoch', row => row.producer_epoch, { number: true }),
    column('transactional id', row => row.transactional_id, { cell: row => nameOf(row.transactional_id ?? '') }),
    column('open since offset', row => row.start_offset, { number: true, cell: row => row.start_offset === null ? ''
      : el('span', { class: 'warning' }, grouped(row.start_offset)) }),
    column('last sequence', row => row.last_sequence, { number: true }),
    column('last written', row => row.last_timestamp_ms, { time: true, cell: row => moment(row.last_timestamp_ms) }),
  ], rows, 'producer');
}
