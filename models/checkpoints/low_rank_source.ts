/**
 * Components that their file holds as low-rank changes of another one of the model, such as Control-LoRAs: `MODULE.up` and
 * `MODULE.down` are added to the base's weight of that module; what else the file has replaces the base's.
 */
import type { JsonObject } from "../../hub/json_file.ts";
import {
  elementCount,
  formatShape,
  type StoredTensor,
  type TensorSource,
} from "../../runtime/mod.ts";
import { type Layout, toOurs } from "../layouts.ts";
import type { Lora, LoraTensor, WeightChange } from "../lora/types.ts";
import { JoinedSource } from "./layout_view.ts";

/** How such a component is told and completed. */
export interface LowRankForm {
  /** The component that it changes. */
  readonly base: string;
  isFor(config: JsonObject): boolean;
  /** Its configuration, of its own and of the base's. */
  config(own: JsonObject, base: JsonObject): JsonObject;
  /** Other names of modules, which the factors have. */
  readonly layout: Layout;
  /** Whether it has a tensor of the base. */
  has(name: string): boolean;
}

const FLOATS = ["f32", "f16", "bf16"] as const;
const FACTOR = /\.(up|down)$/;
/** What marks such a file, and is no weight. */
const MARKER = "lora_controlnet";

/** The tensors of such a component, and the changes of them, whose factors are read when they are asked for. */
export function openLowRank(
  own: TensorSource,
  base: TensorSource,
  { layout, has }: LowRankForm,
): { readonly tensors: TensorSource; readonly change: Lora } {
  const kept = new Part(own, (name) => !FACTOR.test(name) && name !== MARKER);
  const tensors = new JoinedSource(kept, new Part(base, has));
  const factors = [...own.names].filter((name) => FACTOR.test(name));
  const changed = new Set(factors.map((name) => name.replace(FACTOR, "")));
  const changes = [...changed].map((theirs) => {
    const [ours] = toOurs(layout, theirs, 1) ?? [];
    const module = ours?.name ?? theirs;
    const [upName, downName] = [`${theirs}.up`, `${theirs}.down`];
    const weight = tensors.find(`${module}.weight`);
    const lacked = [upName, downName].find((name) => !own.find(name));
    if (!weight || lacked) {
      throw new SyntaxError(
        `Cannot use "${own.path}": it changes "${theirs}", ${
          weight
            ? `and lacks "${lacked}"; fetch it again`
            : "which the model lacks; it is for another model"
        }`,
      );
    }
    const [up, down] = [own.find(upName)!.shape, own.find(downName)!.shape];
    if (up[1] !== down[0]) {
      throw new SyntaxError(
        `Cannot use "${own.path}": "${upName}" has rank ${up[1]} and "${downName}" has ${
          down[0]
        }; fetch it again`,
      );
    }
    const matrix = [up[0]!, elementCount(down) / down[0]!];
    const [rows] = weight.shape as [number];
    if (matrix[0] !== rows || matrix[1] !== elementCount(weight.shape) / rows) {
      throw new SyntaxError(
        `Cannot use "${own.path}": it changes "${module}" as a matrix of ${
          matrix.join("x")
        }, the model has one of another ` +
          `size, ${formatShape(weight.shape)}; it is for another model`,
      );
    }
    const change: WeightChange = {
      kind: "low-rank",
      scale: 1,
      up: lazyTensor(own, upName),
      down: lazyTensor(own, downName),
    };
    return { target: "transformer" as const, module, weight: [change] };
  });
  const byteLength = factors.reduce((sum, name) => sum + own.find(name)!.byteLength, 0);
  return { tensors, change: { dialect: "Control-LoRA", changes, unmatchedKeys: [], byteLength } };
}

function lazyTensor(source: TensorSource, name: string): LoraTensor {
  const { shape, format, byteLength } = source.find(name)!;
  const dtype = FLOATS.find((dtype) => dtype === format.toLowerCase());
  if (!dtype) {
    throw new TypeError(
      `Cannot use "${source.path}": "${name}" is stored as ${format}; factors may be F32, F16 or BF16`,
    );
  }
  return {
    shape,
    dtype,
    get bytes() {
      const bytes = new Uint8Array(byteLength);
      source.read(name, 0, bytes);
      return bytes;
    },
  };
}

/** Some of the tensors of a file. */
class Part implements TensorSource {
  readonly #source: TensorSource;
  readonly #has: (name: string) => boolean;

  constructor(source: TensorSource, has: (name: string) => boolean) {
    this.#source = source;
    this.#has = has;
  }

  get path(): string {
    return this.#source.path;
  }

  get names(): Iterable<string> {
    return [...this.#source.names].filter(this.#has);
  }

  find(name: string): StoredTensor | undefined {
    return this.#has(name) ? this.#source.find(name) : undefined;
  }

  read(name: string, start: number, target: Uint8Array): void {
    this.#source.read(name, start, target);
  }
}
