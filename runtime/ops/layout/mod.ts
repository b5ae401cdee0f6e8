/** Moving elements without changing them. */
export { concat } from "./concat.ts";
export { permute } from "./permute.ts";
export { slice } from "./slice.ts";
