// A consumer for `coterie check-client`, with kafkajs: npm install kafkajs
//   node kafkajs_consumer.js {bootstrap} {topic} {group}
const { Kafka, logLevel } = require('kafkajs')

const [bootstrap, topic, groupId] = process.argv.slice(2)
const kafka = new Kafka({ clientId: 'kafkajs', brokers: [bootstrap], logLevel: logLevel.ERROR })
const consumer = kafka.consumer({ groupId })

async function main() {
  await consumer.connect()
  await consumer.subscribe({ topic, fromBeginning: true })
  await consumer.run({
    autoCommitInterval: 5000,
    eachMessage: async ({ topic, partition, message }) => {
      const value = message.value.toString()
      if (value.startsWith('sleep ')) {
        await new Promise((done) => setTimeout(done, 1000 * Number(value.slice(6))))
      }
      console.log(`${topic} ${partition} ${message.offset} ${value}`)
    },
  })
}

process.on('SIGTERM', async () => {
  await consumer.disconnect()
  process.exit(0)
})
main().catch((error) => {
  console.error(error)
  process.exit(1)
})
