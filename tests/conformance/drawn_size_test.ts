import assert from "node:assert/strict";
import { encodeImage } from "../../media/encode.ts";
import { decodeImage } from "../../media/decode.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { testService } from "../fakes/service.ts";
import { recipeIn } from "../support/recipe_in.ts";

/** A model that was made for small images, and is asked for large ones. */
const small = () =>
  testService({
    engine: new FakeEngine({
      info: {
        nativeSides: { least: 32, most: 48 },
        supportedTasks: ["T2V", "T2I", "TI2I"],
      },
    }),
  });

const IMAGE = { prompt: "a", size: "96x64", output_format: "png", response_format: "b64_json" };

Deno.test("POST /v1/images/generations says where it enlarges, in a header and the recipe", async () => {
  await using service = await small();
  const answer = await service.post("/v1/images/generations", IMAGE);
  assert.equal(answer.headers.get("x-drawn-at"), "48x32");
  const bytes = Uint8Array.fromBase64((await answer.json()).data[0].b64_json);
  const { width, height } = await decodeImage(bytes);
  assert.deepEqual([width, height], [96, 64]);
  const { size, drawn_at } = recipeIn(bytes);
  assert.deepEqual([size, drawn_at], ["96x64", "48x32"]);
});

Deno.test("POST /v1/images/generations says nothing where it does not enlarge", async () => {
  await using service = await small();
  const answer = await service.post("/v1/images/generations", { ...IMAGE, size: "48x48" });
  assert.equal(answer.headers.get("x-drawn-at"), null);
  const bytes = Uint8Array.fromBase64((await answer.json()).data[0].b64_json);
  assert.equal(recipeIn(bytes).drawn_at, undefined);
});

Deno.test("POST /v1/images/edits and /v1/videos say where they enlarge", async () => {
  await using service = await small();
  const image = { width: 16, height: 16, data: new Uint8Array(16 * 16 * 3) };
  const body = new FormData();
  body.set("prompt", "a");
  body.set("size", "128x128");
  body.set("image", new Blob([(await encodeImage(image, { format: "png" })).bytes]), "a.png");
  const edit = await service.get("/v1/images/edits", { method: "POST", body });
  assert.deepEqual([edit.status, edit.headers.get("x-drawn-at")], [200, "48x48"]);
  const video = await service.post("/v1/videos", { prompt: "a", size: "64x128" });
  assert.deepEqual([video.status, video.headers.get("x-drawn-at")], [200, "32x48"]);
});

Deno.test("GET /v1/models tells for which sides the model was made", async () => {
  await using service = await small();
  const { data } = await (await service.get("/v1/models")).json();
  assert.deepEqual(data[0].native_sides, { least: 32, most: 48 });
});
