// Clients of a secured broker: each line of standard input is a case, as JSON, and each is answered
// with a line {"error": ""}. A case produces a record, consumes it in a group, commits, and asks for
// what is committed.
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import kafkajs from "kafkajs";

const LIMIT_MS = 30000;
const MECHANISMS = {
  PLAIN: "plain",
  "SCRAM-SHA-256": "scram-sha-256",
  "SCRAM-SHA-512": "scram-sha-512",
  OAUTHBEARER: "oauthbearer",
};

function client(wanted) {
  const settings = {
    brokers: [wanted.bootstrap],
    logLevel: kafkajs.logLevel.NOTHING,
    // The coordinator of a Kafka that has just been started loads its groups.
    retry: { initialRetryTime: 200, retries: 4, restartOnFailure: async () => false },
  };
  if (wanted.tls) {
    settings.ssl = { ca: [readFileSync(wanted.authority)] };
    if (wanted.certificate) {
      settings.ssl.cert = readFileSync(wanted.certificate);
      settings.ssl.key = readFileSync(wanted.key);
    }
  }
  if (wanted.mechanism) {
    settings.sasl = { mechanism: MECHANISMS[wanted.mechanism] };
    if (wanted.mechanism === "OAUTHBEARER") {
      settings.sasl.oauthBearerProvider = async () => ({ value: wanted.token });
    } else {
      settings.sasl.username = wanted.name;
      settings.sasl.password = wanted.password;
    }
  }
  return new kafkajs.Kafka(settings);
}

async function produce(kafka, wanted) {
  const producer = kafka.producer();
  try {
    await producer.connect();
    await producer.send({ topic: wanted.topic, messages: [{ value: wanted.value }] });
  } finally {
    await producer.disconnect();
  }
}

async function consume(kafka, wanted) {
  const consumer = kafka.consumer({ groupId: wanted.group });
  try {
    await consumer.connect();
    await consumer.subscribe({ topics: [wanted.topic], fromBeginning: true });
    const offset = await new Promise((resolve, reject) => {
      setTimeout(() => reject(new Error("the record is not there")), LIMIT_MS).unref();
      consumer.on(consumer.events.CRASH, (event) => reject(event.payload.error));
      consumer
        .run({
          autoCommit: false,
          eachMessage: async ({ topic, partition, message }) => {
            if (message.value.toString() !== wanted.value) return;
            const next = (BigInt(message.offset) + 1n).toString();
            await consumer.commitOffsets([{ topic, partition, offset: next }]);
            resolve(next);
          },
        })
        .catch(reject);
    });
    const admin = kafka.admin();
    await admin.connect();
    try {
      const [found] = await admin.fetchOffsets({ groupId: wanted.group, topics: [wanted.topic] });
      if (found.partitions[0].offset !== offset) throw new Error("another offset is committed");
    } finally {
      await admin.disconnect();
    }
  } finally {
    await consumer.disconnect();
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const wanted = JSON.parse(line);
  let error = "";
  try {
    const kafka = client(wanted);
    if (!wanted.consumes_only) await produce(kafka, wanted);
    await consume(kafka, wanted);
  } catch (failed) {
    error = `${failed.name}: ${failed.message} ${failed.cause ?? ""}`;
  }
  console.log(`answer ${JSON.stringify({ error })}`);
}
