/** What is refused before any device is opened. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { openPipeline, type PlanRoom } from "../mod.ts";
import {
  BASELINE_TARGET,
  type Device,
  DeviceTensor,
  OutOfMemoryError,
  TensorLimitError,
} from "../../runtime/mod.ts";
import { ModelMemory, type RequestKind, roomOf, type Variant } from "./model_memory.ts";
import type { PlannedSession } from "./session_cache.ts";
import type { ResidencyPlan } from "./residency.ts";
import type { SessionRunner } from "./session_runner.ts";
import { FOLDER } from "../../tests/support/pipeline_fixture.ts";

const SIZE = { task: "T2V", width: 256, height: 256, numFrames: 5, promptTokens: 1 } as const;

const BUNDLED = fileURLToPath(new URL("../bundled", import.meta.url));

/** A device's room, with bindings of so many bytes. */
function room(maxBindingBytes: number, budgetBytes = Infinity): PlanRoom {
  return {
    target: { ...BASELINE_TARGET, limits: { ...BASELINE_TARGET.limits, maxBindingBytes } },
    availableBytes: budgetBytes,
    measure: (wanted) => Math.min(wanted, budgetBytes),
  };
}

Deno.test("Pipeline.check() refuses tensors that need more bindings than the device has", async () => {
  using pipeline = await openPipeline(FOLDER);
  await pipeline.check(SIZE, room(2 ** 27));
  await assert.rejects(pipeline.check(SIZE, room(2 ** 12)), {
    name: "RangeError",
    message:
      /^Cannot make 256x256 with 5 frames: a kernel needs \d+ storage bindings, the adapter has 8; ask for a smaller size or fewer frames$/,
  });
});

Deno.test("ModelMemory.check() passes over ways with such tensors where there is another", async () => {
  const tried: string[] = [];
  const kind = (possible: string): RequestKind<PlannedSession> => ({
    ...{ key: "", subject: "make it", advice: "ask for less" },
    variants: [{ tileSide: 1, passes: "batched" }, { tileSide: 1, passes: "sequential" }],
    trace: ({ passes }) => {
      tried.push(passes);
      if (passes !== possible) throw new TensorLimitError("", `${passes} is too much`);
      return { runner: { plan: () => ({ peakBytes: 1 }) } as unknown as SessionRunner };
    },
  });
  const memory = new ModelMemory<PlannedSession>({});
  await memory.check(kind("sequential"), room(1));
  assert.deepEqual(tried, ["batched", "sequential"]);
  await assert.rejects(memory.check(kind("neither"), room(1)), {
    name: "RangeError",
    message: "Cannot make it: sequential is too much; ask for less",
  });
});

const WAITING_BYTES = 32;

/** What ways to make a request would take, and bring to the device again. */
const WAYS: Partial<Record<Variant["passes"], Partial<ResidencyPlan>>> = {
  sequential: { peakBytes: 100, isTogether: true, reloadedBytes: 0 },
  streamed: {
    ...{ peakBytes: 50, isTogether: false, reloadedBytes: 9 },
    waiting: new Set([new DeviceTensor("result", [WAITING_BYTES / 4])]),
  },
  recomputed: { peakBytes: 40, isTogether: true, reloadedBytes: 1 },
};

for (
  const [passes, budgetBytes, hostBytes] of [
    ["sequential", 100, WAITING_BYTES],
    ["streamed", 60, WAITING_BYTES],
    ["recomputed", 60, WAITING_BYTES - 1],
    ["recomputed", 60, undefined],
    ["recomputed", 45, WAITING_BYTES],
  ] as const
) {
  const where = `${budgetBytes} bytes of the device and ${hostBytes ?? "none"} of the host`;
  Deno.test(`ModelMemory.report() takes the way that is ${passes} where there are ${where}`, async () => {
    const kind: RequestKind<PlannedSession> = {
      ...{ key: "", subject: "make it", advice: "ask for less" },
      variants: [
        { tileSide: 1, passes: "sequential" },
        { tileSide: 1, passes: "streamed" },
        { tileSide: 1, passes: "recomputed" },
      ],
      trace: ({ passes }) => {
        const nothing = { plan: { slabBytes: [], workspaceBytes: 0 }, own: [], readBytes: 0 };
        const stage = {
          ...{ ...nothing, stage: { name: "", graphs: {} }, peakBytes: 0 },
          ...{ weights: new Set(), streamed: new Set() },
        };
        const all = { waiting: new Set(), kept: new Set(), stages: [stage], stateBytes: 0 };
        return {
          runner: { plan: () => ({ ...all, ...WAYS[passes] }) } as unknown as SessionRunner,
        };
      },
    };
    const own = { ...room(1, budgetBytes), hostBytes };
    const report = await new ModelMemory<PlannedSession>({}).report(kind, own);
    assert.equal(report.reloadedBytes, WAYS[passes]!.reloadedBytes);
    assert.equal(report.hostBytes, passes === "streamed" ? WAITING_BYTES : undefined);
  });
}

Deno.test("roomOf() counts on host memory where the device has memory of its own", () => {
  const hostBytes = (isUnified: boolean) =>
    roomOf({ adapter: { isUnified } } as unknown as Device).hostBytes!;
  assert.equal(hostBytes(true), 0);
  assert.ok(hostBytes(false) > 0);
});

Deno.test("Pipeline.check() refuses what needs more memory than there is, with the least it takes", async () => {
  using pipeline = await openPipeline(FOLDER);
  const error = await pipeline.check(SIZE, room(2 ** 27, 1e5)).catch((error) => error);
  assert.ok(error instanceof OutOfMemoryError);
  assert.match(error.message, /^Cannot make 256x256 with 5 frames: it needs \d+ MB on the device/);
  const least = error.requestedBytes;
  await pipeline.check(SIZE, room(2 ** 27, least));
  await assert.rejects(pipeline.check(SIZE, room(2 ** 27, least - 1)), OutOfMemoryError);
  const longer = pipeline.check({ ...SIZE, promptTokens: 512 }, room(2 ** 27, least));
  await assert.rejects(longer, OutOfMemoryError);
});

Deno.test("Pipeline.check() takes no longer where there are millions of tokens", async () => {
  using pipeline = await openPipeline(BUNDLED);
  const { target, ...others } = room(2 ** 40);
  const limits = { ...target.limits, maxBufferBytes: 2 ** 40 };
  const huge = { ...SIZE, width: 4096, height: 4096, numFrames: 257 };
  const start = performance.now();
  await pipeline.check(huge, { target: { ...target, limits }, ...others });
  assert.ok(performance.now() - start < 5000);
});
