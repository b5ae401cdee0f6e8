/** moto's store of S3 in a process of its own. */

import { fileURLToPath } from "node:url";
import { AwsClient } from "aws4fetch";
import type { S3Settings } from "../../server/storage/s3_settings.ts";
import { PYTHON } from "./python.ts";

/** A store, and the right to write to its bucket. */
export interface StoreProcess extends AsyncDisposable {
  readonly settings: S3Settings;
  /** Names of all objects. */
  names(): Promise<string[]>;
}

/** Starts a store with an empty bucket. */
export async function startStore(): Promise<StoreProcess> {
  const script = fileURLToPath(new URL("python/s3_store.py", import.meta.url));
  const child = new Deno.Command(PYTHON, { args: [script], stdin: "piped", stdout: "piped" })
    .spawn();
  const reader = child.stdout.getReader();
  const { value } = await reader.read();
  const settings: S3Settings = JSON.parse(new TextDecoder().decode(value));
  return {
    settings,
    names: () => listNames(settings),
    async [Symbol.asyncDispose]() {
      await child.stdin.close();
      await reader.cancel();
      await child.status;
    },
  };
}

async function listNames({ endpoint, bucket, ...keys }: S3Settings): Promise<string[]> {
  const client = new AwsClient({ ...keys, service: "s3" });
  const names: string[] = [];
  for (let after = "";;) {
    const query = `list-type=2&start-after=${encodeURIComponent(after)}`;
    const answer = await client.fetch(`${endpoint}/${bucket}?${query}`);
    const page = [...(await answer.text()).matchAll(/<Key>([^<]*)<\/Key>/g)]
      .map(([, key]) => key!);
    if (page.length === 0) return names;
    names.push(...page);
    after = names.at(-1)!;
  }
}
