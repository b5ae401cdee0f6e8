/** What the runs of a request are made from, in every family. */
import type { Device } from "../../runtime/mod.ts";
import type { PipelineControl, PipelineRequest, PipelineResult } from "../pipeline.ts";
import type { PromptCache } from "../prompt_cache.ts";
import type { Schedule } from "../schedulers/mod.ts";

/** See the file comment. */
export interface RequestWork<Components, Session> {
  readonly device: Device;
  readonly components: Components;
  /** Made for requests of this kind, with `schedule`. */
  readonly session: Session;
  readonly request: PipelineRequest;
  readonly schedule: Schedule;
  /** Ids of every prompt, not filled up. */
  readonly tokens: readonly (readonly number[])[];
  /** Ids that a prompt is cut to. */
  readonly maxLength: number;
  /** Prompts that were encoded before. */
  readonly encoded: PromptCache;
  readonly control: PipelineControl;
  /** Told when a stage is finished. */
  readonly lap: (stage: string) => void;
}

/** Results as they come in. */
export type Results = { -readonly [Key in "latents" | "frames"]: PipelineResult[Key] };
