/** LoRAs of every kind on weights of every kind, against double precision. */
import assert from "node:assert/strict";
import {
  copyTo,
  decodeFloats,
  dequantize,
  type Device,
  DeviceTensor,
  encodeElements,
  Graph,
  instantiate,
  isWeightFormat,
  OutOfMemoryError,
  planMemory,
  runSequence,
  type StorageFormat,
  type TensorSource,
  Weights,
} from "../../runtime/mod.ts";
import { randomNormal } from "../../runtime/ops/ndarray.ts";
import { sampleBlocks } from "../../runtime/ops/sample_blocks.ts";
import {
  changeReference,
  changesOfAllKinds,
  loraOf,
  randomTensor,
} from "../../tests/support/lora_reference.ts";
import { assertClose, type Values } from "../../tests/support/golden.ts";
import { linearLayer, linearLayers } from "../blocks/layers.ts";
import { AdaptedComponent } from "./adapted_component.ts";
import { DeviceLoras } from "./device_loras.ts";
import type { AppliedLora, ModuleChange, WeightChange } from "./types.ts";
import { openTestDevice } from "../../tests/support/model_run.ts";

const [TOKENS, COLUMNS, ROWS] = [5, 256, 32];
const LAYERS = ["q", "k", "v", "o"];
const BASES = ["f32", "f16", "bf16", "q8_0", "q4_k", "f8_e4m3"] as const;

/** Layers q, k and v as one product, and o by itself, each with a bias. */
class SmallModel {
  readonly weights: Weights;
  readonly loras: DeviceLoras;
  readonly dropped: string[] = [];
  readonly x = randomNormal([TOKENS, COLUMNS], 1);
  readonly #base = new Map<string, Float32Array>();
  readonly #device: Device;

