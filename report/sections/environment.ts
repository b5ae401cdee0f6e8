/** What the adapter says of itself, and how much memory it gives. */

import { hostMemory } from "../../platform/mod.ts";
import { measureMemory } from "../../runtime/mod.ts";
import { vendorName } from "../vendor.ts";
import type { SectionContext } from "./section.ts";

/** Most memory that is asked for: more no card of these days has. */
const MAX_BYTES = 2 ** 38;

export async function readEnvironment(
  { device, begin, found }: SectionContext<"environment">,
): Promise<boolean> {
  const { adapter, target: { features, limits, dialect } } = device;
  const own = {
    adapter: adapter.name,
    vendor: vendorName(adapter.vendor),
    driver: adapter.driver,
    isSoftware: adapter.isSoftware,
    dialect,
    features,
    limits,
  };
  found({ ...own, allocatable: { bytes: 0, isAll: false } });
  begin("allocating memory until there is no more");
  const memory = hostMemory().total;
  // Where memory is the machine's own, it seems to have no end.
  const most = adapter.isSoftware ? memory : Math.min(MAX_BYTES, 4 * memory);
  const wanted = Math.min(most, device.availableBytes);
  const bytes = await measureMemory(device, wanted);
  found({ ...own, allocatable: { bytes, isAll: bytes < wanted } });
  return true;
}
