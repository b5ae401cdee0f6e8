/**
 * Weights that a golden does not store: drawn again from its seed, as `tools/reference/seeded.py` drew them.
 */
import { cpSync, existsSync } from "node:fs";
import { basename, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { TorchGenerator } from "../../models/schedulers/noise.ts";
import { type DType, elementCount } from "../../runtime/mod.ts";
import { safetensorsOf, type TensorValues } from "./safetensors.ts";

type StoredType = "F32" | "F16" | "BF16";

/** What `seeded.json` holds. */
interface SeededWeights {
  readonly seed: number;
  readonly dtype: StoredType;
  /** Where the weights would be; an index beside it says more. */
  readonly file: string;
  /** Tensors in the order in which they are drawn. */
  readonly tensors: readonly (readonly [
    name: string,
    shape: readonly number[],
    mean: number,
    std: number,
    rest?: {
      readonly times?: number;
      readonly over?: number;
      readonly dtype?: StoredType;
      /** Values of a tensor that is not drawn. */
      readonly values?: readonly number[];
    },
  ])[];
}

const RULES = "seeded.json";

/** Copies with weights, by the folder that they are of. */
const copies = new Map<string, string>();

/** Where the processes of a run of tests keep copies that they share; `tools/gate.ts` makes and removes it. */
const SHARED = Deno.env.get("DENOISE_DRAWN_WEIGHTS");
const GOLDENS = fileURLToPath(new URL("../goldens", import.meta.url));

/**
 * The folder itself, or where weights of it or of its components are not stored, a copy that has them as files, only to be
 * read. The copy goes when the tests of the file end, or those of the run.
 */
export function withDrawnWeights(folder: string): string {
  const known = copies.get(folder);
  if (known) return known;
  const copy = SHARED === undefined ? drawnCopy(folder) : sharedCopy(folder, SHARED);
  copies.set(folder, copy);
  return copy;
}

function sharedCopy(folder: string, shared: string): string {
  const place = `${shared}/${relative(GOLDENS, folder).replaceAll(/[^\w.-]/g, "_")}`;
  if (existsSync(place)) return place;
  const copy = drawnCopy(folder, shared);
  if (copy === folder) return folder;
  try {
    // Whole, or not there.
    Deno.renameSync(copy, place);
  } catch (error) {
    // Another process has drawn them meanwhile.
    if (!existsSync(place)) throw error;
    Deno.removeSync(copy, { recursive: true });
  }
  return place;
}

/** The folder, or a copy with what is drawn; one of this process where it is not made in `dir`. */
function drawnCopy(folder: string, dir?: string): string {
  const parts = ["", ...subfolders(folder)].filter((part) =>
    existsSync(`${folder}/${part}/${RULES}`)
  );
  if (parts.length === 0) return folder;
  const copy = Deno.makeTempDirSync(dir === undefined ? {} : { dir });
  if (!dir) addEventListener("unload", () => Deno.removeSync(copy, { recursive: true }));
  // The reference's results are read where they stand.
  const filter = (path: string) => !/^(golden\..*|seeded\.json)$/.test(basename(path));
  cpSync(folder, copy, { recursive: true, filter });
  for (const part of parts) {
    const rules: SeededWeights = JSON.parse(Deno.readTextFileSync(`${folder}/${part}/${RULES}`));
    writeWeights(`${copy}/${part}`, rules.file, drawTensors(rules));
  }
  return copy;
}

/** How a component of a folder is to be drawn otherwise. */
interface OtherComponent {
  /** What changes in its `config.json`. */
  readonly config: Readonly<Record<string, unknown>>;
  /** Its tensors' shapes, from those that they have; nothing for a tensor that goes. */
  shape(name: string, shape: readonly number[]): readonly number[] | undefined;
}

/**
 * A copy of a golden's folder in which a component is of another size, to which the reference has nothing to say.
 */
export function withOtherComponent(
  folder: string,
  part: string,
  { config, shape }: OtherComponent,
): string {
  const copy = Deno.makeTempDirSync();
  addEventListener("unload", () => Deno.removeSync(copy, { recursive: true }));
  cpSync(withDrawnWeights(folder), copy, { recursive: true });
  const path = `${copy}/${part}/config.json`;
  Deno.writeTextFileSync(
    path,
    JSON.stringify({ ...JSON.parse(Deno.readTextFileSync(path)), ...config }),
  );
  const rules: SeededWeights = JSON.parse(
    Deno.readTextFileSync(`${folder}/${part}/${RULES}`),
  );
  const tensors = rules.tensors.flatMap(([name, was, ...rest]) => {
    const now = shape(name, was);
    return now ? [[name, now, ...rest] as const] : [];
  });
  writeWeights(`${copy}/${part}`, rules.file, drawTensors({ ...rules, tensors }));
  return copy;
}

function subfolders(folder: string): string[] {
  return [...Deno.readDirSync(folder)].filter((entry) => entry.isDirectory)
    .map(({ name }) => name);
}

/** Writes one file, or those of the index. */
function writeWeights(
  folder: string,
  file: string,
  tensors: ReadonlyMap<string, TensorValues>,
): void {
  const index = `${folder}/${file}.index.json`;
  const files: Record<string, string> = existsSync(index)
    ? JSON.parse(Deno.readTextFileSync(index)).weight_map
    : {};
  const groups = Map.groupBy(tensors, ([name]) => files[name] ?? file);
  for (const [name, group] of groups) {
    Deno.writeFileSync(`${folder}/${name}`, safetensorsOf(Object.fromEntries(group)));
  }
}

function drawTensors({ seed, dtype, tensors }: SeededWeights): Map<string, TensorValues> {
  const generator = new TorchGenerator(seed);
  const { fround } = Math;
  return new Map(tensors.map(([name, shape, mean, std, rest = {}]): [string, TensorValues] => {
    const type = (rest.dtype ?? dtype).toLowerCase() as DType;
    if (rest.values) return [name, { dtype: type, shape, values: rest.values }];
    const values = generator.randn(elementCount(shape));
    const [factor, offset] = [fround(std), fround(mean)];
    const [times, over] = [fround(rest.times ?? 1), fround(rest.over ?? 1)];
    for (let i = 0; i < values.length; i++) {
      const value = fround(fround(values[i]! * factor) + offset);
      values[i] = fround(value * times) / over;
    }
    return [name, { dtype: type, shape, values }];
  }));
}
