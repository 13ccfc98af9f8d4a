// What a page shows of a share group's deliveries: its share partitions, the records that fail, and
// the newest deliveries that were not accepted.
import { rowsOf } from './data.js';
import { allRows, column, table } from './tables.js';
import { inRange, watch } from './time.js';
import { el, memberOf, memberText, nameOf, timeCell } from './view.js';

const COUNT = { number: true };

// A record or several, as they stand in a log.
function offsetsOf(row) {
  return row.first === row.last ? `${row.first}` : `${row.first} – ${row.last}`;
}

function alarming(text) {
  return el('span', { class: 'critical' }, text);
}

export function sharedTable(of) {
  return table(`Share partitions of ${of().id}`, [
    column('partition', row => row.name, { cell: row => nameOf(row.name) }),
    column('start offset', row => row.start, COUNT),
    column('there since', row => row.since, { time: true, cell: row => timeCell(row.since, row.since) }),
    column('done behind it', row => row.complete, COUNT),
    column('to be delivered again', row => row.waiting, COUNT),
    column('most deliveries', row => row.most, COUNT),
    column('accepted', row => row.accepted, COUNT),
    column('released', row => row.released, COUNT),
    column('timed out', row => row.timedOut, COUNT),
    column('given up', row => row.givenUp, COUNT),
    column('delivered again', row => row.again, COUNT),
  ], allRows(() => rowsOf(of()).shared), 'share partition');
}

export function poisonTable(of) {
  return table(`Records that fail in ${of().id}`, [
    column('partition', row => row.name, { cell: row => nameOf(row.name) }),
    column('offset', row => row.offset, COUNT),
    column('deliveries', row => row.deliveries, COUNT),
    column('state', row => row.became, { cell: row => row.became === 'ARCHIVED' ? alarming('given up')
      : row.became === 'ACKNOWLEDGED' ? 'processed at last' : 'comes back' }),
    column('ended by', row => row.ended),
    column('from', row => row.from, { time: true, cell: row => timeCell(row.from, row.from) }),
    column('to', row => row.to, { time: true, cell: row => timeCell(row.to, row.to) }),
  ], allRows(() => rowsOf(of()).poison), 'record');
}

export function failedTable(of) {
  const all = () => rowsOf(of()).failed;
  const made = table(`Deliveries of ${of().id} that were not accepted`, [
    column('when', row => row.at, { time: true, cell: row => timeCell(row.at, row.at) }),
    column('partition', row => row.name, { cell: row => nameOf(row.name) }),
    column('offsets', row => row.first, { number: true, cell: offsetsOf }),
    column('became', row => row.became, { cell: row => row.became.toLowerCase() }),
    column('delivery', row => row.deliveries, COUNT),
    column('ended by', row => row.ended),
    column('member', row => memberText(of(), row.who), { cell: row => memberOf(of(), row.who) }),
  ], () => ({ found: all().filter(row => inRange(row.at, row.at)), every: all() }), 'delivery');
  watch(made.update);
  return made;
}
