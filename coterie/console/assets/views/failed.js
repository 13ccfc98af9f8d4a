// An error in a line: what is wrong, and what helps. Without an error there is nothing.
import { html, nothing } from '/vendor/lit-html.js';

export function failed(error) {
  return error ? html`<p class="failed" role="alert">${error.message} ${error.remedy || ''}</p>` : nothing;
}
