import assert from "node:assert/strict";
import { join } from "node:path";
import { FAKE_COMMIT, FakeHub, type FakeHubBehaviour } from "../tests/fakes/hub.ts";
import { findSnapshot } from "./cache.ts";
import { listCachedModels, removeCachedModel } from "./cached_models.ts";
import { HubError } from "./hub_client.ts";
import { pullModel, type PullOptions, type PullProgress } from "./pull.ts";

const ID = "some-org/tiny-model";
const WEIGHTS = "0123456789".repeat(5000);
const MODEL = {
  "model_index.json": '{"_class_name": "WanPipeline"}',
  "transformer/config.json": "{}",
  "transformer/diffusion_pytorch_model.safetensors": WEIGHTS,
  "transformer/diffusion_pytorch_model.fp16.safetensors": "f".repeat(WEIGHTS.length),
  "vae/diffusion_pytorch_model.bin": "a pickle",
  "tokenizer/tokenizer.json": '{"é": 1}',
  "README.md": "# A model",
  "teaser.png": "an image",
  "all-in-one.safetensors": "the same once more",
};

interface Try {
  readonly hub: FakeHub;
  readonly cache: string;
  pull(options?: PullOptions): ReturnType<typeof pullModel>;
}

async function withHub(
  behaviour: FakeHubBehaviour,
  work: (attempt: Try) => Promise<void>,
  repositories: Record<string, Record<string, string>> = { [ID]: MODEL },
  token?: string,
): Promise<void> {
  const cache = await Deno.makeTempDir();
  try {
    await using hub = new FakeHub(repositories, behaviour);
    const settings = {
      endpoint: hub.endpoint,
      isOffline: false,
      cacheFolder: cache,
      ...(token ? { token } : {}),
    };
    const pull = (options: PullOptions = {}) =>
      pullModel(Object.keys(repositories)[0]!, { settings, firstWaitMs: 1, ...options });
    await work({ hub, cache, pull });
  } finally {
    await Deno.remove(cache, { recursive: true });
  }
}

const weightsIn = (path: string) =>
  Deno.readTextFile(join(path, "transformer/diffusion_pytorch_model.safetensors"));

Deno.test("pullModel() fetches what a pipeline needs, in the layout that findSnapshot() reads", () =>
  withHub({ pageSize: 2 }, async ({ hub, cache, pull }) => {
    const progress: PullProgress[] = [];
    const { path, commit, files } = await pull({ onProgress: (now) => progress.push(now) });
    assert.equal(commit, FAKE_COMMIT);
    assert.equal(files, 5);
    assert.equal(await findSnapshot(ID, { cacheFolder: cache }), path);
    assert.ok(path.endsWith(commit));
    assert.equal(await weightsIn(path), WEIGHTS);
    assert.equal(await Deno.readTextFile(join(path, "tokenizer/tokenizer.json")), '{"é": 1}');
    if (Deno.build.os !== "windows") {
      const link = await Deno.readLink(join(path, "model_index.json"));
      assert.match(link, /^\.\.\/\.\.\/blobs\/[0-9a-f]{40}$/);
    }
    const { doneBytes, totalBytes } = progress.at(-1)!;
    assert.equal(doneBytes, totalBytes);
    const asked = hub.filesSeen.length;
    await pull();
    assert.equal(hub.filesSeen.length, asked, "files were fetched a second time");
  }));

Deno.test("pullModel() goes on where cut connections ended, and where an earlier run did", () =>
  withHub({ cuts: [20_000, 7_000, 1] }, async ({ hub, pull }) => {
    const { path } = await pull({ include: ["transformer/diffusion_pytorch_model.safetensors"] });
    assert.equal(await weightsIn(path), WEIGHTS);
    const ranges = hub.seen.map(({ range }) => range).filter((range) => range !== null);
    assert.deepEqual(ranges, ["bytes=20000-", "bytes=27000-", "bytes=27001-"]);
  }));

