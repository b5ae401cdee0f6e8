/** Several cards behind one queue, as clients and operators see them. */
import { strict as assert } from "node:assert";
import { ANSWERS } from "../../server/contract/answers.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { type TestService, testService, until } from "../fakes/service.ts";

async function workers(service: TestService) {
  const body = await (await service.get("/v1/workers")).json();
  const { error } = ANSWERS.WorkerList.safeParse(body);
  assert.equal(error, undefined);
  return body.data;
}

const BODY = { prompt: "a fox", response_format: "b64_json", seed: 3 };
const PATH = "/v1/images/generations";

Deno.test("GET /v1/workers shows the only card, what it has and what it does", async () => {
  await using service = await testService({ engine: new FakeEngine({ stepMs: 20 }) });
  const made = service.post(PATH, BODY);
  await until(() => service.queue.running.length > 0);
  const [busy, ...others] = await workers(service);
  assert.deepEqual([busy.state, busy.job, others.length], ["busy", service.queue.running[0], 0]);
  assert.deepEqual(busy.models, [{ id: "gradients", state: "loaded" }]);
  await made;
  const [idle] = await workers(service);
  assert.deepEqual([idle.state, idle.job, idle.jobs_done], ["idle", null, 1]);
});

Deno.test("images of one request are made on all cards, and come in order", async () => {
  const images = async (service: TestService) => {
    const { data } = await (await service.post(PATH, { ...BODY, n: 4 })).json();
    return data.map(({ seed, b64_json }: Record<string, unknown>) => [seed, b64_json]);
  };
  await using alone = await testService();
  await using several = await testService({
    cards: [1, 2].map(() => new FakeEngine({ stepMs: 10 })),
  });
  const made = images(several);
  await until(() => several.queue.running.length > 0);
  await until(async () =>
    (await workers(several)).every(({ job }: { job: unknown }) => job !== null)
  );
  const busy = await workers(several);
  assert.deepEqual(busy.map(({ state }: { state: string }) => state), ["busy", "busy"]);
  assert.equal(busy[0].job, busy[1].job);
  assert.deepEqual(await made, await images(alone));
  const idle = await workers(several);
  const sum = (name: string) =>
    idle.reduce((all: number, one: Record<string, number>) => all + one[name]!, 0);
  assert.deepEqual([sum("jobs_done"), sum("outputs_done")], [1, 4]);
  assert.ok(idle.every((one: Record<string, number>) => one["outputs_done"]! > 0));
});

Deno.test("jobs of several clients run at once, one on each card", async () => {
  const cards = [1, 2, 3].map(() => new FakeEngine({ stepMs: 20 }));
  await using service = await testService({ cards });
  const made = Array.from({ length: 6 }, () => service.post(PATH, BODY));
  await until(() => service.queue.running.length === 3 && service.queue.waiting === 3);
  const list = await (await service.get("/v1/jobs")).json();
  assert.deepEqual([list.running, list.waiting], [3, 3]);
  for (const response of await Promise.all(made)) assert.equal(response.status, 200);
  assert.deepEqual(cards.map(({ requests }) => requests.length), [2, 2, 2]);
  assert.deepEqual(cards.map(({ mostAtOnce }) => mostAtOnce), [1, 1, 1]);
});
