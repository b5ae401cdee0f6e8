/** Files as people have them: all names and shapes of published single files of Stable Diffusion, without their numbers. */
import assert from "node:assert/strict";
import {
  LARGE,
  layer,
  prefixed,
  repeated,
  type Shapes,
} from "../../../tests/support/published_shapes.ts";
import { memoryTensors } from "../../../tests/support/memory_tensors.ts";
import { DeviceTensor, Graph, type TensorSource, Weights } from "../../../runtime/mod.ts";
import { klDecoder, klEncoder } from "../../autoencoders/kl/coder.ts";
import { KL_VAE_CONFIG } from "../../autoencoders/kl/config.ts";
import { recognise } from "../../checkpoints/recognise.ts";
import { parseConfig } from "../../config.ts";
import type { JsonObject } from "../../../hub/json_file.ts";
import { CLIP_TEXT_CONFIG, clipPooled, clipStates } from "../../text_encoders/clip_text.ts";
import { unetTextStates, unetTimeTables } from "./conditioning.ts";
import { controlHint, controlStates } from "./control.ts";
import { SD_CONTROLNET_CONFIG } from "./control_config.ts";
import { LLLITE_CONFIG, llliteInput, lllitePictures } from "./lllite.ts";
import { openLowRank } from "../../checkpoints/low_rank_source.ts";
import { CONTROL_LORA } from "./control_layout.ts";
import { SD_FILES } from "./layouts.ts";
import { unet } from "./unet.ts";
import { UNET } from "./unet_layout.ts";
import { transformerModules, UNET_CONFIG } from "./unet_config.ts";

interface UnetSizes {
  readonly widths: readonly number[];
  /** Transformer blocks of each level; 0 where none attends. */
  readonly depths: readonly number[];
  readonly midDepth: number;
  readonly context: number;
  readonly isLinear?: boolean;
  readonly added?: number;
  readonly inChannels?: number;
}

const SD1: UnetSizes = {
  widths: [320, 640, 1280, 1280],
  depths: [1, 1, 1, 0],
  midDepth: 1,
  context: 768,
};
const SDXL: UnetSizes = {
  widths: [320, 640, 1280],
  depths: [0, 2, 10],
  midDepth: 10,
  context: 2048,
  isLinear: true,
  added: 2816,
};

const REFINER: UnetSizes = {
  widths: [384, 768, 1536, 1536],
  depths: [0, 4, 4, 0],
  midDepth: 4,
  context: 1280,
  isLinear: true,
  added: 2560,
};

function norm(name: string, size: number): Shapes {
  return { [`${name}.weight`]: [size], [`${name}.bias`]: [size] };
}

function conv(name: string, rows: number, columns: number, side = 3): Shapes {
  return { [`${name}.weight`]: [rows, columns, side, side], [`${name}.bias`]: [rows] };
}

