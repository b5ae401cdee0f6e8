/**
 * ControlNets of Stable Diffusion: a copy of the UNet's way down sees a picture; its states are added to the UNet's.
 * Adapters give features of the picture alone.
 * Source: Zhang et al. 2023, "Adding Conditional Control to Text-to-Image Diffusion Models"; diffusers `ControlNetModel`,
 * whose module names are the weight names.
 */
import {
  type Call,
  elementwise,
  f32,
  gather,
  type Graph,
  linear,
  matmul,
  slice,
  type Stored,
  type Tensor,
  tensorsIn,
  type WeightScope,
  writing,
} from "../../../runtime/mod.ts";
import type { ImageCodec } from "../../autoencoders/tiled_coder.ts";
import { affine } from "../../blocks/clip_layer.ts";
import { timestepEmbedding } from "../../blocks/embeddings.ts";
import { convolutionLayer, linearLayer } from "../../blocks/layers.ts";
import type { Session, Stage } from "../../memory/session.ts";
import type { Component } from "../../pipeline/components.ts";
import { controlPicture, controlUnits, isSteeredBy } from "../../pipeline/control_units.ts";
import { cutOut } from "../../pipeline/inpainting.ts";
import type { LatentSize } from "../../pipeline/latents.ts";
import type { ControlBalance } from "../../pipeline/settings.ts";
import type { PipelineRequest } from "../../pipeline/types.ts";
import type { Work } from "../../pipeline/work.ts";
import {
  type EmbeddedSteps,
  type TextState,
  unetTextStates,
  unetTimeTables,
} from "./conditioning.ts";
import {
  isAdapter,
  isLllite,
  type SdControlConfig,
  type SdControlNetConfig,
  unionModes,
} from "./control_config.ts";
import { llliteInput, lllitePictures } from "./lllite.ts";
import { adapterFeatures } from "./t2i_adapter.ts";
import { type UnetInputs, type UnetStates, unetStates, type UnetSteering } from "./unet.ts";

/** Shares of an adapter's levels. */
const ADAPTER_SHARES = [0.25, 0.62, 0.825, 1];

/** Epsilon of the norms of a Union ControlNet's transformer. */
const UNION_EPS = 1e-5;

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

/** The whole of a picture and its kind, u32 [1], as a Union ControlNet's transformer takes them, [1, channels]. */
function unionToken(
  config: SdControlNetConfig,
  weights: WeightScope,
  hint: Tensor,
  mode: Tensor,
): Tensor {
  const dim = hint.dim(-1);
  const tasks = weights.tensor(hint.graph, "task_embedding", [config.num_control_type, dim]);
  return elementwise("x + t", { x: pooled(hint).reshape(1, dim), t: gather(tasks, mode) });
}

/**
 * What a Union ControlNet adds to a picture everywhere, [1, 1, 1, channels]. In the reference such tokens attend to those of
 * other prompts, which are equal, and not to those of other pictures, so that each attends to itself alone.
 */
