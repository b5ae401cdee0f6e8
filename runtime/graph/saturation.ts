/** Counting what f16 does not hold where kernels round the factors of products to it, layer by layer. */
import { DeviceTensor } from "../device/device_tensor.ts";

/** Counters of a set; layers beyond share them. */
const COUNTERS = 1024;

/**
 * Counters for the layers of several programs. A kernel adds to its layer's where a factor is beyond ±65504, NaN or
 * infinite; whoever runs the programs reads them, and traces those layers again with f32.
 */
export class Saturation {
  /** One for each layer in the order of their first use, u32; zeros at first. */
  readonly counters: DeviceTensor = new DeviceTensor("saturation", [COUNTERS], "u32");
  /** Layers whose factors stay f32. */
  readonly wide: ReadonlySet<string>;
  readonly #indices = new Map<string, number>();

  /** `wide` are layers whose factors are not to be rounded to f16. */
  constructor(wide: ReadonlySet<string> = new Set()) {
    this.wide = wide;
  }

  /** Which counter a layer has. */
  indexOf(layer: string): number {
    let index = this.#indices.get(layer);
    if (index === undefined) {
      index = this.#indices.size % COUNTERS;
      this.#indices.set(layer, index);
    }
    return index;
  }

  /** Layers in which a factor was beyond f16, from the counts of all counters. */
  layersOf(counts: Uint32Array): string[] {
    return [...this.#indices].filter(([, index]) => counts[index] !== 0).map(([layer]) => layer);
  }
}

/** Factors of these layers were beyond f16: what came out is wrong, and tracing them again with f32 puts it right. */
export class SaturationError extends Error {
  /** Survives the way between threads. */
  override readonly name = "SaturationError";
  /** Layers, as in {@linkcode Saturation}. */
  readonly layers: readonly string[];

  /** Names the layers. */
  constructor(layers: readonly string[]) {
    super(
      `Cannot go on with factors rounded to f16: those of ${
        layers.join(", ")
      } are beyond its range; ` +
        "ask for quality exact",
    );
    this.layers = layers;
  }
}
