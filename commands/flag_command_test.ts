import { strict as assert } from "node:assert";
import { normalizeArgs } from "./flag_command.ts";

Deno.test("normalizeArgs() takes underscores for dashes in names, never in values", () => {
  const args = ["serve", "--model_path", "a_b", "--output_path=c_d", "-x_y", "--", "__a"];
  assert.deepEqual(normalizeArgs(args), [
    "serve",
    "--model-path",
    "a_b",
    "--output-path=c_d",
    "-x_y",
    "--",
    "__a",
  ]);
});

Deno.test("normalizeArgs() knows the reference's other names", () => {
  assert.deepEqual(normalizeArgs(["--num_outputs_per_prompt", "2", "--output-file-path=a.png"]), [
    "--num-outputs",
    "2",
    "--output=a.png",
  ]);
});
