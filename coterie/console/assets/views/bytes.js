// Parts of a record as text, JSON or hexadecimal.

// The bytes of a part.
export function bytesOf(shown, form) {
  if (form !== 'hex') return new TextEncoder().encode(typeof shown === 'string' ? shown : JSON.stringify(shown));
  return Uint8Array.from(shown.match(/../g) || [], each => parseInt(each, 16));
}

// A part as it is wanted: `auto` is what the server found, `text` and `hex` of any part.
export function asText(shown, form, wanted) {
  if (shown === null) return '';
  if (form === 'fields') return JSON.stringify(shown, null, 2);
  if (wanted === 'hex' || (wanted === 'auto' && form === 'hex')) return dump(bytesOf(shown, form));
  if (form === 'hex') return new TextDecoder().decode(bytesOf(shown, form));
  return form === 'json' && wanted === 'auto' ? indented(shown) : shown;
}

// A part in one line.
export function inLine(shown, form, wanted) {
  if (shown === null) return 'null';
  if (form === 'fields') return JSON.stringify(shown);
  if (wanted === 'hex' && form !== 'hex')
    return [...bytesOf(shown.slice(0, 200), form)].map(each => each.toString(16).padStart(2, '0')).join('');
  if (wanted === 'text' && form === 'hex') return new TextDecoder().decode(bytesOf(shown.slice(0, 400), form));
  return shown.slice(0, 400);
}

const PER_LINE = 16;

// "00000000  48 65 6c 6c 6f                                   Hello"
function dump(bytes) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += PER_LINE) {
    const part = [...bytes.subarray(at, at + PER_LINE)];
    const hex = part.map(each => each.toString(16).padStart(2, '0')).join(' ').padEnd(3 * PER_LINE - 1);
    const plain = part.map(each => each >= 32 && each < 127 ? String.fromCharCode(each) : '.').join('');
    lines.push(`${at.toString(16).padStart(8, '0')}  ${hex}  ${plain}`);
  }
  return lines.join('\n');
}

const EMPTY = /^[{[]\s*[}\]]$/;

// JSON with line breaks. Its numbers and strings are not touched: parsing would round large numbers.
export function indented(text) {
  const parts = [];
  let depth = 0;
  for (const [token] of text.matchAll(/"(?:[^"\\]|\\.)*"|[{[]\s*[}\]]|[{}[\],:]|[^\s{}[\],:"]+/gs)) {
    if (token === '{' || token === '[') parts.push(token, line(++depth));
    else if (token === '}' || token === ']') parts.push(line(--depth), token);
    else if (token === ',') parts.push(token, line(depth));
    else if (token === ':') parts.push(': ');
    else parts.push(EMPTY.test(token) ? token.replace(/\s+/, '') : token);
  }
  return parts.join('');
}

function line(depth) {
  return `\n${'  '.repeat(Math.max(depth, 0))}`;
}
