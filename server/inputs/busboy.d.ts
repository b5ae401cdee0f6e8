/** What this server uses of busboy, which comes without types; those of others bring node's along. */

import type { Readable, Writable } from "node:stream";

/** How forms are read. */
interface BusboyConfig {
  /** Headers of the request. */
  headers: { "content-type": string };
  /** Character set of names. */
  defParamCharset: string;
  /** How much a form may hold. */
  limits: { fields: number; files: number; fieldSize: number; fileSize: number };
}

/** Takes a form as it comes, and tells what is in it. */
export type Busboy = FormEvents & Writable;

interface FormEvents {
  on(
    event: "field",
    /** The value is undefined where the part names a charset that nobody knows. */
    listener: (
      name: string | undefined,
      value: string | undefined,
      info: { valueTruncated: boolean },
    ) => void,
  ): this;
  on(
    event: "file",
    listener: (
      name: string | undefined,
      stream: Readable,
      info: { filename?: string; mimeType: string },
    ) => void,
  ): this;
  on(event: "filesLimit" | "fieldsLimit", listener: () => void): this;
}

/** Makes a parser; throws for headers that are none of a form. */
export default function busboy(config: BusboyConfig): Busboy;
