/** A service with LoRAs that its clients may name, some of which cannot be used. */

import { strict as assert } from "node:assert";
import { type AnswerName, ANSWERS } from "../../server/contract/answers.ts";
import type { ServerSettings } from "../../server/settings.ts";
import { withFolder } from "../support/safetensors.ts";
import { FAKE_LAYERS, FAKE_TEXT_LAYER, loraFile } from "./loras.ts";
import { FakeEngine, type FakeOptions } from "./engine.ts";
import { isErrorBody, type TestService, testService } from "./service.ts";

const [FIRST, SECOND] = FAKE_LAYERS as [string, string];

/** LoRAs that can be used, and some that cannot. */
export const LORA_FILES: Readonly<Record<string, Uint8Array | string>> = {
  "a.safetensors": loraFile({ mark: 1 }),
  "b.safetensors": loraFile({ mark: 2, layers: [FIRST, SECOND] }),
  "half.safetensors": loraFile({ mark: 3, layers: [FIRST, "lost.one", "lost.two"] }),
  "text.safetensors": loraFile({
    mark: 10,
    layers: [FIRST, `text_encoder.${FAKE_TEXT_LAYER}`],
  }),
  "second.safetensors": loraFile({ mark: 4, layers: [`transformer_2.${FIRST}`] }),
  "none.safetensors": loraFile({
    mark: 5,
    layers: Array.from({ length: 10_000 }, (_, index) => `lost.${index}`),
  }),
  "nan.safetensors": loraFile({ mark: NaN }),
  "shape.safetensors": loraFile({ mark: 6, columns: 3 }),
  "rank0.safetensors": loraFile({ mark: 7, rank: 0 }),
  "short.safetensors": loraFile({ mark: 8 }).slice(0, -10),
  "prose.safetensors": "not a LoRA",
};

/** The service, and what is often asked of it. */
interface LoraService extends TestService {
  /** LoRAs are here. */
  adapters: string;
  /** Sets a LoRA, by default that of the file of its nickname. */
  set(nickname: unknown, fields?: Record<string, unknown>): Promise<Response>;
  /** What is loaded and active. */
  list(): Promise<{ loaded_adapters: unknown[]; active: Record<string, unknown[]> }>;
  /** Makes an image; gives the file in base64. */
  image(loras?: unknown): Promise<string>;
}

/** Calls `use` with a service of a fake engine. */
export function withLoras(
  use: (service: LoraService) => Promise<void>,
  options: FakeOptions & { settings?: Partial<ServerSettings> } = {},
): Promise<void> {
  return withFolder(LORA_FILES, async (adapters) => {
    const settings = { loraFolders: [adapters], ...options.settings };
    await using service = await testService({ engine: new FakeEngine(options), settings });
    await use(Object.assign(service, {
      adapters,
      set: (nickname: unknown, fields: Record<string, unknown> = {}) => {
        const path = typeof nickname === "string" ? `${nickname}.safetensors` : null;
        return service.post("/v1/set_lora", {
          lora_nickname: nickname,
          lora_path: path,
          ...fields,
        });
      },
      list: async () => await (await service.get("/v1/list_loras")).json(),
      image: async (loras?: unknown) => {
        const body = { prompt: "a", seed: 42, output_format: "png", loras };
        const response = await service.post("/v1/images/generations", body);
        assert.equal(response.status, 200, await response.clone().text());
        return (await response.json()).data[0].b64_json;
      },
    }));
  });
}

// deno-lint-ignore no-explicit-any -- whatever the server says
type Body = any;

/** The body of an answer, which must be of the schema and the status. */
export async function answer(name: AnswerName, response: Response, status = 200): Promise<Body> {
  const body = await response.json();
  assert.equal(response.status, status, JSON.stringify(body).slice(0, 500));
  const { error } = ANSWERS[name].safeParse(body);
  assert.equal(error, undefined, `${name}: ${error?.message}\n${JSON.stringify(body)}`);
  if (status >= 400) assert.ok(isErrorBody(body));
  return body;
}
