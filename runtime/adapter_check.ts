/** A short numeric check of an adapter: what models use of every op, from its case tables. */
import type { Device } from "./device/device.ts";
import { runCase, UnsupportedCase } from "./conformance.ts";
import type { Check, Op } from "./ops/op.ts";
import { OPS } from "./ops/registry.ts";

interface SelfTestResult {
  readonly name: string;
  readonly outcome: "passed" | "failed" | "skipped";
  /** How many cases ran, why none did, or what was wrong. */
  readonly detail: string;
}

/** Cases that are run of an op without checks of its own. */
const CASES_PER_OP = 2;

/** @param onCheck told of each check before it begins, with the share of those that are done */
export async function runSelfTests(
  device: Device,
  ops: readonly Op[] = OPS,
  onCheck: (name: string, fraction: number) => void = () => {},
): Promise<SelfTestResult[]> {
  const results: SelfTestResult[] = [];
  const all = ops.flatMap(({ name: op, suites, checks }) =>
    (checks ?? [{ name: op, cases: suites[0]!.cases.slice(0, CASES_PER_OP) }])
      .map((check) => ({ op, check }))
  );
  for (const { op, check } of all) {
    onCheck(check.name, results.length / all.length);
    results.push(await runCheck(device, op, check));
  }
  return results;
}

async function runCheck(
  device: Device,
  op: string,
  { name, cases, variant, whyNot }: Check,
): Promise<SelfTestResult> {
  const { target } = device;
  const obstacle = whyNot?.(target);
  if (obstacle !== undefined) return { name, outcome: "skipped", detail: obstacle };
  const forced = variant === undefined
    ? target
    : { ...target, operands: "int8" as const, forcedVariants: { [op]: variant } };
  let taken = 0;
  let refusal = "it has no cases";
  for (const testCase of cases) {
    try {
      await runCase(device, testCase, forced);
      taken++;
    } catch (error) {
      const { message } = error as Error;
      if (!(error instanceof UnsupportedCase)) return { name, outcome: "failed", detail: message };
      refusal = message;
    }
  }
  if (taken === 0) return { name, outcome: "skipped", detail: refusal };
  const count = taken === cases.length ? `${taken}` : `${taken} of ${cases.length}`;
  return {
    name,
    outcome: "passed",
    detail: `${count} ${cases.length === 1 ? "case" : "cases"} within tolerance`,
  };
}
