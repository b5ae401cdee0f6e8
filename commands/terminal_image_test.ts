import { strict as assert } from "node:assert";
import { halfBlocks, protocolOf, sixels, TerminalImage } from "./terminal_image.ts";

/** Red over green, blue over white. */
const FOUR = {
  width: 2,
  height: 2,
  data: Uint8Array.of(255, 0, 0, 0, 0, 255, 0, 255, 0, 255, 255, 255),
};

Deno.test("protocolOf() takes what terminals say of themselves, and half blocks inside multiplexers", () => {
  const of = (env: Record<string, string>) => protocolOf((name) => env[name]);
  assert.equal(of({ TERM: "xterm-kitty" }), "kitty");
  assert.equal(of({ TERM: "xterm-256color", TERM_PROGRAM: "WezTerm" }), "iterm");
  assert.equal(of({ TERM: "foot" }), "sixel");
  assert.equal(of({ TERM: "xterm-256color" }), "blocks");
  assert.equal(of({ TERM: "tmux-256color", KITTY_WINDOW_ID: "1" }), "blocks");
  assert.equal(of({}), "blocks");
});

Deno.test("halfBlocks() puts two rows of pixels into one of cells", () => {
  assert.equal(
    halfBlocks(FOUR),
    "\x1b[38;2;255;0;0;48;2;0;255;0m▀\x1b[38;2;0;0;255;48;2;255;255;255m▀\x1b[0m",
  );
});

Deno.test("sixels() draws each colour of a band, and counts what repeats itself", () => {
  const data = new Uint8Array(3 * 8 * 7).fill(255);
  // A single black pixel in the second band.
  data.fill(0, 3 * 8 * 6, 3 * 8 * 6 + 3);
  const text = sixels({ width: 8, height: 7, data });
  assert.ok(text.startsWith('\x1bP0;1q"1;1;8;7#0;2;0;0;0#1;2;0;0;20'));
  assert.ok(text.endsWith("#215!8~-#0@!7?$#215?!7@-\x1b\\"), text.slice(-60));
});

Deno.test("TerminalImage.show() scrolls for the first image, and draws the next in its place", async () => {
  for (const protocol of ["kitty", "iterm", "sixel", "blocks"] as const) {
    const written: string[] = [];
    const write = (text: string) => void written.push(text);
    const screen = new TerminalImage({ columns: 9, write }, protocol);
    void screen.show(FOUR);
    await screen.show(FOUR);
    const [first, second] = written;
    assert.ok(first!.startsWith(`\r\x1b[K${"\n".repeat(4)}\x1b[4A\r\x1b7`), protocol);
    assert.ok(second!.startsWith("\r\x1b[K\x1b[4A\r\x1b7"), protocol);
    assert.ok(first!.endsWith("\x1b8\x1b[4B\r"), protocol);
  }
});
