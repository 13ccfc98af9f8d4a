// All groups: what is wrong, the last rebalances of those in trouble, and the list.
import { keep, parsed } from '/address.js';
import { showCluster } from '/console.js';
import { follow } from '/live.js';
import { html, nothing, render } from '/vendor/lit-html.js';
import { compare } from '/shared/tables.js';
import { moveOn, range, setWhole } from '/shared/time.js';
import { strips } from '/shared/strips.js';
import { both, counted, duration, grouped } from '/shared/words.js';
import { WINDOW_MS, groupList } from '/views/group_list.js';
import { GroupRows } from '/views/group_rows.js';
import { wrongList } from '/views/wrong.js';

// Groups in the strip above the list, before all are asked for.
const MOST_STRIPS = 8;
const TICK_MS = 1_000;

export function open(main) {
  const rows = new GroupRows(), list = groupList(rows), wrong = wrongList();
  const { params } = parsed(location.hash);
  const overview = document.createElement('section'), tools = document.createElement('div');
  const stop = new AbortController();
  let strip = null, isScheduled = false, seen = false, findings = null;
  main.append(wrong.element, overview, Object.assign(document.createElement('h2'), { textContent: 'Groups' }),
    tools, list.element);
  if (params.find || params.state) rows.find(params.find || '', params.state || '');

  function lanes() {
    return [...rows.rows.values()].filter(row => (row.strip || []).length)
      .sort((one, other) => compare(one.trouble || null, other.trouble || null, -1)
        || (other.strip.length - one.strip.length) || compare(one.group, other.group, 1))
      .map(row => ({ id: row.group, replaced: [], marks: row.strip.map(([started, completed, cause, unowned]) =>
        ({ started, completed, cause: cause || '', isUnowned: Boolean(unowned), unowned })) }));
  }

  function drawOverview() {
    const found = lanes();
    overview.hidden = !found.length;
    if (!found.length) return;
    setWhole(span());
    if (!strip) {
      strip = strips({ lanes, most: MOST_STRIPS, span: () => range || span(), when: mark => mark.started,
        silences: () => [], lines: tipLines, open: ({ id }) => { location.hash = `#group=${encodeURIComponent(id)}`; } });
      overview.append(Object.assign(document.createElement('h2'), { textContent: 'Rebalances of the last 15 minutes' }),
        strip.element);
    }
    strip.update();
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
    </div>`, tools);
  }

  function find(filter, state) {
    rows.find(filter, state);
    keep({ groups: filter || state ? true : null, find: filter || null, state: state || null });
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
  return { close() { end(); clearInterval(timer); stop.abort(); } };
}

function span() {
  const now = Date.now();
  return [now - WINDOW_MS, now];
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
