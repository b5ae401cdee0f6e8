/** What runs the tests for another system, `wine` or `qemu`; nothing where the system is this machine's own. */
export const EMULATOR: string | undefined = Deno.env.get("DENOISE_EMULATOR");
