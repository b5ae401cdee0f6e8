import { strict as assert } from "node:assert";
import { join, relative } from "node:path";
import { findSnapshot, hubCacheFolder, isHubId } from "./cache.ts";
import { resolveModel } from "./resolve.ts";
import { parseHubFile } from "./cache.ts";

const COMMIT = "0123456789abcdef0123456789abcdef01234567";

/** Runs a test on a cache that has one repository, `org/model`, at `main`. */
async function withCache(use: (cache: string, snapshot: string) => Promise<void>): Promise<void> {
  const cacheFolder = await Deno.makeTempDir();
  try {
    const repository = join(cacheFolder, "models--org--model");
    const snapshot = join(repository, "snapshots", COMMIT);
    await Deno.mkdir(snapshot, { recursive: true });
    await Deno.mkdir(join(repository, "refs"));
    await Deno.writeTextFile(join(repository, "refs", "main"), `${COMMIT}\n`);
    await Deno.writeTextFile(join(snapshot, "model_index.json"), "{}");
    await use(cacheFolder, snapshot);
  } finally {
    await Deno.remove(cacheFolder, { recursive: true });
  }
}

Deno.test("resolveModel() takes the path of a folder, absolute or relative", async () => {
  await withCache(async (_, snapshot) => {
    assert.equal(await resolveModel(snapshot), snapshot);
    assert.equal(await resolveModel(relative(Deno.cwd(), snapshot)), snapshot);
    assert.equal(await resolveModel(`${snapshot}/`), snapshot);
  });
});

Deno.test("resolveModel() finds a hub id in the cache", async () => {
  await withCache(async (cacheFolder, path) => {
    assert.equal(await resolveModel("org/model", { cacheFolder }), path);
    assert.equal(await resolveModel("org/model", { cacheFolder, revision: COMMIT }), path);
    const env = (name: string) => name === "HF_HUB_CACHE" ? cacheFolder : undefined;
    assert.equal(await resolveModel("org/model", { env }), path);
  });
});

Deno.test("resolveModel() takes files of weights: by path, in a repository, alone in a folder", async () => {
  await withCache(async (cacheFolder, snapshot) => {
    await Deno.mkdir(join(snapshot, "split"));
    const file = join(snapshot, "split", "model-Q4_K.gguf");
    await Deno.writeTextFile(file, "");
    assert.equal(await resolveModel(file), file);
    const name = "org/model:split/model-Q4_K.gguf";
    assert.equal(await resolveModel(name, { cacheFolder }), file);
    await assert.rejects(
      resolveModel("org/model:other.gguf", { cacheFolder }),
      /no such file of it; fetch it with denoise pull org\/model --include "other\.gguf"$/,
    );
    const folder = join(snapshot, "split");
    assert.equal(await resolveModel(folder), file);
    await Deno.writeTextFile(join(folder, "vae.safetensors"), "");
    await assert.rejects(
      resolveModel(folder),
      /2 files of weights; name one of them, such as .*model-Q4_K\.gguf$/,
    );
    const parts = join(snapshot, "parts");
    await Deno.mkdir(parts);
    for (const number of [1, 2]) {
      await Deno.writeTextFile(join(parts, `m-0000${number}-of-00002.gguf`), "");
    }
    assert.equal(await resolveModel(parts), join(parts, "m-00001-of-00002.gguf"));
    await Deno.remove(join(snapshot, "model_index.json"));
    await Deno.rename(file, join(snapshot, "a.gguf"));
    assert.equal(
      await resolveModel("org/model", { cacheFolder }),
      join(snapshot, "a.gguf"),
    );
    await Deno.writeTextFile(join(snapshot, "b.gguf"), "");
    await assert.rejects(resolveModel("org/model", { cacheFolder }), /such as org\/model:a\.gguf$/);
  });
});

Deno.test("parseHubFile() lets no name lead out of its repository", () => {
  assert.deepEqual(parseHubFile("org/m:a b/c-1.0+x.GGUF"), {
    id: "org/m",
    file: "a b/c-1.0+x.GGUF",
  });
  for (
    const text of [
      "org/m:../x.gguf",
      "org/m:a/../../x.gguf",
      "org/m:/etc/x.gguf",
      "org/m:.x.gguf",
      "org/m:a/.b/x.gguf",
      "org/m:a\\b.gguf",
      "org/m:a.exe",
      "org/m:",
      "org:x.gguf",
      "org/m:a:b.gguf",
      "C:/models/x.gguf",
      "org/m:a\0.gguf",
    ]
  ) assert.equal(parseHubFile(text), undefined, text);
});

