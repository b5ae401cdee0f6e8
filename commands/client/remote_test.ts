/** Commands that use a running server, against the service with an engine that draws gradients. */
import { strict as assert } from "node:assert";
import { Client } from "../../client/mod.ts";
import { requestOf } from "../../client/request.ts";
import { defaultsOf } from "../../generation/flag.ts";
import { decodeImage } from "../../media/decode.ts";
import { encodeImage } from "../../media/encode.ts";
import { type TestService, testService, until } from "../../tests/fakes/service.ts";
import { FakeEngine } from "../../tests/fakes/engine.ts";
import { GENERATE_FLAGS, type GenerateFlags } from "../flags.ts";
import { runJobs, runPs } from "../jobs.ts";
import { ProgressBar } from "../progress_bar.ts";
import { TerminalImage } from "../terminal_image.ts";
import { generateRemotely, generationRequest } from "./remote_generate.ts";

const URL = "http://denoise.test";

/** `fetch` that reaches a service without a port. */
function fetcherOf(service: TestService): typeof fetch {
  return async (input, init) => {
    const { signal } = init ?? {};
    const response = await service.get(String(input).replace(URL, ""), init);
    // As over a connection: who gives up reads no further.
    return new Response(
      response.body?.pipeThrough(new TransformStream(), signal ? { signal } : {}),
      response,
    );
  };
}

