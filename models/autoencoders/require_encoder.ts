import type { WeightScope } from "../../runtime/mod.ts";

/** Refuses to encode if the file has the decoder alone, which is all that results from text need. */
export function requireEncoder(weights: WeightScope): void {
  const has = (side: string) => weights.has(`${side}.conv_in.weight`);
  if (has("encoder") || !has("decoder")) return;
  throw missingEncoder("encode images");
}

export function missingEncoder(what: string): RangeError {
  return new RangeError(
    `Cannot ${what}: the autoencoder's file has its decoder alone; name a whole one with --vae`,
  );
}
