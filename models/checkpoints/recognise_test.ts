import assert from "node:assert/strict";
import { memoryTensors } from "../../tests/support/memory_tensors.ts";
import type { ComponentFormat } from "./component_format.ts";
import { countLayers, countModules, shapeOf } from "./component_format.ts";
import { recognise } from "./recognise.ts";

const TRANSFORMER: ComponentFormat = {
  name: "a transformer",
  component: "transformer",
  className: "Transformer",
  namings: [
    {
      probes: ["blocks.0.q.weight", "head.weight"],
      layout: { name: "theirs", prefixes: [], entries: [{ theirs: "head", ours: ["proj_out"] }] },
    },
    { probes: ["proj_out.weight"] },
  ],
  fits: (tensors) => tensors.find("proj_out.weight")!.shape[0] === 4,
  config: () => ({}),
};

const VAE: ComponentFormat = {
  name: "an autoencoder",
  component: "vae",
  className: "Vae",
  namings: [{ probes: ["decoder.conv.weight"] }],
  config: () => ({}),
};

const FILE = { "x.blocks.0.q.weight": [1], "x.head.weight": [4], "vae.decoder.conv.weight": [1] };

Deno.test("recognise() finds every component of a file behind its prefix, under our names", () => {
  const found = recognise(memoryTensors(FILE), [TRANSFORMER, VAE]);
  assert.deepEqual(found.map(({ format }) => format.className), ["Transformer", "Vae"]);
  assert.deepEqual([...found[0]!.tensors.names], ["blocks.0.q.weight", "proj_out.weight"]);
  assert.deepEqual([...found[1]!.tensors.names], ["decoder.conv.weight"]);
});

Deno.test("recognise() wants all probes behind one prefix, whole names, and what the format asks for", () => {
  const namesOf = (tensors: Parameters<typeof memoryTensors>[0]) =>
    recognise(memoryTensors(tensors), [TRANSFORMER, VAE]).length;
  assert.equal(namesOf({ "a.blocks.0.q.weight": [1], "b.head.weight": [4] }), 0);
  assert.equal(namesOf({ "xblocks.0.q.weight": [1], "xhead.weight": [4] }), 0);
  assert.equal(namesOf({ "blocks.0.q.weight": [1], "head.weight": [5] }), 0);
  assert.equal(namesOf({ "proj_out.weight": [4] }), 1);
  assert.equal(namesOf({}), 0);
});

Deno.test("shapeOf() takes trailing ones and refuses another rank", () => {
  const tensors = memoryTensors({ a: [3, 2, 1, 1], b: [3] });
  assert.deepEqual(shapeOf(tensors, "a", 2), [3, 2]);
  assert.throws(() => shapeOf(tensors, "a", 1), /"a" has the shape \[3, 2, 1, 1\], 1 sizes/);
  assert.throws(() => shapeOf(tensors, "b", 2), SyntaxError);
  assert.throws(() => shapeOf(tensors, "c", 2), /it lacks "c"/);
});

Deno.test("countModules() counts numbered modules, and refuses holes", () => {
  const tensors = memoryTensors({
    "l.0.a": [1],
    "l.1.b": [1],
    "l.2x.b": [1],
    "n.0.a": [1],
    "n.2.a": [1],
  });
  assert.equal(countModules(tensors, "l."), 2);
  assert.equal(countModules(tensors, "m."), 0);
  assert.throws(
    () => countModules(tensors, "n."),
    /it lacks "n\.1"; it is incomplete or a part of/,
  );
});

Deno.test("countLayers() refuses a layer that lacks what others have, but for what the first alone has", () => {
  const tensors = memoryTensors({ "l.0.a": [1], "l.0.b": [1], "l.1.a": [1] });
  assert.equal(countLayers(tensors, "l.", "b"), 2);
  assert.throws(() => countLayers(tensors, "l."), /it lacks "l\.1\.b"; it is incomplete or a part/);
});
