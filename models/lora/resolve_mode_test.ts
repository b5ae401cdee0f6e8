import assert from "node:assert/strict";
import { loraOf, randomTensor } from "../../tests/support/lora_reference.ts";
import { type ModeRequest, resolveModes } from "./resolve_mode.ts";
import type { AdaptableComponent, Lora, ModuleChange, WeightChange } from "./types.ts";

const SIZE = 16;

const TRANSFORMER: AdaptableComponent = {
  target: "transformer",
  family: "Wan",
  layouts: [],
  isResident: true,
  modules: ["a", "b", "quantised"].map((name) => ({
    name,
    shape: [SIZE, SIZE],
    hasBias: true,
    isQuantised: name === "quantised",
  })),
};

function lowRank(rank: number): WeightChange {
  const [down, up] = [randomTensor([rank, SIZE], 1), randomTensor([SIZE, rank], 2)];
  return { kind: "low-rank", scale: 1, down, up };
}

function loha(rank: number): WeightChange {
  const { down, up } = lowRank(rank) as WeightChange & { kind: "low-rank" };
  return { kind: "hadamard", scale: 1, down: [down, down], up: [up, up] };
}

const WHOLE: WeightChange = { kind: "whole", scale: 1, delta: randomTensor([SIZE, SIZE], 3) };

function changing(
  modules: Readonly<Record<string, WeightChange | Partial<ModuleChange>>>,
): Lora {
  return loraOf(
    ...Object.entries(modules).map(([module, change]): ModuleChange => ({
      target: "transformer",
      module,
      weight: [],
      ...("kind" in change ? { weight: [change] } : change),
    })),
  );
}

/** Modes of LoRAs, each followed by `: note` where there is one. */
function resolve(...uses: readonly [Lora, ModeRequest["mode"]][]): string[] {
  return resolveOn(TRANSFORMER, false, uses);
}

function resolveOn(
  component: AdaptableComponent,
  isStanding: boolean,
  uses: readonly [Lora, ModeRequest["mode"]][],
): string[] {
  const requests = uses.map(([lora, mode]) => ({
    lora,
    mode,
    targets: ["transformer" as const],
  }));
  return resolveModes(requests, [component], isStanding)
    .map(({ mode, note }) => (note ? `${mode}: ${note}` : mode));
}

Deno.test("resolveModes() leaves what can be done as asked, and merges by itself above rank 128 on a layer", () => {
  const small = changing({ a: lowRank(60), b: lowRank(64) });
  assert.deepEqual(resolve([small, "dynamic"], [small, "merge"]), ["dynamic", "merge"]);
  assert.deepEqual(resolve([small, "auto"], [small, "auto"]), ["dynamic", "dynamic"]);
  const more = changing({ b: lowRank(1) });
  const other = changing({ a: lowRank(8) });
  assert.deepEqual(
    resolve([small, "auto"], [small, "dynamic"], [more, "auto"], [other, "auto"]),
    ["merge", "dynamic", "merge", "dynamic"],
  );
  assert.deepEqual(
    resolve([small, "auto"], [small, "merge"], [more, "auto"]),
    ["dynamic", "merge", "dynamic"],
    "what is merged costs nothing",
  );
});

Deno.test("resolveModes() never merges into quantised layers, and says so", () => {
  const all = changing({ quantised: lowRank(200) });
  const some = changing({ a: lowRank(4), quantised: lowRank(4) });
  assert.deepEqual(resolve([all, "auto"]), ["dynamic"]);
  const [first, second] = resolve([all, "merge"], [some, "merge"]);
  assert.match(first!, /^dynamic: 1 of 1 layers are stored quantised/);
  assert.match(second!, /^merge: 1 of 2 layers are stored quantised/);
});

Deno.test("resolveModes() writes what has no low-rank form, and says so", () => {
  const magnitude = { lengths: randomTensor([SIZE], 4), over: "rows" as const };
  const dora = changing({ a: { weight: [lowRank(4)], magnitude } });
  const mixed = changing({ a: WHOLE, b: lowRank(4) });
  assert.deepEqual(resolve([dora, "auto"]), ["merge"]);
  const [first, second, third] = resolve([dora, "dynamic"], [mixed, "auto"], [mixed, "merge"]);
  assert.match(first!, /^merge: 1 of 1 layers are written into their weights/);
  assert.match(second!, /^dynamic: 1 of 2 layers are written into their weights/);
  assert.equal(third, "merge");
  assert.deepEqual(
    resolve([changing({ a: loha(8) }), "auto"]),
    ["dynamic"],
    "64 ranks are formed",
  );
  assert.deepEqual(resolve([changing({ a: loha(12) }), "auto"]), ["merge"], "144 are not");
});

Deno.test("resolveModes() passes over other targets, unknown layers and biases", () => {
  const elsewhere = changing({ a: lowRank(200) });
  const requests = [
    { lora: elsewhere, targets: ["text_encoder" as const], mode: "auto" as const },
    {
      lora: changing({ c: lowRank(200) }),
      targets: ["transformer" as const],
      mode: "auto" as const,
    },
    {
      lora: changing({ a: { bias: randomTensor([SIZE], 5) } }),
      targets: ["transformer" as const],
      mode: "merge" as const,
    },
  ];
  assert.deepEqual(resolveModes(requests, [TRANSFORMER]), [
    { mode: "dynamic" },
    { mode: "dynamic" },
    { mode: "merge" },
  ]);
});

Deno.test("resolveModes() merges those that stay, where weights are regular and resident", () => {
  const small = changing({ a: lowRank(4) });
  const both: [Lora, ModeRequest["mode"]][] = [[small, "auto"], [small, "dynamic"]];
  assert.deepEqual(resolveOn(TRANSFORMER, true, both), ["merge", "dynamic"]);
  assert.deepEqual(resolveOn(TRANSFORMER, false, both), ["dynamic", "dynamic"]);
  const streamed = { ...TRANSFORMER, isResident: false };
  assert.deepEqual(resolveOn(streamed, true, both), ["dynamic", "dynamic"]);
  const quantised = changing({ quantised: lowRank(4) });
  assert.deepEqual(resolveOn(TRANSFORMER, true, [[quantised, "auto"]]), ["dynamic"]);
  const partly = changing({ a: lowRank(4), quantised: lowRank(4) });
  const [mode] = resolveOn(TRANSFORMER, true, [[partly, "auto"]]);
  assert.match(mode!, /^merge: 1 of 2 layers are stored quantised/);
});
