// graphile-worker: a job for each timeline whose array each further event lengthens, due 1 s after the first.
import { makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import { main, obey, Sink, tellReady } from "./producing.mjs";

const quiet = () => () => {};
const logger = new (await import("graphile-worker")).Logger(quiet);
const POOL = 20;

async function producer({ url, delay, events }) {
  const pgPool = new pg.Pool({ connectionString: url, max: POOL });
  const utils = await makeWorkerUtils({ pgPool, logger });
  await utils.migrate();
  const runAt = () => new Date(Date.now() + delay * 1000);
  const add = async (timeline, value) => {
    const options = { jobKey: timeline, jobKeyMode: "preserve_run_at", runAt: runAt() };
    while (!(await utils.addJob("mail", [value], options))?.id); // null: others added to the same key at once
    return true;
  };
  const addMany = async (batch) => {
    const arrays = new Map();
    for (const [timeline, value] of batch) arrays.set(timeline, [...(arrays.get(timeline) ?? []), value]);
    let specs = [...arrays].map(([jobKey, payload]) => ({ identifier: "mail", payload, jobKey, runAt: runAt() }));
    while (specs.length > 0) { // jobs that begin meanwhile are left out
      const added = new Set((await utils.addJobs(specs, true)).map((job) => job.key));
      specs = specs.filter((spec) => !added.has(spec.jobKey));
    }
  };
  await obey({ add, addMany }, events);
}

async function worker({ url, poll, sink: path }) {
  const sink = new Sink(path);
  const mail = async (payload, { job }) => sink.note(payload.map((value) => value.id), new Date(job.run_at).getTime());
  const pgPool = new pg.Pool({ connectionString: url, max: POOL });
  await run({ pgPool, logger, concurrency: 10, pollInterval: poll * 1000, taskList: { mail } });
  tellReady();
}

await main({ producer, worker });
