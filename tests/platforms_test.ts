/** Windows under Wine, and Linux on ARM64 under qemu, which are fetched once. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { SYSTEMS } from "../tools/test_platforms.ts";

const IS_SLOW = Deno.env.has("DENOISE_SLOW");

for (const [name, system] of Object.entries(SYSTEMS)) {
  const obstacle = IS_SLOW ? system.obstacle() : undefined;
  const title = `launcher, images and the tests of what touches the system run on ${name} (slow)`;
  Deno.test({
    name: obstacle === undefined ? title : `${title} (skipped: ${obstacle})`,
    ignore: !IS_SLOW || obstacle !== undefined,
    fn: async () => {
      const program = fileURLToPath(new URL("../tools/test_platforms.ts", import.meta.url));
      const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
        args: ["run", "-A", program, name],
        env: { NO_COLOR: "1" },
      }).output();
      const [printed, errors] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
      assert.equal(code, 0, printed!.slice(-4000) + errors!.slice(-2000));
    },
  });
}
