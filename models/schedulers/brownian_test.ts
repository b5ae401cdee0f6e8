import assert from "node:assert/strict";
import { close } from "../../tests/support/scheduler_golden.ts";
import { BrownianPath } from "./brownian.ts";
import { createScheduler, type ScheduleOptions } from "./mod.ts";

const cases: readonly {
  readonly seed: string;
  readonly sigmas: readonly number[];
  readonly noise: readonly (readonly number[])[];
}[] = JSON.parse(
  Deno.readTextFileSync(new URL("../../tests/goldens/noise/brownian.json", import.meta.url)),
);

Deno.test("BrownianPath.noise() is that of torchsde's tree, to the last digits of float32", () => {
  for (const { seed, sigmas, noise } of cases) {
    const path = new BrownianPath(BigInt(seed), noise[0]!.length, sigmas);
    noise.forEach((expected, i) => {
      const actual = path.noise(sigmas[i]!, sigmas[i + 1]!);
      // Where two levels nearly coincide, the difference of float32 loses digits.
      const bound = sigmas[i]! - sigmas[i + 1]! < 1e-4 ? 1e-3 : 2e-6;
      expected.forEach((value, k) =>
        close(actual[k]!, value, bound, `seed ${seed}, step ${i}, element ${k}`)
      );
    });
  }
});

Deno.test("BrownianPath.noise() of a step is that of its parts", () => {
  const sigmas = [14, 5, 2, 0.1, 0];
  const parts = new BrownianPath(3, 4, sigmas);
  const [first, second] = [parts.noise(14, 5), parts.noise(5, 2)];
  new BrownianPath(3, 4, sigmas).noise(14, 2).forEach((whole, i) => {
    const sum = (first[i]! * Math.sqrt(9) + second[i]! * Math.sqrt(3)) / Math.sqrt(12);
    close(whole, sum, 1e-5, `element ${i}`);
  });
});

Deno.test("setTimesteps() takes a Brownian path where k-diffusion and ComfyUI do", () => {
  const scheduler = createScheduler({
    _class_name: "EulerDiscreteScheduler",
    ...{ beta_start: 0.00085, beta_end: 0.012, beta_schedule: "scaled_linear" },
  });
  const takes = (options: ScheduleOptions) => scheduler.setTimesteps(4, options).isBrownian;
  assert.ok(takes({ sampler: "dpmpp_sde" }));
  assert.ok(takes({ sampler: "dpmpp_2m_sde", scheduler: "karras" }));
  // As diffusers draws it.
  assert.ok(!takes({ sampler: "dpmpp_2m_sde" }));
  assert.ok(!takes({ sampler: "euler_ancestral", scheduler: "karras" }));
});
