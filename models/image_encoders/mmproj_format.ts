/** Vision towers of Qwen in files of their own: `mmproj`. Source: llama.cpp's `Qwen2VLVisionModel`, `tensor_mapping.py`. */
import type { GgufValue, StoredTensor, TensorSource } from "../../runtime/mod.ts";
import { type ComponentFormat, countLayers, shapeOf } from "../checkpoints/component_format.ts";
import { Stated } from "../checkpoints/stated.ts";
import { type Segment, viewLayout, viewSegments } from "../checkpoints/layout_view.ts";
import { type Layout, renamed } from "../layouts.ts";

const TOWER = "visual.";

const BLOCK = `${TOWER}blocks.*`;
const DEEPSTACK = `${TOWER}deepstack_merger_list`;

const LLAMA_CPP_VISION: Layout = {
  name: "llama.cpp's vision tower",
  prefixes: [],
  entries: [
    renamed("v.post_ln", `${TOWER}merger.ln_q`),
    renamed("mm.*", `${TOWER}merger.mlp.*`),
    renamed("v.blk.*.ln1", `${BLOCK}.norm1`),
    renamed("v.blk.*.ln2", `${BLOCK}.norm2`),
    renamed("v.blk.*.attn_qkv", `${BLOCK}.attn.qkv`),
    renamed("v.blk.*.attn_out", `${BLOCK}.attn.proj`),
    ...["gate", "up", "down"].map((name) =>
      renamed(`v.blk.*.ffn_${name}`, `${BLOCK}.mlp.${name}_proj`)
    ),
  ],
};

/** Vision towers of Qwen2.5-VL in files of their own, with our names as in whole files of the text encoder. */
export const QWEN2_5_MMPROJ_FORMAT: ComponentFormat = {
  name: "a Qwen2.5-VL vision tower",
  component: "vision_tower",
  className: "Qwen2_5_VisionTransformerPretrainedModel",
  architecture: "clip",
  namings: [{
    probes: ["v.blk.0.ffn_gate.weight", "v.patch_embd.weight.1", "v.post_ln.weight"],
    view: (tensors) => joined(viewLayout(tensors, LLAMA_CPP_VISION)),
  }],
  config,
};

/** Of Qwen3-VL. The mergers of earlier layers have the numbers of these there. */
const LLAMA_CPP_VISION_3: Layout = {
  name: "llama.cpp's vision tower",
  prefixes: [],
  entries: [
    renamed("v.position_embd", `${TOWER}pos_embed`),
    renamed("v.post_ln", `${TOWER}merger.norm`),
    renamed("mm.0", `${TOWER}merger.linear_fc1`),
    renamed("mm.2", `${TOWER}merger.linear_fc2`),
    renamed("v.blk.*.ln1", `${BLOCK}.norm1`),
    renamed("v.blk.*.ln2", `${BLOCK}.norm2`),
    renamed("v.blk.*.attn_qkv", `${BLOCK}.attn.qkv`),
    renamed("v.blk.*.attn_out", `${BLOCK}.attn.proj`),
    renamed("v.blk.*.ffn_up", `${BLOCK}.mlp.linear_fc1`),
    renamed("v.blk.*.ffn_down", `${BLOCK}.mlp.linear_fc2`),
    renamed("v.deepstack.*.norm", `${DEEPSTACK}.*.norm`),
    renamed("v.deepstack.*.fc1", `${DEEPSTACK}.*.linear_fc1`),
    renamed("v.deepstack.*.fc2", `${DEEPSTACK}.*.linear_fc2`),
  ],
};

/** Vision towers of Qwen3-VL in files of their own. */
export const QWEN3_MMPROJ_FORMAT: ComponentFormat = {
  name: "a Qwen3-VL vision tower",
  component: "vision_tower",
  className: "Qwen3VLVisionModel",
  architecture: "clip",
  namings: [{
    probes: ["v.position_embd.weight", "v.patch_embd.weight.1", "mm.0.weight", "v.post_ln.bias"],
    view: (tensors) => numbered(joined(viewLayout(tensors, LLAMA_CPP_VISION_3))),
  }],
  config: (tensors, metadata) => {
    const said = qwen3VisionConfig(tensors, TOWER);
    const heads = new Stated(tensors, metadata, "clip.vision").number("attention.head_count");
    return { ...said, ...(heads !== undefined && { num_heads: heads }) };
  },
};

const VISION_HEADS = 16;

/** Layers that the first layers of the language model see, by the number of the tower's. */
const PUBLISHED_TAPS: Readonly<Record<number, readonly number[]>> = {
  24: [5, 11, 17],
  27: [8, 16, 24],
};

/** Source of what shapes do not tell: the published towers, of 24 or 27 layers. */
export function qwen3VisionConfig(tensors: TensorSource, tower: string): JsonConfig {
  const [dim, , , patchSize] = shapeOf(tensors, `${tower}patch_embed.proj.weight`, 5) as number[];
  const rows = (name: string) => shapeOf(tensors, `${tower}${name}.weight`, 2)[0]!;
  const depth = countLayers(tensors, `${tower}blocks.`);
  const taps = countLayers(tensors, `${tower}deepstack_merger_list.`);
  return {
    depth,
    hidden_size: dim!,
    intermediate_size: rows("blocks.0.mlp.linear_fc1"),
    num_heads: dim! % (4 * VISION_HEADS) === 0 ? VISION_HEADS : 1,
    patch_size: patchSize!,
    out_hidden_size: rows("merger.linear_fc2"),
    num_position_embeddings: rows("pos_embed"),
    deepstack_visual_indexes: [
      ...PUBLISHED_TAPS[depth] ??
        Array.from({ length: taps }, (_, i) => Math.floor((i + 1) * depth / (taps + 1))),
    ],
  };
}

