// pg-boss: sendDebounced takes one job for the current slot of time and one for the next, and refuses the others.
import * as boss from "pg-boss";
import { main, obey, Sink, tellReady } from "./producing.mjs";

const PgBoss = boss.PgBoss ?? boss.default;
const NAME = "mail";

async function started(url) {
  const one = new PgBoss({ connectionString: url, max: 20 });
  one.on("error", (error) => console.error(error));
  await one.start();
  await one.createQueue(NAME);
  return one;
}

async function producer({ url, delay, events }) {
  const queue = await started(url);
  const add = async (timeline, value) => (await queue.sendDebounced(NAME, value, null, delay, timeline)) !== null;
  await obey({ add }, events);
}

async function worker({ url, sink: path }) {
  const sink = new Sink(path);
  const queue = await started(url);
  const options = { batchSize: 500, pollingIntervalSeconds: 0.5, includeMetadata: true };
  await queue.work(NAME, options, async (jobs) => {
    for (const job of jobs) sink.note([job.data.id], new Date(job.startAfter).getTime());
  });
  tellReady();
}

await main({ producer, worker });