Deno.test("resolveModel() says that a hub id is not on this machine, and what to do", async () => {
  await withCache(async (cacheFolder, snapshot) => {
    await assert.rejects(
      resolveModel("org/other", { cacheFolder }),
      (error) =>
        error instanceof Deno.errors.NotFound &&
        error.message === `Cannot find org/other: it is not on this machine (looked in ` +
            `${cacheFolder}); fetch it with denoise pull org/other, or give the path of a model folder`,
    );
    await assert.rejects(
      resolveModel("org/model", { cacheFolder, revision: "v2" }),
      /has no files of revision v2; fetch them with denoise pull org\/model --revision v2$/,
    );
    await Deno.remove(join(snapshot, "model_index.json"));
    await assert.rejects(
      resolveModel("org/model", { cacheFolder }),
      /it has no model_index\.json; the repository is no pipeline, or its download is incomplete$/,
    );
    await Deno.remove(snapshot);
    await assert.rejects(
      resolveModel("org/model", { cacheFolder }),
      /has no files of revision main; fetch them with denoise pull org\/model$/,
    );
  });
});

Deno.test("resolveModel() refuses what is no model folder, with a reason", async () => {
  await withCache(async (cacheFolder, snapshot) => {
    const options = { cacheFolder };
    const index = join(snapshot, "model_index.json");
    await assert.rejects(resolveModel(index, options), /it is a file; give the folder that has/);
    await assert.rejects(
      resolveModel(cacheFolder, options),
      /it has no model_index\.json; a model/,
    );
    await assert.rejects(resolveModel("./no/such/folder", options), /it does not exist; give the/);
    await assert.rejects(resolveModel(join(index, "x"), options), /it does not exist; give the/);
    for (const nothing of ["", "  ", "a\0b"]) {
      await assert.rejects(resolveModel(nothing, options), TypeError);
    }
    await Deno.remove(index);
    await Deno.mkdir(index);
    await assert.rejects(resolveModel(snapshot, options), /its model_index\.json is not a file;/);
  });
});

Deno.test({
  name: "resolveModel() stops at symbolic links in a circle",
  // Making links needs a privilege on Windows.
  ignore: Deno.build.os === "windows",
  fn: async () => {
    await withCache(async (cacheFolder, snapshot) => {
      await Deno.symlink("loop", join(cacheFolder, "loop"));
      await assert.rejects(resolveModel(join(cacheFolder, "loop")), /links lead in a circle$/);
      const index = join(snapshot, "model_index.json");
      await Deno.remove(index);
      await Deno.symlink("model_index.json", index);
      await assert.rejects(
        resolveModel(snapshot),
        /model_index\.json cannot be read, its symbolic links lead in a circle;/,
      );
      await Deno.remove(index);
      await Deno.symlink("../../blobs/gone", index);
      await assert.rejects(resolveModel("org/model", { cacheFolder }), /download is incomplete$/);
    });
  },
});

Deno.test("findSnapshot() refuses ids and revisions that would lead elsewhere", async () => {
  await withCache(async (cacheFolder) => {
    for (const id of ["org", "org/../model", "../model", "/org/model", "org/model/x", "a--b/c"]) {
      assert.equal(isHubId(id), false, id);
      await assert.rejects(findSnapshot(id, { cacheFolder }), /has the form org\/name$/, id);
    }
    for (const revision of ["../../x", "a/../b", "", "/main", "a//b", "a b", "."]) {
      await assert.rejects(
        findSnapshot("org/model", { cacheFolder, revision }),
        /is not a branch, tag or commit$/,
        revision,
      );
    }
    const ref = join(cacheFolder, "models--org--model", "refs", "main");
    await Deno.writeTextFile(ref, "../../../elsewhere");
    await assert.rejects(
      findSnapshot("org/model", { cacheFolder }),
      /must hold a commit of 40 hexadecimal digits$/,
    );
  });
});

Deno.test("isHubId() knows ids that are in use from ones that cannot be", () => {
  for (const id of ["Tongyi-MAI/Z-Image-Turbo", "Wan-AI/Wan2.2-TI2V-5B", "a/b", "0_x/_a_"]) {
    assert.equal(isHubId(id), true, id);
  }
  for (const id of ["", "a/", "/b", "a/.b", "a/b-", "a b/c", "a/b\n", `a/${"b".repeat(97)}`]) {
    assert.equal(isHubId(id), false, id);
  }
});

Deno.test("hubCacheFolder() follows the variables of the Hugging Face tools", () => {
  const table: [Record<string, string>, string][] = [
    [{ HOME: "/h" }, join("/h", ".cache", "huggingface", "hub")],
    [{ USERPROFILE: "/u" }, join("/u", ".cache", "huggingface", "hub")],
    [{ HOME: "/h", XDG_CACHE_HOME: "/x" }, join("/x", "huggingface", "hub")],
    [{ HOME: "/h", XDG_CACHE_HOME: "/x", HF_HOME: "/hf" }, join("/hf", "hub")],
    [{ HOME: "/h", HF_HOME: "~/hf" }, join("/h", "hf", "hub")],
    [{ HF_HOME: "/hf", HF_HUB_CACHE: "/c" }, "/c"],
    [{ HF_HOME: "/hf", HUGGINGFACE_HUB_CACHE: "/old" }, "/old"],
    [{ HOME: "/h", HF_HUB_CACHE: "", HF_HOME: "" }, join("/h", ".cache", "huggingface", "hub")],
  ];
  for (const [env, expected] of table) assert.equal(hubCacheFolder((name) => env[name]), expected);
  assert.throws(() => hubCacheFolder(() => undefined), /set one of them$/);
});
