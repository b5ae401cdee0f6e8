/** LoRAs of a model that only exists in tests: files to read, and what applying them looks like. */

import type { AdaptableComponent, AppliedLora } from "../../models/lora/types.ts";
import { safetensorsOf, type TensorValues } from "../support/safetensors.ts";

const SIDE = 4;

/** Layers of each of the fake model's components. */
export const FAKE_LAYERS: readonly string[] = [0, 1, 2].map((block) =>
  `blocks.${block}.attn1.to_q`
);

/** A layer of the fake model's text encoder. */
export const FAKE_TEXT_LAYER = "encoder.block.0.layer.0.SelfAttention.q";

/** What the fake model lets LoRAs change. */
export const FAKE_COMPONENTS: readonly AdaptableComponent[] = ([
  ["transformer", FAKE_LAYERS],
  ["transformer_2", FAKE_LAYERS],
  ["text_encoder", [FAKE_TEXT_LAYER]],
] as const).map(([target, layers]) => ({
  target,
  family: "Wan",
  layouts: [],
  isResident: true,
  modules: layers.map((name) => ({
    name,
    shape: [SIDE, SIDE],
    hasBias: false,
    isQuantised: false,
  })),
}));

/** What a LoRA file is made of. */
interface FakeLora {
  /** The value of every number in the file. */
  mark: number;
  /** Keys up to the factor; layers of a component are named with its prefix. */
  layers?: readonly string[];
  /** Rows of `lora_A`. */
  rank?: number;
  /** Columns of `lora_A`. */
  columns?: number;
}

/** A LoRA file in PEFT's naming. */
export function loraFile(
  { mark, layers = FAKE_LAYERS, rank = 1, columns = SIDE }: FakeLora,
): Uint8Array {
  const filled = (...shape: number[]): TensorValues => ({
    dtype: "f32",
    shape,
    values: new Array(shape.reduce((product, side) => product * side, 1)).fill(mark),
  });
  return safetensorsOf(Object.fromEntries(layers.flatMap((layer) => [
    [`${layer}.lora_A.weight`, filled(rank, columns)],
    [`${layer}.lora_B.weight`, filled(SIDE, rank)],
  ])));
}

/** A colour, 24 bits, that follows from LoRAs in their order; 0 without any. */
export function colourOf(applied: readonly AppliedLora[]): number {
  return colourOfParts(applied.map(({ lora, ...part }) => {
    const [first] = lora.changes[0]!.weight;
    const bytes = first?.kind === "low-rank" ? first.up.bytes.slice(0, 4) : new Uint8Array(4);
    return { ...part, mark: new DataView(bytes.buffer).getFloat32(0, true) };
  }));
}

/** The colour of LoRAs that are known by their numbers, as {@link colourOf} gives it. */
export function colourOfParts(
  parts: readonly (Pick<AppliedLora, "strength" | "targets" | "mode"> & { mark: number })[],
): number {
  let colour = 0;
  for (const { mark, strength, targets, mode } of parts) {
    for (const byte of new TextEncoder().encode(`${mark} ${strength} ${targets} ${mode}`)) {
      colour = (Math.imul(colour ^ byte, 16_777_619) + 1) & 0xffffff;
    }
  }
  return colour;
}
