/** A copy of a checkpoint in fewer bits, made piece by piece. */
import { mkdirSync, realpathSync } from "node:fs";
import { dirname } from "node:path";
import {
  blockFormatOf,
  Checkpoint,
  elementCount,
  isWeightFormat,
  layOutGguf,
  layOutSafetensors,
} from "../../../runtime/mod.ts";
import { isLora, recognise } from "../recognise.ts";
import type { ComponentFormat } from "../component_format.ts";
import { classIn, configMetadata } from "../saved_config.ts";
import { type CopyControl, CopyWriter, type FileTensor } from "./copy_writer.ts";
import { type PlannedTensor, planTensors } from "./plan.ts";
import { type Container, containersOf, type QuantizedType, type TypeRule } from "./types.ts";

export type { QuantizedType, TypeRule } from "./types.ts";

/** Keys of GGUF metadata that say how the file is stored. */
const REMADE = /^(?:general\.(?:quantization_version|file_type|alignment)$|split\.|comfy\.)/;

export interface QuantizeOptions extends CopyControl {
  readonly type: QuantizedType;
  /** Other types for some tensors; the first whose pattern fits counts. */
  readonly rules?: readonly TypeRule[];
  /** Whether fp8 weights get a scale for each matrix; true by default. Without, they are cast as they are. */
  readonly scales?: boolean;
  /** What the weights can be of, by which the copy names its architecture. */
  readonly formats?: readonly ComponentFormat[];
}

export interface QuantizeResult {
  readonly bytes: number;
  readonly sourceBytes: number;
  /** What of the source the copy lacks, or has as damaged as it was; a sentence for each tensor. */
  readonly notes: readonly string[];
  /** Tensors by format, most elements first. */
  readonly formats: readonly (readonly [format: string, tensors: number])[];
}

/** Writes a copy of a file of weights, or of a component's folder. It has its name once it is whole. */
export async function quantizeCheckpoint(
  path: string,
  output: string,
  options: QuantizeOptions,
): Promise<QuantizeResult> {
  const { type, rules = [], scales = true, formats = [], signal } = options;
  const container = containerOf(output, [type, ...rules.map((rule) => rule.type)]);
  using source = Checkpoint.open(path);
  checkSource(source, output, type);
  const leftOut: string[] = [];
  const planned = planTensors(source, type, container, rules, leftOut);
  const tensors = container === "gguf" || !scales ? planned.map(toFileTensor) : withScales(planned);
  const saved = await configMetadata(path);
  const layout = container === "gguf"
    ? layOutGguf(tensors, {
      "general.architecture": await architectureOf(source, formats),
      "general.quantization_version": 2,
      ...toldBy(source),
      ...saved,
    })
    : layOutSafetensors(tensors, { format: "pt", ...saved });
  const notes = leftOut.map((name) =>
    `Left out "${name}": it is no weight${
      name.endsWith("spiece_model") ? "; name the file that has it with --tokenizer" : ""
    }`
  );
  const partial = `${output}.part`;
  mkdirSync(dirname(output), { recursive: true });
  try {
    using file = Deno.openSync(partial, { write: true, create: true, truncate: true });
    using writer = new CopyWriter(source, file, options);
    await writer.write(tensors, layout);
    notes.push(
      ...[...writer.nonFinite].map((name) =>
        `Copied "${name}" with the NaN or infinity in it: no matter where the model does not use it`
      ),
    );
    file.syncSync();
    signal?.throwIfAborted();
  } catch (error) {
    await Deno.remove(partial).catch(() => {});
    throw error;
  }
  await Deno.rename(partial, output);
  return {
    bytes: layout.fileBytes,
    sourceBytes: source.byteLength,
    notes,
    formats: formatsOf(planned),
  };
}

/** What a GGUF file states of its model, but for arrays and what its writer makes. */
function toldBy({ metadata }: Checkpoint): Record<string, string | number | boolean> {
  if (!metadata.has("general.architecture")) return {};
  return Object.fromEntries(
    [...metadata].filter((pair): pair is [string, string | number | boolean] =>
      typeof pair[1] !== "object" && !REMADE.test(pair[0])
    ),
  );
}

