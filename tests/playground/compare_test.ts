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
