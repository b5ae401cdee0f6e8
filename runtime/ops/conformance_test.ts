/**
 * Runs every case of every op, on the adapter at hand, and once more with tiny bindings. With `DENOISE_SLOW` every case
 * runs on all variants that take it; else the variants of large tables take turns, because a software adapter compiles
 * for minutes what it runs in milliseconds.
 */
import assert from "node:assert/strict";
import type { Device } from "../device.ts";
import { openTestDevice } from "../../tests/model_run.ts";
import type { DeviceOptions } from "../open_device.ts";
import type { Target } from "../target.ts";
import { cutIntoPieces } from "../windows.ts";
import { type OpCase, runCase, traceCase, UnsupportedCase } from "./conformance.ts";
import { whyNoMatrixUnit } from "./matrix_unit.ts";
import { OP_SUITES } from "./registry.ts";

/** Bytes per binding; a buffer then holds two. */
const TINY_BINDINGS = [256, 1024, 4096, 16384];
/** Bindings per kernel, and cases per size of a binding: every binding costs the driver's compiler dearly. */
const MAX_BINDINGS = 12;
const MAX_CUT_CASES = Deno.env.has("DENOISE_SLOW") ? 2 : 1;
/** Runs of one op, about; no case is left out for it. */
const MAX_RUNS = Deno.env.has("DENOISE_SLOW") ? Infinity : 40;

const adapter = await withDevice({}, ({ target }) => Promise.resolve(target));

for (const suite of OP_SUITES) {
  const { op, variants, cases, operands = "f32" } = suite;
  const casesOf = takeTurns(suite);
  for (const variant of variants) {
    const own = casesOf(variant);
    const isAvailable = own.length > 0;
    Deno.test({
      name: `${op}${variant && ` (${variant})`} equals its reference${
        isAvailable ? "" : `: ${whyNot(variant)}`
      }`,
      ignore: !isAvailable,
      fn: (t) =>
        withDevice({ operands, forcedVariants: force(op, variant) }, async (device) => {
          for (const testCase of own) await t.step(testCase.name, () => runCase(device, testCase));
        }),
    });
  }

  const variant = variants.length === 1 ? variants[0]! : "";
  const title = `${op}${variant && ` (${variant})`}`;
  Deno.test(`${title} equals its reference on tensors that need several bindings`, async (t) => {
    const left = new Set(cases);
    for (const bytes of TINY_BINDINGS) {
      const limits = {
        maxBindingBytes: bytes,
        maxBufferBytes: 2 * bytes,
        maxStorageBuffers: MAX_BINDINGS,
      };
      await withDevice({ limits, operands, forcedVariants: force(op, variant) }, async (device) => {
        const cut = [...left].filter((testCase) =>
          isTaken(device.target, testCase) && isCut(device, testCase)
        );
        for (const testCase of cut.slice(0, MAX_CUT_CASES)) {
          left.delete(testCase);
          await t.step(`${testCase.name}, ${bytes} bytes each`, () => runCase(device, testCase));
        }
      });
    }
    assert.ok(left.size < cases.length, "no case needs several bindings and fits into them");
  });
}

/** Which cases each variant runs: every case at least once, and of large tables not on all variants that take it. */
function takeTurns({ op, variants, cases, operands = "f32" }: typeof OP_SUITES[number]) {
  const takers = cases.map((testCase) =>
    variants.filter((name) =>
      isTaken({ ...adapter, operands, forcedVariants: force(op, name) }, testCase)
    )
  );
  const turns = Math.max(1, Math.ceil(takers.flat().length / MAX_RUNS));
  return (variant: string) =>
    cases.filter((_, i) => {
      const turn = takers[i]!.indexOf(variant);
      return turn >= 0 && (i + turn) % Math.min(turns, takers[i]!.length) === 0;
    });
}

function force(op: string, variant: string): Target["forcedVariants"] {
  return variant ? { [op]: variant } : {};
}

async function withDevice<T>(
  options: DeviceOptions,
  use: (device: Device) => Promise<T>,
): Promise<T> {
  const device = await openTestDevice(options);
  try {
    return await use(device);
  } finally {
    device.destroy();
  }
}

/** Why the adapter takes no case of a variant. */
function whyNot(variant: string): string {
  const reason = variant.startsWith("matrix") ? whyNoMatrixUnit(adapter) : undefined;
  return reason ?? "the adapter lacks what it needs";
}

/** Whether the target's variant and number of bindings take the case. */
function isTaken(target: Target, testCase: OpCase): boolean {
  try {
    traceCase(testCase, target);
    return true;
  } catch (error) {
    if (error instanceof UnsupportedCase) return false;
    throw error;
  }
}

/** Whether a tensor of the case needs more than one binding. */
function isCut(device: Device, testCase: OpCase): boolean {
  return traceCase(testCase, device.target).graph.dispatches.some(({ tensors }) =>
    tensors.some(({ memory }) => cutIntoPieces(memory.byteLength, device.target.limits).length > 1)
  );
}
