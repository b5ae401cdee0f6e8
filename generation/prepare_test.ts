/** Steps of preparing a request that images and videos share. */
import assert from "node:assert/strict";
import { SETTING_FIELDS } from "./fields.ts";
import { httpNames } from "./field_values.ts";
import { checkRoom } from "./prepare.ts";
import { FieldError } from "./settings.ts";

const ROOM = { numInferenceSteps: 2, guidanceScale: 1, taskType: "T2V", images: 0 } as const;

Deno.test("checkRoom() calls settings in what the engine refuses as clients write them", async () => {
  const refusal = new RangeError("Cannot use stgBlocks with block 7: the model has blocks 0 to 1");
  const check = (error: Error, by = {}) =>
    checkRoom({ ...ROOM, width: 64, height: 64, numFrames: 9 }, {}, {
      checkRoom: () => Promise.reject(error),
      ...by,
    }).then(() => assert.fail("nothing was refused"), (error) => error);
  const spell = (name: keyof typeof SETTING_FIELDS) => httpNames(name, SETTING_FIELDS[name])[0]!;
  const spelled = await check(refusal, { spell });
  assert.ok(spelled instanceof FieldError);
  assert.deepEqual([spelled.field, spelled.cause], ["size", refusal]);
  assert.match(spelled.message, /^Cannot use stg_blocks with block 7:/);
  assert.match((await check(refusal)).message, /^Cannot use stgBlocks with block 7:/);
  const other = new Error("the device is gone");
  assert.equal(await check(other, { spell }), other);
});
