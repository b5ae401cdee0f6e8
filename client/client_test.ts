/** The client against the service with an engine that draws gradients. */

import { strict as assert } from "node:assert";
import type {
  CatalogueAnswer,
  JobListItem,
  ModelCard,
  ModelPull,
} from "../server/contract/answers.ts";
import { type TestService, testService, until } from "../tests/fakes/service.ts";
import { FakeEngine } from "../tests/fakes/engine.ts";
import { encodeImage } from "../media/encode.ts";
import {
  type CatalogueModel,
  Client,
  ClientError,
  type Job,
  type Pull,
  type ServedModel,
} from "./mod.ts";
import { requestOf } from "./request.ts";

// The client's types hold of the server's answers.
((job: JobListItem): Job => job) satisfies unknown;
((model: ModelCard): ServedModel => model) satisfies unknown;
((pull: ModelPull): Pull => pull) satisfies unknown;
((model: CatalogueAnswer["data"][number]): CatalogueModel => model) satisfies unknown;

const URL = "http://denoise.test";

async function withClient(
  use: (client: Client, service: TestService) => Promise<void>,
  change: (response: Response, path: string) => Response | Promise<Response> = (response) =>
    response,
  stepMs = 0,
): Promise<void> {
  const engine = new FakeEngine({
    ...{ stepMs, info: { supportedTasks: ["T2I", "I2I", "T2V", "I2V"], maxImages: 2 } },
  });
  await using service = await testService({ engine });
  const client = new Client({
    url: `${URL}/`,
    fetch: async (input, init) => {
      const path = String(input).replace(URL, "");
      return await change(await service.get(path, init), path);
    },
  });
  await use(client, service);
}

Deno.test("Client.image() and video() tell what happens, and their files can be fetched", () =>
  withClient(async (client) => {
    const { bytes } = await encodeImage(
      { width: 64, height: 64, data: new Uint8Array(64 * 64 * 3) },
      { format: "png" },
    );
    const blob = new Blob([bytes], { type: "image/png" });
    const cases = [
      ["image", { prompt: "a", size: "64x48", n: 2 }, ["image/jpeg", "image/jpeg"], "T2I"],
      ["image", { prompt: "a", size: "64x48", image: [blob, blob] }, ["image/jpeg"], "I2I"],
      ["video", { prompt: "a", size: "64x48", image: blob, num_frames: 5 }, ["video/mp4"], "I2V"],
    ] as const;
    for (const [kind, request, types, task] of cases) {
      const events = await Array.fromAsync(client[kind](request));
      const last = events.at(-1)!;
      assert.ok(last.type === "completed", last.type);
      assert.deepEqual([last.job.status, last.job.size, last.job.task_type], [
        "completed",
        "64x48",
        task,
      ]);
      const files = await Promise.all(last.job.outputs!.map((output) => client.download(output)));
      assert.deepEqual(files.map(({ type }) => type), types);
      assert.deepEqual(files.map(({ size }) => size), last.job.outputs!.map(({ bytes }) => bytes));
    }
  }));

Deno.test("requestOf() sends pictures beside text as data URLs, one or a list, and files to edit as a form", async () => {
  const [one, two] = ["a", "b"].map((text) => new Blob([text], { type: "image/png" }));
  const { path, body } = await requestOf("image", {
    ...{ prompt: "a", model: undefined, n: 2, control: [one, two], reference: one },
  });
  assert.equal(path, "/v1/images/generations");
  assert.deepEqual(JSON.parse(body as string), {
    ...{ prompt: "a", n: 2, reference: "data:image/png;base64,YQ==" },
    control: ["data:image/png;base64,YQ==", "data:image/png;base64,Yg=="],
  });
  const edit = await requestOf("image", { prompt: "a", image: [one, two], control: [one], n: 2 });
  const form = edit.body as FormData;
  assert.equal(edit.path, "/v1/images/edits");
  assert.deepEqual(["image", "control"].map((name) => form.getAll(name).length), [2, 1]);
  assert.deepEqual([form.get("prompt"), form.get("extra_body")], ["a", '{"n":2}']);
  const video = await requestOf("video", { prompt: "a", image: [one, two], reference: [one] });
  assert.deepEqual([...(video.body as FormData).keys()].sort(), [
    ...["extra_body", "input_reference", "last_image", "prompt", "reference"],
  ]);
  const { body: several } = await requestOf("video", { prompt: "a", image: [one, two, one] });
  const counts = ["input_reference", "last_image"].map((name) =>
    (several as FormData).getAll(name).length
  );
  assert.deepEqual(counts, [2, 1]);
});

Deno.test("Client.image() gives previews, and errors with their codes", () =>
  withClient(
    async (client) => {
      const events = await Array.fromAsync(client.image({ prompt: "a", partial_images: 2 }));
      const previews = events.filter(({ type }) => type === "preview");
      assert.ok(previews.length > 0);
      assert.ok(previews.every((event) => event.type === "preview" && event.image.size > 0));
      await assert.rejects(Array.fromAsync(client.image({ prompt: "a", size: "7x7" })), (error) => {
        assert.ok(error instanceof ClientError);
        assert.deepEqual([error.status, error.code], [400, error.code]);
        assert.match(error.message, /size/);
        return true;
      });
      await assert.rejects(client.job("img_none"), { name: "ClientError", status: 404 });
    },
    undefined,
    20,
  ));

Deno.test("Client.follow() goes on where its stream breaks", async () => {
  let isBroken = false;
  await withClient(
    async (client) => {
      const events = await Array.fromAsync(client.image({ prompt: "a" }));
      assert.equal(events.at(-1)!.type, "completed");
      assert.ok(isBroken);
    },
    (response, path) => {
      if (!path.endsWith("/events") || isBroken) return response;
      isBroken = true;
      const reader = response.body!.getReader();
      return new Response(
        new ReadableStream({
          async pull(controller) {
            const { value } = await reader.read();
            controller.enqueue(value!);
            await reader.cancel();
            controller.error(new TypeError("the connection was closed"));
          },
        }),
        response,
      );
    },
    100,
  );
});

Deno.test("Client.image() cancels its job when the signal fires", () =>
  withClient(
    async (client) => {
      const stop = new AbortController();
      await assert.rejects(async () => {
        for await (const { type } of client.image({ prompt: "a" }, { signal: stop.signal })) {
          if (type === "progress") stop.abort();
        }
      }, { name: "AbortError" });
      await until(async () => (await client.jobs()).data[0]!.status === "cancelled");
    },
    (response) => response,
    200,
  ));

Deno.test("Client says that no server answers, or that the server asks for a key", async () => {
  const cases: [() => Promise<Response>, RegExp][] = [
    [
      () => Promise.reject(new TypeError("refused")),
      /^Cannot reach http:\/\/denoise\.test: no server/,
    ],
    [
      () => Promise.resolve(new Response("{}", { status: 401 })),
      /^Cannot use .*: it asks for a key/,
    ],
    [() => Promise.resolve(new Response("<p>", { status: 502, statusText: "Bad" })), /502 Bad$/],
  ];
  for (const [answer, words] of cases) {
    await assert.rejects(new Client({ url: URL, fetch: answer }).models(), { message: words });
  }
});
