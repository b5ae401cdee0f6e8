/** The case tables of all ops, on every variant that takes them, against references in double precision. */

import { DeviceLostError, type Target } from "../../runtime/mod.ts";
import { type OpCase, runCase, traceCase, UnsupportedCase } from "../../runtime/conformance.ts";
import { OP_SUITES } from "../../runtime/ops/registry.ts";
import type { CaseFailure } from "../types.ts";
import { type SectionContext, timeLeft } from "./section.ts";

/** Failures that are kept word for word. */
const MAX_FAILURES = 40;

interface Check {
  readonly op: string;
  readonly variant: string;
  readonly operands: Target["operands"];
  readonly testCase: OpCase;
}

/** Every case on every variant: first the first case of each, so that what has no time left is spread over all. */
export function allChecks(): Check[] {
  const columns = OP_SUITES.flatMap(({ op, variants, cases, operands = "f32" }) =>
    variants.map((variant) => cases.map((testCase): Check => ({ op, variant, operands, testCase })))
  );
  const longest = Math.max(...columns.map(({ length }) => length));
  return Array.from({ length: longest }, (_, i) => columns.flatMap((column) => column[i] ?? []))
    .flat();
}

export async function checkCases(context: SectionContext<"correctness">): Promise<boolean> {
  const { device, begin, found } = context;
  const checks = allChecks();
  const failures: CaseFailure[] = [];
  const counts = { ran: 0, passed: 0, refused: 0 };
  const tell = () => {
    const { pipelines } = device.counters;
    found({ total: checks.length, ...counts, pipelines, failures });
  };
  for (const { op, variant, operands, testCase } of checks) {
    if (timeLeft(context) < 0) return false;
    const target: Target = {
      ...device.target,
      operands,
      ...(variant && { forcedVariants: { [op]: variant } }),
    };
    if (!mayUse(testCase, target, op, variant)) {
      counts.refused++;
      continue;
    }
    begin(`${op}${variant && ` (${variant})`}: ${testCase.name}`);
    try {
      await runCase(device, testCase, target);
      counts.passed++;
      counts.ran++;
    } catch (error) {
      if (error instanceof UnsupportedCase) counts.refused++;
      else {
        counts.ran++;
        const { message } = error as Error;
        if (failures.length < MAX_FAILURES) {
          failures.push({ op, variant, case: testCase.name, message });
        }
        tell();
        if (error instanceof DeviceLostError) throw error;
      }
    }
    tell();
  }
  return true;
}

/** Whether a variant could ever be chosen for a case: those for software adapters are not on a GPU. */
function mayUse(testCase: OpCase, target: Target, op: string, variant: string): boolean {
  if (variant === "") return true;
  let isCandidate = true;
  const free: Target = {
    ...target,
    // Kernels on narrower factors are checked wherever they fit.
    operands: "int8",
    forcedVariants: {},
    onChoice: (choice) => {
      if (choice.op === op) isCandidate = choice.candidates.includes(variant);
    },
  };
  try {
    traceCase(testCase, free);
  } catch (error) {
    if (!(error instanceof UnsupportedCase)) throw error;
  }
  return isCandidate;
}
