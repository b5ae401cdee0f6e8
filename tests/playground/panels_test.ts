/** Panels beside the prompt: presets, LoRAs that are dropped, the frame of an image, and sheets. */

import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import type { Page } from "playwright-core";
import type { ModelParts } from "../../engine/options.ts";
import { partNamed } from "../../hub/catalogue_parts.ts";
import { decodeImage } from "../../media/decode.ts";
import { SteeringChoices } from "../../server/models/steering_choices.ts";
import { startServer } from "../../server/serve.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { FAKE_LAYERS, loraFile } from "../fakes/loras.ts";
import { FAKE_INFO } from "../fakes/model_info.ts";
import { testService, until } from "../fakes/service.ts";
import { withFolder } from "../support/safetensors.ts";
import { browserTest, draw, drop, listen, seriousIn, SUPPORT } from "./page.ts";

/** A model with a ControlNet that inpaints. */
const INPAINTING = {
  ...SUPPORT,
  controlNets: [{ name: "inpaint" }],
  controlsInpainting: true,
  maxControls: 2,
  optionalSettings: [
    ...SUPPORT.optionalSettings,
    ...["controlNet", "controlScale", "controlStart", "controlEnd"] as const,
    ...["controlType", "controlBalance"] as const,
  ],
};

const button = (page: Page, name: string) => page.getByRole("button", { name, exact: true });

/** A server that is closed with its test. */
async function closing(starting: ReturnType<typeof startServer>) {
  const { url, ready, close } = await starting;
  await ready;
  return { url: `${url}/`, [Symbol.asyncDispose]: close };
}

/** What a download holds. */
async function downloaded(page: Page, name: string): Promise<Uint8Array<ArrayBuffer>> {
  const [file] = await Promise.all([page.waitForEvent("download"), button(page, name).click()]);
  return await Deno.readFile(await file.path());
}

browserTest(
  "presets are applied, saved, exported and imported, and a dropped LoRA is told and used",
  (browser) =>
    withFolder({}, async (folder) => {
      const info = { ...SUPPORT, defaults: { ...FAKE_INFO.defaults, numInferenceSteps: 20 } };
      const engine = new FakeEngine({ info });
      await using service = await testService({ engine, settings: { loraFolders: [folder] } });
      await using server = listen(service);
      const draft = { size: "64x48", settings: { num_inference_steps: 3 } };
      const page = await browser.open(server.url, { draft });
      const steps = page.getByRole("spinbutton", { name: "Steps" });
      await page.getByText("Presets", { exact: true }).click();
      await page.getByLabel("Name of a preset").fill("three steps");
      await page.keyboard.press("Enter");
      await page.getByText("three steps is saved.").waitFor();
      const file = await downloaded(page, "Export");
      await button(page, "Fast").click();
      await button(page, "Best").click();
      await until(async () => await steps.inputValue() === "30");
      await button(page, "Fast").click();
      await until(async () => await steps.inputValue() === "10");
      await button(page, "Delete the preset three steps").click();
      await button(page, "three steps").waitFor({ state: "detached" });
      const give = (name: string, bytes: Uint8Array) =>
        page.getByLabel("Import").setInputFiles({
          ...{ name, mimeType: "application/json", buffer: Buffer.from(bytes) },
        });
      await give("bad.json", new TextEncoder().encode('{"presets":[{"name":""}]}'));
      await page.getByText("Cannot use bad.json: it holds no presets.").waitFor();
      await give("presets.json", file);
      await page.getByText("1 preset imported.").waitFor();

      const lora = (layers: string[]) => ({
        ...{ name: "ink.safetensors", type: "", bytes: loraFile({ mark: 9, layers }) },
      });
      await drop(page, lora([FAKE_LAYERS[0]!, "lost.one"]));
      await page.getByText("ink.safetensors changes 2 layers of this model.").waitFor();
      await page.getByText("2 keys fit no layer: lost.one.lora_A.weight").waitFor();
      await drop(page, { ...lora(["lost.one"]), name: "other.safetensors" });
      await page.locator(".notice").getByText("other.safetensors").waitFor();
      await draw(page, "a fox");
      await page.locator(".tile.completed").waitFor();
      // A preset brings its LoRAs, which are none.
      await button(page, "three steps").click();
      await until(async () => await steps.inputValue() === "3");
      await draw(page, "a hen");
      await page.locator(".tile.completed").nth(1).waitFor();
      const told = engine.requests.map(({ loras, quality, numInferenceSteps }) => [
        ...[loras?.length, quality, numInferenceSteps],
      ]);
      assert.deepEqual(told, [[1, "high", 10], [0, "lossless", 3]]);
    }),
);

