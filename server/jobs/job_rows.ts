/**
 * Rows of the table of jobs as records. A row that cannot be read is a failed job: it must neither
 * break a list nor be lost from it.
 */

import {
  DAMAGED,
  type JobChange,
  type JobEntry,
  type JobError,
  type JobRecord,
  type JobStatus,
} from "./job_store.ts";

/** What lists show. */
export const LISTED =
  "id, kind, status, progress, created_at, started_at, ended_at, summary, revised_prompt, result, " +
  "error";

/** Columns by the names of a change. */
const CHANGED = {
  status: "status",
  progress: "progress",
  startedAt: "started_at",
  endedAt: "ended_at",
  revisedPrompt: "revised_prompt",
  result: "result",
  error: "error",
} as const;

/** Fields that are kept as JSON: plain texts would lose NUL and halves of surrogate pairs. */
const JSON_FIELDS: readonly string[] = ["revisedPrompt", "result", "error"];

const STATUSES: readonly string[] = ["queued", "in_progress", "completed", "failed", "cancelled"];

/** The order in which rows came. */
export function byAge(one: Record<string, unknown>, other: Record<string, unknown>): number {
  return Number(one["created_at"]) - Number(other["created_at"]) ||
    Number(one["rowid"]) - Number(other["rowid"]);
}

/** A JSON value as a column holds it. */
export function toJson(value: unknown): string | null {
  return value === null || value === undefined ? null : JSON.stringify(value);
}

/** The columns that a change of a job sets, with their values; `errorStatus` has none in a store of one server. */
export function columnsOf(
  { errorStatus: _, ...change }: JobChange,
): Record<string, string | number | null> {
  const names = Object.keys(change) as (keyof typeof CHANGED)[];
  return Object.fromEntries(names.map((name) => {
    const value = change[name];
    const stored = JSON_FIELDS.includes(name) ? toJson(value) : value as string | number | null;
    return [CHANGED[name], stored];
  }));
}

/** The job of a whole row. */
export function toRecord(row: Record<string, unknown>): JobRecord {
  const entry = toEntry(row);
  try {
    return { ...entry, request: fromJson(row["request"]) };
  } catch {
    return { ...damaged(entry), request: null };
  }
}

/** The job of a row of {@link LISTED} columns. */
export function toEntry(row: Record<string, unknown>): JobEntry {
  const time = (value: unknown) => typeof value === "number" ? value : null;
  const entry: JobEntry = {
    id: String(row["id"]),
    kind: String(row["kind"]),
    status: String(row["status"]) as JobStatus,
    progress: Number(row["progress"]),
    createdAt: Number(row["created_at"]),
    startedAt: time(row["started_at"]),
    endedAt: time(row["ended_at"]),
    summary: null,
    revisedPrompt: null,
    result: null,
    error: null,
  };
  try {
    if (!STATUSES.includes(entry.status)) throw new TypeError("it has no status");
    return {
      ...entry,
      summary: fromJson(row["summary"]),
      revisedPrompt: fromJson(row["revised_prompt"]) as string | null,
      result: fromJson(row["result"]),
      error: fromJson(row["error"]) as JobError | null,
    };
  } catch {
    return damaged(entry);
  }
}

function fromJson(value: unknown): unknown {
  return typeof value === "string" ? JSON.parse(value) : null;
}

function damaged(entry: JobEntry): JobEntry {
  return { ...entry, status: "failed", result: null, error: DAMAGED };
}