Deno.test("pullModel() stopped half-way keeps what came, and writes no revision", () =>
  withHub({ cuts: Array<number>(6).fill(0).with(0, 30_000) }, async ({ hub, cache, pull }) => {
    const include = ["transformer/diffusion_pytorch_model.safetensors"];
    await assert.rejects(pull({ include }), /Cannot fetch .* attempts failed/);
    await assert.rejects(findSnapshot(ID, { cacheFolder: cache }), Deno.errors.NotFound);
    const [model] = await listCachedModels(cache);
    assert.equal(model!.partialBytes, 30_000);
    hub.behaviour.cuts = [];
    const { path } = await pull({ include });
    assert.equal(hub.seen.at(-1)!.range, "bytes=30000-");
    assert.equal(await weightsIn(path), WEIGHTS);
  }));

Deno.test("pullModel() starts again where the server knows no ranges", () =>
  withHub({ cuts: [20_000], ignoresRanges: true }, async ({ pull }) => {
    assert.equal(await weightsIn((await pull()).path), WEIGHTS);
  }));

Deno.test("pullModel() waits out busy answers, and gives up on refusals at once", () =>
  withHub({ failures: [503, 429, 500] }, async ({ hub, pull }) => {
    assert.equal(await weightsIn((await pull()).path), WEIGHTS);
    hub.behaviour.failures = [403];
    await assert.rejects(pull({ include: ["teaser.png"] }), {
      name: "HubError",
      message: /the hub refuses access \(403\)/,
    });
  }));

Deno.test("pullModel() throws away what has another hash, and says so", () =>
  withHub(
    { forged: { "transformer/diffusion_pytorch_model.safetensors": WEIGHTS.replace("5", "6") } },
    async ({ hub, cache, pull }) => {
      await assert.rejects(pull(), (error: Error) => {
        assert.ok(error instanceof HubError);
        assert.match(error.message, /its sha256 is [0-9a-f]{64}, the hub says [0-9a-f]{64}/);
        return true;
      });
      await assert.rejects(findSnapshot(ID, { cacheFolder: cache }), Deno.errors.NotFound);
      hub.behaviour.forged = { "teaser.png": "longer than what the list says it is" };
      await assert.rejects(pull({ include: ["teaser.png"] }), /more than 8 bytes come/);
      hub.behaviour.forged = {};
      assert.equal(await weightsIn((await pull()).path), WEIGHTS);
    },
  ));

Deno.test("pullModel() sends its token to the hub alone", () =>
  withHub(
    { token: "secret", hasCdn: true },
    async ({ hub, pull }) => {
      await pull();
      const files = hub.seen.filter(({ path }) => path.includes("/resolve/"));
      assert.ok(files.some(({ hasToken }) => hasToken) && files.some(({ hasToken }) => !hasToken));
    },
    { [ID]: MODEL },
    "secret",
  ));

Deno.test("pullModel() without the token says what to set", () =>
  withHub({ token: "secret" }, async ({ pull }) => {
    await assert.rejects(pull(), /refuses access \(401\).*HF_TOKEN/);
  }));

for (
  const path of [
    "../outside.json",
    "/etc/passwd",
    "a/../../b.json",
    "a\\b.json",
    "c:x.json",
    "a//b",
  ]
) {
  Deno.test(`pullModel() refuses a repository that lists ${JSON.stringify(path)}`, () =>
    withHub({}, async ({ cache, pull }) => {
      await assert.rejects(pull(), /would not stay in its folder/);
      assert.deepEqual(await listCachedModels(cache), []);
    }, { [ID]: { ...MODEL, [path]: "x" } }));
}

Deno.test("pullModel() lets choose between several weight files, by pattern", () =>
  withHub({}, async ({ pull }) => {
    await assert.rejects(
      pull(),
      /it holds 2 weight files; choose with --include, or name one as some-org\/quantised:FILE, from m-Q4_K\.gguf/,
    );
    const { path, files } = await pull({ include: ["*Q4_K*"] });
    assert.equal(files, 1);
    assert.equal(await Deno.readTextFile(join(path, "m-Q4_K.gguf")), "four");
    await assert.rejects(pull({ include: ["*Q2*"] }), /none of its 3 files matches \*Q2\*/);
  }, { "some-org/quantised": { "m-Q4_K.gguf": "four", "m-Q8_0.gguf": "eight", "README.md": "" } }));

