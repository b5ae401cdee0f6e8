import { strict as assert } from "node:assert";
import type { TaskType } from "../engine/types.ts";
import { acceptsImage, outputTypes, resolveTask, type TaskQuery } from "./task.ts";

interface Case {
  title: string;
  supported: TaskType[];
  query?: Partial<TaskQuery>;
  /** The task, or the text of the refusal. */
  expected: string;
}

const CASES: Case[] = [
  { title: "the only one of its output", supported: ["T2V", "T2I"], expected: "T2I" },
  {
    title: "the default among several",
    supported: ["TI2I", "I2I"],
    query: { hasImage: true },
    expected: "TI2I",
  },
  {
    title: "one of two that are the same without an image",
    supported: ["T2V", "TI2I", "T2I"],
    expected: "T2I",
  },
  {
    title: "text alone for a task that may have an image, and has none",
    supported: ["TI2I", "T2I"],
    query: { taskType: "TI2I" },
    expected: "T2I",
  },
  {
    title: "a task that may have an image, where there is none for text alone",
    supported: ["TI2I", "I2I"],
    expected: "TI2I",
  },
  {
    title: "the only compatible one beside a default that is not",
    supported: ["I2I", "T2I"],
    expected: "T2I",
  },
  {
    title: "one that takes the image",
    supported: ["T2I", "TI2I"],
    query: { hasImage: true },
    expected: "TI2I",
  },
  {
    title: "a name in any case",
    supported: ["T2V", "V2V"],
    query: { taskType: " v2v ", output: "VIDEO", hasVideo: true },
    expected: "V2V",
  },
  {
    title: "none of several for a video",
    supported: ["T2V", "V2V", "F2V"],
    query: { output: "VIDEO", hasVideo: true },
    expected: "Specify task_type for this request; compatible tasks: V2V, F2V, " +
      "supported tasks: T2V, V2V, F2V",
  },
  {
    title: "no unknown name",
    supported: ["T2I"],
    query: { taskType: "constructor" },
    expected: "Unknown task_type 'constructor'; choose from T2I",
  },
  {
    title: "no image that is missing",
    supported: ["I2V"],
    query: { output: "VIDEO", howToSend: { image: "'a' or 'b'" } },
    expected: "Cannot do I2V: it needs an input image, and there is none; send 'a' or 'b'",
  },
  {
    title: "no image that is too much",
    supported: ["T2I"],
    query: { hasImage: true },
    expected: "Cannot do T2I: it takes no input image; this model does T2I",
  },
  {
    title: "no video that is missing",
    supported: ["T2V", "V2V"],
    query: { taskType: "V2V", output: "VIDEO" },
    expected: "Cannot do V2V: it needs an input video, and there is none",
  },
  {
    title: "no video that is too much",
    supported: ["T2V", "V2V"],
    query: { taskType: "T2V", output: "VIDEO", hasVideo: true },
    expected: "Cannot do T2V: it takes no input video; this model does T2V, V2V",
  },
  {
    title: "no image where none of several takes one",
    supported: ["T2V", "V2V"],
    query: { output: "VIDEO", hasImage: true },
    expected: "Cannot do T2V: it takes no input image; this model does T2V, V2V",
  },
  {
    title: "no image beside a video where each task takes one of them",
    supported: ["T2V", "I2V", "V2V"],
    query: { output: "VIDEO", hasImage: true, hasVideo: true },
    expected:
      "Cannot use an image and a video together: no task of this model takes both; omit one",
  },
  {
    title: "no request without inputs where each task needs one",
    supported: ["I2V", "V2V"],
    query: { output: "VIDEO" },
    expected: "Cannot do I2V: it needs an input image, and there is none",
  },
  {
    title: "no other output",
    supported: ["T2I"],
    query: { output: "VIDEO" },
    expected: "Cannot make videos: this model makes images; ask for these",
  },
  {
    title: "no other output, in the reference's words over HTTP",
    supported: ["T2I"],
    query: { output: "VIDEO", howToSend: {} },
    expected: "This pipeline does not support VIDEO output; supported task types: T2I",
  },
  {
    title: "no task of another output",
    supported: ["T2I", "T2V"],
    query: { taskType: "T2V" },
    expected: "Cannot do T2V for images: it makes videos",
  },
  {
    title: "no task that the model lacks",
    supported: ["T2I", "T2V"],
    query: { taskType: "I2I" },
    expected: "Cannot do I2I: this model does T2I, T2V",
  },
];

for (const { title, supported, query, expected } of CASES) {
  Deno.test(`resolveTask() takes ${title}`, () => {
    const full: TaskQuery = { output: "IMAGE", hasImage: false, hasVideo: false, ...query };
    const model = { defaultTask: supported[0]!, supportedTasks: supported };
    let found: string;
    try {
      found = resolveTask(full, model);
    } catch (error) {
      assert.ok(error instanceof RangeError);
      found = error.message;
    }
    assert.equal(found, expected);
  });
}

Deno.test("outputTypes() names each output once, in the enumeration's order", () => {
  assert.deepEqual(outputTypes(["T2V", "I2V", "T2I"]), ["IMAGE", "VIDEO"]);
  assert.deepEqual(outputTypes(["VLA_ACTION", "I2M"]), ["MESH", "ACTION"]);
});

Deno.test("acceptsImage() is true for a model with a task that takes one", () => {
  assert.equal(acceptsImage(["T2I", "T2V"]), false);
  assert.equal(acceptsImage(["T2I", "TI2V"]), true);
});

Deno.test("resolveTask() wants an image and a video for V2V of a model that animates", () => {
  const model = { defaultTask: "V2V", supportedTasks: ["V2V"], animates: true } as const;
  const query = { output: "VIDEO", hasImage: true, hasVideo: true } as const;
  assert.equal(resolveTask(query, model), "V2V");
  assert.throws(() => resolveTask({ ...query, hasImage: false }, model), /it needs an input image/);
  assert.throws(() => resolveTask({ ...query, hasVideo: false }, model), /it needs an input video/);
});
