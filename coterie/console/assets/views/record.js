// One record: a line that opens to its parts.
import { get } from '/api.js';
import { html, nothing } from '/vendor/lit-html.js';
import { both, grouped, moment } from '/shared/words.js';
import { size } from '/views/amounts.js';
import { asText, inLine } from '/views/bytes.js';

const KINDS = { AVRO: 'Avro', JSON: 'JSON Schema', PROTOBUF: 'Protobuf' };

// What is read of a record, by topic, so that it is not asked for again while the list is drawn.
export function recordList(topic, draw) {
  const open = new Set(), whole = new Map();

  async function load(row) {
    const key = keyOf(row);
    whole.set(key, { isLoading: true });
    draw();
    try {
      whole.set(key, { row: await get(`/api/topics/${encodeURIComponent(topic)}/records/${row.partition}/${row.offset}`) });
    } catch (error) {
      whole.set(key, { error });
    }
    draw();
  }

  function toggle(row, event) {
    event.target.open ? open.add(keyOf(row)) : open.delete(keyOf(row));
    draw();
  }

  // The line of a record; `wanted` is auto, text or hex.
  return function line(row, wanted) {
    const isOpen = open.has(keyOf(row)), loaded = whole.get(keyOf(row));
    const full = loaded && loaded.row ? loaded.row : row;
    return html`<details class="record" .open=${isOpen} @toggle=${event => toggle(row, event)}>
      <summary><span class="place">${row.partition}<b>${grouped(row.offset)}</b></span>
        <time datetime=${moment(row.timestamp_ms).replace(' ', 'T')}>${moment(row.timestamp_ms)}</time>
        <span class="key ${row.key === null ? 'null' : ''}"><bdi>${row.record_name && row.control ? row.record_name
          : inLine(...shown(row, 'key', wanted), wanted)}</bdi></span>
        <span class="value ${row.value === null ? 'null' : ''}"><bdi>${inLine(...shown(row, 'value', wanted), wanted)}</bdi></span>
        <span class="marks">${marks(row)}</span><span class="n">${size(row.size)}</span></summary>
      ${isOpen ? html`${facts(row)}
        ${row.error ? html`<p class="failed">${row.error}</p>` : nothing}
        ${part('Key', full, 'key', wanted)}
        ${full.headers.length ? html`<h2>Headers</h2><dl class="headers">${full.headers.map(each => html`<div>
          <dt><bdi>${each.name}</bdi></dt><dd><bdi>${inLine(each.value, each.value_format, wanted)}</bdi>
          ${each.value_cut ? html`<small>${size(each.value_size)} in all</small>` : nothing}</dd></div>`)}</dl>` : nothing}
        ${part('Value', full, 'value', wanted)}
        ${isCut(full) ? html`<p><button type="button" class="plain" ?disabled=${loaded && loaded.isLoading}
          @click=${() => load(row)}>Show all of it</button></p>` : nothing}
        ${loaded && loaded.error ? html`<p class="failed" role="alert">${loaded.error.message}</p>` : nothing}` : nothing}
    </details>`;
  };
}

export function keyOf(row) {
  return `${row.partition}-${row.offset}`;
}

function isCut(row) {
  return row.key_cut || row.value_cut || row.headers.some(each => each.value_cut);
}

function marks(row) {
  const found = [];
  if (row.transaction === 'aborted') found.push(html`<span class="badge bad">aborted</span>`);
  if (row.transaction === 'undecided') found.push(html`<span class="badge busy">undecided</span>`);
  if (row.transaction === 'committed') found.push(html`<span class="badge good">committed</span>`);
  if (row.record_name && !row.control) found.push(html`<span class="badge">${row.record_name}</span>`);
  if (row.error || schemaErrors(row).length) found.push(html`<span class="badge bad">not decoded</span>`);
  return found;
}

function facts(row) {
  const found = [['time', `${both(row.timestamp_ms)} (${row.timestamp_type})`], ['compression', row.compression]];
  if (row.producer_id !== null) found.push(['producer', `${row.producer_id}, epoch ${row.producer_epoch}`]);
  if (row.transaction) found.push(['transaction', row.transaction]);
  if (row.group !== null) found.push(['group', row.group]);
  if (row.value_version !== null) found.push(['version', row.value_version]);
  return html`<dl class="facts">${found.map(([words, value]) => html`<div><dt>${words}</dt><dd><bdi>${value}</bdi></dd></div>`)}</dl>`;
}

// A part and its format: of one that a schema has decoded the bytes are there, too.
function shown(row, name, wanted) {
  const raw = row[`${name}_raw`];
  return wanted === 'auto' || raw === null ? [row[name], row[`${name}_format`]] : [raw, 'hex'];
}

function schemaErrors(row) {
  return [row.key_schema, row.value_schema].filter(each => each && each.error).map(each => each.error);
}

// "Avro shop.Order, schema 5"
function schemaOf(row, name) {
  const schema = row[`${name}_schema`];
  return schema ? `, ${[KINDS[schema.type] || schema.type, schema.name].filter(Boolean).join(' ')} (schema ${schema.id})` : '';
}

function part(title, row, name, wanted) {
  const [text, form] = shown(row, name, wanted);
  const schema = row[`${name}_schema`];
  const bytes = row[`${name}_cut`] ? `the first of ${size(row[`${name}_size`])}` : size(row[`${name}_size`]);
  return html`<h2>${title} <small>${text === null ? 'null' : `${row[`${name}_format`]}, ${bytes}${schemaOf(row, name)}`}</small></h2>
    ${schema && schema.error ? html`<p class="failed">${schema.error}</p>` : nothing}
    ${text === null ? nothing : html`<pre tabindex="0" aria-label=${title}>${asText(text, form, wanted)}</pre>`}`;
}
