/** LoRAs over HTTP: set, merge, unmerge, list. */

import { strict as assert } from "node:assert";
import { join } from "node:path";
import fc from "fast-check";
import { loraFieldTables } from "../../server/contract/lora_requests.ts";
import { FAKE_LAYERS, loraFile } from "../fakes/loras.ts";
import { answer, LORA_FILES, withLoras } from "../fakes/lora_service.ts";
import { isErrorBody } from "../fakes/service.ts";

Deno.test("set A, generate, unmerge, set B, generate: the switching sequence", () =>
  withLoras(async (service) => {
    const base = await service.image();
    const set = await answer("LoraChange", await service.set("a", { strength: 0.8 }));
    assert.equal(
      set.message,
      "Successfully set LoRA adapter(s): a (target: all, strength: 0.80)",
    );
    assert.deepEqual(set.adapters[0], {
      ...{ nickname: "a", path: "a.safetensors", target: "transformer", strength: 0.8 },
      ...{
        mode: "merged",
        dialect: "diffusers",
        note: null,
        matched_layers: 3,
        unmatched_keys: [],
      },
    });
    const first = await service.image();
    assert.notEqual(first, base);
    const list = await answer("LoraList", await service.get("/v1/list_loras"));
    const entry = { nickname: "a", path: "a.safetensors", merged: true, mode: "merged" };
    assert.deepEqual(list, {
      loaded_adapters: [{ nickname: "a", path: "a.safetensors" }],
      active: {
        transformer: [{ ...entry, strength: 0.8 }],
        transformer_2: [{ ...entry, strength: 0.8 }],
      },
      num_lora_layers_with_weights: { transformer: 3, transformer_2: 3 },
    });
    const unmerged = await answer(
      "LoraChange",
      await service.get("/v1/unmerge_lora_weights", { method: "POST" }),
    );
    assert.equal(unmerged.message, "Successfully unmerged LoRA weights (target: all)");
    assert.deepEqual(unmerged.adapters, []);
    assert.equal(await service.image(), base);
    await answer("LoraChange", await service.set("b"));
    const second = await service.image();
    assert.ok(second !== base && second !== first);
    // Known by its nickname alone.
    await answer("LoraChange", await service.set("a", { lora_path: undefined, strength: 0.8 }));
    assert.equal(await service.image(), first);
    assert.equal((await service.list()).loaded_adapters.length, 2);
  }));

Deno.test("set_lora merges unless it, or --lora-merge-mode, asks for dynamic", async () => {
  for (const loraMergeMode of ["auto", "dynamic"] as const) {
    await withLoras(async (service) => {
      const usual = loraMergeMode === "auto" ? "merged" : "dynamic";
      const modes = { auto: "merged", merge: "merged", dynamic: "dynamic" };
      for (const [merge_mode, mode] of Object.entries(modes)) {
        await answer("LoraChange", await service.set("a", { merge_mode }));
        const entry = { nickname: "a", path: "a.safetensors", strength: 1, mode };
        const { active } = await service.list();
        assert.deepEqual(active["transformer"], [{ ...entry, merged: mode === "merged" }]);
      }
      const { adapters } = await answer("LoraChange", await service.set("a"));
      assert.equal(adapters[0].mode, usual);
    }, { settings: { loraMergeMode } });
  }
});

Deno.test("merge_lora_weights takes up what was unmerged, with its own strength, any number of times", () =>
  withLoras(async (service) => {
    const nothing = await answer("LoraChange", await service.post("/v1/merge_lora_weights", {}));
    assert.deepEqual(nothing.adapters, []);
    await service.set("a", { strength: 0.8 });
    await service.get("/v1/unmerge_lora_weights", { method: "POST" });
    await service.get("/v1/unmerge_lora_weights", { method: "POST" });
    assert.deepEqual((await service.list()).active, {});
    for (const body of [{}, { target: "all" }, { strength: 1 }]) {
      const merged = await answer("LoraChange", await service.post("/v1/merge_lora_weights", body));
      assert.match(merged.message, /^Successfully merged .*\(target: all, strength: 1\.0\)$/);
      assert.deepEqual(
        merged.adapters.map((each: Record<string, unknown>) => [each["mode"], each["strength"]]),
        [["merged", 1], ["merged", 1]],
      );
    }
    await service.post("/v1/merge_lora_weights", { target: "transformer_2", strength: 0.25 });
    const { active } = await service.list();
    const entry = { nickname: "a", path: "a.safetensors", merged: true, mode: "merged" };
    assert.deepEqual(active, {
      transformer: [{ ...entry, strength: 1 }],
      transformer_2: [{ ...entry, strength: 0.25 }],
    });
    await service.post("/v1/unmerge_lora_weights", { target: "transformer" });
    assert.deepEqual(Object.keys((await service.list()).active), ["transformer_2"]);
  }));

