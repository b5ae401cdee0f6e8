/** Clients that others wrote, unpatched, against a real server with the bundled model (`deno task test:clients`). */

import { strict as assert } from "node:assert";
import { fileURLToPath } from "node:url";
import { decodeImage } from "../../media/decode.ts";
import { encodeImage } from "../../media/encode.ts";
import { type ServerProcess, startProcess } from "../e2e/server_process.ts";
import { edit, generate } from "./open_webui.ts";
import { missing, PYTHON } from "./python.ts";

const FOLDER = fileURLToPath(new URL(".", import.meta.url));

/** Programs, and the package that each is for. */
const NPM: readonly (readonly [program: string, name: string])[] = [
  ["openai.ts", "OpenAI's JavaScript client"],
  ["vercel_ai.ts", "the Vercel AI SDK"],
  ["langchain.ts", "LangChain for JavaScript"],
];
const PIP: readonly (readonly [program: string, distribution: string, name: string])[] = [
  ["openai_client.py", "openai", "OpenAI's Python client"],
  ["langchain_client.py", "langchain-community", "LangChain for Python"],
  ["haystack_client.py", "haystack-ai", "Haystack"],
  ["litellm_client.py", "litellm", "LiteLLM"],
];

const isWanted = Deno.env.has("DENOISE_CLIENTS");

interface Outcome {
  readonly success: boolean;
  readonly out: string;
}

async function run(program: string, args: readonly string[], cwd = FOLDER): Promise<Outcome> {
  const command = new Deno.Command(program, { args: [...args], cwd, env: { NO_COLOR: "1" } });
  const { success, stdout, stderr } = await command.output();
  const decoder = new TextDecoder();
  return { success, out: `${decoder.decode(stderr)}\n${decoder.decode(stdout)}`.trim() };
}

const reasons = new Map<string, string | undefined>();
if (isWanted) {
  for (const [, distribution] of PIP) reasons.set(distribution, await missing(distribution));
}

/** A free port, which the server has to know to make its links whole. */
function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

interface Bench extends AsyncDisposable {
  readonly server: ServerProcess;
  readonly image: string;
}

/** A server that knows its own address, unless that is what a client must do without. */
async function open({ knowsItsAddress }: { knowsItsAddress: boolean }): Promise<Bench> {
  const folder = await Deno.makeTempDir();
  const port = String(freePort());
  const url = ["--public-url", `http://127.0.0.1:${port}`];
  const server = await startProcess(folder, ["--port", port, ...(knowsItsAddress ? url : [])]);
  const image = `${folder}/in.png`;
  await Deno.writeFile(image, await drawing());
  return {
    server,
    image,
    async [Symbol.asyncDispose]() {
      await server.end("SIGTERM");
      await Deno.remove(folder, { recursive: true });
    },
  };
}

/** A red square on white. */
async function drawing(): Promise<Uint8Array<ArrayBuffer>> {
  const side = 96;
  const data = new Uint8Array(3 * side * side).fill(255);
  for (let y = 24; y < 72; y++) {
    for (let x = 24; x < 72; x++) data.set([230, 30, 30], 3 * (y * side + x));
  }
  return (await encodeImage({ width: side, height: side, data }, { format: "png" })).bytes;
}

const title = (name: string, reason?: string) =>
  `${name} gets its images${isWanted ? reason ? `: ${reason}` : "" : " (deno task test:clients)"}`;

Deno.test({
  name: `the programs of tests/clients/npm have the types that their clients want${
    isWanted ? "" : " (deno task test:clients)"
  }`,
  ignore: !isWanted,
  fn: async () => {
    const programs = NPM.map(([program]) => `npm/${program}`);
    const { success, out } = await run(Deno.execPath(), ["check", "--quiet", ...programs]);
    assert.ok(success, out);
  },
});

for (const [program, name] of NPM) {
  Deno.test({
    name: title(name),
    ignore: !isWanted,
    fn: async () => {
      await using bench = await open({ knowsItsAddress: true });
      const args = ["run", "-A", "--quiet", `npm/${program}`, bench.server.url, bench.image];
      const { success, out } = await run(Deno.execPath(), args);
      assert.ok(success && out.endsWith("done"), `${out}\n${bench.server.log()}`);
    },
  });
}

for (const [program, distribution, name] of PIP) {
  const reason = reasons.get(distribution);
  Deno.test({
    name: title(name, reason),
    ignore: !isWanted || reason !== undefined,
    fn: async () => {
      await using bench = await open({ knowsItsAddress: true });
      const args = [`python/${program}`, bench.server.url, bench.image];
      const { success, out } = await run(PYTHON, args);
      assert.ok(success && out.endsWith("done"), `${out}\n${bench.server.log()}`);
    },
  });
}

Deno.test({
  name: title("Open WebUI"),
  ignore: !isWanted,
  fn: async () => {
    for (const knowsItsAddress of [true, false]) {
      await using bench = await open({ knowsItsAddress });
      const { url } = bench.server;
      for (const model of ["gpt-image-1", "dall-e-3", "bundled"]) {
        const webui = { url, model, size: "512x512" };
        const given = await Deno.readFile(bench.image);
        const images = [
          ...await generate(webui, "a red circle", 2),
          ...await edit(webui, "make the square blue", [given]),
        ];
        assert.equal(images.length, 3);
        for (const image of images) {
          const { width, height } = await decodeImage(image);
          assert.deepEqual([width, height], [512, 512]);
        }
        assert.notDeepEqual(images[0], images[1]);
      }
    }
  },
});
