import assert from "node:assert/strict";
import { Graph, type Tensor } from "../../graph/graph.ts";
import { DeviceTensor } from "../../device/device_tensor.ts";
import { matrixTarget, matrixUnit } from "../../../tests/support/matrix_target.ts";
import { BASELINE_TARGET, type TargetFeatures } from "../../target.ts";
import { causalConv3d } from "./causal_conv3d.ts";
import { conv2d } from "./conv2d.ts";

function tensorsOf(shapes: Record<string, number[]>, schedule: "cpu" | "gpu" = "gpu") {
  const graph = new Graph("test", { ...BASELINE_TARGET, schedule });
  const tensors: Record<string, Tensor> = {};
  for (const [name, shape] of Object.entries(shapes)) {
    tensors[name] = graph.use(new DeviceTensor(name, shape));
  }
  return { graph, tensors };
}

Deno.test("conv2d() refuses operands that do not fit, by name", () => {
  const { tensors } = tensorsOf({
    x: [1, 4, 4, 8],
    w: [6, 3, 3, 8],
    thin: [6, 3, 3, 7],
    bias: [5],
    y: [1, 3, 2, 6],
    video: [1, 1, 4, 4, 8],
  });
  const { x, w, thin, bias, y, video } = tensors;
  assert.throws(() => conv2d(x!, thin!), /x \[1, .*takes 7/);
  assert.throws(() => conv2d(x!, w!, { bias }), /bias \[5\] f32 must be \[6\]/);
  assert.throws(() => conv2d(x!, w!, { residual: y }), /residual .*must be \[1, 1, 2, 2, 6\]/);
  assert.throws(() => conv2d(video!, w!), RangeError);
  assert.throws(() => conv2d(x!, w!, { stride: [0, 1] }), /stride \[1, 0, 1\]/);
  assert.throws(() => conv2d(x!, w!, { padding: [0, -1, 0, 0] }), /padding/);
});

Deno.test("conv2d() refuses an input smaller than the kernel", () => {
  const { tensors } = tensorsOf({ x: [1, 2, 5, 8], w: [6, 3, 3, 8] });
  assert.throws(() => conv2d(tensors["x"]!, tensors["w"]!), /smaller/);
});

Deno.test("conv2d() of one pixel's kernel is a linear layer", () => {
  const { graph, tensors } = tensorsOf({ x: [2, 3, 5, 8], w: [6, 1, 1, 8] });
  assert.deepEqual(conv2d(tensors["x"]!, tensors["w"]!).shape, [2, 3, 5, 6]);
  conv2d(tensors["x"]!, tensors["w"]!, { stride: [2, 2] });
  const [pointwise, strided] = graph.dispatches.map(({ kernel }) => kernel.name.split("/")[0]);
  assert.deepEqual([pointwise, strided], ["gemm", "conv"]);
});

Deno.test("conv2d() broadcasts weights on software adapters with subgroups of 8 only", () => {
  const kernelOf = (
    sizes: Partial<TargetFeatures>,
    schedule: "cpu" | "gpu" = "cpu",
    stride: [number, number] = [1, 1],
  ) => {
    const features = { ...BASELINE_TARGET.features, ...sizes };
    const graph = new Graph("test", { ...BASELINE_TARGET, schedule, features });
    const x = graph.use(new DeviceTensor("x", [1, 8, 8, 8]));
    conv2d(x, graph.use(new DeviceTensor("w", [40, 3, 3, 8])), { stride });
    return graph.dispatches[0]!.kernel.name;
  };
  const eight = { subgroups: true, subgroupMinSize: 8, subgroupMaxSize: 8 };
  assert.match(kernelOf(eight), /^conv\/winograd pairs=4 channels=16 /);
  assert.match(kernelOf(eight, "cpu", [1, 2]), /^conv\/registers pixels=4 channels=20 broadcasts /);
  const plain = /^conv\/registers pixels=8 channels=8 !broadcasts /;
  assert.match(kernelOf({}), plain);
  assert.match(kernelOf({ ...eight, subgroupMaxSize: 16 }), plain);
  assert.match(kernelOf(eight, "gpu"), /^conv\/tiles pixel_threads=8 pixels=8 /);
});

Deno.test("conv2d() has one kernel with and without residual on software adapters", () => {
  for (const [schedule, kernels] of [["cpu", 1], ["gpu", 2]] as const) {
    const { graph, tensors } = tensorsOf({ x: [1, 4, 4, 8], w: [8, 3, 3, 8] }, schedule);
    const y = conv2d(tensors["x"]!, tensors["w"]!, { padding: [1, 1, 1, 1] });
    conv2d(y, tensors["w"]!, { padding: [1, 1, 1, 1], residual: y });
    assert.equal(new Set(graph.dispatches.map(({ kernel }) => kernel)).size, kernels);
  }
});

Deno.test("conv2d() normalises what it loads on GPUs where a binding is left, before it elsewhere", () => {
  const kernelsOf = (schedule: "cpu" | "gpu", maxStorageBuffers = 8, channels = 64) => {
    const limits = { ...BASELINE_TARGET.limits, maxStorageBuffers };
    const graph = new Graph("test", { ...BASELINE_TARGET, schedule, limits });
    const tensor = (name: string, shape: number[]) => graph.use(new DeviceTensor(name, shape));
    conv2d(tensor("x", [1, 16, 16, 32]), tensor("w", [channels, 3, 3, 32]), {
      ...{ bias: tensor("bias", [channels]), padding: [1, 1, 1, 1] },
      norm: { groups: 8, eps: 1e-6, weight: tensor("gamma", [32]), activation: "silu" },
    });
    return graph.dispatches.map(({ kernel }) => kernel.name.split(" ")[0]);
  };
  const statistics = ["norm/group_partial", "norm/group_combine"];
  assert.deepEqual(kernelsOf("gpu"), [...statistics, "conv/tiles"]);
  assert.deepEqual(kernelsOf("gpu", 5), [...statistics, "norm/group_apply", "conv/tiles"]);
  assert.deepEqual(kernelsOf("gpu", 8, 320), [...statistics, "norm/group_apply", "conv/tiles"]);
  assert.deepEqual(kernelsOf("cpu"), [...statistics, "norm/group_apply", "conv/registers"]);
});

Deno.test("conv2d() takes tiles of 128 x 128 on GPUs where they are many enough and fit", () => {
  const kernelOf = (side: number, channels: number, kilobytes: number) => {
    const graph = new Graph("test", matrixTarget([], { kilobytes }));
    const x = graph.use(new DeviceTensor("x", [1, side, side, 64]));
    conv2d(x, graph.use(new DeviceTensor("w", [channels, 3, 3, 64])), { padding: [1, 1, 1, 1] });
    return /pixel_threads=\d+ pixels=\d+ channel_threads=\d+/.exec(
      graph.dispatches[0]!.kernel.name,
    )![0];
  };
  const [large, wide] = [16, 8].map((threads) =>
    `pixel_threads=${threads} pixels=8 channel_threads=${threads}`
  );
  assert.equal(kernelOf(256, 128, 32), large);
  assert.equal(kernelOf(128, 128, 32), large);
  assert.equal(kernelOf(96, 128, 32), wide);
  assert.equal(kernelOf(256, 64, 32), wide);
  assert.equal(kernelOf(256, 128, 16), wide);
});

Deno.test("conv2d() takes larger tiles of matrix units the more there is to do, and those of f32", () => {
  const kernelOf = (side: number, channels: number, target = matrixTarget()) => {
    const graph = new Graph("test", target);
    const x = graph.use(new DeviceTensor("x", [1, side, side, 64]));
    conv2d(x, graph.use(new DeviceTensor("w", [channels, 3, 3, 64], "f16")), {
      padding: [1, 1, 1, 1],
    });
    return graph.dispatches[0]!.kernel.name;
  };
  assert.match(kernelOf(512, 128), /tiles=2 .*tile_rows=128 tile_columns=128 /);
  assert.match(kernelOf(128, 128), /tile_rows=128 tile_columns=64 /);
  assert.match(kernelOf(64, 128), /tile_rows=128 tile_columns=64 /);
  assert.match(kernelOf(16, 128), /tile_rows=32 tile_columns=32 /);
  const apple = matrixTarget([matrixUnit(8, 8, 8, "f32")], { features: { f16: false } });
  assert.match(kernelOf(512, 128, apple), /element=f32 .*tile_rows=128 tile_columns=128 /);
  const sizes = { subgroupMinSize: 16, subgroupMaxSize: 32, subgroupSizeControl: true };
  const intel = matrixTarget([matrixUnit(8, 16, 16)], { features: sizes });
  assert.match(
    kernelOf(512, 128, intel),
    / lanes=16 forces_lanes subgroups=8 .*tile_columns=128 /,
  );
});

Deno.test("causalConv3d() refuses a cache of another size or of too many frames", () => {
  const { tensors } = tensorsOf({
    x: [1, 2, 4, 4, 8],
    w: [6, 3, 3, 3, 8],
    long: [1, 3, 4, 4, 8],
    wide: [1, 2, 4, 5, 8],
  });
  const { x, w, long, wide } = tensors;
  assert.throws(() => causalConv3d(x!, w!, { cache: long }), /cache long/);
  assert.throws(() => causalConv3d(x!, w!, { cache: wide }), /cache wide/);
  assert.throws(() => causalConv3d(x!, w!, { frontPadding: -1 }), /-1 frames/);
});

Deno.test("causalConv3d() counts no work for taps on zero frames", () => {
  const flops = (frames: number) => {
    const { graph, tensors } = tensorsOf({ x: [1, frames, 4, 4, 8], w: [6, 3, 3, 3, 8] });
    causalConv3d(tensors["x"]!, tensors["w"]!, { padding: [1, 1, 1, 1] });
    return graph.dispatches.reduce((sum, dispatch) => sum + dispatch.flops, 0);
  };
  const perTap = 2 * 16 * 6 * 9 * 8;
  assert.equal(flops(1), perTap);
  assert.equal(flops(3), (1 + 2 + 3) * perTap);
});

Deno.test("causalConv3d() joins cache and input first on software adapters only", () => {
  for (const [schedule, dispatches] of [["cpu", 3], ["gpu", 1]] as const) {
    const shapes = { x: [1, 2, 4, 4, 8], w: [6, 3, 3, 3, 8], cache: [1, 2, 4, 4, 8] };
    const { graph, tensors } = tensorsOf(shapes, schedule);
    const { x, w, cache } = tensors;
    assert.deepEqual(causalConv3d(x!, w!, { cache }).shape, [1, 2, 2, 2, 6]);
    assert.equal(graph.dispatches.length, dispatches);
  }
});
