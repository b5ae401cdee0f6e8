/** The connection to the server: whether it answers, asks for a key, and which models it has. */

import { apiKey, ask, callJson, Refusal } from "./api.ts";
import type { Model } from "./model.ts";
import { memory, Store } from "./store.ts";

type Link = "connecting" | "loading" | "ready" | "failed" | "lost" | "locked";

export interface Session {
  link: Link;
  /** Loaded or fetched share of the model, 0 to 1. */
  loaded: number;
  isDownload: boolean;
  problem: string;
  /** Whether a key was sent and refused. */
  isKeyWrong: boolean;
  models: Model[];
  modelId: string;
}

export const session: Store<Session> = new Store<Session>({
  link: "connecting",
  loaded: 0,
  isDownload: false,
  problem: "",
  isKeyWrong: false,
  models: [],
  modelId: memory.read("model", ""),
});

/** How often a server that is not ready is asked again, in milliseconds. */
const RETRY_MS = 1000;

let connecting: Promise<void> | undefined;

/** Connects, and goes on trying until the model answers; a second call joins the first. */
export function connect(): Promise<void> {
  return connecting ??= untilReady().finally(() => connecting = undefined);
}

async function untilReady(): Promise<void> {
  for (;;) {
    try {
      const { data } = await callJson<{ data: Model[] }>("v1/models");
      const chosen = data.find(({ id }) => id === session.state.modelId) ?? data[0];
      session.set({
        link: "ready",
        problem: "",
        isKeyWrong: false,
        models: data,
        modelId: chosen?.id ?? "",
      });
      return;
    } catch (error) {
      if (noteRefusal(error)) return;
      if (error instanceof Refusal && error.status === 503) await askHealth();
    }
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

async function askHealth(): Promise<void> {
  try {
    const response = await ask("health");
    const { status, progress = 0, stage, error } = await response.json();
    if (status === "failed") session.set({ link: "failed", problem: error.message });
    else {
      session.set({
        link: "loading",
        loaded: progress,
        isDownload: stage === "download",
        problem: "",
      });
    }
  } catch {
    session.set({ link: "lost", problem: "" });
  }
}

/** Takes note of a refusal that concerns the connection; returns whether a key has to be typed. */
export function noteRefusal(error: unknown): boolean {
  if (!(error instanceof Refusal)) return false;
  if (error.status === 401) {
    session.set({ link: "locked", isKeyWrong: apiKey() !== "" });
    return true;
  }
  if (error.status === 0) session.set({ link: "lost" });
  return false;
}

export function useKey(key: string): Promise<void> {
  memory.write("key", key.trim());
  session.set({ link: "connecting", isKeyWrong: false });
  return connect();
}

export function currentModel({ models, modelId }: Session): Model | undefined {
  return models.find(({ id }) => id === modelId);
}

export function chooseModel(id: string): void {
  memory.write("model", id);
  session.set({ modelId: id });
}