Deno.test("set_lora with lists keeps their order and replaces only the targets that it names", () =>
  withLoras(async (service) => {
    const { message } = await answer(
      "LoraChange",
      await service.set(["b", "a"], {
        lora_path: ["b.safetensors", "a.safetensors"],
        target: ["transformer", "all"],
        strength: [0.5, 2],
      }),
    );
    assert.match(message, /: b, a \(target: transformer, all, strength: 0\.50, 2\.00\)$/);
    const names = async () =>
      Object.fromEntries(
        Object.entries((await service.list()).active).map(([target, entries]) => [
          target,
          (entries as { nickname: string }[]).map(({ nickname }) => nickname),
        ]),
      );
    assert.deepEqual(await names(), { transformer: ["b", "a"], transformer_2: ["a"] });
    await service.set("second", { target: "transformer_2" });
    assert.deepEqual(await names(), { transformer: ["b", "a"], transformer_2: ["second"] });
    // High and low noise with strengths of their own.
    await service.set(["a", "a"], {
      lora_path: [null, "a.safetensors"],
      target: ["transformer", "transformer_2"],
      strength: [1, 0.5],
    });
    assert.deepEqual(await names(), { transformer: ["a"], transformer_2: ["a"] });
    await service.set("second");
    assert.deepEqual(await names(), { transformer_2: ["second"] });
  }));

const REFUSED: [what: string, body: unknown, status: number, detail: string | RegExp][] = [
  ["no nickname", { lora_path: "a.safetensors" }, 422, /Field required/],
  ["a number as nickname", { lora_nickname: 1 }, 422, /valid string or a list of valid strings/],
  ["an empty nickname", { lora_nickname: "" }, 400, /1 to 200 characters/],
  ["no LoRA", { lora_nickname: [] }, 400, /Name 1 to 16 LoRAs/],
  [
    "an unknown nickname",
    { lora_nickname: "x" },
    400,
    "Failed to set LoRA adapter: LoRA x not found in the pipeline. Please provide lora_path to load it.",
  ],
  [
    "too few paths",
    { lora_nickname: ["x", "y"], lora_path: "a.safetensors" },
    400,
    "Failed to set LoRA adapter: Length mismatch: lora_nickname has 2 items, but lora_path has 1 items. Provide one path per nickname.",
  ],
  [
    "too many strengths",
    { lora_nickname: "x", strength: [1, 2] },
    400,
    /lora_nickname has 1 items, but strength has 2 items$/,
  ],
  [
    "too few targets",
    { lora_nickname: ["x", "y"], target: ["all"] },
    400,
    /but target has 1 items/,
  ],
  [
    "a target that is none",
    { lora_nickname: "x", target: "x" },
    400,
    /^Failed to set LoRA adapter: Invalid target\(s\): \['x'\]\. Valid targets: \['all', 'transformer', 'transformer_2', 'critic', 'text_encoder'\]$/,
  ],
  [
    "a target that the model lacks",
    { lora_nickname: "x", lora_path: "a.safetensors", target: "critic" },
    400,
    /Cannot use target 'critic': this model has transformer, transformer_2; name one of those/,
  ],
  [
    "a mode that is none",
    { lora_nickname: "x", merge_mode: "x" },
    400,
    /Invalid LoRA merge mode: x/,
  ],
  [
    "a negative alpha",
    { lora_nickname: "x", lora_alpha: -1 },
    400,
    /lora_alpha values must be positive integers or null$/,
  ],
  [
    "an absurd strength",
    { lora_nickname: "x", lora_path: "a.safetensors", strength: 1e9 },
    400,
    /Cannot use strength 1000000000: it must be from -100 to 100/,
  ],
  [
    "one LoRA twice on a target",
    { lora_nickname: ["x", "x"], lora_path: ["a.safetensors", "b.safetensors"] },
    400,
    /LoRA x is named twice for one target$/,
  ],
  [
    "one nickname with two paths",
    {
      lora_nickname: ["x", "x"],
      lora_path: ["a.safetensors", "b.safetensors"],
      target: ["transformer", "transformer_2"],
    },
    400,
    /LoRA x is given two paths$/,
  ],
  ["no JSON", "{", 400, /as JSON/],
];

