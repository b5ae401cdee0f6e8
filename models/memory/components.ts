import type { DeviceTensor, Weights } from "../../runtime/mod.ts";

/** A model's weights by component, in the order of use: `text encoder`, `transformer`, `autoencoder`. */
export type Components = Readonly<Record<string, Weights>>;

export function weightOwners(components: Components): Map<DeviceTensor, string> {
  return new Map(
    Object.entries(components).flatMap(([name, weights]) =>
      [...weights.deviceTensors].map((weight) => [weight, name] as const)
    ),
  );
}
