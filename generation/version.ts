/** The version of the program, from its manifest. */

import manifest from "../deno.json" with { type: "json" };

/** The version of denoise, such as `0.1.0`. */
export const version: string = manifest.version;
