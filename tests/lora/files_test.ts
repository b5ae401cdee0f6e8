/** LoRA files of every dialect against the reference: what each changes in each module. */
import { strict as assert } from "node:assert";
import { AdaptedComponent } from "../../models/lora/adapted_component.ts";
import type { AdaptableComponent, LoraTensor } from "../../models/lora/types.ts";
import { ORIGINAL_FLUX1, XLABS_FLUX1 } from "../../models/families/flux1/layouts.ts";
import { ORIGINAL_Z_IMAGE } from "../../models/families/z_image/layouts.ts";
import { decodeElements, elementCount } from "../../runtime/mod.ts";
import { madeUpComponent } from "../support/adaptable.ts";
import { changedWeight, type Use } from "../support/lora_reference.ts";
import { assertClose, type GoldenCall, type Values } from "../support/golden.ts";
import { LORA_GOLDEN, loraCount, openLoraBase, readUsed } from "./golden.ts";

/** The stored changes are f32; nothing else rounds. */
const GATE = 5e-7;

const FLUX_WIDTH = 24;
const IMAGE = ["to_q", "to_k", "to_v"];
const TEXT = ["add_q_proj", "add_k_proj", "add_v_proj"];

function fluxComponent(): AdaptableComponent {
  const d = FLUX_WIDTH;
  const double = "transformer_blocks.0";
  const single = "single_transformer_blocks.7";
  const square = [...IMAGE, ...TEXT, "to_out.0", "to_add_out"];
  return madeUpComponent("FLUX.1", {
    ...Object.fromEntries(square.map((name) => [`${double}.attn.${name}`, [d, d]])),
    [`${double}.ff.net.0.proj`]: [4 * d, d],
    [`${double}.norm1_context.linear`]: [6 * d, d],
    ...Object.fromEntries(IMAGE.map((name) => [`${single}.attn.${name}`, [d, d]])),
    [`${single}.proj_out`]: [d, 5 * d],
  }, [ORIGINAL_FLUX1, XLABS_FLUX1]);
}

function zImageComponent(): AdaptableComponent {
  const square = [...IMAGE, "to_out.0"].map((name) =>
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

function openBase(call: GoldenCall): Base & Disposable {
  if (call.args.base === null) {
    const component = call.name.startsWith("flux") ? fluxComponent() : zImageComponent();
    const weightOf = (module: string) => {
      const { shape } = component.modules.find((each) => each.name === module)!;
      return { rows: shape[0]!, data: new Float64Array(elementCount(shape)) };
    };
    return { component, weightOf, [Symbol.dispose]: () => {} };
  }
  const { weights, target, layouts, [Symbol.dispose]: dispose } = openLoraBase(call);
  return {
    component: new AdaptedComponent(weights, { target, family: "Wan", layouts }).info,
    weightOf: (module) => {
      const name = weights.has(`${module}.weight`) ? `${module}.weight` : module;
      const parts = [...weights.storedRows(name)];
      const data = Float64Array.from(parts.flatMap(({ rows }) => [...rows]));
      const { shape } = [...weights.tensors()].find((each) => each.name === name)!;
      return { rows: shape[0]!, data };
    },
    [Symbol.dispose]: dispose,
  };
}

/** (W' - W) · probe, or W' - W of a vector. */
function probed({ rows, data }: BaseWeight, uses: readonly Use[]): Values {
  const change = changedWeight(data, rows, uses).map((value, i) => value - data[i]!);
  const columns = data.length / rows;
  if (columns === 1) return { shape: [rows], data: change };
  const probe = LORA_GOLDEN.tensor("probe", "vector").data;
  const sums = Array.from({ length: rows }, (_, row) => {
    let sum = 0;
    for (let i = 0; i < columns; i++) sum += change[row * columns + i]! * probe[i]!;
    return sum;
  });
  return { shape: [rows], data: sums };
}

function elementsOf({ bytes, dtype }: LoraTensor): Float64Array {
  return decodeElements(bytes, dtype);
}

const CALLS = LORA_GOLDEN.calls.filter((call) =>
  !call.name.startsWith("pipeline") && loraCount(call) > 0
);

for (const call of CALLS) {
  Deno.test(`readLora() of golden "${call.name}" changes the modules as ${call.args.reference}`, async () => {
    using base = openBase(call);
    const loras = await readUsed(call, [base.component]);
    for (const { lora } of loras) assert.deepEqual(lora.unmatchedKeys, []);
    const uses = new Map<string, Use[]>();
    for (const { lora: { changes }, strength } of loras) {
      for (const change of changes) {
        uses.set(change.module, [...uses.get(change.module) ?? [], { change, strength }]);
      }
    }
    const stored = LORA_GOLDEN.namesOf(call.name);
    const changed = [...uses].filter(([, all]) => all.some(({ change }) => change.weight.length));
    const expected = stored.filter((name) => name.startsWith("change."));
    assert.deepEqual(changed.map(([module]) => `change.${module}`).sort(), expected.sort());
    for (const [module, all] of changed) {
      const name = `change.${module}`;
      const actual = probed(base.weightOf(module), all);
      const reference = LORA_GOLDEN.tensor(call.name, name);
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
      const reference = LORA_GOLDEN.tensor(call.name, `bias.${module}`);
      assertClose(`${call.name} bias.${module}`, { shape: [data.length], data }, reference, GATE);
    }
  });
}
