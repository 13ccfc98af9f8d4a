// A consumer of KafkaJS, tested against real group rules: `npm install && npm test`.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Kafka, logLevel } from "kafkajs";
import { startCoterie } from "./coterie.js";

let coterie, kafka;

before(async () => {
  coterie = await startCoterie();
  kafka = new Kafka({
    clientId: "billing", brokers: [coterie.bootstrapServers], logLevel: logLevel.NOTHING,
  });
});
after(() => coterie.close());

/** Starts a consumer that keeps what it reads. */
async function consume(groupId, topic) {
  const consumer = kafka.consumer({ groupId, sessionTimeout: 10_000, heartbeatInterval: 500 });
  const values = [];
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({ eachMessage: async ({ message }) => values.push(`${message.value}`) });
  return { consumer, values };
}

test("orders are billed", async () => {
  await coterie.post("/topics", { name: "orders", partitions: 2, records: ["espresso", "latte"] });
  const { consumer, values } = await consume("billing", "orders");
  const group = await coterie.post("/groups/billing/wait/stable", { members: 1 });
  assert.equal(group.members[0].client_id, "billing");
  await coterie.post("/groups/billing/wait/committed");
  assert.deepEqual(values.sort(), ["espresso", "latte"]);
  assert.deepEqual(await coterie.get("/groups/billing/lag"), { "orders-0": 0, "orders-1": 0 });
  await consumer.disconnect();
  await coterie.post("/groups/billing/wait/empty");
});

test("a consumer looks its coordinator up again", async () => {
  await coterie.post("/topics", { name: "bills" });
  const fault = await coterie.post("/faults", {
    action: { kind: "AnswerError", error: "NOT_COORDINATOR" }, api: "JoinGroup", times: 1,
  });
  const { consumer } = await consume("printing", "bills");
  await coterie.post("/groups/printing/wait/assigned", { topics: ["bills"] });
  await coterie.post(`/faults/${fault.fault_id}/must_have_hit`);
  assert.ok((await coterie.get("/requests/FindCoordinator?client_id=billing")).length > 1);
  await consumer.disconnect();
});

test("a failed wait says why", async () => {
  await assert.rejects(
    coterie.post("/groups/nobody/wait/stable", { timeout_s: 0.1 }),
    /group 'nobody' does not exist/,
  );
});
