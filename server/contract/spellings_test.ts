import { strict as assert } from "node:assert";
import {
  EDIT_SPELLINGS,
  inputName,
  unreadFiles,
  VIDEO_SPELLINGS,
  withInputNames,
} from "./spellings.ts";

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