function unionShift(config: SdControlNetConfig, weights: WeightScope, token: Tensor): Tensor {
  const { graph } = token;
  const dim = token.dim(-1);
  let x = token;
  for (let i = 0; i < config.num_trans_layer; i++) {
    const layer = weights.scope(`transformer_layes.${i}`);
    const norm = (name: string) => ({ eps: UNION_EPS, ...affine(graph, layer, name, dim) });
    const attention = layer.scope("attn");
    const all = linear(x, attention.tensor(graph, "in_proj_weight", [3 * dim, dim]), {
      name: "attn",
      bias: attention.tensor(graph, "in_proj_bias", [3 * dim]),
      norm: norm("ln_1"),
    });
    x = linearLayer(attention, "out_proj", slice(all, 1, 2 * dim, 3 * dim), dim, { residual: x });
    const hidden = linearLayer(layer, "mlp.c_fc", x, 4 * dim, {
      norm: norm("ln_2"),
      activation: "quick_gelu",
    });
    x = linearLayer(layer, "mlp.c_proj", hidden, dim, { residual: x });
  }
  return linearLayer(weights, "spatial_ch_projs", x, dim).reshape(1, 1, 1, dim);
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

/** The pictures of a pass: one, or all that a Union ControlNet sees. */
export interface ControlGroup<Net> {
  readonly net: Net;
  readonly units: readonly number[];
}

/** @param nets of the control pictures, a net for each; a net may see several */
export function controlGroups<Net extends Component<SdControlConfig>>(
  nets: readonly Net[],
): ControlGroup<Net>[] {
  const groups: { net: Net; units: number[] }[] = [];
  for (const [i, net] of nets.entries()) {
    const same = unionModes(net) && groups.find((group) => group.net === net);
    if (same) same.units.push(i);
    else groups.push({ net, units: [i] });
  }
  return groups;
}

export function traceControls(
  session: Session,
  nets: readonly Component<SdControlConfig>[],
  { scale: pixels }: Pick<ImageCodec, "scale">,
  { height, width }: LatentSize,
  { steps, levels, balances }: {
    readonly steps: number;
    readonly levels: number;
    readonly balances: readonly ControlBalance[];
  },
): Controls {
  const stage = session.stage("encode", { name: "control" });
  const size = [1, height * pixels, width * pixels, 3];
  const groups = controlGroups(nets);
  // Weights of what a pass gives, then of each picture.
  const scales = session.tensor("control scales", [steps, groups.length + nets.length]);
  session.encodeSteps++;
  const branches = groups.map(({ net, units }) =>
    traceBranch(session, stage, net, { units, size, levels })
  );
  return {
    text: (states) => branches.map((branch) => branch.text(states)),
    times: (given) => branches.map((branch) => branch.times(given)),
    steering(inputs, { controlStates, controlTimes }, pass) {
      const { graph } = inputs.sample;
      const now = gather(graph.use(scales), inputs.step);
      const weightAt = (column: number) => slice(now, 1, column, column + 1).reshape(1);
      return branches.flatMap(({ steering }, i) => {
        const { net, units } = groups[i]!;
        const balance = balances[units[0]!];
        const text = tensorsIn<readonly TextState[]>(graph, controlStates![i]!);
        const times = tensorsIn<readonly Tensor[]>(graph, controlTimes![i]!);
        if (balance === "control" && pass > 0) return [];
        const weights = units.map((unit) => weightAt(groups.length + unit));
        const own = steering({ ...inputs, text, times }, pass, weights);
        if (!own) return [];
        const scale = weightAt(i);
        const shares = balance === "balanced" ? undefined : sharesOf(net.config, own);
        return [{ ...own, scale: shares ? weakened(scale, shares) : scale }];
      });
    },
    async run(work) {
      const { request } = work;
      const units = controlUnits(request);
      const values = Array.from({ length: steps }, (_, step) => {
        const own = units.map((unit) => isSteeredBy(unit, step, steps) ? unit.scale ?? 1 : 0);
        const ofGroups = groups.map(({ units: [first, ...others] }) =>
          others.length === 0 ? own[first!]! : Number([first!, ...others].some((i) => own[i] !== 0))
        );
        return [...ofGroups, ...own];
      }).flat();
      const calls = branches.flatMap(({ calls }, i) =>
        calls(groups[i]!.units.map((each) => {
          const { picture, mode, ...unit } = units[each]!;
          const pixels = picture
            ? Float32Array.from(controlPicture(picture, unit).data, (value) => value / 255)
            : holedImage(request);
          return { picture: pixels, mode };
        }))
      );
      await work.run([writing(scales, values), ...calls], { finished: () => work.encodeDone() });
    },
  };
}

/** The image in [0, 1], and -1 where its mask redraws it. Source: the reference's example of `control_v11p_sd15_inpaint`. */
function holedImage(request: PipelineRequest): Float32Array {
  const { mask } = cutOut(request, 0);
  return Float32Array.from(
    request.images![0]!.data,
    (value, i) => mask[Math.floor(i / 3)] === 1 ? -1 : value / 255,
  );
}

/**
 * How much of a residual is added where the prompt counts more than balanced: from a tenth at the first skip connection to all
 * of it in the middle. Source: diffusers' `guess_mode`, which leaves pooled ones as they are; of adapters, WebUI's ControlNet.
 */
function sharesOf(
  config: SdControlConfig,
  { states }: Omit<UnetSteering, "scale">,
): readonly number[] | undefined {
  if (isAdapter(config)) return ADAPTER_SHARES;
  if (isLllite(config)) return undefined;
  if (config.global_pool_conditions) return undefined;
  const last = states!.skips.length;
  return Array.from({ length: last + 1 }, (_, i) => 10 ** (i / last - 1));
}

function weakened(scale: Tensor, shares: readonly number[]): Tensor {
  const { graph } = scale;
  const table = graph.constant(
    `shares of ${shares}`,
    [shares.length],
    "f32",
    Float32Array.from(shares),
  );
  return elementwise("scale * share", { scale, share: table });
}

interface ShownPicture {
  /** RGB in [0, 1]. */
  readonly picture: Float32Array;
  readonly mode: string | undefined;
}

interface ControlBranch {
  text(states: Tensor): TextState[];
  times(steps: EmbeddedSteps): Tensor[];
  /** @param weights f32 [1], of each picture, where a pass sees several */
  steering(
    inputs: UnetInputs,
    pass: number,
    weights: readonly Tensor[],
  ): Omit<UnetSteering, "scale"> | undefined;
  calls(pictures: readonly ShownPicture[]): Call[];
}

interface BranchPlace {
  readonly units: readonly number[];
  /** [1, height, width, 3] */
  readonly size: readonly number[];
  readonly levels: number;
}

function traceBranch(
  session: Session,
  stage: Stage,
  { config, weights }: Component<SdControlConfig>,
  { units, size, levels }: BranchPlace,
): ControlBranch {
  const { root } = weights;
  const [first] = units as [number];
  if (isAdapter(config)) {
    const features = stage.program(
      `features ${first}`,
      { picture: f32(...size) },
      ({ picture }) => adapterFeatures(config, root, picture, levels),
    );
    return {
      text: () => [],
      times: () => [],
      steering: ({ sample }) => ({ features: features.outputs.map((x) => sample.graph.use(x)) }),
      calls: (pictures) => pictures.map(({ picture }) => features.call({ picture })),
    };
  }
  if (isLllite(config)) {
    const pictures = stage.program(
      `pictures ${first}`,
      { picture: f32(...size) },
      ({ picture }) => lllitePictures(config, root, picture),
    );
    const places = Object.keys(config.modules);
    return {
      text: () => [],
      times: () => [],
      steering: () => ({
        input(name, x, scale) {
          const module = config.modules[name];
          if (!module) return x;
          const picture = x.graph.use(pictures.outputs[places.indexOf(name)]!);
          return llliteInput(module, root, x, picture, scale);
        },
      }),
      calls: (shown) => shown.map(({ picture }) => pictures.call({ picture })),
    };
  }
  const names = unionModes({ config, weights });
  const idWidth = config.addition_time_embed_dim ?? 0;
  const modes = names && units.map((i) => session.tensor(`control mode ${i}`, [1], "u32"));
  const kinds = names && session.tensor(`control kinds ${first}`, [1, names.length * idWidth]);
  const isJoint = units.length > 1;
  const hints = units.map((unit, i) =>
    stage.program(
      `hint ${unit}`,
      { picture: f32(...size), mode: modes?.[i] },
      ({ picture, mode }) => {
        const hint = controlHint(config, root, picture);
        if (!mode) return { hint };
        const token = unionToken(config, root, hint, mode);
        if (isJoint) return { hint, token };
        const shift = unionShift(config, root, token);
        return { hint: elementwise("h + s", { h: hint, s: shift }, { name: "hint" }) };
      },
    )
  );
  /** All pictures by their weights; a picture's whole is weighted before the transformer, too. */
  const joined = (graph: Graph, scales: readonly Tensor[]) =>
    hints.map(({ outputs: { hint, token } }, i) => {
      const scale = scales[i]!;
      const weighted = elementwise("t * s", { t: graph.use(token!), s: scale });
      const shift = unionShift(config, root, weighted);
      return elementwise("(h + x) * s", { h: graph.use(hint), x: shift, s: scale });
    }).reduce((x, y) => elementwise("x + y", { x, y }));
  return {
    text: (states) => unetTextStates(config, root, states),
    times: (given) =>
      unetTimeTables(config, root, {
        ...given,
        guidance: undefined,
        kinds: kinds && given.timesteps.graph.use(kinds),
      }),
    steering(inputs, pass, scales) {
      // The reference pools what shows no place, and adds it for the prompt alone.
      if (config.global_pool_conditions && pass > 0) return undefined;
      const { graph } = inputs.sample;
      const hint = isJoint ? joined(graph, scales) : graph.use(hints[0]!.outputs.hint);
      return { states: controlStates(graph, config, root, inputs, hint) };
    },
    calls(pictures) {
      const shown = pictures.map(({ mode }) => names?.indexOf(mode!) ?? 0);
      const isShown = names?.map((_, i) => Number(shown.includes(i))) ?? [];
      return [
        ...modes?.map((mode, i) => writing(mode, [shown[i]!])) ?? [],
        ...kinds ? [writing(kinds, timestepEmbedding(isShown, idWidth))] : [],
        ...hints.map((hint, i) => hint.call({ picture: pictures[i]!.picture })),
      ];
    },
  };
}
