/** Steps of preparing a request that images and videos share. */
import assert from "node:assert/strict";
import { FAKE_INFO } from "../tests/fakes/model_info.ts";
import { SETTING_FIELDS } from "./fields.ts";
import { httpNames } from "./field_values.ts";
import { checkRoom, type InputReader, prepareImages } from "./prepare.ts";
import type { Size } from "./size.ts";
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

Deno.test("prepareImages() gives a result without a size the shape of the first reference image, where the model says so", async () => {
  const reader: InputReader<{ source: Size; open: Size; kept: Size }> = {
    open: (source) => Promise.resolve(source),
    fit: (image) => Promise.resolve({ image, hasHoles: false }),
    mask: (image) => Promise.resolve(image),
  };
  const info = { ...FAKE_INFO, maxReferences: 2, isShapedByReferences: true };
  const wide = { width: 4 * info.sizeMultiple, height: 2 * info.sizeMultiple };
  const asked = { prompt: "a fox", given: {}, taskType: "T2I", images: [] };
  const sizeOf = async (references: readonly Size[], own = {}, rules = info) => {
    const { request } = await prepareImages({ ...asked, references, ...own }, {
      info: rules,
      reader,
    });
    assert.equal(request.references?.length, references.length || undefined);
    return [request.width, request.height];
  };
  const { width, height } = info.defaults;
  assert.deepEqual(await sizeOf([]), [width, height]);
  assert.deepEqual(await sizeOf([wide], {}, { ...info, isShapedByReferences: false }), [
    width,
    height,
  ]);
  assert.deepEqual(await sizeOf([wide], wide), [wide.width, wide.height]);
  assert.deepEqual(await sizeOf([wide, { width: 8, height: 800 }]), [80, 32]);
});
