/** Brings Dawn into Deno's cache of packages. */

import { DAWN_VERSION, findDawn } from "../../runtime/device/backends/dawn_package.ts";
import { NoAdapterError } from "../../runtime/errors.ts";
import { DENO } from "../root.ts";

/** The path of Dawn's addon, fetched where it is not on this machine yet. */
export async function fetchDawn(): Promise<string> {
  try {
    return findDawn();
  } catch (error) {
    if (!(error instanceof NoAdapterError) || Deno.env.has("DENOISE_DAWN")) throw error;
    console.error(`Fetching Dawn ${DAWN_VERSION} from npm into Deno's cache, once`);
    await new Deno.Command(DENO, {
      args: ["cache", "--no-config", "--no-lock", `npm:webgpu@${DAWN_VERSION}`],
      stdin: "null",
    }).spawn().status;
    return findDawn();
  }
}
