/** What Deno, Node and Bun say of a path alike. */
import { stat } from "node:fs/promises";

/** Whether a path leads to anything. */
export async function exists(path: string): Promise<boolean> {
  return await stat(path).then(() => true, () => false);
}

export async function isFile(path: string): Promise<boolean> {
  return await stat(path).then((info) => info.isFile(), () => false);
}

/** Changes when a file is replaced or written; nothing when it is gone. */
export async function fileStamp(path: string): Promise<string | undefined> {
  try {
    const { ino, size, mtimeNs, ctimeNs } = await stat(path, { bigint: true });
    return `${ino}:${size}:${mtimeNs}:${ctimeNs}`;
  } catch {
    return undefined;
  }
}
