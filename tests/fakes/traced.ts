/**
 * A process of a fleet with a fake engine, for tests of traces. `front` answers a request and writes
 * the record of its job; `worker` reads that and does the job again.
 */

import { EngineState, ServedModels } from "../../server/served_models.ts";
import type { JobRecord } from "../../server/jobs/job_store.ts";
import { Runners } from "../../server/runners.ts";
import type { ServerLoras } from "../../server/loras/server_loras.ts";
import { DEFAULT_SETTINGS } from "../../server/settings.ts";
import { openTracing } from "../../server/telemetry/tracing.ts";
import type { Frames, GenerateRequest, GenerationControl } from "../../engine/types.ts";
import { FakeEngine } from "./engine.ts";
import { testService } from "./service.ts";

/** Tells of every stage. */
class StagedEngine extends FakeEngine {
  override async generate(
    request: GenerateRequest,
    control: GenerationControl = {},
  ): Promise<Frames> {
    for (const stage of ["load", "encode"] as const) {
      control.onProgress?.({ stage, step: 0, totalSteps: 0, fraction: 0 });
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    const frames = await super.generate(request, control);
    control.onProgress?.({ stage: "decode", step: 1, totalSteps: 1, fraction: 1 });
    return frames;
  }
}

async function front(traceparent: string, prompt: string): Promise<void> {
  const engine = new StagedEngine();
  await using service = await testService({ engine, tracing: await openTracing() });
  const headers = { traceparent };
  const response = await service.post("/v1/images/generations", { prompt }, { headers });
  const { id } = await response.json();
  console.log(JSON.stringify(await service.store.get(id)));
}

async function worker(record: JobRecord): Promise<void> {
  const engine = new StagedEngine({ failure: new Error("the shader broke") });
  const state = new EngineState(Promise.resolve(engine));
  await state.settled;
  const model = { name: "gradients", path: "fake/gradients", namedLoras: {}, engine: state };
  const runners = new Runners({
    models: new ServedModels([{ ...model, loras: {} as ServerLoras }]),
    settings: DEFAULT_SETTINGS,
    storage: undefined,
    enhancer: undefined,
    ffmpeg: () => Promise.reject(new Error("Cannot make videos here")),
    tracing: await openTracing(),
  });
  const { signal } = new AbortController();
  const context = {
    id: record.id,
    signal,
    progress: () => {},
    preview: () => {},
    output: () => {},
  };
  await runners.again(record)!.work(context).catch(() => {});
}

if (import.meta.main) {
  const [role, ...args] = Deno.args;
  if (role === "front") await front(args[0]!, args[1]!);
  else await worker(JSON.parse(args[0]!) as JobRecord);
}
