// One group: what it does now and for whom it waits, its owners and rebalances over time, members, partitions.
import { keep } from '/address.js';
import { showCluster } from '/console.js';
import { follow } from '/live.js';
import { html, nothing, render } from '/vendor/lit-html.js';
import { chart } from '/shared/chart.js';
import { readData } from '/shared/data.js';
import { groupBody } from '/shared/group.js';
import { labelRoom } from '/shared/ownership.js';
import { moveOn, range, setRange, setWhole, watch } from '/shared/time.js';
import { HOUR, MINUTE, duration, moment } from '/shared/words.js';
import { changeButtons } from '/views/changes.js';
import { stateBadge } from '/views/group_list.js';
import { memberTable, partitionTable, recordTable, topologyTable } from '/views/group_tables.js';
import { phaseBox } from '/views/phase.js';
import { replayPart } from '/views/replay.js';
import { unownedBy } from '/views/unowned.js';
import { wrongList } from '/views/wrong.js';

const WINDOWS = [['5 min', 5 * MINUTE], ['15 min', 15 * MINUTE], ['1 h', HOUR], ['All', null]];
// The shortest time that is drawn.
const LEAST_MS = 10_000;
const TICK_MS = 1_000, LAG_STEP_MS = 1_000;
// A lag holds until the next look, which comes before that; what is not looked at any more does not go on.
const LAG_HOLDS_MS = 3_000;
// Of these types it is recorded who owned which partition, and how else they could have been assigned.
const OWNED_BY_LOG = ['classic', 'consumer'];
// What is shown around the moment that an address names.
const AROUND_MS = MINUTE;

