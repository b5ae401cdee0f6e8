/** Writing prompts and choosing settings: words that are chosen, prompts from before, the language, the seed and the size. */

import assert from "node:assert/strict";
import { chooseWords } from "../../generation/wildcards.ts";
import type { GenerateRequest } from "../../engine/types.ts";
import { encodeImage } from "../../media/encode.ts";
import { encodeWav } from "../../media/waveform.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { testService, until } from "../fakes/service.ts";
import { browserTest, draw, drop, listen, seriousIn, SUPPORT } from "./page.ts";

const square = { width: 64, height: 48, data: new Uint8Array(64 * 48 * 3).fill(90) };

browserTest("words are chosen by the seed, and arrows bring prompts back", async (browser) => {
  const engine = new FakeEngine({ info: SUPPORT });
  await using service = await testService({ engine });
  await using server = listen(service);
  const page = await browser.open(server.url, { draft: { size: "64x48" } });
  const seed = page.getByRole("spinbutton", { name: "Seed" });
  await seed.waitFor();
  const openAll =
    "document.querySelectorAll('.settings details').forEach((each) => each.open = true)";
  await page.evaluate(openAll);
  const isWhole = "document.documentElement.scrollHeight <= innerHeight";
  assert.ok(await page.evaluate(isWhole), "the settings scroll, and not the page beside them");
  await page.getByRole("spinbutton", { name: "Images" }).fill("2");
  await seed.fill("5");
  await draw(page, "a {red|green|blue} {fox|hen}");
  await page.locator(".tile.completed").nth(1).waitFor();
  const drawn = engine.requests.map(({ prompt, seed }) => [prompt, seed]);
  const chosen = [5, 6].map((seed) => chooseWords("a {red|green|blue} {fox|hen}", seed));
  assert.deepEqual(drawn, [[chosen[0], 5], [chosen[1], 6]]);
  await page.locator(".result-bar .prompt").getByText("a {red|green|blue} {fox|hen}").waitFor();
  await page.locator(".tile").last().getByRole("button").click();
  await page.locator(".result-bar .prompt").getByText(chosen[1]!, { exact: true }).waitFor();
  // A result is varied and used again with its own words.
  await page.getByRole("button", { name: "Reuse" }).click();
  await until(() => page.evaluate(`document.querySelector("#prompt").value === "${chosen[1]}"`));
  await page.getByRole("spinbutton", { name: "Images" }).fill("2");

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

browserTest(
  "the page speaks the browser's language, and the one that is chosen",
  async (browser) => {
    await using service = await testService({ engine: new FakeEngine({ info: SUPPORT }) });
    await using server = listen(service);
    const page = await browser.open(server.url, { locale: "de-AT", draft: { size: "64x48" } });
    await page.getByLabel("Negative Prompt", { exact: true }).waitFor();
    await draw(page, "ein Hügel");
    await page.getByRole("button", { name: "Löschen" }).waitFor();
    assert.equal(await page.evaluate("document.documentElement.lang"), "de");
    await page.getByLabel("Sprache").selectOption("日本語");
    await page.getByLabel("ネガティブプロンプト", { exact: true }).waitFor();
    await page.reload();
    await page.getByRole("button", { name: "削除" }).waitFor();
    await page.getByLabel("言語").selectOption("简体中文");
    await page.getByLabel("反向提示词", { exact: true }).waitFor();
    await page.locator(".recipe summary").getByText("步").waitFor();
    // A server that was replaced has other files.
    const gone = (name: string) =>
      page.route(`**/${name}.ts`, (route) => route.fulfill({ status: 404 }));
    await gone("sheet");
    await page.getByRole("button", { name: "X/Y 图表" }).click();
    await page.getByText("无法加载页面的一部分").waitFor();
    await gone("chinese");
    await page.reload();
    await page.getByLabel("Negative prompt", { exact: true }).waitFor();
  },
);

browserTest(
  "a seed is used once after Reuse, and again and again when it is locked",
  async (browser) => {
    const engine = new FakeEngine({ info: SUPPORT });
    await using service = await testService({ engine });
    await using server = listen(service);
    const page = await browser.open(server.url, { draft: { size: "64x48" } });
    const tiles = page.locator(".tile.completed");
    const drawn = async (count: number) => {
      await draw(page, "a hill");
      await tiles.nth(count - 1).waitFor();
      await page.locator(".finished img.result").waitFor();
    };
    const seed = page.getByRole("spinbutton", { name: "Seed" });
    const lock = page.getByRole("button", { name: "Lock the seed" });
    await drawn(1);
    const { data: [job] } = await (await service.get("/v1/jobs")).json();
    const [first] = job.outputs;
    await until(() =>
      page.evaluate(`document.querySelector("input.seed").value === "${first.seed}"`)
    );
    await page.getByText("Each result has a new seed.").waitFor();
    await page.getByRole("button", { name: "Reuse" }).click();
    await page.getByText("The next result has this seed.").waitFor();
    await drawn(2);
    await page.getByText("Each result has a new seed.").waitFor();
    await drawn(3);
    await lock.click();
    const locked = Number(await seed.inputValue());
    await drawn(4);
    await seed.fill("7");
    await drawn(5);
    await lock.click();
    await drawn(6);
    const seeds = engine.requests.map(({ seed }) => seed);
    assert.deepEqual(seeds.slice(0, 5), [first.seed, first.seed, locked, locked, 7]);
    assert.equal(new Set(seeds).size, 4);
  },
);

browserTest(
  "sizes have their ratios, are swapped, and become the nearest that the model makes",
  async (browser) => {
    const { optionalSettings } = SUPPORT;
    const info = { ...SUPPORT, optionalSettings: [...optionalSettings, "riflex"] as const };
    await using service = await testService({ engine: new FakeEngine({ info }) });
    await using server = listen(service);
    const page = await browser.open(server.url, { draft: {} });
    await page.getByRole("radio", { name: "3:4 48 × 64" }).press("Space");
    const sides = [
      page.getByRole("spinbutton", { name: "Width" }),
      page.getByRole("spinbutton", { name: "Height" }),
    ] as const;
    const size = async () => (await Promise.all(sides.map((side) => side.inputValue()))).join("x");
    const leave = async (index: 0 | 1, value: string) => {
      await sides[index].fill(value);
      await sides[index].blur();
      return await size();
    };
    await page.getByRole("button", { name: "Swap width and height" }).click();
    assert.equal(await size(), "64x48");
    assert.equal(await leave(0, "50"), "48x48");
    await page.getByText("Sides are multiples of 16. The nearest is 48 × 48.").waitFor();
    assert.equal(await leave(1, "9000"), "48x1360");
    assert.equal(await leave(0, "0"), "48x1360");
    assert.equal(await leave(1, "1"), "48x16");

    // Guidance has its usual name, and what it does is read by a press.
    await page.getByRole("spinbutton", { name: "Guidance (CFG)" }).waitFor();
    await page.getByRole("button", { name: "About Steps" }).click();
    await page.locator(".settings p.hint").getByText("20 to 30 suit most models").waitFor();
    await page.getByText("More", { exact: true }).click();
    assert.equal(await page.getByRole("spinbutton", { name: "Shift" }).count(), 0);
    await page.getByRole("switch", { name: "Expert settings" }).click();
    await page.getByRole("spinbutton", { name: "Shift" }).waitFor();
    assert.equal(await page.getByRole("switch", { name: "RIFLEx" }).count(), 0);
    await page.getByText("Video", { exact: true }).click();
    await page.getByRole("switch", { name: "RIFLEx" }).waitFor();
  },
);

browserTest("images get frames and strengths, and the video a sound", async (browser) => {
  const engine = new FakeEngine({
    info: {
      ...{ defaultTask: "T2V", supportedTasks: ["T2V", "I2V", "F2V", "V2V"], maxImages: 8 },
      ...{ givesAudio: true, takesAudio: { sampleRate: 8000, channels: 2 } },
      optionalSettings: ["imageFrames", "imageStrengths"],
    },
  });
  await using service = await testService({ engine });
  await using server = listen(service);
  const page = await browser.open(server.url, { draft: { size: "64x48", output: "video" } });
  await page.getByTitle("Add a sound that the video follows").waitFor();
  const { bytes: image } = await encodeImage(square, { format: "png" });
  const bytes = encodeWav({ sampleRate: 16_000, channels: [new Float32Array(4000).fill(0.1)] });
  await drop(
    page,
    ...["a.png", "b.png", "c.png"].map((name) => ({ name, type: "image/png", bytes: image })),
    { name: "tone.wav", type: "audio/wav", bytes },
  );
  await page.locator(".heard audio").waitFor();
  const frames = page.getByRole("spinbutton", { name: "Frame", exact: true });
  await frames.nth(1).fill("2");
  await page.getByRole("spinbutton", { name: "Weight" }).nth(2).fill("0.5");
  const captions = "[...document.querySelectorAll('.inputs figcaption')].map((x) => x.textContent)";
  assert.deepEqual((await page.evaluate(captions) as string[]).slice(0, 2), [
    "First frame",
    "Frame 2",
  ]);
  assert.deepEqual(await seriousIn(page), []);
  await draw(page, "a fox");
  await page.locator(".tile.completed").waitFor();
  const [{ imageFrames, imageStrengths, audio, images }] = engine.requests as [GenerateRequest];
  assert.equal(images?.length, 3);
  assert.deepEqual([imageFrames!.slice(0, 2), imageStrengths], [[0, 2], [1, 1, 0.5]]);
  assert.deepEqual([audio?.sampleRate, audio?.channels.length], [8000, 2]);
  await page.getByRole("button", { name: "Remove tone.wav" }).click();
  await until(async () => await page.locator(".heard").count() === 0);
});
