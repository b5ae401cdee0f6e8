/** Runs every case of every op on every variant, on the adapter at hand, and once more with tiny bindings. */
import assert from "node:assert/strict";
import type { Device } from "../device.ts";
import { type DeviceOptions, openDevice } from "../open_device.ts";
import { cutIntoPieces } from "../windows.ts";
import { type OpCase, runCase, traceCase, UnsupportedCase } from "./conformance.ts";
import { OP_SUITES } from "./suites.ts";

/** Bytes per binding; a buffer then holds two. */
const TINY_BINDINGS = [256, 1024, 4096, 16384];
/** Bindings per kernel, and cases per size of a binding: every binding costs the driver's compiler dearly. */
const MAX_BINDINGS = 12;
const MAX_CUT_CASES = 2;

for (const { op, variants, cases, operands = "f32" } of OP_SUITES) {
  for (const variant of variants) {
    Deno.test(`${op}${variant && ` (${variant})`} equals its reference`, async (t) => {
      await withDevice({ operands, ...force(op, variant) }, async (device) => {
        let taken = 0;
        for (const testCase of cases) {
          if (!isTaken(device, testCase)) continue;
          taken++;
          await t.step(testCase.name, () => runCase(device, testCase));
        }
        if (taken === 0) console.log(`  ${variant} is not available on this adapter`);
      });
    });
  }

  const variant = variants.length === 1 ? variants[0] : "";
  const title = `${op}${variant && ` (${variant})`}`;
  Deno.test(`${title} equals its reference on tensors that need several bindings`, async (t) => {
    const left = new Set(cases);
    for (const bytes of TINY_BINDINGS) {
      const limits = {
        maxBindingBytes: bytes,
        maxBufferBytes: 2 * bytes,
        maxStorageBuffers: MAX_BINDINGS,
      };
      await withDevice({ limits, operands, ...force(op, variant) }, async (device) => {
        const cut = [...left].filter((testCase) =>
          isTaken(device, testCase) && isCut(device, testCase)
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

function force(op: string, variant: string | undefined): DeviceOptions {
  return variant ? { forcedVariants: { [op]: variant } } : {};
}

async function withDevice(
  options: DeviceOptions,
  use: (device: Device) => Promise<void>,
): Promise<void> {
  const device = await openDevice(options);
  try {
    await use(device);
  } finally {
    device.destroy();
  }
}

/** Whether the device's variant and number of bindings take the case. */
function isTaken(device: Device, testCase: OpCase): boolean {
  try {
    traceCase(testCase, device.target);
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
