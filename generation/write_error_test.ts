import { strict as assert } from "node:assert";
import { isWriteError } from "./write_error.ts";

Deno.test("isWriteError() tells what the file system refused from refusals with codes of their own", () => {
  const refused = (code: string) => Object.assign(new Error("no"), { code });
  for (const code of ["ENOSPC", "EACCES", "ERR_SQLITE_ERROR"]) {
    assert.ok(isWriteError(refused(code)));
  }
  assert.ok(isWriteError(new Error("av_write_trailer: No space left on device")));
  for (const code of ["invalid_value", "device_lost"]) {
    assert.ok(!isWriteError(refused(code)), code);
  }
});
