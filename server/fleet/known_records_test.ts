import { strict as assert } from "node:assert";
import type { JobRecord, JobStatus } from "../jobs/job_store.ts";
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
  await known.keep(() => Promise.resolve([job("queued")]));
  assert.equal(known.get("a")!.status, "queued");
  bell.tell("a in_progress");
  assert.equal(known.get("a"), undefined);
  await known.keep(() => Promise.resolve([job("completed")]));
  known.forget("a");
  assert.equal(known.get("a"), undefined);
});

Deno.test("KnownRecords does not keep what changes while it is read", async () => {
  const bell = new FakeBell();
  const known = new KnownRecords(bell);
  await known.keep(() => {
    bell.tell("a in_progress");
    return Promise.resolve([job("queued")]);
  });
  assert.equal(known.get("a"), undefined);
});

Deno.test("KnownRecords knows nothing while nobody tells, nor of what it knew before", async () => {
  const bell = new FakeBell();
  const known = new KnownRecords(bell);
  await known.keep(() => Promise.resolve([job("completed")]));
  bell.isUp = false;
  assert.equal(known.get("a"), undefined);
  bell.isUp = true;
  bell.comeUp();
  assert.equal(known.get("a"), undefined);
});
