/** Adapters that have no f16 in shaders: Mesa's software driver is one where its processor lacks the instructions for it. */
import assert from "node:assert/strict";

/** What this driver believes of its processor. */
const USUAL = { DENOISE_CACHE: "off", DENOISE_GPU_BACKEND: "deno", NO_COLOR: "1" };
const OLD_PROCESSOR = { ...USUAL, GALLIUM_OVERRIDE_CPU_CAPS: "sse4.1" };

const adapter = await navigator.gpu?.requestAdapter();
const ignore = Deno.build.arch !== "x86_64" || !adapter?.info.description.includes("llvmpipe");
const reason = ignore ? ": needs Mesa's software driver on x86-64" : "";

async function onOldProcessor(args: string[], env: Record<string, string> = OLD_PROCESSOR) {
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", ...args],
    env,
  }).output();
  const [printed, errors] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  assert.equal(code, 0, errors);
  return printed!;
}

Deno.test({
  name:
    `halves and quantised blocks are read and written to the bit without f16 in shaders${reason}`,
  ignore,
  async fn() {
    const program = new URL("support/without_f16.ts", import.meta.url).pathname;
    assert.match(await onOldProcessor([program]), /^\d+ cases$/m);
  },
});

Deno.test({
  name:
    `the bundled model draws the same picture without f16 in shaders, and doctor passes; DENOISE_SLOW${reason}`,
  ignore: ignore || !Deno.env.has("DENOISE_SLOW"),
  async fn() {
    const folder = await Deno.makeTempDir();
    const program = new URL("../cli.ts", import.meta.url).pathname;
    const draw = (output: string, env?: Record<string, string>) =>
      onOldProcessor(
        [program, "generate", "--prompt", "a red heart", "--seed", "3", "--output", output],
        env,
      );
    try {
      await draw(`${folder}/old.png`);
      await draw(`${folder}/usual.png`, USUAL);
      assert.deepEqual(
        await Deno.readFile(`${folder}/old.png`),
        await Deno.readFile(`${folder}/usual.png`),
      );
      assert.doesNotMatch(await onOldProcessor([program, "doctor"]), /FAILED/);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});
