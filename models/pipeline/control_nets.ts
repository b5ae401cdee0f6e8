/** The ControlNets of a model, and other parts of which there may be several: which there are, and what users call them. */
import { CONTROLNET_PARTS } from "../../hub/model_index.ts";
import { type Component, componentName, sameSizes } from "./components.ts";
import type { ControlNetInfo } from "./types.ts";

/** Most control pictures of a request: each costs a pass of its ControlNet in every step. */
export const MAX_CONTROLS = 8;

type ControlNetPart = typeof CONTROLNET_PARTS[number];

/** The same for every ControlNet that a model may have. */
export function everyControlNet<Part>(part: Part): Readonly<Record<ControlNetPart, Part>> {
  return { controlnet: part, controlnet2: part, controlnet3: part, controlnet4: part };
}

/** Sizes that every ControlNet has in common with the transformer. */
export function controlNetSizes<const Key extends string>(
  keys: readonly Key[],
): [`${ControlNetPart}.${Key}`, `transformer.${Key}`][] {
  return CONTROLNET_PARTS.flatMap((part) => sameSizes(part, "transformer", keys));
}

/** ControlNets, or their configurations, in the order in which pictures go to them. */
export function controlNets<Net>(
  parts: { readonly [Part in ControlNetPart]: Net | undefined },
): Net[] {
  return CONTROLNET_PARTS.map((part) => parts[part]).filter((net) => net !== undefined);
}

/** ControlNets by the names of their files; generic names give way to those of the folder or the repository. */
export function controlNetInfos<Net extends Component>(
  nets: readonly (Net | undefined)[],
  modesOf: (net: Net) => readonly string[] | undefined = () => undefined,
): ControlNetInfo[] {
  const infos: ControlNetInfo[] = [];
  for (const net of nets) {
    if (net === undefined) continue;
    const [own, modes] = [componentName(net.path), modesOf(net)];
    const same = infos.filter(({ name }) => name === own || name.startsWith(`${own}-`)).length;
    infos.push({ name: same > 0 ? `${own}-${same + 1}` : own, ...(modes && { modes }) });
  }
  return infos;
}
