// The console: the head of the page, and the view that the address names.
import { get } from '/api.js';
import { addressOf, parsed } from '/address.js';
import { html, nothing, render } from '/vendor/lit-html.js';
import { pause, watchCondition } from '/live.js';
import { forgetTime } from '/shared/time.js';
import { duration, grouped, short } from '/shared/words.js';

// The views, by the first name of the address; each is a module with `open(main, params)`.
const VIEWS = {
  groups: { module: 'groups', title: () => 'Groups', part: 'groups' },
  group: { module: 'group', title: params => params.group, part: 'groups' },
  topics: { module: 'topics', title: () => 'Topics', part: 'topics' },
  topic: { module: 'topic', title: params => params.topic, part: 'topics' },
  transactions: { module: 'transactions', title: () => 'Transactions', part: 'transactions' },
  control: { module: 'control', title: () => 'Faults and clock', part: 'control' },
};
const PARTS = [['groups', 'Groups', '#'], ['topics', 'Topics', '#topics'],
  ['transactions', 'Transactions', '#transactions']];
// For brokers of which the console has a control: those of a test, or of `serve --control`.
const CONTROL_PARTS = [...PARTS, ['control', 'Faults and clock', '#control']];
const WORDS = { live: 'Live', broken: 'Broken', paused: 'Paused', connecting: 'Connecting' };

const main = document.getElementById('main'), head = document.getElementById('head');
let view = null, cluster = null, condition = null, opened = 0, address = null;

// What the head shows of the cluster, for the views that get it with their events.
export function showCluster(next) {
  cluster = { ...cluster, ...next };
  drawHead();
}

export function isReadOnly() {
  return !cluster || !cluster.allows_changes;
}

function facts() {
  const of = name => cluster[name] ?? null, found = [];
  if (of('version')) found.push(['version', of('version')]);
  if (of('started_ms')) found.push(['up', duration(Date.now() - of('started_ms'))]);
  if (of('data_dir')) found.push(['data', of('data_dir')]);
  if (of('flush')) found.push(['flush', of('flush')]);
  if (of('connections') !== null) found.push([of('connections') === 1 ? 'connection' : 'connections', grouped(of('connections'))]);
  if (of('requests_per_s') !== null) found.push(['requests/s', short(of('requests_per_s'))]);
  if (of('commits_per_s') !== null) found.push(['commits/s', short(of('commits_per_s'))]);
  if (of('brokers')) found.push([of('brokers').length === 1 ? 'broker' : 'brokers', of('brokers').length]);
  return found;
}

function drawHead() {
  // A console that answers may look at a broker that does not.
  const isAway = condition && condition.state === 'live' && cluster && cluster.state === 'broken';
  const state = isAway ? 'broken' : condition ? condition.state : 'connecting';
  const why = isAway ? `${cluster.error}. ${cluster.remedy || ''}` : condition ? condition.why : '';
  const since = isAway ? cluster.since_ms : condition ? condition.sinceMs : null;
  const parts = cluster && cluster.has_control ? CONTROL_PARTS : PARTS;
  const part = address && VIEWS[address.name] ? VIEWS[address.name].part : null;
  render(html`
    <div class="bar">
      <a class="brand" href="#">Coterie</a>
      <nav aria-label="Views">${parts.map(([name, title, to]) => html`<a href=${to}
        aria-current=${name === part ? 'page' : nothing}>${title}</a>`)}</nav>
      <span class="state" role="status"><i class="dot ${state}"></i>${WORDS[state]}</span>
      <button type="button" class="plain" aria-pressed=${state === 'paused'}
        @click=${() => pause(state !== 'paused')}>${state === 'paused' ? 'Go on' : 'Pause'}</button>
    </div>
    ${cluster ? html`<dl class="facts"><div><dt>at</dt><dd><bdi>${cluster.bootstrap}</bdi></dd></div>${
      facts().map(([words, value]) => html`<div><dt>${words}</dt><dd><bdi>${value}</bdi></dd></div>`)}${
      cluster.allows_changes ? html`<div class="warning"><dt>changes</dt><dd>allowed</dd></div>` : nothing}</dl>` : nothing}
    ${state === 'broken' ? html`<p class="broken" role="alert">${why} What is shown is of ${
      new Date(since).toISOString().slice(11, 19)} UTC.</p>` : nothing}`, head);
}

function showFailure(error) {
  render(html`<div class="failure" role="alert"><h1>${error.message}</h1><p>${error.remedy || ''}</p></div>`,
    main);
}

async function openView() {
  const mine = ++opened;
  address = parsed(location.hash);
  const known = VIEWS[address.name];
  if (view) view.close();
  view = null;
  forgetTime();
  drawHead();
  if (!known) {
    document.title = 'Coterie console';
    showFailure({ message: `There is no page “${address.name}”.`, remedy: 'The links at the top lead to all pages.' });
    return;
  }
  document.title = `${known.title(address.params)} · Coterie console`;
  try {
    const module = await import(`/views/${known.module}.js`);
    if (mine !== opened) return;
    // Each view has an element of its own, in which nothing of the last one is left.
    const host = document.createElement('div');
    host.className = `view ${address.name}`;
    main.replaceChildren(host);
    view = module.open(host, address.params);
  } catch (error) {
    if (mine === opened) showFailure(error);
  }
}

new ResizeObserver(() => {
  document.documentElement.style.setProperty('--head', `${head.offsetHeight}px`);
}).observe(head);
watchCondition(next => { condition = next; drawHead(); });
addEventListener('hashchange', openView);
main.replaceChildren();
openView();
get('/api/cluster').then(showCluster, error => { if (!view) showFailure(error); });
