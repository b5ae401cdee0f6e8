/** The ops on other drivers than this machine's, which are fetched once. */
import assert from "node:assert/strict";
import { DRIVERS } from "../tools/drivers/mod.ts";

const IS_SLOW = Deno.env.has("DENOISE_SLOW");
/** Tests of ops that every driver can run, at least. */
const LEAST = 25;

for (const name of Object.keys(DRIVERS)) {
  Deno.test({
    name:
      `every op equals its reference on ${name}, and repeats itself 100 times to the bit (slow)`,
    ignore: !IS_SLOW || Deno.build.target !== "x86_64-unknown-linux-gnu",
    fn: async () => {
      const program = new URL("../tools/test_drivers.ts", import.meta.url).pathname;
      // Every case on every variant takes a software driver hours.
      const { DENOISE_SLOW: _, ...env } = Deno.env.toObject();
      const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
        args: ["run", "-A", program, name],
        clearEnv: true,
        env: { ...env, NO_COLOR: "1" },
      }).output();
      const [printed, errors] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
      assert.equal(code, 0, printed!.slice(-2000) + errors!.slice(-2000));
      const passed = Number(/^ok \| (\d+) passed/m.exec(printed!)?.[1]);
      assert.ok(passed >= LEAST, `${passed} passed`);
    },
  });
}
