/** The end of a request for one picture: its latents, and then its pixels tile by tile. */
import type { Resident, Run } from "../../runtime/mod.ts";
import type { TiledCoder } from "../autoencoders/tiled_coder.ts";
import type { SessionPrograms } from "../memory/session_programs.ts";
import type { Components } from "../memory/stage.ts";
import { explainNonFinite, isFinite } from "../non_finite.ts";
import type { PipelineControl, PipelineRequest, PipelineResult } from "../pipeline.ts";
import { toUnitRange } from "../pixels.ts";

/** Results as they come in. */
export type Results = { -readonly [Key in "latents" | "frames"]: PipelineResult[Key] };

/** What the runs are made from. */
export interface PictureWork {
  readonly session: {
    /** With one called `finish`, which writes the latents for the caller and those for the decoder. */
    readonly programs: SessionPrograms;
    readonly tensors: { readonly latents: Resident };
    readonly decoder: TiledCoder;
  };
  /** The autoencoder the last. */
  readonly components: Components;
  readonly request: PipelineRequest;
  readonly control: PipelineControl;
  /** Told when the stage is finished. */
  readonly lap: (stage: string) => void;
}

/**
 * See the file comment.
 *
 * @param result filled on the way
 * @throws {Error} from a run, when what was read back is no number
 */
export function* pictureRuns(
  { session, components, request, control, lap }: PictureWork,
  result: Results,
): Generator<Run> {
  const { programs, tensors, decoder } = session;
  const parts = Object.values(components);
  const totalSteps = decoder.tileCount;
  const refuse = (stage: string, from: typeof parts) => {
    throw explainNonFinite(stage, from, request.guidanceScale);
  };
  yield {
    programs: [programs.get("finish")],
    stage: "decode",
    before: () => control.onProgress?.({ stage: "decode", step: 0, totalSteps }),
    reads: [tensors.latents],
    finished: ([latents]) => {
      result.latents = latents!;
      if (!isFinite(result.latents)) refuse("the transformer", parts);
    },
  };
  yield* decoder.runs((name) => programs.get(name), (done, pixels) => {
    control.onProgress?.({ stage: "decode", step: done, totalSteps });
    if (!pixels) return;
    if (!isFinite(pixels)) refuse("the autoencoder", parts.slice(-1));
    const frame = toUnitRange(pixels);
    if (control.onFrame) control.onFrame(frame);
    else result.frames.push(frame);
    lap("decode");
  });
}
