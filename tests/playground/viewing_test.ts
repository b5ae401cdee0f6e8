/** Looking at results: large, in full size, one after the other. */

import assert from "node:assert/strict";
import { FakeEngine } from "../fakes/engine.ts";
import { testService, until } from "../fakes/service.ts";
import { browserTest, draw, listen, SUPPORT } from "./page.ts";

browserTest("a result is enlarged, zoomed, moved and left by pointer and keys", async (browser) => {
  await using service = await testService({ engine: new FakeEngine({ info: SUPPORT }) });
  await using server = listen(service);
  const page = await browser.open(server.url, { draft: { size: "64x48" } });
  await draw(page, "first");
  await page.locator(".tile.completed").waitFor();
  await page.fill("#prompt", "second");
  await page.getByRole("spinbutton", { name: "Images" }).fill("4");
  await page.keyboard.press("Control+Enter");
  // Several results are shown together, and one is chosen.
  await page.locator(".batch img").nth(3).waitFor();
  assert.equal(await page.locator(".tile [aria-current]").count(), 4);
  await page.getByRole("button", { name: "Result 4", exact: true }).click();
  await page.getByRole("button", { name: "All 4", exact: true }).waitFor();
  await page.locator(".finished img.result").click();
  const viewer = page.getByRole("dialog", { name: "second" });
  const size = page.locator(".viewer-size");
  await size.getByText(/^64 × 48 · [\d,]{5}%$/).waitFor();
  const image = viewer.getByRole("img");
  const place = async () => (await image.boundingBox())!;
  const fitted = await place();
  await image.click();
  await size.getByText("64 × 48 · 100%").waitFor();
  await page.keyboard.press("0");
  await page.mouse.move(400, 300);
  await page.mouse.wheel(0, -200);
  await until(() =>
    page.evaluate("/scale\\(1\\.6/.test(document.querySelector('.viewer img').style.transform)")
  );
  const before = await place();
  assert.ok(before.width > 1.5 * fitted.width);
  // The place under the pointer stays there.
  const share = (box: typeof before) => (400 - box.x) / box.width;
  assert.ok(Math.abs(share(before) - share(fitted)) < 0.01);
  await page.mouse.down();
  await page.mouse.move(450, 320, { steps: 3 });
  await page.mouse.up();
  await until(() =>
    page.evaluate(
      `document.querySelector(".viewer img").getBoundingClientRect().x > ${before.x + 49}`,
    )
  );
  await page.keyboard.press("ArrowRight");
  await page.getByRole("dialog", { name: "first" }).waitFor();
  await page.keyboard.press("ArrowLeft");
  await viewer.waitFor();
  await page.keyboard.press("0");
  await page.mouse.move(500, 300);
  await page.mouse.down();
  await page.mouse.move(300, 310, { steps: 3 });
  await page.mouse.up();
  await page.getByRole("dialog", { name: "first" }).waitFor();
  await page.keyboard.press("ArrowLeft");
  await viewer.waitFor();
  await page.keyboard.press("f");
  await until(() => page.evaluate("document.fullscreenElement"));
  await page.keyboard.press("f");
  await until(() => page.evaluate("!document.fullscreenElement"));
  await page.keyboard.press("Escape");
  await viewer.waitFor({ state: "detached" });
  assert.equal(await page.locator(".tile [aria-current]").count(), 1);
});
