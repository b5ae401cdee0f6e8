/** Graphics cards with matrix units, described for tests that trace and run nothing. */
import {
  BASELINE_TARGET,
  type SubgroupMatrix,
  type Target,
  type TargetFeatures,
} from "../../runtime/target.ts";

/** What a card has beside its matrix units. */
export interface MatrixCard {
  /** KiB of workgroup memory; 32 by default. */
  readonly kilobytes?: number;
  /** Features in the place of subgroups of 32 and f16. */
  readonly features?: Partial<TargetFeatures>;
  /** Limits in the place of WebGPU's guaranteed ones. */
  readonly limits?: Partial<Target["limits"]>;
}

/** A multiplication of matrices whose sums are f32. */
export function matrixUnit(
  m: number,
  n: number,
  k: number,
  componentType: "f16" | "f32" = "f16",
): SubgroupMatrix {
  return { componentType, resultComponentType: "f32", m, n, k };
}

/** A card with these multiplications, of 16×16×16 and f16 by default. */
export function matrixTarget(
  subgroupMatrices: readonly SubgroupMatrix[] = [matrixUnit(16, 16, 16)],
  { kilobytes = 32, features, limits }: MatrixCard = {},
): Target {
  return {
    ...BASELINE_TARGET,
    limits: {
      ...BASELINE_TARGET.limits,
      maxWorkgroupMemoryBytes: kilobytes * 1024,
      ...limits,
    },
    features: {
      ...BASELINE_TARGET.features,
      ...{ f16: true, subgroups: true, subgroupMinSize: 32, subgroupMaxSize: 32 },
      subgroupMatrices,
      ...features,
    },
  };
}
