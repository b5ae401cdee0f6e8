/** The catalogue names models that the program has. */
import assert from "node:assert/strict";
import { CATALOGUE, CONTROLNETS, IP_ADAPTERS } from "../hub/catalogue.ts";
import { FAMILIES } from "../models/mod.ts";

Deno.test("every model, ControlNet and IP-Adapter of the catalogue is of a family that the program has", () => {
  const families = FAMILIES.map(({ lora }) => lora.transformer.family);
  for (const { name, family } of [...CATALOGUE, ...CONTROLNETS, ...IP_ADAPTERS]) {
    assert.ok(families.includes(family), name);
  }
});
