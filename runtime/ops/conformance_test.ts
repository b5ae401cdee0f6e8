/**
 * Runs every case of every op, on the adapter at hand, and once more with tiny bindings.
 *
 * A software adapter compiles for seconds what it runs in milliseconds. So kernels are compiled with each of their
 * parameters, activations and formats once, in the cases that need the shortest kernels, and within a bound for each variant;
 * every other case runs on the variant with the shortest, unless that is long; and whatever these kernels take runs too.
 * With `DENOISE_SLOW` every case runs on all variants that take it. `DENOISE_REPETITIONS` says how often the largest case of
 * a variant runs and must give the same bits; once when unset, 100 times when slow.
 */
import assert from "node:assert/strict";
import type { Device } from "../device/device.ts";
import { openTestDevice } from "../../tests/support/model_run.ts";
import { kernelCode } from "../program/compile.ts";
import type { DeviceOptions } from "../open_device.ts";
import type { Choice, Target } from "../target.ts";
import { cutIntoPieces } from "../windows.ts";
import { type OpCase, runCase, storesHalf, traceCase, UnsupportedCase } from "../conformance.ts";
import { whyNoMatrixUnit } from "./matrix_unit.ts";
import { OP_SUITES } from "./registry.ts";

/** Bytes per binding; a buffer then holds two. */
const TINY_BINDINGS = [256, 1024, 4096, 16384];
/** Bindings per kernel: every one costs the driver's compiler dearly. */
const MAX_BINDINGS = 12;
const IS_SLOW = Deno.env.has("DENOISE_SLOW");
/** Cost above which kernels are compiled only for what no other kernel of their file has. */
const LONG_KERNEL = 15_000;
/** Characters of WGSL from which on the coroutine that the driver makes of a kernel with barriers costs more than the rest. */
const COROUTINE_LENGTH = 8_000;
/** Cost of a variant's kernels after which none is compiled for its traits alone; some 1.5 s. */
const LARGEST_COST = 70_000;
/** Cases for which a variant compiles kernels even if others of its file have shown their traits. */
const LEAST_CASES = 2;
const REPETITIONS = Number(Deno.env.get("DENOISE_REPETITIONS") ?? (IS_SLOW ? 100 : 1));
/** Cases per size of a binding. */
const MAX_CUT_CASES = IS_SLOW ? 2 : 1;

const adapter = await withDevice({}, ({ target }) => Promise.resolve(target));

for (const suite of OP_SUITES) {
  const { op, variants, cases, operands = "f32" } = suite;
  const chosen = chooseCases(suite);
  for (const variant of variants) {
    const own = chosen.get(variant)!;
    const isAvailable = own.length > 0;
    Deno.test({
      name: `${op}${variant && ` (${variant})`} equals its reference${
        isAvailable ? "" : `: ${whyNot(variant)}`
      }`,
      ignore: !isAvailable,
      fn: (t) =>
        withDevice({ operands, forcedVariants: force(op, variant) }, async (device) => {
          const largest = own.reduce((a, b) => elementsOf(b) > elementsOf(a) ? b : a);
          for (const testCase of own) {
            const repetitions = testCase === largest ? REPETITIONS : 1;
            await t.step(
              testCase.name,
              () => runCase(device, testCase, device.target, repetitions),
            );
          }
        }),
    });
  }

  const variant = variants.length === 1 ? variants[0]! : "";
  const title = `${op}${variant && ` (${variant})`}`;
  Deno.test(`${title} equals its reference on tensors that need several bindings`, async (t) => {
    const left = new Set(cases);
    // Other suites of an op differ in how it multiplies: where kernels cut their tensors, its first one shows.
    const isFirst = OP_SUITES.find((each) => each.op === op) === suite;
    for (const bytes of IS_SLOW || isFirst ? TINY_BINDINGS : TINY_BINDINGS.toReversed()) {
      if (!isFirst && !IS_SLOW && left.size < cases.length) break;
      const limits = {
        maxBindingBytes: bytes,
        maxBufferBytes: 2 * bytes,
        maxStorageBuffers: MAX_BINDINGS,
      };
      await withDevice({ limits, operands, forcedVariants: force(op, variant) }, async (device) => {
        const cut = [...left].filter((testCase) => isCut(device.target, testCase))
          .map((testCase) => ({ testCase, cost: costOf(kernelsOf(testCase, device.target)!) }))
          .toSorted((a, b) => a.cost - b.cost)
          .map(({ testCase }) => testCase);
        for (const testCase of cut.slice(0, MAX_CUT_CASES)) {
          left.delete(testCase);
          await t.step(`${testCase.name}, ${bytes} bytes each`, () => runCase(device, testCase));
        }
      });
    }
    assert.ok(left.size < cases.length, "no case needs several bindings and fits into them");
  });
}