for (const [what, body, status, detail] of REFUSED) {
  Deno.test(`set_lora refuses ${what} and changes nothing`, () =>
    withLoras(async (service) => {
      await service.set("a");
      const before = await service.list();
      const error = await answer("Error", await service.post("/v1/set_lora", body), status);
      const text = typeof error.detail === "string" ? error.detail : JSON.stringify(error.detail);
      if (typeof detail === "string") assert.equal(text, detail);
      else assert.match(text, detail);
      assert.deepEqual(await service.list(), before);
    }));
}

const HOSTILE: [file: string, problem: RegExp, count: number][] = [
  ["none", /^"lost\.\d+\.lora_[AB]\.weight" is no module|^and 19800 more$/, 201],
  ["nan", /lora_/, 1],
  ["shape", /lora_/, 1],
  ["rank0", /lora_/, 1],
  ["short", /^/, 0],
  ["prose", /^/, 0],
];

for (const [file, problem, count] of HOSTILE) {
  Deno.test(`the hostile LoRA '${file}' is a 400 with the list, and changes nothing`, () =>
    withLoras(async (service) => {
      await service.set("a");
      const [before, image] = [await service.list(), await service.image()];
      const error = await answer("Error", await service.set(file), 400);
      assert.match(error.detail, /^Failed to set LoRA adapter: Cannot /);
      assert.ok(!error.detail.includes(service.adapters), "the server's folders are its own");
      const problems: string[] = error.problems ?? [];
      assert.ok(problems.length >= count, `${problems.length} problems`);
      for (const line of problems) assert.match(line, problem);
      const own = await service.post("/v1/images/generations", {
        prompt: "a",
        loras: [{ path: `${file}.safetensors` }],
      });
      assert.equal((await answer("Error", own, 400)).error.param, "loras");
      assert.deepEqual(await service.list(), before);
      assert.equal(await service.image(), image);
    }));
}

Deno.test("set_lora names keys that fit no layer, and with strict it refuses them", () =>
  withLoras(async (service) => {
    const error = await answer("Error", await service.set("half", { strict: true }), 400);
    assert.match(error.detail, /4 keys of half\.safetensors fit no layer of this model$/);
    assert.equal(error.problems.length, 4);
    assert.deepEqual((await service.list()).active, {});
    const { adapters } = await answer("LoraChange", await service.set("half"));
    assert.equal(adapters[0].matched_layers, 1);
    assert.deepEqual(adapters[0].unmatched_keys, error.problems);
    await answer("LoraChange", await service.set("a", { strict: true }));
  }));

Deno.test("set_lora brings a text encoder its part of a LoRA, unless another target is named", () =>
  withLoras(async (service) => {
    const active = async () => Object.keys((await service.list()).active);
    await service.set("text");
    assert.deepEqual(await active(), ["transformer", "transformer_2", "text_encoder"]);
    await service.post("/v1/unmerge_lora_weights", { target: "text_encoder" });
    assert.deepEqual(await active(), ["transformer", "transformer_2"]);
    await service.set("text", { target: "text_encoder" });
    assert.deepEqual(await active(), ["transformer", "transformer_2", "text_encoder"]);
    await service.set("text", { target: "all" });
    await service.set("a");
    assert.deepEqual(await active(), ["transformer", "transformer_2"]);
    const error = await answer("Error", await service.set("a", { target: "text_encoder" }), 400);
    assert.match(error.detail, /no key of it fits text_encoder/);
  }));

Deno.test("what the device refuses changes nothing", () =>
  withLoras(async (service) => {
    const error = await answer("Error", await service.set("a"), 400);
    assert.match(error.detail, /^Failed to set LoRA adapter: Cannot hold them$/);
    assert.deepEqual((await service.list()).loaded_adapters, []);
  }, { loraFailure: new RangeError("Cannot hold them") }));

Deno.test("what is wrong with a LoRA's settings does not tell where they are", () =>
  withLoras(async (service) => {
    const settings = join(service.adapters, "adapter_config.json");
    // Settings beside a file count for PEFT's own.
    const own = join(service.adapters, "adapter_model.safetensors");
    await Deno.copyFile(join(service.adapters, "a.safetensors"), own);
    for (const text of ["{", `{"peft_type":"LORA","lora_alpha":"4"}`]) {
      await Deno.writeTextFile(settings, text);
      for (const path of ["adapter_model.safetensors", own]) {
        const error = await answer("Error", await service.set("x", { lora_path: path }), 400);
        assert.match(error.detail, /[" ]adapter_config\.json[":]/);
        assert.ok(!JSON.stringify(error).includes(service.adapters), error.detail);
      }
    }
  }));

