/** What a server of denoise answers, as far as the client reads it; a test holds these types against the server's contract. */

/** Where a job stands. */
export type JobStatus = "queued" | "in_progress" | "completed" | "failed" | "cancelled";

/** An image or a video that a job has made. */
export interface JobOutput {
  /** Which of the job's results it is, from 0, whatever was deleted. */
  readonly index: number;
  /** Address of the file, from the server's root or whole. */
  readonly url: string;
  /** Such as `image/png`. */
  readonly content_type: string;
  /** Length in bytes. */
  readonly bytes: number;
  /** Makes it again with the same request; null where it is not known. */
  readonly seed: number | null;
  /** Beginning of what was drawn, of a request with `wildcards`. */
  readonly prompt?: string | undefined;
}

/** A job of a server. */
export interface Job {
  /** Name of the job. */
  readonly id: string;
  /** What it makes. */
  readonly kind: "image" | "video";
  /** Where it stands. */
  readonly status: JobStatus;
  /** Percent that are done, 0 to 100. */
  readonly progress: number;
  /** Place in the queue, from 1; null for what does not wait. */
  readonly place: number | null;
  /** What it does, such as `T2I`; null for a job of another key. */
  readonly task_type: string | null;
  /** Beginning of the prompt; null for a job of another key. */
  readonly prompt: string | null;
  /** Public name of the model that made it; null for a job of another key. */
  readonly model: string | null;
  /** Size in pixels, as `512x768`. */
  readonly size: string | null;
  /** LoRAs of the request, by path or name. */
  readonly loras?: readonly string[] | null | undefined;
  /** Unix seconds when it was queued. */
  readonly created_at: number;
  /** Unix seconds when the GPU began with it. */
  readonly started_at: number | null;
  /** Unix seconds when it ended. */
  readonly ended_at: number | null;
  /** Why it failed. */
  readonly error: { readonly code: string; readonly message: string } | null;
  /** What came of it. */
  readonly outputs: readonly JobOutput[] | null;
  /** Prompts of which words were cut off. */
  readonly cut_prompts?: readonly CutPrompt[] | undefined;
}

/** A prompt that was longer than a model reads. */
export interface CutPrompt {
  /** Which prompt: its field in requests. */
  readonly prompt: "prompt" | "negative_prompt";
  /** Tokens that it has. */
  readonly tokens: number;
  /** Tokens that are read, from the first on. */
  readonly read: number;
  /** The first words that are not read. */
  readonly unread: string;
}

/** A model that a server has. */
export interface ServedModel {
  /** Name for `model` of a request. */
  readonly id: string;
  /** `denoise` for a server of denoise. */
  readonly owned_by: string;
  /** Whether it is on the device. */
  readonly state: "loaded" | "loading" | "unloaded" | "failed";
  /** What it makes by default, such as `T2I`. */
  readonly task_type: string;
  /** All that it can make. */
  readonly supported_task_types: readonly string[];
  /** Common sizes, as `512x768`, its own first. */
  readonly sizes: readonly string[];
}

/** A model that a server can fetch. */
export interface CatalogueModel {
  /** Name for {@link Client.pull}. */
  readonly id: string;
  /** Its name for people. */
  readonly title: string;
  /** What it is good for, in a sentence. */
  readonly good_for: string;
  /** Its licence. */
  readonly licence: string;
  /** Whether the hub asks for an account. */
  readonly gated: boolean;
  /** Whether the licence forbids commercial use. */
  readonly non_commercial: boolean;
  /** Bytes that are still to be fetched. */
  readonly download_bytes: number;
  /** Whether it fits the server's GPU; null while that is not known. */
  readonly fits: boolean | null;
}

/** How far a pull is. */
export interface Pull {
  /** Name of the pull. */
  readonly id: string;
  /** The model, as it was asked for. */
  readonly model: string;
  /** Where it stands. */
  readonly status: "queued" | "running" | "stopped" | "completed" | "failed";
  /** Bytes that are here. */
  readonly completed_bytes: number;
  /** Bytes of all files; 0 until the hub has told it. */
  readonly total_bytes: number;
  /** Bytes a second. */
  readonly bytes_per_second: number;
  /** Seconds that it may still take. */
  readonly eta_s: number | null;
  /** Why it failed. */
  readonly error: { readonly code: string; readonly message: string } | null;
}

/** What a request says, by the names of the HTTP API; files and blobs are sent along. */
export interface GenerationRequest {
  /** What to make. */
  readonly prompt: string;
  /** Whether `{red|green}` in the prompt is one of the words, chosen by each result's seed. */
  readonly wildcards?: boolean;
  /** Model of the server; its first one by default. */
  readonly model?: string;
  /** Size in pixels, as `512x768`. */
  readonly size?: string;
  /** How many to make; 1 by default. */
  readonly n?: number;
  /** Makes the result repeatable; a new one each time by default. */
  readonly seed?: number | readonly number[];
  /** What the result should not show. */
  readonly negative_prompt?: string;
  /** Images to edit or to start from. */
  readonly image?: Blob | readonly Blob[];
  /** Where the image may change: white. */
  readonly mask?: Blob;
  /** Previews of each image before it is done; none by default. */
  readonly partial_images?: number;
  /** Any other field of the HTTP API, with blobs for files. */
  readonly [field: string]: unknown;
}

/** An event of a request. */
export type GenerationEvent =
  | {
    /** The job waits. */
    readonly type: "queued";
    /** Place in the queue, from 1. */
    readonly place: number | null;
  }
  | {
    /** The job goes on. */
    readonly type: "progress";
    /** Share that is done, 0 to 1. */
    readonly fraction: number;
    /** The stage, such as `denoise`. */
    readonly stage: string | undefined;
    /** Denoising steps that are done. */
    readonly step: number;
    /** Denoising steps in all. */
    readonly totalSteps: number;
    /** Seconds that it may still take. */
    readonly etaSeconds: number | undefined;
  }
  | {
    /** An image before it is done. */
    readonly type: "preview";
    /** The image's file. */
    readonly image: Blob;
  }
  | {
    /** All is done. */
    readonly type: "completed";
    /** The job at its end. */
    readonly job: Job;
  };
