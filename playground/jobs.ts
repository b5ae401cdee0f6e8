/** The server's jobs: the queue, what runs now, and what came of the rest. */

import { call, callJson, events, Refusal } from "./api.ts";
import { connect, noteRefusal, session } from "./session.ts";
import { memory, Store } from "./store.ts";
import { t } from "./texts.ts";

export interface Result {
  url: string;
  content_type: string;
  bytes: number;
  seed: number | null;
}

export interface Job {
  id: string;
  kind: "image" | "video";
  status: "queued" | "in_progress" | "completed" | "failed" | "cancelled";
  progress: number;
  place: number | null;
  created_at: number;
  started_at: number | null;
  ended_at: number | null;
  error: { code: string; message: string } | null;
  prompt: string | null;
  model?: string | null;
  task_type: string | null;
  size: string | null;
  /** LoRAs by path or name. */
  loras?: string[] | null;
  outputs: Result[] | null;
  /** Prompts that were not read as a whole. */
  cut_prompts?: { prompt: string; tokens: number; read: number; unread: string }[];
}

/** What was asked for, with the names of requests. */
export type Recipe = Record<string, unknown> & { prompt: string };

interface Jobs {
  /** The newest first; those of other keys are not among them. */
  list: Job[];
  /** Jobs of everybody that wait. */
  waiting: number;
  /** How long one takes, in seconds. */
  secondsPerJob: number;
  hasMore: boolean;
  isKnown: boolean;
  /** A job of the page's address that is older than the list. */
  linked: Job | null;
  /** What is deleted in a few seconds, unless that is taken back. */
  removed: { jobs: readonly Job[]; count: number } | null;
}

interface Progress {
  progress: number;
  stage: string | null;
  step: number | null;
  total_steps: number | null;
  eta_s: number | null;
}

export interface Live extends Progress {
  id: string;
  /** The latest preview, as a data address. */
  preview: string | null;
  /** Which of the outputs that is. */
  output: number;
}

export const jobs: Store<Jobs> = new Store<Jobs>({
  list: [],
  waiting: 0,
  secondsPerJob: 2,
  hasMore: false,
  isKnown: false,
  linked: null,
  removed: null,
});

const NOTHING: Live = {
  id: "",
  progress: 0,
  stage: null,
  step: null,
  total_steps: null,
  eta_s: null,
  preview: null,
  output: 0,
};
export const live: Store<Live> = new Store<Live>(NOTHING);

/** How often the list is read while something is to come, and otherwise, in milliseconds. */
const BUSY_MS = 1000;
const IDLE_MS = 5000;
const PAGE = 60;

export function isPending({ status }: Job): boolean {
  return status === "queued" || status === "in_progress";
}

interface Page {
  data: Job[];
  waiting: number;
  seconds_per_job: number;
  has_more: boolean;
}

/** Reads the newest jobs; older ones that were read before stay. */
async function refresh(): Promise<void> {
  const page = await callJson<Page>(`v1/jobs?limit=${PAGE}`);
  const fresh = newestFirst(page.data).filter(({ id, outputs }) =>
    outputs !== null && !removedIds.has(id)
  );
  const oldest = fresh.at(-1)?.created_at ?? 0;
  const known = new Set(fresh.map(({ id }) => id));
  const older = page.has_more
    ? jobs.state.list.filter((job) =>
      !isPending(job) && job.created_at <= oldest && !known.has(job.id)
    )
    : [];
  const list = [...fresh, ...older];
  jobs.set({
    list: sameAs(jobs.state.list, list) ? jobs.state.list : list,
    waiting: page.waiting,
    secondsPerJob: page.seconds_per_job,
    hasMore: older.length > 0 ? jobs.state.hasMore : page.has_more,
    isKnown: true,
  });
  follow();
}

export async function readMore(): Promise<void> {
  const last = jobs.state.list.findLast((job) => !isPending(job));
  if (!last) return;
  const page = await callJson<Page>(`v1/jobs?limit=${PAGE}&after=${last.id}`);
  jobs.set(({ list }) => ({ list: [...list, ...page.data], hasMore: page.has_more }));
}

/** The server names what runs, then what waits in its order, then what ended, the newest first. */
function newestFirst(data: Job[]): Job[] {
  return [...data.filter(isPending).reverse(), ...data.filter((job) => !isPending(job))];
}

function sameAs(one: Job[], other: Job[]): boolean {
  return one.length === other.length &&
    one.every((job, i) =>
      job.id === other[i]!.id && job.status === other[i]!.status && job.place === other[i]!.place
    );
}

let wake = () => {};

/** Keeps the list up to date for as long as the page is open. */
export async function watch(): Promise<never> {
  document.addEventListener("visibilitychange", () => wake());
  const left = [...removedIds];
  for (;;) {
    try {
      if (session.state.link !== "ready") await connect();
      if (session.state.link === "ready") {
        for (const id of left.splice(0)) deleteJob(id, false, () => {});
        await refresh();
      }
    } catch (error) {
      noteRefusal(error);
    }
    const isBusy = session.state.link !== "ready" || jobs.state.list.some(isPending);
    const { promise, resolve } = Promise.withResolvers<void>();
    wake = resolve;
    const timer = setTimeout(resolve, isBusy && !document.hidden ? BUSY_MS : IDLE_MS);
    await promise;
    clearTimeout(timer);
  }
}

export function refreshSoon(): void {
  wake();
}

