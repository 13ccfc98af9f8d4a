// Requests to the console's server. The token comes in the fragment of the address, which browsers
// never send, and is kept for this tab only.
const KEY = 'coterie-token';

function takeToken() {
  const params = new URLSearchParams(location.hash.slice(1)), given = params.get('token');
  if (given === null) return sessionStorage.getItem(KEY);
  sessionStorage.setItem(KEY, given);
  params.delete('token');
  const rest = params.toString();
  history.replaceState(null, '', rest ? `#${rest}` : location.pathname);
  return given;
}

const token = takeToken();

// An error of the server: what is wrong, and what helps.
export class Failure extends Error {
  constructor({ error, remedy, kind }) {
    super(error);
    this.remedy = remedy;
    this.kind = kind;
  }
}

async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { ...options,
      headers: { ...options.headers, Authorization: `Bearer ${token}` } });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Failure({ kind: 'Gone', error: 'The console does not answer.',
      remedy: 'Start `coterie console` again and open the address that it prints.' });
  }
  if (!response.ok) throw new Failure(await response.json());
  return response;
}

export async function get(path, signal) {
  return (await request(path, { signal })).json();
}

// Save what an address answers as a file of the reader's.
export async function save(path, signal) {
  const response = await request(path, { signal });
  const [, name] = /filename="([^"]*)"/.exec(response.headers.get('Content-Disposition') || '') || [];
  saveAs(name || 'coterie.json', await response.blob());
}

export function saveAs(name, blob) {
  const link = Object.assign(document.createElement('a'), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export async function post(path, body, signal) {
  return (await request(path, { method: 'POST', signal, body: JSON.stringify(body),
    headers: { 'Content-Type': 'application/json' } })).json();
}

// Call `receive(name, data)` for each event of a stream, until it ends or the signal aborts it.
export async function stream(path, receive, signal) {
  const reader = (await request(path, { signal })).body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const events = text.split('\n\n');
    text = events.pop();
    for (const each of events) {
      const [name, data] = each.split('\n');
      receive(name.slice('event: '.length), JSON.parse(data.slice('data: '.length)));
    }
  }
}
