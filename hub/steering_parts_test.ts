import assert from "node:assert/strict";
import { steeringPlaces } from "./steering_parts.ts";

Deno.test("steeringPlaces() refuses a part that is gone, which nobody may fetch then, and leaves the rest alone", async () => {
  const cacheFolder = await Deno.makeTempDir();
  try {
    await assert.rejects(
      steeringPlaces({ controlNet: "sdxl-controlnet-canny" }, cacheFolder),
      /Cannot open the model with sdxl-controlnet-canny: it was deleted$/,
    );
    const rest = { steersWhenAsked: true, controlNet: "/models/own.safetensors" };
    assert.deepEqual(await steeringPlaces(rest, cacheFolder), rest);
  } finally {
    await Deno.remove(cacheFolder, { recursive: true });
  }
});
