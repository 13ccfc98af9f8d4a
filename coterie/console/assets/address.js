// Addresses of what the console shows: the fragment of the page's address, as `#group=orders&at=…`.
// The first name says which view it is.

// The fragment as `{ name, params }`; the list of groups has none.
export function parsed(fragment) {
  const params = Object.fromEntries(new URLSearchParams(fragment.replace(/^#/, '')));
  const [name = 'groups'] = Object.keys(params);
  return { name, params };
}

// The address of a view: `addressOf({ group: 'orders', at: 5 })`. Without a value a name stands alone.
export function addressOf(params) {
  const parts = Object.entries(params).filter(([, value]) => value !== null && value !== undefined)
    .map(([name, value]) => value === true ? name : `${name}=${encodeURIComponent(value)}`);
  return `#${parts.join('&')}`;
}

export function go(params) {
  location.hash = addressOf(params);
}

// Change what the address says without opening the view again: filters and the chosen time.
export function keep(params) {
  history.replaceState(null, '', addressOf(params) === '#' ? location.pathname : addressOf(params));
}