Deno.test("pullModel() takes the files of PyTorch of a repository that has no others", () =>
  withHub({}, async ({ pull }) => {
    const { path } = await pull();
    const names = await Array.fromAsync(walk(path), (each) => each);
    assert.deepEqual(names.sort(), [
      "model_index.json",
      "text_encoder/pytorch_model.bin",
      "unet/diffusion_pytorch_model.fp16.bin",
    ]);
  }, {
    [ID]: {
      "model_index.json": "{}",
      "text_encoder/pytorch_model.bin": "one",
      "text_encoder/pytorch_model.fp16.bin": "one",
      "unet/diffusion_pytorch_model.fp16.bin": "two",
      "unet/training_args.bin": "three",
      "safety_checker/pytorch_model.bin": "four",
      "v1-5.ckpt": "all",
    },
  }));

/** Paths of all files below a folder. */
async function* walk(folder: string, prefix = ""): AsyncGenerator<string> {
  for await (const { name, isDirectory } of Deno.readDir(join(folder, prefix))) {
    if (isDirectory) yield* walk(folder, `${prefix}${name}/`);
    else yield prefix + name;
  }
}

Deno.test("pullModel() takes one precision where a folder has no plain weights", () =>
  withHub({}, async ({ pull }) => {
    const { path } = await pull();
    const names = await Array.fromAsync(Deno.readDir(join(path, "vae")), ({ name }) => name);
    assert.deepEqual(names, ["model.fp16.safetensors"]);
    const parts = await Array.fromAsync(Deno.readDir(join(path, "unet")), ({ name }) => name);
    assert.deepEqual(parts.sort(), [
      "model.bf16-00001-of-00002.safetensors",
      "model.safetensors.index.bf16.json",
    ]);
  }, {
    [ID]: {
      "model_index.json": "{}",
      "vae/model.fp16.safetensors": "half",
      "unet/model.fp16.safetensors": "half",
      "unet/model.bf16-00001-of-00002.safetensors": "half",
      "unet/model.safetensors.index.bf16.json": "{}",
    },
  }));

Deno.test("pullModel() takes 16 bits where the plain weights are f32, with their index", () =>
  withHub({}, async ({ pull }) => {
    const { path } = await pull();
    const names = await Array.fromAsync(walk(path), (each) => each);
    assert.deepEqual(names.sort(), [
      "model_index.json",
      "text_encoder/model.safetensors",
      "unet/config.json",
      "unet/model.fp16-00001-of-00002.safetensors",
      "unet/model.safetensors.index.fp16.json",
    ]);
  }, {
    [ID]: {
      "model_index.json": "{}",
      "text_encoder/model.safetensors": "as large",
      "text_encoder/model.fp16.safetensors": "as large",
      "unet/config.json": "{}",
      "unet/model.safetensors": "twice as large",
      "unet/model.safetensors.index.json": "{}",
      "unet/model.fp16-00001-of-00002.safetensors": "smaller",
      "unet/model.safetensors.index.fp16.json": "{}",
    },
  }));

Deno.test("pullModel() stops when it is told to", () =>
  withHub({}, async ({ pull }) => {
    await assert.rejects(pull({ signal: AbortSignal.abort() }), { name: "AbortError" });
  }));

Deno.test("pullModel() offline says that it is", async () => {
  const settings = { endpoint: "http://127.0.0.1:9", isOffline: true, cacheFolder: "/nowhere" };
  await assert.rejects(pullModel(ID, { settings }), /HF_HUB_OFFLINE is set/);
});

Deno.test("removeCachedModel() removes all of a model and nothing else", () =>
  withHub({}, async ({ cache, pull }) => {
    await pull();
    const [model] = await listCachedModels(cache);
    assert.equal(model!.id, ID);
    assert.deepEqual(model!.revisions, { main: FAKE_COMMIT });
    assert.equal((await removeCachedModel(ID, cache)).bytes, model!.bytes);
    assert.deepEqual(await listCachedModels(cache), []);
    await assert.rejects(removeCachedModel(ID, cache), /it is not in/);
    await assert.rejects(removeCachedModel("../x", cache), TypeError);
  }));