/** A UNet under the names of its authors. */
function ldmUnet({ widths, depths, midDepth, context, ...others }: UnetSizes): Shapes {
  const { isLinear = false, added, inChannels = 4 } = others;
  const [first] = widths as [number];
  const residual = (name: string, from: number, to: number): Shapes => ({
    ...norm(`${name}.in_layers.0`, from),
    ...conv(`${name}.in_layers.2`, to, from),
    ...layer(`${name}.emb_layers.1`, to, 4 * first),
    ...norm(`${name}.out_layers.0`, to),
    ...conv(`${name}.out_layers.3`, to, to),
    ...from === to ? {} : conv(`${name}.skip_connection`, to, from, 1),
  });
  const attention = (name: string, width: number, depth: number): Shapes => {
    const side = (part: string) =>
      isLinear ? layer(`${name}.${part}`, width, width) : conv(`${name}.${part}`, width, width, 1);
    return depth === 0 ? {} : {
      ...norm(`${name}.norm`, width),
      ...side("proj_in"),
      ...side("proj_out"),
      ...repeated(depth, (i) => {
        const block = `${name}.transformer_blocks.${i}`;
        const heads = (part: string, from: number): Shapes => ({
          [`${block}.${part}.to_q.weight`]: [width, width],
          [`${block}.${part}.to_k.weight`]: [width, from],
          [`${block}.${part}.to_v.weight`]: [width, from],
          ...layer(`${block}.${part}.to_out.0`, width, width),
        });
        return {
          ...heads("attn1", width),
          ...heads("attn2", context),
          ...layer(`${block}.ff.net.0.proj`, 8 * width, width),
          ...layer(`${block}.ff.net.2`, width, 4 * width),
          ...repeated(3, (k) => norm(`${block}.norm${k + 1}`, width)),
        };
      }),
    };
  };
  const tensors: Shapes[] = [
    layer("time_embed.0", 4 * first, first),
    layer("time_embed.2", 4 * first, 4 * first),
    conv("input_blocks.0.0", first, inChannels),
    ...added === undefined
      ? []
      : [layer("label_emb.0.0", 4 * first, added), layer("label_emb.0.2", 4 * first, 4 * first)],
  ];
  const skips = [first];
  let [width, i] = [first, 1];
  for (const [level, next] of widths.entries()) {
    for (let k = 0; k < 2; k++, i++) {
      tensors.push(residual(`input_blocks.${i}.0`, width, next));
      tensors.push(attention(`input_blocks.${i}.1`, next, depths[level]!));
      skips.push(width = next);
    }
    if (level === widths.length - 1) continue;
    tensors.push(conv(`input_blocks.${i++}.0.op`, width, width));
    skips.push(width);
  }
  tensors.push(residual("middle_block.0", width, width));
  tensors.push(attention("middle_block.1", width, midDepth));
  tensors.push(residual("middle_block.2", width, width));
  i = 0;
  for (const [level, next] of [...widths.entries()].toReversed()) {
    for (let k = 0; k < 3; k++, i++) {
      tensors.push(residual(`output_blocks.${i}.0`, width + skips.pop()!, next));
      tensors.push(attention(`output_blocks.${i}.1`, next, depths[level]!));
      width = next;
      if (k < 2 || level === 0) continue;
      tensors.push(conv(`output_blocks.${i}.${depths[level]! > 0 ? 2 : 1}.conv`, width, width));
    }
  }
  tensors.push(norm("out.0", first), conv("out.2", 4, first));
  return Object.assign({}, ...tensors);
}

/** A ControlNet under the names of its authors. */
function ldmControlNet(sizes: UnetSizes): Shapes {
  const [first] = sizes.widths as [number];
  const hint = [3, 16, 16, 32, 32, 96, 96, 256, first];
  const unet = Object.entries(ldmUnet(sizes)).filter(([name]) =>
    !/^out(?:put_blocks|)\./.test(name)
  );
  const skips = sizes.widths.flatMap((width, i) => [sizes.widths[i - 1] ?? width, width, width]);
  return {
    ...Object.fromEntries(unet),
    ...repeated(8, (i) => conv(`input_hint_block.${2 * i}`, hint[i + 1]!, hint[i]!)),
    ...Object.assign({}, ...skips.map((width, i) => conv(`zero_convs.${i}.0`, width, width, 1))),
    ...conv("middle_block_out.0", sizes.widths.at(-1)!, sizes.widths.at(-1)!, 1),
  };
}

function ldmVae(): Shapes {
  const widths = [128, 256, 512, 512];
  const residual = (name: string, from: number, to: number): Shapes => ({
    ...norm(`${name}.norm1`, from),
    ...conv(`${name}.conv1`, to, from),
    ...norm(`${name}.norm2`, to),
    ...conv(`${name}.conv2`, to, to),
    ...from === to ? {} : conv(`${name}.nin_shortcut`, to, from, 1),
  });
  const middle = (side: string): Shapes => ({
    ...residual(`${side}.mid.block_1`, 512, 512),
    ...residual(`${side}.mid.block_2`, 512, 512),
    ...norm(`${side}.mid.attn_1.norm`, 512),
    ...Object.assign(
      {},
      ...["q", "k", "v", "proj_out"].map((part) => conv(`${side}.mid.attn_1.${part}`, 512, 512, 1)),
    ),
  });
  const before = [128, 128, 256, 512];
  const after = [256, 512, 512, 512];
  return {
    ...conv("encoder.conv_in", 128, 3),
    ...conv("encoder.conv_out", 8, 512),
    ...norm("encoder.norm_out", 512),
    ...conv("decoder.conv_in", 512, 4),
    ...conv("decoder.conv_out", 3, 128),
    ...norm("decoder.norm_out", 128),
    ...conv("quant_conv", 8, 8, 1),
    ...conv("post_quant_conv", 4, 4, 1),
    ...middle("encoder"),
    ...middle("decoder"),
    ...repeated(4, (i) => ({
      ...residual(`encoder.down.${i}.block.0`, before[i]!, widths[i]!),
      ...residual(`encoder.down.${i}.block.1`, widths[i]!, widths[i]!),
      ...i < 3 ? conv(`encoder.down.${i}.downsample.conv`, widths[i]!, widths[i]!) : {},
      ...residual(`decoder.up.${i}.block.0`, after[i]!, widths[i]!),
      ...residual(`decoder.up.${i}.block.1`, widths[i]!, widths[i]!),
      ...residual(`decoder.up.${i}.block.2`, widths[i]!, widths[i]!),
      ...i > 0 ? conv(`decoder.up.${i}.upsample.conv`, widths[i]!, widths[i]!) : {},
    })),
  };
}

