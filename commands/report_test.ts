/** A whole report, which takes a minute: with `DENOISE_SLOW` only. */
import assert from "node:assert/strict";
import { fileURLToPath } from "node:url";
import { join } from "node:path";
import type { GpuReport } from "../report/types.ts";

const CLI = fileURLToPath(new URL("../cli.ts", import.meta.url));

Deno.test({
  name:
    "denoise report runs every section to its end, in a process each, and names nobody; with DENOISE_SLOW",
  ignore: !Deno.env.has("DENOISE_SLOW"),
  fn: async () => {
    const folder = await Deno.makeTempDir();
    try {
      const out = join(folder, "report");
      const deno = Deno.env.get("DENOISE_DENO") ?? Deno.execPath();
      const flags = ["report", "--out", out, "--minutes", "1.5", "--gpu-backend", "deno"];
      const { code, stdout, stderr } = await new Deno.Command(deno, {
        args: ["run", "-A", "--no-check", CLI, ...flags],
        cwd: folder,
      }).output();
      const decoder = new TextDecoder();
      assert.equal(code, 0, decoder.decode(stderr));
      const paths = [join(out, "report.md"), join(out, "report.json")];
      assert.equal(decoder.decode(stdout), paths.map((path) => `${path}\n`).join(""));
      const [markdown, json] = await Promise.all(paths.map((path) => Deno.readTextFile(path)));
      const report: GpuReport = JSON.parse(json!);
      const names = report.sections.map(({ name }) => name);
      assert.deepEqual(
        names,
        ["environment", "probes", "correctness", "tuning", "ops", "steps", "stages"],
      );
      for (const text of [markdown!, json!]) {
        for (const secret of [Deno.hostname(), folder, Deno.env.get("HOME")]) {
          if (secret && secret.length > 4) assert.ok(!text.includes(secret), secret);
        }
      }
      const seconds = report.sections.reduce((sum, section) => sum + section.seconds, 0);
      assert.ok(seconds < 150, `${seconds} s`);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});
