/** The ControlNets of a model, and other parts of which there may be several: which there are, and what users call them. */
import { CONTROLNET_PARTS } from "../../hub/model_index.ts";
import { type Component, componentName } from "./components.ts";
import type { ControlNetInfo } from "./types.ts";

/** Most control pictures of a request: each costs a pass of its ControlNet in every step. */
export const MAX_CONTROLS = 8;

/** ControlNets, or their configurations, in the order in which pictures go to them. */
export function controlNets<Net>(
  parts: { readonly [Part in typeof CONTROLNET_PARTS[number]]: Net | undefined },
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
