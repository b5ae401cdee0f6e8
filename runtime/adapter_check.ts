/** A short numeric check of an adapter: a few rows of every op's case table. */
import type { Device } from "./device.ts";
import { runCase, UnsupportedCase } from "./ops/conformance.ts";
import { OP_SUITES } from "./ops/suites.ts";

/** One check and how it ended. */
export interface SelfTestResult {
  readonly name: string;
  readonly passed: boolean;
  readonly detail: string;
}

/** Cases of each op that are run. */
const CASES_PER_OP = 2;

/** Runs the first cases of every op with the kernels that this device would use. */
export async function runSelfTests(device: Device): Promise<SelfTestResult[]> {
  const results: SelfTestResult[] = [];
  for (const { op, cases, operands } of OP_SUITES) {
    // Narrow operands are for whoever asks for them, not what a device uses by itself.
    if (operands !== undefined) continue;
    const chosen = cases.slice(0, CASES_PER_OP);
    let detail = `${chosen.length} cases within tolerance`;
    let passed = true;
    for (const testCase of chosen) {
      try {
        await runCase(device, testCase);
      } catch (error) {
        if (error instanceof UnsupportedCase) continue;
        passed = false;
        detail = (error as Error).message;
        break;
      }
    }
    results.push({ name: op, passed, detail });
  }
  return results;
}
