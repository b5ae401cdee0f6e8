/** Guidance on several GPUs: each computes passes of its own, and what comes out is what one GPU makes. */
import assert from "node:assert/strict";
import type { PipelineRequest } from "../models/mod.ts";
import type { SharedTeam } from "../runtime/mod.ts";
import { saturateAlways, withMatrixUnits } from "./support/emulated_matrix_units.ts";
import { Golden } from "./support/golden.ts";
import { FOLDER, REQUEST } from "./support/pipeline_fixture.ts";
import { generateAlone, withTeam } from "./support/ranks.ts";

const isSlow = Deno.env.has("DENOISE_SLOW");

const SEQUENTIAL: PipelineRequest = { ...REQUEST, guidancePasses: "sequential" };
const IMAGE: PipelineRequest = { ...SEQUENTIAL, task: "T2I", numFrames: 1 };

/** Models, and requests that are guided in different ways. */
const MODELS: readonly (readonly [
  name: string,
  folder: string,
  requests: Readonly<Record<string, PipelineRequest>>,
])[] = [
  ["Wan", FOLDER, {
    "classifier-free": SEQUENTIAL,
    ...isSlow && {
      "CFG-Zero*": { ...SEQUENTIAL, cfgZeroStar: true },
      "with skipped layers": {
        ...SEQUENTIAL,
        ...{ skipGuidanceLayers: [0], skipLayerGuidanceStart: 0, skipLayerGuidanceStop: 1 },
      },
      "steps used again": { ...SEQUENTIAL, quality: "high", numInferenceSteps: 16 },
    },
    "none": { ...SEQUENTIAL, guidanceScale: 1 },
  }],
  ...isSlow
    ? [
      ["Wan with two experts", new Golden("wan/pipeline-t2v-experts").folder, {
        "classifier-free": { ...SEQUENTIAL, guidanceScale2: 3 },
      }] as const,
      ["Z-Image", new Golden("z_image/pipeline").folder, {
        "classifier-free": IMAGE,
        "limited in time and strength": { ...IMAGE, guidanceEnd: 0.5, guidanceLimit: 0.9 },
      }] as const,
      ["Qwen-Image", new Golden("qwen_image/pipeline").folder, { "normed": IMAGE }] as const,
      ["LTX-2.3", new Golden("ltx2/pipeline23").folder, {
        "in all ways": {
          ...{ ...IMAGE, task: "T2V" as const, width: 64, height: 64, numFrames: 9 },
          ...{ stgBlocks: [1], maxSequenceLength: 32 },
        },
      }] as const,
      ["Stable Diffusion", new Golden("stable_diffusion/pipeline").folder, {
        "classifier-free": IMAGE,
        "rescaled": { ...IMAGE, guidanceRescale: 0.7 },
      }] as const,
      ["SDXL", new Golden("stable_diffusion/xl_pipeline").folder, {
        "classifier-free": IMAGE,
        "without a negative prompt": { ...IMAGE, negativePrompt: "" },
      }] as const,
    ]
    : [],
];

const guidance = (guidance?: SharedTeam) => ({ guidance: guidance! });

for (const [name, folder, requests] of MODELS) {
  Deno.test(`guidance on two GPUs gives what one gives, bit for bit: ${name}`, async (t) => {
    const alone = await generateAlone(folder, Object.values(requests));
    await withTeam(folder, 2, guidance, async ({ generate }) => {
      for (const [i, [name, request]] of Object.entries(requests).entries()) {
        await t.step(name, async () => {
          const [first, second] = await generate(request);
          assert.deepEqual(first!.latents, alone[i]!.latents);
          assert.deepEqual(first!.frames, alone[i]!.frames);
          assert.equal(second!.frames.length, 0);
        });
      }
    });
  });
}

Deno.test("a GPU fails when the one that it makes a request with does, and makes the next one", async () => {
  await withTeam(FOLDER, 2, guidance, async ({ generate }) => {
    const broken = {
      onProgress: ({ stage, step }: { stage: string; step: number }) => {
        if (stage === "denoise" && step === 1) throw new Error("broken");
      },
    };
    const results: unknown[] = [];
    const previews: number[] = [];
    const told = generate(SEQUENTIAL, [{}, broken]);
    await assert.rejects(told, /broken|another GPU of this request has failed/);
    // The other has ended by then, too.
    await new Promise((resolve) => setTimeout(resolve, 200));
    results.push(
      ...await generate(SEQUENTIAL, [{ previews: 1, onPreview: (_, i) => previews.push(i) }]),
    );
    assert.equal(results.length, 2);
    assert.deepEqual(previews, [0]);
  });
});

Deno.test({
  name: "layers that one of two GPUs must compute with f32 are so on both (slow)",
  ignore: !isSlow,
  async fn() {
    const exact = { schedule: "gpu", operands: "f32" } as const;
    const gpu = withMatrixUnits(navigator.gpu, saturateAlways);
    const saturated = { gpu, schedule: "gpu", operands: "f16" } as const;
    const [alone] = await generateAlone(FOLDER, [SEQUENTIAL], exact);
    for (const openings of [[exact, saturated], [saturated, exact], [saturated, saturated]]) {
      await withTeam(FOLDER, 2, guidance, async ({ generate }) => {
        const [first] = await generate(SEQUENTIAL);
        assert.deepEqual(first!.latents, alone!.latents);
      }, openings);
    }
  },
});
