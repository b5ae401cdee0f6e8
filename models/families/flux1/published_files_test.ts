/** Files as people have them: all names and shapes of FLUX.1's published checkpoints, without their numbers. */
import assert from "node:assert/strict";
import { LARGE, layer, repeated, type Shapes } from "../../../tests/support/published_shapes.ts";
import { memoryTensors } from "../../../tests/support/memory_tensors.ts";
import { safetensorsHeader } from "../../../tests/support/safetensors_header.ts";
import { DeviceTensor, Graph, type Tensor, Weights } from "../../../runtime/mod.ts";
import { recognise } from "../../checkpoints/recognise.ts";
import { hiddenSize, parseConfig } from "../../config.ts";
import { embeddingLayers } from "../../blocks/layers.ts";
import { CLIP_TEXT_CONFIG, clipPooled, clipStates } from "../../text_encoders/clip_text.ts";
import { T5_CONFIG } from "../../text_encoders/t5.ts";
import { umt5Encoder } from "../../text_encoders/umt5.ts";
import {
  controlModes,
  drawsAfterPicture,
  FLUX1_CONTROLNET_CONFIG,
  FLUX1_TRANSFORMER_CONFIG,
  isFill,
} from "./config.ts";
import { flux1Control } from "./control.ts";
import { FLUX1_FILES } from "./layouts.ts";
import { ALL_TOKENS } from "../../sharing/token_split.ts";
import {
  blockModulationOf,
  blockTables,
  EMBEDDING_CHANNELS,
  modulationOf,
  modulationTables,
} from "./modulation.ts";
import { flux1Context } from "./blocks.ts";
import { flux1Transformer } from "./transformer.ts";

const DIM = 3072;
/** Under the names of Black Forest Labs. */
function original(isDev: boolean, channels = 64): Shapes {
  const embedder = (name: string, width: number) => ({
    ...layer(`${name}.in_layer`, DIM, width),
    ...layer(`${name}.out_layer`, DIM, DIM),
  });
  const norms = (name: string): Shapes => ({
    [`${name}.query_norm.scale`]: [128],
    [`${name}.key_norm.scale`]: [128],
  });
  const stream = (name: string) => ({
    ...layer(`${name}_mod.lin`, 6 * DIM, DIM),
    ...layer(`${name}_attn.qkv`, 3 * DIM, DIM),
    ...norms(`${name}_attn.norm`),
    ...layer(`${name}_attn.proj`, DIM, DIM),
    ...layer(`${name}_mlp.0`, 4 * DIM, DIM),
    ...layer(`${name}_mlp.2`, DIM, 4 * DIM),
  });
  return {
    ...layer("img_in", DIM, channels),
    ...layer("txt_in", DIM, 4096),
    ...embedder("time_in", 256),
    ...embedder("vector_in", 768),
    ...isDev ? embedder("guidance_in", 256) : {},
    ...repeated(19, (i) => ({
      ...stream(`double_blocks.${i}.img`),
      ...stream(`double_blocks.${i}.txt`),
    })),
    ...repeated(38, (i) => ({
      ...layer(`single_blocks.${i}.linear1`, 7 * DIM, DIM),
      ...layer(`single_blocks.${i}.linear2`, DIM, 5 * DIM),
      ...layer(`single_blocks.${i}.modulation.lin`, 3 * DIM, DIM),
      ...norms(`single_blocks.${i}.norm`),
    })),
    ...layer("final_layer.adaLN_modulation.1", 2 * DIM, DIM),
    ...layer("final_layer.linear", 64, DIM),
  };
}

