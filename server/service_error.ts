/**
 * Why the service cannot do what it was asked for, without a word of HTTP: `respond.ts` alone says with which status.
 */

/** What is in the way. */
export type ServiceFailure =
  | "device_lost"
  | "enhancer_failed"
  | "enhancer_timed_out"
  | "model_failed"
  | "model_loading"
  | "queue_full"
  | "records_busy"
  | "refused"
  | "shutting_down"
  | "storage_failed";

/** A failure that whoever asked may read. */
export class ServiceError extends Error {
  /** Tells it from other errors in logs. */
  override readonly name = "ServiceError";
  /** What is in the way. */
  readonly failure: ServiceFailure;
  /** Seconds after which it may work; nothing where that is not known. */
  readonly retryAfter: number | undefined;

  /**
   * @param options seconds to wait, and what went wrong underneath, which goes to the log
   */
  constructor(
    failure: ServiceFailure,
    message: string,
    { retryAfter, cause }: { retryAfter?: number; cause?: unknown } = {},
  ) {
    super(message, cause === undefined ? {} : { cause });
    this.failure = failure;
    this.retryAfter = retryAfter;
  }

  /** The word for programs, in answers and records. */
  get code(): string {
    return CODES[this.failure] ?? this.failure;
  }
}

/** Words that differ from the failures'. */
const CODES: Readonly<Partial<Record<ServiceFailure, string>>> = {
  refused: "invalid_value",
  enhancer_failed: "prompt_enhancer_failed",
  enhancer_timed_out: "prompt_enhancer_failed",
};