function clip(): Shapes {
  return {
    "embeddings.token_embedding.weight": [49408, 768],
    "embeddings.position_embedding.weight": [77, 768],
    "embeddings.position_ids": [1, 77],
    ...norm("final_layer_norm", 768),
    ...repeated(12, (i) => {
      const name = `encoder.layers.${i}`;
      return {
        ...norm(`${name}.layer_norm1`, 768),
        ...norm(`${name}.layer_norm2`, 768),
        ...layer(`${name}.mlp.fc1`, 3072, 768),
        ...layer(`${name}.mlp.fc2`, 768, 3072),
        ...Object.assign(
          {},
          ...["q_proj", "k_proj", "v_proj", "out_proj"].map((part) =>
            layer(`${name}.self_attn.${part}`, 768, 768)
          ),
        ),
      };
    }),
  };
}

function openClip(): Shapes {
  return {
    "token_embedding.weight": [49408, 1280],
    "positional_embedding": [77, 1280],
    "text_projection": [1280, 1280],
    "logit_scale": [],
    ...norm("ln_final", 1280),
    ...repeated(32, (i) => {
      const name = `transformer.resblocks.${i}`;
      return {
        ...norm(`${name}.ln_1`, 1280),
        ...norm(`${name}.ln_2`, 1280),
        [`${name}.attn.in_proj_weight`]: [3840, 1280],
        [`${name}.attn.in_proj_bias`]: [3840],
        ...layer(`${name}.attn.out_proj`, 1280, 1280),
        ...layer(`${name}.mlp.c_fc`, 5120, 1280),
        ...layer(`${name}.mlp.c_proj`, 1280, 5120),
      };
    }),
  };
}

const DENOISER = "model.diffusion_model.";

/** What GGUF files of a UNet name as their architecture. */
function architectureOf(tensors: TensorSource): string | undefined {
  const { architecture } = UNET;
  return typeof architecture === "function" ? architecture(tensors) : architecture;
}

/** The components of a file by class. */
function read(shapes: Shapes) {
  const found = recognise(memoryTensors(shapes), SD_FILES.formats);
  return new Map(
    found.map(({ format, tensors }) => [
      format.className,
      { config: format.config(tensors), tensors },
    ]),
  );
}

/** What of a UNet's or a ControlNet's tensors its forward pass does not read. */
function unusedOf(json: { readonly _class_name?: unknown }, tensors: TensorSource) {
  const controlnet = json._class_name === "ControlNetModel"
    ? parseConfig(SD_CONTROLNET_CONFIG, json, "config.json")
    : undefined;
  const config = controlnet ?? parseConfig(UNET_CONFIG, json, "config.json");
  const weights = new Weights(tensors);
  const graph = new Graph("model", LARGE);
  const input = (dtype: "f32" | "u32", ...shape: number[]) =>
    graph.use(new DeviceTensor("input", shape, dtype));
  const ids = (config.cross_attention_dim === REFINER.context ? 5 : 6) *
    (config.addition_time_embed_dim ?? 0);
  const width = (config.projection_class_embeddings_input_dim ?? 0) - ids;
  const inputs = {
    sample: input("f32", 1, 24, 16, config.in_channels),
    step: input("u32", 1),
    text: unetTextStates(config, weights.root, input("f32", 1, 77, config.cross_attention_dim)),
    times: unetTimeTables(config, weights.root, {
      timesteps: input("f32", 3, config.block_out_channels[0]!),
      added: width > 0 ? { pooled: input("f32", 1, width), ids: input("f32", 1, ids) } : undefined,
    }),
  };
  if (controlnet) {
    const hint = controlHint(controlnet, weights.root, input("f32", 1, 192, 128, 3));
    controlStates(graph, controlnet, weights.root, inputs, hint);
  } else unet(graph, config, weights.root, inputs);
  return weights.unused;
}

