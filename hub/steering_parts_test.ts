import assert from "node:assert/strict";
import { CONTROLNETS } from "./catalogue_parts.ts";
import { checkSteering, steeringFor, steeringPlaces, usualSteering } from "./steering_parts.ts";

Deno.test("usualSteering() opens FLUX.1 and Qwen-Image with several ControlNets, without the ControlNet for inpainting", () => {
  const usual = (family: string, name: string) => {
    const all = steeringFor({ family, name }, CONTROLNETS);
    return usualSteering(all, family).controlNets;
  };
  assert.equal(usual("FLUX.1", "flux.1-dev").length, 3);
  assert.deepEqual(usual("Qwen-Image", "qwen-image"), ["qwen-image-controlnet-union"]);
  const all = steeringFor({ family: "Qwen-Image", name: "qwen-image" }, CONTROLNETS);
  assert.throws(
    () => checkSteering(all, all, "Qwen-Image"),
    /Cannot use qwen-image-controlnet-inpainting beside other ControlNets: it sees an image and its mask/,
  );
  const alone = { ...all, controlNets: ["qwen-image-controlnet-inpainting"] };
  assert.deepEqual(usualSteering(alone, "Qwen-Image"), alone);
});

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
