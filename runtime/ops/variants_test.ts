import assert from "node:assert/strict";
import { BASELINE_TARGET, type Choice, type Target, type VariantTiming } from "../target.ts";
import { chooseVariant, explainChoice, type Variant } from "./variants.ts";

const variant = (name: string, schedule: "cpu" | "gpu", largest = Infinity): Variant<number> => ({
  name,
  schedule,
  supports: (size) => size <= largest,
});

const VARIANTS = [variant("plain", "cpu"), variant("wide", "gpu", 10), variant("tiles", "gpu")];

function choose(size: number, options: Partial<Target>): Choice {
  const heard: Choice[] = [];
  const target = {
    ...BASELINE_TARGET,
    ...options,
    onChoice: (choice: Choice) => heard.push(choice),
  };
  const { name } = chooseVariant("op", VARIANTS, size, target, "any size");
  assert.equal(heard[0]!.variant, name);
  return heard[0]!;
}

const measured = (...timings: [string, number][]) => ({
  op: {
    "any size": timings.map(([variant, microseconds]): VariantTiming => ({
      variant,
      microseconds,
    })),
  },
});

Deno.test("chooseVariant() takes the first of the target's class that fits where nothing was measured", () => {
  assert.equal(choose(5, {}).variant, "wide");
  assert.equal(choose(11, {}).variant, "tiles");
  assert.equal(choose(11, { schedule: "cpu" }).variant, "plain");
  assert.equal(choose(5, { choices: measured() }).variant, "wide");
  assert.equal(explainChoice(choose(5, {}), "gpu"), "rule for gpu adapters, raced on none yet");
});

Deno.test("chooseVariant() takes what was measured as the best of those that fit", () => {
  const choices = measured(["wide", 10], ["plain", 18], ["tiles", 20]);
  const small = choose(5, { choices, schedule: "cpu" });
  assert.equal(small.variant, "wide");
  assert.equal(explainChoice(small, "cpu"), "measured: 1.8× plain");
  const large = choose(11, { choices: measured(["tiles", 18], ["plain", 20]), schedule: "cpu" });
  assert.equal(large.variant, "tiles");
  assert.equal(explainChoice(large, "cpu"), "measured: 1.1× plain");
});

Deno.test("chooseVariant() keeps to its rule where another is hardly faster", () => {
  assert.equal(choose(5, { choices: measured(["tiles", 10], ["wide", 10.9]) }).variant, "wide");
  assert.equal(choose(5, { choices: measured(["tiles", 10], ["wide", 11.1]) }).variant, "tiles");
});

Deno.test("chooseVariant() takes no variant for software adapters on a GPU that has others, whatever was measured", () => {
  const choice = choose(11, { choices: measured(["plain", 1], ["tiles", 20]) });
  assert.deepEqual([choice.variant, choice.candidates], ["tiles", ["tiles"]]);
});

Deno.test("chooseVariant() keeps to its rule where what was measured is not there any more", () => {
  const choice = choose(5, { choices: measured(["removed", 1]) });
  assert.deepEqual([choice.variant, choice.reason], ["wide", "rule"]);
});

Deno.test("chooseVariant() prefers the forced variant to all others, and refuses one that does not fit", () => {
  const forcedVariants = { op: "plain" };
  const choice = choose(5, { forcedVariants, choices: measured(["wide", 1]) });
  assert.equal(choice.variant, "plain");
  assert.equal(explainChoice(choice, "gpu"), "forced");
  assert.throws(() => choose(11, { forcedVariants: { op: "wide" } }), /does not take the problem/);
  assert.throws(() => choose(5, { forcedVariants: { op: "absent" } }), RangeError);
});

Deno.test("chooseVariant() takes a spare variant where it is named, and offers it to no race", () => {
  const spare = { ...variant("spare", "cpu"), isSpare: true };
  const name = (options: Partial<Target>, candidates = ["plain", "wide", "tiles"]) => {
    const onChoice = (choice: Choice) => assert.deepEqual(choice.candidates, candidates);
    const target = { ...BASELINE_TARGET, schedule: "cpu", ...options, onChoice } as const;
    return chooseVariant("op", [spare, ...VARIANTS], 5, target, "any size").name;
  };
  const choices = measured(["spare", 1], ["plain", 2]);
  assert.equal(name({}), "plain");
  assert.equal(name({ choices }), "spare");
  assert.equal(name({ forcedVariants: { op: "spare" } }), "spare");
  assert.equal(name({ choices, schedule: "gpu" }, ["wide", "tiles"]), "wide");
});

Deno.test("chooseVariant() says when no variant takes the problem", () => {
  const none = [variant("wide", "gpu", 10)];
  assert.throws(
    () => chooseVariant("op", none, 11, BASELINE_TARGET, "any size"),
    /no variant takes/,
  );
});

Deno.test("explainChoice() tells a lone variant, lone survivors and variants on a par", () => {
  const choice: Choice = {
    op: "op",
    problemClass: "any size",
    variant: "wide",
    candidates: ["wide", "plain"],
    reason: "measured",
    timings: [{ variant: "wide", microseconds: 21 }, { variant: "plain", microseconds: 20 }],
  };
  assert.equal(explainChoice(choice, "gpu"), "measured: on a par with plain");
  const alone = { ...choice, timings: choice.timings.slice(0, 1) };
  assert.equal(explainChoice(alone, "gpu"), "measured: all others failed");
  const only: Choice = { ...choice, candidates: ["wide"], reason: "rule", timings: [] };
  assert.equal(explainChoice(only, "gpu"), "the only one that fits");
});
