import assert from "node:assert/strict";
import { FAKE_INFO } from "../tests/fakes/model_info.ts";
import { httpNames, type SettingField } from "./field_values.ts";
import { REQUEST_FIELDS, SETTING_FIELDS } from "./fields.ts";
import { completeSettings, FieldError, settingsOf } from "./settings.ts";

const INFO = {
  ...FAKE_INFO,
  optionalSettings: ["guidanceLimit", "guidanceEnd", "flowShift", "maxSequenceLength"] as const,
  taskDefaults: { V2V: { strength: 0.8, guidanceScale: 2 } },
};

Deno.test("completeSettings() fills in what the model has for the task", () => {
  assert.deepEqual(completeSettings({}, "T2V", INFO).settings, {
    negativePrompt: "",
    numInferenceSteps: 4,
    guidanceScale: 3.5,
  });
  assert.equal(completeSettings({ strength: null }, "V2V", INFO).settings.guidanceScale, 2);
});

Deno.test("completeSettings() keeps what is given, and names what this model does not take", () => {
  const given = { flowShift: 3, maxSequenceLength: 64, trueCfgScale: 4, strength: 0.5 };
  const { settings, idle } = completeSettings(given, "T2V", INFO);
  assert.equal(settings.flowShift, 3);
  assert.equal(settings.maxSequenceLength, 64);
  assert.deepEqual([...idle.keys()], ["trueCfgScale", "strength"]);
  assert.equal("trueCfgScale" in settings, false);
  assert.equal(completeSettings(given, "V2V", INFO).settings.strength, 0.5);
});

Deno.test("completeSettings() refuses what no model takes, by the name of the caller", () => {
  const bad = [
    ["numInferenceSteps", 0, /must be positive/],
    ["numInferenceSteps", 51, /at most 50, got 51/],
    ["guidanceScale", -1, /must be non-negative/],
    ["guidanceScale", Infinity, /must be finite, got Infinity/],
    ["guidanceEnd", 2, /from 0 to 1, got 2/],
    ["guidanceLimit", 0, /above 0, got 0/],
    ["flowShift", 0, /from 0.001 to 1000, got 0/],
    ["maxSequenceLength", 513, /from 1 to 512, got 513/],
    ["maxSequenceLength", 1.5, /an integer, got 1.5/],
    ["strength", 1.1, /above 0 and at most 1/],
    ["quality", "best", /one of exact, lossless, high, got best/],
  ] as const;
  for (const [name, value, message] of bad) {
    const complete = () =>
      completeSettings({ [name]: value }, "V2V", INFO, (field) => `the ${field}`);
    assert.throws(complete, (error) => {
      assert.ok(error instanceof FieldError);
      assert.equal(error.field, name);
      assert.match(error.message, message);
      return true;
    });
  }
  assert.throws(
    () => completeSettings({ numInferenceSteps: 0 }, "V2V", INFO, () => "--steps"),
    /^FieldError: --steps must be positive/,
  );
});

Deno.test("completeSettings() samples as a model was distilled, and by lcm at other sigmas", () => {
  const optionalSettings = ["sampler", "scheduler", "sigmas"] as const;
  const defaults = { ...INFO.defaults, sampler: "dmd", numInferenceSteps: 3 } as const;
  const samplerOf = (given: Parameters<typeof completeSettings>[0]) =>
    completeSettings(given, "T2V", { ...INFO, defaults, optionalSettings }).settings.sampler;
  assert.equal(samplerOf({}), "dmd");
  assert.equal(samplerOf({ numInferenceSteps: 3 }), "dmd");
  assert.equal(samplerOf({ numInferenceSteps: 4 }), "lcm");
  assert.equal(samplerOf({ sigmas: [1, 0.5] }), "lcm");
  assert.equal(samplerOf({ scheduler: "simple" }), "lcm");
  assert.equal(samplerOf({ sampler: "euler" }), "euler");
  const pndm = { ...INFO, defaults: { ...defaults, sampler: "pndm" }, optionalSettings } as const;
  const nearest = { numInferenceSteps: 20, scheduler: "karras" } as const;
  assert.equal(completeSettings(nearest, "T2V", pndm).settings.sampler, "lms");
});

Deno.test("completeSettings() takes one value for a list of one, as forms give it", () => {
  const { settings } = completeSettings({ stgBlocks: 7, skipGuidanceLayers: 9 }, "T2V", {
    ...INFO,
    optionalSettings: ["stgBlocks", "skipGuidanceLayers", "maxSequenceLength"],
  });
  assert.deepEqual([settings.stgBlocks, settings.skipGuidanceLayers], [[7], [9]]);
});