export function open(main, params) {
  const id = params.group;
  let now = null, group = null, end = Date.now(), windowMs = 15 * MINUTE, body = null, lag = null, members = null, partitions = null, topology = null, records = null;
  let unowned = new Map(), heard = null, bare = null;
  const [head, times, past, lagHost, lists] = ['div', 'div', 'div', 'div', 'div'].map(tag => document.createElement(tag));
  const phase = phaseBox(), wrong = wrongList({ ofGroup: true }), replay = replayPart(id);
  main.append(head, phase.element, wrong.element, times, lagHost, past, lists, replay.element);

  // The time that is drawn while no other is chosen: it ends now.
  function whole() {
    // Nothing was before the first record of the group.
    const first = group && group.span ? group.span[0] + group.zero : end - LEAST_MS;
    const begin = Math.min(first - (end - first) * 0.02, end - LEAST_MS);
    return [windowMs === null ? begin : Math.max(begin, end - windowMs), end];
  }

  // All drawings end at the same moment.
  function advance() {
    end = Date.now();
    setWhole(whole());
    moveOn();
  }

  function drawHead() {
    render(html`<p class="note"><a href="#">All groups</a></p>
      <h1><bdi>${id || '(empty name)'}</bdi> ${now && now.state ? stateBadge(now.state) : nothing}</h1>
      <p class="sentence">${now ? now.sentence : 'The group is being read.'}</p>
      ${changeButtons([['reset-offsets', 'Reset offsets', () => ({ group: id })],
        ['delete-offsets', 'Delete offsets', () => ({ group: id })],
        ['expel-members', 'Expel members', () => ({ group: id, members: (now && now.members || []).map(each => each.consumer_id) })],
        ['alter-settings', 'Alter settings', () => ({ kind: 'groups', name: id })],
        ['delete-groups', 'Delete the group', () => ({ groups: [id] })]])}`, head);
  }

  function drawTimes() {
    render(html`<h2>Owners and rebalances</h2><div class="tools">
      ${WINDOWS.map(([words, ms]) => html`<button type="button" class="plain" aria-pressed=${!range && windowMs === ms}
        @click=${() => { windowMs = ms; setRange(null); }}>${words}</button>`)}
      ${range ? html`<span role="status">${moment(range[0])} to ${moment(range[1]).slice(11)} UTC, ${
        duration(range[1] - range[0])}</span> <button type="button" class="plain" @click=${() => setRange(null)}>
        Up to now</button>` : html`<span class="note">Drag over a drawing to choose a time.</span>`}</div>
      ${now && now.exists && !now.has_journal ? html`<p class="note">This broker keeps no journal: who caused a rebalance,
        and for whom a group waits, is not recorded.</p>` : nothing}
      ${group && !group.owned.length ? html`<p class="note">${OWNED_BY_LOG.includes(now && now.type)
        ? 'No owner has been recorded yet.' : 'The owners of groups of this type are not recorded over time.'}</p>` : nothing}`, times);
    replay.update(now === null || !now.exists || OWNED_BY_LOG.includes(now.type));
  }

  function drawHistory() {
    if (!group) return;
    if (body) body.update(group);
    else {
      body = groupBody(group, { without: ['charts', 'partitions'], whole,
        titles: { members: 'Members until now' } });
      past.append(body.element);
    }
  }

  // Lag as steps, over the same axis as the lanes; a step has the last lag in it.
  function drawLag() {
    // The trend has few points; the lag of now is not one of them.
    const trend = [...now.lag_trend || [], ...now.lag === null ? [] : [[now.at_ms, now.lag]]];
    lagHost.hidden = trend.length < 1;
    if (lagHost.hidden) return;
    const start = trend[0][0], count = Math.ceil((now.at_ms + LAG_HOLDS_MS - start) / LAG_STEP_MS), values = [];
    for (let n = 0, at = 0; n < count; n++) {
      while (at + 1 < trend.length && trend[at + 1][0] < start + (n + 1) * LAG_STEP_MS) at++;
      values.push(trend[at][1]);
    }
    const series = [start, LAG_STEP_MS, values];
    if (lag) lag.update(series);
    else {
      lag = chart('Lag, messages', series, () => range || whole(), width => labelRoom(group ? group.lanes : [])(width));
      lagHost.append(lag.element);
    }
  }

  function drawLists() {
    const at = Date.now();
    unowned = group ? unownedBy(group, at - HOUR, at) : new Map();
    if (now.topology && !topology) {
      topology = topologyTable(() => now);
      lists.prepend(Object.assign(document.createElement('h2'), { textContent: 'Topology now' }), topology.element);
    }
    if (!members) {
      [heard, bare] = ['p', 'p'].map(tag => Object.assign(document.createElement(tag), { className: 'note' }));
      bare.textContent = 'No offset is committed, and no partition has an owner.';
      members = memberTable(() => now);
      partitions = partitionTable(() => now, row => unowned.get(`${row.topic}-${row.partition}`) ?? null);
      for (const [title, ...made] of [['Members now', heard, members.element], ['Partitions now', bare, partitions.element]])
        lists.append(Object.assign(document.createElement('h2'), { textContent: title }), ...made);
    } else {
      members.update();
      partitions.update();
      if (topology) topology.update();
    }
    sayHeard();
    if (!now.records) return;
    if (!records) {
      records = recordTable(() => now);
      heard.nextElementSibling.after(Object.assign(document.createElement('h2'), { textContent: 'In flight now' }), records.element);
    } else records.update();
  }

  // What only the broker itself tells, where it does not.
  function sayHeard() {
    bare.hidden = now.partitions.length > 0;
    heard.hidden = now.members.length > 0 && now.tells_present;
    heard.textContent = !now.members.length ? 'The group has no members.' : `When a member was last heard${now.type === 'share' ? ', and who has locked which records,' : ''} is
      not known here: no request of Kafka’s protocol tells it. A broker of Coterie does, with serve --console, or if
      its console has --control-url.`;
  }

  function receive(name, data) {
    if (name === 'cluster') showCluster(data);
    else if (name === 'group') {
      now = data;
      drawHead();
      phase.update(data.phase, data.state);
      wrong.update(data.findings ?? undefined);
      drawTimes();
      drawLag();
      drawLists();
    } else if (name === 'history') {
      const read = readData(data);
      group = read.groups.find(each => each.id === id) || read.groups[0] || null;
      drawTimes();
      drawHistory();
      if (members) drawLists();
    }
    if (!range) advance();
  }

  // Escape leads back to all groups, unless it ends something on this page.
  function typed(event) {
    if (event.key !== 'Escape' || range || event.target.closest('input, select, dialog')) return;
    location.hash = '';
  }

  drawHead();
  drawTimes();
  watch(() => {
    drawTimes();
    keep({ group: id, from: range ? range[0] : null, to: range ? range[1] : null });
  });
  setWhole(whole());
  const at = Number(params.at), times_ = [Number(params.from), Number(params.to)];
  if (params.at && at) setRange([at - AROUND_MS, at + AROUND_MS]);
  else if (params.from && params.to) setRange(times_);
  const stop = follow(`/api/groups/${encodeURIComponent(id)}/events`, receive);
  const timer = setInterval(() => {
    if (!range && !document.hidden) advance();
  }, TICK_MS);
  addEventListener('keydown', typed);
  return { close() {
    stop();
    clearInterval(timer);
    removeEventListener('keydown', typed);
    phase.stop();
    replay.close();
  } };
}
