/** Random requests about LoRAs from several clients, against a model of what a server is said to do. */

import { strict as assert } from "node:assert";

const TARGETS = ["transformer", "transformer_2"] as const;
type Target = typeof TARGETS[number];

/** A LoRA as it is applied to one component. */
export interface Applied {
  /** Path of a file that the server may read. */
  readonly path: string;
  readonly strength: number;
  readonly target: Target | "all";
  readonly mode: "auto" | "merge" | "dynamic";
}

interface Named extends Applied {
  readonly nickname: string;
}

/** What a server is said to know. */
interface State {
  readonly nicknames: Readonly<Record<string, string>>;
  readonly slots: Readonly<
    Partial<Record<Target, { readonly loras: readonly Named[]; readonly isActive: boolean }>>
  >;
}

/** A request, and what a server in a certain state would do. */
interface Step {
  readonly path: string;
  readonly body?: unknown;
  /** The next state, and what the answer must be. */
  readonly run: (state: State) => { readonly next: State; readonly answer: Expected };
}

type Expected =
  | { readonly status: number }
  | { readonly list: unknown }
  | { readonly image: readonly Applied[] };

/** What was answered. */
interface Seen {
  readonly status: number;
  // deno-lint-ignore no-explicit-any -- whatever the server says
  readonly body: any;
}

/** What sequences are run on. */
interface SequenceBench {
  /** Of a server whose LoRAs may be named by the paths below. */
  readonly url: string;
  /** Components of the model. */
  readonly targets: readonly Target[];
  /** LoRAs that change every component. */
  readonly good: readonly string[];
  /** Files that are no LoRAs of the model. */
  readonly bad: readonly string[];
  /** The fields of a request for an image. */
  readonly request: Readonly<Record<string, unknown>>;
  /** Identifies an image, whatever its file says beside. */
  readonly imageOf: (file: Uint8Array<ArrayBuffer>) => Promise<string>;
  /** The image that these LoRAs make. */
  readonly expected: (applied: readonly Applied[]) => Promise<string>;
}

const STRENGTHS = [1, 0.5, -1];

/** Numbers that are the same in every run. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor(state / 2 ** 32 * below);
  };
}

/**
 * Runs sequences, several at a time. At the end of each batch nothing is set, and the image must be that of the model
 * alone.
 *
 * Requests that are on their way together may be served in any order: all orders are followed that explain what was
 * answered, and at least one has to remain.
 *
 * @param count sequences, of 5 requests each
 */
export async function runSequences(
  bench: SequenceBench,
  { count, clients = 3, seed = 1 }: { count: number; clients?: number; seed?: number },
): Promise<number> {
  const random = randomFrom(seed);
  const base = await bench.expected([]);
  const [path] = bench.good as [string];
  const one = { path, strength: 1, target: "all", mode: "auto" } as const;
  assert.notEqual(await bench.expected([one]), base, "LoRAs can be seen");
  let requests = 0;
  let states: State[] = [{ nicknames: {}, slots: {} }];
  const round = async (steps: readonly Step[]) => {
    const seen = await Promise.all(steps.map((step) => send(bench, step)));
    requests += steps.length;
    const next = await explain(bench, states, steps, seen);
    const text = steps.map((step, i) =>
      JSON.stringify([step.path, step.body, seen[i]]).slice(0, 600)
    );
    assert.ok(
      next.length > 0,
      `no order explains, from ${JSON.stringify(states)}:\n${text.join("\n")}`,
    );
    states = next;
  };
  for (let done = 0; done < count; done += clients) {
    for (let step = 0; step < 5; step++) {
      await round(Array.from({ length: clients }, () => anyStep(bench, random)));
      await round([listStep(bench.targets)]);
    }
    await round([unmergeStep(bench.targets, "all")]);
    await round([imageStep(bench, undefined)]);
    assert.equal(await bench.expected([]), base);
  }
  return requests;
}

/** All states that the answers leave possible. */
async function explain(
  bench: SequenceBench,
  states: readonly State[],
  steps: readonly Step[],
  seen: readonly Seen[],
): Promise<State[]> {
  const found = new Map<string, State>();
  for (const order of permutations(steps.map((_, index) => index))) {
    for (const start of states) {
      let state: State | undefined = start;
      for (const index of order) {
        const { next, answer }: ReturnType<Step["run"]> = steps[index]!.run(state!);
        if (!await agrees(bench, answer, seen[index]!)) {
          state = undefined;
          break;
        }
        state = next;
      }
      if (state) found.set(JSON.stringify(state), state);
    }
  }
  return [...found.values()];
}

async function agrees(bench: SequenceBench, answer: Expected, seen: Seen): Promise<boolean> {
  if ("status" in answer) return answer.status === seen.status;
  if (seen.status !== 200) return false;
  if ("list" in answer) {
    const { loaded_adapters, active } = seen.body;
    return stable({ loaded_adapters, active }) === stable(answer.list);
  }
  const file = Uint8Array.fromBase64(seen.body.data[0].b64_json);
  return await bench.imageOf(file) === await bench.expected(answer.image);
}

async function send({ url }: SequenceBench, { path, body }: Step): Promise<Seen> {
  const response = await fetch(
    url + path,
    body === undefined ? {} : { method: "POST", body: JSON.stringify(body), headers: JSON_TYPE },
  );
  return { status: response.status, body: await response.json() };
}

const JSON_TYPE = { "content-type": "application/json" };

