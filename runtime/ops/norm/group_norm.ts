import type { Tensor } from "../../graph/graph.ts";
import { formatShape, sameShape } from "../../shape.ts";
import { KernelFile } from "../../shaders/kernel_file.ts";
import applySource from "../../shaders/norm/group_apply.wgsl" with { type: "text" };
import combineSource from "../../shaders/norm/group_combine.wgsl" with { type: "text" };
import partialSource from "../../shaders/norm/group_partial.wgsl" with { type: "text" };
import type { Target } from "../../target.ts";
import type { Activation } from "../activations.ts";
import { groupClass } from "../problem_class.ts";
import { chooseVariant, MESA_SOFTWARE, type Variant } from "../variants.ts";

const PARTIAL = new KernelFile("norm/group_partial", partialSource);
const COMBINE = new KernelFile("norm/group_combine", combineSource);
const APPLY = new KernelFile("norm/group_apply", applySource);

/** Parts of a group normalisation. */
export interface GroupNormOptions {
  /** Number of groups of neighbouring channels; divides C. */
  readonly groups: number;
  /** Added to the variance. */
  readonly eps: number;
  /** Learned factor, [C]; f32, f16 or bf16. */
  readonly weight?: Tensor | undefined;
  /** Learned offset, [C]. */
  readonly bias?: Tensor | undefined;
  /** Applied last. */
  readonly activation?: Activation;
  /** Name of the result, for messages. */
  readonly name?: string;
}

interface GroupNormVariant extends Variant<unknown> {
  /** Invocations that join the partial sums of a group. */
  readonly lanes: number;
  /** Most pieces that the positions are cut into, and the fewest positions in one. */
  readonly maxChunks: number;
  readonly minChunkRows: number;
}

const GROUP_NORM_VARIANTS: readonly GroupNormVariant[] = [
  {
    name: "cpu",
    schedule: "cpu",
    racedOn: MESA_SOFTWARE,
    supports: () => true,
    lanes: 1,
    maxChunks: 64,
    minChunkRows: 64,
  },
  {
    name: "gpu",
    schedule: "gpu",
    supports: (_problem, target: Target) => target.limits.maxWorkgroupInvocations >= 128,
    lanes: 128,
    maxChunks: 1024,
    minChunkRows: 32,
  },
];

/**
 * Group normalisation of a channels-last tensor over all positions and the channels of a group:
 * y = act((x - mean) / sqrt(var + eps) * weight + bias).
 *
 * @param x [B, ...positions, C]
 * @returns f32 tensor of the shape of `x`
 * @throws {RangeError} when `groups` does not divide C or a weight is not [C]
 */
export function groupNorm(x: Tensor, options: GroupNormOptions): Tensor {
  const affine = groupStatistics(x, options);
  const channels = x.dim(-1);
  const width = channels % 4 === 0 ? 4 : 1;
  const batch = x.dim(0);
  const y = x.graph.tensor(options.name ?? "groupNorm", x.shape);
  x.graph.dispatch({
    kernel: APPLY.kernel({ WIDTH: width, ACTIVATION: options.activation ?? "none" }),
    buffers: { x, affine, y },
    params: {
      count: x.size / width,
      words: channels / width,
      positions: x.size / batch / channels,
    },
    workgroups: [Math.ceil(x.size / width / 64), 1, 1],
    flops: 3 * x.size,
  });
  return y;
}

/** {@linkcode groupNorm} without activation is (x - pivot) * factor + offset; f32 [B, 3, C]: pivots, factors, offsets. */
export function groupStatistics(x: Tensor, options: GroupNormOptions): Tensor {
  const { groups, weight, bias, eps } = options;
  const channels = x.dim(-1);
  if (x.rank < 2 || !Number.isInteger(groups) || groups < 1 || channels % groups !== 0) {
    throw new RangeError(
      `Cannot apply groupNorm to ${x}: ${channels} channels of at least 2 dimensions do not split into ${groups} groups`,
    );
  }
  for (const [role, vector] of Object.entries({ weight, bias })) {
    if (vector && !sameShape(vector.shape, [channels])) {
      throw new RangeError(
        `Cannot apply groupNorm to ${x}: ${role} ${vector} must have the shape ${
          formatShape([channels])
        }`,
      );
    }
  }
  const { graph } = x;
  const width = channels % 4 === 0 ? 4 : 1;
  const batch = x.dim(0);
  const positions = x.size / batch / channels;
  const problemClass = groupClass({ positions });
  const variant = chooseVariant(
    "groupNorm",
    GROUP_NORM_VARIANTS,
    undefined,
    graph.target,
    problemClass,
  );
  const words = channels / width;
  const chunk_rows = Math.max(variant.minChunkRows, Math.ceil(positions / variant.maxChunks));
  const chunks = Math.ceil(positions / chunk_rows);
  const partial = graph.tensor("groupNorm partial", [batch, chunks, 2, channels]);
  const count = batch * chunks * words;
  graph.dispatch({
    kernel: PARTIAL.kernel({ WIDTH: width }),
    buffers: { x, partial },
    params: { count, words, positions, chunks, chunk_rows },
    workgroups: [Math.ceil(count / 64), 1, 1],
    flops: 5 * x.size,
  });
  const affine = graph.tensor("groupNorm affine", [batch, 3, channels]);
  graph.dispatch({
    kernel: COMBINE.kernel({
      LANES: variant.lanes,
      WEIGHT: weight !== undefined,
      BIAS: bias !== undefined,
    }),
    buffers: { x, partial, affine, ...(weight && { weight }), ...(bias && { bias }) },
    params: { groups, channels, positions, chunks, chunk_rows, eps },
    workgroups: [batch * groups, 1, 1],
    flops: 8 * partial.size,
  });
  return affine;
}
