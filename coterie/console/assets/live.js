// Streams of events that a view follows, and what the dot at the top of the page says about them.
// A stream that breaks is opened again; a page that nobody sees, or that its reader has paused, has none.
import { Failure, stream } from '/api.js';

const RETRY_MS = [500, 1_000, 2_000, 5_000];
const followed = new Set();
const watchers = new Set();

// state: live, broken, paused or connecting; the reason of a broken one; when it was so first.
export let condition = { state: 'connecting', why: '', sinceMs: Date.now() };
let isPaused = false;

export function watchCondition(watcher) {
  watchers.add(watcher);
  watcher(condition);
}

function say(state, why = '') {
  if (state === condition.state && why === condition.why) return;
  condition = { state, why, sinceMs: Date.now() };
  for (const watcher of watchers) watcher(condition);
}

// Call `receive(name, data, isFirst)` for each event of a stream; the function that is returned ends it.
// The first event of a name says everything, also when a stream that broke was opened again.
export function follow(path, receive) {
  const one = { path, receive, attempt: 0, controller: null, timer: null };
  followed.add(one);
  if (isPaused) say('paused');
  else open(one);
  return () => {
    followed.delete(one);
    shut(one);
  };
}

export function pause(wanted) {
  isPaused = wanted;
  say(wanted ? 'paused' : 'connecting');
  for (const one of followed) wanted ? shut(one) : open(one);
}

async function open(one) {
  shut(one);
  const controller = one.controller = new AbortController(), names = new Set();
  try {
    await stream(one.path, (name, data) => {
      if (controller.signal.aborted) return;
      if (name === 'error') throw new Failure(data);
      one.attempt = 0;
      say('live');
      const isFirst = !names.has(name);
      names.add(name);
      one.receive(name, data, isFirst);
    }, controller.signal);
    if (!controller.signal.aborted) retry(one, 'The stream of events has ended.');
  } catch (error) {
    if (!controller.signal.aborted) failed(one, error);
  }
}

function failed(one, error) {
  if (!(error instanceof Failure)) throw error;
  const why = error.remedy ? `${error.message} ${error.remedy}` : error.message;
  if (error.kind === 'Unauthorized' || error.kind === 'NotFound') say('broken', why);
  else retry(one, why);
}

function retry(one, why) {
  say('broken', why);
  const wait = RETRY_MS[Math.min(one.attempt++, RETRY_MS.length - 1)];
  one.timer = setTimeout(() => open(one), wait);
}

function shut(one) {
  clearTimeout(one.timer);
  if (one.controller) one.controller.abort();
  one.controller = null;
}

// A browser has six connections to one address for all its pages: those that nobody sees give theirs back.
document.addEventListener('visibilitychange', () => {
  if (isPaused) return;
  for (const one of followed) document.hidden ? shut(one) : open(one);
});
