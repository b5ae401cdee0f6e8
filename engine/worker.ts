/** The worker that owns the GPU. Deno's GPU waits block their thread, so they happen here and nowhere else. */
import type { AppliedLora, Lora } from "../models/lora/types.ts";
import {
  Composition,
  isInpainting,
  openPipeline,
  type Pipeline,
  type PipelineInfo,
  type PlanRequest,
  type Ranks,
  roomOf,
} from "../models/mod.ts";
import {
  type Device,
  estimateExchange,
  measureMemory,
  openDevice,
  SharedTeam,
  usableHostBytes,
} from "../runtime/mod.ts";
import { type AskedHelpers, compileHelpers } from "./compile_threads.ts";
import { ModelFilesError } from "./model_files_error.ts";
import {
  areaPixels,
  drawnSize,
  IMAGE_TASKS,
  middleOf,
  nearestFrames,
  resizePixels,
  scaledSize,
  shrinkRequest,
} from "./result_size.ts";
import {
  FrameFlow,
  type FromWorker,
  type LoraMessage,
  type Message,
  type RankMessage,
  type Room,
  type TeamSeat,
  toErrorRecord,
  type ToWorker,
} from "./protocol.ts";
import { hiresSize, takesHires } from "./hires.ts";
import { placed, requestedArea } from "./mask_area.ts";
import { cover } from "../media/fit.ts";
import { isOpaque, onWhite } from "../media/image.ts";
import { holdLifeline } from "../platform/mod.ts";
import { inspect } from "./inspect.ts";
import type { Size } from "./types.ts";
import { type OpenEvents, openTunedDevice, runTuning } from "./tuned_device.ts";

/** The part of a worker's global scope that is used here. */
const scope = self as unknown as {
  onmessage: (event: MessageEvent<ToWorker>) => void;
  postMessage(message: FromWorker, transfer: Transferable[]): void;
};

let device: Device | undefined;
let helpers: AskedHelpers | undefined;
let pipeline: Pipeline | undefined;
/** Of what is being generated, or was last. */
let flow: FrameFlow | undefined;
const teams: SharedTeam[] = [];
const loras = new Map<string, Lora>();

holdLifeline();

