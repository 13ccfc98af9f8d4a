// Transactions: what is open, since when, and what it holds up.
import { addressOf } from '/address.js';
import { html, nothing, render } from '/vendor/lit-html.js';
import { allRows, column, table } from '/shared/tables.js';
import { el, nameOf } from '/shared/view.js';
import { counted, duration, moment } from '/shared/words.js';
import { changeButtons } from '/views/changes.js';
import { failed } from '/views/failed.js';
import { poll } from '/views/polled.js';

const CLOSED = ['Empty', 'CompleteCommit', 'CompleteAbort', 'Dead'];

export function open(main) {
  let rows = [], data = null, failure = null;
  const head = document.createElement('div');
  const list = table('Transactional ids', [
    column('transactional id', row => row.transactional_id, { cell: row => nameOf(row.transactional_id) }),
    column('state', row => row.state, { cell: row => el('span', { class: isOpen(row) ? 'warning' : null }, row.state) }),
    column('open for', row => isOpen(row) ? row.duration_ms : null, { number: true, cell: openFor }),
    column('holds up', held, { number: true, cell: row => isOpen(row) ? counted(held(row), 'record') : '' }),
    column('partitions', row => places(row).join(', ') || null, { cell: placesCell }),
    column('producer', row => row.producer_id, { number: true, cell: row => String(row.producer_id) }),
    column('epoch', row => row.producer_epoch, { number: true }),
    column('coordinator', row => row.coordinator_id, { number: true }),
    column('timeout', row => row.timeout_ms, { number: true, cell: row => duration(row.timeout_ms) }),
  ], allRows(() => rows), 'transactional id');
  main.append(head, list.element);

  function draw() {
    const open = rows.filter(isOpen), records = open.reduce((sum, row) => sum + held(row), 0);
    render(html`<h1>Transactions</h1>
      <p class="sentence" role="status">${data === null ? failure ? nothing : 'The transactions are being read.'
        : open.length ? `${counted(open.length, 'transaction')} open; readers of committed records wait for ${
          counted(records, 'record')}.` : `No transaction is open. ${counted(rows.length, 'transactional id')}.`}
      ${data ? html`<small>as of ${moment(data.at_ms).slice(11, 19)} UTC</small>` : nothing}</p>
      ${data && data.closed_left_out ? html`<p class="note">${counted(data.closed_left_out, 'id')} without an open
        transaction ${data.closed_left_out === 1 ? 'is' : 'are'} left out.</p>` : nothing}
      ${changeButtons([['abort-transaction', 'Abort a transaction', () => {
        const open = rows.find(isOpen);
        return { transactional_id: open ? open.transactional_id : '' };
      }]])}
      ${failed(failure)}`, head);
    list.update();
  }

  draw();
  const end = poll('/api/transactions', next => {
    data = next;
    rows = next.transactions;
    failure = null;
    draw();
  }, error => { failure = error; draw(); });
  return { close: end };
}

function isOpen(row) {
  return !CLOSED.includes(row.state);
}

function openFor(row) {
  if (!isOpen(row) || row.duration_ms === null) return '';
  const isLate = row.duration_ms > row.timeout_ms;
  return el('span', { class: isLate ? 'critical' : null, 'data-tip': `since ${moment(row.start_ms)} UTC`, tabindex: 0 },
    duration(row.duration_ms));
}

// Records behind the last stable offset; two transactions in one partition hold up the same ones.
function held(row) {
  return row.holds_up.reduce((sum, each) => sum + each.records, 0);
}

function places(row) {
  return Object.entries(row.partitions).flatMap(([topic, numbers]) => numbers.map(number => `${topic}-${number}`));
}

function placesCell(row) {
  const links = Object.entries(row.partitions).flatMap(([topic, numbers]) => numbers.map(number => {
    const stable = row.holds_up.find(each => each.topic === topic && each.partition === number);
    return el('a', { href: addressOf({ topic, partition: number, offset: stable ? stable.last_stable_offset : null }) },
      nameOf(`${topic}-${number}`));
  }));
  return el('span', {}, ...links.flatMap((link, at) => at ? [', ', link] : [link]));
}
