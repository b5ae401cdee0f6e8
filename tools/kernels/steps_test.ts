import assert from "node:assert/strict";
import { timeOf } from "./steps.ts";

const CARD = { flops: 1e12, bandwidth: 1e11, bounds: { gemm: 0.5 } };

Deno.test("timeOf() takes the longer one of computing at the kernel's bound and moving bytes", () => {
  const kernel = { name: "gemm/shared layout=nk" };
  const computing = timeOf({ kernel, flops: 1e12, bytes: 1e10 }, CARD);
  assert.equal(computing.isMemory, false);
  assert.ok(Math.abs(computing.seconds - 2) < 1e-5);
  const moving = timeOf({ kernel, flops: 1e9, bytes: 1e11 }, CARD);
  assert.equal(moving.isMemory, true);
  assert.ok(Math.abs(moving.seconds - 1) < 1e-5);
});
