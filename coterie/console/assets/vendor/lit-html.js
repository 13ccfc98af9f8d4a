// What the console uses of lit-html, under one address. README.md says where the files come from.
export { html, svg, nothing, render } from './lit-html/lit-html.js';
export { repeat } from './lit-html/directives/repeat.js';