for (const { op, heavy = [] } of OP_SUITES) {
  if (heavy.length === 0) continue;
  // One op shows how in every run: the rest takes seconds.
  const isCheap = op === "matmul";
  Deno.test({
    name: `${op} equals its reference where there is much to do${
      isCheap ? "" : "; with DENOISE_SLOW"
    }`,
    ignore: !isCheap && !IS_SLOW && REPETITIONS === 1,
    fn: (t) =>
      withDevice({ operands: "f32" }, async (device) => {
        for (const testCase of heavy) {
          await t.step(testCase.name, () => runCase(device, testCase));
        }
      }),
  });
}

for (const suite of OP_SUITES) {
  testShortest(suite, "where its result is stored as f16", {
    operands: "f16",
    storage: "f16",
    needed: (testCase, target) => kernelsOf(testCase, target, "f16"),
    targetOf: (target) => target,
  });
}

for (const suite of OP_SUITES) {
  testShortest(suite, "where registers are few", {
    operands: suite.operands ?? "f32",
    storage: "f32",
    needed(testCase, target) {
      const kernels = kernelsOf(testCase, withFewRegisters(target));
      const usual = new Set(kernelsOf(testCase, target)?.map(({ wgsl }) => wgsl));
      return kernels?.every(({ wgsl }) => usual.has(wgsl)) ? undefined : kernels;
    },
    targetOf: withFewRegisters,
  });
}

/**
 * A test, as on a GPU, of the case with the shortest kernels of all variants; drivers under test take each variant once, and
 * a slow run every case.
 */
function testShortest(
  { op, variants, cases }: typeof OP_SUITES[number],
  where: string,
  { operands, storage, needed, targetOf }: {
    readonly operands: Target["operands"];
    readonly storage: "f32" | "f16";
    /** The kernels of a case; undefined where it shows nothing. */
    readonly needed: (testCase: OpCase, target: Target) => readonly CaseKernel[] | undefined;
    readonly targetOf: (target: Target) => Target;
  },
): void {
  const found = variants.flatMap((variant) => {
    const options = { schedule: "gpu", operands, forcedVariants: force(op, variant) } as const;
    const own = cases.flatMap((testCase) => {
      const kernels = needed(testCase, { ...adapter, ...options });
      return kernels ? [{ testCase, variant, options, cost: costOf(kernels) }] : [];
    });
    return IS_SLOW ? own : own.toSorted((a, b) => a.cost - b.cost).slice(0, 1);
  }).toSorted((a, b) => a.cost - b.cost);
  const own = IS_SLOW || REPETITIONS > 1 ? found : found.slice(0, 1);
  if (own.length === 0) return;
  Deno.test(`${op} equals its reference ${where}`, async (t) => {
    for (const { testCase, variant, options } of own) {
      await withDevice(options, (device) =>
        t.step(
          `${variant} ${testCase.name}`,
          () => runCase(device, testCase, targetOf(device.target), 1, storage),
        ));
    }
  });
}

/** The target as one whose subgroups say that registers are few; they hold at least as many invocations as they say. */
function withFewRegisters(target: Target): Target {
  const { features } = target;
  const subgroupMinSize = Math.min(16, features.subgroupMinSize);
  return { ...target, features: { ...features, subgroupMinSize, subgroupMaxSize: 32 } };
}

function elementsOf({ inputs }: OpCase): number {
  return Object.values(inputs).reduce((sum, { values }) => sum + values.data.length, 0);
}

/** A kernel as a case needs it. */
interface CaseKernel {
  /** Text of the kernel, which the driver compiles once. */
  readonly wgsl: string;
  /** What the driver's compiler has to do, about: the characters of a kernel without barriers. */
  readonly cost: number;
  /** File of the kernel with each of its parameters, and with the format of each buffer. */
  readonly traits: readonly string[];
}

/** Which cases each variant runs. */
function chooseCases({ op, variants, cases, operands = "f32" }: typeof OP_SUITES[number]) {
  const chosen = new Map<string, OpCase[]>();
  const options = variants.map((variant) => {
    let isForced = variant === "";
    const onChoice = (choice: Choice) =>
      isForced ||= choice.op === op && choice.reason === "forced";
    const target = { ...adapter, operands, forcedVariants: force(op, variant), onChoice };
    const kernels = new Map<OpCase, readonly CaseKernel[]>();
    for (const testCase of cases) {
      const needed = kernelsOf(testCase, target);
      if (needed) kernels.set(testCase, needed);
    }
    if (kernels.size > 0 && !isForced) {
      throw new Error(
        `Cannot test ${op} (${variant}): no case chooses among variants as "${op}"; give chooseVariant() the op's name`,
      );
    }
    return { variant, kernels, compiled: new Set<string>() };
  });
  if (!IS_SLOW) {
    // Variants of one file share its traits: those with short kernels show them.
    const shown = new Set<string>();
    const byCost = options.toSorted((a, b) => meanCost(a.kernels) - meanCost(b.kernels));
    for (const { kernels, compiled } of byCost) compileTraits(kernels, compiled, shown);
    for (const testCase of cases) compileFor(testCase, byCost);
  }
  for (const { variant, kernels, compiled } of options) {
    const isFree = (testCase: OpCase) =>
      kernels.get(testCase)?.every(({ wgsl }) => IS_SLOW || compiled.has(wgsl));
    chosen.set(variant, cases.filter(isFree));
  }
  return chosen;
}

