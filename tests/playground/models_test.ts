/** The page's panel of models: from the bundled model to one of a hub of our own. */

import assert from "node:assert/strict";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import type { Page } from "playwright-core";
import { hubSettings } from "../../hub/hub_settings.ts";
import { servableModels } from "../../hub/servable.ts";
import { startServer } from "../../server/serve.ts";
import { startProcess } from "../e2e/server_process.ts";
import { FakeEngine } from "../fakes/engine.ts";
import { FakeHub } from "../fakes/hub.ts";
import type { TestBrowser } from "./browser.ts";
import { browserTest, seriousIn } from "./page.ts";

const TITLE = "Stable Diffusion 1.5";
const REPOSITORY = "stable-diffusion-v1-5/stable-diffusion-v1-5";
const BUNDLED = fileURLToPath(new URL("../../models/bundled", import.meta.url));

/** As much of a model as the server looks at before it opens it. */
const SKETCH = {
  "model_index.json": JSON.stringify({
    _class_name: "StableDiffusionPipeline",
    unet: ["diffusers", "UNet2DConditionModel"],
  }),
  "unet/diffusion_pytorch_model.safetensors": "w".repeat(4e6),
};

/** The bundled model, as what another one is on the hub. */
async function readFiles(folder = BUNDLED, files: Record<string, Uint8Array<ArrayBuffer>> = {}) {
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const path = join(folder, name);
    if (isDirectory) await readFiles(path, files);
    else files[relative(BUNDLED, path).replaceAll("\\", "/")] = await Deno.readFile(path);
  }
  return files;
}

