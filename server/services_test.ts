import { strict as assert } from "node:assert";
import type { Engine } from "../engine/types.ts";
import { FakeEngine } from "../tests/fakes/engine.ts";
import { EngineState, type ServedModel, ServedModels } from "./served_models.ts";
import { requestContext, type Services } from "./services.ts";
import { DEFAULT_SETTINGS } from "./settings.ts";

/** Two models, the second of which loads for as long as the caller likes. */
function start(waitsForModels: boolean, first: Engine | Promise<Engine> = new FakeEngine()) {
  const second = Promise.withResolvers<Engine>();
  const model = (name: string, engine: Engine | Promise<Engine>) => ({
    ...{ name, path: name, namedLoras: {}, loras: {} as never },
    engine: new EngineState(engine),
  });
  const served: [ServedModel, ...ServedModel[]] = [
    model("one", first),
    model("two", second.promise),
  ];
  const models = new ServedModels(() => served);
  const services = { models, settings: { ...DEFAULT_SETTINGS, waitsForModels } } as Services;
  const ask = (name: string, signal = new AbortController().signal) =>
    requestContext(services, signal, { model: name });
  return { served, second, ask };
}

Deno.test("requestContext() waits for a model that loads behind the first one, and no longer than its client", async () => {
  const { second, ask } = start(true);
  assert.equal((await ask("one")).servedModelName, "one");
  const waiting = ask("two");
  const left = AbortSignal.abort(new DOMException("left", "AbortError"));
  await assert.rejects(ask("two", left), { name: "AbortError" });
  second.resolve(new FakeEngine());
  assert.equal((await waiting).servedModelName, "two");
});

Deno.test("requestContext() says that a model could not be loaded to those that waited for it", async () => {
  const { second, ask } = start(true);
  const waiting = ask("two");
  second.reject(new Error("no"));
  await assert.rejects(waiting, { failure: "model_failed" });
});

Deno.test("requestContext() says 404 to those that waited for a model which was removed", async () => {
  const { served, second, ask } = start(true);
  const waiting = ask("two");
  served.pop();
  second.reject(new Error("no"));
  await assert.rejects(waiting, { status: 404, message: /^The model 'two' does not exist/ });
});

Deno.test("requestContext() waits for no first model, nor where the server was told not to", async () => {
  await assert.rejects(start(false).ask("two"), { failure: "model_loading" });
  const never = new Promise<Engine>(() => {});
  await assert.rejects(start(true, never).ask("one"), { failure: "model_loading" });
});