Deno.test("a model without LoRAs says so on every route", () =>
  withLoras(async (service) => {
    const set = await answer("Error", await service.set("a"), 400);
    assert.equal(set.detail, "Failed to set LoRA adapter: Lora is not enabled");
    assert.equal(set.error.code, "lora_not_enabled");
    for (const [path, detail] of [["merge", "merge"], ["unmerge", "unmerge"]]) {
      const response = await service.post(`/v1/${path}_lora_weights`, {});
      const error = await answer("Error", response, 400);
      assert.equal(error.detail, `Failed to ${detail} LoRA weights: Lora is not enabled`);
    }
    const list = await answer("Error", await service.get("/v1/list_loras"), 400);
    assert.equal(list.detail, "Lora is not enabled");
    const body = { prompt: "a", loras: [{ path: "a.safetensors" }] };
    await answer("Error", await service.post("/v1/images/generations", body), 400);
    await service.image([]);
  }, { info: { loraTargets: [] } }));

Deno.test("bodies of LoRAs are JSON whatever their content type says", () =>
  withLoras(async (service) => {
    for (const type of ["application/x-www-form-urlencoded", "text/plain"]) {
      const init = { headers: { "content-type": type } };
      const body = { lora_nickname: "a", lora_path: "a.safetensors" };
      await answer("LoraChange", await service.post("/v1/set_lora", body, init));
      await answer("LoraChange", await service.post("/v1/merge_lora_weights", "", init));
    }
  }));

Deno.test("fields of LoRAs without effect are named, or refused by a strict server", async () => {
  await withLoras(async (service) => {
    const response = await service.set("a", { stength: 2 });
    assert.equal(response.headers.get("x-ignored-fields"), "stength");
    await response.body?.cancel();
  });
  await withLoras(async (service) => {
    const error = await answer("Error", await service.set("a", { stength: 2 }), 400);
    assert.match(error.detail, /the nearest known field is 'strength'$/);
    assert.deepEqual((await service.list()).loaded_adapters, []);
  }, { settings: { strictFields: true } });
});

Deno.test("set, merge and unmerge answer any body with 200 or a 4xx in both dialects", () =>
  withLoras(async (service) => {
    const text = fc.constantFrom(
      "a",
      "b.safetensors",
      "a.safetensors",
      "all",
      "merge",
      "x",
      "",
      "..",
    );
    const one = fc.oneof(text, fc.double(), fc.integer(), fc.constantFrom(null, true, {}, []));
    const value = fc.oneof(one, fc.array(one, { maxLength: 3 }));
    const fields = fc.constantFrom(...loraFieldTables.set.known, "__proto__", "other");
    const body = fc.dictionary(fields, value).map((rest) => ({ lora_nickname: "a", ...rest }));
    const paths = fc.constantFrom("set_lora", "merge_lora_weights", "unmerge_lora_weights");
    const statuses = new Set<number>();
    await fc.assert(
      fc.asyncProperty(paths, body, async (path, json) => {
        const response = await service.post(`/v1/${path}`, json);
        statuses.add(response.status);
        const answered = await response.json();
        assert.ok([200, 400, 422].includes(response.status), JSON.stringify(answered));
        if (response.status >= 400) assert.ok(isErrorBody(answered));
      }),
      { numRuns: 300 },
    );
    assert.deepEqual([...statuses].sort(), [200, 400, 422]);
    await answer("LoraList", await service.get("/v1/list_loras"));
  }));

Deno.test("merge and unmerge of a target that the model lacks are 400", () =>
  withLoras(async (service) => {
    for (const what of ["merge", "unmerge"]) {
      const lacking = await service.post(`/v1/${what}_lora_weights`, { target: "critic" });
      const { detail } = await answer("Error", lacking, 400);
      assert.match(detail, /this model has transformer, transformer_2; name one of those/);
      const unknown = await service.post(`/v1/${what}_lora_weights`, { target: "x" });
      assert.match((await answer("Error", unknown, 400)).detail, /Invalid target\(s\): \['x'\]/);
    }
  }));

