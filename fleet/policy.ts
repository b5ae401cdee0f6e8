/**
 * Which waiting job a free worker takes. `docs/fleet.md` says it in words. Nothing here reads a clock or a database, so
 * the same code decides in a fleet and in `tools/fleet_simulation/`.
 *
 * **Fairness.** A job gets a turn when it is queued: a number, the lowest is next. A client's turns are as far apart as
 * its jobs are long ({@link giveTurn}). A client that has been away starts where the queue is now ({@link clockOf}): it
 * neither saves up turns nor pays for having had the fleet to itself.
 *
 * **Affinity.** A worker prefers a job whose model and LoRAs it has loaded, and passes over jobs whose turn it is. The
 * first time that happens to a job is noted on it (`passedAt`).
 */

import { OVERDUE_MS } from "../server/jobs/turns.ts";

/** A job that waits. Times are in Unix milliseconds. */
export interface WaitingJob {
  readonly id: string;
  readonly turn: number;
  readonly priority: number;
  readonly model: string;
  /** LoRAs that the job sets, with their strengths, as comparable texts in their order. */
  readonly loras: readonly string[];
  /** Device memory that it needs at least, in bytes; 0 where that is not known. */
  readonly memory: number;
  readonly queuedAt: number;
  /** How often it was begun by workers that then died. */
  readonly attempts: number;
  /** When its turn was given to another job for the first time; null when it never was. */
  readonly passedAt: number | null;
}

export interface FreeWorker {
  readonly models: readonly string[];
  readonly loaded: { readonly model: string; readonly loras: readonly string[] } | undefined;
  /** Device memory, in bytes; Infinity where that is not known. */
  readonly memory: number;
  /** Models that other workers, which are free, have loaded. */
  readonly warmElsewhere: readonly string[];
}

/** The bounds of the policy, in milliseconds: they fit models that load in half a minute, and LoRAs in seconds. */
export const DEFAULT_RULES = {
  /** How long a job may be passed over for one whose model is loaded; 0 for not at all. */
  patienceMs: 30_000,
  /** The same for a job whose model is loaded too, but with other LoRAs. */
  loraPatienceMs: 5_000,
  /** How long a job is left to free workers that have its model loaded. */
  holdMs: 1_000,
  /** After what wait a job counts as one of the highest priority. */
  overdueMs: OVERDUE_MS,
};
export type PolicyRules = Readonly<typeof DEFAULT_RULES>;

export interface Choice {
  /** Id of the job that it takes; undefined when it takes none. */
  readonly job: string | undefined;
  /** Ids of the jobs whose turn it was before that one: their `passedAt` is now, where it is null. */
  readonly passed: readonly string[];
  /** When a job that is held for other workers may be taken, in milliseconds from now. */
  readonly retryMs: number | undefined;
}

/** What taking a job makes a worker load, the least first. */
const Switch = { None: 0, Loras: 1, Model: 2 } as const;
type Switch = typeof Switch[keyof typeof Switch];

/** `window` has, for each model that the worker serves, the first jobs by priority and turn, and the first by turn alone. */
export function choose(
  window: readonly WaitingJob[],
  worker: FreeWorker,
  now: number,
  rules: PolicyRules = DEFAULT_RULES,
): Choice {
  const eligible = window.filter(({ model, memory }) =>
    worker.models.includes(model) && memory <= worker.memory
  );
  const jobs = firstClass(eligible, now, rules);
  const switches = jobs.map((job) => switchOf(job, worker));
  const last = jobs.findIndex((job, index) => isDue(job, switches[index]!, now, rules));
  const most = last < 0 ? jobs.length : last + 1;
  let [taken, retryMs] = [-1, Infinity];
  for (let index = 0; index < most; index++) {
    const hold = holdOf(jobs[index]!, switches[index]!, worker, now, rules);
    retryMs = Math.min(retryMs, hold > 0 ? hold : Infinity);
    if (hold <= 0 && (taken < 0 || switches[index]! < switches[taken]!)) taken = index;
  }
  return {
    job: jobs[taken]?.id,
    passed: jobs.slice(0, Math.max(taken, 0)).map(({ id }) => id),
    retryMs: taken < 0 && retryMs < Infinity ? retryMs : undefined,
  };
}

/** The jobs of the highest priority and those that are overdue, by their turns. */
function firstClass(
  jobs: readonly WaitingJob[],
  now: number,
  { overdueMs }: PolicyRules,
): WaitingJob[] {
  const highest = jobs.reduce((most, { priority }) => Math.max(most, priority), -Infinity);
  return jobs
    .filter(({ priority, queuedAt }) => priority === highest || now - queuedAt >= overdueMs)
    .sort((a, b) => a.turn - b.turn || a.queuedAt - b.queuedAt || (a.id < b.id ? -1 : 1));
}

function switchOf({ model, loras }: WaitingJob, { loaded }: FreeWorker): Switch {
  if (loaded?.model !== model) return Switch.Model;
  const isSame = loras.length === loaded.loras.length &&
    loras.every((lora, index) => lora === loaded.loras[index]);
  return isSame ? Switch.None : Switch.Loras;
}

/** Whether no job after this one may go before it. A job whose worker died has waited enough. */
function isDue(
  { attempts, passedAt }: WaitingJob,
  kind: Switch,
  now: number,
  { patienceMs, loraPatienceMs }: PolicyRules,
): boolean {
  if (kind === Switch.None || attempts > 0) return true;
  const patience = kind === Switch.Model ? patienceMs : loraPatienceMs;
  return now - (passedAt ?? now) >= patience;
}

/** Milliseconds for which a job is left to other workers from now on; 0 or less when it is not. */
function holdOf(
  { model, queuedAt, attempts }: WaitingJob,
  kind: Switch,
  { warmElsewhere }: FreeWorker,
  now: number,
  { holdMs }: PolicyRules,
): number {
  if (kind !== Switch.Model || attempts > 0 || !warmElsewhere.includes(model)) return 0;
  return queuedAt + holdMs - now;
}

/** Gives a new job its turn, in seconds of GPU time, and the `next` one to keep for its client's next job; undefined for a new client. */
export function giveTurn(
  next: number | undefined,
  clock: number,
  seconds: number,
): { turn: number; next: number } {
  const turn = Math.max(next ?? clock, clock);
  return { turn, next: turn + Math.max(seconds, 0) };
}

/** How many of the jobs that were taken last say where the queue is. */
export const CLOCK_JOBS = 16;

/** Where the queue of one priority is: the lowest turn of the {@link CLOCK_JOBS} taken last, so that a job let far ahead does not move it. */
export function clockOf(taken: readonly number[], next = 0): number {
  return taken.length > 0 ? Math.min(...taken) : next;
}
