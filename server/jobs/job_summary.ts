/**
 * What lists show of a job beside how it goes.
 *
 * @module
 */

import { createHash } from "node:crypto";
import type { TaskType } from "../../engine/types.ts";
import { shorten } from "../../generation/shorten.ts";

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

/**
 * What lists show of a request.
 *
 * @param request checked
 * @param owner see {@link ownerOf}
 * @returns a JSON value
 */
export function jobSummary(
  { prompt, taskType, width, height, seeds }: Omit<JobSummary, "owner">,
  owner: string,
): JobSummary {
  return { owner, prompt: shorten(prompt, MAX_PROMPT), taskType, width, height, seeds };
}

/**
 * Whose job one is, so that records tell no key.
 *
 * @param client the `Authorization` header
 * @param apiKeys of the server
 * @returns a digest; empty where no key is asked for
 */
export function ownerOf(client: string, apiKeys: readonly string[]): string {
  if (apiKeys.length === 0) return "";
  const [, key = ""] = /^Bearer\s+(\S+)\s*$/i.exec(client) ?? [];
  return createHash("sha256").update(key).digest("hex").slice(0, 32);
}
