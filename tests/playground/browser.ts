/** A real browser for the tests of the page. */

import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { programOf } from "../support/browsers.ts";

/** The browser's program; undefined where there is none. */
export const CHROMIUM: string | undefined = programOf("chromium");

/** A browser, and what its pages complained of. */
export interface TestBrowser extends AsyncDisposable {
  /** Errors of scripts, refused requests, and requests to other hosts. */
  readonly complaints: string[];
  /** Opens the page of a server, with a draft that is drawn quickly. */
  open(url: string, options?: OpenOptions): Promise<Page>;
}

/** How a page is opened. */
export interface OpenOptions {
  width?: number;
  height?: number;
  draft?: Record<string, unknown>;
  scheme?: "light" | "dark";
  locale?: string;
  /** Whether it is a touch screen. */
  hasTouch?: boolean;
}

/** Images that take a second. */
const QUICK_DRAFT = { size: "64x64", settings: { num_inference_steps: 4 } };

let running: Promise<Browser> | undefined;

/** The browser of all tests that run together: each has contexts of its own. It ends with the last of them. */
function launched(): Promise<Browser> {
  return running ??= chromium.launch({
    executablePath: CHROMIUM!,
    args: ["--no-sandbox", "--disable-gpu"],
    // Machines that test have other things to do.
    timeout: 180_000,
  });
}

Deno.test.afterAll(async () => await (await running)?.close());

/** Opens pages that nothing of other tests is in. */
export async function openBrowser(): Promise<TestBrowser> {
  const browser = await launched();
  const contexts: BrowserContext[] = [];
  const complaints: string[] = [];
  const open = async (url: string, options: OpenOptions = {}) => {
    const { width = 1280, height = 800, draft = QUICK_DRAFT, scheme = "light", locale = "en-US" } =
      options;
    const { hasTouch = false } = options;
    // Without motion the browser leaves the processor to the model.
    const context = await browser.newContext({
      viewport: { width, height },
      colorScheme: scheme,
      locale,
      reducedMotion: "reduce",
      ...{ hasTouch, isMobile: hasTouch },
    });
    contexts.push(context);
    await context.addInitScript((text) => {
      localStorage.getItem("denoise.draft") ?? localStorage.setItem("denoise.draft", text);
    }, JSON.stringify(draft));
    context.setDefaultTimeout(60_000);
    const page = await context.newPage();
    watch(page, url, complaints);
    await page.goto(url);
    return page;
  };
  const close = async () => {
    await Promise.all(contexts.map((context) => context.close()));
  };
  return { complaints, open, [Symbol.asyncDispose]: close };
}

/** Notes what a page complains of; that a server is away or asks for a key is part of some tests. */
function watch(page: Page, url: string, complaints: string[]): void {
  const { host } = new URL(url);
  page.on("pageerror", ({ message }) => complaints.push(message));
  page.on("console", (line) => {
    const text = line.text();
    const isExpected = /status of 4|status of 503|ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY/.test(
      text,
    );
    if (line.type() === "error" && !isExpected) complaints.push(text);
  });
  page.on("request", (request) => {
    const { protocol, host: other } = new URL(request.url());
    if (/^(?:http|ws)/.test(protocol) && other !== host) complaints.push(request.url());
  });
}
