/** LoRAs that a server fetches because its clients name them: as nobody, few at once, neither without end nor until the disk is full. */

import { type HubLora, obtainHubLora } from "../../hub/lora_file.ts";
import { type HubSettings, hubSettings } from "../../hub/hub_settings.ts";
import { onBehalfOf } from "../../media/isolated/slots.ts";
import { ApiError } from "../contract/errors.ts";

export interface HubLimits {
  readonly maxBytes: number;
  /** Most LoRAs that are fetched at the same time; where there are several, the last is not for who has all others. */
  readonly maxAtOnce: number;
  /** Longest time for one of them, in milliseconds. */
  readonly maxMs: number;
  /** Bytes of the disk that stay free. */
  readonly minFreeBytes: number;
}

/** What holds where nothing else was said. */
const DEFAULT_HUB_LIMITS: HubLimits = {
  maxBytes: 2 * 2 ** 30,
  maxAtOnce: 3,
  maxMs: 10 * 60_000,
  minFreeBytes: 2 * 2 ** 30,
};

/** A fetch that goes on as long as somebody waits for it. */
interface Fetch {
  readonly file: Promise<string>;
  readonly stop: AbortController;
  readonly client: string;
  waiting: number;
}

/** LoRAs that a server fetches from a hub for its clients. */
export class HubFetches {
  readonly #settings: HubSettings | undefined;
  readonly #limits: HubLimits;
  readonly #running = new Map<string, Fetch>();

  /** Hub and cache are those of the environment by default. */
  constructor(settings?: HubSettings, limits: Partial<HubLimits> = {}) {
    this.#settings = settings;
    this.#limits = { ...DEFAULT_HUB_LIMITS, ...limits };
  }

  /**
   * Finds a LoRA in the cache, or fetches it. Clients that ask for the same one share a fetch.
   *
   * @param signal gives up waiting; the fetch ends with the last one who waits
   * @throws {ApiError} 503 when others are fetched already, 504 when it takes too long
   * @throws {Error} as {@link obtainHubLora} does
   */
  async get(lora: HubLora, onFetch: () => void, signal?: AbortSignal): Promise<string> {
    const key = `${lora.id}:${lora.file ?? ""}`;
    const fetch = this.#running.get(key) ?? this.#start(key, lora, onFetch);
    const left = Promise.withResolvers<never>();
    const onAbort = () => left.reject(signal!.reason);
    if (signal?.aborted) onAbort();
    signal?.addEventListener("abort", onAbort);
    fetch.waiting++;
    try {
      return await Promise.race([left.promise, fetch.file]);
    } finally {
      signal?.removeEventListener("abort", onAbort);
      if (--fetch.waiting === 0) fetch.stop.abort();
    }
  }

  /** Where what was fetched is kept. */
  async cacheFolder(): Promise<string> {
    return (this.#settings ?? await hubSettings()).cacheFolder;
  }

  #start(key: string, lora: HubLora, onFetch: () => void): Fetch {
    const { maxAtOnce } = this.#limits;
    const client = onBehalfOf.getStore() ?? "";
    const { size } = this.#running;
    const isGreedy = size > 0 && size === maxAtOnce - 1 &&
      this.#running.values().every((fetch) => fetch.client === client);
    if (size >= maxAtOnce || isGreedy) {
      throw new ApiError(
        503,
        `Cannot fetch LoRA ${lora.id}: ${size} others are being fetched; send the ` +
          "request again in a while",
        { param: "lora_path", code: "hub_busy", headers: { "retry-after": "10" } },
      );
    }
    const stop = new AbortController();
    const file = this.#obtain(lora, onFetch, stop.signal)
      .finally(() => this.#running.delete(key));
    file.catch(() => {});
    const fetch = { file, stop, client, waiting: 0 };
    this.#running.set(key, fetch);
    return fetch;
  }

  async #obtain(lora: HubLora, onFetch: () => void, stop: AbortSignal): Promise<string> {
    const { maxBytes, maxMs, minFreeBytes } = this.#limits;
    // Whoever holds the token did not ask for this.
    const { token: _, ...settings } = this.#settings ?? await hubSettings();
    const late = AbortSignal.timeout(maxMs);
    const signal = AbortSignal.any([stop, late]);
    try {
      return await obtainHubLora(lora, { settings, signal, maxBytes, minFreeBytes }, onFetch);
    } catch (error) {
      if (!late.aborted) throw error;
      throw new ApiError(
        504,
        `Cannot fetch LoRA ${lora.id}: it took longer than ${maxMs / 1000} s`,
        { param: "lora_path", code: "hub_failed" },
      );
    }
  }
}
