/** LoRAs that are dropped on the page: sent, checked against the model, and used. */

import { callJson } from "./api.ts";
import { draft } from "./draft.ts";
import type { Model } from "./model.ts";
import { Store } from "./store.ts";
import { t } from "./texts.ts";
import { attempt, tell } from "./view.ts";

interface Report {
  matched_layers: number;
  unmatched_keys: string[];
  note: string | null;
}

/** What came of the LoRAs that were dropped: a line each. */
export const dropped: Store<{ lines: string[] }> = new Store<{ lines: string[] }>({ lines: [] });

/** Most keys that are named. */
const MAX_KEYS = 5;

export async function takeLoras(model: Model, files: readonly File[]): Promise<void> {
  if (!model.takes_loras) return tell(t("noLoras"));
  const lines: string[] = [];
  for (const file of files) {
    dropped.set({ lines: [...lines, t("loraSending", { name: file.name })] });
    await attempt(async () => lines.push(...await takeLora(model, file)));
  }
  dropped.set({ lines });
}

async function takeLora(model: Model, file: File): Promise<string[]> {
  const { path, adapters } = await callJson<{ path: string; adapters: Report[] }>(
    `v1/loras/${encodeURIComponent(file.name)}?model=${encodeURIComponent(model.id)}`,
    {
      method: "POST",
      headers: { "content-type": "application/octet-stream" },
      body: file,
    },
  );
  draft.set(({ loras }) => ({
    loras: loras.some((lora) => lora.path === path) ? loras : [...loras, { path, strength: 1 }],
  }));
  const count = adapters.reduce((sum, { matched_layers: layers }) => sum + layers, 0);
  const rest = [...new Set(adapters.flatMap(({ unmatched_keys: keys }) => keys))];
  const keys = [...rest.slice(0, MAX_KEYS), ...rest.length > MAX_KEYS ? ["…"] : []].join(", ");
  return [
    t("loraFits", { name: path, count }),
    ...rest.length > 0 ? [t("loraRest", { count: rest.length, keys })] : [],
    ...new Set(adapters.flatMap(({ note }) => note ?? [])),
  ];
}
