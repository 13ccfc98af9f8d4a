// One topic: its records, partitions, settings, the groups that read it, its producers.
import { keep } from '/address.js';
import { get } from '/api.js';
import { html, nothing, render } from '/vendor/lit-html.js';
import { allRows } from '/shared/tables.js';
import { counted, moment } from '/shared/words.js';
import { size, written } from '/views/amounts.js';
import { changeButtons } from '/views/changes.js';
import { failed } from '/views/failed.js';
import { poll } from '/views/polled.js';
import { recordsPart } from '/views/records.js';
import { groupTable, partitionTable, producerTable, settingTable } from '/views/topic_tables.js';
import { wrong } from '/views/topics.js';

const TABS = [['records', 'Records'], ['partitions', 'Partitions'], ['settings', 'Settings'],
  ['groups', 'Groups'], ['producers', 'Producers']];

export function open(main, params) {
  const name = params.topic, path = `/api/topics/${encodeURIComponent(name)}`;
  const [head, body] = ['div', 'div'].map(tag => document.createElement(tag));
  let topic = null, failure = null, tab = params.tab || 'records', part = null, end = null, more = [], isAll = false;
  main.append(head, body);

  function draw() {
    render(html`<p class="note"><a href="#topics">All topics</a></p>
      <h1><bdi>${name}</bdi></h1>
      ${topic ? html`<p class="sentence">${counted(topic.partition_count, 'partition')}, ${
        counted(topic.replication_factor, 'replica')}, ${size(topic.size_bytes)}, ${counted(topic.offsets, 'offset')}${
        written(topic) ? `, ${written(topic)}` : ''}${
        wrong(topic) ? html`, <span class="critical">${wrong(topic)}</span>` : nothing}.
        <small>as of ${moment(topic.at_ms).slice(11, 19)} UTC</small></p>` : nothing}
      ${failed(failure)}
      ${changeButtons([['produce', 'Produce a record', () => ({ topic: name })],
        ['alter-settings', 'Alter settings', () => ({ kind: 'topics', name })],
        ['abort-hanging-transaction', 'Abort a hanging transaction', () => ({ topic: name })],
        ['delete-topics', 'Delete the topic', () => ({ topics: [name] })]])}
      <div class="tabs" role="tablist" aria-label="Parts of the topic" @keydown=${typed}>${TABS.map(([each, words]) => html`<button
        type="button" role="tab" id=${`tab-${each}`} aria-selected=${each === tab} aria-controls="part"
        tabindex=${each === tab ? 0 : -1} @click=${() => choose(each)}>${words}</button>`)}</div>`, head);
    body.id = 'part';
    body.setAttribute('role', 'tabpanel');
    body.setAttribute('aria-labelledby', `tab-${tab}`);
    if (part) part.update();
  }

  function typed(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const at = TABS.findIndex(([each]) => each === tab);
    choose(TABS[(at + step + TABS.length) % TABS.length][0]);
    document.getElementById(`tab-${tab}`).focus();
    event.preventDefault();
  }

  function choose(next) {
    tab = next;
    keep({ topic: name, tab: tab === 'records' ? null : tab });
    show({});
  }

  function show(at) {
    if (part && part.close) part.close();
    if (end) end();
    end = null;
    more = [];
    body.replaceChildren();
    if (tab === 'records') part = recordsPart(name, () => topic, at);
    else if (tab === 'partitions') part = partitionTable(name, allRows(() => topic ? topic.partitions : []));
    else if (tab === 'settings') part = settingPart();
    else if (tab === 'groups') part = listed('groups', groupTable);
    else part = listed('producers', producerTable);
    body.append(part.element);
    draw();
  }

  // Settings that someone has set; the others with a button.
  function settingPart() {
    const tools = document.createElement('div'), element = document.createElement('div');
    const rows = () => topic ? topic.settings.filter(row => isAll || row.source !== 'default') : [];
    const made = settingTable(allRows(rows));
    element.append(tools, made.element);
    return { element, update() {
      render(html`<div class="tools"><button type="button" class="plain" aria-pressed=${isAll}
        @click=${() => { isAll = !isAll; part.update(); }}>defaults, too</button>
        <span class="count" role="status">${counted(rows().length, 'setting')}</span></div>`, tools);
      made.update();
    } };
  }

  // A table of rows that are asked for while it is seen.
  function listed(kind, tableOf) {
    const note = document.createElement('div'), element = document.createElement('div');
    const made = tableOf(allRows(() => more));
    element.append(note, made.element);
    let seen = false, wrongWith = null;
    const say = () => render(html`<p class="note" role="status">${wrongWith ? `${wrongWith.message} ${wrongWith.remedy || ''}`
      : !seen ? 'They are being read.' : more.length ? nothing : 'There are none.'}</p>`, note);
    const update = () => { say(); made.update(); };
    const stop = new AbortController();
    get(`${path}/${kind}`, stop.signal).then(data => { more = data[kind]; seen = true; update(); },
      error => { if (!stop.signal.aborted) { wrongWith = error; update(); } });
    return { element, update, close: () => stop.abort() };
  }

  show(params);
  const stopPolling = poll(path, data => { topic = data; failure = null; draw(); },
    error => { failure = error; draw(); });
  return { close() { stopPolling(); if (part && part.close) part.close(); } };
}

