import type { Op } from "../op.ts";
import { GATHER_CHECKS, GATHER_SUITE } from "./cases.ts";

/** `gather` with its tables. */
export const GATHER: Op = { name: "gather", suites: [GATHER_SUITE], checks: GATHER_CHECKS };
