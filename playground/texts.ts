/** The page's words, numbers and times, in the language of the browser or the one that was chosen. */

import { english, type Words } from "./english.ts";
import { memory, Store } from "./store.ts";

/** Languages by their tags, with their own names; all but English are fetched when they are needed. */
export const LANGUAGES: Readonly<Record<string, readonly [string, () => Promise<Words>]>> = {
  "en": ["English", () => Promise.resolve(english)],
  "de": ["Deutsch", async () => (await import("./german.ts")).german],
  "zh-Hans": ["简体中文", async () => (await import("./chinese.ts")).chinese],
  "ja": ["日本語", async () => (await import("./japanese.ts")).japanese],
};

export const language: Store<{ tag: string; words: Words }> = new Store<
  { tag: string; words: Words }
>({ tag: "en", words: english });

/** Speaks a language: by default the one that was chosen, or the first of the browser's that there is. */
export async function speak(tag: string = memory.read("language", ofBrowser())): Promise<void> {
  try {
    language.set({ tag, words: await LANGUAGES[tag]![1]() });
  } catch {
    // Another version of the page has other files, or the browser kept a language that is none.
    language.set({ tag: "en", words: english });
  }
  document.documentElement.lang = language.state.tag;
}

function ofBrowser(): string {
  const main = (tag: string) => tag.split("-")[0];
  for (const wanted of navigator.languages) {
    const found = Object.keys(LANGUAGES).find((tag) => main(tag) === main(wanted));
    if (found) return found;
  }
  return "en";
}

const SLOT = /\{(\w+)(?:\?([^:}]*):([^}]*))?\}/g;

/** A text with its values; numbers are written as the language does. */
export function t(
  key: keyof Words,
  values: Readonly<Record<string, string | number>> = {},
): string {
  const { tag, words } = language.state;
  const text = words[key];
  return text.replace(SLOT, (slot, name: string, one: string, others: string, at: number) => {
    const value = values[name]!;
    const written = typeof value === "number" ? numeral(value) : value;
    // An abbreviation at the end of a sentence has its full stop.
    if (one === undefined) {
      return text[at + slot.length] === "." ? written.replace(/\.$/, "") : written;
    }
    return `${written} ${new Intl.PluralRules(tag).select(Number(value)) === "one" ? one : others}`;
  });
}

/** The parts of a text: before a link or button, its own, and after it. */
export function parts(key: keyof Words): string[] {
  return t(key).split(/[<>]/);
}

/** The name of a setting, as the page calls it; that of requests where it has none. */
export function settingName(id: string): string {
  const { words } = language.state;
  const plain = id.replaceAll("_", " ");
  return words[`set_${id}` as keyof Words] ?? plain.charAt(0).toUpperCase() + plain.slice(1);
}

/** The name of a field of a recipe. */
export function fieldName(field: string): string {
  const own = { num_frames: "frames" }[field] ?? field;
  return language.state.words[own as keyof Words] ?? settingName(field);
}

/** What a setting does to the picture. */
export function settingHint(id: string): string | undefined {
  return language.state.words[`hint_${id}` as keyof Words];
}

/** What the server says, with the page's names of settings. */
export function plainly(message: string): string {
  const { words } = language.state;
  return message.replaceAll(
    /\b[a-z]+(?:_[a-z0-9]+)+\b/g,
    (name) => words[`set_${name}` as keyof Words] ?? name,
  );
}

export function numeral(value: number, options?: Intl.NumberFormatOptions): string {
  return new Intl.NumberFormat(language.state.tag, options).format(value);
}

/** A day as people look for it: `2026-11-28 November 28, 2026`. @param seconds Unix seconds */
export function dayOf(seconds: number): string {
  const date = new Date(1000 * seconds);
  const long = new Intl.DateTimeFormat(language.state.tag, { dateStyle: "long" });
  return `${new Intl.DateTimeFormat("sv").format(date)} ${long.format(date)}`;
}

/** `12 sec`, with the unit's name in `Intl`. */
function withUnit(value: number, unit: string, digits = 0): string {
  return numeral(value, {
    style: "unit",
    unit,
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}

/** `12 sec`, `3 min`. */
export function duration(seconds: number): string {
  if (seconds < 90) return withUnit(Math.max(1, Math.round(seconds)), "second");
  if (seconds < 5400) return withUnit(Math.round(seconds / 60), "minute");
  return withUnit(seconds / 3600, "hour", 1);
}

/** Seconds, with a digit after the point. */
export function exactSeconds(seconds: number): string {
  return withUnit(seconds, "second", 1);
}

/** `12 MB`, `3.4 GB`. */
export function sized(bytes: number): string {
  return bytes >= 1e9
    ? withUnit(bytes / 1e9, "gigabyte", 1)
    : withUnit(Math.ceil(bytes / 1e6), "megabyte");
}

export function rate(bytesPerSecond: number): string {
  return withUnit(bytesPerSecond / 1e6, "megabyte-per-second", 1);
}

/** A value of a recipe. */
export function valueText(value: unknown): string {
  if (Array.isArray(value)) return value.map(valueText).join(", ");
  if (typeof value === "number") {
    return numeral(value, { useGrouping: false, maximumFractionDigits: 6 });
  }
  if (typeof value !== "object" || value === null) return String(value ?? "");
  const { path, strength } = value as { path?: string; strength?: number };
  return path === undefined ? JSON.stringify(value) : `${path} (${valueText(strength)})`;
}

/** A share from 0 to 1 as whole percents, never more than is done. */
export function percent(share: number): string {
  return numeral(Math.floor(100 * share) / 100, { style: "percent" });
}
