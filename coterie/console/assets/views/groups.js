// All groups: what is wrong, the last rebalances of those in trouble, and the list.
import { keep, parsed } from '/address.js';
import { showCluster } from '/console.js';
import { follow } from '/live.js';
import { html, nothing, render } from '/vendor/lit-html.js';
import { compare } from '/shared/tables.js';
import { moveOn, range, setRange, setWhole } from '/shared/time.js';
import { strips } from '/shared/strips.js';
import { DAY, HOUR, both, counted, duration, grouped } from '/shared/words.js';
import { WINDOW_MS, groupList } from '/views/group_list.js';
import { GroupRows } from '/views/group_rows.js';
import { olderRebalances } from '/views/older_rebalances.js';
import { wrongList } from '/views/wrong.js';

// Groups in the strip above the list, before all are asked for.
const MOST_STRIPS = 8, MOST_NAMES = 5;
const TICK_MS = 1_000;
// What the strip shows, and the name in the address; events have the first, the journal has a day.
const WINDOWS = [['15 min', WINDOW_MS, '15 minutes', null], ['1 h', HOUR, 'hour', '1h'], ['24 h', DAY, '24 hours', '24h']];

export function open(main) {
  const rows = new GroupRows(), list = groupList(rows), wrong = wrongList();
  const { params } = parsed(location.hash);
  const overview = document.createElement('section'), tools = document.createElement('div');
  const choice = document.createElement('div'), stop = new AbortController();
  const older = olderRebalances(() => draw(), error => { failure = error.message; draw(); });
  let windowMs = (WINDOWS.find(each => each[3] && each[3] === params.last) || WINDOWS[0])[1], failure = '', laneCount = 0, strip = null, isScheduled = false, seen = false, findings = null;
  main.append(wrong.element, overview, Object.assign(document.createElement('h2'), { textContent: 'Groups' }),
    tools, list.element);
  if (params.find || params.state) rows.find(params.find || '', params.state || '');

  function isLong() {
    return windowMs !== WINDOW_MS;
  }

  function span() {
    const now = Date.now();
    return [now - windowMs, now];
  }

  function lanes() {
    const found = [...rows.rows.values()].map(row => [row, isLong() ? older.of(row) : row.strip || []])
      .filter(([, marks]) => marks.length)
      .sort(([one, marks], [other, others]) => compare(one.trouble || null, other.trouble || null, -1)
        || (others.length - marks.length) || compare(one.group, other.group, 1));
    laneCount = found.length;
    return found.map(([row, marks]) => ({ id: row.group, replaced: [], marks: marks.map(([started, completed, cause, unowned]) =>
        ({ started, completed, cause: cause || '', isUnowned: Boolean(unowned), unowned })) }));
  }

  function drawOverview() {
    overview.hidden = !rows.rows.size;
    if (overview.hidden) return;
    setWhole(span());
    if (!strip) {
      strip = strips({ lanes, most: MOST_STRIPS, span: () => range || span(), when: mark => mark.started,
        silences: () => [], lines: tipLines, open: ({ id }) => { location.hash = `#group=${encodeURIComponent(id)}`; } });
      overview.append(choice, strip.element);
    } else strip.update();
    strip.element.hidden = !laneCount;
    drawChoice();
  }

  function drawChoice() {
    render(html`<h2>Rebalances of the last ${WINDOWS.find(each => each[1] === windowMs)[2]}</h2><div class="tools">
      ${WINDOWS.map(([words, ms]) => html`<button type="button" class="plain" aria-pressed=${windowMs === ms}
        @click=${() => choose(ms)}>${words}</button>`)}
      ${laneCount ? nothing : html`<span class="note">There was none.</span>`}
      ${failure ? html`<span class="failed" role="alert">${failure}</span>` : nothing}</div>`, choice);
  }

  function choose(ms) {
    windowMs = ms;
    failure = '';
    setRange(null);
    older.forget();
    if (isLong()) older.read(ms);
    keepAddress();
    drawOverview();
  }

  function keepAddress() {
    const { filter, state } = rows, last = WINDOWS.find(each => each[1] === windowMs)[3];
    keep({ groups: filter || state || last ? true : null, find: filter || null, state: state || null, last });
  }

  function drawTools() {
    const states = rows.states();
    render(html`<div class="tools">
      <input type="search" id="find" placeholder="Find a group ( / )" aria-label="Find a group" .value=${rows.filter}
        @input=${event => find(event.target.value, rows.state)}>
      ${states.length > 1 || rows.state ? html`${[['', 'all'], ...states.map(([state]) => [state, state])].map(
        ([state, words]) => html`<button type="button" class="plain" aria-pressed=${rows.state === state}
          @click=${() => find(rows.filter, state)}>${words} ${grouped(state
          ? (states.find(each => each[0] === state) || [0, 0])[1] : rows.rows.size - rows.gone.size)}</button>`)}` : nothing}
      ${rows.isLate ? html`<button type="button" class="plain again" @click=${() => { rows.again(); drawNow(); }}>
        Sort again</button>` : nothing}
      <span class="count" role="status">${seen ? rows.names.length === rows.rows.size ? counted(rows.names.length, 'group')
        : `${grouped(rows.names.length)} of ${counted(rows.rows.size, 'group')}` : 'The groups are being read.'}</span>
    </div>${refusedNote([...rows.rows.values()].filter(row => row.refused))}`, tools);
  }

  function find(filter, state) {
    rows.find(filter, state);
    keepAddress();
    drawNow();
  }

  function drawNow() {
    drawTools();
    list.draw();
  }

  // However many events came, the page is drawn once a frame.
  function draw() {
    if (isScheduled) return;
    isScheduled = true;
    requestAnimationFrame(() => {
      isScheduled = false;
      drawNow();
      drawOverview();
      wrong.update(findings, summaryOf(rows));
    });
  }

  function receive(name, data, isFirst) {
    if (name === 'cluster') showCluster(data);
    else if (name === 'groups') {
      seen = true;
      list.flash(rows.update(data, isFirst));
      if (isLong()) {
        older.update(data);
        if (isFirst) older.read(windowMs);
      }
    } else if (name === 'findings') findings = data;
    draw();
  }

  function typed(event) {
    const isTyping = event.target.closest('input, textarea, select, dialog');
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const field = document.getElementById('find');
    if (event.key === 'Escape') {
      if (rows.filter || rows.state) find('', '');
      document.activeElement.blur();
    } else if (isTyping) {
      if (event.key === 'Enter' && event.target === field) list.move(0);
      return;
    } else if (event.key === '/') field.focus();
    else if (event.key === 'j') list.move(1);
    else if (event.key === 'k') list.move(-1);
    else return;
    event.preventDefault();
  }

  drawTools();
  const end = follow('/api/events', receive);
  const timer = setInterval(() => {
    if (!seen || document.hidden) return;
    list.draw();
    if (!range) moveOn();
  }, TICK_MS);
  addEventListener('scroll', () => list.draw(), { signal: stop.signal, passive: true });
  addEventListener('resize', () => list.draw(), { signal: stop.signal });
  addEventListener('keydown', typed, { signal: stop.signal });
  return { close() { end(); clearInterval(timer); stop.abort(); older.forget(); } };
}

// Groups that the user may not describe have a row, but no members and no lag.
function refusedNote(refused) {
  if (!refused.length) return nothing;
  const names = refused.slice(0, MOST_NAMES).map(row => row.group).join(', ');
  const errors = [...new Set(refused.map(row => row.refused))].join(', ');
  return html`<p class="note refused">${counted(refused.length, 'group')} could not be read for lack of permission (${errors}):
    <bdi>${names}</bdi>${refused.length > MOST_NAMES ? ', …' : ''}</p>`;
}

function tipLines(group, mark) {
  return [mark.cause, both(mark.started), mark.completed === null ? 'still going on'
    : `took ${duration(mark.completed - mark.started)}, without owner ${duration(mark.unowned)} over all partitions`];
}

// "14 groups, 12 stable, 2 empty."
function summaryOf(rows) {
  const states = rows.states().map(([state, count]) => `${grouped(count)} ${state.toLowerCase()}`);
  return `${[counted(rows.rows.size, 'group'), ...states].join(', ')}.`;
}
