/** The log: sentences for people, with fields for programs. */

import { escapeControls } from "../generation/texts.ts";

/** How much a line matters. */
export type LogLevel = "info" | "warning" | "error";

/** What a line is about, beside its sentence. Never a prompt, a key or what a client uploaded. */
export interface LogFields {
  /** `info` by default. */
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

/**
 * Makes a log. What clients send may be in a line, so that control characters are written as escapes:
 * nobody can write a line of their own, or speak to the terminal.
 *
 * @param format sentences alone, or one JSON object a line
 * @param write takes finished lines, without a line break; what it throws is dropped
 * @returns the log, which never throws
 */
export function createLog(format: LogFormat, write: (line: string) => void): Log {
  const put = (line: string) => {
    try {
      write(escapeControls(line));
    } catch {
      // No request fails because its line could not be written.
    }
  };
  if (format === "text") {
    return (message, { stack = "" } = {}) => {
      // Its first lines repeat the message.
      const places = stack.split("\n").filter((line) => /^\s+at /.test(line));
      for (const line of [message, ...places]) put(line);
    };
  }
  return (message, { level = "info", ...fields } = {}) =>
    put(JSON.stringify({ time: new Date().toISOString(), level, message, ...fields }));
}

/** Most characters of lines that wait to be written. */
const MAX_WAITING = 2 ** 20;
/** How long the last lines may take at the end, in milliseconds. */
const FLUSH_MS = 1000;

/**
 * Writes lines to where nobody may read, or where there is no room. It never waits and never throws: what cannot be
 * written is dropped and counted.
 */
export class LineWriter {
  readonly #write: (bytes: Uint8Array) => Promise<number>;
  readonly #onDropped: (count: number) => void;
  #waiting: string[] = [];
  #characters = 0;
  #dropped = 0;
  #writing: Promise<void> | undefined;

  /**
   * Makes a writer of nothing yet.
   *
   * @param write takes bytes, and says how many it took
   * @param onDropped told how many lines were dropped, once lines are written again
   */
  constructor(write: (bytes: Uint8Array) => Promise<number>, onDropped: (count: number) => void) {
    this.#write = write;
    this.#onDropped = onDropped;
  }

  /** Takes a line without its break. */
  line(text: string): void {
    if (this.#characters + text.length > MAX_WAITING) {
      this.#dropped++;
      return;
    }
    this.#waiting.push(text);
    this.#characters += text.length;
    this.#writing ??= this.#writeAll().finally(() => this.#writing = undefined);
  }

  /** Waits for the lines that were taken, a second at most. */
  async flush(): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<void>((resolve) => timer = setTimeout(resolve, FLUSH_MS));
    await Promise.race([this.#writing, late]);
    clearTimeout(timer);
  }

  async #writeAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const lines = this.#waiting;
      const text = `${lines.join("\n")}\n`;
      this.#waiting = [];
      try {
        const bytes = new TextEncoder().encode(text);
        for (let at = 0; at < bytes.length;) at += await this.#write(bytes.subarray(at));
      } catch {
        this.#dropped += lines.length;
        continue;
      } finally {
        this.#characters -= text.length - lines.length;
      }
      const dropped = this.#dropped;
      this.#dropped = 0;
      if (dropped > 0) this.#onDropped(dropped);
    }
  }
}
