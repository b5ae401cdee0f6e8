/** Comparing two results, and an edit with what it began with. */

import assert from "node:assert/strict";
import { FakeEngine } from "../fakes/engine.ts";
import { testService } from "../fakes/service.ts";
import { browserTest, draw, listen, SUPPORT } from "./page.ts";

browserTest(
  "two results are compared with their settings, and an edit with its image",
  async (browser) => {
    await using service = await testService({ engine: new FakeEngine({ info: SUPPORT }) });
    await using server = listen(service);
    const page = await browser.open(server.url, { draft: { size: "64x48" } });
    const seed = page.getByRole("spinbutton", { name: "Seed" });
    const tiles = page.locator(".tile.completed");
    for (const [count, value] of ["7", "8"].entries()) {
      await seed.fill(value);
      await draw(page, "a hill");
      await tiles.nth(count).waitFor();
    }
    await page.getByRole("button", { name: "Select" }).click();
    const compare = page.getByRole("button", { name: "Compare" });
    await tiles.nth(0).getByRole("button").click();
    assert.equal(await compare.isDisabled(), true);
    await tiles.nth(1).getByRole("button").click();
    await compare.click();
    const dialog = page.getByRole("dialog", { name: "Compare" });
    await dialog.getByRole("row").waitFor();
    assert.deepEqual(await dialog.getByRole("row").allInnerTexts(), ["7\tSeed\t8"]);
    const line = dialog.getByRole("slider");
    await line.focus();
    await page.keyboard.press("Home");
    assert.match((await dialog.getByRole("img", { name: "First" }).getAttribute("style"))!, /100%/);
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Select" }).click();

    await page.getByRole("button", { name: "Edit", exact: true }).click();
    await page.locator(".inputs img").waitFor();
    await draw(page, "a valley");
    await tiles.nth(2).waitFor();
    await page.getByRole("button", { name: "Before", exact: true }).click();
    await dialog.getByRole("img", { name: "Before" }).waitFor();
    await dialog.getByRole("img", { name: "After" }).waitFor();
    await dialog.getByRole("button", { name: "Close" }).click();
  },
);

browserTest("a result is copied as code that makes it again", async (browser) => {
  await using service = await testService({ engine: new FakeEngine({ info: SUPPORT }) });
  await using server = listen(service);
  const page = await browser.open(server.url, { draft: { size: "64x48" } });
  await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
  await draw(page, 'it\'s a "hill"');
  await page.locator(".tile.completed").waitFor();
  await page.locator(".recipe summary").click();
  const copied = async (name: string) => {
    await page.getByRole("button", { name, exact: true }).click();
    await page.getByText(`${name} copied.`).waitFor();
    return await page.evaluate("navigator.clipboard.readText()") as string;
  };
  assert.equal(await copied("Prompt"), 'it\'s a "hill"');
  const [first] = service.engine.requests;
  const run = async (code: string, program: string, ...flags: string[]) => {
    const cwd = await Deno.makeTempDir();
    const { success, stderr } = await new Deno.Command(program, { args: [...flags, code], cwd })
      .output();
    assert.ok(success, new TextDecoder().decode(stderr));
    await Deno.remove(cwd, { recursive: true });
    const last = service.engine.requests.at(-1)!;
    assert.deepEqual([last.prompt, last.seed, last.width], [
      first!.prompt,
      first!.seed,
      first!.width,
    ]);
  };
  await run(`${await copied("curl")} -sf`, "sh", "-c");
  await run(await copied("Python"), "python3", "-c");
  assert.equal(service.engine.requests.length, 3);
  const client = import.meta.resolve("../../client/mod.ts");
  const deno = (await copied("Deno")).replace("denoise/client", client);
  await run(deno, Deno.execPath(), "eval", "--ext=ts");
  const command = await copied("Command line");
  assert.match(command, /^\.\/denoise generate 'it'\\''s a "hill"' /);
  const flags = await Deno.readTextFile(new URL("../../docs/cli.md", import.meta.url));
  for (const [flag] of command.matchAll(/--[\w-]+/g)) assert.ok(flags.includes(`${flag} `), flag);
});