/** Under the names of diffusers, without the layers that only transformers have. */
function diffusersBlocks(isDev: boolean, double: number, single: number): Shapes {
  const attention = (name: string, layers: readonly string[], norms: readonly string[]) =>
    Object.assign(
      {},
      ...layers.map((each) => layer(`${name}.attn.${each}`, DIM, DIM)),
      ...norms.map((each) => ({ [`${name}.attn.${each}.weight`]: [128] })),
    ) as Shapes;
  const qkv = ["to_q", "to_k", "to_v"];
  const embedder = (name: string, width: number) => ({
    ...layer(`time_text_embed.${name}.linear_1`, DIM, width),
    ...layer(`time_text_embed.${name}.linear_2`, DIM, DIM),
  });
  return {
    ...layer("x_embedder", DIM, 64),
    ...layer("context_embedder", DIM, 4096),
    ...embedder("timestep_embedder", 256),
    ...embedder("text_embedder", 768),
    ...isDev ? embedder("guidance_embedder", 256) : {},
    ...repeated(double, (i) => {
      const block = `transformer_blocks.${i}`;
      return {
        ...layer(`${block}.norm1.linear`, 6 * DIM, DIM),
        ...layer(`${block}.norm1_context.linear`, 6 * DIM, DIM),
        ...attention(
          block,
          [...qkv, "add_q_proj", "add_k_proj", "add_v_proj", "to_out.0", "to_add_out"],
          ["norm_q", "norm_k", "norm_added_q", "norm_added_k"],
        ),
        ...layer(`${block}.ff.net.0.proj`, 4 * DIM, DIM),
        ...layer(`${block}.ff.net.2`, DIM, 4 * DIM),
        ...layer(`${block}.ff_context.net.0.proj`, 4 * DIM, DIM),
        ...layer(`${block}.ff_context.net.2`, DIM, 4 * DIM),
      };
    }),
    ...repeated(single, (i) => {
      const block = `single_transformer_blocks.${i}`;
      return {
        ...attention(block, qkv, ["norm_q", "norm_k"]),
        ...layer(`${block}.norm.linear`, 3 * DIM, DIM),
        ...layer(`${block}.proj_mlp`, 4 * DIM, DIM),
        ...layer(`${block}.proj_out`, DIM, 5 * DIM),
      };
    }),
  };
}

/** Under the names of diffusers. */
function diffusers(isDev: boolean): Shapes {
  return {
    ...diffusersBlocks(isDev, 19, 38),
    ...layer("norm_out.linear", 2 * DIM, DIM),
    ...layer("proj_out", 64, DIM),
  };
}

/**
 * A ControlNet as InstantX and Shakker-Labs publish them. No listing of their files is public, so the names are those
 * that loaders written for these files ask for (ComfyUI's `load_controlnet_flux_instantx`), and the test compares the
 * size of the file that they make with the published one's.
 */
function controlNet(double: number, single: number, modes?: number): Shapes {
  return {
    ...diffusersBlocks(true, double, single),
    ...layer("controlnet_x_embedder", DIM, 64),
    ...repeated(double, (i) => layer(`controlnet_blocks.${i}`, DIM, DIM)),
    ...repeated(single, (i) => layer(`controlnet_single_blocks.${i}`, DIM, DIM)),
    ...modes ? { "controlnet_mode_embedder.weight": [modes, DIM] } : {},
  };
}

/** One of XLabs, whose own code (x-flux, `ControlNetFlux`) names its modules; no guidance in schnell's. */
function xlabsControlNet(): Shapes {
  const own = Object.entries(original(true)).filter(([name]) =>
    !/^(?:single_blocks|final_layer|double_blocks\.(?![01]\.))/.test(name)
  );
  return {
    ...Object.fromEntries(own),
    ...repeated(2, (i) => layer(`controlnet_blocks.${i}`, DIM, DIM)),
    ...layer("pos_embed_input", DIM, 64),
    ...repeated(8, (i) => ({
      [`input_hint_block.${2 * i}.weight`]: [16, i === 0 ? 3 : 16, 3, 3],
      [`input_hint_block.${2 * i}.bias`]: [16],
    })),
  };
}

/** The component of a file, with its tensors under our names. */
function only(shapes: Shapes) {
  const [found, ...others] = recognise(memoryTensors(shapes), FLUX1_FILES.formats);
  assert.ok(found && others.length === 0);
  return { format: found.format, json: found.format.config(found.tensors), source: found.tensors };
}

/** Traces a forward pass; a tensor that is missing is an error. Gives those that are not used. */
function unusedBy(
  weights: Weights,
  trace: (graph: Graph, input: (...shape: number[]) => Tensor, index: Tensor) => unknown,
): string[] {
  const graph = new Graph("model", LARGE);
  const input = (...shape: number[]) => graph.use(new DeviceTensor("input", shape, "f32"));
  trace(graph, input, graph.use(new DeviceTensor("index", [1], "u32")));
  return weights.unused;
}

