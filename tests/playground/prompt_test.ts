/** Writing prompts: words that are chosen, and prompts from before. */

import assert from "node:assert/strict";
import type { Page } from "playwright-core";
import { FakeEngine } from "../fakes/engine.ts";
import { testService } from "../fakes/service.ts";
import { browserTest, draw, listen, SUPPORT } from "./page.ts";

/** What code makes of the page's own function. */
async function withChooseWords<T>(page: Page, code: string): Promise<T> {
  return await page.evaluate(`
    import(document.querySelector("script[type=module]").src.replace("main.ts", "wildcards.ts"))
      .then(({ chooseWords }) => { ${code} })
  `);
}

browserTest("words are chosen by the seed, and arrows bring prompts back", async (browser) => {
  const engine = new FakeEngine({ info: SUPPORT });
  await using service = await testService({ engine });
  await using server = listen(service);
  const page = await browser.open(server.url, { draft: { size: "64x48" } });
  const seed = page.getByRole("spinbutton", { name: "Seed" });
  await page.getByRole("spinbutton", { name: "Images" }).fill("2");
  await seed.fill("5");
  await draw(page, "a {red|green|blue} {fox|hen}");
  await page.locator(".tile.completed").nth(1).waitFor();
  const drawn = engine.requests.map(({ prompt, seed }) => [prompt, seed]);
  const words = (seed: number, prompt = "a {red|green|blue} {fox|hen}") =>
    withChooseWords<string>(page, `return chooseWords(${JSON.stringify(prompt)}, ${seed})`);
  const chosen = [await words(5), await words(6)];
  assert.match(String(chosen), /^a (red|green|blue) (fox|hen),a (red|green|blue) (fox|hen)$/);
  assert.deepEqual(drawn, [[chosen[0], 5], [chosen[1], 6]]);
  assert.equal(await words(1, "a {fox} in {} {"), "a {fox} in {} {");
  // Each word comes about as often.
  const counts = await withChooseWords<number[]>(
    page,
    `
    const counts = { "a x": 0, "b x": 0, "c x": 0, "d x": 0 };
    for (let seed = 0; seed < 3000; seed++) counts[chooseWords("{a|b|{c|d}} x", seed)]++;
    return Object.values(counts);
  `,
  );
  for (const [index, expected] of [1000, 1000, 500, 500].entries()) {
    assert.ok(Math.abs(counts[index]! - expected) < 120, `${counts}`);
  }
  const { data: [job] } = await (await service.get("/v1/jobs")).json();
  const { request: { prompt } } = await (await service.get(`/v1/jobs/${job.id}`)).json();
  assert.equal(prompt, chosen[1], "the recipe says what was drawn");

  await draw(page, "plain");
  await page.locator(".tile.completed").nth(3).waitFor();
  const field = page.locator("#prompt");
  const press = async (key: string) => {
    await page.keyboard.press(key);
    return await field.inputValue();
  };
  await field.focus();
  assert.equal(await press("ArrowUp"), "a {red|green|blue} {fox|hen}");
  assert.equal(await press("ArrowDown"), "plain");
  assert.equal(await press("ArrowDown"), "");
  await page.keyboard.type("half");
  assert.equal(await press("ArrowUp"), "half", "what is being written stays");
  await page.reload();
  await page.fill("#prompt", "");
  assert.equal(await press("ArrowUp"), "plain");
});
