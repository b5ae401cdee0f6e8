/** Records of jobs, wherever they are kept. */

/** Where a job is. `queued` and `in_progress` lead to one of the three ends. */
export type JobStatus = "queued" | "in_progress" | "completed" | "failed" | "cancelled";

export interface JobError {
  /** A word that programs can compare. */
  code: string;
  message: string;
}

/** A job as lists show it. Times are in Unix milliseconds. */
export interface JobEntry {
  /** `img_…` or `video_…` with a UUID. */
  id: string;
  /** What the job makes, such as `image`. */
  kind: string;
  status: JobStatus;
  /** Finished share of the work, 0 to 100. */
  progress: number;
  createdAt: number;
  /** When the GPU began. */
  startedAt: number | null;
  /** When it ended, however it ended. */
  endedAt: number | null;
  /** The part of the request that lists show, a JSON value. */
  summary: unknown;
  /** The prompt as it was rewritten; null when it was not. */
  revisedPrompt: string | null;
  /** What came out, a JSON value; null unless completed. */
  result: unknown;
  /** Why it failed; null unless failed. */
  error: JobError | null;
}

/** A job with all that is kept of it. */
export interface JobRecord extends JobEntry {
  request: unknown;
  /** HTTP status of the failure, where other servers than the one that ran it may answer. */
  errorStatus?: number;
}

/** What tells that a request was sent again; digests. */
export interface RequestKey {
  /** Digest of the client and the key that it gave the request. */
  readonly key: string;
  /** Digest of the route and the body. */
  readonly body: string;
}

/** A job to be recorded as queued. */
export interface NewRecord extends Pick<JobRecord, "id" | "kind" | "request" | "summary"> {
  /** Where its client may send the request again. */
  readonly requestKey?: RequestKey;
}

/** The job that a request has made that is sent again. */
export interface RepeatedRequest {
  readonly id: string;
  /** Digest of the route and the body, as {@link RequestKey.body}. */
  readonly body: string;
}

/** How long a request may be sent again, in milliseconds. */
export const REPEAT_MS = 24 * 60 * 60_000;

export type JobChange = Partial<
  Pick<
    JobRecord,
    | "status"
    | "progress"
    | "startedAt"
    | "endedAt"
    | "revisedPrompt"
    | "result"
    | "error"
    | "errorStatus"
  >
>;

/** Which records {@link JobStore.list} gives, and in what order. */
export interface JobFilter {
  /** What the jobs make; all of them by default. */
  kind?: string;
  statuses?: readonly JobStatus[];
  /** Begin after the record of this id. */
  after?: string;
  /** Most records. */
  limit?: number;
  /** Order by the time the jobs were queued; the newest first by default. */
  order?: "asc" | "desc";
}

/** What is kept of jobs that have ended. */
export interface RecordBounds {
  /** For how long, in milliseconds. */
  readonly ms: number;
  /** How many of those that failed or were cancelled: they cost nothing to make. The newest stay. */
  readonly unfinished: number;
}

export interface JobCount {
  kind: string;
  status: JobStatus;
  count: number;
}

export interface JobStore {
  /** @throws {RepeatedRequestError} when another job has its key */
  insert(job: NewRecord): Promise<void>;

  /** The job that has the key of a request: for {@link REPEAT_MS}, unless it failed or was cancelled. */
  findRepeated(key: string): Promise<RepeatedRequest | undefined>;

  /** Whether there is a job of that id. Records that several servers share change only while the job's result is `expected`, if that is given. */
  update(id: string, change: JobChange, expected?: unknown): Promise<boolean>;

  /** `mayBeOld`: the record may be shown as it was seen last where it does not come at once. */
  get(id: string, options?: { readonly mayBeOld?: boolean }): Promise<JobRecord | undefined>;

  /** The jobs that a filter chooses. A record that is damaged is listed as failed. */
  list(filter?: JobFilter): Promise<JobEntry[]>;

  counts(): Promise<JobCount[]>;

  /** Some of the oldest jobs whose time has come, by the clock of the records; none when there are no more. */
  expired(bounds: RecordBounds, limit: number): Promise<Pick<JobEntry, "id" | "result">[]>;

  /** Whether there was a job of that id: of several who delete it, one is told so. */
  delete(id: string): Promise<boolean>;

  /** Lets go of the records; jobs that have not ended are ended, or left for the next server. */
  close(): Promise<void>;
}

/** A job that is there already, as its request was sent before. */
export class RepeatedRequestError extends Error {
  override readonly name = "RepeatedRequestError";
  readonly repeated: RepeatedRequest;

  constructor(repeated: RepeatedRequest) {
    super(`Cannot queue the request again: ${repeated.id} is its job`);
    this.repeated = repeated;
  }
}

/** What is recorded of a job whose server died or stopped. */
export const INTERRUPTED: JobError = {
  code: "interrupted",
  message: "Cannot finish the job: the server stopped while it ran; send the request again",
};

/** What is shown of a job whose record cannot be read. */
export const DAMAGED: JobError = {
  code: "record_damaged",
  message: "Cannot show the job: its record is damaged; delete it",
};
