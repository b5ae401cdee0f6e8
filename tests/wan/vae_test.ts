/** The Wan autoencoder against the reference, chunk by chunk as it runs in the pipeline. */
import { strict as assert } from "node:assert";
import { attentionBlock, type Stream } from "../../models/autoencoders/wan/blocks.ts";
import { WAN_VAE_CONFIG } from "../../models/autoencoders/wan/config.ts";
import { wanDecoder, wanEncoder } from "../../models/autoencoders/wan/coder.ts";
import { FrameHistory } from "../../models/autoencoders/wan/history.ts";
import { parseConfig } from "../../models/config.ts";
import {
  copyTo,
  type Device,
  DeviceTensor,
  Graph,
  instantiate,
  planMemory,
  runSequence,
  type Tensor,
  Weights,
} from "../../runtime/mod.ts";
import {
  assertClose,
  concatRows,
  Golden,
  rowsOf,
  transpose,
  type Values,
} from "../support/golden.ts";
import { ModelRun, openTestDevice } from "../support/model_run.ts";

/** [batch, channels, frames, height, width] of the reference to [batch, frames, height, width, channels]. */
const TO_CHANNELS_LAST = [0, 2, 3, 4, 1];
const TO_CHANNELS_FIRST = [0, 4, 1, 2, 3];

/** Runs videos through a coder: the first chunk by one program, all others by another, history in between. */
async function codeVideos(
  device: Device,
  weights: Weights,
  videos: readonly (readonly Values[])[],
  trace: (graph: Graph, chunk: Tensor, stream: Stream) => Tensor,
): Promise<Values[][]> {
  const [chunks] = videos as [readonly Values[]];
  const history = new FrameHistory();
  const parts = chunks.slice(0, 2).map(({ shape }, i) => {
    const place = i === 1 ? "next" : chunks.length === 1 ? "only" : "first";
    const graph = new Graph(place, device.target);
    const input = new DeviceTensor(`${place} input`, shape);
    const result = trace(graph, graph.use(input), { place, history });
    const output = new DeviceTensor(`${place} output`, result.shape);
    copyTo(result, output);
    return { graph, input, output };
  });
  const state = [...parts.flatMap(({ input, output }) => [input, output]), ...history.tensors];
  assert.equal(chunks.length === 1, state.length === 2, "a single chunk keeps no history");
  await weights.upload(device);
  for (const tensor of state) tensor.allocate(device);
  const programs = await instantiate(
    planMemory(Object.fromEntries(parts.map(({ graph }) => [graph.name, graph]))),
    device,
  );
  const results: Values[][] = [];
  for (const video of videos) {
    for (const tensor of history.tensors) tensor.clear();
    const coded: Values[] = [];
    for (const [i, chunk] of video.entries()) {
      const { graph, input, output } = parts[Math.min(i, 1)]!;
      input.write(chunk.data);
      await runSequence(device, [{ programs: [programs.get(graph.name)] }]);
      coded.push({ shape: output.shape, data: await output.read() });
    }
    results.push(coded);
  }
  programs.destroy();
  for (const tensor of state) tensor.destroy();
  return results;
}

/** Cuts each video of a batch [batch, frames, …] into chunks [1, length, …]: `first` frames, then `next` at a time. */
function cutVideos(batch: Values, first: number, next: number): Values[][] {
  const [samples, frames, ...rest] = batch.shape as [number, number, ...number[]];
  return Array.from({ length: samples }, (_, i) => {
    const video = { shape: [frames, ...rest], data: rowsOf(batch, i, i + 1).data };
    const chunks: Values[] = [];
    for (let start = 0; start < frames;) {
      const length = start === 0 ? first : next;
      const { data } = rowsOf(video, start, start + length);
      chunks.push({ shape: [1, length, ...rest], data });
      start += length;
    }
    return chunks;
  });
}

