import assert from "node:assert/strict";
import type { RoomRequest } from "../engine/types.ts";
import { ROOM_SETTINGS } from "../models/pipeline/settings.ts";
import { SettingError } from "../models/setting_error.ts";
import { OutOfMemoryError } from "../runtime/errors.ts";
import { FakeEngine } from "../tests/fakes/engine.ts";
import { moveFiles, onlyRoom, roomIn, roomRequest } from "./requests.ts";

const REQUEST: RoomRequest = {
  ...{ taskType: "V2V", width: 64, height: 48, numFrames: 37, numInferenceSteps: 4 },
  ...{ guidanceScale: 3, clipLen: 9 },
};

Deno.test("roomRequest() keeps every setting on which memory depends, and counts inputs", () => {
  const image = {};
  const { prompt, images, ...room } = roomRequest({
    ...{ ...REQUEST, prompt: "a", images: [image, image], mask: image, control: [image] },
  }) as unknown as Record<string, unknown>;
  assert.equal(prompt, undefined);
  assert.equal(images, 2);
  assert.deepEqual(room, { ...REQUEST, hasMask: true, controls: 1, previews: 3 });
  for (const name of ROOM_SETTINGS) {
    assert.ok(name in onlyRoom({ ...REQUEST, [name]: 1 }), name);
  }
});

Deno.test("onlyRoom() makes requests of one size alike", () => {
  assert.deepEqual(onlyRoom({ ...REQUEST, images: 0, hasMask: false }), onlyRoom(REQUEST));
});

Deno.test("moveFiles() finds every file of a request", () => {
  const given = { field: "image", path: "a", contentType: "image/png" };
  const request = {
    ...{ prompt: "a", images: ["a"], visions: ["a"], references: ["a"], control: ["a"] },
    ...{ mask: "a", video: { path: "a", info: {} }, given: [given] },
  };
  assert.deepEqual(moveFiles(request, (path) => path + "b"), {
    ...{ prompt: "a", images: ["ab"], visions: ["ab"], references: ["ab"], control: ["ab"] },
    ...{ mask: "ab", video: { path: "ab", info: {} }, given: [{ ...given, path: "ab" }] },
  });
});

Deno.test("roomIn() says which setting an engine refuses, and how much memory is missing", async () => {
  const answer = (roomFailure: Error) => roomIn(new FakeEngine({ roomFailure }), REQUEST);
  assert.deepEqual(await answer(new SettingError("clipLen", "no")), {
    ...{ refusal: "no", setting: "clipLen" },
  });
  assert.deepEqual(await answer(new OutOfMemoryError("full\ntable", 9, 8)), {
    ...{ refusal: "full", needs: 9 },
  });
});