browserTest(
  "an image grows where its frame is dragged, and a sheet draws each pair of values, by keyboard too",
  async (browser) => {
    const engine = new FakeEngine({ info: INPAINTING });
    await using service = await testService({ engine });
    await using server = listen(service);
    const draft = { size: "64x48", settings: { num_inference_steps: 1 } };
    const page = await browser.open(server.url, { draft });
    await draw(page, "a fox");
    await page.locator(".finished img.result").waitFor();
    await button(page, "Edit").click();
    await button(page, "Extend the image").click();
    const right = page.getByRole("slider", { name: "Right" });
    await page.locator(".mask-bar").getByText("64 × 48").waitFor();
    const { x, y, width, height } = (await right.boundingBox())!;
    await page.mouse.move(x + width / 2, y + height / 2);
    await page.mouse.down();
    await page.mouse.move(x + width / 2 + 120, y + height / 2, { steps: 4 });
    await page.mouse.up();
    await page.getByRole("slider", { name: "Top" }).focus();
    await page.keyboard.press("ArrowUp");
    const grown = Number(await right.getAttribute("aria-valuenow"));
    assert.ok(grown >= 16 && grown % 16 === 0, `${grown}`);
    await page.locator(".mask-bar").getByText(`${64 + grown} × 64`).waitFor();
    await page.getByRole("switch", { name: "Inpaint ControlNet" }).check();
    await page.getByLabel("Balance", { exact: true }).selectOption(
      "Control counts more (guess mode)",
    );
    await draw(page, "a wide fox");
    await page.locator(".tile.completed").nth(1).waitFor();
    const { outpaint, controlType, controlBalance, mask, width: drawn } = engine.requests[1]!;
    assert.deepEqual([outpaint, controlType, controlBalance, drawn, mask !== undefined], [
      ...[[0, 16, grown, 0], ["inpaint"], ["control"], 64 + grown, true],
    ]);
    await button(page, "Remove image.png").click();
    await page.getByText("Presets", { exact: true }).click();
    await button(page, "Defaults").waitFor();
    assert.equal(await button(page, "Fast").count(), 0, "4 steps cannot be fewer");

    await button(page, "X/Y sheet").focus();
    await page.keyboard.press("Enter");
    const values = (axis: string) => page.getByLabel(`${axis}: values`);
    await values("Columns (X)").fill("1, x");
    await page.getByText("Steps cannot be x.").waitFor();
    await values("Columns (X)").fill("1, 2, 3");
    await page.getByLabel("Rows (Y): setting").selectOption("Words of the prompt");
    await values("Rows (Y)").fill("fox, hen");
    await page.getByText(/^6 images, about /).waitFor();
    await page.keyboard.press("Enter");
    await page.getByText("6 of 6 done").waitFor();
    const sheet = engine.requests.slice(2);
    const [{ seed }] = sheet as [(typeof sheet)[number]];
    assert.deepEqual(
      sheet.map((request) => [request.prompt, request.numInferenceSteps, request.seed]),
      ["a wide fox", "a wide hen"].flatMap((prompt) => [1, 2, 3].map((n) => [prompt, n, seed])),
    );
    const image = await decodeImage(await downloaded(page, "Download as PNG"));
    assert.ok(image.width > 3 * 64 && image.height > 2 * 48, `${image.width} × ${image.height}`);
    await page.locator(".sheet-grid button").last().click();
    await page.getByText("a wide hen", { exact: true }).waitFor();

    // It comes back with its jobs, also with those that are older than the list.
    const jobs = `${server.url}v1/jobs`;
    const { data: [last] } = await (await fetch(jobs)).json();
    await (await fetch(`${jobs}/${last.id}`, { method: "DELETE" })).body?.cancel();
    await page.route("**/v1/jobs?limit=60", async (route) => {
      const response = await route.fetch();
      const body = await response.json();
      await route.fulfill({ response, json: { ...body, data: body.data.slice(0, 2) } });
    });
    await page.reload();
    await page.locator(".result-bar").getByRole("button", { name: "X/Y sheet" }).click();
    await page.getByText("5 of 6 done").waitFor();
    await page.locator(".sheet-grid img").nth(4).waitFor();
    await page.locator(".sheet-grid .cell").getByText("–").waitFor();

    // Without rows, what they would try stays as it is.
    const own = engine.requests.at(-1)!.guidanceScale;
    await page.getByLabel("Rows (Y): setting").selectOption("Guidance (CFG)");
    await values("Rows (Y)").fill("");
    await values("Columns (X)").fill("4");
    await page.keyboard.press("Enter");
    await page.getByText("1 of 1 done").waitFor();
    const { guidanceScale, numInferenceSteps } = engine.requests.at(-1)!;
    assert.deepEqual([guidanceScale, numInferenceSteps], [own, 4]);
  },
);