Deno.test("lora_path leads nowhere outside the folders for LoRAs", () =>
  withLoras(async (service) => {
    const outside = await Deno.makeTempDir();
    try {
      const secret = join(outside, "secret.safetensors");
      await Deno.writeFile(secret, loraFile({ mark: 9 }));
      await Deno.symlink(secret, join(service.adapters, "link.safetensors"));
      await Deno.symlink(outside, join(service.adapters, "linked"));
      await Deno.mkdir(join(service.adapters, "folder"));
      await Deno.symlink(secret, join(service.adapters, "folder", "in.safetensors"));
      const way = `../${outside.split("/").at(-1)}/secret.safetensors`;
      const paths = [secret, way, `x/../${way}`, "link.safetensors", "linked", "folder", "..", "."];
      const details = new Set<string>();
      for (const path of [...paths, "linked/secret.safetensors", "/etc/passwd", "/none", "a\0b"]) {
        const error = await answer("Error", await service.set("x", { lora_path: path }), 400);
        assert.match(
          error.detail,
          /Cannot find LoRA '|Cannot open LoRA in that folder/,
          path,
        );
        assert.equal(error.error.code, "lora_not_found");
        details.add(error.detail.replace(/'.*'/s, ""));
      }
      assert.equal(details.size, 1, "what is outside and what is not there look the same");
      await Deno.mkdir(join(service.adapters, "good"));
      await Deno.writeFile(
        join(service.adapters, "good", "one.safetensors"),
        LORA_FILES["a.safetensors"] as Uint8Array,
      );
      for (
        const path of ["good", "good/one.safetensors", join(service.adapters, "b.safetensors")]
      ) {
        await answer("LoraChange", await service.set("x", { lora_path: path }));
      }
    } finally {
      await Deno.remove(outside, { recursive: true });
    }
  }));

Deno.test("a LoRA that was read serves without its file", () =>
  withLoras(async (service) => {
    await service.set("a");
    const image = await service.image();
    await service.get("/v1/unmerge_lora_weights", { method: "POST" });
    await Deno.remove(join(service.adapters, "a.safetensors"));
    await answer("LoraChange", await service.set("a"));
    assert.equal(await service.image(), image);
  }));

Deno.test("a name that the server was given stands for its file", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const file = join(folder, "x.safetensors");
    await Deno.writeFile(file, loraFile({ mark: 1 }));
    await withLoras(async (service) => {
      const { adapters } = await answer(
        "LoraChange",
        await service.set("outline", { lora_path: "outline" }),
      );
      assert.equal(adapters[0].path, "outline");
      const { detail } = await answer(
        "Error",
        await service.set("x", { lora_path: "outlin" }),
        400,
      );
      assert.match(detail, /name one of theirs, or outline$/);
    }, { settings: { namedLoras: { outline: file } } });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("POST /v1/loras/{name} keeps a LoRA that fits the model, and says what of it does", () =>
  withLoras(async (service) => {
    const keep = (name: string, bytes: BodyInit | null, remoteAddress = "127.0.0.1") =>
      service.app.request(`/v1/loras/${name}`, { method: "POST", body: bytes }, { remoteAddress });
    const ink = loraFile({ mark: 9, layers: [FAKE_LAYERS[0]!, "lost.one"] }) as BodyInit;
    const kept = await answer("KeptLora", await keep("ink.safetensors", ink));
    assert.equal(kept.path, "ink.safetensors");
    const [{ matched_layers: layers, unmatched_keys: keys, mode }] = kept.adapters as [
      (typeof kept.adapters)[number],
    ];
    assert.deepEqual([layers, mode], [1, "merged"]);
    assert.deepEqual(keys, ["lost.one.lora_A.weight", "lost.one.lora_B.weight"]);
    assert.notEqual(
      await service.image([{ path: "ink.safetensors", strength: 1 }]),
      await service.image([]),
    );
    assert.equal((await service.list()).loaded_adapters.length, 0, "nothing is set");
    // The same file again is no other one.
    await answer("KeptLora", await keep("ink.safetensors", ink));
    const other = loraFile({ mark: 2 }) as BodyInit;
    const refused = [
      [await keep("ink.safetensors", other), 409, /another LoRA of this name; rename the file/],
      [await keep("..%2Fink.safetensors", other), 400, /file name .* that ends with \.safetensors/],
      [await keep("con.safetensors", other), 400, /file name .* that ends with \.safetensors/],
      [await keep(`${"墨".repeat(90)}.safetensors`, other), 400, /at most 200 bytes/],
      [await keep("ink.ckpt", other), 400, /file name .* that ends with \.safetensors/],
      [await keep("empty.safetensors", null), 400, /its file, is empty/],
      [await keep("lost.safetensors", LORA_FILES["none.safetensors"] as BodyInit), 400, /./],
      [await keep("far.safetensors", other, "192.0.2.1"), 403, /own machine/],
    ] as const;
    for (const [response, status, words] of refused) {
      assert.equal(response.status, status, await response.clone().text());
      assert.match((await response.json()).error.message, words);
    }
    const files = [...Deno.readDirSync(service.adapters)].map(({ name }) => name);
    const wanted = [...Object.keys(LORA_FILES), "ink.safetensors", ".incoming"];
    assert.deepEqual(files.sort(), wanted.sort());
    assert.deepEqual([...Deno.readDirSync(`${service.adapters}/.incoming`)], []);
  }));
