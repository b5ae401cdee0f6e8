/**
 * The worker that owns the GPU. Deno's GPU waits block their thread, so they happen here and nowhere else.
 */
import { openPipeline, type Pipeline, type PipelineRequest } from "../models/mod.ts";
import { type Device, openDevice } from "../runtime/mod.ts";
import { toErrorRecord } from "./error_record.ts";
import { inspect } from "./inspect.ts";
import type { FromWorker, ToWorker } from "./protocol.ts";
import { type OpenEvents, openTunedDevice, runTuning } from "./tuned_device.ts";

/** The part of a worker's global scope that is used here. */
const scope = self as unknown as {
  onmessage: (event: MessageEvent<ToWorker>) => void;
  postMessage(message: FromWorker, transfer: Transferable[]): void;
};

let device: Device | undefined;
let pipeline: Pipeline | undefined;

scope.onmessage = async ({ data }): Promise<void> => {
  try {
    switch (data.type) {
      case "open":
        return await open(data);
      case "generate":
        return await generate(data.request, new Int32Array(data.cancel));
      case "inspect":
        return post({ type: "inspected", report: await inspect(data.device, data.tuning) });
      case "tune":
        return post({ type: "tuned", report: await runTuning(data.device, data, events) });
    }
  } catch (error) {
    post({ type: "failed", error: toErrorRecord(error) });
  }
};

const events: OpenEvents = {
  note: (line) => post({ type: "note", line }),
  tuning: (fraction, line) => post({ type: "tuning", fraction, line }),
};

async function open(
  { folder, device: settings, tuning }: Extract<ToWorker, { type: "open" }>,
): Promise<void> {
  pipeline = await openPipeline(folder);
  device = await (tuning ? openTunedDevice(settings, tuning, events) : openDevice(settings));
  let percent = 0;
  await pipeline.load(device, (fraction) => {
    if (Math.floor(fraction * 100) === percent) return;
    percent = Math.floor(fraction * 100);
    post({ type: "loading", fraction });
  });
  post({ type: "opened", info: pipeline.info, maxPixels: maxPixels(device) });
}

async function generate(request: PipelineRequest, cancel: Int32Array): Promise<void> {
  if (!pipeline || !device) throw new Error("Cannot generate: no model is open");
  device.resetPeak();
  const { frames, timings } = await pipeline.generate(request, {
    isCancelled: () => Atomics.load(cancel, 0) !== 0,
    onProgress: (progress) => post({ type: "progress", progress }),
  });
  const bytes = frames.map(toBytes);
  post(
    { type: "generated", frames: bytes, timings, peakBytes: device.peakBytes },
    bytes.map(({ buffer }) => buffer),
  );
}

/** [0, 1] to 0…255, halves to even, as the reference rounds. */
function toBytes(values: Float32Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Uint8ClampedArray.from(values, (value) => value * 255).buffer);
}

/** The largest picture whose RGB pixels fit into one buffer as f32, with room for the layers before. */
function maxPixels({ target }: Device): number {
  return Math.min(4096 * 4096, Math.floor(target.limits.maxBufferBytes / 128));
}

function post(message: FromWorker, transfer: Transferable[] = []): void {
  scope.postMessage(message, transfer);
}
