/** What to call the naming of a file, for reports. */
import type { ModuleTensors } from "./module_tensors.ts";

/** Dialects by how names begin; of several that fit, the first counts. */
const STYLES: readonly (readonly [pattern: RegExp, dialect: string])[] = [
  [/\.processor\.(qkv|proj)_lora\d?$/, "XLabs"],
  [/^lycoris_/, "LyCORIS"],
  [/^lora_(unet|transformer|te\d?)_/, "kohya"],
  [/^base_model\.model\./, "PEFT"],
  [/^((model\.)?diffusion_model|text_encoders)\./, "ComfyUI"],
  [/^(transformer|transformer_2|unet|text_encoder)\./, "diffusers"],
];

interface NamedModule {
  readonly module: ModuleTensors;
  readonly naming: string;
}

/** The dialect of most modules, and what else than LoRA they hold: `kohya (LoHa)`. */
export function dialectOf(modules: readonly NamedModule[]): string {
  const counts = new Map<string, number>();
  const methods = new Set<string>();
  for (const { module: { name, parts }, naming } of modules) {
    const style = STYLES.find(([pattern]) => pattern.test(name))?.[1] ?? naming;
    counts.set(style, (counts.get(style) ?? 0) + 1);
    for (const part of parts.keys()) {
      if (part.startsWith("hada_")) methods.add("LoHa");
      if (part.startsWith("lokr_")) methods.add("LoKr");
      if (part === "dora_scale" || part === "magnitude") methods.add("DoRA");
      if (part === "diff") methods.add("differences");
    }
  }
  const [dialect = "unknown"] = [...counts].sort(([, a], [, b]) => b - a).map(([name]) => name);
  return methods.size > 0 ? `${dialect} (${[...methods].join(", ")})` : dialect;
}
