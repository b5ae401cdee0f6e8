import assert from "node:assert/strict";
import { EMULATOR } from "../../tests/support/emulated.ts";
import { harmlessEnvironment, limited } from "./program.ts";

async function run([program, ...args]: string[]) {
  const { success, stdout } = await new Deno.Command(program!, { args, stderr: "null" }).output();
  return { success, text: new TextDecoder().decode(stdout) };
}

Deno.test({
  name: "limited() ends a process that takes more memory than it may",
  // Elsewhere the system has no such limit, and qemu keeps none.
  ignore: Deno.build.os !== "linux" || EMULATOR === "qemu",
  fn: async () => {
    const program = "new Uint8Array(1e9).fill(1); console.log('done')";
    const command = [Deno.execPath(), "eval", program];
    const limits = { cpuSeconds: Infinity };
    const [free, tight] = await Promise.all([
      run(limited(command, { ...limits, memoryBytes: 4e9 })),
      run(limited(command, { ...limits, memoryBytes: 1.2e9 })),
    ]);
    assert.deepEqual(free, { success: true, text: "done\n" });
    assert.deepEqual(tight, { success: false, text: "" });
  },
});

Deno.test({
  name: "limited() passes arguments on as they are, and limits time",
  ignore: Deno.build.os === "windows",
  fn: async () => {
    const args = ["a b", "$(date)", `"'`, ""];
    const limits = { memoryBytes: 1e9, cpuSeconds: 7 };
    const script = 'ulimit -t; for a in "$@"; do echo "$a"; done';
    const { text } = await run(limited(["/bin/sh", "-c", script, "sh", ...args], limits));
    assert.deepEqual(text.trimEnd().split("\n"), ["7", ...args.slice(0, 3)]);
  },
});

Deno.test("harmlessEnvironment() leaves out what looks like a secret", () => {
  const secrets = ["HF_TOKEN", "DENOISE_API_KEY", "AWS_SECRET_ACCESS_KEY", "PGPASSWORD"];
  const before = secrets.map((name) => Deno.env.get(name));
  try {
    for (const name of secrets) Deno.env.set(name, "x");
    const environment = harmlessEnvironment();
    for (const name of secrets) assert.ok(!(name in environment), name);
    assert.equal(environment["PATH"], Deno.env.get("PATH"));
  } finally {
    secrets.forEach((name, i) =>
      before[i] === undefined ? Deno.env.delete(name) : Deno.env.set(name, before[i]!)
    );
  }
});
