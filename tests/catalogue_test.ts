/** The catalogue names models that the program has. */
import assert from "node:assert/strict";
import { CATALOGUE } from "../hub/catalogue.ts";
import { FLUX1 } from "../models/families/flux1/pipeline.ts";
import { FLUX2 } from "../models/families/flux2/pipeline.ts";
import { QWEN_IMAGE } from "../models/families/qwen_image/pipeline.ts";
import { WAN } from "../models/families/wan/pipeline.ts";
import { Z_IMAGE } from "../models/families/z_image/pipeline.ts";

Deno.test("every model of the catalogue is of a family that the program has", () => {
  const families = [WAN, Z_IMAGE, FLUX1, FLUX2, QWEN_IMAGE].map(({ lora }) =>
    lora.transformer.family
  );
  for (const { name, family } of CATALOGUE) assert.ok(families.includes(family), name);
});
