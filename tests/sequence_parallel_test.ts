/** Tokens of a pass, or its layers, on several GPUs: what comes out is what one GPU makes, to rounding. */
import assert from "node:assert/strict";
import type { PipelineRequest, Ranks } from "../models/mod.ts";
import type { SharedTeam } from "../runtime/mod.ts";
import { Golden } from "./golden.ts";
import { REQUEST } from "./pipeline_fixture.ts";
import { psnr } from "./pixels.ts";
import { generateAlone, withTeam } from "./ranks.ts";

const isSlow = Deno.env.has("DENOISE_SLOW");
const MIN_PSNR = 60;

/** 2 times 9 tokens, and 6, so that four GPUs have unequal shares. */
const VIDEO: PipelineRequest = { ...REQUEST, width: 48, height: 48, numFrames: 5 };
const GREY = new Uint8Array(48 * 48 * 3).fill(100);
const FROM_FRAME: PipelineRequest = {
  ...VIDEO,
  task: "I2V",
  images: [{ width: 48, height: 48, data: GREY }],
};
const STEERED: PipelineRequest = { ...VIDEO, task: "V2V", video: new Array(5).fill(GREY) };
const IMAGE: PipelineRequest = { ...REQUEST, task: "T2I", numFrames: 1, width: 48, height: 32 };

/** How many GPUs there are, and what they share. */
type Split = readonly [
  name: string,
  gpus: number | number[],
  ranksOf: (...teams: SharedTeam[]) => Ranks,
];

const ulysses = (degree: number, gpus = degree): Split => [
  `${degree} by Ulysses, ${gpus / degree} by ring`,
  gpus,
  (team) => ({ sequence: { team: team!, ulysses: degree } }),
];
const BOTH: Split = [
  "passes, and tokens of each",
  [2, 2],
  (guidance, team) => ({ guidance: guidance!, sequence: { team: team!, ulysses: 2 } }),
];
const LAYERS: Split = ["layers", 2, (layers) => ({ layers: layers! })];

const MODELS: readonly (readonly [string, PipelineRequest, readonly Split[]])[] = [
  [
    "wan/pipeline-t2v",
    VIDEO,
    isSlow ? [ulysses(2), ulysses(1, 2), ulysses(2, 4), ulysses(1, 3), LAYERS, BOTH] : [ulysses(2)],
  ],
  ...isSlow
    ? [
      ["wan/pipeline-ti2v", FROM_FRAME, [ulysses(1, 2), LAYERS]] as const,
      ["wan/pipeline-vace", STEERED, [ulysses(1, 2), LAYERS]] as const,
      ["wan/pipeline-t2v-experts", VIDEO, [ulysses(1, 2), LAYERS]] as const,
      ["z_image/pipeline", IMAGE, [ulysses(1, 2), ulysses(3), LAYERS]] as const,
      ["qwen_image/pipeline", IMAGE, [ulysses(2), ulysses(1, 2), LAYERS]] as const,
      ["flux2/pipeline", IMAGE, [ulysses(2), ulysses(1, 2), LAYERS]] as const,
    ]
    : [],
];

for (const [name, request, splits] of MODELS) {
  const { folder } = new Golden(name);
  Deno.test(`tokens and layers on several GPUs give what one gives: ${name}`, async (t) => {
    const [alone] = await generateAlone(folder, [request]);
    for (const [name, gpus, ranksOf] of splits) {
      await t.step(name, () =>
        withTeam(folder, gpus, ranksOf, async (team) => {
          const results = await team.generate(request);
          const decibels = psnr(results[0]!.latents, alone!.latents);
          if (Deno.env.get("DENOISE_SHOW_ERRORS")) console.log(`${name}: ${decibels} dB`);
          assert.ok(decibels >= MIN_PSNR, `${decibels.toFixed(1)} dB`);
        }));
    }
  });
}
