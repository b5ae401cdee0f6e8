/**
 * The official Python client against a real server (`deno task test:python-client`). It is no dependency of ours:
 * `pip install openai==3.54.0`, into the environment of the Python that `PYTHON` names, `python3` when unset.
 */

import { strict as assert } from "node:assert";
import { fileURLToPath } from "node:url";
import { encodeImage } from "../../media/encode.ts";
import { startServer } from "../../server/serve.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { missing, PYTHON } from "./python.ts";

/** The version that this was written for. */
const VERSION = "3.54.0";

const reason = await missing("openai", VERSION);

Deno.test({
  name: `the official Python client ${VERSION} uses every call${reason ? `: ${reason}` : ""}`,
  ignore: reason !== undefined,
  fn: async () => {
    const folder = await Deno.makeTempDir();
    const info = { supportedTaskTypes: ["T2V", "T2I", "I2I", "I2V"], maxImages: 2 } as const;
    const server = await startServer({
      openEngine: () => Promise.resolve(new FakeEngine({ info })),
      port: 0,
      outputPath: folder,
      settings: { servedModelName: "org/gradients", apiKeys: ["sk-test"] },
    });
    try {
      await server.ready;
      const data = new Uint8Array(64 * 48 * 3).fill(128);
      const { bytes } = await encodeImage({ width: 64, height: 48, data }, { format: "png" });
      await Deno.writeFile(`${folder}/in.png`, bytes);
      const script = fileURLToPath(new URL("client.py", import.meta.url));
      const { success, stdout, stderr } = await new Deno.Command(PYTHON, {
        args: [script, server.url, `${folder}/in.png`],
      }).output();
      const decoder = new TextDecoder();
      assert.ok(success, decoder.decode(stderr));
      assert.equal(decoder.decode(stdout).trim(), "done");
    } finally {
      await server.close();
      await Deno.remove(folder, { recursive: true });
    }
  },
});