/** Mergers of earlier layers, numbered from 0 on. */
function numbered(tensors: TensorSource): TensorSource {
  const layerOf = (name: string) => Number(name.slice(DEEPSTACK.length + 1).split(".")[0]);
  const names = [...tensors.names];
  const layers = new Set(names.filter((name) => name.startsWith(`${DEEPSTACK}.`)).map(layerOf));
  const order = [...layers].toSorted((a, b) => a - b);
  const views = names.map((name) => {
    const stored = tensors.find(name)!;
    const ours = name.startsWith(`${DEEPSTACK}.`)
      ? name.replace(/(?<=_list\.)\d+/, String(order.indexOf(layerOf(name))))
      : name;
    const { byteLength } = stored;
    return [ours, { ...stored, name: ours, segments: [{ name, start: 0, byteLength }] }] as const;
  });
  return viewSegments(tensors, new Map(views));
}

const NORM_EPS = 1e-6;
/** Width of the heads of all published towers. */
const HEAD_DIM = 80;

function config(
  tensors: TensorSource,
  metadata?: ReadonlyMap<string, GgufValue>,
): JsonConfig {
  const stated = new Stated(tensors, metadata, "clip.vision");
  const patches = shapeOf(tensors, `${TOWER}patch_embed.proj.weight`, 5);
  const depth = countLayers(tensors, `${TOWER}blocks.`);
  const rows = (name: string) => shapeOf(tensors, `${TOWER}${name}.weight`, 2)[0]!;
  // Every so many layers one attends to everything.
  const interval = stated.number("n_wa_pattern") ?? 8;
  stated.check({
    block_count: depth,
    embedding_length: patches[0]!,
    patch_size: patches[4]!,
    "attention.layer_norm_epsilon": NORM_EPS,
  });
  return {
    depth,
    hidden_size: patches[0]!,
    intermediate_size: rows("blocks.0.mlp.gate_proj"),
    num_heads: stated.number("attention.head_count") ?? Math.max(1, patches[0]! / HEAD_DIM),
    patch_size: patches[4]!,
    out_hidden_size: rows("merger.mlp.2"),
    fullatt_block_indexes: interval < 1
      ? []
      : Array.from({ length: depth }, (_, i) => i).filter((i) => (i + 1) % interval === 0),
  };
}

type JsonConfig = ReturnType<ComponentFormat["config"]>;

function joined(tensors: TensorSource): TensorSource {
  const views = new Map<string, StoredTensor & { readonly segments: readonly Segment[] }>();
  for (const name of tensors.names) {
    const stored = tensors.find(name)!;
    const [, block, part, parameter] = /^v\.blk\.(\d+)\.attn_([qkv])\.(weight|bias)$/.exec(name) ??
      [];
    if (name === "v.patch_embd.weight.1" || part === "k" || part === "v") continue;
    if (name === "v.patch_embd.weight") {
      const ours = `${TOWER}patch_embed.proj.weight`;
      views.set(ours, framesOf(tensors, [stored, tensors.find(`${name}.1`)!]));
    } else if (name === "v.patch_embd.bias") {
      const { byteLength } = stored;
      const segments = [{ name, start: 0, byteLength }];
      views.set(`${TOWER}patch_embed.proj.bias`, { ...stored, segments });
    } else if (part === "q") {
      const parts = ["q", "k", "v"].map((each) => `v.blk.${block}.attn_${each}.${parameter}`);
      views.set(`${TOWER}blocks.${block}.attn.qkv.${parameter}`, rowsOf(tensors, parts));
    } else {
      const { byteLength } = stored;
      views.set(name, { ...stored, segments: [{ name, start: 0, byteLength }] });
    }
  }
  return viewSegments(
    tensors,
    new Map([...views].map(([name, view]) => [name, { ...view, name }])),
  );
}

function rowsOf(tensors: TensorSource, names: readonly string[]) {
  const parts = names.map((name) => tensors.find(name));
  const [first] = parts as [StoredTensor];
  const { shape: [rows = 0, ...others], format, byteLength } = first;
  const isAlike = parts.every((part) =>
    part?.format === format && part.shape.join() === first.shape.join()
  );
  if (!isAlike) throw unlike(tensors, names);
  return {
    ...first,
    shape: [names.length * rows, ...others],
    byteLength: names.length * byteLength,
    segments: names.map((name) => ({ name, start: 0, byteLength })),
  };
}

/** [dim, channels, side, side] of each frame as [dim, channels, frames, side, side]. */
function framesOf(tensors: TensorSource, frames: readonly [StoredTensor, StoredTensor]) {
  const [first, second] = frames;
  const { shape: [dim = 0, channels = 0, ...side], format, byteLength } = first;
  const isAlike = first.shape.length === 4 && second.format === format &&
    second.shape.join() === first.shape.join();
  if (!isAlike) throw unlike(tensors, frames.map(({ name }) => name));
  const length = byteLength / (dim * channels);
  return {
    ...first,
    shape: [dim, channels, frames.length, ...side],
    byteLength: frames.length * byteLength,
    segments: Array.from(
      { length: dim * channels },
      (_, i) => frames.map(({ name }) => ({ name, start: i * length, byteLength: length })),
    ).flat(),
  };
}

function unlike({ path }: TensorSource, names: readonly string[]): SyntaxError {
  return new SyntaxError(
    `Cannot read "${path}": ${
      names.map((name) => `"${name}"`).join(" and ")
    } must be alike; fetch it again`,
  );
}
