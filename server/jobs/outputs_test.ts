import assert from "node:assert/strict";
import { OutputProgress, StageClock } from "./outputs.ts";

Deno.test("OutputProgress.update() counts steps and time of all outputs", () => {
  const progress = {
    stage: "denoise",
    step: 5,
    totalSteps: 10,
    fraction: 0.5,
    etaSeconds: 3,
  } as const;
  assert.deepEqual(new OutputProgress(1).update(progress, 0), {
    stage: "denoise",
    fraction: 0.5,
    step: 5,
    totalSteps: 10,
    etaSeconds: 3,
  });
  const four = new OutputProgress(4);
  four.update(progress, 0);
  four.end(0);
  assert.deepEqual(four.update(progress, 1), {
    stage: "denoise",
    fraction: 0.375,
    step: 15,
    totalSteps: 40,
    etaSeconds: 15,
  });
  const last = { stage: "decode", step: 10, totalSteps: 10, fraction: 1 } as const;
  assert.deepEqual(new OutputProgress(2).update(last, 0), {
    stage: "decode",
    fraction: 0.5,
    step: 10,
    totalSteps: 20,
  });
});

Deno.test("OutputProgress.update() adds up outputs that are made at once", () => {
  const all = new OutputProgress(4);
  const at = (fraction: number) =>
    ({ stage: "denoise", step: fraction * 8, totalSteps: 8, fraction, etaSeconds: 2 }) as const;
  all.update(at(0.25), 0);
  const { fraction, step, etaSeconds } = all.update(at(0.5), 1);
  assert.deepEqual([fraction, step, etaSeconds], [0.1875, 6, 6]);
  all.end(1);
  assert.equal(all.update(at(0.5), 0).fraction, 0.375);
});

Deno.test("StageClock adds up the time of each stage, and tells when one has ended", async () => {
  const told: string[] = [];
  const clock = new StageClock((stage, from, to) => {
    told.push(stage);
    assert.ok(from <= to && Math.abs(to - Date.now()) < 1000);
  });
  const pause = () => new Promise((resolve) => setTimeout(resolve, 5));
  for (const stage of ["encode", "denoise", "denoise", "decode", "denoise"] as const) {
    clock.enter(stage);
    await pause();
  }
  clock.enter();
  clock.enter();
  assert.equal(told.join(), "encode,denoise,decode,denoise");
  assert.equal(Object.keys(clock.seconds).join(), "encode,denoise,decode");
  assert.ok(clock.seconds.denoise! > 2 * 0.004, `${clock.seconds.denoise} s`);
});
