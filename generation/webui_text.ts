/**
 * Reads the text of Stable Diffusion WebUI about how an image was made. It comes from files of others, so that every
 * step here takes no longer than the text is long.
 */

/** What WebUI's text says. */
export interface WebuiText {
  /** All before the negative prompt. */
  readonly prompt: string;
  /** `""` where there is none. */
  readonly negativePrompt: string;
  /** The settings of the last line by WebUI's names, such as `CFG scale`; the last one of a name wins. */
  readonly settings: Readonly<Record<string, string>>;
}

const NEGATIVE = "Negative prompt:";

/** Longest line that is taken for settings, in characters; WebUI's have some hundreds. */
const MAX_LINE = 2 ** 16;

/**
 * Reads WebUI's text.
 *
 * @param text such as that under `parameters` of a PNG file
 */
export function readWebuiText(text: string): WebuiText {
  const whole = text.trim();
  const lastStart = whole.lastIndexOf("\n") + 1;
  const hasSettings = whole.startsWith("Steps: ", lastStart) &&
    whole.length - lastStart <= MAX_LINE;
  const prompts = hasSettings ? whole.slice(0, Math.max(0, lastStart - 1)) : whole;
  const at = `\n${prompts}`.indexOf(`\n${NEGATIVE}`);
  return {
    prompt: at < 0 ? prompts : prompts.slice(0, Math.max(0, at - 1)),
    negativePrompt: at < 0 ? "" : prompts.slice(at + NEGATIVE.length).trimStart(),
    settings: hasSettings ? Object.fromEntries(settingsIn(whole.slice(lastStart))) : {},
  };
}

/**
 * Takes `<lora:name:0.8>`, which asks for a LoRA and is no part of what to make, out of a prompt.
 */
export function splitLoras(
  prompt: string,
): { prompt: string; loras: { name: string; strength: number }[] } {
  const loras: { name: string; strength: number }[] = [];
  const rest = prompt.replace(
    /<lora:([^:<>]+)((?::[^:<>]*)*)>/gi,
    (tag, name: string, rest: string) => {
      const weight = strengthOf(rest.split(":").slice(1).map((part) => part.trim()));
      if (!Number.isFinite(weight)) return tag;
      loras.push({ name: name.trim(), strength: weight });
      return "";
    },
  );
  return { prompt: loras.length > 0 ? rest.replace(/ {2,}/g, " ").trim() : prompt, loras };
}

/** The strength of a denoiser in `text strength:denoiser strength`, of which each may have a name and the second be absent. */
function strengthOf(parts: readonly string[]): number {
  const [, named] = parts.map((part) => /^unet=(.*)$/.exec(part)).find((match) => match) ?? [];
  const plain = parts.filter((part) => !/^[a-z_]+=/i.test(part));
  const text = named ?? plain[1] ?? plain[0] ?? "1";
  return text.trim() === "" ? NaN : Number(text);
}

/** Names and values of `Steps: 20, Model: "a, b"`. What is not of that form is passed over. */
function* settingsIn(line: string): Generator<[name: string, value: string]> {
  for (let at = 0; at < line.length;) {
    const colon = line.indexOf(":", at);
    if (colon < 0) return;
    const before = line.slice(at, colon);
    const name = before.slice(before.lastIndexOf(",") + 1).trim();
    let start = colon + 1;
    while (line[start] === " ") start++;
    const comma = line.indexOf(",", line[start] === '"' ? endOfQuoted(line, start) : start);
    const end = comma < 0 ? line.length : comma;
    if (/^\w[\w /-]*$/.test(name)) yield [name, unquoted(line.slice(start, end).trim())];
    at = end + 1;
  }
}

/** Where a quoted text ends, which begins at `start`; the end of the line where it has no end. */
function endOfQuoted(line: string, start: number): number {
  for (let at = start + 1; at < line.length; at++) {
    if (line[at] === '"') return at;
    if (line[at] === "\\") at++;
  }
  return line.length;
}

function unquoted(text: string): string {
  if (!text.startsWith('"')) return text;
  try {
    return String(JSON.parse(text));
  } catch {
    return text;
  }
}
