/** Real browsers, where systems have them. */

export type BrowserName = "chromium" | "firefox";

const PROGRAMS: Readonly<Record<BrowserName, readonly string[]>> = {
  chromium: [
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/usr/bin/google-chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
  ],
  firefox: ["/usr/bin/firefox-esr", "/usr/bin/firefox"],
};

/** A browser's program; undefined where there is none. */
export function programOf(browser: BrowserName): string | undefined {
  return PROGRAMS[browser].find((path) => {
    try {
      return Deno.statSync(path).isFile;
    } catch {
      return false;
    }
  });
}
