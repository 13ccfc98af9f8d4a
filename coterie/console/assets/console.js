// The console: it finds the view that the address names, and opens it.
import { get } from '/api.js';

const main = document.getElementById('main');
const cluster = await get('/api/cluster');
main.textContent = `Coterie console of ${cluster.bootstrap}`;