  constructor(device: Device, format: StorageFormat, maxIdleBytes?: number) {
    const stored = new Map<string, { bytes: Uint8Array; format: string; shape: number[] }>();
    for (const [i, name] of LAYERS.entries()) {
      const shape = [ROWS, COLUMNS];
      const bytes = isWeightFormat(format)
        ? sampleBlocks(shape, format, i, 0.3)
        : encodeElements(randomNormal(shape, i, 0.3).data, format);
      stored.set(`${name}.weight`, { bytes, format: format.toUpperCase(), shape });
      const bias = encodeElements(randomNormal([ROWS], i + 9).data, "f32");
      stored.set(`${name}.bias`, { bytes: bias, format: "F32", shape: [ROWS] });
      this.#base.set(
        `${name}.weight`,
        isWeightFormat(format) ? dequantize(bytes, format) : decodeFloats(bytes, format),
      );
      this.#base.set(`${name}.bias`, decodeFloats(bias, "f32"));
    }
    const source: TensorSource = {
      path: "memory",
      names: stored.keys(),
      find: (name) => {
        const found = stored.get(name);
        return found && { ...found, name, byteLength: found.bytes.byteLength };
      },
      read: (name, start, target) =>
        target.set(stored.get(name)!.bytes.subarray(start, start + target.byteLength)),
    };
    source satisfies TensorSource;
    this.#device = device;
    this.weights = new Weights({ ...source, names: [...stored.keys()] });
    const component = new AdaptedComponent(this.weights, {
      target: "transformer",
      family: "Small",
      layouts: [],
    });
    const drop = (key: string) => this.dropped.push(key);
    this.loras = new DeviceLoras([component], drop, maxIdleBytes);
    this.#trace();
  }

  #trace(): { graph: Graph; x: DeviceTensor; results: DeviceTensor[] } {
    const graph = new Graph("model", this.#device.target);
    const x = new DeviceTensor("x", this.x.shape);
    const { root } = this.weights;
    const results = [
      linearLayers(root, ["q", "k", "v"], graph.use(x), ROWS),
      linearLayer(root, "o", graph.use(x), ROWS),
    ].map((y) => {
      const tensor = new DeviceTensor("y", y.shape);
      copyTo(y, tensor);
      return tensor;
    });
    return { graph, x, results };
  }

  /** What the layers give with LoRAs, [layers, tokens, rows]. */
  async run(loras: readonly AppliedLora[]): Promise<Values> {
    await this.weights.upload(this.#device);
    await this.loras.apply(loras, this.#device);
    const { graph, x, results } = this.#trace();
    for (const tensor of [x, ...results]) tensor.allocate(this.#device);
    const programs = await instantiate(planMemory({ model: graph }), this.#device);
    x.write(this.x.data);
    await runSequence(this.#device, [{ programs: [programs.get("model")] }]);
    const parts = await Promise.all(results.map((tensor) => tensor.read()));
    programs.destroy();
    for (const tensor of [x, ...results]) tensor.destroy();
    return {
      shape: [LAYERS.length, TOKENS, ROWS],
      data: Float64Array.from(parts.flatMap((part) => [...part])),
    };
  }

  /** Computes the same in double precision. */
  reference(loras: readonly AppliedLora[]): Values {
    const data: number[] = [];
    for (const layer of LAYERS) {
      const weight = Float64Array.from(this.#base.get(`${layer}.weight`)!);
      const bias = Float64Array.from(this.#base.get(`${layer}.bias`)!);
      for (const { lora, strength } of loras) {
        for (const change of lora.changes.filter(({ module }) => module === layer)) {
          applyReference(weight, bias, change, strength);
        }
      }
      for (let token = 0; token < TOKENS; token++) {
        for (let row = 0; row < ROWS; row++) {
          let sum = bias[row]!;
          for (let i = 0; i < COLUMNS; i++) {
            sum += this.x.data[token * COLUMNS + i]! * weight[row * COLUMNS + i]!;
          }
          data.push(sum);
        }
      }
    }
    return { shape: [LAYERS.length, TOKENS, ROWS], data };
  }

  /** Contents of all weights on the device. */
  async contents(): Promise<Uint8Array[]> {
    return await Promise.all([...this.weights.deviceTensors].map((tensor) => tensor.readBytes()));
  }
}

/** W + s·ΔW; with lengths W + s·(m·(W + ΔW)/‖W + ΔW‖ − W). */
function applyReference(
  weight: Float64Array,
  bias: Float64Array,
  change: ModuleChange,
  strength: number,
): void {
  const trained = weight.slice();
  for (const part of change.weight) {
    changeReference(part, ROWS).forEach((value, i) => trained[i]! += value);
  }
  if (change.magnitude) {
    const { over, lengths: { bytes, dtype } } = change.magnitude;
    const lengths = decodeFloats(bytes, dtype);
    const placeOf = (i: number) => over === "rows" ? Math.floor(i / COLUMNS) : i % COLUMNS;
    const squares = new Float64Array(lengths.length);
    trained.forEach((value, i) => squares[placeOf(i)]! += value ** 2);
    trained.forEach((value, i) =>
      trained[i] = value * lengths[placeOf(i)]! / Math.sqrt(squares[placeOf(i)]!)
    );
  }
  weight.forEach((value, i) => weight[i] = value + strength * (trained[i]! - value));
  if (change.bias) {
    decodeFloats(change.bias.bytes, change.bias.dtype)
      .forEach((value, i) => bias[i]! += strength * value);
  }
}

function use(
  key: string,
  changes: Readonly<Record<string, Partial<ModuleChange> | WeightChange>>,
  strength = 1,
  mode: AppliedLora["mode"] = "dynamic",
): AppliedLora {
  const lora = loraOf(
    ...Object.entries(changes).map(([module, change]): ModuleChange => ({
      target: "transformer",
      module,
      weight: [],
      ...("kind" in change ? { weight: [change] } : change),
    })),
  );
  return { key, lora, strength, mode, targets: ["transformer"] };
}

async function withModel(
  format: StorageFormat,
  test: (model: SmallModel, device: Device) => Promise<void>,
  maxIdleBytes?: number,
): Promise<void> {
  const device = await openTestDevice();
  const model = new SmallModel(device, format, maxIdleBytes);
  try {
    await test(model, device);
    model.loras.destroy();
    model.weights.destroy();
    assert.equal(device.allocatedBytes, 0);
  } finally {
    device.destroy();
  }
}

const KINDS = changesOfAllKinds(ROWS, COLUMNS);
const { "low-rank": LOW_RANK, whole: WHOLE, "low-rank of some rows": SOME_ROWS, kronecker: LOKR } =
  KINDS as Record<string, WeightChange>;

const DORA: Readonly<Record<string, Partial<ModuleChange>>> = {
  "lengths of rows": {
    weight: [LOW_RANK!],
    magnitude: { over: "rows", lengths: randomTensor([ROWS], 20, { scale: 3 }) },
  },
  "lengths of columns": {
    weight: [LOW_RANK!],
    magnitude: { over: "columns", lengths: randomTensor([1, COLUMNS], 21, { scale: 2 }) },
  },
};

/** What is added beside the weight is only rounded by sums; what is written is rounded to its type. */
function gate(format: StorageFormat, isWritten: boolean): number {
  if (!isWritten || format === "f32") return 2e-5;
  return format === "bf16" ? 1e-2 : 2e-3;
}

for (const format of BASES) {
  Deno.test(`DeviceLoras.apply() makes layers in ${format} what every kind of change says, beside them or written`, () =>
    withModel(format, async (model) => {
      const isMergeable = !isWeightFormat(format);
      for (const [name, change] of Object.entries({ ...KINDS, ...DORA })) {
        const isWhole = name === "whole" || name in DORA;
        for (const mode of ["dynamic", "merge"] as const) {
          for (const strength of [1, -0.6]) {
            const loras = [use(name, { k: change, o: change }, strength, mode)];
            const isWritten = isWhole || (mode === "merge" && isMergeable);
            assertClose(
              `${name}, ${mode}, ${strength}`,
              await model.run(loras),
              model.reference(loras),
              gate(format, isWritten),
            );
          }
        }
      }
    }));

  Deno.test(`DeviceLoras.apply() gives the base in ${format} back bit for bit, and leaves it alone at strength 0`, () =>
    withModel(format, async (model) => {
      const before = await model.run([]);
      const contents = await model.contents();
      const all = Object.entries({ ...KINDS, ...DORA });
      for (const mode of ["dynamic", "merge"] as const) {
        for (const [name, change] of all) {
          const changes = { q: change, o: change, v: { bias: randomTensor([ROWS], 3) } };
          await model.run([use(name, changes, 0.8, mode)]);
          assert.deepEqual(await model.run([use(name, changes, 0, mode)]), before, name);
          assert.deepEqual(await model.run([]), before, name);
        }
      }
      assert.deepEqual(await model.contents(), contents);
    }));

  Deno.test(`DeviceLoras.apply() applies several LoRAs of layers in ${format} one after the other`, () =>
    withModel(format, async (model) => {
      const bias = randomTensor([ROWS], 30);
      const sets: Readonly<Record<string, readonly AppliedLora[]>> = {
        "side by side": [
          use("a", { q: LOW_RANK!, o: LOW_RANK! }, 0.5),
          use("b", { q: SOME_ROWS!, v: LOKR!, k: { bias } }, -1),
          use("a", { q: LOW_RANK!, o: LOW_RANK! }, 0.25),
        ],
        "some written": [
          use("a", { q: LOW_RANK!, k: LOKR! }, 0.5, "merge"),
          use("b", { q: SOME_ROWS!, k: WHOLE!, v: LOW_RANK! }, 2),
        ],
        "lengths first": [use("d", { k: DORA["lengths of rows"]! }), use("a", { k: LOW_RANK! })],
        "lengths last": [
          use("a", { k: LOW_RANK! }),
          use("d", { k: DORA["lengths of columns"]! }, 0.7),
        ],
      };
      for (const [name, loras] of Object.entries(sets)) {
        assertClose(
          name,
          await model.run(loras),
          model.reference(loras),
          gate(format, name !== "side by side"),
        );
      }
    }));
}

Deno.test("DeviceLoras.apply() keeps the type of factors that share one, and adds what they say", () =>
  withModel("f32", async (model) => {
    for (const dtype of ["f16", "bf16"] as const) {
      const change: WeightChange = {
        kind: "low-rank",
        scale: 1,
        down: randomTensor([3, COLUMNS], 1, { dtype }),
        up: randomTensor([ROWS, 3], 2, { dtype }),
      };
      const loras = [use(dtype, { k: change })];
      assertClose(dtype, await model.run(loras), model.reference(loras), 2e-5);
      const mixed = [...loras, use("f32", { k: LOW_RANK! })];
      assertClose(`${dtype} and f32`, await model.run(mixed), model.reference(mixed), 2e-5);
    }
  }));

Deno.test("DeviceLoras.apply() uploads nothing for LoRAs that were there before, strengths apart", () =>
  withModel("f16", async (model, device) => {
    const [a, b] = [use("a", { k: LOW_RANK! }), use("b", { o: LOKR! })];
    await model.weights.upload(device);
    const apply = async (...loras: AppliedLora[]) => {
      const { buffers } = device.counters;
      await model.loras.apply(loras, device);
      return { key: model.loras.key, buffers: device.counters.buffers - buffers };
    };
    assert.deepEqual(await apply(), { key: "", buffers: 0 });
    const first = await apply(a);
    assert.equal(first.buffers, 3);
    const both = await apply(a, b);
    assert.equal(both.buffers, 6);
    assert.notEqual(both.key, first.key);
    assert.deepEqual(await apply({ ...a, strength: 0.3 }), { key: first.key, buffers: 0 });
    assert.deepEqual(await apply({ ...a, strength: -2 }, b), { key: both.key, buffers: 0 });
    assert.deepEqual(await apply(a, { ...b, strength: 0 }), { key: first.key, buffers: 0 });
    assert.notEqual((await apply(b, a)).key, both.key, "the order counts");
    assert.deepEqual(model.dropped, []);
  }));

Deno.test("DeviceLoras.apply() frees what was used least lately above its byte bound, and never what is in use", () => {
  const rankBytes = (3 + 1) * 2 * (COLUMNS + ROWS) + 16;
  return withModel("f16", async (model, device) => {
    const [a, b, c] = ["a", "b", "c"].map((key, i) =>
      use(key, {
        o: {
          kind: "low-rank",
          scale: 1,
          down: randomTensor([4, COLUMNS], i, { dtype: "f16" }),
          up: randomTensor([ROWS, 4], i + 5, { dtype: "f16" }),
        },
      })
    ) as [AppliedLora, AppliedLora, AppliedLora];
    await model.weights.upload(device);
    const { allocatedBytes } = device;
    const held = () => (device.allocatedBytes - allocatedBytes) / rankBytes;
    const keys = new Map<string, string>();
    for (
      const [name, lora, count] of [["a", a, 1], ["b", b, 2], ["a", a, 2], ["c", c, 3]] as const
    ) {
      await model.loras.apply([lora], device);
      keys.set(name, model.loras.key);
      assert.equal(held(), count, name);
    }
    assert.deepEqual(model.dropped, []);
    await model.loras.apply([a, b], device);
    assert.deepEqual(model.dropped, [keys.get("b")]);
    assert.equal(model.loras.dropOldest(), true);
    assert.equal(model.loras.dropOldest(), true);
    assert.equal(model.loras.dropOldest(), false, "those in use stay");
    assert.equal(held() > 1.9, true);
  }, 2.5 * rankBytes);
});

Deno.test("DeviceLoras.apply() passes on that there is no room, and the model is as it was", async () => {
  const device = await openTestDevice({ maxBytes: 200_000 });
  const model = new SmallModel(device, "f16");
  try {
    const before = await model.run([]);
    const huge: WeightChange = {
      kind: "low-rank",
      scale: 1,
      down: randomTensor([256, COLUMNS], 1),
      up: randomTensor([ROWS, 256], 2),
    };
    await assert.rejects(
      model.run([use("huge", { q: huge, o: huge })]),
      (error) =>
        error instanceof OutOfMemoryError &&
        /Cannot use LoRAs: beside the weights they take 1 MB, 0 MB are left/.test(error.message),
    );
    assert.deepEqual(await model.run([]), before);
    const small = [use("small", { o: LOW_RANK! })];
    assertClose("small", await model.run(small), model.reference(small), 2e-5);
  } finally {
    device.destroy();
  }
});

Deno.test("DeviceLoras.apply() writes what is asked for after a weight came to the device with other LoRAs", () =>
  withModel("f32", async (model, device) => {
    await model.run([]);
    const sets = [1, 0.5].map((strength) => [use("a", { o: LOW_RANK! }, strength, "merge")]);
    for (const set of sets) {
      // A stage that is cancelled leaves weights on the device that were filled for it.
      model.weights.destroy();
      await model.loras.apply(set, device);
      await model.weights.upload(device);
      const other = set === sets[0] ? sets[1]! : sets[0]!;
      assertClose("o", await model.run(other), model.reference(other), gate("f32", true));
    }
  }));

Deno.test("DeviceLoras.apply() refuses LoRAs of another model, and sizes that do not fit", () =>
  withModel("f32", async (model, device) => {
    const apply = (...loras: AppliedLora[]) => model.loras.apply(loras, device);
    await model.weights.upload(device);
    await assert.rejects(
      apply(use("a", { missing: LOW_RANK! })),
      /Cannot apply LoRA "a": it changes "missing" of the transformer, which this model lacks/,
    );
    const tall = changesOfAllKinds(ROWS + 4, COLUMNS)["low-rank"]!;
    await assert.rejects(
      apply(use("a", { o: tall })),
      /Cannot apply a LoRA to "o" of shape \[32, 256\]: rows 0 to 32 of its weight get a change of \[36, 256\]/,
    );
    await assert.rejects(
      apply(use("a", { o: { bias: randomTensor([3], 1) } })),
      /its bias gets a change of 3 elements, it has 32/,
    );
    await assert.rejects(
      apply(
        use("a", {
          o: {
            ...DORA["lengths of rows"]!,
            magnitude: { over: "rows", lengths: randomTensor([3], 1) },
          },
        }),
      ),
      /it gets 3 lengths of rows, it has 32/,
    );
  }));
