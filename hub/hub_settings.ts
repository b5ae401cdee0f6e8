/** How to reach a model hub: the variables that the Hugging Face tools read. */

import { join } from "node:path";
import { env as ownEnv, readText } from "../platform/mod.ts";
import { hubCacheFolder } from "./cache.ts";

export interface HubSettings {
  /** Address of the hub, without a slash at the end. */
  readonly endpoint: string;
  /** Access token; absent for public repositories. */
  readonly token?: string;
  /** Nothing may be fetched. */
  readonly isOffline: boolean;
  /** The cache, in the layout that the Python tools share. */
  readonly cacheFolder: string;
}

const DEFAULT_ENDPOINT = "https://huggingface.co";
const TRUE_VALUES = ["1", "ON", "YES", "TRUE"];

/** Reads `HF_ENDPOINT`, `HF_TOKEN` or the file `HF_TOKEN_PATH`, `HF_HUB_OFFLINE`, and where the cache is. */
export async function hubSettings(
  env: (name: string) => string | undefined = ownEnv,
): Promise<HubSettings> {
  const cacheFolder = hubCacheFolder(env);
  const token = env("HF_TOKEN")?.trim() || await readToken(env, cacheFolder);
  return {
    endpoint: readEndpoint(env("HF_ENDPOINT") || DEFAULT_ENDPOINT),
    ...(token ? { token } : {}),
    isOffline: TRUE_VALUES.includes((env("HF_HUB_OFFLINE") ?? "").toUpperCase()),
    cacheFolder,
  };
}

function readEndpoint(text: string): string {
  const url = URL.parse(text);
  if (!url || !/^https?:$/.test(url.protocol) || url.username !== "" || url.search !== "") {
    throw new TypeError(
      `Cannot use HF_ENDPOINT ${JSON.stringify(text)}: it must be an http or https address`,
    );
  }
  return url.href.replace(/(?<!\/)\/+$/, "");
}

/** What `hf auth login` left, or nothing. */
async function readToken(
  env: (name: string) => string | undefined,
  cacheFolder: string,
): Promise<string | undefined> {
  const home = env("HF_HOME");
  const path = env("HF_TOKEN_PATH") || join(home || join(cacheFolder, ".."), "token");
  try {
    return (await readText(path)).trim() || undefined;
  } catch {
    return undefined;
  }
}
