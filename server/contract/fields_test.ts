import { strict as assert } from "node:assert";
import {
  EDIT_SPELLINGS,
  flattenExtras,
  headerOfNames,
  ignoredFields,
  inputName,
  nearestName,
  unreadFiles,
  VIDEO_SPELLINGS,
  withInputNames,
} from "./fields.ts";

Deno.test("flattenExtras() lifts members and lets the body win, also over null", () => {
  const body = { a: 1, b: null, extra_body: { a: 2, b: 2, c: 2 }, extra_json: '{"c":3,"d":3}' };
  assert.deepEqual(flattenExtras(body), { a: 1, b: null, c: 2, d: 3 });
});

Deno.test("flattenExtras() keeps nothing that would become a prototype", () => {
  const flat = flattenExtras(
    JSON.parse('{"__proto__":{"n":1},"extra_body":{"__proto__":{"m":1}}}'),
  );
  assert.deepEqual(Object.keys(flat), []);
  assert.equal((flat as { n?: unknown }).n, undefined);
});

Deno.test("flattenExtras() refuses what is not an object", () => {
  for (const extra_body of ["{", "1", 1, [1], true]) {
    assert.throws(() => flattenExtras({ extra_body }), { name: "ApiError" });
  }
});

Deno.test("ignoredFields() names unknown fields and idle ones, not null and not neutral", () => {
  const table = { known: ["a", "idle"], withoutEffect: new Map([["idle", false]]) };
  assert.deepEqual(ignoredFields({ a: 1, idle: true, x: 1 }, table), ["idle", "x"]);
  assert.deepEqual(ignoredFields({ a: 1, idle: false, x: null }, table), []);
});

Deno.test("headerOfNames() makes a header of any names and bounds it", () => {
  assert.equal(headerOfNames(["a", "b[c]", "d e", "ü"]), "a, b[c], d%20e, %C3%BC");
  const many = headerOfNames(Array.from({ length: 1000 }, (_, i) => `${"\ud800".repeat(50)}${i}`));
  assert.ok(many.length <= 1024);
  new Headers({ "x-ignored-fields": many });
});

Deno.test("nearestName() finds the name with the fewest edits", () => {
  const known = ["prompt", "seed", "num_inference_steps", "guidance_scale"];
  assert.equal(nearestName("steps", ["seed", "num_inference_steps", "stop"]), "stop");
  assert.equal(nearestName("Guidance_Scal", known), "guidance_scale");
  assert.equal(nearestName("promt", known), "prompt");
  assert.equal(nearestName("x".repeat(10_000), ["a"]), "a");
});

Deno.test("inputName() knows the spellings of lists and the names of other servers", () => {
  for (const name of ["image", "image[]", "image[0]", "image[12]", "images", "images[]"]) {
    assert.equal(inputName(name, EDIT_SPELLINGS), "image", name);
    assert.equal(inputName(name, VIDEO_SPELLINGS), "input_reference", name);
  }
  assert.equal(inputName("last_frame", VIDEO_SPELLINGS), "last_image");
  assert.equal(inputName("mask_image", EDIT_SPELLINGS), "mask");
  for (
    const name of ["prompt", "input_reference[image_url]", "image[a]", "my_image", "__proto__"]
  ) {
    assert.equal(inputName(name, VIDEO_SPELLINGS), name);
  }
});

Deno.test("withInputNames() joins what comes under several names of one input", () => {
  const body = { prompt: "a", image: "x", "image[]": ["y", "z"], images: "", "url[]": "w" };
  assert.deepEqual(withInputNames<unknown>(body, EDIT_SPELLINGS), {
    prompt: "a",
    image: ["x", "y", "z"],
    url: "w",
  });
});

Deno.test("unreadFiles() names fields whose files nobody reads, each once", () => {
  const files = ["image", "foo", "foo", "prompt"].map((field) => ({ field }));
  assert.deepEqual(unreadFiles(files, EDIT_SPELLINGS), {
    fields: { foo: "a file", prompt: "a file" },
    idle: { foo: true, prompt: true },
  });
});
