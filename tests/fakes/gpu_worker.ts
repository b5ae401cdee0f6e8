/**
 * A worker without a GPU that speaks the engine's protocol. The prompt says how a generation ends; a thread named
 * `silent` never answers, one named `frail` breaks at its first generation. What LoRAs do to a result is a colour.
 */
import {
  FrameFlow,
  type FromWorker,
  type LoraMessage,
  toErrorRecord,
  type ToWorker,
} from "../../engine/protocol.ts";
import { holdLifeline } from "../../platform/mod.ts";
import type { Lora } from "../../models/lora/types.ts";
import type { PlanRequest } from "../../models/mod.ts";
import { BASELINE_TARGET } from "../../runtime/target.ts";
import { DeviceLostError, OutOfMemoryError } from "../../runtime/errors.ts";
import { colourOf, FAKE_COMPONENTS } from "./loras.ts";
import { FAKE_INFO } from "./model_info.ts";

const scope = self as unknown as {
  name: string;
  onmessage: (event: MessageEvent<ToWorker>) => void;
  postMessage(message: FromWorker): void;
};

const post = (message: FromWorker) => scope.postMessage(message);
const fail = (error: unknown) => post({ type: "failed", error: toErrorRecord(error) });
/** Nobody catches this. */
const crash = (afterMs = 0) =>
  setTimeout(() => {
    // Deno prints the stack of what nobody catches: it would clutter the log of the tests.
    throw Object.assign(new Error("the thread broke"), { stack: "" });
  }, afterMs);

holdLifeline();

scope.onmessage = ({ data }): void => {
  if (scope.name === "silent") return;
  if (data.type === "open") open(data.model);
  else if (data.type === "generate" && scope.name === "frail") crash();
  else if (data.type === "generate") generate(data);
  else if (data.type === "check") check(data.size);
  else if (data.type === "prepare") prepare(data.loras);
  else if (data.type === "release") {
    releases++;
    post({ type: "released" });
  }
};

let releases = 0;

const loras = new Map<string, Lora>();

/** The colour of a message's LoRAs. */
function receive({ uses, added, forgotten }: LoraMessage): number {
  for (const key of forgotten) loras.delete(key);
  for (const [key, lora] of added) loras.set(key, lora);
  return colourOf(uses.map((use) => ({ ...use, lora: loras.get(use.key)! })));
}

function prepare(message: LoraMessage): void {
  receive(message);
  // No LoRA is ever this strong but to fill the memory.
  if (message.uses.some(({ strength }) => strength === 99)) {
    return fail(
      new OutOfMemoryError("Cannot hold the LoRAs: they take 2 MB, 1 MB is left", 2, 1),
    );
  }
  post({ type: "prepared" });
}

let checks = 0;

/** Refuses what is wide; the height is how many questions there may be at most. */
function check({ width = 0, height = 0 }: PlanRequest): void {
  if (++checks > height) crash();
  else if (width > 1000) fail(new RangeError("Cannot make this: it is too wide"));
  else post({ type: "checked" });
}

function open(model: string): void {
  if (model === "damaged") return fail(new SyntaxError("Cannot read the model: it is damaged"));
  post({ type: "loading", fraction: 0.5 });
  post({
    type: "opened",
    adapter: "fake",
    maxPixels: 1000,
    room: { target: BASELINE_TARGET, budgetBytes: Infinity },
    info: {
      ...FAKE_INFO,
      supportedTasks: ["T2I", "T2V", "I2V"],
      defaultTask: "T2I",
      maxFrames: 9,
    },
    adaptable: FAKE_COMPONENTS,
  });
}

function generate(
  message: Extract<ToWorker, { type: "generate" }>,
): void {
  const { request: { prompt, width, height }, previews } = message;
  const colour = receive(message.loras);
  const flow = new FrameFlow(message.flow);
  post({ type: "progress", progress: { stage: "denoise", step: 1, totalSteps: 4 } });
  if (prompt.startsWith("tokenize")) post({ type: "tokenizing", isOver: false });
  if (prompt === "tokenize") post({ type: "tokenizing", isOver: true });
  switch (prompt) {
    case "tokenize for ever":
      return;
    case "crash":
      crash();
      return;
    case "leave":
      return self.close();
    case "lose the device":
      return fail(new DeviceLostError("Cannot go on: the device was lost"));
    case "wait":
      while (!flow.isCancelled) Atomics.wait(new Int32Array(message.flow), 1, 0, 5);
      return fail(new DOMException("Cannot finish: the work was cancelled", "AbortError"));
    case "deaf":
      return;
    case "refuse":
      return fail(new RangeError("Cannot make this"));
  }
  if (prompt === "large frames") {
    for (let index = 0; index < 6; index++) {
      const data = new Uint8Array(20e6);
      flow.send(data.byteLength);
      post({ type: "frame", data, index });
    }
  }
  for (let index = 0; index < previews; index++) {
    post({ type: "preview", data: new TextEncoder().encode(`preview ${index}`), index });
  }
  const data = prompt === "colour"
    ? Uint8Array.from({ length: width * height * 3 }, (_, index) => colour >> (index % 3 * 8))
    : new TextEncoder().encode(prompt === "count releases" ? `${releases}` : prompt);
  if (prompt === "sound") {
    post({ type: "audio", audio: { sampleRate: 8, channels: [new Float32Array([0, 1])] } });
  }
  post({ type: "frame", data, index: 0 });
  post({
    type: "generated",
    timings: { denoise: 1500 },
    cutPrompts: [],
    peakBytes: 7,
  });
  // On a busy machine the end of a thread overtakes what it said last.
  if (prompt === "crash afterwards") crash(200);
}