/** `general.architecture` of a file with these weights; the component's name where no program has a word for it. */
async function architectureOf(
  source: Checkpoint,
  formats: readonly ComponentFormat[],
): Promise<string> {
  const configured = await classIn(source.path);
  const named = formats.find(({ className }) => className === configured);
  const [found] = recognise(source, named ? [named] : formats);
  const { architecture, component = "unknown" } = named ?? found?.format ?? {};
  if (typeof architecture === "string") return architecture;
  return found && architecture ? architecture(found.tensors) : component;
}

export function containerOf(output: string, types: readonly QuantizedType[]): Container {
  const container = /\.gguf$/i.test(output)
    ? "gguf"
    : /\.safetensors$/i.test(output)
    ? "safetensors"
    : undefined;
  const misfit = types.find((type) => !container || !containersOf(type).includes(container));
  if (container && misfit === undefined) return container;
  const endings = containersOf(misfit ?? types[0]!).map((name) => `.${name}`).join(" or ");
  throw new TypeError(
    `Cannot write ${misfit ?? types[0]} into "${output}": give a name that ends with ${endings}`,
  );
}

function checkSource(source: Checkpoint, output: string, type: QuantizedType): void {
  const { path } = source;
  if (isLora(source.names) && (isWeightFormat(type) || /\.gguf$/i.test(output))) {
    throw new TypeError(
      `Cannot quantize "${path}": it is a LoRA, and LoRAs are read in F32, F16 and BF16 as safetensors; ` +
        "take --type bf16 and a name that ends with .safetensors",
    );
  }
  const quantised = [...source.names].map((name) => source.find(name)!)
    .find(({ format }) => blockFormatOf(format) !== undefined && !format.startsWith("F8_"));
  if (quantised) {
    throw new TypeError(
      `Cannot quantize "${path}": "${quantised.name}" is ${quantised.format} already; ` +
        "give the file that it was made from",
    );
  }
  if (source.readArray("tokenizer.ggml.tokens")) {
    throw new TypeError(
      `Cannot quantize "${path}": it holds a tokenizer, which the copy would lack; ` +
        "give the safetensors that it was made from",
    );
  }
  const isSame = (a: string, b: string) => {
    try {
      return realpathSync(a) === realpathSync(b);
    } catch {
      return false;
    }
  };
  if (isSame(path, output)) {
    throw new TypeError(
      `Cannot write "${output}": it is the file that is read; choose another name`,
    );
  }
}

function toFileTensor(planned: PlannedTensor): FileTensor {
  return { ...planned, planned };
}

/** The planned tensors with scales of fp8 weights, and the mark of such files, as ComfyUI writes them. */
function withScales(planned: readonly PlannedTensor[]): FileTensor[] {
  const marked = planned.find(({ format }) => format.startsWith("F8_"));
  if (!marked) return planned.map(toFileTensor);
  const prefix = /^model\.diffusion_model\./.exec(marked.name)?.[0] ?? "";
  return [
    ...planned.flatMap((tensor): FileTensor[] => {
      const own = toFileTensor(tensor);
      if (!tensor.format.startsWith("F8_")) return [own];
      const name = tensor.name.replace(/weight$/, "scale_weight");
      return [own, { name, format: "F32", shape: [], scaleOf: tensor.name }];
    }),
    { name: `${prefix}scaled_fp8`, format: marked.format, shape: [0] },
  ];
}

function formatsOf(planned: readonly PlannedTensor[]): (readonly [string, number])[] {
  const groups = Map.groupBy(planned, ({ format }) => format);
  const elements = (tensors: readonly PlannedTensor[]) =>
    tensors.reduce((sum, { shape }) => sum + elementCount(shape), 0);
  return [...groups].sort(([, a], [, b]) => elements(b) - elements(a))
    .map(([format, tensors]) => [format, tensors.length]);
}
