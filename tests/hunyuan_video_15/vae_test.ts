/** HunyuanVideo 1.5's autoencoder against the reference, a latent frame at a time as it runs in the pipeline. */
import assert from "node:assert/strict";
import type { Stream } from "../../models/autoencoders/wan/blocks.ts";
import {
  hunyuanVideo15Decoder,
  hunyuanVideo15Encoder,
} from "../../models/autoencoders/hunyuan_video_15/coder.ts";
import { HUNYUAN_VIDEO_15_VAE_CONFIG } from "../../models/autoencoders/hunyuan_video_15/config.ts";
import { FrameHistory } from "../../models/autoencoders/wan/history.ts";
import { addTile, scaleTile, tilePositions, tilesOf } from "../../models/autoencoders/tiling.ts";
import { parseConfig } from "../../models/config.ts";
import { hunyuanVideo15Codec } from "../../models/families/hunyuan_video_15/codec.ts";
import { Session } from "../../models/memory/session.ts";
import { SessionRunner } from "../../models/memory/session_runner.ts";
import { videoDecoder } from "../../models/pipeline/video_coders.ts";
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
  writing,
} from "../../runtime/mod.ts";
import { randomNormal } from "../../runtime/ops/ndarray.ts";
import { finishGraph } from "../../runtime/program/program.ts";
import { assertClose, concatRows, Golden, transpose, type Values } from "../support/golden.ts";
import { checkCalls, openTestDevice } from "../support/model_run.ts";

const config = (golden: Golden) =>
  parseConfig(HUNYUAN_VIDEO_15_VAE_CONFIG, golden.config(), "config.json");

/** Codes a video, [frames, height, width, channels], in chunks of so many frames after the first. */
async function code(
  device: Device,
  weights: Weights,
  { shape, data }: Values,
  step: number,
  trace: (graph: Graph, chunk: Tensor, stream: Stream) => Tensor,
): Promise<Values> {
  const [length, ...rest] = shape as [number, ...number[]];
  const size = data.length / length;
  const frames = 1 + (length - 1) / step;
  const history = new FrameHistory();
  const frame = new DeviceTensor("frame", [1], "u32");
  const parts = (frames === 1 ? ["only" as const] : ["first", "next"] as const).map((place) => {
    const graph = new Graph(place, device.target);
    const input = new DeviceTensor(`${place} input`, [1, place === "next" ? step : 1, ...rest]);
    const chunk = { frame: graph.use(frame), frames };
    const result = trace(graph, graph.use(input), { place, history, chunk });
    const output = new DeviceTensor(`${place} output`, result.shape);
    copyTo(result, output);
    finishGraph(graph);
    return { graph, input, output };
  });
  const state = [
    frame,
    ...parts.flatMap(({ input, output }) => [input, output]),
    ...history.tensors,
  ];
  await weights.upload(device);
  for (const tensor of state) tensor.allocate(device);
  for (const tensor of history.tensors) tensor.clear();
  const plan = planMemory(Object.fromEntries(parts.map(({ graph }) => [graph.name, graph])));
  const programs = await instantiate(plan, device);
  const coded: Values[] = [];
  for (let i = 0; i < frames; i++) {
    const { graph, input, output } = parts[Math.min(i, parts.length - 1)]!;
    const start = i === 0 ? 0 : 1 + (i - 1) * step;
    input.write(
      Float32Array.from(data).subarray(start * size, (start + (i === 0 ? 1 : step)) * size),
    );
    frame.write([i]);
    await runSequence(device, [{ programs: [programs.get(graph.name)] }]);
    coded.push({ shape: output.shape.slice(1), data: await output.read() });
  }
  programs.destroy();
  for (const tensor of state) tensor.destroy();
  return concatRows(coded);
}

/** [1, channels, frames, height, width] to [frames, height, width, channels]. */
function channelsLast(values: Values): Values {
  const { shape, data } = transpose(values, [0, 2, 3, 4, 1]);
  return { shape: shape.slice(1), data };
}

Deno.test("hunyuanVideo15Encoder() and -Decoder() give moments and pixels of an image and a video, frame by frame", async (t) => {
  const golden = new Golden("hunyuan_video_15/vae");
  using checkpoint = golden.checkpoint();
  const unused = await checkCalls(t, golden, checkpoint, async (device, weights, { name }) => {
    const given = (tensor: string) => channelsLast(golden.tensor(name, tensor));
    for (
      const [from, to, step, coder] of [
        ["video", "moments", 4, hunyuanVideo15Encoder],
        ["latents", "pixels", 1, hunyuanVideo15Decoder],
      ] as const
    ) {
      const coded = await code(
        device,
        weights,
        given(from),
        step,
        (graph, chunk, stream) => coder(graph, config(golden), weights.root, chunk, stream),
      );
      assertClose(to, coded, given(to), 2e-4);
    }
  });
  assert.deepEqual(unused, []);
});

Deno.test("videoDecoder() decodes every tile as if it were the whole video, and blends the seams", async () => {
  const golden = new Golden("hunyuan_video_15/vae");
  using checkpoint = golden.checkpoint();
  const vae = { config: config(golden), weights: new Weights(checkpoint) };
  const [device, frames, height, width, tileSide] = [await openTestDevice(), 2, 2, 7, 4] as const;
  const { latent_channels: channels } = vae.config;
  const input = randomNormal([frames, height, width, channels], 5);
  const decode = async (size: { height: number; width: number }, latents: Float32Array) => {
    const results: Float32Array[] = [];
    const session = new Session(device.target);
    const codec = hunyuanVideo15Codec(vae);
    const stage = session.stage("decode");
    const decoder = videoDecoder(codec, { frames, ...size, tileSide })(stage, "code");
    const runner = new SessionRunner(session, { model: vae.weights });
    await runner.allocate(device, runner.plan({ budgetBytes: Infinity }));
    await runner.run((work) =>
      decoder.run(work, {
        first: [writing(decoder.input, latents)],
        received: (_, pixels) => void (pixels && results.push(pixels)),
      })
    );
    runner.destroy();
    return Float32Array.from(results.flatMap((pixels) => Array.from(pixels)));
  };
  try {
    await vae.weights.upload(device);
    const actual = await decode({ height, width }, Float32Array.from(input.data));
    const scale = vae.config.spatial_compression_ratio;
    const size = height * scale * width * scale * 3;
    const expected = new Float32Array(actual.length);
    const tiles = tilesOf(height, width, tileSide);
    assert.equal(tiles.length, 2);
    for (const tile of tiles) {
      const part = Array.from(
        { length: frames },
        (_, frame) =>
          Array.from(
            tilePositions(tile, width),
            (place) =>
              Array.from({ length: channels }, (_, c) =>
                input.data[(frame * height * width + place) * channels + c]!),
          ),
      );
      const own = { height: tile.rows.size, width: tile.columns.size };
      const pixels = await decode(own, Float32Array.from(part.flat(2)));
      const length = own.height * own.width * scale ** 2 * 3;
      for (let i = 0; i < pixels.length / length; i++) {
        const data = expected.subarray(i * size, (i + 1) * size);
        const values = pixels.subarray(i * length, (i + 1) * length);
        addTile({ data, width: width * scale }, scaleTile(tile, scale), values);
      }
    }
    const shape = [actual.length];
    assertClose("pixels", { shape, data: actual }, { shape, data: expected }, 1e-5);
  } finally {
    vae.weights.destroy();
    device.destroy();
  }
});
