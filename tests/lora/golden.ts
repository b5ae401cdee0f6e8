/** The goldens of LoRAs: their files, read as the reference read them. */
import { fileURLToPath } from "node:url";
import { viewLayout } from "../../models/checkpoints/layout_view.ts";
import { readLora } from "../../models/lora/read_lora.ts";
import type {
  AdaptableComponent,
  AppliedLora,
  Lora,
  WeightChange,
} from "../../models/lora/types.ts";
import { ORIGINAL_WAN } from "../../models/families/wan/layouts.ts";
import type { Layout } from "../../models/layouts.ts";
import { Checkpoint, decodeElements, encodeElements, Weights } from "../../runtime/mod.ts";
import { Golden, type GoldenCall } from "../support/golden.ts";
import { withDrawnWeights } from "../support/seeded_weights.ts";

/** See `tools/reference/lora.py`. */
export const LORA_GOLDEN = new Golden("lora");

/** Files of 16 bits whose factors diffusers multiplies with alpha / rank and rounds again. */
const ROUNDED: readonly string[] = ["kohya.safetensors", "comfyui-alpha.safetensors"];

interface Listed {
  readonly path: string;
  readonly strength: number;
}

/** The component that a call's LoRAs are for. */
export interface LoraBase extends Disposable {
  readonly target: "transformer" | "text_encoder";
  /** Under our names. */
  readonly weights: Weights;
  /** Other namings of its modules. */
  readonly layouts: readonly Layout[];
}

/** Opens the base of a call that names one. */
export function openLoraBase({ args }: GoldenCall): LoraBase {
  const name = args.base as string;
  const isText = name.endsWith("text_encoder");
  const isQuantised = name === "lora/quantised";
  const folder = withDrawnWeights(fileURLToPath(new URL(`../goldens/${name}`, import.meta.url)));
  const path = folder + (isQuantised ? "/wan-tiny-mixed.gguf" : "");
  const checkpoint = Checkpoint.open(path);
  return {
    target: isText ? "text_encoder" : "transformer",
    weights: new Weights(viewLayout(checkpoint, isQuantised ? ORIGINAL_WAN : undefined)),
    layouts: isText ? [] : [ORIGINAL_WAN],
    [Symbol.dispose]: () => checkpoint[Symbol.dispose](),
  };
}

/** A LoRA of a call. */
interface UsedLora {
  readonly path: string;
  readonly lora: Lora;
  readonly strength: number;
}

/** Reads the LoRAs of a call, in their order. */
export function readUsed(
  { args }: GoldenCall,
  components: readonly AdaptableComponent[],
): Promise<UsedLora[]> {
  return Promise.all((args.adapters as Listed[]).map(async ({ path, strength }) => {
    const lora = await readLora(fileOf(path), components);
    const isRounded = args.reference === "diffusers" && ROUNDED.includes(path);
    return { path, lora: isRounded ? withRoundedScales(lora) : lora, strength };
  }));
}

/** The LoRAs of a call as a request brings them, for all components that they change. */
export function appliedOf(
  used: readonly UsedLora[],
  mode: AppliedLora["mode"],
): AppliedLora[] {
  const targets = ["transformer", "text_encoder"] as const;
  return used.map(({ path, lora, strength }) => ({
    key: path,
    lora,
    strength,
    targets,
    mode,
  }));
}

/** How many LoRAs a call has. */
export function loraCount({ args }: GoldenCall): number {
  return (args.adapters as Listed[] | undefined)?.length ?? 0;
}

/** The file of a golden that may be a folder. */
function fileOf(path: string): string {
  const full = `${LORA_GOLDEN.folder}/${path}`;
  if (path.endsWith(".safetensors")) return full;
  if (path.startsWith("peft")) return `${full}/adapter_model.safetensors`;
  const name = path === "diffusers" ? "/pytorch_lora_weights.safetensors" : ".safetensors";
  return full + name;
}

/** The scale multiplied into the factor that it is multiplied into by diffusers, in the type of the file. */
function withRoundedScales(lora: Lora): Lora {
  const rounded = (part: WeightChange): WeightChange => {
    if (part.kind !== "low-rank") return part;
    const { dtype, shape } = part.down;
    const values = decodeElements(part.down.bytes, dtype).map((value) =>
      Math.fround(value * part.scale)
    );
    return { ...part, scale: 1, down: { dtype, shape, bytes: encodeElements(values, dtype) } };
  };
  const changes = lora.changes.map((each) => ({ ...each, weight: each.weight.map(rounded) }));
  return { ...lora, changes };
}