scope.onmessage = async ({ data }): Promise<void> => {
  try {
    switch (data.type) {
      case "open":
        return await open(data);
      case "generate":
        return await generate(data);
      case "prepare":
        if (!pipeline) throw new Error("Cannot prepare LoRAs: no model is open");
        await pipeline.prepare(receive(data.loras));
        return post({ type: "prepared" });
      case "release":
        pipeline?.release(data.bytes);
        return post({ type: "released" });
      case "compiled":
        return helpers?.finish();
      case "cancel":
        return flow?.cancel();
      case "check":
        return await check(data);
      case "describe":
        return await describe(data);
      case "plan":
        return await plan(data);
      case "inspect":
        return post({
          type: "inspected",
          report: await inspect(
            data.device,
            data,
            (name, fraction) => post({ type: "checking", name, fraction }),
          ),
        });
      case "measure":
        return await measure(data);
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
  { model, parts, device: settings, memory, tuning, prepared, ranks, isAgain }: Message<"open">,
): Promise<void> {
  pipeline = await openPipeline(model, parts, seated(ranks)).catch((error) => {
    throw isAgain && error instanceof Error ? new ModelFilesError(error.message) : error;
  });
  device = await (tuning ? openTunedDevice(settings, tuning, events) : openDevice(settings));
  device.helpers = helpers = compileHelpers(device, settings, post);
  const room = freeRoom(device);
  let percent = 0;
  const onProgress = (fraction: number) => {
    if (Math.floor(fraction * 100) === percent) return;
    percent = Math.floor(fraction * 100);
    post({ type: "loading", fraction });
  };
  await pipeline.load(device, onProgress, {
    ...memory,
    ...(prepared && { prepared: { ...prepared, ...drawnAt(prepared, pipeline.info) } }),
    onNote: events.note,
    onKernels: tellOfKernels,
  });
  tellOf(pipeline, device, room);
}

function drawnAt(size: PlanRequest, info: PipelineInfo): Size | undefined {
  const { width, height } = { ...info.defaults, ...size };
  return drawnSize({ width, height }, info);
}

const tellOfKernels = (done: number, total: number) => post({ type: "compiling", done, total });

async function measure({ device: settings, wantedBytes }: Message<"measure">): Promise<void> {
  using own = await openDevice(settings);
  const { isSoftware } = own.adapter;
  post({ type: "measured", bytes: await measureMemory(own, wantedBytes), isSoftware });
}

async function describe({ model, parts, device: settings }: Message<"describe">): Promise<void> {
  using described = await openPipeline(model, parts);
  using own = await openDevice(settings);
  tellOf(described, own, freeRoom(own));
}

function tellOf({ info, adaptable }: Pipeline, device: Device, room: Room): void {
  const { name: adapter } = device.adapter;
  // The largest image whose RGB pixels fit into one buffer as f32, with room for the layers before.
  const maxPixels = Math.min(4096 * 4096, Math.floor(device.target.limits.maxBufferBytes / 128));
  post({ type: "opened", info, adaptable, adapter, maxPixels, room });
}

async function check(
  { model, parts, memory, room, size, ranks }: Message<"check">,
): Promise<void> {
  pipeline ??= await openPipeline(model, parts, seated(ranks));
  const { target, budgetBytes: availableBytes, hostBytes } = room;
  const measure = (wantedBytes: number) => Math.min(wantedBytes, availableBytes);
  await pipeline.check(size, { target, availableBytes, measure, hostBytes }, memory);
  post({ type: "checked" });
}

async function plan(
  { model, parts, device: settings, memory, size, ranks }: Message<"plan">,
): Promise<void> {
  using planned = await openPipeline(model, parts, seated(ranks));
  using own = await openDevice(settings);
  const { supportedTasks, defaults } = planned.info;
  const { hiresScale, ...plain } = size;
  const { width, height, numFrames: asked } = { ...defaults, ...plain };
  const second = hiresSize({ width, height, ...(hiresScale && { hiresScale }) }, planned.info);
  if (second && !takesHires(planned.info)) {
    throw new RangeError(
      "Cannot plan a hires fix: this model does not redraw images by a strength; omit hiresScale",
    );
  }
  const numFrames = nearestFrames(asked, planned.info);
  if (numFrames !== 1 && supportedTasks.every((task) => IMAGE_TASKS.includes(task))) {
    throw new RangeError(
      `Cannot plan ${numFrames} frames: this model makes images alone; leave the number out`,
    );
  }
  // The second pass is the larger one, and drawn as large as it is.
  const drawn = second ? undefined : drawnAt(size, planned.info);
  const report = await planned.plan(
    {
      ...plain,
      ...(size.numFrames !== undefined && { numFrames }),
      ...(second ? { ...second, task: "TI2I" as const } : drawn),
    },
    roomOf(own),
    memory,
  );
  const { exchanged } = report;
  const handoverSeconds = exchanged && await estimateExchange(own, exchanged);
  post({
    type: "planned",
    adapter: own.adapter.name,
    size: { width, height, numFrames, ...second, ...(drawn && { drawnAt: drawn }) },
    report,
    ...(handoverSeconds !== undefined && { handoverSeconds }),
  });
}

function seated({ guidance, sequence, layers }: RankMessage = {}): Ranks {
  const join = (seat: TeamSeat) => {
    const team = new SharedTeam(seat.memory, seat.rank);
    teams.push(team);
    return team;
  };
  return {
    ...(guidance && { guidance: join(guidance) }),
    ...(sequence && { sequence: { team: join(sequence), ulysses: sequence.ulysses } }),
    ...(layers && { layers: join(layers) }),
  };
}

function receive({ uses, added, forgotten }: LoraMessage): AppliedLora[] {
  for (const key of forgotten) loras.delete(key);
  for (const [key, lora] of added) loras.set(key, lora);
  return uses.map((use) => ({ ...use, lora: loras.get(use.key)! }));
}

async function generate(
  { request: asked, drawnAt, size, result, loras, previews, flow: shared }: Message<"generate">,
): Promise<void> {
  if (!pipeline || !device) throw new Error("Cannot generate: no model is open");
  device.resetPeak();
  const area = drawnAt && requestedArea(asked, drawnAt);
  const request = drawnAt ? shrinkRequest(asked, drawnAt, pipeline.info, area) : asked;
  const own = flow = new FrameFlow(shared);
  let frames = 0;
  const composition = drawnAt && isInpainting(asked) ? new Composition(asked) : undefined;
  // Frames have the upscaler's own scale, and previews none.
  const scale = request.enableUpscaling ? pipeline.info.upscalerScale! : 1;
  const show = (type: "frame" | "preview", values: Float32Array, index: number) => {
    const isFrame = type === "frame";
    const isMiddle = result === "middle";
    const made = scaledSize(isMiddle ? asked : request, isFrame ? scale : 1);
    const wanted = isFrame ? size : asked;
    const isWanted = made.width === wanted.width && made.height === wanted.height;
    const all = toBytes(values);
    const bytes = isMiddle ? middleOf(all, request, asked, isFrame ? scale : 1) : all;
    // What a second pass begins with has no alpha, and what is opaque needs none; layers are all alike.
    const isRgba = bytes.length === 4 * made.width * made.height && !pipeline!.info.layers;
    const pixels = isRgba && (result === "covering" || isOpaque(bytes)) ? onWhite(bytes) : bytes;
    const data = area
      ? placed(areaPixels(pixels, made, area), area, asked)
      : isWanted
      ? pixels
      : result === "covering"
      ? cover({ ...made, data: pixels }, wanted.width, wanted.height).data as Uint8Array<
        ArrayBuffer
      >
      : resizePixels(pixels, made, wanted);
    // What was drawn smaller and enlarged has lost what the given image keeps.
    if (composition && data.length === asked.width * asked.height * 3) composition.apply(data);
    if (isFrame) own.send(data.byteLength);
    post({ type, data, index }, [data.buffer]);
  };
  const applied = receive(loras);
  const isLatent = result === "latents";
  const { timings, cutPrompts, latents } = await makeTogether(pipeline, {
    ...request,
    loras: applied,
  }, {
    isCancelled: () => own.isCancelled,
    onKernels: tellOfKernels,
    onProgress: (progress) => post({ type: "progress", progress }),
    onNote: events.note,
    onTokenizing: (isOver) => post({ type: "tokenizing", isOver }),
    onFrame: (values) => show("frame", values, frames++),
    onAudio: (audio) =>
      post({ type: "audio", audio }, audio.channels.map(({ buffer }) => buffer as ArrayBuffer)),
    isLatent,
    isAudioAlone: result === "audio",
    previews,
    onPreview: (values, index) => show("preview", values, index),
  });
  post({
    ...{ type: "generated", timings, cutPrompts, peakBytes: device.peakBytes },
    ...(isLatent && { latents }),
  });
}

/** Makes a result, where there are teams as a part of them. */
async function makeTogether(
  own: Pipeline,
  ...work: Parameters<Pipeline["generate"]>
): ReturnType<Pipeline["generate"]> {
  for (const team of teams) team.begin();
  try {
    return await own.generate(...work);
  } finally {
    for (const team of teams) team.end();
  }
}

/** [0, 1] to 0…255, halves to even, as the reference rounds. */
function toBytes(values: Float32Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Uint8ClampedArray.from(values, (value) => value * 255).buffer);
}

function freeRoom(device: Device): Room {
  const { target, availableBytes, adapter } = device;
  const { onChoice: _, ...plain } = target;
  const usableBytes = adapter.isSoftware ? usableHostBytes() : Infinity;
  const { hostBytes } = roomOf(device);
  return { target: plain, budgetBytes: Math.min(availableBytes, usableBytes), hostBytes };
}

function post(message: FromWorker, transfer: Transferable[] = []): void {
  scope.postMessage(message, transfer);
}
