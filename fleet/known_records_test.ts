import { strict as assert } from "node:assert";
import type { JobRecord, JobStatus } from "../server/jobs/job_store.ts";
import { KnownRecords } from "./known_records.ts";

/** What tells of changes, by hand. */
class FakeBell {
  isUp = true;
  tell = (_news: string) => {};
  comeUp = () => {};
  on(_channel: string, listener: (news: string) => void): void {
    this.tell = listener;
  }
  onUp(listener: () => void): void {
    this.comeUp = listener;
  }
}

const job = (status: JobStatus) => [{ id: "a", status } as JobRecord, 10] as const;

Deno.test("KnownRecords keeps what was read until it changes", async () => {
  const bell = new FakeBell();
  const known = new KnownRecords(bell);
  await known.keep(["a"], () => Promise.resolve([job("queued")]));
  assert.equal(known.get("a")!.status, "queued");
  bell.tell("a in_progress");
  assert.equal(known.get("a"), undefined);
  assert.equal(known.last("a")!.status, "queued", "until it is read");
  await known.keep(["a"], () => Promise.resolve([job("completed")]));
  known.forget("a");
  assert.equal(known.last("a"), undefined);
  await known.keep(["a"], () => Promise.resolve([job("completed")]));
  bell.tell("a deleted");
  assert.equal(known.last("a"), undefined);
});

Deno.test("KnownRecords does not keep what changes while it is read", async () => {
  const bell = new FakeBell();
  const known = new KnownRecords(bell);
  await known.keep(["a"], () => {
    bell.tell("a in_progress");
    return Promise.resolve([job("queued")]);
  });
  assert.equal(known.get("a"), undefined);
});

Deno.test("KnownRecords takes nothing for new while nobody tells, and has what it saw last", async () => {
  const bell = new FakeBell();
  const known = new KnownRecords(bell);
  await known.keep(["a"], () => Promise.resolve([job("queued")]));
  bell.isUp = false;
  assert.equal(known.get("a"), undefined);
  assert.equal(known.last("a")!.status, "queued");
  await known.keep(["a"], () => Promise.resolve([job("in_progress")]));
  assert.equal(known.get("a"), undefined);
  assert.equal(known.last("a")!.status, "in_progress");
  bell.isUp = true;
  bell.comeUp();
  assert.equal(known.get("a"), undefined, "nobody told of what happened meanwhile");
  assert.equal(known.last("a")!.status, "in_progress");
  await known.keep(["a"], () => Promise.resolve([job("completed")]));
  assert.equal(known.get("a")!.status, "completed");
});

Deno.test("KnownRecords has nothing older than what was read", async () => {
  const bell = new FakeBell();
  const known = new KnownRecords(bell);
  await known.keep(["a"], () => Promise.resolve([job("queued")]));
  await known.keep(["a"], () => {
    bell.isUp = false;
    return Promise.resolve([job("completed")]);
  });
  assert.equal(known.last("a"), undefined, "another reading may have been quicker");
  bell.isUp = true;
  bell.comeUp();
  await known.keep(["a"], () => Promise.resolve([job("completed")]));
  await known.keep(["a"], () => Promise.resolve([]));
  assert.equal(known.last("a"), undefined, "it was deleted");
});

Deno.test("KnownRecords forgets what could not be read for long", async () => {
  const bell = new FakeBell();
  const known = new KnownRecords(bell, -480);
  await known.keep(["a"], () => Promise.resolve([job("in_progress")]));
  bell.isUp = false;
  assert.equal(known.last("a")!.status, "in_progress");
  await new Promise((resolve) => setTimeout(resolve, 40));
  assert.equal(known.last("a"), undefined);
});