export function addJob(job: Job): void {
  jobs.set(({ list }) => ({ list: [job, ...list.filter(({ id }) => id !== job.id)] }));
  follow();
  refreshSoon();
}

function update(job: Job): void {
  jobs.set(({ list }) => ({
    list: list.map((known) => known.id === job.id ? { ...known, ...job } : known),
  }));
}

let following: AbortController | undefined;

/** Follows the job that runs, or the one that will; one stream at a time, for browsers open few. */
function follow(): void {
  const pending = jobs.state.list.filter(isPending);
  const next = pending.find(({ status }) => status === "in_progress") ?? pending.at(-1);
  if (!next || next.id === live.state.id) return;
  following?.abort();
  const controller = following = new AbortController();
  live.set({ ...NOTHING, id: next.id });
  void followJob(next.id, controller.signal).catch(() => {}).finally(() => {
    if (live.state.id === next.id) live.set(NOTHING);
    refreshSoon();
  });
}

async function followJob(id: string, signal: AbortSignal): Promise<void> {
  for await (const { type, data } of events(`v1/jobs/${id}/events`, signal)) {
    if (signal.aborted) return;
    if (type === "status") {
      const job = data as Job;
      // One that waits and has no place is told late.
      if (job.status !== "queued" || job.place !== null) update(job);
    } else if (type === "progress") {
      const { progress, stage, step, total_steps, eta_s } = data as Progress;
      live.set({ progress, stage, step, total_steps, eta_s });
    } else if (type === "preview") {
      const { b64_json, content_type, output } = data as Record<string, unknown>;
      live.set({ preview: `data:${content_type};base64,${b64_json}`, output: output as number });
    }
  }
}

export async function cancel(id: string): Promise<void> {
  await call(`v1/jobs/${id}/cancel`, { method: "POST" });
  refreshSoon();
}

/** How long a deletion can be taken back, in milliseconds. */
const UNDO_MS = 8000;
/** Jobs that the list does not show any more; those of a page that was left before they were deleted are deleted now. */
const removedIds = new Set<string>(memory.read<string[]>("removed", []));

/** Notes which jobs are still to be deleted. */
function noteRemoved(change: (ids: Set<string>) => void): void {
  const ids = new Set(memory.read<string[]>("removed", []));
  change(ids);
  memory.write("removed", [...ids]);
}

function deleteJob(id: string, isLeaving: boolean, tell: (sentence: string) => void): void {
  call(`v1/jobs/${id}`, { method: "DELETE", keepalive: isLeaving }).catch((error) => {
    if (error instanceof Refusal && error.status === 404) return;
    removedIds.delete(id);
    tell(t("cannotDelete", { why: error instanceof Error ? error.message : String(error) }));
    refreshSoon();
  }).finally(() => noteRemoved((ids) => ids.delete(id)));
}
let removal:
  | { timer: ReturnType<typeof setTimeout>; work: (isLeaving?: boolean) => void }
  | undefined;

/** Takes jobs from the list, and deletes them a little later; what goes wrong is told in a sentence. */
export function removeSoon(
  ids: readonly string[],
  count: number,
  tell: (sentence: string) => void,
): void {
  removal?.work();
  const gone = jobs.state.list.filter(({ id }) => ids.includes(id));
  for (const id of ids) removedIds.add(id);
  jobs.set(({ list }) => ({
    list: list.filter(({ id }) => !ids.includes(id)),
    removed: { jobs: gone, count },
  }));
  const work = (isLeaving = false) => {
    clearTimeout(removal?.timer);
    removal = undefined;
    jobs.set({ removed: null });
    // A page that goes may not be able to finish it.
    if (isLeaving) noteRemoved((noted) => ids.forEach((id) => noted.add(id)));
    for (const id of ids) deleteJob(id, isLeaving, tell);
  };
  removal = { timer: setTimeout(work, UNDO_MS), work };
}

export function undoRemoval(): void {
  const { removed } = jobs.state;
  if (!removal || !removed) return;
  clearTimeout(removal.timer);
  removal = undefined;
  for (const { id } of removed.jobs) removedIds.delete(id);
  jobs.set(({ list }) => ({ list: inOrder([...list, ...removed.jobs]), removed: null }));
  refreshSoon();
}

addEventListener("pagehide", () => removal?.work(true));

function inOrder(list: Job[]): Job[] {
  const rest = list.filter((job) => !isPending(job));
  return [
    ...list.filter(isPending),
    ...rest.toSorted((one, other) => other.created_at - one.created_at),
  ];
}

/** Reads a job that may be older than the list. */
export async function readJob(id: string): Promise<Job> {
  const job = await callJson<Job>(`v1/jobs/${id}`);
  if (job.status === "completed") jobs.set({ linked: job });
  return job;
}

/** A file that a request brought. */
export interface KeptInput {
  field: string;
  url: string;
  content_type: string;
}

type WholeJob = Job & { request: Recipe; inputs: KeptInput[] };

const wholeJobs = new Map<string, WholeJob>();

async function wholeJob(id: string): Promise<WholeJob> {
  const job = wholeJobs.get(id) ?? await callJson<WholeJob>(`v1/jobs/${id}`);
  if (!isPending(job)) wholeJobs.set(id, job);
  return job;
}

export async function recipeOf(id: string): Promise<Recipe> {
  return (await wholeJob(id)).request;
}

/** What the server has kept of a finished job's inputs, once its recipe is known. */
export function keptInputs(id: string): readonly KeptInput[] {
  return wholeJobs.get(id)?.inputs ?? [];
}
