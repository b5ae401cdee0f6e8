import assert from "node:assert/strict";
import { expectStatus, namespaceObstacle, runChecks } from "./system.ts";

function checks() {
  const calls: string[] = [];
  const step = (name: string, status: number) =>
    expectStatus(name, 0, () => {
      calls.push(name);
      return Promise.resolve(status);
    });
  const call = (what: string) => (...args: string[]) => {
    calls.push([what, ...args].join(" "));
    return Promise.resolve(7);
  };
  const groups = { image: [step("image", 0)], page: [step("page", 3), step("more", 0)] };
  return { calls, all: { groups, run: call("run"), tests: call("tests") } };
}

Deno.test("runChecks() runs all, those that are named, a command, or tests under paths", async () => {
  const cases = [
    [[], ["image", "page", "more"], 1],
    [["image"], ["image"], 0],
    [["page", "image"], ["page", "more", "image"], 1],
    [["run", "list", "--all"], ["run list --all"], 7],
    [["commands", "hub"], ["tests commands hub"], 7],
  ] as const;
  for (const [args, expected, status] of cases) {
    const { calls, all } = checks();
    assert.equal(await runChecks(all, args), status, args.join());
    assert.deepEqual(calls, expected);
  }
});

Deno.test("namespaceObstacle() says why nothing can be emulated here", () => {
  assert.match(namespaceObstacle("exit 1", "what is asked") ?? "", /Debian|unshare|what is asked/);
});