function anyStep(bench: SequenceBench, random: (below: number) => number): Step {
  const pick = <T>(list: readonly T[]): T => list[random(list.length)]!;
  const target = pick([...bench.targets, "all"] as const);
  switch (random(8)) {
    case 0:
    case 1:
    case 2: {
      const nicknames = random(3) === 0 ? ["x", "y"] : [pick(["x", "y", "z"])];
      const modes = ["auto", "merge", "dynamic"] as const;
      const named = nicknames.map((nickname) => ({
        nickname,
        path: random(3) === 0 ? null : pick(bench.good),
        strength: pick(STRENGTHS),
      }));
      return setStep(bench.targets, named, target, pick(modes));
    }
    case 3:
      return {
        path: "/v1/set_lora",
        body: { lora_nickname: "x", lora_path: pick(bench.bad) },
        run: (state) => ({ next: state, answer: { status: 400 } }),
      };
    case 4:
      return mergeStep(bench.targets, target, pick(STRENGTHS));
    case 5:
      return unmergeStep(bench.targets, target);
    case 6:
      return imageStep(bench, undefined);
    default: {
      const own = { path: pick(bench.good), strength: pick(STRENGTHS), target };
      return imageStep(bench, random(4) === 0 ? [] : [own]);
    }
  }
}

function setStep(
  targets: readonly Target[],
  named: readonly { nickname: string; path: string | null; strength: number }[],
  target: Target | "all",
  mode: Applied["mode"],
): Step {
  return {
    path: "/v1/set_lora",
    body: {
      lora_nickname: named.map(({ nickname }) => nickname),
      lora_path: named.map(({ path }) => path),
      strength: named.map(({ strength }) => strength),
      target,
      merge_mode: mode,
    },
    run: (state) => {
      const loras = named.map((lora) => ({
        ...lora,
        path: lora.path ?? state.nicknames[lora.nickname],
        // What stays for many requests is merged.
        mode: mode === "auto" ? "merge" as const : mode,
      }));
      if (loras.some(({ path }) => path === undefined)) {
        return { next: state, answer: { status: 400 } };
      }
      const slots = { ...state.slots };
      for (const name of meant(targets, target)) {
        slots[name] = {
          isActive: true,
          loras: loras.map((lora) => ({ ...lora, path: lora.path!, target: name })),
        };
      }
      const nicknames = { ...state.nicknames };
      for (const { nickname, path } of loras) nicknames[nickname] = path!;
      return { next: { nicknames, slots }, answer: { status: 200 } };
    },
  };
}

function mergeStep(targets: readonly Target[], target: Target | "all", strength: number): Step {
  return {
    path: "/v1/merge_lora_weights",
    body: { target, strength },
    run: (state) => {
      const slots = { ...state.slots };
      for (const name of meant(targets, target)) {
        const slot = slots[name];
        if (!slot) continue;
        const loras = slot.loras.map((lora) => ({ ...lora, strength, mode: "merge" as const }));
        slots[name] = { loras, isActive: true };
      }
      return { next: { ...state, slots }, answer: { status: 200 } };
    },
  };
}

function unmergeStep(targets: readonly Target[], target: Target | "all"): Step {
  return {
    path: "/v1/unmerge_lora_weights",
    body: { target },
    run: (state) => {
      const slots = { ...state.slots };
      for (const name of meant(targets, target)) {
        if (slots[name]) slots[name] = { ...slots[name], isActive: false };
      }
      return { next: { ...state, slots }, answer: { status: 200 } };
    },
  };
}

function imageStep({ request }: SequenceBench, own: readonly object[] | undefined): Step {
  return {
    path: "/v1/images/generations",
    body: { ...request, ...(own ? { loras: own } : {}) },
    run: (state) => ({
      next: state,
      answer: {
        image: own
          ? own.map((lora) => ({ ...lora, mode: "auto" } as Applied))
          : TARGETS.flatMap((name) => active(state, name)),
      },
    }),
  };
}

function listStep(targets: readonly Target[]): Step {
  return {
    path: "/v1/list_loras",
    run: (state) => {
      const entries = targets.flatMap((name) => {
        const loras = active(state, name).map(({ nickname, path, strength, mode }) => {
          const merged = mode === "merge";
          return { nickname, path, merged, mode: merged ? "merged" : "dynamic", strength };
        });
        return loras.length > 0 ? [[name, loras]] : [];
      });
      const loaded = Object.entries(state.nicknames).map(([nickname, path]) => ({
        nickname,
        path,
      }));
      return {
        next: state,
        answer: { list: { loaded_adapters: loaded, active: Object.fromEntries(entries) } },
      };
    },
  };
}

function active({ slots }: State, name: Target): readonly Named[] {
  const slot = slots[name];
  return slot?.isActive ? slot.loras : [];
}

function meant(targets: readonly Target[], target: Target | "all"): readonly Target[] {
  return target === "all" ? targets : [target];
}

function permutations(items: readonly number[]): number[][] {
  if (items.length === 0) return [[]];
  return items.flatMap((item, index) =>
    permutations(items.toSpliced(index, 1)).map((rest) => [item, ...rest])
  );
}

/** JSON whose keys are in one order. */
function stable(value: unknown): string {
  return JSON.stringify(
    value,
    (_, item) =>
      typeof item === "object" && item !== null && !Array.isArray(item)
        ? Object.fromEntries(Object.entries(item).sort(([a], [b]) => (a < b ? -1 : 1)))
        : item,
  );
}
