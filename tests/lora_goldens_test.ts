/** Adapter files of every dialect against the reference: what each changes in each module. */
import { strict as assert } from "node:assert";
import { readAdapter } from "../models/adapters/read_adapter.ts";
import type {
  AdaptableComponent,
  Adapter,
  AdapterTensor,
  WeightChange,
} from "../models/adapters/types.ts";
import { ORIGINAL_WAN } from "../models/families/wan/layouts.ts";
import { ORIGINAL_Z_IMAGE } from "../models/families/z_image/layouts.ts";
import type { Layout } from "../models/layouts.ts";
import {
  Checkpoint,
  decodeElements,
  dequantize,
  type DType,
  encodeElements,
} from "../runtime/mod.ts";
import { componentOf, madeUpComponent, ourName } from "./adaptable.ts";
import { changedWeight, type Use } from "./adapter_reference.ts";
import { assertClose, Golden, type Values } from "./golden.ts";

const GOLDEN = new Golden("lora");
const ROOT = GOLDEN.folder.slice(0, -"lora".length);

/** The stored changes are f32; nothing else rounds. */
const GATE = 5e-7;
/** Files of 16 bits whose factors diffusers multiplies with alpha / rank and rounds again. */
const ROUNDED: readonly string[] = ["kohya.safetensors", "comfyui-alpha.safetensors"];

/** FLUX.1 as BFL and XLabs call it; no model of ours yet, so the tables are here. */
const FLUX_WIDTH = 24;
const BFL: Layout = {
  name: "original FLUX.1",
  prefixes: [],
  entries: [
    join(
      "double_blocks.*.img_attn.qkv",
      "transformer_blocks.*.attn.to_q",
      "transformer_blocks.*.attn.to_k",
      "transformer_blocks.*.attn.to_v",
    ), // deno-fmt-ignore
    join("double_blocks.*.txt_attn.qkv", "transformer_blocks.*.attn.add_q_proj", "transformer_blocks.*.attn.add_k_proj", "transformer_blocks.*.attn.add_v_proj"), // deno-fmt-ignore
    join("double_blocks.*.img_attn.proj", "transformer_blocks.*.attn.to_out.0"),
    join("double_blocks.*.img_mlp.0", "transformer_blocks.*.ff.net.0.proj"),
    join("double_blocks.*.txt_mod.lin", "transformer_blocks.*.norm1_context.linear"),
    join("single_blocks.*.linear2", "single_transformer_blocks.*.proj_out"),
  ],
};
const XLABS: Layout = {
  name: "XLabs",
  prefixes: [],
  entries: [
    join(
      "double_blocks.*.processor.qkv_lora1",
      "transformer_blocks.*.attn.to_q",
      "transformer_blocks.*.attn.to_k",
      "transformer_blocks.*.attn.to_v",
    ), // deno-fmt-ignore
    join("double_blocks.*.processor.qkv_lora2", "transformer_blocks.*.attn.add_q_proj", "transformer_blocks.*.attn.add_k_proj", "transformer_blocks.*.attn.add_v_proj"), // deno-fmt-ignore
    join("double_blocks.*.processor.proj_lora1", "transformer_blocks.*.attn.to_out.0"),
    join("double_blocks.*.processor.proj_lora2", "transformer_blocks.*.attn.to_add_out"),
    join(
      "single_blocks.*.processor.qkv_lora",
      "single_transformer_blocks.*.attn.to_q",
      "single_transformer_blocks.*.attn.to_k",
      "single_transformer_blocks.*.attn.to_v",
    ), // deno-fmt-ignore
    join("single_blocks.*.processor.proj_lora", "single_transformer_blocks.*.proj_out"),
  ],
};
function join(theirs: string, ...ours: string[]) {
  return { theirs, ours };
}

function fluxComponent(): AdaptableComponent {
  const d = FLUX_WIDTH;
  const double = "transformer_blocks.0";
  const single = "single_transformer_blocks.7";
  const square = [
    "to_q",
    "to_k",
    "to_v",
    "to_out.0",
    "add_q_proj",
    "add_k_proj",
    "add_v_proj",
    "to_add_out",
  ]; // deno-fmt-ignore
  return madeUpComponent("FLUX.1", {
    ...Object.fromEntries(square.map((name) => [`${double}.attn.${name}`, [d, d]])),
    [`${double}.ff.net.0.proj`]: [4 * d, d],
    [`${double}.norm1_context.linear`]: [6 * d, d],
    ...Object.fromEntries(["q", "k", "v"].map((name) => [`${single}.attn.to_${name}`, [d, d]])),
    [`${single}.proj_out`]: [d, 5 * d],
  }, [BFL, XLABS]);
}

function zImageComponent(): AdaptableComponent {
  const square = ["to_q", "to_k", "to_v", "to_out.0"].map((name) =>
    [`layers.3.attention.${name}`, [FLUX_WIDTH, FLUX_WIDTH]] as const
  );
  return madeUpComponent("Z-Image", Object.fromEntries(square), [ORIGINAL_Z_IMAGE]);
}

/** A weight, row by row. */
interface BaseWeight {
  readonly rows: number;
  readonly data: Float64Array;
}

/** A model's weights by our names, or zeros of the shapes that it has. */
interface Base {
  readonly component: AdaptableComponent;
  weightOf(module: string): BaseWeight;
}

