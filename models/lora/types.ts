/** LoRAs as every dialect is read: what they add to which module of which component. */
import type { Shape } from "../../runtime/mod.ts";
import type { Layout } from "../layouts.ts";

/** A part of a model that LoRAs can be meant for; the names of the HTTP contract, and the text encoder. */
export type LoraComponent =
  | "transformer"
  | "transformer_2"
  | "critic"
  | "text_encoder"
  | "text_encoder_2"
  | "text_encoder_3";

type TextEncoderName = "text_encoder" | "text_encoder_2" | "text_encoder_3";

export const TEXT_ENCODERS: readonly LoraComponent[] = [
  "text_encoder",
  "text_encoder_2",
  "text_encoder_3",
];

export function isTextEncoder(target: LoraComponent): target is TextEncoderName {
  return TEXT_ENCODERS.includes(target);
}

/** A module with weights: a linear layer, a convolution, a norm. */
export interface AdaptableModule {
  /** Name of the module in diffusers, without `.weight` and `.bias`, such as `blocks.0.attn1.to_q`. */
  readonly name: string;
  /** Shape of its weight as the checkpoint has it: [out, in], [out, in, ...taps], [size]. */
  readonly shape: Shape;
  readonly hasBias: boolean;
  /** Whether its weight is stored in quantised blocks, fp8 included. */
  readonly isQuantised: boolean;
}

/** A component of the loaded model, as LoRAs see it. A JSON value. */
export interface AdaptableComponent {
  readonly target: LoraComponent;
  readonly family: string;
  readonly modules: readonly AdaptableModule[];
  /** Whether all its weights are on the device; those that are once the model is loaded stay there. */
  readonly isResident: boolean;
  /** Other namings of its modules that LoRAs may use. */
  readonly layouts: readonly Layout[];
  /** Whether prompts may name embeddings, which LoRAs may bring. */
  readonly readsWords?: boolean;
}

/** Numbers of a LoRA as its file stores them, row by row. May lie in shared memory. */
export interface LoraTensor {
  readonly shape: Shape;
  readonly dtype: "f32" | "f16" | "bf16";
  readonly bytes: Uint8Array;
}

/** Output rows of a module that a change is for; all of them by default. */
export type Rows = readonly [start: number, count: number];

/**
 * What a LoRA adds to a module's weight W [out, in], seen as a matrix [out, in · taps] where it is a convolution.
 * `scale` is what the file says, alpha / rank as a rule; the strength asked for multiplies it.
 *
 * - `low-rank`: scale · up · down, down [rank, in · taps], up [rows, rank]
 * - `hadamard` (LoHa): scale · (up1 · down1) ∘ (up2 · down2)
 * - `kronecker` (LoKr): scale · (w1 ⊗ w2), each whole or the product of two
 * - `whole`: scale · delta, [rows, in · taps]
 *
 * Convolutions in Tucker form are multiplied out while they are read.
 */
export type WeightChange =
  & { readonly rows?: Rows; readonly scale: number }
  & (
    | { readonly kind: "low-rank"; readonly down: LoraTensor; readonly up: LoraTensor }
    | {
      readonly kind: "hadamard";
      readonly down: readonly [LoraTensor, LoraTensor];
      readonly up: readonly [LoraTensor, LoraTensor];
    }
    | {
      readonly kind: "kronecker";
      /** Factors, each one matrix or the two whose product it is. */
      readonly factors: readonly [readonly LoraTensor[], readonly LoraTensor[]];
    }
    | { readonly kind: "whole"; readonly delta: LoraTensor }
  );

export interface ModuleChange {
  readonly target: LoraComponent;
  /** Name of the module, as {@linkcode AdaptableModule.name}. */
  readonly module: string;
  /** Changes in the order of the file; of a module of several joined ones, one for each. */
  readonly weight: readonly WeightChange[];
  /** Added to the bias, scaled by the strength alone. */
  readonly bias?: LoraTensor;
  /** The rows, [out], or columns, [in], of W + ΔW are scaled to these lengths. Source: Liu et al. 2024, "DoRA". */
  readonly magnitude?: { readonly lengths: LoraTensor; readonly over: "rows" | "columns" };
}

/** An embedding that a LoRA brings for the prompts with which it was trained. */
export interface LoraWord {
  /** What prompts call it. */
  readonly name: string;
  /** Vectors, [width] or [count, width], for the text encoders of their widths. */
  readonly vectors: readonly LoraTensor[];
}

export interface Lora {
  /** The naming it was recognised by, for reports: `kohya`, `PEFT`, … */
  readonly dialect: string;
  readonly changes: readonly ModuleChange[];
  /** Keys of the file that lead to no module of this model, as the file has them. */
  readonly unmatchedKeys: readonly string[];
  /** Of models whose prompts may name embeddings. */
  readonly words?: readonly LoraWord[];
  readonly byteLength: number;
  /** How many times shorter than those of the result the sides of control videos were that it was trained with, where it says so. */
  readonly referenceScale?: number;
}

/** One LoRA in use: how strongly, on which components, how it is brought in. */
export interface AppliedLora {
  /** Equal keys mean the same contents, so what was made of them can be kept. */
  readonly key: string;
  readonly lora: Lora;
  /** 0 leaves the model as it is, 1 is as trained. */
  readonly strength: number;
  readonly targets: readonly LoraComponent[];
  /** `dynamic`: a low-rank branch beside the layer; `merge`: written into the weights. */
  readonly mode: "dynamic" | "merge";
}
