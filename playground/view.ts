/** What of the jobs is looked at. */

import { Refusal } from "./api.ts";
import { isPending, type Job, refreshSoon, type Result } from "./jobs.ts";
import { connect, noteRefusal } from "./session.ts";
import { Store } from "./store.ts";

interface View {
  /** Id of the job that was chosen; the newest one when empty. */
  id: string;
  /** Which of its results. */
  index: number;
  /** Whether the first image of the draft is being masked. */
  isMasking: boolean;
  /** Whether the settings are open, where there is no room for them beside the image. */
  hasSettings: boolean;
  notice: string;
}

export const view: Store<View> = new Store<View>({
  id: "",
  index: 0,
  isMasking: false,
  hasSettings: false,
  notice: "",
});

export function show(id: string, index = 0): void {
  view.set({ id, index, isMasking: false });
}

export function tell(notice: string): void {
  view.set({ notice });
}

export function selectedJob(list: readonly Job[]): Job | undefined {
  const { id } = view.state;
  return list.find((job) => job.id === id) ??
    list.find((job) => job.status === "completed" || isPending(job));
}

export function selectedResult(list: readonly Job[]): Result | undefined {
  const job = selectedJob(list);
  return job?.outputs?.[job.id === view.state.id ? view.state.index : 0];
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
