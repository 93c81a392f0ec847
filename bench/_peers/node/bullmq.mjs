// BullMQ's debounce: a delayed job whose data each further event replaces, and whose delay begins again.
import { Queue, Worker } from "bullmq";
import { main, obey, Sink, tellReady } from "./producing.mjs";

const NAME = "digests";

async function producer({ host, port, delay, events }) {
  const queue = new Queue(NAME, { connection: { host, port } });
  const ttl = delay * 1000;
  const options = (timeline) => ({
    delay: ttl,
    deduplication: { id: timeline, ttl, extend: true, replace: true },
    removeOnComplete: true,
    removeOnFail: true,
  });
  await obey(
    {
      add: async (timeline, value) => Boolean(await queue.add("mail", value, options(timeline))),
      addMany: (batch) =>
        queue.addBulk(batch.map(([timeline, value]) => ({ name: "mail", data: value, opts: options(timeline) }))),
    },
    events,
  );
}

async function worker({ host, port, sink: path }) {
  const sink = new Sink(path);
  const deliver = async (job) => sink.note([job.data.id], job.timestamp + job.opts.delay);
  const running = new Worker(NAME, deliver, { connection: { host, port, maxRetriesPerRequest: null }, concurrency: 50 });
  await running.waitUntilReady();
  tellReady();
}

await main({ producer, worker });
