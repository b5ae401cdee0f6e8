/**
 * The version of the program, from its manifest.
 *
 * @module
 */

import manifest from "../deno.json" with { type: "json" };

/** Such as `0.1.0`. */
export const version: string = manifest.version;
