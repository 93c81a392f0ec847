// The side of a program that accepts events, and the sink: the twin of producing.py, workload.py and sink.py.
import { appendFileSync, openSync, readFileSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";

const VALUE_BYTES = 200;
const POOL = 4096;

export class Workload {
  constructor(path) {
    Object.assign(this, JSON.parse(readFileSync(path, "utf8")));
  }

  event(number) {
    const sent = Date.now();
    const frame = `{"id":${number},"sent":${sent},"text":""}`.length;
    const start = (number * 7) % (POOL - VALUE_BYTES);
    const text = this.pool.slice(start, start + VALUE_BYTES - frame);
    return [this.timelines[number], { id: number, sent, text }];
  }
}

export class Sink {
  constructor(path) {
    this.file = openSync(path, "a");
  }

  // A notification that leaves now; due in milliseconds.
  note(ids, due) {
    const now = Date.now();
    writeSync(this.file, JSON.stringify({ at: now / 1000, ids, late: Math.max(0, now - due) / 1000 }) + "\n");
  }
}

const sleep = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

// Take the next number in each of so many loops, until there are no more or the time is over.
async function callers(producer, workload, { first, last, seconds, callers: loops }) {
  const end = performance.now() + seconds * 1000;
  const refused = [];
  let number = first;
  let tried = 0;
  const loop = async () => {
    while (performance.now() < end && number < last) {
      const mine = number++;
      if (!(await producer.add(...workload.event(mine)))) refused.push(mine);
      tried++;
    }
  };
  await Promise.all(Array.from({ length: loops }, loop));
  return { tried, refused };
}

async function batches(producer, workload, { first, last, seconds, size }) {
  const end = performance.now() + seconds * 1000;
  let number = first;
  while (number < last && performance.now() < end) {
    const upto = Math.min(number + size, last);
    await producer.addMany(Array.from({ length: upto - number }, (_, i) => workload.event(number + i)));
    number = upto;
  }
  return { tried: number - first, refused: [] };
}

async function paced(producer, workload, { first, last, rate, acks }) {
  const began = performance.now();
  const refused = [];
  for (let number = first; number < last; number++) {
    const wait = began + ((number - first) / rate) * 1000 - performance.now();
    if (wait > 0) await sleep(wait);
    if (await producer.add(...workload.event(number))) appendFileSync(acks, `${number}\n`);
    else refused.push(number);
  }
  return { tried: last - first, refused };
}

const one = (producer, workload, command) => callers(producer, workload, { ...command, callers: 1 });
const COMMANDS = { one, callers, batches, paced };

export async function obey(producer, events) {
  const workload = new Workload(events);
  console.log("ready");
  for await (const line of createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    const began = performance.now();
    const answer = await COMMANDS[command.do](producer, workload, command);
    console.log(JSON.stringify({ ...answer, seconds: (performance.now() - began) / 1000 }));
  }
  process.exit(0);
}

// Tells the parent that the worker runs, and ends with the parent: its pipe ends.
export function tellReady() {
  console.log("ready");
  process.stdin.on("end", () => process.kill(-process.pid, "SIGKILL")).resume();
}

// Runs the side of a program that its first argument names.
export async function main(sides) {
  const [, , role, settings] = process.argv;
  await sides[role](JSON.parse(settings));
}
