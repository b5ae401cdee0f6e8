import { strict as assert } from "node:assert";
import type { JobRecord, JobStatus } from "../server/jobs/job_store.ts";
import { awayError } from "./database.ts";
import { KnownRecords, type Read } from "./known_records.ts";

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

/** Records of one job, `a`, in a database that is played by hand. */
class Trial {
  readonly bell = new FakeBell();
  /** Where the job is in the database; undefined where it is not there. */
  status: JobStatus | undefined = "queued";
  isAway = false;
  /** How often the database was read. */
  reads = 0;
  /** Done while the database is read. */
  meanwhile = () => {};
  readonly known: KnownRecords;

  constructor(lastMs?: number) {
    const read = (): Promise<Read[]> => {
      this.reads++;
      if (this.isAway) return Promise.reject(awayError());
      const { status } = this;
      this.meanwhile();
      this.meanwhile = () => {};
      return Promise.resolve(status ? [[{ id: "a", status } as JobRecord, 10]] : []);
    };
    this.known = new KnownRecords(read, this.bell, lastMs);
  }

  /** What a client is shown. */
  async shown(): Promise<JobStatus | undefined> {
    return (await this.known.get("a", true))?.status;
  }

  /** What is shown while the database is away. */
  async last(): Promise<JobStatus | "unknown" | undefined> {
    const { isUp } = this.bell;
    this.isAway = true;
    this.bell.isUp = false;
    try {
      return await this.shown();
    } catch {
      return "unknown";
    } finally {
      this.isAway = false;
      this.bell.isUp = isUp;
    }
  }
}

Deno.test("KnownRecords keeps what was read until it changes", async () => {
  const trial = new Trial();
  assert.equal(await trial.shown(), "queued");
  assert.equal(await trial.shown(), "queued");
  assert.equal(trial.reads, 1);
  trial.bell.tell("a in_progress");
  assert.equal(await trial.last(), "queued", "until it is read");
  trial.status = "completed";
  assert.equal(await trial.shown(), "completed");
  trial.known.forget("a");
  assert.equal(await trial.last(), "unknown");
  assert.equal(await trial.shown(), "completed");
  trial.bell.tell("a deleted");
  assert.equal(await trial.last(), "unknown");
});

Deno.test("KnownRecords reads what is asked for at the same time together", async () => {
  const trial = new Trial();
  assert.deepEqual(await Promise.all([trial.shown(), trial.shown()]), ["queued", "queued"]);
  assert.equal(await trial.known.get("b", true), undefined);
  assert.equal(trial.reads, 2);
});

Deno.test("KnownRecords does not keep what changes while it is read", async () => {
  const trial = new Trial();
  trial.meanwhile = () => trial.bell.tell("a in_progress");
  await trial.shown();
  assert.equal(await trial.last(), "unknown");
  trial.status = "in_progress";
  assert.equal(await trial.shown(), "in_progress");
});

Deno.test("KnownRecords takes nothing for new while nobody tells, and has what it saw last", async () => {
  const trial = new Trial();
  await trial.shown();
  trial.bell.isUp = false;
  trial.status = "in_progress";
  assert.equal(await trial.shown(), "in_progress", "it is read");
  assert.equal(await trial.last(), "in_progress");
  trial.bell.isUp = true;
  trial.bell.comeUp();
  assert.equal(await trial.last(), "in_progress");
  trial.status = "completed";
  assert.equal(await trial.shown(), "completed", "nobody told of what happened meanwhile");
});

Deno.test("KnownRecords has nothing older than what was read", async () => {
  const trial = new Trial();
  await trial.shown();
  trial.bell.tell("a completed");
  trial.status = "completed";
  trial.meanwhile = () => trial.bell.isUp = false;
  assert.equal(await trial.shown(), "completed");
  assert.equal(await trial.last(), "unknown", "another reading may have been quicker");
  trial.bell.isUp = true;
  trial.bell.comeUp();
  assert.equal(await trial.shown(), "completed");
  trial.bell.tell("a completed");
  trial.status = undefined;
  assert.equal(await trial.shown(), undefined);
  assert.equal(await trial.last(), "unknown", "it was deleted");
});

Deno.test("KnownRecords forgets what could not be read for long", async () => {
  const trial = new Trial(-480);
  trial.status = "in_progress";
  await trial.shown();
  assert.equal(await trial.last(), "in_progress");
  await new Promise((resolve) => setTimeout(resolve, 40));
  assert.equal(await trial.last(), "unknown");
});
