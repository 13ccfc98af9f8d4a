// A row of the API that is asked again while the page is seen and not paused.
import { get } from '/api.js';
import { showCluster } from '/console.js';
import { condition, follow } from '/live.js';

// An answer that takes long is asked for less often: a twentieth of the time goes into it.
const LEAST_MS = 5_000, SHARE = 20;

// Call `receive(data)` for each answer and `fail(error)` for each error; returns what ends it.
export function poll(path, receive, fail) {
  const stop = new AbortController();
  let timer = null;
  // The head of the page says whether the console is reached.
  const end = follow('/api/events', (name, data) => { if (name === 'cluster') showCluster(data); });

  async function ask() {
    const begin = performance.now();
    if (!document.hidden && condition.state !== 'paused') {
      try {
        receive(await get(path, stop.signal));
      } catch (error) {
        if (stop.signal.aborted) return;
        fail(error);
      }
    }
    if (!stop.signal.aborted)
      timer = setTimeout(ask, Math.max(LEAST_MS, SHARE * (performance.now() - begin)));
  }

  ask();
  return () => { stop.abort(); clearTimeout(timer); end(); };
}
