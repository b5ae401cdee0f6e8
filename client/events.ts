/** Server-sent events. Source: WHATWG HTML, "Server-sent events". */

/** An event of a stream. */
export interface ServerEvent {
  /** The event's name; `message` where it has none. */
  readonly event: string;
  /** What it says, from JSON. */
  // deno-lint-ignore no-explicit-any
  readonly data: any;
}

/** The events of a stream, in their order; comments are omitted. */
export async function* readEvents(
  body: ReadableStream<Uint8Array<ArrayBuffer>>,
): AsyncGenerator<ServerEvent> {
  let rest = "";
  for await (const text of chunks(body.pipeThrough(new TextDecoderStream()))) {
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

/** Streams are no iterables in Safari. */
async function* chunks(stream: ReadableStream<string>): AsyncGenerator<string> {
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}