browserTest(
  "a model of this machine is opened with the ControlNets that are chosen",
  async (browser) => {
    const names = ["control_v11p_sd15_canny", "control_v11f1p_sd15_depth"];
    const choices = new SteeringChoices();
    const opened: ModelParts[] = [];
    const engine = () => Promise.resolve(new FakeEngine({ info: SUPPORT }));
    const source = {
      ...{ name: "sd-1.5", path: "sd-1.5", aliases: [], version: "", open: engine },
      close: () => Promise.resolve(),
    };
    const model = { name: "sd-1.5", family: "SD 1 or SD 2" };
    const find = () =>
      Promise.resolve([
        choices.steered(source, model, names.map((name) => partNamed(name)!), (parts) => {
          opened.push(parts);
          const nets = Object.values(parts).filter((name) => names.includes(name));
          const info = { ...INPAINTING, controlNets: nets.map((name) => ({ name })) };
          return Promise.resolve(new FakeEngine({ info }));
        }),
      ]);
    await using server = await closing(startServer({
      ...{ openEngine: engine, find, modelPath: "first", outputPath: "", port: 0 },
    }));
    const page = await browser.open(server.url, { draft: { size: "64x48" } });
    await page.locator("header .model select").selectOption("sd-1.5");
    await page.getByText("ControlNets and IP-Adapters").click();
    const net = page.getByRole("switch", { name: names[0]! });
    assert.ok(await net.isChecked());
    const steer = page.locator("button[title='Add a control picture']");
    await steer.waitFor();
    await net.uncheck();
    await until(() => opened.length === 2);
    await page.getByText("Choose which ones the model is opened with").waitFor();
    await page.getByRole("switch", { name: names[1]! }).uncheck();
    await steer.waitFor({ state: "detached" });
    assert.deepEqual(await seriousIn(page), []);
    assert.deepEqual(opened, [
      { controlnet: names[0], controlnet2: names[1], steersWhenAsked: true },
      { controlnet: names[1], steersWhenAsked: true },
      {},
    ]);
  },
);

browserTest("a sheet's jobs are cancelled together (slow)", async (browser) => {
  const engine = new FakeEngine({ info: SUPPORT, stepMs: 500 });
  await using service = await testService({ engine, maxQueue: 3 });
  await using server = listen(service);
  const draft = { size: "64x48", prompt: "a fox", settings: { num_inference_steps: 50 } };
  const page = await browser.open(server.url, { draft });
  await button(page, "X/Y sheet").click();
  await page.getByLabel("Columns (X): setting").selectOption("Seed");
  await page.getByLabel("Columns (X): values").fill("1,2,3,4,5,6,7,8");
  await button(page, "Start").click();
  await until(async () => (await (await service.get("/v1/jobs")).json()).waiting === 3);
  await button(page, "Cancel all").click();
  await until(async () => {
    const { running, waiting, data } = await (await service.get("/v1/jobs")).json();
    return running + waiting === 0 && data.length >= 4;
  });
  await button(page, "Start").waitFor();
}, true);

browserTest(
  "axe-core finds nothing serious in presets, frame and sheet, in light and dark, wide and narrow (slow)",
  async (browser) => {
    await using service = await testService({ engine: new FakeEngine({ info: INPAINTING }) });
    await using server = listen(service);
    for (const [scheme, width] of [["light", 1440], ["dark", 390], ["dark", 1440]] as const) {
      const draft = { size: "64x48", settings: { num_inference_steps: 1 } };
      const page = await browser.open(server.url, { scheme, width, draft });
      await draw(page, "a fox");
      await page.locator(".finished img.result").waitFor();
      const settings = async () => {
        if (width < 640) await button(page, "Settings").click();
      };
      await settings();
      await page.getByText("Presets", { exact: true }).click();
      await page.getByLabel("Name of a preset").fill("mine");
      await page.keyboard.press("Enter");
      assert.deepEqual(await seriousIn(page), [], `presets, ${scheme}, ${width}`);
      await page.keyboard.press("Escape");
      await button(page, "Edit").click();
      await button(page, "Extend the image").click();
      await page.getByRole("slider", { name: "Top" }).press("ArrowUp");
      assert.deepEqual(await seriousIn(page), [], `frame, ${scheme}, ${width}`);
      await settings();
      await page.getByRole("switch", { name: "Inpaint ControlNet" }).check();
      await page.getByLabel("Balance", { exact: true }).waitFor();
      await page.keyboard.press("Escape");
      await button(page, "X/Y sheet").click();
      await page.getByLabel("Columns (X): values").fill("1, 2");
      await button(page, "Start").click();
      await page.getByText("2 of 2 done").waitFor();
      assert.deepEqual(await seriousIn(page), [], `sheet, ${scheme}, ${width}`);
      const hangsOver = await page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth",
      );
      assert.equal(hangsOver, 0, "nothing is wider than the screen");
      await page.context().close();
    }
  },
  true,
);
