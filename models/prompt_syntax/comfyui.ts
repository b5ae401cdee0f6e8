/**
 * Weights of prompts as ComfyUI reads them: `(x)` is worth 1.1 times what is around it, `(x:1.3)` exactly 1.3; `\(` is a
 * parenthesis, and one without its partner is text.
 */
import { checkOpen, type WeightedText } from "./weighted_text.ts";

const STEP = 1.1;
/** Stand for escaped parentheses while the others are looked for. */
const [OPEN_TEXT, CLOSE_TEXT] = ["\x01", "\x02"];

export function parseComfyUi(prompt: string): WeightedText[] {
  const escaped = prompt.replaceAll(OPEN_TEXT, " ").replaceAll(CLOSE_TEXT, " ")
    .replaceAll("\\(", OPEN_TEXT).replaceAll("\\)", CLOSE_TEXT);
  return weighted(escaped, 1, 0).map(({ text, weight }) => ({
    text: text.replaceAll(OPEN_TEXT, "(").replaceAll(CLOSE_TEXT, ")"),
    weight,
  }));
}

function weighted(text: string, weight: number, depth: number): WeightedText[] {
  checkOpen(depth);
  return itemsOf(text).flatMap((item) => {
    if (!(item.length >= 2 && item.startsWith("(") && item.endsWith(")"))) {
      return [{ text: item, weight }];
    }
    const inside = item.slice(1, -1);
    const colon = inside.lastIndexOf(":");
    const own = colon > 0 ? numberIn(inside.slice(colon + 1)) : undefined;
    return own === undefined
      ? weighted(inside, weight * STEP, depth + 1)
      : weighted(inside.slice(0, colon), own, depth + 1);
  });
}

/** Groups in parentheses, and what stands between them. A group that never ends has no closing parenthesis. */
function itemsOf(text: string): string[] {
  const items: string[] = [];
  let [level, start] = [0, 0];
  const end = (place: number) => {
    if (place > start) items.push(text.slice(start, place));
    start = place;
  };
  for (let place = 0; place < text.length; place++) {
    if (text[place] === "(") {
      if (level === 0) end(place);
      level++;
    } else if (text[place] === ")") {
      level--;
      if (level === 0) end(place + 1);
    }
  }
  end(text.length);
  return items;
}

/** A number as Python reads it. */
function numberIn(text: string): number | undefined {
  const value = /^[-+.\de]+$/i.test(text.trim()) ? Number(text) : NaN;
  return Number.isFinite(value) ? value : undefined;
}