/** Buffers that no program reads, and the table whose rows are read from the file. */
const UNREAD = /position_ids$|logit_scale$|token_embedding\.weight$/;

/** What of a text encoder's tensors its forward pass does not read. */
function unusedOfText({ config: json, tensors }: { config: JsonObject; tensors: TensorSource }) {
  const config = parseConfig(CLIP_TEXT_CONFIG, json, "config.json");
  const weights = new Weights(tensors);
  const graph = new Graph("model", LARGE);
  const { max_position_embeddings: places, hidden_size: dim, num_hidden_layers: layers } = config;
  const words = graph.use(new DeviceTensor("words", [places, dim], "f32"));
  const [states] = clipStates(config, weights.root, words, [layers]);
  const ends = graph.use(new DeviceTensor("ends", [1], "u32"));
  const isProjected = json["projection_dim"] !== undefined && dim === 1280;
  clipPooled(config, weights.root, states!, ends, { isProjected });
  return weights.unused.filter((name) => !UNREAD.test(name));
}

Deno.test("all tensors of a file of SD 1.5 are known and used, and its configuration is the published one", () => {
  const file = read({
    ...prefixed(DENOISER, ldmUnet(SD1)),
    ...prefixed("first_stage_model.", ldmVae()),
    ...prefixed("cond_stage_model.transformer.text_model.", clip()),
    "alphas_cumprod": [1000],
    "model_ema.decay": [],
  });
  assert.deepEqual([...file.keys()], ["UNet2DConditionModel", "CLIPTextModel", "AutoencoderKL"]);
  const { config, tensors } = file.get("UNet2DConditionModel")!;
  assert.equal([...tensors.names].length, 686);
  assert.equal(architectureOf(tensors), "sd1");
  assert.deepEqual(unusedOf(config, tensors), []);
  assert.deepEqual(unusedOfText(file.get("CLIPTextModel")!), []);
  assert.deepEqual(parseConfig(UNET_CONFIG, config, ""), {
    ...parseConfig(UNET_CONFIG, { cross_attention_dim: 768, sample_size: 64 }, ""),
    transformer_layers_per_block: [1, 1, 1, 1],
  });
  const { className, scheduler } = SD_FILES.defaults(config, "v1-5-pruned.safetensors");
  assert.deepEqual([className, scheduler["_class_name"]], [
    "StableDiffusionPipeline",
    "PNDMScheduler",
  ]);

  const vae = file.get("AutoencoderKL")!;
  assert.equal([...vae.tensors.names].length, 248);
  const vaeConfig = parseConfig(KL_VAE_CONFIG, vae.config, "");
  assert.deepEqual(vaeConfig.block_out_channels, [128, 256, 512, 512]);
  assert.equal(vaeConfig.scaling_factor, 0.18215);
  const weights = new Weights(vae.tensors);
  const graph = new Graph("model", LARGE);
  const input = (...shape: number[]) => graph.use(new DeviceTensor("input", shape, "f32"));
  klDecoder(graph, vaeConfig, weights.root, input(1, 8, 8, 4));
  klEncoder(graph, vaeConfig, weights.root, input(1, 64, 64, 3));
  assert.deepEqual(weights.unused, []);
});

