import { strict as assert } from "node:assert";
import { StageClock } from "./stage_clock.ts";

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
