/** The parts of a model that LoRAs can change. */
import { AdaptedComponent } from "../lora/adapted_component.ts";
import type { AdaptableComponent } from "../lora/types.ts";
import type { Component, Parts } from "./components.ts";
import type { Family } from "./family.ts";

/** The parts that LoRAs can change; LoRAs for the `critic` are checked and change nothing. */
export function adaptedParts(
  { transformer, transformer2, textEncoder, textEncoder2, fakeScoreTransformer }: Parts,
  lora: Family["lora"],
): { readonly adapted: AdaptedComponent[]; readonly critic: AdaptedComponent | undefined } {
  type Names = Pick<AdaptableComponent, "family" | "layouts">;
  const adapt = (part: Component | undefined, target: AdaptableComponent["target"], names: Names) =>
    part && new AdaptedComponent(part.weights, { target, ...names });
  const text = { family: lora.textEncoder, layouts: lora.textEncoderLayouts ?? [] };
  const text2 = { family: lora.textEncoder2 ?? lora.textEncoder, layouts: [] };
  return {
    adapted: [
      adapt(transformer, "transformer", lora.transformer),
      adapt(transformer2, "transformer_2", lora.transformer),
      adapt(textEncoder, "text_encoder", text),
      adapt(textEncoder2, "text_encoder_2", text2),
    ].filter((part) => part !== undefined),
    critic: adapt(fakeScoreTransformer, "critic", lora.transformer),
  };
}
