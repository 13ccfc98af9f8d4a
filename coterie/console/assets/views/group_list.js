// The list of groups. Only the rows that are seen exist, whatever the number of groups.
import { addressOf } from '/address.js';
import { html, nothing, render, repeat } from '/vendor/lit-html.js';
import { drawSpark, drawStrip } from '/shared/spark.js';
import { colour } from '/shared/view.js';
import { MINUTE, duration, grouped, short } from '/shared/words.js';
import { ORDERS } from '/views/group_rows.js';

export const WINDOW_MS = 15 * MINUTE;
// Rows above and below those that are seen, so that scrolling shows no gap.
const SPARE = 6;
const STATES = { Stable: 'good', PreparingRebalance: 'busy', CompletingRebalance: 'busy', Assigning: 'busy',
  Reconciling: 'busy', NotReady: 'busy', Dead: 'bad' };
const WIDE = new Set(['partitions', 'records_per_s', 'catch_up_s', 'last_commit_ms']);

export function stateBadge(state) {
  return html`<span class="badge ${STATES[state] ?? ''}">${state}</span>`;
}

export function ago(at) {
  if (at === null || at === undefined) return '';
  const ms = Math.max(0, Date.now() - at);
  return ms < 1000 ? 'now' : `${duration(Math.floor(ms / 1000) * 1000).replace('.0 s', ' s')} ago`;
}

