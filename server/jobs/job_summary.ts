/** What lists show of a job beside how it goes. */

import type { TaskType } from "../../engine/types.ts";
import { shorten } from "../../generation/shorten.ts";
import type { JobEntry } from "./job_store.ts";

/** The part of a request that lists show; a JSON value. */
export interface JobSummary {
  /** Whose job it is, by a digest of the key; empty where no key is asked for. */
  owner: string;
  /** The beginning of the prompt. */
  prompt: string;
  /** Task of the job. */
  taskType: TaskType;
  /** Pixels per row. */
  width: number;
  /** Number of rows. */
  height: number;
  /** One for each result. */
  seeds: number[];
}

/** Longest prompt that a list shows, in characters. */
const MAX_PROMPT = 300;

/** What lists show of a request. */
export function jobSummary(
  { prompt, taskType, width, height, seeds }: Omit<JobSummary, "owner">,
  owner: string,
): JobSummary {
  return { owner, prompt: shorten(prompt, MAX_PROMPT), taskType, width, height, seeds };
}

/**
 * Whose job one is.
 *
 * @returns the client; empty where no key is asked for
 */
export function ownerOf(client: string, apiKeys: readonly string[]): string {
  return apiKeys.length === 0 ? "" : client;
}

/**
 * Whether a job may be shown with all that it makes.
 *
 * @param job its record or its entry in a list
 * @returns true for the client's own jobs, and where no key is asked for
 */
export function isOwn(
  job: Pick<JobEntry, "summary">,
  client: string,
  apiKeys: readonly string[],
): boolean {
  const { owner = "" } = (job.summary ?? {}) as Partial<JobSummary>;
  return apiKeys.length === 0 || owner === client;
}