Deno.test("all tensors of FLUX.1 dev and schnell are known and used, under the names of BFL and of diffusers", () => {
  for (const isDev of [true, false]) {
    const files = [
      original(isDev),
      Object.fromEntries(
        Object.entries(original(isDev)).map(([name, shape]) => [
          `model.diffusion_model.${name}`,
          shape,
        ]),
      ),
      diffusers(isDev),
    ];
    for (const shapes of files) {
      const { format, json, source } = only(shapes);
      assert.equal(format.className, "FluxTransformer2DModel");
      const config = parseConfig(FLUX1_TRANSFORMER_CONFIG, json, "config.json");
      assert.equal(config.guidance_embeds, isDev);
      assert.deepEqual([config.num_layers, config.num_single_layers], [19, 38]);
      assert.equal(hiddenSize(config), DIM);
      const weights = new Weights(source);
      const unused = unusedBy(weights, (graph, input, step) => {
        const { root } = weights;
        const embedder = root.scope("time_text_embed").scope("text_embedder");
        const summary = embeddingLayers(embedder, input(1, 768), DIM);
        const [times, guidance] = [input(1, EMBEDDING_CHANNELS), input(1, EMBEDDING_CHANNELS)];
        return flux1Transformer(graph, config, root, {
          context: flux1Context(config, root, input(1, 8, 4096)),
          sample: input(1, 4, 64),
          grids: [{ rows: 2, columns: 2 }],
          modulation: modulationOf(
            modulationTables(config, root, { timesteps: times, guidance, summary }),
            step,
            DIM,
          ),
        });
      });
      assert.deepEqual(unused, []);
    }
  }
});

/** Blocks and modes of ControlNets, and the bytes of their files: Union and Union Pro, Union Pro 2.0, Canny and Upscaler. */
const PUBLISHED = [
  ...[[5, 10, 10, 6_603_953_920], [6, 0, undefined, 4_281_779_224]] as const,
  [5, 0, undefined, 3_583_232_168],
] as const;

Deno.test("all tensors of FLUX.1's ControlNets are known and used: Union, Union Pro 2.0, Canny; those of XLabs are refused", () => {
  for (const [double, single, modes, bytes] of PUBLISHED) {
    const shapes = controlNet(double, single, modes);
    assert.equal(safetensorsHeader(shapes, "torch").fileSize, bytes);
    const { format, json, source } = only(shapes);
    assert.equal(format.className, "FluxControlNetModel");
    const config = parseConfig(FLUX1_CONTROLNET_CONFIG, json, "config.json");
    assert.deepEqual(
      [config.num_layers, config.num_single_layers, config.num_mode ?? undefined],
      [double, single, modes],
    );
    assert.equal(controlModes(config)?.length, modes && 7);
    const weights = new Weights(source);
    const unused = unusedBy(weights, (graph, input, step) => {
      const { root } = weights;
      const embedder = root.scope("time_text_embed").scope("text_embedder");
      const times = {
        timesteps: input(1, EMBEDDING_CHANNELS),
        guidance: input(1, EMBEDDING_CHANNELS),
        summary: embeddingLayers(embedder, input(1, 768), DIM),
      };
      const steps = flux1Control(graph, config, root, {
        context: flux1Context(config, root, input(1, 8, 4096)),
        ...{ sample: input(1, 4, 64), picture: input(1, 4, 64), scale: input(1) },
        mode: modes ? step : undefined,
        grid: { rows: 2, columns: 2 },
        modulation: blockModulationOf(blockTables(config, root, times), step, DIM),
      })(ALL_TOKENS, 8, { double: 19, single: 38 });
      let beside: typeof steps.begin | undefined = steps.begin;
      for (let i = 0; i < 19; i++) {
        beside = steps.double({ x: input(1, 4, DIM), control: beside }, i).control;
      }
      let control = steps.single(beside!.own, input(1, 12, DIM));
      for (let i = 0; i < 38; i++) {
        ({ control } = steps.singles({ x: input(1, 12, DIM), control }, i));
      }
    });
    // Of six blocks each serves four of the nineteen in turn, in diffusers too, so that the last is left over.
    const left = double === 6 ? /^(?:transformer|controlnet)_blocks\.5\./ : /^$/;
    assert.deepEqual(unused.filter((name) => !left.test(name)), []);
  }
  const converted = {
    ...controlNet(2, 0),
    "input_hint_block.conv_in.weight": [16, 3, 3, 3],
  };
  for (const shapes of [xlabsControlNet(), converted]) {
    const { format, json } = only(shapes);
    assert.equal(format.className, "FluxControlNetModel");
    assert.throws(
      () => parseConfig(FLUX1_CONTROLNET_CONFIG, json, "config.json"),
      /as XLabs' ControlNets read them, are not supported/,
    );
  }
});

