/**
 * Server-sent events, read.
 *
 * Source: WHATWG HTML, "Server-sent events"; only what denoise's own server sends.
 */

/** One event. */
export interface ServerEvent {
  /** The event's name; `message` where it has none. */
  readonly event: string;
  /** Its data: JSON, parsed. */
  // deno-lint-ignore no-explicit-any
  readonly data: any;
}

/** The events of a stream, in their order; comments are left out. */
export async function* readEvents(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
): AsyncGenerator<ServerEvent> {
  let rest = "";
  for await (const text of body.pipeThrough(new TextDecoderStream())) {
    const blocks = (rest + text).replaceAll("\r\n", "\n").split("\n\n");
    rest = blocks.pop()!;
    for (const block of blocks) {
      const lines = block.split("\n");
      const valueOf = (name: string) =>
        lines.filter((line) => line.startsWith(`${name}:`))
          .map((line) => line.slice(name.length + 1).replace(/^ /, "")).join("\n");
      const data = valueOf("data");
      if (data !== "") yield { event: valueOf("event") || "message", data: JSON.parse(data) };
    }
  }
}
