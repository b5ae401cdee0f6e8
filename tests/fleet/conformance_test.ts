/** The conformance tests of jobs again, on servers of fleets (with `DENOISE_SLOW`). */

import { strict as assert } from "node:assert";
import { fileURLToPath } from "node:url";
import { Cluster, noPostgres } from "./postgres.ts";

/** Files of tests/conformance/ whose every word holds for a fleet. */
const FILES = [
  "jobs_test.ts",
  "cloud_test.ts",
  "content_test.ts",
  "edits_test.ts",
  "images_test.ts",
  "image_fields_test.ts",
  "image_refusals_test.ts",
  "loras_test.ts",
  "request_loras_test.ts",
  "repeated_requests_test.ts",
  "stream_test.ts",
  "sdapi_test.ts",
];

const isSlow = Deno.env.has("DENOISE_SLOW");

Deno.test({
  name: `a server of a fleet conforms as any other${
    noPostgres ? `: ${noPostgres}` : "; with DENOISE_SLOW"
  }`,
  ignore: noPostgres !== undefined || !isSlow,
  fn: async () => {
    await using cluster = await Cluster.start();
    const folder = fileURLToPath(new URL("../conformance/", import.meta.url));
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["test", "-A", "--no-check", ...FILES.map((file) => folder + file)],
      env: { DENOISE_TEST_DATABASE: cluster.url("postgres"), NO_COLOR: "1" },
    }).output();
    const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
    assert.equal(code, 0, text(stdout) + text(stderr));
  },
});
