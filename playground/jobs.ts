/** The server's jobs: the queue, what runs now, and what came of the rest. */

import { call, callJson, events, Refusal } from "./api.ts";
import { connect, noteRefusal, session } from "./session.ts";
import { memory, Store } from "./store.ts";
import { t } from "./texts.ts";

export interface Result {
  /** Which of the job's results it is, whatever was deleted. */
  index: number;
  url: string;
  content_type: string;
  bytes: number;
  seed: number | null;
  /** What was drawn, where the seed chose words of the prompt. */
  prompt?: string;
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

/** Whether it lasts: a video, or its sound alone, which players of videos play too. */
export function plays({ content_type: type }: Result): boolean {
  return /^(?:video|audio)\//.test(type);
}

/** Whether it is sound alone. */
export function isSound({ content_type: type }: Result): boolean {
  return type.startsWith("audio/");
}

export function resultAt({ outputs }: Job, index: number): Result | undefined {
  return outputs?.find((result) => result.index === index);
}

/** What was asked for, with the names of requests. */
export type Recipe = Record<string, unknown> & { prompt: string };

/** A job's recipe for one of its results: with the words that were drawn. */
export function recipeAt(recipe: Recipe, job: Job, index: number | null): Recipe {
  const { prompt, seed } = index === null ? {} as Partial<Result> : resultAt(job, index) ?? {};
  if (prompt === undefined) return recipe;
  const { wildcards: _, ...others } = recipe;
  return { ...others, prompt, seed, n: 1 };
}

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
  const fresh = kept(newestFirst(page.data).filter(({ outputs }) => outputs !== null));
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
  jobs.set(({ list }) => ({ list: [...list, ...kept(page.data)], hasMore: page.has_more }));
}

/** The server names what runs, then what waits in its order, then what ended, the newest first. */
function newestFirst(data: Job[]): Job[] {
  return [...data.filter(isPending).reverse(), ...data.filter((job) => !isPending(job))];
}

function sameAs(one: Job[], other: Job[]): boolean {
  return one.length === other.length &&
    one.every((job, i) =>
      job.id === other[i]!.id && job.status === other[i]!.status &&
      job.place === other[i]!.place && job.outputs?.length === other[i]!.outputs?.length
    );
}

let wake = () => {};

/** Keeps the list up to date for as long as the page is open. */
export async function watch(): Promise<never> {
  document.addEventListener("visibilitychange", () => wake());
  const left = [...removedKeys];
  for (;;) {
    try {
      if (session.state.link !== "ready") await connect();
      if (session.state.link === "ready") {
        void deleteAll(left.splice(0), false, () => {});
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
/** Keys of jobs and results, as `removeSoon()` takes them, that the list shows no more. Those of a page that was left before are deleted now. */
const removedKeys = new Set<string>(memory.read<string[]>("removed", []));

/** Jobs with their results, without what is deleted. */
function kept(list: readonly Job[]): Job[] {
  return list.flatMap((job) => {
    const { id, outputs } = job;
    const left = outputs?.filter(({ index }) => !removedKeys.has(`${id} ${index}`)) ?? [];
    if (removedKeys.has(id) || left.length === 0 && outputs?.length) return [];
    return left.length === (outputs?.length ?? 0) ? [job] : [{ ...job, outputs: left }];
  });
}

/** Notes what is still to be deleted. */
function noteRemoved(change: (keys: Set<string>) => void): void {
  const keys = new Set(memory.read<string[]>("removed", []));
  change(keys);
  memory.write("removed", [...keys]);
}

/** Deletes jobs and results. One that is gone already is no failure. */
async function deleteAll(
  keys: readonly string[],
  isLeaving: boolean,
  tell: (sentence: string) => void,
): Promise<void> {
  await Promise.all(keys.map(async (key) => {
    try {
      await call(`v1/jobs/${key.replace(" ", "/outputs/")}`, {
        method: "DELETE",
        keepalive: isLeaving,
      });
    } catch (error) {
      if (error instanceof Refusal && error.status === 404) return;
      for (const other of [...removedKeys]) {
        if (other === key || other.startsWith(`${key} `)) removedKeys.delete(other);
      }
      tell(t("cannotDelete", { why: error instanceof Error ? error.message : String(error) }));
      refreshSoon();
    } finally {
      noteRemoved((noted) => noted.delete(key));
    }
  }));
}
let removal:
  | {
    timer: ReturnType<typeof setTimeout>;
    keys: readonly string[];
    /** Those of them that the server is asked to delete. */
    all: readonly string[];
    work: (isLeaving?: boolean) => void;
  }
  | undefined;

const countOf = (list: readonly Job[]) =>
  list.reduce((sum, { outputs }) => sum + Math.max(1, outputs?.length ?? 0), 0);

/** Takes jobs and single results from the list, and deletes them a little later. A key is a job's id, or an id, a space and a result's place. */
export function removeSoon(keys: readonly string[], tell: (sentence: string) => void): void {
  // Deletions one soon after the other are taken back together.
  clearTimeout(removal?.timer);
  const earlier = removal;
  const { list, linked, removed } = jobs.state;
  const isOf = ({ id }: Job) => keys.some((key) => key === id || key.startsWith(`${id} `));
  const before = [...list, ...linked ? [linked] : []].filter((job, place, all) =>
    isOf(job) && all.findIndex(({ id }) => id === job.id) === place
  );
  for (const key of keys) removedKeys.add(key);
  const after = kept(before);
  // A job goes with all of its results.
  const gone = before.filter(({ id }) => !after.some((job) => job.id === id));
  const isRemoved = (id: string) => removed?.jobs.some((job) => job.id === id) ?? false;
  const all = [
    ...earlier?.all ?? [],
    ...gone.map(({ id }) => id),
    ...keys.filter((key) => after.some(({ id }) => key.startsWith(`${id} `))),
  ];
  for (const { id } of gone) removedKeys.add(id);
  jobs.set({
    list: kept(list),
    linked: linked && (kept([linked])[0] ?? null),
    removed: {
      jobs: [...removed?.jobs ?? [], ...before.filter(({ id }) => !isRemoved(id))],
      count: (removed?.count ?? 0) + countOf(before) - countOf(after),
    },
  });
  const work = (isLeaving = false) => {
    clearTimeout(removal?.timer);
    removal = undefined;
    jobs.set({ removed: null });
    // A page that goes may not be able to finish it.
    if (isLeaving) noteRemoved((noted) => all.forEach((key) => noted.add(key)));
    void deleteAll(all, isLeaving, tell);
  };
  removal = {
    timer: setTimeout(work, UNDO_MS),
    keys: [...earlier?.keys ?? [], ...keys, ...all],
    all,
    work,
  };
}

export function undoRemoval(): void {
  const { removed } = jobs.state;
  if (!removal || !removed) return;
  clearTimeout(removal.timer);
  for (const key of removal.keys) removedKeys.delete(key);
  removal = undefined;
  const isBack = ({ id }: Job) => removed.jobs.some((job) => job.id === id);
  jobs.set(({ list }) => ({
    list: inOrder([...list.filter((job) => !isBack(job)), ...removed.jobs]),
    removed: null,
  }));
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
  if (job.status === "completed") jobs.set({ linked: kept([job])[0] ?? null });
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