Deno.test("all tensors of a file of SDXL are known and used, and its configuration is the published one", () => {
  // As SDXL base, Pony, Illustrious and NoobAI have it, which differ in numbers alone.
  const shapes = {
    ...prefixed(DENOISER, ldmUnet(SDXL)),
    ...prefixed("first_stage_model.", ldmVae()),
    ...prefixed("conditioner.embedders.0.transformer.text_model.", clip()),
    ...prefixed("conditioner.embedders.1.model.", openClip()),
  };
  assert.equal(Object.keys(shapes).length, 2515);
  const file = read({ ...shapes, "denoiser.sigmas": [1000], "v_pred": [0], "ztsnr": [0] });
  assert.deepEqual([...file.keys()], [
    "UNet2DConditionModel",
    "CLIPTextModel",
    "CLIPTextModelWithProjection",
    "AutoencoderKL",
  ]);
  const { config, tensors } = file.get("UNet2DConditionModel")!;
  assert.equal([...tensors.names].length, 1680);
  assert.equal(architectureOf(tensors), "sdxl");
  assert.deepEqual(unusedOfText(file.get("CLIPTextModel")!), []);
  assert.deepEqual(unusedOfText(file.get("CLIPTextModelWithProjection")!), []);
  assert.deepEqual(unusedOf(config, tensors), []);
  const parsed = parseConfig(UNET_CONFIG, config, "");
  assert.deepEqual(parsed.attention_head_dim, [5, 10, 20]);
  assert.deepEqual(parsed.transformer_layers_per_block, [1, 2, 10]);
  assert.deepEqual(parsed.down_block_types, [
    "DownBlock2D",
    "CrossAttnDownBlock2D",
    "CrossAttnDownBlock2D",
  ]);
  assert.equal(parsed.projection_class_embeddings_input_dim, 2816);
  assert.equal(
    SD_FILES.defaults(config, "sdxl.safetensors").className,
    "StableDiffusionXLPipeline",
  );
});

Deno.test("all tensors of a file of SDXL's refiner are known and used, and its configuration is the published one", () => {
  const file = read({
    ...prefixed(DENOISER, ldmUnet(REFINER)),
    ...prefixed("first_stage_model.", ldmVae()),
    ...prefixed("conditioner.embedders.0.model.", openClip()),
  });
  assert.deepEqual([...file.keys()], [
    "UNet2DConditionModel",
    "CLIPTextModelWithProjection",
    "AutoencoderKL",
  ]);
  const { config, tensors } = file.get("UNet2DConditionModel")!;
  assert.deepEqual(unusedOf(config, tensors), []);
  const parsed = parseConfig(UNET_CONFIG, config, "");
  assert.deepEqual(parsed.attention_head_dim, [6, 12, 24, 24]);
  assert.deepEqual(parsed.transformer_layers_per_block, [1, 4, 4, 4]);
  assert.equal(parsed.projection_class_embeddings_input_dim, 2560);
  const { className, settings } = SD_FILES.defaults(config, "refiner.safetensors");
  assert.equal(className, "StableDiffusionXLImg2ImgPipeline");
  assert.equal(settings["requires_aesthetics_score"], true);
});

Deno.test("all tensors of Kolors' UNet are known and used, under the original names and those of diffusers", () => {
  const projection = layer("encoder_hid_proj", 2048, 4096);
  const original = read({ ...ldmUnet({ ...SDXL, added: 4096 + 6 * 256 }), ...projection })
    .get("UNet2DConditionModel")!;
  const names = [...original.tensors.names];
  const converted = read(
    Object.fromEntries(names.map((name) => [name, original.tensors.find(name)!.shape])),
  ).get("UNet2DConditionModel")!;
  for (const { config, tensors } of [original, converted]) {
    // The pipeline reads these.
    assert.deepEqual(unusedOf(config, tensors).toSorted(), Object.keys(projection).toSorted());
    assert.deepEqual([config["encoder_hid_dim_type"], config["encoder_hid_dim"]], [
      "text_proj",
      4096,
    ]);
    const { className, scheduler } = SD_FILES.defaults(config, "model.safetensors");
    assert.deepEqual([className, scheduler["beta_end"]], ["KolorsPipeline", 0.014]);
  }
});

