/** SDXL's refiner after the base model: it sees the prompts as the second text encoder does, and makes the last steps. */
import {
  type DeviceTensor,
  elementwise,
  f32,
  gather,
  slice,
  type Tensor,
} from "../../../runtime/mod.ts";
import { timestepConstant, timestepEmbedding } from "../../blocks/embeddings.ts";
import type { Session } from "../../memory/session.ts";
import type { Component } from "../../pipeline/components.ts";
import { traceDenoiser } from "../../pipeline/denoiser.ts";
import type { CommonShape } from "../../pipeline/family.ts";
import type { Work } from "../../pipeline/work.ts";
import { unetTextStates, unetTimeTables } from "./conditioning.ts";
import { timeIds } from "./config.ts";
import { sdGuidance } from "./guidance.ts";
import { unet } from "./unet.ts";
import type { UnetConfig } from "./unet_config.ts";

type Loop = Pick<
  Parameters<typeof traceDenoiser>[2],
  "schedule" | "sample" | "kept" | "noise" | "guidance" | "preview" | "range" | "history"
>;

interface RefinerOptions extends Loop {
  /** Of each prompt, [1, rows, hidden_size] and [1, projection_dim] of the second text encoder. */
  readonly prompts: readonly { readonly states: DeviceTensor; readonly vector: DeviceTensor }[];
  toImage(x: Tensor): Tensor;
}

interface TracedRefiner {
  run(work: Work, draw: () => Float32Array, drawn: { readonly noise: Float32Array }): Promise<void>;
}

export function traceRefiner(
  session: Session,
  shape: CommonShape,
  { config, weights: { root: weights } }: Component<UnetConfig>,
  { prompts, toImage, ...loop }: RefinerOptions,
): TracedRefiner {
  const { schedule: { timesteps }, schedule, sample } = loop;
  const width = config.addition_time_embed_dim!;
  const idCount = timeIds({ width: 0, height: 0 }, true)[0].length;
  const begin = session.stage("denoise", { name: "begin of the refiner" }).program(
    "begin",
    { prompts, ids: f32(prompts.length, idCount * width) },
    ({ prompts, ids }, graph) => {
      const embedded = timestepConstant(graph, timesteps, config.block_out_channels[0]!);
      return prompts.map(({ states, vector }, i) => ({
        text: unetTextStates(config, weights, states),
        times: unetTimeTables(config, weights, {
          timesteps: embedded,
          added: { pooled: vector, ids: slice(ids, 0, i, i + 1) },
        }),
      }));
    },
  );
  const [first, end] = loop.range!;
  const stage = session.stage("denoise", { name: "refiner", repeats: Math.max(1, end - first) });
  const scales = Float32Array.from(timesteps, (_, i) => schedule.inputScale(i));
  const denoiser = traceDenoiser(stage, shape, {
    ...loop,
    passes: begin.outputs,
    predict({ sample: x, step, text, times }, graph) {
      const table = graph.constant("input scales", [scales.length, 1], "f32", scales);
      const scaled = toImage(elementwise("x * scale", { x, scale: gather(table, step) }));
      return unet(graph, config, weights, { sample: scaled, text, times, step })
        .reshape(...sample.shape);
    },
  });
  return {
    async run(work, draw, drawn) {
      if (first === end) return;
      const sizes = timeIds(work.request, true).slice(0, prompts.length);
      await work.run([begin.call({ ids: timestepEmbedding(sizes.flat(), width) })]);
      await denoiser.run(work, sdGuidance(work.request, prompts.length), draw, drawn);
    },
  };
}
