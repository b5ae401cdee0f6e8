import { strict as assert } from "node:assert";
import { EventEmitter } from "node:events";
import type { Server } from "node:http";
import { connect } from "node:net";
import { Hono } from "hono";
import { Connections, maxConnections } from "./connections.ts";
import { listen, type Listener, type ListenOptions } from "./listen.ts";
import type { App, AppEnv } from "../services.ts";

const isLinux = Deno.build.os === "linux";
const GET = "GET / HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n";

/** A client that speaks bytes. */
class Client {
  readonly #connection: Deno.Conn;
  #isOpen = true;

  constructor(connection: Deno.Conn) {
    this.#connection = connection;
  }

  async send(text: string): Promise<this> {
    await this.#connection.write(new TextEncoder().encode(text));
    return this;
  }

  /** What comes next, `""` where the connection is closed. */
  async next(): Promise<string> {
    const bytes = new Uint8Array(4096);
    const count = await this.#connection.read(bytes).catch(() => null);
    return new TextDecoder().decode(bytes.subarray(0, count ?? 0));
  }

  /** Milliseconds until the connection is closed. */
  async closed(): Promise<number> {
    const start = performance.now();
    while (await this.next() !== "");
    return performance.now() - start;
  }

  close(): void {
    if (this.#isOpen) this.#connection.close();
    this.#isOpen = false;
  }
}

/** A server with a route that never answers, one that sends for ever, and one that answers. */
async function withServer(
  limits: Partial<ListenOptions>,
  use: (open: () => Promise<Client>, lines: string[], url: string) => Promise<void>,
): Promise<void> {
  const lines: string[] = [];
  const app: App = new Hono<AppEnv>();
  app.get("/", (c) => c.text("ok"));
  app.get("/wait", () => new Promise(() => {}));
  app.get("/endless", () => {
    const chunk = new Uint8Array(2 ** 16);
    return new Response(new ReadableStream({ pull: (controller) => controller.enqueue(chunk) }));
  });
  app.get("/events", (c) => {
    if (c.env.openStream?.(c.req.query("as") ?? "") === false) return c.text("full", 503);
    return new Response(
      new ReadableStream({ start: (stream) => stream.enqueue(new Uint8Array(1)) }),
    );
  });
  const options = { port: 0, log: (line: string) => lines.push(line), ...limits };
  const listener: Listener = await listen(app, options);
  const clients: Client[] = [];
  const open = async () => {
    const client = new Client(await Deno.connect({ hostname: "127.0.0.1", port: listener.port }));
    clients.push(client);
    return client;
  };
  try {
    await use(open, lines, listener.url);
  } finally {
    for (const client of clients) client.close();
    await listener.close(0);
  }
}

Deno.test("maxConnections() stays below half of what descriptors are left", () => {
  const cases = [[64, 8], [256, 64], [1024, 448], [1_048_576, 1024]] as const;
  for (const [descriptors, expected] of cases) {
    assert.equal(maxConnections(descriptors), expected);
  }
});

Deno.test("a server with too many connections lets the one go that is idle for longest", () =>
  withServer({ maxConnections: 3 }, async (open, lines) => {
    const [first, second] = [await open(), await open()];
    for (const client of [second, first]) {
      await client.send(GET);
      assert.match(await client.next(), /200 OK/);
    }
    for (let count = 0; count < 10; count++) {
      assert.match(await (await (await open()).send(GET)).next(), /200 OK/, `client ${count}`);
    }
    assert.equal(await second.next(), "");
    assert.deepEqual(lines, []);
  }));

/** A connection from any address. */
class FakeSocket extends EventEmitter {
  readonly remoteAddress: string;
  isClosed = false;

  constructor(remoteAddress: string) {
    super();
    this.remoteAddress = remoteAddress;
  }

  setKeepAlive(): void {}

