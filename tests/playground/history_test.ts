/** Results among many: found by words, starred, deleted and brought back, each with its address. */

import assert from "node:assert/strict";
import { unzipSync } from "fflate";
import { FakeEngine } from "../fakes/engine.ts";
import { testService, until } from "../fakes/service.ts";
import { browserTest, listen, SUPPORT } from "./page.ts";

browserTest(
  "results are searched, starred, selected, deleted and brought back",
  async (browser) => {
    await using service = await testService({ engine: new FakeEngine({ info: SUPPORT }) });
    await using server = listen(service);
    for (const prompt of ["a red fox", "a red hen", "a blue hen"]) {
      const body = {
        prompt,
        size: "64x48",
        num_inference_steps: 1,
        n: prompt === "a red fox" ? 2 : 1,
      };
      await (await service.post("/v1/images/generations", body)).body?.cancel();
    }
    const stored = async () => (await (await service.get("/v1/jobs")).json()).data.length;
    const page = await browser.open(server.url);
    const tiles = page.locator(".tile");
    const count = (wanted: number) => until(async () => await tiles.count() === wanted);
    await count(4);
    const search = page.getByRole("searchbox", { name: "Search the results" });
    await search.fill("HEN red");
    await count(1);
    await search.fill("gradients hen");
    await count(2);
    await search.fill("");
    await tiles.getByRole("button", { name: "a blue hen" }).click();
    await page.getByRole("button", { name: "Star", exact: true }).click();
    await page.getByRole("button", { name: "Only starred" }).click();
    await count(1);
    await page.reload();
    await page.locator(".tile .starred").waitFor();
    await count(4);

    await page.getByRole("button", { name: "Select" }).click();
    await tiles.nth(1).getByRole("button").click();
    await tiles.nth(2).getByRole("button").click();
    await page.getByText("2 selected").waitFor();
    const saved = page.waitForEvent("download");
    await page.locator(".selected").getByRole("button", { name: "Download" }).click();
    const zip = unzipSync(await Deno.readFile(await (await saved).path()));
    assert.equal(Object.keys(zip).length, 2);
    // Both images of a request go together.
    await page.getByRole("button", { name: "Delete 3, with their batches" }).click();
    await count(1);
    assert.equal(await stored(), 3, "they can be brought back");
    await page.getByRole("button", { name: "Undo" }).click();
    await count(4);
    await tiles.getByRole("button", { name: "a red hen" }).click();
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await count(3);
    // A page that is closed deletes at once.
    await page.goto(`${server.url}docs`);
    await until(async () => await stored() === 2);
  },
);

browserTest("each result has an address, which the back button goes back to", async (browser) => {
  await using service = await testService({ engine: new FakeEngine({ info: SUPPORT }) });
  await using server = listen(service);
  const ids: string[] = [];
  for (let i = 0; i < 70; i++) {
    const body = { prompt: `number ${i}`, size: "64x48", num_inference_steps: 1 };
    await (await service.post("/v1/images/generations", body)).body?.cancel();
  }
  for (let after = ""; ids.length < 70;) {
    const { data } = await (await service.get(`/v1/jobs?limit=60${after}`)).json();
    ids.push(...data.map(({ id }: { id: string }) => id));
    after = `&after=${ids.at(-1)}`;
  }
  const page = await browser.open(`${server.url}#/r/${ids.at(-1)}`);
  const prompt = (number: number) =>
    page.locator(".result-bar .prompt").getByText(`number ${number}`, { exact: true }).waitFor();
  // Older than the list.
  await prompt(0);
  assert.equal(
    await page.locator(".tile").getByRole("button", { name: "number 0", exact: true }).count(),
    0,
  );
  await page.locator(".tile").getByRole("button", { name: "number 69" }).click();
  await prompt(69);
  assert.ok(page.url().endsWith(`#/r/${ids[0]}/1`), page.url());
  await page.locator(".finished img.result").click();
  await page.keyboard.press("ArrowRight");
  await page.getByRole("dialog", { name: "number 68" }).waitFor();
  await page.goBack();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await prompt(69);
  await page.goBack();
  await prompt(0);
  await page.goto(`${server.url}#/r/img_gone`);
  await page.getByText("The result of this address is not here any more.").waitFor();
});