/**
 * Adds kernels of cases to `compiled` until all traits are `shown`, or they cost too much: each time those with the most new
 * traits for what they cost.
 */
function compileTraits(
  kernels: ReadonlyMap<OpCase, readonly CaseKernel[]>,
  compiled: Set<string>,
  shown: Set<string>,
): void {
  let left = new Set([...kernels.values()].flat().flatMap(({ traits }) => traits));
  const newIn = (needed: readonly CaseKernel[]) =>
    costOf(needed.filter(({ wgsl }) => !compiled.has(wgsl)));
  const gain = (needed: readonly CaseKernel[]) =>
    new Set(needed.flatMap(({ traits }) => traits)).intersection(left).size /
    Math.max(1, newIn(needed));
  for (let count = 0, spent = 0;; count++) {
    if (count >= LEAST_CASES) left = left.difference(shown);
    if (left.size === 0 || spent > LARGEST_COST) return;
    const best = [...kernels.values()].reduce((a, b) => gain(b) > gain(a) ? b : a);
    spent += newIn(best);
    for (const { wgsl, traits } of best) {
      compiled.add(wgsl);
      for (const trait of traits) {
        left.delete(trait);
        shown.add(trait);
      }
    }
  }
}

/** Adds a case's kernels where they are shortest, if no variant has them yet and they are not long. */
function compileFor(
  testCase: OpCase,
  options: readonly {
    kernels: ReadonlyMap<OpCase, readonly CaseKernel[]>;
    compiled: Set<string>;
  }[],
): void {
  const news = options.flatMap(({ kernels, compiled }) => {
    const needed = kernels.get(testCase);
    return needed ? [{ compiled, left: needed.filter(({ wgsl }) => !compiled.has(wgsl)) }] : [];
  });
  const best = news.toSorted((a, b) => costOf(a.left) - costOf(b.left))[0];
  if (!best || costOf(best.left) > LONG_KERNEL) return;
  for (const { wgsl } of best.left) best.compiled.add(wgsl);
}

function meanCost(kernels: ReadonlyMap<OpCase, readonly CaseKernel[]>): number {
  const all = [...kernels.values()].flat();
  return costOf(all) / Math.max(1, all.length);
}

function costOf(kernels: readonly CaseKernel[]): number {
  return kernels.reduce((sum, { cost }) => sum + cost, 0);
}

/**
 * The kernels of a case; undefined where the target's variant or number of bindings does not take it, or none of them stores
 * f16 though asked to.
 */
function kernelsOf(
  testCase: OpCase,
  target: Target,
  storage: "f32" | "f16" = "f32",
): readonly CaseKernel[] | undefined {
  try {
    const traced = traceCase(testCase, target, storage);
    if (storage === "f16" && !storesHalf(traced)) return undefined;
    return traced.graph.dispatches.map((dispatch) => {
      const { kernel, tensors } = dispatch;
      const [file, ...parameters] = kernel.name.split(" ");
      const formats = kernel.buffers.map(({ name }, i) => `${name} ${tensors[i]!.dtype}`);
      const traits = ["", ...parameters, ...formats].map((trait) => `${file} ${trait}`);
      const wgsl = kernelCode(dispatch, target).wgsl;
      const { length } = wgsl;
      const cost = wgsl.includes("Barrier()") ? length ** 2 / COROUTINE_LENGTH : length;
      return { wgsl, cost, traits };
    });
  } catch (error) {
    if (error instanceof UnsupportedCase) return undefined;
    throw error;
  }
}

function force(op: string, variant: string): Target["forcedVariants"] {
  return variant ? { [op]: variant } : {};
}

async function withDevice<T>(
  options: DeviceOptions,
  use: (device: Device) => Promise<T>,
): Promise<T> {
  const device = await openTestDevice(options, "usual");
  try {
    return await use(device);
  } finally {
    device.destroy();
  }
}

/** Why the adapter takes no case of a variant. */
function whyNot(variant: string): string {
  const reason = variant.startsWith("matrix") ? whyNoMatrixUnit(adapter) : undefined;
  return reason ?? "no case takes it on this adapter";
}

/** Whether the target takes the case, and a tensor of it needs more than one binding. */
function isCut(target: Target, testCase: OpCase): boolean {
  return kernelsOf(testCase, target) !== undefined &&
    traceCase(testCase, target).graph.dispatches.some(({ tensors }) =>
      tensors.some(({ memory }) => cutIntoPieces(memory.byteLength, target.limits).length > 1)
    );
}