  destroy(): void {
    this.isClosed = true;
    this.emit("close");
  }
}

Deno.test("Connections leaves half of its places to others than one address", () => {
  const server = new EventEmitter();
  const lines: string[] = [];
  const connections = new Connections(
    server as Server,
    { maxConnections: 6 },
    (line) => lines.push(line),
  );
  const come = (address: string) => {
    const socket = new FakeSocket(address);
    server.emit("connection", socket);
    return socket;
  };
  const greedy = Array.from({ length: 4 }, () => come("192.0.2.1"));
  assert.deepEqual(greedy.map(({ isClosed }) => isClosed), [false, false, false, true]);
  assert.match(lines[0]!, /192\.0\.2\.1 has half of the 6 that this server keeps$/);
  assert.ok(!come("192.0.2.2").isClosed);
  greedy[0]!.destroy();
  assert.ok(!come("192.0.2.1").isClosed);
  const local = Array.from({ length: 6 }, () => come("::ffff:127.0.0.1"));
  assert.ok(local.every(({ isClosed }) => !isClosed));
  connections.stop();
});

Deno.test("a server whose connections are all at work refuses one more, and recovers", () =>
  withServer({ maxConnections: 2 }, async (open, lines) => {
    const busy = [await open(), await open()];
    for (const client of busy) await client.send(GET.replace("/", "/wait"));
    // Their requests must have arrived before others come.
    await new Promise((resolve) => setTimeout(resolve, 20));
    for (let count = 0; count < 5; count++) assert.equal(await (await open()).next(), "");
    assert.equal(lines.length, 1);
    assert.match(lines[0]!, /^Cannot take another connection: 2 are open, the most that/);
    busy[0]!.close();
    let answer = "";
    while (answer === "") answer = await (await (await open()).send(GET)).next();
    assert.match(answer, /200 OK/);
  }));

Deno.test("a connection is closed that has no request, half of a head, or is left open", () =>
  withServer({ headMs: 60, keepAliveMs: 60 }, async (open) => {
    const idle = await open();
    const half = await (await open()).send("GET / HTTP/1.1\r\nhost: ");
    const kept = await (await open()).send(GET);
    assert.match(await kept.next(), /200 OK/);
    for (const client of [idle, half, kept]) assert.ok(await client.closed() < 5000);
  }));

Deno.test("an answer that nobody reads is given up", () =>
  withServer({ sendMs: 40, leastSendRate: 2 ** 22 }, async (open) => {
    const deaf = await (await open()).send(GET.replace("/", "/endless"));
    await new Promise((resolve) => setTimeout(resolve, 300));
    // What the system had taken is still there; then it ends, though the answer has none.
    assert.ok(await deaf.closed() < 5000);
  }));

Deno.test("a client that sends requests without end before it reads an answer is let go", () =>
  withServer({}, async (open) => {
    const modest = await (await open()).send(GET.repeat(10));
    let answers = "";
    while (answers.split("200 OK").length <= 10) answers += await modest.next();
    const greedy = await (await open()).send(GET.replace("/", "/wait") + GET.repeat(100));
    assert.ok(await greedy.closed() < 5000);
  }));

Deno.test("event streams leave half of the connections to others", () =>
  withServer({ maxConnections: 4 }, async (open) => {
    const streams = [await open(), await open(), await open()];
    const heads: string[] = [];
    for (const stream of streams) {
      await stream.send(GET.replace("/", "/events"));
      heads.push((await stream.next()).slice(9, 12));
    }
    assert.deepEqual(heads, ["200", "200", "503"]);
    streams[0]!.close();
    for (let status = "503"; status === "503";) {
      const next = await (await open()).send(GET.replace("/", "/events"));
      status = (await next.next()).slice(9, 12);
    }
  }));

Deno.test("event streams of one client leave half of them to others", () =>
  withServer({ maxConnections: 64 }, async (open) => {
    const statusOf = async (client: string) => {
      const stream = await (await open()).send(GET.replace("/", `/events?as=${client}`));
      return (await stream.next()).slice(9, 12);
    };
    const statuses: string[] = [];
    for (let i = 0; i < 17; i++) statuses.push(await statusOf("a"));
    assert.deepEqual(statuses, [...Array(16).fill("200"), "503"]);
    assert.equal(await statusOf("b"), "200");
  }));

/** Runs a server in a process with few descriptors. */
async function withFewDescriptors(
  code: string,
  use: (port: number, lines: () => string) => Promise<void>,
): Promise<void> {
  const file = await Deno.makeTempFile({ suffix: ".ts" });
  const url = (path: string) => JSON.stringify(new URL(path, import.meta.url).href);
  await Deno.writeTextFile(
    file,
    // As denoise serve does: Deno ends with a panic when it begins with signals without a descriptor.
    `Deno.addSignalListener("SIGTERM", () => Deno.exit());
     import { listen } from ${url("./listen.ts")};
     const app = { fetch: () => new Response("ok") };
     const listener = await listen(app, { port: 0, log: (line) => console.log(line), ${code} });
     console.log("port", listener.port);`,
  );
  const config = new URL("../../deno.json", import.meta.url).pathname;
  const child = new Deno.Command("sh", {
    args: [
      "-c",
      'ulimit -n 64; exec "$0" run -A --no-check --config "$1" "$2"',
      ...[Deno.execPath(), config, file],
    ],
    stdout: "piped",
  }).spawn();
  let lines = "";
  const reading = (async () => {
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) lines += text;
  })();
  try {
    while (!/port \d+\n/.test(lines)) await new Promise((resolve) => setTimeout(resolve, 10));
    await use(Number(/port (\d+)/.exec(lines)![1]), () => lines);
  } finally {
    child.kill("SIGKILL");
    await child.status;
    await reading;
    await Deno.remove(file);
  }
}

async function isAnswered(port: number, ms: number): Promise<boolean> {
  try {
    const signal = AbortSignal.timeout(ms);
    return await (await fetch(`http://127.0.0.1:${port}/`, { signal })).text() === "ok";
  } catch {
    return false;
  }
}

/** So many clients at once, who leave a little later. */
async function crowd(port: number, count: number): Promise<void> {
  const sockets = Array.from({ length: count }, () => connect({ host: "127.0.0.1", port }));
  for (const socket of sockets) socket.on("error", () => {}).write(GET);
  await new Promise((resolve) => setTimeout(resolve, 300));
  for (const socket of sockets) socket.destroy();
}

Deno.test({
  name: "listen() keeps answering when more come than there are descriptors",
  ignore: !isLinux,
  fn: () =>
    withFewDescriptors("", async (port) => {
      for (let round = 0; round < 2; round++) await crowd(port, 100);
      assert.ok(await isAnswered(port, 2000));
    }),
});

Deno.test({
  name: "listen() listens anew after the process had no descriptor left",
  ignore: !isLinux,
  fn: () =>
    withFewDescriptors("maxConnections: 1000, watchMs: 100", async (port, lines) => {
      await crowd(port, 100);
      let attempts = 0;
      // A busy machine needs more than one.
      while (!await isAnswered(port, 300) && attempts < 100) attempts++;
      assert.ok(attempts < 100, lines());
      assert.match(lines(), /Listening anew on 127\.0\.0\.1:\d+: nothing was accepted any more/);
    }),
});
