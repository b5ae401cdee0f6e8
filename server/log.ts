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
  /** Method of the request. */
  method?: string;
  /** Path of the request, without its query. */
  path?: string;
  /** HTTP status of the answer, or the end of a job. */
  status?: number | string;
  /** How long it took, in milliseconds. */
  ms?: number;
  /** Id of the job. */
  job?: string;
  /** What the job makes. */
  kind?: string;
  /** Where an error that nobody foresaw came from, line by line. */
  stack?: string;
}

/** Takes a line for the log. */
export type Log = (message: string, fields?: LogFields) => void;

/** How lines are written. */
export const LOG_FORMATS = ["text", "json"] as const;

/** A format of the log, one of {@link LOG_FORMATS}. */
export type LogFormat = typeof LOG_FORMATS[number];

/** What moves a cursor, changes colours, ends a line, or turns the direction of writing. */
// deno-lint-ignore no-control-regex
const CONTROLS = /[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/**
 * Makes a log. What clients send may be in a line, so that control characters are written as escapes:
 * nobody can write a line of their own, or speak to the terminal.
 *
 * @param format sentences alone, or one JSON object a line
 * @param write takes finished lines, without a line break
 * @returns the log
 */
export function createLog(format: LogFormat, write: (line: string) => void): Log {
  if (format === "text") {
    return (message, { stack = "" } = {}) => {
      // Its first lines repeat the message.
      const places = stack.split("\n").filter((line) => /^\s+at /.test(line));
      for (const line of [message, ...places]) write(line.replace(CONTROLS, escape));
    };
  }
  return (message, { level = "info", ...fields } = {}) => {
    const line = JSON.stringify({ time: new Date().toISOString(), level, message, ...fields });
    write(line.replace(CONTROLS, escape));
  };
}

/** A character as JSON escapes it. */
function escape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