Deno.test("FLUX.1's files go by guidance, width and their names", () => {
  const of = (isDev: boolean, path: string) =>
    FLUX1_FILES.defaults({ guidance_embeds: isDev }, path);
  const schnell = of(false, "/base/flux1-schnell-Q4_K_S.gguf");
  assert.equal(schnell.className, "FluxPipeline");
  assert.deepEqual([schnell.scheduler["shift"], schnell.scheduler["use_dynamic_shifting"]], [
    1,
    false,
  ]);
  assert.equal(schnell.repositories[0], "black-forest-labs/FLUX.1-schnell");
  const dev = of(true, "flux1-dev.safetensors");
  assert.deepEqual([dev.scheduler["shift"], dev.scheduler["use_dynamic_shifting"]], [3, true]);
  const kontext = of(true, "/kontext/flux1-Kontext-dev_fp8.safetensors");
  assert.equal(kontext.className, "FluxKontextPipeline");
  assert.equal(kontext.repositories[0], "black-forest-labs/FLUX.1-Kontext-dev");
  const { json } = only(original(true, 384));
  assert.ok(isFill(parseConfig(FLUX1_TRANSFORMER_CONFIG, json, "config.json")));
  const fill = FLUX1_FILES.defaults(json, "flux1-fill-dev.safetensors");
  assert.equal(fill.className, "FluxFillPipeline");
  assert.equal(fill.repositories[0], "black-forest-labs/FLUX.1-Fill-dev");
  const { json: beside } = only(original(true, 128));
  const config = parseConfig(FLUX1_TRANSFORMER_CONFIG, beside, "config.json");
  assert.deepEqual([drawsAfterPicture(config), isFill(config)], [true, false]);
  const control = FLUX1_FILES.defaults(beside, "flux1-canny-dev.safetensors");
  assert.equal(control.className, "FluxControlPipeline");
});

const RELATIVE_BIAS = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";

Deno.test("all tensors of T5-XXL and of CLIP-L are known and used", () => {
  const block = (i: number): Shapes => {
    const path = `encoder.block.${i}.layer`;
    return {
      ...Object.fromEntries(
        ["q", "k", "v", "o"].map((
          name,
        ) => [`${path}.0.SelfAttention.${name}.weight`, [4096, 4096]]),
      ),
      [`${path}.0.layer_norm.weight`]: [4096],
      [`${path}.1.layer_norm.weight`]: [4096],
      [`${path}.1.DenseReluDense.wi_0.weight`]: [10240, 4096],
      [`${path}.1.DenseReluDense.wi_1.weight`]: [10240, 4096],
      [`${path}.1.DenseReluDense.wo.weight`]: [4096, 10240],
    };
  };
  const body = {
    ...repeated(24, block),
    [RELATIVE_BIAS]: [32, 64],
    "encoder.final_layer_norm.weight": [4096],
  };
  for (const table of ["shared.weight", "encoder.embed_tokens.weight"]) {
    const t5 = only({ ...body, [table]: [32128, 4096] });
    assert.equal(t5.format.className, "T5EncoderModel");
    const weights = new Weights(t5.source);
    const config = parseConfig(T5_CONFIG, t5.json, "config.json");
    const unused = unusedBy(
      weights,
      (graph, input) => umt5Encoder(graph, config, weights.root, { embeddings: input(1, 8, 4096) }),
    );
    assert.deepEqual(unused, [table]);
  }

  const clip = only({
    "text_model.embeddings.token_embedding.weight": [49408, 768],
    "text_model.embeddings.position_embedding.weight": [77, 768],
    ...repeated(12, (i) => {
      const path = `text_model.encoder.layers.${i}`;
      return {
        ...Object.assign(
          {},
          ...["q_proj", "k_proj", "v_proj", "out_proj"].map((name) =>
            layer(`${path}.self_attn.${name}`, 768, 768)
          ),
        ) as Shapes,
        ...layer(`${path}.mlp.fc1`, 3072, 768),
        ...layer(`${path}.mlp.fc2`, 768, 3072),
        ...{ [`${path}.layer_norm1.weight`]: [768], [`${path}.layer_norm1.bias`]: [768] },
        ...{ [`${path}.layer_norm2.weight`]: [768], [`${path}.layer_norm2.bias`]: [768] },
      };
    }),
    "text_model.final_layer_norm.weight": [768],
    "text_model.final_layer_norm.bias": [768],
  });
  assert.equal(clip.format.className, "CLIPTextModel");
  const config = parseConfig(CLIP_TEXT_CONFIG, clip.json, "config.json");
  assert.equal(config.num_attention_heads, 12);
  const weights = new Weights(clip.source);
  const unused = unusedBy(
    weights,
    (_graph, input, ends) => {
      const [states] = clipStates(config, weights.root, input(1, 77, 768), [12]);
      return clipPooled(config, weights.root, states!, ends);
    },
  );
  assert.deepEqual(unused, ["embeddings.token_embedding.weight"]);
});
