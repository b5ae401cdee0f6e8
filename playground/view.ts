/** What of the jobs is looked at. */

import { isPending, type Job, type Result } from "./jobs.ts";
import { Store } from "./store.ts";

/** What the stage shows. */
interface View {
  /** Id of the job that was chosen; the newest one when empty. */
  id: string;
  /** Which of its results. */
  index: number;
  /** Whether the first image of the draft is being masked. */
  isMasking: boolean;
  /** Whether the settings are open, where there is no room for them beside the image. */
  hasSettings: boolean;
  /** What went wrong last, for people. */
  notice: string;
}

export const view: Store<View> = new Store<View>({
  id: "",
  index: 0,
  isMasking: false,
  hasSettings: false,
  notice: "",
});

/** Looks at a job. */
export function show(id: string, index = 0): void {
  view.set({ id, index, isMasking: false });
}

/** Says something for a while. */
export function tell(notice: string): void {
  view.set({ notice });
}

/** The job that is looked at. */
export function selectedJob(list: readonly Job[]): Job | undefined {
  const { id } = view.state;
  return list.find((job) => job.id === id) ??
    list.find((job) => job.status === "completed" || isPending(job));
}

/** The result that is looked at. */
export function selectedResult(list: readonly Job[]): Result | undefined {
  const job = selectedJob(list);
  return job?.outputs?.[job.id === view.state.id ? view.state.index : 0];
}
