/** The catalogue names models that the program has. */
import assert from "node:assert/strict";
import { CATALOGUE, CONTROLNETS } from "../hub/catalogue.ts";
import { FAMILIES } from "../models/mod.ts";

Deno.test("every model and ControlNet of the catalogue is of a family that the program has", () => {
  const families = FAMILIES.map(({ lora }) => lora.transformer.family);
  for (const { name, family } of [...CATALOGUE, ...CONTROLNETS]) {
    assert.ok(families.includes(family), name);
  }
});