// The list of `rows` (GroupRows) as an element; `draw()` shows them as they are now.
export function groupList(rows) {
  const element = document.createElement('div');
  element.className = 'groups-list';
  const flashes = new Map(), drawn = new WeakMap();
  let current = null, isPointed = false, isFocused = false, first = 0, last = 0;

  function rowHeight() {
    return parseFloat(getComputedStyle(document.documentElement).getPropertyValue('--row')) || 40;
  }

  function hold() {
    rows.hold(isPointed || isFocused);
    draw();
  }

  function draw() {
    const height = rowHeight(), body = element.querySelector('.rows');
    const top = body ? body.getBoundingClientRect().top : 0;
    first = Math.max(0, Math.floor(-top / height) - SPARE);
    last = Math.min(rows.names.length, Math.ceil((innerHeight - top) / height) + SPARE);
    const names = rows.names.slice(first, Math.max(first, last));
    render(html`
      <div role="table" aria-label="Groups" aria-rowcount=${rows.names.length + 1}>
        <div role="rowgroup"><div class="list-head" role="row" aria-rowindex="1">${
          Object.entries(ORDERS).map(([name, column]) => headCell(name, column))}</div></div>
        <div class="rows" role="rowgroup" @pointerenter=${event => {
          isPointed = event.pointerType === 'mouse'; hold(); }} @pointerleave=${() => { isPointed = false; hold(); }}
          @focusin=${event => { isFocused = true; current = nameOf(event.target); hold(); }}
          @focusout=${event => { if (!event.currentTarget.contains(event.relatedTarget)) {
            isFocused = false; hold(); } }}>
          ${repeat(names, name => name, (name, n) => rowElement(name, first + n))}
        </div>
      </div>`, element);
    const made = element.querySelector('.rows');
    made.style.height = `${rows.names.length * height}px`;
    made.style.setProperty('--first', `${first * height}px`);
    paint();
  }

  function headCell(name, { title, value, number }) {
    const sort = rows.order === name ? (rows.direction > 0 ? 'ascending' : 'descending') : nothing;
    return html`<span role="columnheader" class="${number && name !== 'last' ? 'n' : ''} ${
      WIDE.has(name) ? 'wide' : ''} ${value ? '' : 'no-sort'}" aria-sort=${sort}>${value
      ? html`<button type="button" @click=${() => { rows.sortBy(name); draw(); }}>${title}</button>`
      : title}</span>`;
  }

  function rowElement(name, index) {
    const row = rows.rows.get(name), { last_rebalance: past } = row, isGone = rows.gone.has(name);
    const flash = flashes.get(name);
    return html`<div class="row ${isGone ? 'gone' : ''} ${flash ? `flash flash-${flash % 2}` : ''}" role="row"
        aria-rowindex=${index + 2} data-group=${name} @click=${event => openRow(event, name)}>
      <span role="cell" class="name"><a href=${addressOf({ group: name })}><bdi>${name || '(empty name)'}</bdi></a>
        ${row.type && row.type !== 'classic' ? html`<small>${row.type}</small>` : nothing}</span>
      <span role="cell" class="state-of">${isGone ? html`<span class="badge">deleted</span>`
        : stateBadge(row.state)}</span>
      ${number(row.members, row.members === 1 ? 'member' : 'members')}
      ${number(row.partitions, 'partitions', true)}
      <span role="cell" class="n lag"><canvas class="spark" aria-hidden="true"></canvas><span>${
        row.lag === null || row.lag === undefined ? '' : html`${grouped(row.lag)}<span class="label"> lag</span>`}${
        row.lag && row.lag_ms ? html`<small>${duration(row.lag_ms)}</small>` : nothing}</span></span>
      ${number(row.records_per_s, 'records/s', true, short)}
      ${number(row.catch_up_s || null, 'to catch up', true, seconds => duration(seconds * 1000))}
      ${number(row.rebalances_1h || null, row.rebalances_1h === 1 ? 'rebalance/h' : 'rebalances/h')}
      <span role="cell" class="last" title=${past ? lastText(row) : nothing}>${past ? html`${past.cause}${past.who ? html` by <bdi>${past.who}</bdi>` : nothing}
        <small>${ago(past.at_ms)}${unownedOf(row)}</small>` : nothing}</span>
      <span role="cell" class="strip"><canvas aria-label=${stripLabel(row)} role="img"></canvas></span>
      <span role="cell" class="n wide">${ago(row.last_commit_ms)}</span>
    </div>`;
  }

  function number(value, words, isWide = false, text = grouped) {
    return html`<span role="cell" class="n ${isWide ? 'wide' : ''}">${
      value === null || value === undefined ? '' : html`${text(value)}<span class="label"> ${words}</span>`}</span>`;
  }

  // Draw the canvases of the rows that are seen, if what they show has changed.
  function paint() {
    const now = Date.now(), span = [now - WINDOW_MS, now];
    for (const each of element.querySelectorAll('.row')) {
      const row = rows.rows.get(each.dataset.group), known = drawn.get(each);
      const slot = `${Math.floor(now / 5_000)} ${innerWidth} ${colour('back')}`;
      if (known && known.row === row && known.slot === slot) continue;
      drawn.set(each, { row, slot });
      const [spark, strip] = each.querySelectorAll('canvas');
      drawSpark(spark, extended(row.lag_trend || [], now), span);
      drawStrip(strip, row.strip || [], span);
    }
  }

  function openRow(event, name) {
    if (event.target.closest('a') || String(getSelection())) return;
    location.hash = addressOf({ group: name });
  }

  // Move the focus by rows.
  function move(step) {
    if (!rows.names.length) return;
    const at = rows.names.indexOf(current);
    const next = Math.min(rows.names.length - 1, Math.max(0, at < 0 ? 0 : at + step));
    current = rows.names[next];
    const body = element.querySelector('.rows'), height = rowHeight();
    const top = body.getBoundingClientRect().top + next * height;
    const room = (document.querySelector('.list-head').offsetHeight || 0) + document.getElementById('head').offsetHeight;
    if (top < room) scrollBy(0, top - room);
    else if (top + height > innerHeight) scrollBy(0, top + height - innerHeight);
    draw();
    const found = [...element.querySelectorAll('.row')].find(each => each.dataset.group === current);
    found.querySelector('a').focus({ preventScroll: true });
  }

  function flash(names) {
    for (const name of names) flashes.set(name, (flashes.get(name) || 0) + 1);
  }

  return { element, draw, move, flash };
}

function nameOf(target) {
  const row = target.closest('.row');
  return row ? row.dataset.group : null;
}

// The last value holds until now.
function extended(points, now) {
  return points.length ? [...points, [now, points[points.length - 1][1]]] : points;
}

function lastText({ last_rebalance: past }) {
  return past.who ? `${past.cause} by ${past.who}` : past.cause;
}

function unownedOf(row) {
  const ms = (row.strip || []).reduce((sum, each) => sum + (each[3] || 0), 0);
  return ms ? `, ${duration(ms)} without owner in 15 min` : '';
}

function stripLabel(row) {
  const count = (row.strip || []).length;
  return `${count === 0 ? 'no' : grouped(count)} rebalance${count === 1 ? '' : 's'} in 15 minutes`;
}
