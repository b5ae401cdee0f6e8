/** When kernels for matrix units may be used, and which of the adapter's multiplications they take. */
import type { StorageFormat } from "../dtype.ts";
import { MATRIX_SUBGROUPS, type MatrixUnit } from "../shaders/matrix_tiles.ts";
import type { Target, TargetFeatures } from "../target.ts";

/** Invocations of a subgroup where the adapter lets choose: what makers of GPUs with matrix units have in common. */
const USUAL_LANES = 32;

/**
 * The largest multiplication of f16 with sums in f32 that tiles of {@linkcode MatrixUnit} can be made of; nothing where
 * the adapter has none or does not say how many invocations a subgroup has.
 */
export function matrixUnitOf({ features, limits }: Target): MatrixUnit | undefined {
  const lanes = lanesOf(features);
  if (!features.f16 || lanes === undefined) return undefined;
  if (limits.maxWorkgroupInvocations < MATRIX_SUBGROUPS * lanes) return undefined;
  const usable = features.subgroupMatrices.filter((
    { componentType, resultComponentType, m, n, k },
  ) =>
    componentType === "f16" && resultComponentType === "f32" &&
    [m, n].every((size) => size === 8 || size === 16) && [8, 16, 32].includes(k)
  );
  const volume = ({ m, n, k }: { m: number; n: number; k: number }) => m * n * k;
  const best = usable.toSorted((a, b) => volume(b) - volume(a))[0];
  if (!best) return undefined;
  const isForced = features.subgroupMinSize !== features.subgroupMaxSize;
  return { m: best.m, n: best.n, k: best.k, lanes, isForced };
}

/** Invocations of every subgroup, 8 to 64. */
function lanesOf(features: TargetFeatures): number | undefined {
  const { subgroupMinSize: min, subgroupMaxSize: max, subgroupSizeControl } = features;
  if (min !== max && !subgroupSizeControl) return undefined;
  const lanes = Math.min(max, Math.max(min, USUAL_LANES));
  return lanes >= 8 && lanes <= 64 ? lanes : undefined;
}

/**
 * Whether kernels may round the factors of an op's products to f16: where the target allows it and no factor is a weight
 * stored as f32, which asks for more. Who forces a variant allows what it does.
 *
 * @param weight storage format of the factor that is a weight, if one is
 */
export function mayRoundToHalf(op: string, target: Target, weight?: StorageFormat): boolean {
  if (target.forcedVariants[op] !== undefined) return true;
  return target.operands !== "f32" && weight !== "f32";
}
