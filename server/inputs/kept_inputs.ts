/** What a request brought, kept beside its results and as long as they are, so that the request can be sent again. */

import type { Services } from "../services.ts";
import type { StoredFile } from "../storage/result_storage.ts";

/** A file that a request brought, until its job ends. */
export interface GivenInput {
  /** The field that it came in. */
  readonly field: string;
  readonly path: string;
  readonly contentType: string;
}

/** A file that a request brought, among the results. */
export interface KeptInput extends StoredFile {
  field: string;
}

/** Where a request says what it brought. */
export interface WithGiven {
  /** Absent where the inputs are not kept. */
  readonly given?: readonly GivenInput[];
}

/** What a request is recorded with, where the server keeps inputs. */
export function givenIn(
  { given }: { readonly given: readonly GivenInput[] },
  { settings, storage }: Pick<Services, "settings" | "storage">,
): WithGiven {
  return settings.keepsInputs && storage && given.length > 0 ? { given } : {};
}

/** Keeps what the request of a job brought, in `kept`, each as soon as it is there. */
export async function keepInputs(
  job: string,
  { given = [] }: WithGiven,
  kept: KeptInput[],
  keep: (name: string, input: GivenInput) => Promise<StoredFile>,
): Promise<void> {
  for (const [index, input] of given.entries()) {
    const extension = /^(?:image|video|audio)\/(?:x-)?(\w+)/.exec(input.contentType)?.[1] ?? "bin";
    const file = await keep(`${job}_input_${index}.${extension}`, input);
    kept.push({ ...file, field: input.field });
  }
}

/** All files that the record of a job leads to, with results that were deleted: a server may have died before it removed them. */
export function filesOf(result: unknown): StoredFile[] {
  const { files = [], inputs = [] } = (result ?? {}) as {
    files?: StoredFile[];
    inputs?: KeptInput[];
  };
  return [...files, ...inputs];
}

/** Bytes that are kept of a job. */
export function bytesOf(result: unknown): number {
  const { inputs = [] } = (result ?? {}) as { inputs?: KeptInput[] };
  return [...resultsOf(result).values(), ...inputs].reduce((sum, { size }) => sum + size, 0);
}

/** Results of a job by their places, without those that were deleted. */
export function resultsOf(result: unknown): Map<number, StoredFile> {
  const { files = [], deleted = [] } = (result ?? {}) as {
    files?: StoredFile[];
    deleted?: number[];
  };
  return new Map([...files.entries()].filter(([index]) => !deleted.includes(index)));
}
