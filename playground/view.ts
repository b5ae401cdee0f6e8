/** What of the jobs is looked at. */

import { Refusal } from "./api.ts";
import { isPending, type Job, jobs, refreshSoon, type Result, resultAt } from "./jobs.ts";
import { type Entry, history, matches } from "./history.ts";
import { connect, noteRefusal } from "./session.ts";
import { Store } from "./store.ts";

interface View {
  /** Id of the job that was chosen; the newest one when empty. */
  id: string;
  /** Which of its results; null for all of them. */
  index: number | null;
  /** Whether the result is looked at by itself, as large as the window. */
  isEnlarged: boolean;
  /** What is done to the first image of the draft, in its place. */
  editing: "mask" | "outpaint" | null;
  /** Whether the sheet is open. */
  hasSheet: boolean;
  /** Whether the settings are open, where there is no room for them beside the image. */
  hasSettings: boolean;
  notice: string;
}

export const view: Store<View> = new Store<View>({
  id: "",
  index: null,
  isEnlarged: false,
  editing: null,
  hasSheet: false,
  hasSettings: false,
  notice: "",
});

/** An image of a comparison. */
export interface Side {
  url: string;
  name: string;
}

export interface Comparison {
  sides: readonly [Side, Side];
  /** Names and both values of settings that are not the same. */
  differences: readonly (readonly [string, string, string])[];
}

/** Two images that are compared. */
export const comparison: Store<{ now: Comparison | null }> = new Store<{ now: Comparison | null }>({
  now: null,
});

export function show(id: string, index: number | null = null): void {
  view.set({ id, index, editing: null });
}

/** Shows a result by itself. */
export function enlarge(id: string, index: number): void {
  view.set({ id, index, editing: null, isEnlarged: true });
}

/** Ends the editing of the first image. */
export function endEditing(): void {
  view.set({ editing: null });
}

export function tell(notice: string): void {
  view.set({ notice });
}

export function selectedJob(list: readonly Job[]): Job | undefined {
  const { id } = view.state;
  const { linked } = jobs.state;
  return list.find((job) => job.id === id) ?? (linked?.id === id ? linked : undefined) ??
    list.find((job) => job.status === "completed" || isPending(job));
}

export function selectedResult(list: readonly Job[]): Result | undefined {
  const job = selectedJob(list);
  if (!job) return undefined;
  const index = selectedIndex(job);
  return index === null ? job.outputs?.[0] : resultAt(job, index);
}

/** Which result of the job in the middle is looked at; null when all of several are. */
export function selectedIndex(job: Job): number | null {
  const { id, outputs } = job;
  const index = id === view.state.id ? view.state.index : null;
  if (index !== null && resultAt(job, index)) return index;
  return outputs && outputs.length > 1 ? null : outputs?.[0]?.index ?? 0;
}

/** What the list shows: each result, and each job that has none, as far as they are looked for. */
export function entriesOf(list: readonly Job[]): Entry[] {
  return list.filter(({ status }) => status !== "cancelled").flatMap((job): Entry[] =>
    job.status === "completed" && job.outputs
      ? job.outputs.map((result) => ({ job, result, index: result.index }))
      : [{ job, result: undefined, index: 0 }]
  ).filter((entry) => matches(entry, history.state));
}

/** Shows the next result of the list, or the one before. */
export function showNext(step: number): void {
  const entries = entriesOf(jobs.state.list).filter(({ result }) => result);
  const current = selectedResult(jobs.state.list);
  const next = entries[entries.findIndex(({ result }) => result === current) + step];
  if (next) show(next.job.id, next.index);
}

/** Does something; what goes wrong is told in a sentence. */
export async function attempt(work: () => Promise<unknown>): Promise<boolean> {
  tell("");
  try {
    await work();
    return true;
  } catch (error) {
    const notice = error instanceof Error ? error.message : String(error);
    if (!noteRefusal(error)) tell(notice);
    // What the server was missed for is no news once it is there again.
    if (error instanceof Refusal && error.status === 0) {
      void connect().then(() => view.state.notice === notice && tell(""));
    }
    refreshSoon();
    return false;
  }
}
