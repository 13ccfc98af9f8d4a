// The records of a topic: pages of them, and those with a text.
import { Failure, get, stream } from '/api.js';
import { keep } from '/address.js';
import { html, nothing, render, repeat } from '/vendor/lit-html.js';
import { counted, grouped } from '/shared/words.js';
import { size } from '/views/amounts.js';
import { failed } from '/views/failed.js';
import { keyOf, recordList } from '/views/record.js';

const FORMS = [['auto', 'as they are'], ['text', 'as text'], ['hex', 'as hex']];
const BEGINS = [['newest', 'newest first'], ['oldest', 'oldest first'], ['offset', 'from an offset'],
  ['time', 'from a time']];
// Of those that are followed; older ones leave the page.
const MOST_FOLLOWED = 500;
const PARTS = [['key', 'keys'], ['value', 'values'], ['headers', 'headers']];

// `of()` is the topic, once it is known; `at` has what the address names.
export function recordsPart(topic, of, at) {
  const path = `/api/topics/${encodeURIComponent(topic)}`;
  const wanted = { partition: at.partition ?? '', begin: at.offset !== undefined ? 'offset' : 'newest',
    offset: at.offset ?? '0', time: '', isCommitted: false, form: 'auto' };
  const sought = { text: at.text || '', path: at.path || '', equals: '', isPattern: false, ignoresCase: false, parts: new Set(['key', 'value', 'headers']) };
  const element = document.createElement('div'), [forms, list] = ['div', 'div'].map(tag => document.createElement(tag));
  let rows = [], cursor = null, isReading = false, failure = null, ends = null, found = null, asking = new AbortController();
  const line = recordList(topic, () => draw());
  element.append(forms, list);

  function query(more) {
    const params = new URLSearchParams();
    if (wanted.partition !== '') params.set('partition', wanted.partition);
    if (wanted.isCommitted) params.set('isolation', 'read_committed');
    for (const [name, value] of Object.entries(more)) params.set(name, value);
    return params;
  }

  function pageQuery() {
    const order = wanted.begin === 'newest' ? 'newest' : 'oldest';
    if (cursor) return query({ order, cursor });
    if (wanted.begin === 'offset') return query({ offset: wanted.offset });
    if (wanted.begin === 'time' && wanted.time) return query({ order, at_ms: Date.parse(`${wanted.time}Z`) });
    return query({ order });
  }

  // Read a page; the first one replaces what is shown.
  async function read(isMore) {
    asking.abort();
    const mine = asking = new AbortController();
    if (!isMore) { cursor = null; rows = []; ends = null; }
    isReading = true;
    failure = found = null;
    draw();
    try {
      const page = await get(`${path}/records?${pageQuery()}`, mine.signal);
      rows = [...rows, ...page.records];
      cursor = page.cursor;
      ends = page.partitions;
    } catch (error) {
      if (mine.signal.aborted) return;
      failure = error;
    }
    isReading = false;
    draw();
  }

  function soughtQuery() {
    const params = query({ in: [...sought.parts].join(','), pattern: sought.isPattern, ignore_case: sought.ignoresCase });
    if (sought.text) params.set('text', sought.text);
    if (sought.path) params.set('path', sought.path);
    if (sought.path && sought.equals) params.set('equals', sought.equals);
    return params;
  }

  function search() {
    const params = soughtQuery();
    params.set('order', wanted.begin === 'newest' ? 'newest' : 'oldest');
    if (wanted.begin === 'time' && wanted.time) params.set('since_ms', Date.parse(`${wanted.time}Z`));
    return streamed(`${path}/search?${params}`, false);
  }

  // Records as they are written, the newest on top.
  function follow() {
    return streamed(`${path}/tail?${soughtQuery()}`, true);
  }

  async function streamed(address, isLive) {
    asking.abort();
    const mine = asking = new AbortController();
    rows = [];
    cursor = failure = ends = null;
    isReading = true;
    found = { progress: null, isEnded: false, isLimited: false, isLive, skipped: 0, count: 0 };
    draw();
    try {
      await stream(address, (name, data) => {
        if (mine.signal.aborted) return;
        if (name === 'error') throw new Failure(data);
        if (name !== 'records') found = { ...found, progress: data, isEnded: name === 'end', isLimited: Boolean(data.limited) };
        else if (isLive) {
          rows = [...data.records.reverse(), ...rows].slice(0, MOST_FOLLOWED);
          found = { ...found, skipped: found.skipped + data.skipped, count: found.count + data.records.length };
        } else rows = [...rows, ...data.records];
        draw();
      }, mine.signal);
    } catch (error) {
      if (mine.signal.aborted) return;
      failure = error;
    }
    isReading = false;
    draw();
  }

  function stop() {
    asking.abort();
    isReading = false;
    draw();
  }

  function set(name, value) {
    wanted[name] = value;
    if (wanted.begin === 'offset' && wanted.partition === '') wanted.partition = '0';
    keep({ topic, partition: wanted.partition === '' ? null : wanted.partition,
      offset: wanted.begin === 'offset' ? wanted.offset : null });
    if (name === 'form') draw();
    else read(false);
  }

  function submit(event) {
    event.preventDefault();
    if (sought.text || sought.path) search();
    else read(false);
  }

  function drawForms() {
    const numbers = of() ? of().partitions.map(each => each.partition) : [];
    if (wanted.partition !== '' && !numbers.includes(Number(wanted.partition))) numbers.push(Number(wanted.partition));
    render(html`<div class="tools">
      <label>Partition <select @change=${event => set('partition', event.target.value)}>
        <option value="" .selected=${wanted.partition === ''} ?disabled=${wanted.begin === 'offset'}>all</option>
        ${numbers.map(each => html`<option value=${each} .selected=${String(each) === String(wanted.partition)}>${each}</option>`)}
      </select></label>
      <label>Show <select @change=${event => set('begin', event.target.value)}>${BEGINS.map(([each, words]) => html`<option
        value=${each} .selected=${each === wanted.begin}>${words}</option>`)}</select></label>
      ${wanted.begin === 'offset' ? html`<label>Offset <input class="short" inputmode="numeric" .value=${wanted.offset}
        @change=${event => set('offset', event.target.value.trim())}></label>` : nothing}
      ${wanted.begin === 'time' ? html`<label>Time (UTC) <input type="datetime-local" step="1" .value=${wanted.time}
        @change=${event => set('time', event.target.value)}></label>` : nothing}
      <label>Keys and values <select @change=${event => set('form', event.target.value)}>${FORMS.map(([each, words]) => html`<option
        value=${each} .selected=${each === wanted.form}>${words}</option>`)}</select></label>
      <label><input type="checkbox" .checked=${wanted.isCommitted}
        @change=${event => set('isCommitted', event.target.checked)}> only committed</label>
      <button type="button" class="plain" @click=${() => read(false)}>Read again</button></div>
    <form class="tools" role="search" @submit=${submit}>
      <input type="search" placeholder="Text in records" aria-label="Text in records" .value=${sought.text}
        @input=${event => { sought.text = event.target.value; drawForms(); }}>
      <label><input type="checkbox" .checked=${sought.isPattern}
        @change=${event => { sought.isPattern = event.target.checked; }}> pattern</label>
      <label><input type="checkbox" .checked=${sought.ignoresCase}
        @change=${event => { sought.ignoresCase = event.target.checked; }}> any case</label>
      ${PARTS.map(([each, words]) => html`<label><input type="checkbox" .checked=${sought.parts.has(each)}
        @change=${event => { event.target.checked ? sought.parts.add(each) : sought.parts.delete(each); drawForms(); }}> ${words}</label>`)}
      <input type="text" placeholder="Field, such as items[0].sku" aria-label="Field of JSON in keys or values" .value=${sought.path}
        @input=${event => { sought.path = event.target.value.trim(); drawForms(); }}>
      <label>= <input type="text" class="short" aria-label="Value of the field" ?disabled=${!sought.path} .value=${sought.equals}
        @input=${event => { sought.equals = event.target.value; }}></label>
      <button class="plain" ?disabled=${!(sought.text || sought.path) || !sought.parts.size}>Search</button>
      <button type="button" class="plain" @click=${follow}>Follow new records</button>
      ${found && isReading ? html`<button type="button" class="plain" @click=${stop}>Stop</button>` : nothing}</form>`, forms);
  }

  function draw() {
    drawForms();
    render(html`${found ? progress() : nothing}
      ${failed(failure)}
      <div class="records">${repeat(rows, keyOf, row => line(row, wanted.form))}</div>
      <p class="note" role="status">${status()}</p>
      ${cursor ? html`<button type="button" class="plain" ?disabled=${isReading} @click=${() => read(true)}>${
        wanted.begin === 'newest' ? 'Older records' : 'Newer records'}</button>` : nothing}`, list);
  }

  function status() {
    if (found) return '';
    if (isReading) return 'Records are being read.';
    if (failure) return '';
    if (!rows.length) return ends && wanted.begin === 'offset'
      ? `There is no record from this offset on; the end is ${ends.map(each => grouped(each.end_offset)).join(', ')}.`
      : 'There are no records.';
    return cursor ? '' : `These are all: ${counted(rows.length, 'record')}.`;
  }

  function progress() {
    const { progress: far, isEnded, isLimited } = found;
    if (found.isLive) return followed(found);
    if (!far) return html`<p class="note" role="status">The search begins.</p>`;
    const words = isEnded ? isLimited ? 'Stopped at the limit: ' : 'Searched all: ' : isReading ? '' : 'Stopped: ';
    return html`<div class="progress"><progress max=${Math.max(far.total, 1)} .value=${far.total ? far.scanned : 1}
      aria-label="How far the search is"></progress>
      <span role="status">${words}${counted(far.found, 'record')} found in ${grouped(far.scanned)} of ${
        counted(far.total, 'offset')}${isEnded || isReading ? `, ${size(far.bytes_per_s)}/s` : ''}</span></div>`;
  }

  function followed({ progress: far, isEnded, count, skipped }) {
    const state = isEnded ? 'Ended after ten minutes: ' : isReading ? 'New records appear here: ' : 'Stopped: ';
    return html`<p class="note" role="status">${state}${counted(count, 'record')} of ${grouped(far ? far.read : 0)} written${
      skipped ? `, and ${grouped(skipped)} more that came too fast` : ''}.</p>`;
  }

  if (sought.text || sought.path) search();
  else read(false);
  return { element, update: drawForms, close: () => asking.abort() };
}

