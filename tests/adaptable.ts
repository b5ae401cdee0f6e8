/**
 * Models as adapters see them, from checkpoints and made up.
 *
 * @module
 */
import type {
  AdaptableComponent,
  AdaptableModule,
  AdapterTarget,
} from "../models/adapters/types.ts";
import { type Layout, toOurs } from "../models/layouts.ts";
import type { Checkpoint } from "../runtime/mod.ts";

/** All weights of a checkpoint, by our names, as modules. */
export function componentOf(
  checkpoint: Checkpoint,
  target: AdapterTarget,
  layouts: readonly Layout[] = [],
): AdaptableComponent {
  const names = [...checkpoint.names];
  const modules = names.filter((name) => !name.endsWith(".bias")).map((name) => {
    const { shape, format } = checkpoint.find(name)!;
    const module = name.replace(/\.weight$/, "");
    return {
      name: ourName(module, layouts),
      shape,
      hasBias: names.includes(`${module}.bias`),
      isQuantised: !["F32", "F16", "BF16"].includes(format),
    };
  });
  return { target, family: "Wan", modules, layouts };
}

/** What we call a module of a checkpoint that may have another layout. */
export function ourName(module: string, layouts: readonly Layout[]): string {
  for (const layout of layouts) {
    const parts = toOurs(layout, module, 1);
    if (parts?.length === 1) return parts[0]!.name;
  }
  return module;
}

/** A model that is only names and shapes; every module has a bias. */
export function madeUpComponent(
  family: string,
  modules: Readonly<Record<string, readonly number[]>>,
  layouts: readonly Layout[] = [],
  target: AdapterTarget = "transformer",
): AdaptableComponent {
  const all: AdaptableModule[] = Object.entries(modules).map(([name, shape]) => ({
    name,
    shape,
    hasBias: true,
    isQuantised: false,
  }));
  return { target, family, modules: all, layouts };
}
