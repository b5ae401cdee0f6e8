import { strict as assert } from "node:assert";
import { FakeEngine } from "../../tests/fakes/engine.ts";
import { loraFile } from "../../tests/fakes/loras.ts";
import { withFolder } from "../../tests/support/safetensors.ts";
import { EngineState } from "../served_models.ts";
import { ServerLoras } from "./server_loras.ts";

Deno.test("ServerLoras calls the only LoRA of the start default, too, as the reference does", () =>
  withFolder({ "a.safetensors": loraFile({ mark: 1 }) }, async (folder) => {
    const path = `${folder}/a.safetensors`;
    const engine = new FakeEngine();
    const finder = {
      find: () => Promise.reject(new Error("none")),
      list: () => Promise.resolve([]),
    };
    const namesOf = async (paths: string[]) => {
      const loras = new ServerLoras(new EngineState(engine), finder, "auto");
      await loras.begin(engine, paths.map((path) => ({ path, strength: 0.5 })));
      return { loras, names: loras.loaded.map(({ nickname }) => nickname) };
    };
    const { loras, names } = await namesOf([path]);
    assert.deepEqual(names, ["a", "default"]);
    assert.deepEqual((await loras.offered()).map(({ name }) => name), ["a", "default"]);
    const [active] = await loras.resolve([{ nickname: "default" }]);
    assert.equal(active!.file, path);
    assert.deepEqual((await namesOf([path, path])).names, ["a", "a-2"]);
  }));