function openBase(name: string | null, call: string): Base & Disposable {
  if (name === null) {
    const component = call.startsWith("flux") ? fluxComponent() : zImageComponent();
    const weightOf = (module: string) => {
      const [rows, columns] = component.modules.find((each) => each.name === module)!.shape as [
        number,
        number,
      ];
      return { rows, data: new Float64Array(rows * columns) };
    };
    return { component, weightOf, [Symbol.dispose]: () => {} };
  }
  const isText = name.endsWith("text_encoder");
  const path = name === "lora/quantised" ? `${ROOT}${name}/wan-tiny-mixed.gguf` : `${ROOT}${name}`;
  const checkpoint = Checkpoint.open(path);
  const layouts = isText ? [] : [ORIGINAL_WAN];
  const component = componentOf(checkpoint, isText ? "text_encoder" : "transformer", layouts);
  return {
    component,
    weightOf: (module) => {
      const stored = [...checkpoint.names].find((each) =>
        each.replace(/\.weight$/, "") !== each &&
        ourName(each.replace(/\.weight$/, ""), layouts) === module
      )!;
      const { shape, format, byteLength } = checkpoint.find(stored)!;
      const bytes = new Uint8Array(byteLength);
      checkpoint.read(stored, 0, bytes);
      const data = format.startsWith("Q")
        ? Float64Array.from(dequantize(bytes, format.toLowerCase() as "q4_k"))
        : decodeElements(bytes, format.toLowerCase() as DType);
      return { rows: shape[0]!, data };
    },
    [Symbol.dispose]: () => checkpoint[Symbol.dispose](),
  };
}

/** The file of a golden that may be a folder. */
function fileOf(path: string): string {
  const full = `${GOLDEN.folder}/${path}`;
  if (path.endsWith(".safetensors")) return full;
  if (path.startsWith("peft")) return `${full}/adapter_model.safetensors`;
  const name = path === "diffusers" ? "/pytorch_lora_weights.safetensors" : ".safetensors";
  return full + name;
}

/** (W' - W) · probe, or W' - W of a vector. */
function probed({ rows, data }: BaseWeight, uses: readonly Use[]): Values {
  const change = changedWeight(data, rows, uses).map((value, i) => value - data[i]!);
  const columns = data.length / rows;
  if (columns === 1) return { shape: [rows], data: change };
  const probe = GOLDEN.tensor("probe", "vector").data;
  const sums = Array.from({ length: rows }, (_, row) => {
    let sum = 0;
    for (let i = 0; i < columns; i++) sum += change[row * columns + i]! * probe[i]!;
    return sum;
  });
  return { shape: [rows], data: sums };
}

/** The scale multiplied into the factor that it is multiplied into by diffusers, in the type of the file. */
function withRoundedScales(adapter: Adapter): Adapter {
  const rounded = (part: WeightChange): WeightChange => {
    if (part.kind !== "low-rank") return part;
    const { dtype, shape } = part.down;
    const values = elementsOf(part.down).map((value) => Math.fround(value * part.scale));
    return { ...part, scale: 1, down: { dtype, shape, bytes: encodeElements(values, dtype) } };
  };
  const changes = adapter.changes.map((each) => ({ ...each, weight: each.weight.map(rounded) }));
  return { ...adapter, changes };
}

function elementsOf({ bytes, dtype }: AdapterTensor): Float64Array {
  return decodeElements(bytes, dtype);
}

interface Listed {
  readonly path: string;
  readonly strength: number;
}

const CALLS = GOLDEN.calls.filter(({ args, name }) =>
  !name.startsWith("pipeline") && (args.adapters as Listed[] | undefined)?.length
);

for (const call of CALLS) {
  Deno.test(`readAdapter() of golden "${call.name}" changes the modules as ${call.args.reference}`, async () => {
    using base = openBase(call.args.base as string | null, call.name);
    const listed = call.args.adapters as Listed[];
    const adapters: [Adapter, number][] = [];
    for (const { path, strength } of listed) {
      const adapter = await readAdapter(fileOf(path), [base.component]);
      assert.deepEqual(adapter.unmatchedKeys, []);
      const rounded = call.args.reference === "diffusers" && ROUNDED.includes(path);
      adapters.push([rounded ? withRoundedScales(adapter) : adapter, strength]);
    }
    const uses = new Map<string, Use[]>();
    for (const [{ changes }, strength] of adapters) {
      for (const change of changes) {
        uses.set(change.module, [...uses.get(change.module) ?? [], { change, strength }]);
      }
    }
    const stored = GOLDEN.namesOf(call.name);
    const changed = [...uses].filter(([, all]) => all.some(({ change }) => change.weight.length));
    const expected = stored.filter((name) => name.startsWith("change."));
    assert.deepEqual(changed.map(([module]) => `change.${module}`).sort(), expected.sort());
    for (const [module, all] of changed) {
      const name = `change.${module}`;
      const actual = probed(base.weightOf(module), all);
      const reference = GOLDEN.tensor(call.name, name);
      assertClose(`${call.name} ${name}`, actual, reference, GATE);
    }
    const biased = [...uses].filter(([, all]) => all.some(({ change }) => change.bias));
    assert.deepEqual(
      biased.map(([module]) => `bias.${module}`).sort(),
      stored.filter((name) => name.startsWith("bias.")).sort(),
    );
    for (const [module, all] of biased) {
      const data = all.map(({ change, strength }) =>
        elementsOf(change.bias!).map((value) => strength * value)
      ).reduce((a, b) => a.map((value, i) => value + b[i]!));
      const reference = GOLDEN.tensor(call.name, `bias.${module}`);
      assertClose(`${call.name} bias.${module}`, { shape: [data.length], data }, reference, GATE);
    }
  });
}
