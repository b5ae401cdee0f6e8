/** The page with the bundled model: images, edits, clips. */

import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { decodeImage } from "../../media/decode.ts";
import { startProcess } from "../e2e/server_process.ts";
import { until } from "../fakes/service.ts";
import { CHROMIUM, openBrowser } from "./browser.ts";

const TITLE = "the page draws, edits and animates with the bundled model";

/** The image in the middle, once it is there. */
async function result(page: Page): Promise<{ width: number; height: number; data: Uint8Array }> {
  const src = await page.locator(".finished img.result").getAttribute("src", { timeout: 60_000 });
  const response = await page.request.get(new URL(src!, page.url()).href);
  return await decodeImage(new Uint8Array(await response.body()));
}

/** Notes what the page shows for moments only, which Playwright, that looks twice a second, may miss. */
async function watchDrawing(page: Page): Promise<void> {
  await page.evaluate(`
    const look = () => {
      const { dataset, innerText } = document.body;
      if (document.querySelector(".working img.preview")) dataset.preview = "shown";
      if (/^Step \\d+ of 24/m.test(innerText)) dataset.step = "shown";
    };
    const all = { childList: true, characterData: true, subtree: true };
    new MutationObserver(look).observe(document.body, all);
  `);
}

/** Which of them it has shown. */
async function shown(page: Page): Promise<unknown> {
  return await page.evaluate("({ ...document.body.dataset })");
}

Deno.test({
  name: CHROMIUM ? TITLE : `${TITLE} (skipped: there is no Chromium)`,
  ignore: !CHROMIUM,
  fn: async (t) => {
    const folder = await Deno.makeTempDir();
    try {
      await using server = await startProcess(folder);
      await using browser = await openBrowser();
      const draft = { size: "64x64", settings: { num_inference_steps: 24 } };
      const page = await browser.open(server.url, { draft });

      await t.step("Ctrl-Enter draws, with steps and previews", async () => {
        await page.fill("#prompt", "a yellow star on a blue background");
        await watchDrawing(page);
        await page.keyboard.press("Control+Enter");
        const { width, height } = await result(page);
        assert.deepEqual([width, height], [64, 64]);
        assert.equal(await page.locator(".tile").count(), 1);
        assert.deepEqual(await shown(page), { preview: "shown", step: "shown" });
      });

      await t.step("Reuse makes the same image again", async () => {
        const first = await result(page);
        await page.getByRole("button", { name: "Reuse" }).click();
        const seed = await page.getByRole("spinbutton", { name: "Seed" }).inputValue();
        assert.match(await page.locator(".recipe summary").innerText(), new RegExp(`seed ${seed}`));
        await page.getByRole("button", { name: /^Generate/ }).click();
        await page.locator(".tile.completed").nth(1).waitFor({ timeout: 60_000 });
        assert.deepEqual((await result(page)).data, first.data);
      });

      await t.step(
        "an edit with a mask changes what was painted over, and nothing else",
        async () => {
          const first = await result(page);
          await page.getByRole("button", { name: "Edit", exact: true }).click();
          await page.getByRole("button", { name: "Paint a mask" }).click();
          const box = (await page.locator("canvas.mask").boundingBox())!;
          const at = (x: number, y: number) =>
            [box.x + x * box.width, box.y + y * box.height] as const;
          for (const y of [0.7, 0.78, 0.86]) {
            await page.mouse.move(...at(0.65, y));
            await page.mouse.down();
            await page.mouse.move(...at(0.9, y), { steps: 4 });
            await page.mouse.up();
          }
          await page.keyboard.press("Tab");
          await page.getByRole("button", { name: "Undo" }).click();
          await page.getByRole("button", { name: "Done" }).click();
          await page.fill("#prompt", "make the background green");
          await page.keyboard.press("Control+Enter");
          await page.locator(".tile.completed").nth(2).waitFor({ timeout: 60_000 });
          const edited = await result(page);
          const changed = (x: number, y: number) => {
            const i = 3 * (y * 64 + x);
            return first.data.subarray(i, i + 3).some((value, c) => value !== edited.data[i + c]);
          };
          const places = [...first.data.keys()].filter((i) => i % 3 === 0).map((i) => i / 3);
          const touched = places.filter((i) => changed(i % 64, Math.floor(i / 64)));
          assert.ok(touched.length > 50, `${touched.length} pixels changed`);
          const outside = touched.filter((i) => i % 64 < 32 || i / 64 < 32);
          assert.equal(outside.length, 0, "pixels outside of the mask changed");
        },
      );

      await t.step("Animate makes a clip that plays and goes by frames", async () => {
        await page.locator(".tile button").last().click();
        await page.getByRole("button", { name: "Animate" }).click();
        await page.locator(".inputs figcaption").getByText("First frame").waitFor();
        await page.fill("#prompt", "the star grows");
        await page.getByRole("spinbutton", { name: /^Frames, / }).fill("5");
        await page.keyboard.press("Control+Enter");
        const clip = page.locator(".player video");
        await clip.waitFor({ timeout: 90_000 });
        await until(() => page.evaluate("document.querySelector('video').currentTime > 0.1"));
        await page.getByRole("button", { name: "Frame after" }).click();
        assert.equal(await page.evaluate("document.querySelector('video').paused"), true);
        const number = await page.locator(".frame-number").innerText();
        assert.match(number, /^\d \/ 5$/);
      });

      assert.deepEqual(browser.complaints, []);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
});