Deno.test("completeSettings() takes the number of steps from sigmas and from dmd", () => {
  const info = {
    ...INFO,
    optionalSettings: ["sampler", "scheduler", "sigmas", "maxSequenceLength"] as const,
  };
  const steps = (given: Parameters<typeof completeSettings>[0]) =>
    completeSettings(given, "T2V", info).settings.numInferenceSteps;
  assert.equal(steps({ sampler: "heun", scheduler: "karras" }), 4);
  assert.equal(steps({ sigmas: [1, 0.5] }), 2);
  assert.equal(steps({ sigmas: 1 }), 1);
  assert.equal(steps({ sampler: "dmd" }), 3);
  const bad = [
    [{ sampler: "pndm" }, /^sampler must be one of euler, .*, dmd, got pndm/],
    [{ scheduler: "linear" }, /^scheduler must be one of normal, .*, got linear/],
    [{ scheduler: "karras", sigmas: [1] }, /^scheduler spaces the sigmas, and sigmas gives/],
    [{ sampler: "dmd", sigmas: [1, 0.7, 0.5] }, /^sampler dmd has .* omit sigmas/],
    [{ sampler: "dmd", scheduler: "beta" }, /^sampler dmd has .* omit scheduler/],
    [{ sampler: "dmd", numInferenceSteps: 4 }, /must be 3, as many as sampler dmd has, got 4/],
    [{ sigmas: [1, 0.5], numInferenceSteps: 4 }, /must be 2, as many as sigmas has, got 4/],
    [{ sigmas: [] }, /^sigmas must be a list of numbers/],
    [{ sigmas: [1.5] }, /^sigmas must descend from 1 at most to above 0, got 1.5$/],
    [{ sigmas: [1, 0.5, 0.5] }, /above 0, got 0.5 after 0.5/],
    [{ sigmas: [0.5, 0] }, /above 0, got 0 after 0.5/],
    [{ sigmas: [1, NaN] }, /above 0, got NaN after 1/],
  ] as const;
  for (const [given, message] of bad) {
    const asked = given as Parameters<typeof completeSettings>[0];
    assert.throws(() => completeSettings(asked, "T2V", info), { name: "FieldError", message });
  }
});

Deno.test("settingsOf() leaves out everything that is no setting", () => {
  const request = { negativePrompt: "", numInferenceSteps: 4, guidanceScale: 1, prompt: "a" };
  assert.deepEqual(Object.keys(settingsOf(request)), [
    "negativePrompt",
    "numInferenceSteps",
    "guidanceScale",
  ]);
});

Deno.test("no two fields share a name over HTTP", () => {
  const names = Object.entries({ ...REQUEST_FIELDS, ...SETTING_FIELDS })
    .flatMap(([name, field]) => httpNames(name, field));
  assert.equal(new Set(names).size, names.length);
});

Deno.test("SETTING_FIELDS have the bounds that their checks keep", () => {
  for (const [name, row] of Object.entries(SETTING_FIELDS)) {
    const { bounds, check, kind } = row as SettingField<unknown>;
    const [least, most] = bounds?.(INFO) ?? [];
    if (least === undefined || most === undefined) continue;
    const passes = (value: number) => {
      try {
        check(kind === "numbers" ? [value] : value, name, INFO, {});
        return true;
      } catch {
        return false;
      }
    };
    // Strength is above its least value.
    assert.ok(passes(least) || passes(least + 0.01), `${name} ${least}`);
    assert.ok(!passes(least - 1), `${name} below ${least}`);
    if (most === Infinity) continue;
    assert.ok(passes(most) && !passes(most + 1), `${name} ${most}`);
  }
});

Deno.test("completeSettings() says which sampler and spacing run where none is asked for", () => {
  const info = {
    ...INFO,
    defaults: { ...INFO.defaults, sampler: "euler", scheduler: "beta" },
    optionalSettings: ["sampler", "scheduler", "sigmas"],
  } as const;
  const complete = (given: Parameters<typeof completeSettings>[0]) => {
    const { sampler, scheduler } = completeSettings(given, "T2I", info).settings;
    return [sampler, scheduler];
  };
  assert.deepEqual(complete({}), ["euler", "beta"]);
  assert.deepEqual(complete({ sampler: "heun" }), ["heun", "beta"]);
  assert.deepEqual(complete({ sigmas: [1, 0.5] }), ["euler", undefined]);
  assert.deepEqual(complete({ sampler: "dmd" }), ["dmd", undefined]);
});

Deno.test("completeSettings() rescales guidance as the model does where a request says nothing", () => {
  const optionalSettings = ["guidanceRescale"] as const;
  const own = { ...INFO, defaults: { ...INFO.defaults, guidanceRescale: 1 }, optionalSettings };
  const rescaleOf = (given: Parameters<typeof completeSettings>[0], info = own) =>
    completeSettings(given, "T2V", info).settings.guidanceRescale;
  assert.equal(rescaleOf({}), 1);
  assert.equal(rescaleOf({ guidanceRescale: 0 }), 0);
  assert.equal(
    completeSettings({}, "T2V", { ...INFO, optionalSettings }).settings.guidanceRescale,
    undefined,
  );
});
