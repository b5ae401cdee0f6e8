import { strict as assert } from "node:assert";
import { FakeEngine } from "../tests/fakes/engine.ts";
import { Model } from "./model.ts";

Deno.test("Model.generate() and generateVideo() show unfinished results as often as asked", async () => {
  const model = new Model(
    new FakeEngine({ info: { supportedTasks: ["T2I", "T2V"] } }),
  );
  for (const make of ["generate", "generateVideo"] as const) {
    for (const [previews, expected] of [[undefined, 3], [2, 2]] as const) {
      let shown = 0;
      await model[make]({
        ...{ prompt: "a", width: 48, height: 32 },
        ...(previews === undefined ? {} : { previews }),
        onPreview: ({ width, height }) => {
          assert.deepEqual([width, height], [48, 32]);
          shown++;
        },
      });
      assert.equal(shown, expected, make);
    }
  }
});
