import assert from "node:assert/strict";
import { describeFileError, fileInfo, isAbsence } from "./mod.ts";

Deno.test("isAbsence() knows what is not there, below a file, and what Windows calls an invalid name", async () => {
  const file = new URL("mod.ts", import.meta.url);
  for (const path of [new URL("none.ts", file), new URL("mod.ts/none", file)]) {
    assert.ok(isAbsence(await fileInfo(path).catch((error) => error)), path.href);
  }
  const invalid = Object.assign(new Error("Invalid name. (os error 123)"), { code: "ENOENT" });
  assert.ok(isAbsence(invalid));
  assert.equal(describeFileError(invalid), "it does not exist");
  assert.ok(!isAbsence(new Deno.errors.PermissionDenied("no")));
  assert.ok(!isAbsence(undefined));
});
