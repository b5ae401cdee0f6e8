/** An operation of the service, as the document lists it. */

import type { AnswerName } from "../contract/answers.ts";

export type BodyName =
  | "ImageGeneration"
  | "ImageEdit"
  | "VideoRequest"
  | "SetLora"
  | "MergeLora"
  | "UnmergeLora"
  | "ChangeParts"
  | "PullModel"
  | "ArchiveResults";

/** What an operation answers with: JSON of a schema, or something else of a media type. */
type OperationAnswer = { readonly json: AnswerName } | {
  /** Media types, such as `image/png`. */
  readonly types: readonly string[];
};

export interface Operation {
  readonly method: "get" | "post" | "delete";
  /** Path with parameters in braces. */
  readonly path: string;
  /** Unique, for generators of clients. */
  readonly id: string;
  /** Chapter that it belongs to. */
  readonly tag: string;
  /** What the operation does, in one sentence without a period. */
  readonly summary: string;
  /** Query parameters: name, JSON type, meaning, and the least and the greatest value of a number. */
  readonly query?: readonly (readonly [
    name: string,
    type: "string" | "integer",
    note: string,
    values?: { readonly minimum: number; readonly maximum?: number },
  ])[];
  /** The body and the content types that it may have. */
  readonly body?: {
    /** `File` for the bytes of a file. */
    readonly schema: BodyName | "File";
    readonly types: readonly string[];
    /** Whether the body may be omitted. */
    readonly isOptional?: boolean;
  };
  /** Answer with status 200. */
  readonly answer: OperationAnswer;
  /** Answer with status 202, where a request asks for the job with `Prefer: respond-async`. */
  readonly job?: AnswerName;
  /** Whether the operation makes a job, only one for a request that is sent again with its `Idempotency-Key`. */
  readonly isOnce?: boolean;
  /** Answer with events, where a request asks for them. */
  readonly events?: string;
  /** Whether a file may be answered in part, or be elsewhere. */
  readonly isFile?: boolean;
}
