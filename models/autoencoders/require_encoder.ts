import type { WeightScope } from "../../runtime/mod.ts";

/** Refuses to encode if the file has the decoder alone, which is all that results from text need. */
export function requireEncoder(weights: WeightScope): void {
  if (hasSide(weights, "encoder") || !hasSide(weights, "decoder")) return;
  throw missingEncoder("encode images");
}

export function hasSide(weights: Pick<WeightScope, "has">, side: "encoder" | "decoder"): boolean {
  return ["conv_in.weight", "conv_in.conv.weight"].some((name) => weights.has(`${side}.${name}`));
}

export function missingEncoder(what: string): RangeError {
  return new RangeError(
    `Cannot ${what}: the autoencoder's file has its decoder alone; name a whole one with --vae`,
  );
}
