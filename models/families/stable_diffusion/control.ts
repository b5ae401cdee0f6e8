/**
 * ControlNets of Stable Diffusion: a copy of the UNet's way down sees a picture; its states are added to the UNet's.
 * Source: Zhang et al. 2023, "Adding Conditional Control to Text-to-Image Diffusion Models"; diffusers `ControlNetModel`,
 * whose module names are the weight names.
 */
import {
  f32,
  gather,
  type Graph,
  matmul,
  slice,
  type Stored,
  type Tensor,
  tensorsIn,
  type WeightScope,
  writing,
} from "../../../runtime/mod.ts";
import type { ImageCodec } from "../../autoencoders/tiled_coder.ts";
import { convolutionLayer, linearLayer } from "../../blocks/layers.ts";
import type { Session } from "../../memory/session.ts";
import type { Component } from "../../pipeline/components.ts";
import { controlPicture, isSteered } from "../../pipeline/control.ts";
import type { LatentSize } from "../../pipeline/latents.ts";
import type { Work } from "../../pipeline/work.ts";
import {
  type EmbeddedSteps,
  type TextState,
  unetTextStates,
  unetTimeTables,
} from "./conditioning.ts";
import type { SdControlNetConfig } from "./control_config.ts";
import { type UnetInputs, type UnetStates, unetStates, type UnetSteering } from "./unet.ts";

/** The picture as the first convolution's result takes it, [1, height, width, block_out_channels[0]], from RGB in [0, 1]. */
export function controlHint(
  config: SdControlNetConfig,
  weights: WeightScope,
  pixels: Tensor,
): Tensor {
  const { conditioning_embedding_out_channels: widths } = config;
  const scope = weights.scope("controlnet_cond_embedding");
  const activation = "silu" as const;
  let x = convolutionLayer(scope, "conv_in", pixels, widths[0]!, { activation });
  for (const [i, width] of widths.slice(1).entries()) {
    x = convolutionLayer(scope, `blocks.${2 * i}`, x, widths[i]!, { activation });
    x = convolutionLayer(scope, `blocks.${2 * i + 1}`, x, width, { activation, stride: [2, 2] });
  }
  return convolutionLayer(scope, "conv_out", x, config.block_out_channels[0]!);
}

export function controlStates(
  graph: Graph,
  config: SdControlNetConfig,
  weights: WeightScope,
  inputs: UnetInputs,
  hint: Tensor,
): UnetStates {
  return graph.scope("controlnet", () => {
    const { skips, mid } = unetStates(graph, config, weights, inputs, hint);
    const residual = (name: string, x: Tensor) => {
      const y = linearLayer(weights, name, x, x.dim(-1));
      return config.global_pool_conditions ? pooled(y) : y;
    };
    return {
      skips: skips.map((x, i) => residual(`controlnet_down_blocks.${i}`, x)),
      mid: residual("controlnet_mid_block", mid),
    };
  });
}

/** The mean of all pixels, [1, 1, 1, channels]. */
function pooled(x: Tensor): Tensor {
  const [, height, width, channels] = x.shape as [number, number, number, number];
  const count = height * width;
  const shares = new Float32Array(count).fill(1 / count);
  const mean = x.graph.constant(`mean of ${count}`, [1, 1, count], "f32", shares);
  return matmul(mean, x.reshape(1, count, channels)).reshape(1, 1, 1, channels);
}

/** What a prompt's passes have of it, for each ControlNet. */
interface ControlPrompt {
  readonly controlStates: readonly (readonly TextState[])[];
  readonly controlTimes: readonly (readonly Tensor[])[];
}

interface Controls {
  text(states: Tensor): TextState[][];
  times(steps: EmbeddedSteps): Tensor[][];
  steering(
    inputs: Pick<UnetInputs, "sample" | "step">,
    prompt: { readonly [Part in keyof ControlPrompt]: Stored<ControlPrompt[Part]> | undefined },
    pass: number,
  ): UnetSteering[];
  run(work: Work): Promise<void>;
}

export function traceControls(
  session: Session,
  nets: readonly Component<SdControlNetConfig>[],
  { scale: pixels }: Pick<ImageCodec, "scale">,
  { height, width }: LatentSize,
  steps: number,
): Controls {
  const size = [1, height * pixels, width * pixels, 3];
  const stage = session.stage("encode", { name: "control" });
  const hints = nets.map(({ config, weights }, i) =>
    stage.program(
      `hint ${i}`,
      { picture: f32(...size) },
      ({ picture }) => controlHint(config, weights.root, picture),
    )
  );
  session.encodeSteps++;
  const scales = session.tensor("control scales", [steps, nets.length]);
  return {
    text: (states) =>
      nets.map(({ config, weights }) => unetTextStates(config, weights.root, states)),
    times: (given) =>
      nets.map(({ config, weights }) =>
        unetTimeTables(config, weights.root, { ...given, guidance: undefined })
      ),
    steering({ sample, step }, { controlStates: states, controlTimes: tables }, pass) {
      const { graph } = sample;
      const now = gather(graph.use(scales), step);
      return nets.flatMap(({ config, weights }, i) => {
        // The reference pools what shows no place, and adds it for the prompt alone.
        if (config.global_pool_conditions && pass > 0) return [];
        const text = tensorsIn<readonly TextState[]>(graph, states![i]!);
        const times = tensorsIn<readonly Tensor[]>(graph, tables![i]!);
        const inputs = { sample, step, text, times };
        const hint = graph.use(hints[i]!.outputs);
        return [{
          states: controlStates(graph, config, weights.root, inputs, hint),
          scale: slice(now, 1, i, i + 1).reshape(1),
        }];
      });
    },
    async run(work) {
      const { request } = work;
      const { control, controlScale: [weight = 1] = [] } = request;
      const { data } = controlPicture(control!, request);
      const values = Array.from(
        { length: steps },
        (_, i) => isSteered(request, i, steps) ? weight : 0,
      );
      const picture = Float32Array.from(data, (value) => value / 255);
      await work.run([writing(scales, values), hints[0]!.call({ picture })], {
        finished: () => work.encodeDone(),
      });
    },
  };
}
