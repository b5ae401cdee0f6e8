/** Images in a terminal. Sources: kitty's "Terminal graphics protocol", iTerm2's "Inline Images Protocol", DEC STD 070 (sixels). */

import { decodeImage } from "../media/decode.ts";
import { encodeImage } from "../media/encode.ts";
import type { PixelImage } from "../media/image.ts";
import { resize } from "../media/resize.ts";
import { terminalColumns } from "./progress_bar.ts";

type ImageProtocol = "kitty" | "iterm" | "sixel" | "blocks";

const COLUMNS = 64;
const ROWS = 24;
/** Pixels of a cell, about, for sixels: they have no size in cells. */
const CELL = { width: 8, height: 16 };

interface ImageTerminal {
  readonly columns: number;
  write(text: string): void;
}

/** What a terminal can show, by what it says of itself. */
export function protocolOf(env: (name: string) => string | undefined): ImageProtocol {
  const [term = "", program = ""] = [env("TERM"), env("TERM_PROGRAM")];
  // Multiplexers swallow what they do not know.
  if (env("TMUX") || /^(screen|tmux)/.test(term)) return "blocks";
  if (env("KITTY_WINDOW_ID") || /kitty|ghostty/.test(term) || program === "ghostty") return "kitty";
  if (program === "iTerm.app" || program === "WezTerm" || program === "mintty") return "iterm";
  if (/sixel|foot|mlterm|contour/.test(term)) return "sixel";
  return "blocks";
}

export class TerminalImage {
  readonly #terminal: ImageTerminal;
  readonly #protocol: ImageProtocol;
  #rows = 0;
  #last: Promise<void> = Promise.resolve();

  constructor(terminal: ImageTerminal, protocol: ImageProtocol) {
    this.#terminal = terminal;
    this.#protocol = protocol;
  }

  async showFile(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    await this.show(await decodeImage(bytes));
  }

  /** Shows an image in the place of the one before it, once that is drawn. */
  show(image: PixelImage): Promise<void> {
    return this.#last = this.#last.then(() => this.#draw(image));
  }

  async #draw(image: PixelImage): Promise<void> {
    const { columns, rows } = cellsFor(image, this.#terminal.columns);
    const drawn = await draw(image, columns, rows, this.#protocol);
    const up = `\x1b[${rows}A\r`;
    // Lines first: at the bottom of the screen they scroll it.
    const place = this.#rows === rows ? up : "\n".repeat(rows) + up;
    this.#rows = rows;
    this.#terminal.write(`\r\x1b[K${place}\x1b7${drawn}\x1b8\x1b[${rows}B\r`);
  }
}

/** Cells for an image: about twice as high as wide, at most those that a terminal has. */
function cellsFor({ width, height }: PixelImage, terminal: number) {
  const widest = Math.min(COLUMNS, Math.max(1, terminal - 1));
  const scale = Math.min(widest / width, 2 * ROWS / height);
  return {
    columns: Math.max(1, Math.round(width * scale)),
    rows: Math.max(1, Math.round(height * scale / 2)),
  };
}

async function draw(
  image: PixelImage,
  columns: number,
  rows: number,
  protocol: ImageProtocol,
): Promise<string> {
  if (protocol === "blocks") return halfBlocks(resize(image, columns, 2 * rows));
  if (protocol === "sixel") {
    return sixels(resize(image, columns * CELL.width, rows * CELL.height));
  }
  const { bytes } = await encodeImage(image, { format: "png" });
  const text = bytes.toBase64();
  return protocol === "iterm"
    ? `\x1b]1337;File=inline=1;width=${columns};height=${rows};preserveAspectRatio=0:${text}\x07`
    : kittyImage(text, columns, rows);
}

/** An image in kitty's protocol, in pieces of 4096 characters. */
function kittyImage(text: string, columns: number, rows: number): string {
  const pieces = text.match(/.{1,4096}/g) ?? [];
  return pieces.map((piece, i) => {
    const keys = i === 0 ? `a=T,f=100,q=2,C=1,c=${columns},r=${rows},` : "";
    return `\x1b_G${keys}m=${i < pieces.length - 1 ? 1 : 0};${piece}\x1b\\`;
  }).join("");
}

/** Two pixels to a cell, one over the other. */
export function halfBlocks({ width, height, data }: PixelImage): string {
  const step = data.length / (width * height);
  const colour = (x: number, y: number) => {
    const at = step * (y * width + x);
    return data.subarray(at, at + 3).join(";");
  };
  const lines: string[] = [];
  for (let y = 0; y + 1 < height; y += 2) {
    let line = "";
    for (let x = 0; x < width; x++) {
      line += `\x1b[38;2;${colour(x, y)};48;2;${colour(x, y + 1)}m▀`;
    }
    lines.push(`${line}\x1b[0m`);
  }
  return lines.join("\r\n");
}

/** Levels of each primary in the palette of sixels. */
const LEVELS = 6;

/** Bands of six rows; for each colour of a band, which of the six each column has. */
export function sixels({ width, height, data }: PixelImage): string {
  const step = data.length / (width * height);
  const level = (value: number) => Math.round(value * (LEVELS - 1) / 255);
  const colourAt = (x: number, y: number) => {
    const at = step * (y * width + x);
    return (level(data[at]!) * LEVELS + level(data[at + 1]!)) * LEVELS + level(data[at + 2]!);
  };
  const percent = (value: number) => Math.round(100 * value / (LEVELS - 1));
  let out = `\x1bP0;1q"1;1;${width};${height}`;
  for (let i = 0; i < LEVELS ** 3; i++) {
    const [r, g, b] = [Math.floor(i / LEVELS ** 2), Math.floor(i / LEVELS) % LEVELS, i % LEVELS];
    out += `#${i};2;${percent(r)};${percent(g)};${percent(b)}`;
  }
  for (let top = 0; top < height; top += 6) {
    const rows = Math.min(6, height - top);
    const columnsOf = new Map<number, Uint8Array>();
    for (let y = 0; y < rows; y++) {
      for (let x = 0; x < width; x++) {
        const colour = colourAt(x, top + y);
        let bits = columnsOf.get(colour);
        if (!bits) columnsOf.set(colour, bits = new Uint8Array(width));
        bits[x]! |= 1 << y;
      }
    }
    out += [...columnsOf].map(([colour, bits]) => `#${colour}${runs(bits)}`).join("$") + "-";
  }
  return `${out}\x1b\\`;
}

/** Sixels of one colour; repeated ones are counted. */
function runs(bits: Uint8Array): string {
  const text = String.fromCharCode(...bits.map((bit) => bit + 63));
  return text.replace(/(.)\1{3,}/g, (run, sixel) => `!${run.length}${sixel}`);
}

/** Columns of a terminal that does not say how many it has. */
const USUAL_COLUMNS = 80;

/** The terminal of standard error; undefined where it is none. */
export function openScreen(): TerminalImage | undefined {
  if (!Deno.stderr.isTerminal()) return undefined;
  const encoder = new TextEncoder();
  const terminal = {
    columns: terminalColumns() ?? USUAL_COLUMNS,
    write(text: string) {
      const bytes = encoder.encode(text);
      for (let at = 0; at < bytes.length;) at += Deno.stderr.writeSync(bytes.subarray(at));
    },
  };
  return new TerminalImage(terminal, protocolOf((name) => Deno.env.get(name)));
}