/** The inverse of {@linkcode cutVideos}. */
function joinVideos(videos: readonly (readonly Values[])[]): Values {
  const joined = videos.map((chunks) => {
    const frames = concatRows(chunks.map(({ shape, data }) => ({ shape: shape.slice(1), data })));
    return { shape: [1, ...frames.shape], data: frames.data };
  });
  return concatRows(joined);
}

/** Channels `start … end - 1` of channels-last values, channels first. */
function channelsOf(values: Values, start: number, end: number): Values {
  const channelsFirst = transpose(values, [4, 0, 1, 2, 3]);
  return transpose(rowsOf(channelsFirst, start, end), [1, 0, 2, 3, 4]);
}

function clamp({ shape, data }: Values, low: number, high: number): Values {
  return { shape, data: Float64Array.from(data, (value) => Math.min(high, Math.max(low, value))) };
}

for (const name of ["vae21-tiny", "vae22-tiny"]) {
  Deno.test(`wanEncoder() and wanDecoder() give the latents and pixels of ${name}`, async (t) => {
    const device = await openTestDevice();
    const golden = new Golden(`wan/${name}`);
    const config = parseConfig(WAN_VAE_CONFIG, golden.config(), "config.json");
    using checkpoint = golden.checkpoint();
    const weights = new Weights(checkpoint);
    try {
      for (const { name: call } of golden.calls.filter(({ inputs }) => inputs.includes("video"))) {
        await t.step(call, async () => {
          const video = transpose(golden.tensor(call, "video"), TO_CHANNELS_LAST);
          const videos = cutVideos(video, 1, config.scale_factor_temporal);
          const coded = await codeVideos(
            device,
            weights,
            videos,
            (graph, frames, stream) => wanEncoder(graph, config, weights.root, frames, stream),
          );
          const moments = joinVideos(coded);
          const means = channelsOf(moments, 0, config.z_dim);
          const logVariances = clamp(channelsOf(moments, config.z_dim, 2 * config.z_dim), -30, 20);
          assertClose(`${name} ${call} mean`, means, golden.tensor(call, "mean"), 1e-4);
          assertClose(`${name} ${call} logvar`, logVariances, golden.tensor(call, "logvar"), 1e-4);
        });
      }
      for (const { name: call } of golden.calls.filter(({ inputs }) => inputs.includes("z"))) {
        await t.step(call, async () => {
          const latents = transpose(golden.tensor(call, "z"), TO_CHANNELS_LAST);
          const coded = await codeVideos(
            device,
            weights,
            cutVideos(latents, 1, 1),
            (graph, frame, stream) => wanDecoder(graph, config, weights.root, frame, stream),
          );
          const pixels = transpose(joinVideos(coded), TO_CHANNELS_FIRST);
          const clamped = (values: Values) => clamp(values, -1, 1);
          const expected = clamped(golden.tensor(call, "unclamped"));
          assertClose(`${name} ${call}`, clamped(pixels), expected, 1e-4);
        });
      }
      assert.deepEqual(weights.unused, []);
    } finally {
      weights.destroy();
      device.destroy();
    }
  });
}

Deno.test("attentionBlock() gives the reference's result where the head is wider than the fused kernel", async () => {
  const device = await openTestDevice();
  const golden = new Golden("wan/vae-attention-wide");
  using checkpoint = golden.checkpoint();
  const weights = new Weights(checkpoint);
  try {
    const x = transpose(golden.tensor("frames2", "x"), TO_CHANNELS_LAST);
    using run = await ModelRun.prepare(device, weights, { x }, (_, { x }) => ({
      y: attentionBlock(weights.root.scope("decoder.mid_block.attentions.0"), x!),
    }));
    await run.run();
    const output = transpose(await run.read("y"), TO_CHANNELS_FIRST);
    assertClose("vae-attention-wide", output, golden.tensor("frames2", "output"), 1e-4);
    assert.deepEqual(weights.unused, []);
  } finally {
    weights.destroy();
    device.destroy();
  }
});
