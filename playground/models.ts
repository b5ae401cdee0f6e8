/** Models to fetch, those that are on their way, and those that the server has. */

import { call, callJson, events, Refusal } from "./api.ts";
import { chooseModel, connect, noteRefusal, session } from "./session.ts";
import { Store } from "./store.ts";
import { percent, t } from "./texts.ts";
import { tell } from "./view.ts";

export interface Entry {
  id: string;
  title: string;
  family: string;
  good_for: string;
  makes: "images" | "videos";
  licence: string;
  gated: boolean;
  non_commercial: boolean;
  url: string;
  state: "absent" | "partial" | "present";
  precision: string;
  download_bytes: number;
  cached_bytes: number;
  fits: boolean | null;
  first_choice: boolean;
  measured: { seconds: number; size: string } | null;
}

/** A part of models, such as an upscaler. */
export interface Part {
  id: string;
  part: "controlnet" | "ipAdapter" | "upscaler" | "frameInterpolator" | "tinyDecoder";
  /** Models that it is for; none for all. */
  families: string[];
  automatic: boolean;
  licence: string;
  url: string;
  state: "absent" | "present";
  download_bytes: number;
}

export interface Catalogue {
  can_pull: boolean;
  has_token: boolean;
  device_bytes: number | null;
  is_software: boolean | null;
  free_bytes: number | null;
  data: Entry[];
  parts: Part[];
}

export interface Pull {
  id: string;
  model: string;
  status: "queued" | "running" | "stopped" | "completed" | "failed";
  completed_bytes: number;
  total_bytes: number;
  bytes_per_second: number;
  eta_s: number | null;
  error: { message: string } | null;
}

interface Models {
  catalogue: Catalogue | undefined;
  pulls: Pull[];
  isOpen: boolean;
  /** What was done, and what went wrong. */
  news: string;
  problem: string;
}

export const models: Store<Models> = new Store<Models>({
  catalogue: undefined,
  pulls: [],
  isOpen: false,
  news: "",
  problem: "",
});

export function isActive({ status }: Pull): boolean {
  return status === "queued" || status === "running";
}

/** The name of a model, whatever precision or file of it was pulled. */
export function nameOf({ model }: Pull): string {
  return model.split(":")[0]!;
}

/** How much of a pull has come. */
export function shareOf({ completed_bytes: done, total_bytes: all }: Pull): string {
  return percent(done / Math.max(1, all));
}

export function openModels(): void {
  models.set({ isOpen: true });
  void attempt(async () => {
    await look();
    await connect();
  });
}

async function look(): Promise<void> {
  models.set({ catalogue: await callJson<Catalogue>("v1/catalogue") });
}

let isFollowing = false;

/** Follows the pulls of the server, whoever began them, until none is left. */
export async function followPulls(): Promise<void> {
  if (isFollowing) return;
  isFollowing = true;
  await attempt(async () => {
    for (;;) {
      const { data } = await callJson<{ data: Pull[] }>("v1/pulls");
      // A short pull may have ended before it was followed.
      data.forEach(note);
      models.set({ pulls: data });
      const next = data.find(({ status }) => status === "running") ?? data.find(isActive);
      if (!next) return;
      const { signal } = new AbortController();
      for await (const { data } of events(`v1/pulls/${next.id}/events`, signal)) {
        note(data as Pull);
      }
    }
  });
  isFollowing = false;
}

function note(pull: Pull): void {
  const before = models.state.pulls.find(({ id }) => id === pull.id);
  models.set(({ pulls }) => ({ pulls: [...pulls.filter(({ id }) => id !== pull.id), pull] }));
  if (!before || !isActive(before) || isActive(pull)) return;
  void attempt(look);
  if (pull.status !== "completed") return;
  const name = nameOf(pull);
  const part = models.state.catalogue?.parts.find(({ id }) => id === name);
  void attempt(() => part ? usePart(part) : choose(name));
}

/** How often the server is asked for a model that has come, and for how long, in milliseconds. */
const [ASK_MS, WAIT_MS] = [500, 30_000];

/** Models that use a part are opened again; others are chosen in the settings. */
async function usePart({ id: name, automatic }: Part): Promise<void> {
  await connect();
  models.set({ news: t(automatic ? "partHasCome" : "partToChoose", { name }) });
}

/** Chooses a model that has just come, once the server has looked at it. */
async function choose(name: string): Promise<void> {
  for (let waited = 0; waited < WAIT_MS; waited += ASK_MS) {
    await connect();
    if (session.state.models.some(({ id }) => id === name)) {
      chooseModel(name);
      models.set({ news: t("modelHasCome", { name }) });
      if (!models.state.isOpen) tell(t("modelHasCome", { name }));
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, ASK_MS));
  }
  models.set({ problem: t("modelNotServed", { name }) });
}

export function pull(model: string): Promise<void> {
  return attempt(async () => {
    const body = JSON.stringify({ model });
    const headers = { "content-type": "application/json" };
    note(await callJson<Pull>("v1/pulls", { method: "POST", headers, body }));
    void followPulls();
  });
}

/** Stops a pull; what has come stays. */
export function pause({ id }: Pull): Promise<void> {
  return attempt(async () =>
    note(await callJson<Pull>(`v1/pulls/${id}/cancel`, { method: "POST" }))
  );
}

/** Removes a model, or what has come of it, which ends its download. */
export function removeModel(id: string): Promise<void> {
  return attempt(async () => {
    const own = models.state.pulls.filter((pull) => nameOf(pull) === id);
    const isComing = own.some(isActive);
    await call(`v1/models/${id}`, { method: "DELETE" }).catch((error) => {
      // Of a pull that waited nothing has come.
      const isNothing = error instanceof Refusal && error.status === 404 && own.length > 0;
      if (!isNothing) throw error;
    });
    const { data } = await callJson<{ data: Pull[] }>("v1/pulls");
    models.set({ pulls: data, news: t(isComing ? "pullCancelled" : "modelDeleted", { name: id }) });
    await look();
    await connect();
  });
}

async function attempt(work: () => Promise<unknown>): Promise<void> {
  models.set({ news: "", problem: "" });
  try {
    await work();
  } catch (error) {
    if (!noteRefusal(error)) {
      models.set({ problem: error instanceof Error ? error.message : String(error) });
    }
  }
}
