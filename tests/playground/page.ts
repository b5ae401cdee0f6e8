/** What tests of the page share: a service on a port, the browser, and drawing. */

import assert from "node:assert/strict";
import axe from "axe-core";
import type { Page } from "playwright-core";
import type { TestService } from "../fakes/service.ts";
import { CHROMIUM, openBrowser, type TestBrowser } from "./browser.ts";

/** What an engine says that it can do. */
export const SUPPORT = {
  defaultTask: "T2I",
  supportedTasks: ["T2I", "TI2I", "T2V", "I2V", "V2V", "F2V"],
  maxImages: 3,
  inpainting: { strength: 1 },
  optionalSettings: ["sampler", "scheduler", "flowShift"],
} as const;

/** A service on a port. */
export function listen(
  service: TestService,
  port = 0,
): { url: string; port: number } & AsyncDisposable {
  const server = Deno.serve(
    { port, hostname: "127.0.0.1", onListen() {} },
    (request) => service.app.fetch(request, { remoteAddress: "127.0.0.1" }),
  );
  const { port: bound } = server.addr;
  return {
    url: `http://127.0.0.1:${bound}/`,
    port: bound,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

/** Writes a prompt, and asks for its image. */
export async function draw(page: Page, prompt: string): Promise<void> {
  await page.fill("#prompt", prompt);
  await page.keyboard.press("Control+Enter");
}

/** Drops files on the page, as a file manager does. */
export async function drop(
  page: Page,
  ...files: { name: string; type: string; bytes: Uint8Array }[]
): Promise<void> {
  const given = files.map(({ bytes, ...file }) => ({ ...file, data: bytes.toBase64() }));
  await page.evaluate(`{
    const dataTransfer = new DataTransfer();
    for (const { name, type, data } of ${JSON.stringify(given)}) {
      const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
      dataTransfer.items.add(new File([bytes], name, { type }));
    }
    const event = new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true });
    document.querySelector("#prompt").dispatchEvent(event);
  }`);
}

/** What axe-core finds on a page that keeps people out, in lines. */
export async function seriousIn(page: Page): Promise<string[]> {
  await page.evaluate(axe.source);
  const { violations } = await page.evaluate("axe.run()") as {
    violations: { id: string; impact: string; nodes: { html: string }[] }[];
  };
  return violations.filter(({ impact }) => ["serious", "critical"].includes(impact))
    .map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join("\n")}`);
}

/** A test in a browser, which must complain of nothing. */
export function browserTest(
  name: string,
  work: (browser: TestBrowser) => Promise<void>,
  isSlow = false,
): void {
  Deno.test({
    name: CHROMIUM ? name : `${name} (skipped: there is no Chromium)`,
    ignore: !CHROMIUM || isSlow && !Deno.env.has("DENOISE_SLOW"),
    fn: async () => {
      await using browser = await openBrowser();
      await work(browser);
      assert.deepEqual(browser.complaints, []);
    },
  });
}
