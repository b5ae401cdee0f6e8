/** Tokens of a pass, or its layers, on several GPUs: what comes out is what one GPU makes, to rounding. */
import assert from "node:assert/strict";
import type { PipelineRequest, PipelineResult, Ranks } from "../models/mod.ts";
import type { SharedTeam } from "../runtime/mod.ts";
import { withSmallReferences } from "./support/small_references.ts";
import { withChroma, withComposed } from "./support/composed.ts";
import { controlRequest } from "./support/controlled.ts";
import { Golden } from "./support/golden.ts";
import { REQUEST } from "./support/pipeline_fixture.ts";
import { psnr } from "./support/pixels.ts";
import { generateAlone, withTeam } from "./support/ranks.ts";

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

/** How many GPUs there are, what they share, and whether that leaves the bits as they are. */
type Split = readonly [
  name: string,
  gpus: number | number[],
  ranksOf: (...teams: SharedTeam[]) => Ranks,
  isExact?: boolean,
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
const GUIDANCE: Split = ["passes", 2, (guidance) => ({ guidance: guidance! }), true];
const LAYERS: Split = ["layers", 2, (layers) => ({ layers: layers! }), true];

/** A model, made for a test. */
type Model = (use: (folder: string) => Promise<void>) => Promise<void>;
const golden = (name: string): Model => (use) => use(new Golden(name).folder);

/** A model with a ControlNet, and a request that it steers. */
function steered(net: string, call: string, ...model: string[]): readonly [Model, PipelineRequest] {
  const goldens = [net, ...model].map((name) => new Golden(name));
  return [(use) => withComposed(goldens, use), controlRequest(goldens[0]!, goldens[0]!.call(call))];
}

const FLUX1: PipelineRequest = { ...IMAGE, trueCfgScale: 3, maxSequenceLength: 16 };
const CHROMA: PipelineRequest = { ...IMAGE, maxSequenceLength: 16 };

const MODELS: readonly (readonly [string, Model, PipelineRequest, readonly Split[]])[] = [
  [
    "Wan",
    golden("wan/pipeline-t2v"),
    VIDEO,
    isSlow ? [ulysses(2), ulysses(1, 2), ulysses(2, 4), ulysses(1, 3), LAYERS, BOTH] : [LAYERS],
  ],
  [
    "Chroma",
    withChroma,
    CHROMA,
    isSlow ? [ulysses(2), ulysses(1, 2), GUIDANCE, BOTH] : [ulysses(2)],
  ],
  [
    "FLUX.1 with a Union ControlNet",
    ...steered("controlnets/flux1", "guided", "flux1/dev"),
    isSlow ? [ulysses(2), ulysses(1, 3), GUIDANCE, LAYERS, BOTH] : [BOTH],
  ],
  ...isSlow
    ? [
      ["FLUX.1", golden("flux1/dev"), FLUX1, [
        ulysses(2),
        ulysses(1, 3),
        GUIDANCE,
        LAYERS,
      ]] as const,
      [
        "FLUX.1 with a ControlNet, heads of 128",
        ...steered("controlnets/flux1_wide", "text", "flux1/schnell", "flux1/dev"),
        [ulysses(2), LAYERS],
      ] as const,
      [
        "FLUX.1 with two ControlNets",
        ...steered("controlnets/flux1_several", "windows", "controlnets/flux1", "flux1/dev"),
        [ulysses(2), LAYERS],
      ] as const,
      [
        "Qwen-Image with two ControlNets",
        ...steered(
          "controlnets/qwen_image_several",
          "windows",
          "controlnets/qwen_image",
          "qwen_image/pipeline",
        ),
        [ulysses(2), LAYERS],
      ] as const,
      [
        "Qwen-Image with a ControlNet",
        ...steered("controlnets/qwen_image", "guided", "qwen_image/pipeline"),
        [ulysses(2), ulysses(1, 2), GUIDANCE, LAYERS],
      ] as const,
      [
        "Z-Image with a ControlNet",
        ...steered("controlnets/z_image", "weighted", "z_image/pipeline"),
        [ulysses(1, 2), ulysses(3), LAYERS],
      ] as const,
      [
        "Z-Image with a ControlNet that refines by its layers",
        ...steered("controlnets/z_image_shared", "weighted", "z_image/pipeline"),
        [ulysses(1, 2), LAYERS],
      ] as const,
      [
        "Z-Image with a ControlNet of refiners",
        ...steered("controlnets/z_image_refined", "guided", "z_image/pipeline"),
        [ulysses(1, 2), GUIDANCE, LAYERS],
      ] as const,
      ["Wan 2.2 TI2V", golden("wan/pipeline-ti2v"), FROM_FRAME, [ulysses(1, 2), LAYERS]] as const,
      ["Wan VACE", golden("wan/pipeline-vace"), STEERED, [ulysses(1, 2), LAYERS]] as const,
      ["Wan's experts", golden("wan/pipeline-t2v-experts"), VIDEO, [
        ulysses(1, 2),
        LAYERS,
      ]] as const,
      ["Z-Image", golden("z_image/pipeline"), IMAGE, [ulysses(1, 2), ulysses(3), LAYERS]] as const,
      ["Qwen-Image", golden("qwen_image/pipeline"), IMAGE, [
        ulysses(2),
        ulysses(1, 2),
        LAYERS,
      ]] as const,
      ["Qwen-Image-2.1", golden("qwen_image_21/pipeline"), { ...IMAGE, width: 64 }, [
        ulysses(2),
        ulysses(1, 2),
        ulysses(2, 4),
        LAYERS,
      ]] as const,
      ["Qwen-Image-2.1 with references", withSmallReferences, {
        ...IMAGE,
        ...{ task: "TI2I" as const, width: 64 },
        images: [40, 90].map((value) => ({
          ...{ width: 32, height: 48, data: new Uint8Array(32 * 48 * 3).fill(value) },
        })),
      }, [ulysses(2), ulysses(1, 2), LAYERS]] as const,
      ["Krea 2", golden("krea2/pipeline"), IMAGE, [
        ulysses(1, 2),
        GUIDANCE,
        LAYERS,
      ]] as const,
      ["Stable Diffusion 3", golden("stable_diffusion_3/pipeline"), {
        ...IMAGE,
        maxSequenceLength: 16,
      }, [ulysses(2), ulysses(1, 3), GUIDANCE, LAYERS]] as const,
      [
        "Stable Diffusion 3 with a ControlNet",
        ...steered("controlnets/sd3", "guided", "stable_diffusion_3/pipeline"),
        [ulysses(2), LAYERS],
      ] as const,
      [
        "Stable Diffusion 3 with a ControlNet of the image alone",
        ...steered("controlnets/sd3_large", "guided", "stable_diffusion_3/pipeline"),
        [ulysses(1, 2), LAYERS],
      ] as const,
      ["HunyuanVideo 1.5", golden("hunyuan_video_15/pipeline"), VIDEO, [
        ulysses(2),
        ulysses(1, 2),
        GUIDANCE,
        LAYERS,
      ]] as const,
      ["ERNIE-Image", golden("ernie_image/pipeline"), IMAGE, [
        ulysses(2),
        ulysses(1, 2),
        GUIDANCE,
        LAYERS,
      ]] as const,
      ["Anima", golden("anima/pipeline"), IMAGE, [ulysses(2), GUIDANCE, LAYERS]] as const,
      ["FLUX.3 with an input image", golden("flux3/pipeline"), {
        ...{ ...IMAGE, task: "TI2I" as const },
        images: [{ width: 64, height: 64, data: new Uint8Array(64 * 64 * 3).fill(90) }],
      }, [ulysses(2), ulysses(1, 2), ulysses(2, 4), GUIDANCE, LAYERS]] as const,
      ["Lumina 2", golden("lumina2/pipeline"), IMAGE, [
        ulysses(1, 2),
        GUIDANCE,
        LAYERS,
      ]] as const,
      ["Ovis-Image", golden("ovis_image/pipeline"), { ...IMAGE, maxSequenceLength: 31 }, [
        ulysses(2),
        ulysses(1, 2),
        GUIDANCE,
        LAYERS,
      ]] as const,
      ["LongCat-Image", golden("longcat_image/pipeline"), IMAGE, [
        ulysses(2),
        ulysses(1, 2),
        GUIDANCE,
        LAYERS,
      ]] as const,
      ["LongCat-Image-Edit", golden("longcat_image/edit"), {
        ...{ ...IMAGE, task: "TI2I" as const },
        images: [{ width: 64, height: 64, data: new Uint8Array(64 * 64 * 3).fill(90) }],
      }, [ulysses(2), LAYERS]] as const,
      ["AuraFlow", golden("auraflow/pipeline"), IMAGE, [GUIDANCE, LAYERS]] as const,
      ["Ideogram 4", golden("ideogram4/pipeline"), IMAGE, [GUIDANCE, LAYERS]] as const,
      ["FLUX.2 dev", golden("flux2/dev"), { ...IMAGE, trueCfgScale: 2 }, [
        ulysses(2),
        GUIDANCE,
        LAYERS,
      ]] as const,
      ["FLUX.2", golden("flux2/pipeline"), IMAGE, [ulysses(2), ulysses(1, 2), LAYERS]] as const,
    ]
    : [],
];

for (const [name, withModel, request, splits] of MODELS) {
  Deno.test(`tokens, layers and passes on several GPUs give what one gives: ${name}`, (t) =>
    withModel(async (folder) => {
      const [alone] = await generateAlone(folder, [request]);
      for (const [name, gpus, ranksOf, isExact] of splits) {
        await t.step(name, () =>
          withTeam(folder, gpus, ranksOf, async (team) => {
            const [{ latents }] = await team.generate(request) as [PipelineResult];
            const decibels = psnr(latents, alone!.latents);
            if (Deno.env.get("DENOISE_SHOW_ERRORS")) console.log(`${name}: ${decibels} dB`);
            if (isExact) assert.deepEqual(latents, alone!.latents);
            assert.ok(decibels >= MIN_PSNR, `${decibels.toFixed(1)} dB`);
          }));
      }
    }));
}

Deno.test("tokens and layers of Stable Diffusion are not shared", async () => {
  const { folder } = new Golden("stable_diffusion/pipeline");
  for (const [, gpus, ranksOf] of [ulysses(2), LAYERS]) {
    await assert.rejects(withTeam(folder, gpus, ranksOf, () => Promise.resolve()), {
      name: "RangeError",
      message: /^Cannot share a pass of Stable Diffusion between GPUs: .*--enable-cfg-parallel/,
    });
  }
});