Deno.test("UNets alone are known: of SD 2, for inpainting, of pruned SDXL", () => {
  const second = read(ldmUnet({ ...SD1, context: 1024, isLinear: true }))
    .get("UNet2DConditionModel")!;
  assert.deepEqual(second.config["attention_head_dim"], [5, 10, 20, 20]);
  assert.deepEqual(unusedOf(second.config, second.tensors), []);
  const typeOf = (path: string) =>
    SD_FILES.defaults(second.config, path).scheduler["prediction_type"];
  assert.equal(typeOf("v2-1_768-ema-pruned.safetensors"), "v_prediction");
  assert.equal(typeOf("v2-1_512-ema-pruned.safetensors"), "epsilon");

  const inpainting = read(prefixed(DENOISER, ldmUnet({ ...SD1, inChannels: 9 })))
    .get("UNet2DConditionModel")!;
  assert.equal(inpainting.config["in_channels"], 9);

  const classes = [[SD1, ""], [SDXL, "XL"]] as const;
  for (const [sizes, kind] of classes) {
    const { config } = read(prefixed(DENOISER, ldmUnet({ ...sizes, inChannels: 8 })))
      .get("UNet2DConditionModel")!;
    const { className } = SD_FILES.defaults(config, "edit.safetensors");
    assert.equal(className, `StableDiffusion${kind}InstructPix2PixPipeline`);
  }

  const spacing = (sizes: UnetSizes, path: string) => {
    const { config } = read(ldmUnet(sizes)).get("UNet2DConditionModel")!;
    const { scheduler, settings } = SD_FILES.defaults(config, path);
    return [scheduler["_class_name"], scheduler["timestep_spacing"], settings["distilled_steps"]];
  };
  const ancestral = ["EulerAncestralDiscreteScheduler", "trailing", undefined];
  assert.deepEqual(spacing(SDXL, "sd_xl_turbo_1.0_fp16.safetensors"), ancestral);
  assert.deepEqual(spacing(SDXL, "sdxl_lightning_8step.safetensors"), [
    "EulerDiscreteScheduler",
    "trailing",
    8,
  ]);

  const pruned = read(ldmUnet({ ...SDXL, depths: [0, 2, 4], midDepth: 4 }))
    .get("UNet2DConditionModel")!;
  assert.deepEqual(pruned.config["transformer_layers_per_block"], [1, 2, 4]);
  assert.deepEqual(unusedOf(pruned.config, pruned.tensors), []);
});

Deno.test("all tensors of a ControlNet-LLLite for SDXL are known and used, and have the widths of its attentions", () => {
  const places = [
    ...[4, 5].map((i) => [`input_blocks_${i}_1`, 640, 2, [4, 4]] as const),
    ...[7, 8].map((i) => [`input_blocks_${i}_1`, 1280, 10, [4, 4, 2]] as const),
    ["middle_block_1", 1280, 10, [4, 4, 2]] as const,
  ];
  const [embedding, hidden] = [32, 64];
  const shapes = places.flatMap(([place, width, depth, kernels]) =>
    Array.from(
      { length: depth },
      (_, i) =>
        ["attn1_to_q", "attn1_to_k", "attn1_to_v", "attn2_to_q"].map((part) => {
          const name = `lllite_unet_${place}_transformer_blocks_${i}_${part}`;
          const channels = [3, ...kernels.map((_, k) => k === kernels.length - 1 ? embedding : 16)];
          return Object.assign(
            {
              ...layer(`${name}.down.0`, hidden, width),
              ...layer(`${name}.mid.0`, hidden, hidden + embedding),
              ...layer(`${name}.up.0`, width, hidden),
            },
            ...kernels.map((side, k) =>
              conv(`${name}.conditioning1.${2 * k}`, channels[k + 1]!, channels[k]!, side)
            ),
          ) as Shapes;
        }),
    ).flat()
  );
  const { config: json, tensors } = read(Object.assign({}, ...shapes)).get("ControlNetLLLite")!;
  const config = parseConfig(LLLITE_CONFIG, json, "");
  assert.equal(Object.keys(config.modules).length, 136);
  const weights = new Weights(tensors);
  const graph = new Graph("model", LARGE);
  const input = (...shape: number[]) => graph.use(new DeviceTensor("input", shape, "f32"));
  const pictures = lllitePictures(config, weights.root, input(1, 192, 128, 3));
  for (const [i, module] of Object.values(config.modules).entries()) {
    const picture = pictures[i]!;
    const x = input(1, picture.dim(1), module.width);
    llliteInput(module, weights.root, x, picture, input(1));
  }
  assert.deepEqual(weights.unused, []);
  const unet = read(ldmUnet(SDXL)).get("UNet2DConditionModel")!;
  const known = transformerModules(parseConfig(UNET_CONFIG, unet.config, ""));
  const widths = new Map(known.map(({ name, channels }) => [name, channels]));
  for (const [name, { width }] of Object.entries(config.modules)) {
    assert.equal(widths.get(name.replace(/\.attn\d\.to_\w$/, "")), width, name);
  }
});

