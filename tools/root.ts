/** The folder of the repository. */
export const ROOT: URL = new URL("../", import.meta.url);

/** The Deno that runs this; where another loader started it, the launcher tells where it is. */
export const DENO: string = Deno.env.get("DENOISE_DENO") ?? Deno.execPath();