function withService(
  use: (service: TestService, fetcher: typeof fetch, folder: string) => Promise<void>,
  stepMs = 0,
): Promise<void> {
  return (async () => {
    const folder = await Deno.makeTempDir();
    const engine = new FakeEngine({
      ...{ stepMs, info: { supportedTasks: ["T2I", "I2I", "T2V", "I2V"] } },
    });
    await using service = await testService({ engine });
    try {
      await use(service, fetcherOf(service), folder);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  })();
}

/** What was printed meanwhile. */
async function printed(run: () => Promise<unknown>): Promise<string> {
  const lines: string[] = [];
  const { log } = console;
  console.log = (line) => lines.push(line);
  try {
    await run();
  } finally {
    console.log = log;
  }
  return lines.join("\n");
}

/** What users were told of requests. */
const notes: string[] = [];

function work(fetcher: typeof fetch, flags: Partial<GenerateFlags>, signal?: AbortSignal) {
  return {
    client: new Client({ url: URL, fetch: fetcher }),
    flags: { ...defaultsOf(GENERATE_FLAGS), prompt: "a", outputPath: "", ...flags },
    media: flags.output?.endsWith(".mp4") ? "video" as const : "image" as const,
    name: "",
    bar: new ProgressBar({ isTerminal: false, write: () => {} }),
    screen: undefined,
    onNote: (line: string) => void notes.push(line),
    signal: signal ?? new AbortController().signal,
  };
}

Deno.test("generateRemotely() writes the images of a server's job, and shows its previews", () =>
  withService(async (service, fetcher, folder) => {
    const output = `${folder}/new/a.png`;
    let shown = 0;
    const screen = new TerminalImage({ columns: 80, write: () => shown++ }, "blocks");
    const flags = { output, numOutputs: 2, seed: [7], size: "48x32", preview: true };
    let what = "";
    const paths = await printed(async () => {
      what = await generateRemotely({ ...work(fetcher, flags), screen });
    });
    assert.deepEqual(paths.split("\n"), [`${folder}/new/a-0.png`, `${folder}/new/a-1.png`]);
    assert.match(what, /^2 images of 48x32 in .* s, seeds 7, 8$/);
    const { width, height } = await decodeImage(await Deno.readFile(paths.split("\n")[1]!));
    assert.deepEqual([width, height], [48, 32]);
    assert.ok(shown > 0);
    assert.equal(service.engine.requests.length, 2);
  }));

Deno.test("generateRemotely() says what the server made no use of", () =>
  withService(async (_, fetcher, folder) => {
    notes.length = 0;
    const flags = { output: `${folder}/a.png`, modelPath: "gpt-image-1", strength: 0.5 };
    await printed(() => generateRemotely(work(fetcher, flags)));
    assert.deepEqual(notes, ["Note: the server made no use of --model-path, --strength"]);
  }));

Deno.test("generateRemotely() names sound as sound, and refuses what the server's model does not make", async () => {
  const folder = await Deno.makeTempDir();
  const engine = new FakeEngine({
    info: { defaultTask: "T2V", supportedTasks: ["T2V"], givesAudio: true },
  });
  await using service = await testService({ engine });
  const fetcher = fetcherOf(service);
  try {
    const flags = { output: `${folder}/a.wav`, numFrames: 5 };
    let words = "";
    await printed(async () => {
      words = await generateRemotely({ ...work(fetcher, flags), media: "video" });
    });
    assert.match(words, /^1 sound in .*, seed \d+$/);
    await assert.rejects(generateRemotely(work(fetcher, { output: `${folder}/a.png` })), {
      message: "Cannot make an image: gradients makes videos; name the output with .mp4 at the end",
    });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("generateRemotely() sends images with their fields", () =>
  withService(async (service, fetcher, folder) => {
    const data = new Uint8Array(32 * 32 * 3).fill(9);
    const { bytes } = await encodeImage({ width: 32, height: 32, data }, { format: "png" });
    const image = `${folder}/in.png`;
    await Deno.writeFile(image, bytes);
    const output = `${folder}/out.webp`;
    const flags = { output, image: [image], numInferenceSteps: 3, fit: "contain" as const };
    await printed(() => generateRemotely(work(fetcher, flags)));
    const { taskType, numInferenceSteps } = service.engine.requests[0]!;
    assert.deepEqual([taskType, numInferenceSteps], ["I2I", 3]);
  }));

Deno.test("generateRemotely() says why a server refuses, and cancels the job when it is stopped", () =>
  withService(async (service, fetcher, folder) => {
    const output = `${folder}/a.png`;
    await assert.rejects(
      generateRemotely(work(fetcher, { output, size: "33x32" })),
      /Cannot generate 33x32/,
    );
    const controller = new AbortController();
    const stopped = generateRemotely(work(
      (input, init) => {
        if (String(input).endsWith("/events")) setTimeout(() => controller.abort(), 0);
        return fetcher(input, init);
      },
      { output, numInferenceSteps: 50 },
      controller.signal,
    ));
    await assert.rejects(stopped);
    await until(async () => {
      const { data } = await (await service.get("/v1/jobs")).json();
      return data[0].status === "cancelled";
    });
  }, 100));

Deno.test("generationRequest() has the names of HTTP, and refuses what only this process could do", async () => {
  const flags: GenerateFlags = {
    ...{ ...defaultsOf(GENERATE_FLAGS), prompt: "a", modelPath: "other", outputQuality: "high" },
    ...{ guidanceScale: 3, image: ["a.png", "b.png"], seed: [1, 2], seconds: 2 },
  };
  const { body, files } = generationRequest(flags, "video");
  assert.equal((await requestOf("video", body)).path, "/v1/videos");
  assert.deepEqual(files, [["input_reference", "a.png"], ["last_image", "b.png"]]);
  assert.deepEqual(body, {
    ...{ prompt: "a", guidance_scale: 3, n: 1, model: "other", seed: [1, 2], seconds: 2 },
    output_quality: "high",
  });
  const { body: quiet } = generationRequest({ ...flags, enableAudio: false }, "video", "wav");
  assert.deepEqual([quiet["enable_audio"], quiet["output_format"]], [false, "wav"]);
  assert.throws(() => generationRequest({ ...flags, fragmented: true }, "video"), /--fragmented/);
  const three = { ...flags, image: ["a", "b", "c"] };
  assert.deepEqual(generationRequest(three, "video").files, [
    ...[["input_reference", "a"], ["input_reference", "b"], ["last_image", "c"]],
  ]);
});

Deno.test("runPs() and runJobs() show what a server does, and cancel a job", () =>
  withService(async (service, fetcher) => {
    const post = (prompt: string) =>
      service.post("/v1/videos", { prompt, num_inference_steps: 50 });
    const { id } = await (await post("first")).json();
    const { id: second } = await (await post("second")).json();
    const flags = { url: URL, limit: 20, json: false };
    const ps = await printed(() => runPs(flags, fetcher));
    assert.match(ps, /serves gradients: 1 at work, 1 waits/);
    assert.match(ps, new RegExp(`${second} +waits, place 1 +T2V .*second`));
    assert.match(await printed(() => runJobs(id, flags, fetcher)), /state +\d+ %\ntask +T2V/);
    const cancelled = await printed(() =>
      runJobs(undefined, { ...flags, cancel: second }, fetcher)
    );
    assert.equal(cancelled, `${second} is cancelled`);
    const list = JSON.parse(
      await printed(() => runJobs(undefined, { ...flags, json: true }, fetcher)),
    );
    assert.equal(list.data.find((job: { id: string }) => job.id === second).status, "cancelled");
    await assert.rejects(runJobs("nothing", flags, fetcher), /Job not found/);
    await printed(() => runJobs(undefined, { ...flags, cancel: id }, fetcher));
  }, 100));

Deno.test("runPs() says that a fleet has no worker", async () => {
  const data: Record<string, unknown> = {
    "/v1/models": { data: [{ id: "gradients", task_type: "T2I" }] },
    "/v1/jobs?limit=1": { data: [], running: 0, waiting: 2 },
    "/v1/workers": { data: [] },
  };
  const fetcher: typeof fetch = (input) =>
    Promise.resolve(Response.json(data[String(input).replace(URL, "")]));
  assert.match(
    await printed(() => runPs({ url: URL, json: false }, fetcher)),
    /serves gradients: 0 at work, 2 wait\nNo worker is there: jobs wait until one joins the fleet/,
  );
});

Deno.test("runPs() says how to give the key that a server asks for", async () => {
  await using service = await testService({ settings: { apiKeys: ["k"] } });
  const fetcher = fetcherOf(service);
  await assert.rejects(
    runPs({ url: URL, json: false }, fetcher),
    /Cannot use http:\/\/denoise\.test: it asks for a key; give it as apiKey or --api-key$/,
  );
  await assert.rejects(
    runPs({ url: URL, json: false, apiKey: "wrong" }, fetcher),
    /asks for another key; give/,
  );
  assert.match(
    await printed(() => runPs({ url: URL, json: false, apiKey: "k" }, fetcher)),
    /^http.* serves /,
  );
});

Deno.test("runPs() says that no server answers", async () => {
  const nobody: typeof fetch = () => Promise.reject(new TypeError("connection refused"));
  await assert.rejects(runPs({ url: URL, json: false }, nobody), /Cannot reach http:.*start one/);
});
