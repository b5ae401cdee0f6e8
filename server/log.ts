/**
 * The log: sentences for people, with fields for programs.
 *
 * @module
 */

/** How much a line matters. */
export type LogLevel = "info" | "warning" | "error";

/** What a line is about, beside its sentence. Never a prompt, a key or what a client uploaded. */
export interface LogFields {
  /** `info` when left out. */
  level?: LogLevel;
  /** Names the request, as in its header `x-request-id`. */
  request_id?: string;
  /** Of the request. */
  method?: string;
  /** Of the request, without its query. */
  path?: string;
  /** HTTP status of the answer, or the end of a job. */
  status?: number | string;
  /** How long it took, in milliseconds. */
  ms?: number;
  /** Id of the job. */
  job?: string;
  /** What the job makes. */
  kind?: string;
}

/** Takes a line for the log. */
export type Log = (message: string, fields?: LogFields) => void;

/** How lines are written. */
export const LOG_FORMATS = ["text", "json"] as const;

/** One of {@link LOG_FORMATS}. */
export type LogFormat = typeof LOG_FORMATS[number];

/**
 * Makes a log.
 *
 * @param format sentences alone, or one JSON object a line
 * @param write takes finished lines, without a line break
 * @returns the log
 */
export function createLog(format: LogFormat, write: (line: string) => void): Log {
  if (format === "text") return (message) => write(message);
  return (message, { level = "info", ...fields } = {}) =>
    write(JSON.stringify({ time: new Date().toISOString(), level, message, ...fields }));
}
