/** Results: looked at closely, compared, copied as code, found among many, starred, deleted and brought back. */

import { unzipSync } from "fflate";
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
  await page.locator(".tile [aria-current]").nth(3).waitFor();
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
    await search.fill(new Intl.DateTimeFormat("sv").format(new Date()));
    await count(4);
    await search.fill("november 1987");
    await count(0);
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
    // The other image of a request stays.
    await page.locator(".selected").getByRole("button", { name: "Delete" }).click();
    await page.getByText("2 results deleted.").waitFor();
    await count(2);
    assert.equal(await stored(), 3, "they can be brought back");
    await page.getByRole("button", { name: "Undo" }).click();
    await count(4);
    const fox = tiles.getByRole("button", { name: "a red fox" });
    await fox.first().click();
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await count(3);
    await until(() => page.evaluate("document.activeElement.textContent === 'Undo'"));
    await page.keyboard.press("Control+z");
    await count(4);
    await until(() => page.evaluate("document.activeElement.matches('.stage')"));
    await fox.last().click();
    const shown = await page.locator(".finished img.result").getAttribute("src");
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await count(3);
    await page.locator(".finished img.result").waitFor();
    assert.notEqual(await page.locator(".finished img.result").getAttribute("src"), shown);
    await page.keyboard.press("Enter");
    await count(4);
    // What comes back is shown again, and not all of its request.
    assert.equal(await page.locator(".finished img.result").getAttribute("src"), shown);
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await count(3);
    // Deletions one soon after the other are taken back together.
    await tiles.getByRole("button", { name: "a red hen" }).click();
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await count(2);
    await until(() => page.evaluate("document.activeElement.textContent === 'Undo'"));
    await page.keyboard.press("Enter");
    await count(4);
    assert.equal(await stored(), 3);
    await fox.last().click();
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await count(3);
    await tiles.getByRole("button", { name: "a red hen" }).click();
    await page.getByRole("button", { name: "Delete", exact: true }).click();
    await count(2);
    // A page that is closed deletes at once.
    await page.goto(`${server.url}docs`);
    await until(async () => await stored() === 2);
    const { data } = await (await service.get("/v1/jobs")).json();
    const left = data.flatMap(({ outputs }: { outputs: { index: number }[] }) =>
      outputs.map(({ index }) => index)
    );
    assert.deepEqual(left, [0, 0], "the second image of the request is deleted");
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
  await page.getByRole("dialog", { name: "number 69" }).waitFor();
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

browserTest(
  "a model's sound plays when it is switched on, and is switched off before it is made",
  async (browser) => {
    const engine = new FakeEngine({ info: { ...SUPPORT, givesAudio: true } });
    await using service = await testService({ engine });
    await using server = listen(service);
    const page = await browser.open(server.url, { draft: { output: "video", size: "64x48" } });
    const playing = (what: string) =>
      page.evaluate<boolean>(`document.querySelector(".player video")?.${what}`);
    await draw(page, "a bell");
    await page.locator(".player video").waitFor({ timeout: 60_000 });
    await until(() => playing("webkitVideoDecodedByteCount > 0"));
    assert.equal(await playing("muted"), true);
    const mute = page.locator(".player-bar").getByRole("button", { name: "Sound" });
    assert.equal(await mute.getAttribute("aria-pressed"), "false");
    await mute.click();
    assert.equal(await playing("muted"), false);
    assert.equal(await mute.getAttribute("aria-pressed"), "true");
    await until(() => playing("webkitAudioDecodedByteCount > 1000"));
    await page.locator(".settings").getByRole("switch", { name: "Sound" }).click();
    await draw(page, "no bell");
    await until(() => Promise.resolve(engine.requests.length === 2));
    assert.deepEqual(engine.requests.map(({ enableAudio }) => enableAudio), [undefined, false]);
    await page.locator(".tile.completed").nth(1).waitFor();
    await until(() => playing("webkitVideoDecodedByteCount > 0"));
    await mute.waitFor({ state: "detached" });
    const alone = { prompt: "alone", size: "64x48", num_frames: 9, output_format: "wav" };
    await service.post("/v1/videos", alone);
    await page.reload();
    await page.locator(".tile.completed").nth(2).waitFor();
    await page.locator(".tile button").first().click();
    await page.locator(".finished audio").waitFor();
    await until(() => page.evaluate("document.querySelector('audio').duration > 0.1"));
  },
);
