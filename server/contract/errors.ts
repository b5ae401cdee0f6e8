/** Failures that a request is answered with. */

import type { ModelFilesError } from "../../engine/model_files_error.ts";
import type { ErrorBody, ValidationIssue } from "./answers.ts";

/** Statuses that the service answers a failure with. */
export type ErrorStatus =
  | 400
  | 401
  | 403
  | 404
  | 405
  | 408
  | 409
  | 413
  | 415
  | 416
  | 422
  | 429
  | 499
  | 500
  | 502
  | 503
  | 504;

interface ApiErrorOptions {
  /** The field that is wrong, in the spelling of the request. */
  param?: string;
  /** A word that programs can compare. */
  code?: string;
  /** The reference's text or list, where it differs from the message. */
  detail?: string | ValidationIssue[];
  /** All that is wrong with a LoRA, one line each. */
  problems?: readonly string[];
  /** Headers of the answer, such as `retry-after`. */
  headers?: Readonly<Record<string, string>>;
  /** What went wrong underneath; for the log, never for the client. */
  cause?: unknown;
}

/** A request that is answered with a failure that its sender may read. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: ErrorStatus;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: ErrorBody;

  constructor(status: ErrorStatus, message: string, options: ApiErrorOptions = {}) {
    super(message, options.cause === undefined ? {} : { cause: options.cause });
    this.status = status;
    this.headers = options.headers ?? {};
    this.body = {
      error: {
        message,
        type: errorType(status),
        param: options.param ?? null,
        code: options.code ?? null,
      },
      detail: options.detail ?? message,
      ...(options.problems?.length ? { problems: options.problems } : {}),
    };
  }

  /** The word for programs; null where there is none. */
  get code(): string | null {
    return this.body.error.code;
  }
}

/** A client's mistake in a value, status 400; the message has the value and what is allowed. */
export function badRequest(message: string, param?: string, code = "invalid_value"): ApiError {
  return new ApiError(400, message, param === undefined ? { code } : { code, param });
}

/** A form that is too large, status 413. */
export function formTooLarge(why: string): ApiError {
  return new ApiError(413, `Cannot read the form: ${why}`, { code: "body_too_large" });
}

/** A request is sent again whose job, or all that it made, was deleted. */
export function wasDeleted(id: string): ApiError {
  const message = `Cannot answer with ${id}: it was deleted meanwhile`;
  return new ApiError(409, message, { code: "conflict" });
}

/** What needs results that are kept, on a server that keeps none; `what` is such as `make a video`. */
export function noStorage(what: string): ApiError {
  return badRequest(
    `Cannot ${what}: this server keeps no results; start it with --output-path and a folder`,
    undefined,
    "no_storage",
  );
}

/** A client's mistake in types, status 422; `got` says what was sent in place of the first one's value. */
export function unprocessable(issues: ValidationIssue[], got?: string): ApiError {
  const [first] = issues;
  const param = first?.loc.slice(1).join(".");
  const where = param ? `field '${param}'` : "the body";
  const why = `${first?.msg ?? "it is not valid"}${got === undefined ? "" : `, got ${got}`}`;
  return new ApiError(422, `Cannot read ${where}: ${why}`, {
    ...(param ? { param } : {}),
    code: first?.type ?? "invalid",
    detail: issues,
  });
}

/** Our own failure, status 500: tells nothing but where to look. */
export function internalError(requestId: string): ApiError {
  const message = `Cannot finish the request: an internal error occurred, request id ${requestId}`;
  return new ApiError(500, message, {
    code: "internal_error",
    headers: { "x-should-retry": "false" },
  });
}

function errorType(status: ErrorStatus): string {
  if (status === 401) return "authentication_error";
  if (status === 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

/** Records that cannot be reached now, and may be soon. */
export class RecordsBusyError extends Error {
  override readonly name = "RecordsBusyError";
}

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

/** A failure that the client may read. */
export class ServiceError extends Error {
  override readonly name = "ServiceError";
  readonly failure: ServiceFailure;
  /** Seconds after which it may work; nothing where that is not known. */
  readonly retryAfter: number | undefined;

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

/** A model cannot be loaded again; where its files were is for the log. */
export function modelFilesGone(cause: ModelFilesError): ServiceError {
  return new ServiceError(
    "model_failed",
    "Cannot load the model: its files are gone, or are others than when it was opened, as the server's log says; " +
      "put them back, or name another model",
    { cause },
  );
}

/** Words that differ from the failures'. */
const CODES: Readonly<Partial<Record<ServiceFailure, string>>> = {
  refused: "invalid_value",
  enhancer_failed: "prompt_enhancer_failed",
  enhancer_timed_out: "prompt_enhancer_failed",
};