Deno.test("all tensors of ControlNets for SD 1.5 and SDXL are known and used, under the names of their authors and of diffusers", () => {
  const files = [
    [ldmControlNet(SD1), 340, 361_279_120],
    [ldmControlNet({ ...SD1, context: 1024, isLinear: true }), 340, 364_228_240],
    [ldmControlNet(SDXL), 844, 1_251_014_160],
  ] as const;
  for (const [shapes, tensors, parameters] of files) {
    const original = read(prefixed("control_model.", shapes)).get("ControlNetModel")!;
    const renamed = [...original.tensors.names].map((name) =>
      [name, original.tensors.find(name)!.shape] as const
    );
    const converted = read(Object.fromEntries(renamed)).get("ControlNetModel")!;
    for (const file of [original, converted]) {
      assert.deepEqual(unusedOf(file.config, file.tensors), []);
    }
    const sizes = renamed.map(([, shape]) => shape.reduce((product, size) => product * size, 1));
    assert.deepEqual([sizes.length, sizes.reduce((sum, size) => sum + size)], [
      tensors,
      parameters,
    ]);
  }
  const { config } = read(ldmControlNet(SDXL)).get("ControlNetModel")!;
  assert.deepEqual(parseConfig(SD_CONTROLNET_CONFIG, config, "").transformer_layers_per_block, [
    ...[1, 2, 10],
  ]);
  const difference = read({ ...ldmControlNet(SD1), difference: [] }).get("ControlNetModel")!;
  assert.throws(
    () => parseConfig(SD_CONTROLNET_CONFIG, difference.config, ""),
    /a ControlNet's difference to a model, and not its weights, is not supported/,
  );
});

/** A Control-LoRA of Stability AI: factors of all layers and convolutions but those of the picture. */
function controlLora(sizes: UnetSizes, rank: number): Shapes {
  const all = Object.entries(ldmControlNet(sizes)).flatMap(([name, shape]) => {
    const [rows, ...columns] = shape;
    const isWhole = /^(?:input_hint_block|zero_convs|middle_block_out)\./.test(name);
    if (isWhole || columns.length === 0) return [[name, shape]];
    const module = name.replace(/\.weight$/, "");
    return [[`${module}.up`, [rows!, rank]], [`${module}.down`, [rank, ...columns]]];
  });
  return { ...Object.fromEntries(all), lora_controlnet: [] };
}

Deno.test("all tensors of a Control-LoRA for SDXL are known and used, and change what the UNet beside it has", () => {
  const base = read(prefixed(DENOISER, ldmUnet(SDXL))).get("UNet2DConditionModel")!;
  const file = read(controlLora(SDXL, 128)).get("ControlNetModel")!;
  const { tensors, change } = openLowRank(file.tensors, base.tensors, CONTROL_LORA);
  assert.deepEqual(unusedOf(CONTROL_LORA.config(file.config, base.config), tensors), []);
  const whole = read(ldmControlNet(SDXL)).get("ControlNetModel")!;
  assert.deepEqual([...tensors.names].toSorted(), [...whole.tensors.names].toSorted());
  const weights = [...whole.tensors.names].filter((name) =>
    name.endsWith(".weight") && !name.startsWith("controlnet_") &&
    whole.tensors.find(name)!.shape.length > 1
  );
  assert.deepEqual(
    change.changes.map(({ module }) => `${module}.weight`).toSorted(),
    weights.toSorted(),
  );
  const other = read(prefixed(DENOISER, ldmUnet(SD1))).get("UNet2DConditionModel")!;
  assert.throws(
    () => openLowRank(file.tensors, other.tensors, CONTROL_LORA),
    /which the model lacks|of another size/,
  );
});
