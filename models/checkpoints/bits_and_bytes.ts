/** Weights that bitsandbytes has quantised, which need its tables to be read. */
import type { TensorSource } from "../../runtime/mod.ts";

/** Names that bitsandbytes stores beside a weight: `….quant_state.bitsandbytes__nf4`, and scales of int8. */
const SIGN = /\.quant_state\.bitsandbytes__(\w+)$|\.(SCB)$/;

/**
 * Refuses such weights.
 *
 * @throws {TypeError} when there are some
 */
export function refuseBitsAndBytes({ path, names }: TensorSource): void {
  for (const name of names) {
    const found = SIGN.exec(name);
    if (!found) continue;
    const type = found[1]?.slice(0, 20) ?? "int8";
    throw new TypeError(
      `Cannot use "${path}": its weights are quantised by bitsandbytes (${type}), which is not supported; ` +
        "take the model in bf16, in fp8 or as GGUF",
    );
  }
}