function modelsTest(
  name: string,
  files: () => Promise<Record<string, string | Uint8Array<ArrayBuffer>>>,
  work: (browser: TestBrowser, hub: FakeHub, folder: string) => Promise<void>,
  isSlow = false,
): void {
  browserTest(name, async (browser) => {
    const folder = await Deno.makeTempDir();
    try {
      const [upscaler, file] = "Comfy-Org/Real-ESRGAN_repackaged:RealESRGAN_x4plus.safetensors"
        .split(":");
      const contents = { [REPOSITORY]: await files(), [upscaler!]: { [file!]: "upscaler" } };
      await using hub = new FakeHub(contents, { pace: 2e6 });
      await work(browser, hub, folder);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  }, isSlow);
}

const button = (page: Page, name: string | RegExp) =>
  page.getByRole("button", { name, exact: typeof name === "string" });

/** Downloads a model, stops in the middle and goes on; it is chosen then. */
async function download(page: Page, { behaviour }: FakeHub): Promise<void> {
  await page.getByText("The bundled model draws plain shapes").waitFor();
  await button(page, "get a model").click();
  await page.locator(".model-row", { hasText: "First choice" }).waitFor();
  await button(page, `Download: ${TITLE}`).focus();
  await page.keyboard.press("Enter");
  await page.getByText(/^\d+ MB of \d+ MB, [\d.]+ MB\/s, \d+ sec left$/).waitFor();
  await page.getByRole("button", { name: /^Models \d+%$/, includeHidden: true }).waitFor();
  await page.keyboard.press("Enter");
  await button(page, `Resume: ${TITLE}`).waitFor();
  behaviour.pace = 1e9;
  const focused = await page.evaluate("document.activeElement.getAttribute('aria-label')");
  assert.equal(focused, `Resume: ${TITLE}`, "the button keeps the focus");
  await page.keyboard.press("Enter");
  await page.getByText("sd-1.5 is here and draws from now on.").waitFor();
  assert.equal(await page.locator(".top .model select").inputValue(), "sd-1.5");
}

async function removeAgain(page: Page): Promise<void> {
  await button(page, `Delete: ${TITLE}`).click();
  await button(page, `Really delete: ${TITLE}`).click();
  await button(page, `Download: ${TITLE}`).waitFor();
  await page.getByText("sd-1.5 is deleted.").waitFor();
}

modelsTest(
  "the page leads from the bundled model to one of the hub: download, pause, go on, chosen, deleted",
  () => Promise.resolve(SKETCH),
  async (browser, hub, folder) => {
    const variables = { HF_ENDPOINT: hub.endpoint, HF_HOME: folder, DENOISE_CONFIG: folder };
    const before = Object.keys(variables).map((name) => [name, Deno.env.get(name)] as const);
    for (const [name, value] of Object.entries(variables)) Deno.env.set(name, value);
    const images = { defaultTask: "T2I", supportedTasks: ["T2I"], deviceBytes: 8e9 } as const;
    const { pace = 2e6 } = hub.behaviour;
    const toy = { ...images, nativeSides: { least: 16, most: 96 } };
    const server = await startServer({
      ...{ servedModelName: "bundled", outputPath: "", port: 0 },
      openEngine: () => Promise.resolve(new FakeEngine({ info: toy })),
      find: async () =>
        (await servableModels(await hubSettings())).map(({ name, modelPath, ...other }) => ({
          ...{ name, path: modelPath, ...other },
          open: () => Promise.resolve(new FakeEngine({ info: images })),
          close: () => Promise.resolve(),
        })),
    });
    try {
      await server.ready;
      const page = await browser.open(server.url, { width: 1440, height: 900 });
      await download(page, hub);
      assert.deepEqual(await seriousIn(page), []);
      await page.keyboard.press("Escape");
      assert.equal(await page.getByText("The bundled model draws plain shapes").count(), 0);
      await button(page, "Models").click();
      await removeAgain(page);
      await button(page, "Download: realesrgan_x4plus").click();
      await page.getByText(/^realesrgan_x4plus is here\. Downloaded models use it/).waitFor();
      const upscaler = page.locator(".model-row", { hasText: "realesrgan_x4plus" });
      await upscaler.getByText(/^\d+ MB · /).waitFor();
      hub.behaviour.pace = pace;
      await button(page, `Download: ${TITLE}`).click();
      await page.getByText(/^\d+ MB of \d+ MB, /).waitFor();
      await button(page, `Cancel: ${TITLE}`).click();
      await page.getByText("The download of sd-1.5 is cancelled.").waitFor();
      await button(page, `Download: ${TITLE}`).waitFor();
      await page.context().close();

      const narrow = await browser.open(server.url, { width: 390, height: 800, scheme: "dark" });
      await button(narrow, "get a model").click();
      await button(narrow, `Download: ${TITLE}`).waitFor();
      assert.deepEqual(await seriousIn(narrow), []);
      const excess = await narrow.evaluate(`Math.max(...[document.documentElement,
        document.querySelector("dialog")].map((one) => one.scrollWidth - one.clientWidth))`);
      assert.equal(excess, 0, "nothing is wider than the screen");
      await button(narrow, "Download: FLUX.1 dev").isDisabled();
      await narrow.locator(".model-row", { hasText: "FLUX.1 dev" }).getByRole("link").waitFor();
      await narrow.getByLabel("Another model of the hub").fill("org/none");
      await narrow.keyboard.press("Enter");
      await narrow.getByText(/^Cannot fetch org\/none: the hub has no such/).waitFor();
    } finally {
      await server.close();
      for (const [name, value] of before) {
        if (value === undefined) Deno.env.delete(name);
        else Deno.env.set(name, value);
      }
    }
  },
);

modelsTest(
  "a model that the page has fetched draws (slow)",
  () => readFiles(),
  async (browser, hub, folder) => {
    const env = { HF_ENDPOINT: hub.endpoint, HF_HOME: folder, DENOISE_CONFIG: folder };
    await using server = await startProcess(folder, [], env);
    const page = await browser.open(server.url);
    await download(page, hub);
    await page.keyboard.press("Escape");
    await page.fill("#prompt", "a red heart");
    await page.keyboard.press("Control+Enter");
    await page.locator(".finished img.result").waitFor();
    const { data } = await (await fetch(new URL("v1/jobs", server.url))).json();
    const job = await (await fetch(new URL(`v1/jobs/${data[0].id}`, server.url))).json();
    assert.equal(job.request.model, "sd-1.5");
    await button(page, "Models").click();
    await removeAgain(page);
  },
  true,
);
