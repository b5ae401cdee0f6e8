/** Models as LoRAs see them, made up. */
import type {
  AdaptableComponent,
  AdaptableModule,
  LoraComponent,
} from "../../models/lora/types.ts";
import type { Layout } from "../../models/layouts.ts";

/** A model that is only names and shapes; every module has a bias. */
export function madeUpComponent(
  family: string,
  modules: Readonly<Record<string, readonly number[]>>,
  layouts: readonly Layout[] = [],
  target: LoraComponent = "transformer",
): AdaptableComponent {
  const all: AdaptableModule[] = Object.entries(modules).map(([name, shape]) => ({
    name,
    shape,
    hasBias: true,
    isQuantised: false,
  }));
  return { target, family, modules: all, layouts, isResident: true };
}
