/** The catalogue names models that the program has. */
import assert from "node:assert/strict";
import { CATALOGUE } from "../hub/catalogue.ts";
import { CATALOGUE_PARTS } from "../hub/catalogue_parts.ts";
import { loadFamilies } from "../models/mod.ts";

Deno.test("every model and part of the catalogue is of a family that the program has", async () => {
  const families = (await loadFamilies()).map(({ lora }) => lora.transformer.family);
  for (const { name, family } of CATALOGUE) assert.ok(families.includes(family), name);
  for (const { name, families: own } of CATALOGUE_PARTS) {
    for (const family of own) assert.ok(families.includes(family), name);
  }
});
