// All topics: partitions, sizes, offsets, and replicas that are missing.
import { addressOf, keep, parsed } from '/address.js';
import { html, nothing, render } from '/vendor/lit-html.js';
import { column, table } from '/shared/tables.js';
import { el, nameOf } from '/shared/view.js';
import { counted, grouped, moment, short } from '/shared/words.js';
import { isKnown, size, written } from '/views/amounts.js';
import { changeButtons } from '/views/changes.js';
import { failed } from '/views/failed.js';
import { poll } from '/views/polled.js';

export function open(main) {
  const { params } = parsed(location.hash);
  let topics = [], at = null, failure = null, filter = params.find || '', internal = params.internal === 'true';
  const tools = document.createElement('div'), stop = new AbortController();
  const list = table('Topics', [
    column('topic', row => row.topic, { cell: row => el('a', { href: addressOf({ topic: row.topic }) }, nameOf(row.topic)) }),
    column('partitions', row => row.partition_count, { number: true }),
    column('replicas', row => row.replication_factor, { number: true }),
    column('size', row => row.size_bytes, { number: true, cell: row => size(row.size_bytes) }),
    column('offsets', row => row.offsets, { number: true }),
    column('records/s', row => row.records_per_s, { number: true, cell: row => isKnown(row.records_per_s) ? short(row.records_per_s) : '' }),
    column('bytes/s', row => row.bytes_per_s, { number: true,
      cell: row => isKnown(row.bytes_per_s) ? `${size(Math.round(row.bytes_per_s))}/s` : '' }),
    column('wrong', row => wrong(row) || null, { cell: row => el('span', { class: 'critical' }, wrong(row)) }),
  ], () => ({ found: shown(), every: shown() }), 'topic');
  main.append(Object.assign(document.createElement('h1'), { textContent: 'Topics' }), tools, list.element);

  function shown() {
    const text = filter.toLowerCase();
    return topics.filter(row => (internal || !row.internal || text) && row.topic.toLowerCase().includes(text));
  }

  function draw() {
    const hidden = topics.filter(row => row.internal).length;
    render(html`<div class="tools">
      <input type="search" id="find" placeholder="Find a topic ( / )" aria-label="Find a topic" .value=${filter}
        @input=${event => find(event.target.value, internal)}>
      ${hidden ? html`<button type="button" class="plain" aria-pressed=${internal}
        @click=${() => find(filter, !internal)}>internal ${grouped(hidden)}</button>` : nothing}
      <span class="count" role="status">${at === null ? 'The topics are being read.'
        : `${[counted(shown().length, 'topic'), written(sums(shown()))].filter(Boolean).join(', ')}, as of ${moment(at).slice(11, 19)} UTC`}</span></div>
      ${changeButtons([['create-topic', 'Create a topic', () => ({})]])}
      ${failed(failure)}`, tools);
    list.update();
  }

  function find(text, withInternal) {
    filter = text;
    internal = withInternal;
    keep({ topics: true, find: filter || null, internal: internal || null });
    draw();
  }

  addEventListener('keydown', event => {
    if (event.key !== '/' || event.target.closest('input, textarea, select')) return;
    document.getElementById('find').focus();
    event.preventDefault();
  }, { signal: stop.signal });
  draw();
  const end = poll('/api/topics', data => {
    topics = data.topics;
    at = data.at_ms;
    failure = null;
    draw();
  }, error => { failure = error; draw(); });
  return { close() { end(); stop.abort(); } };
}

// What is written to topics together; of a part of them it would be another number.
function sums(rows) {
  const sum = name => rows.reduce((all, row) => all === null || !isKnown(row[name]) ? null : all + row[name], 0);
  return { records_per_s: sum('records_per_s'), bytes_per_s: sum('bytes_per_s') };
}

// What is wrong with the replicas of a topic; nothing for most.
export function wrong(row) {
  const found = [];
  if (row.without_leader) found.push(`${grouped(row.without_leader)} without leader`);
  if (row.under_replicated) found.push(`${grouped(row.under_replicated)} under-replicated`);
  return found.join(', ');
}
