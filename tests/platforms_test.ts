/** Windows under Wine, which is fetched once. */
import assert from "node:assert/strict";

Deno.test({
  name: "the launcher, an image and the tests of what touches the system run under Wine (slow)",
  ignore: !Deno.env.has("DENOISE_SLOW") || Deno.build.target !== "x86_64-unknown-linux-gnu",
  fn: async () => {
    const program = new URL("../tools/test_platforms.ts", import.meta.url).pathname;
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", program, "windows"],
      env: { NO_COLOR: "1" },
    }).output();
    const [printed, errors] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
    assert.equal(code, 0, printed!.slice(-4000) + errors!.slice(-2000));
  },
});
