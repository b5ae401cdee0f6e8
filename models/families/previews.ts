/** Pictures of unfinished samples: after which steps, and of what. */
import {
  combineTo,
  copyTo,
  Graph,
  type Resident,
  type Target,
  type Tensor,
} from "../../runtime/mod.ts";

/**
 * After which steps previews are made: at even distances between the first and the last.
 *
 * @param count how many are asked for
 * @returns indices of steps, in order; fewer than asked for where there are fewer steps
 */
export function previewSteps(totalSteps: number, count: number): number[] {
  const steps = Array.from(
    { length: count },
    (_, k) => Math.ceil((k + 1) * totalSteps / (count + 1)) - 1,
  );
  return [...new Set(steps)];
}

/** What the preview of a picture is made in. */
export interface PreviewTensors {
  readonly sample: Resident;
  /** f32 [1 + outputs]: weights of sample and outputs. */
  readonly previewWeights: Resident;
  /** The sample without its noise, of its shape. */
  readonly preview: Resident;
  /** What the decoder takes. */
  readonly decoded: Resident;
}

/**
 * An unfinished picture as it would be without its noise, x0 = x − σ·v, for the decoder.
 *
 * @param outputs whose weighted sum is the velocity
 * @param latentsOf makes what the decoder takes of a sample
 */
export function tracePreview(
  { sample, previewWeights, preview, decoded }: PreviewTensors,
  outputs: (graph: Graph) => readonly Tensor[],
  latentsOf: (sample: Tensor) => Tensor,
  target: Target,
): Graph {
  const graph = new Graph("preview", target);
  combineTo([graph.use(sample), ...outputs(graph)], graph.use(previewWeights), 0, preview);
  copyTo(latentsOf(graph.use(preview)), decoded);
  return graph;
}
