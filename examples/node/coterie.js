// A Kafka broker for tests: `coterie serve --control`, and its verbs over HTTP.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

const COMMAND = process.env.COTERIE ?? "coterie";

/** Starts a broker in memory. It ends with `close`, and also if this process ends without it. */
export async function startCoterie(settings = {}) {
  const config = { "group.initial.rebalance.delay.ms": "0", ...settings };
  const options = Object.entries(config).map(([name, value]) => `--config=${name}=${value}`);
  const child = spawn(
    COMMAND,
    ["serve", "--port=0", "--data-dir=:memory:", "--log-level=error", "--control=0",
      "--control-file=-", "--stop-with-input", ...options],
    { stdio: ["pipe", "pipe", "inherit"] },
  );
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.startsWith("{")) return new Coterie(child, JSON.parse(line));
  }
  throw new Error("coterie has not started");
}

class Coterie {
  constructor(child, announced) {
    this.child = child;
    this.url = announced.control_url;
    this.token = announced.token;
    this.bootstrapServers = announced.bootstrap_servers;
  }

  /** Calls an operation of the control port; GET /docs lists them. */
  async call(method, path, body) {
    const response = await fetch(this.url + path, {
      method,
      headers: { Authorization: `Bearer ${this.token}`, "Content-Type": "application/json" },
      body: body && JSON.stringify(body),
    });
    const answer = await response.json();
    if (!response.ok) throw new Error(`${answer.error}\n(${answer.remedy})`);
    return answer;
  }

  get = (path) => this.call("GET", path);
  post = (path, body = {}) => this.call("POST", path, body);
  delete = (path) => this.call("DELETE", path);

  async close() {
    const ended = once(this.child, "exit");
    await this.post("/close");
    const [code] = await ended;
    if (code !== 0) throw new Error(`coterie has ended with exit code ${code}`);
  }
}
