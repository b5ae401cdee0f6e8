/** Texts of strangers in messages: shortened, and without control characters. */

/** The beginning of a text, short enough for a message, and a sign where more was there. */
export function shorten(text: string, most = 60): string {
  return text.length > most ? `${text.slice(0, most).toWellFormed()}…` : text;
}

/** What moves a cursor, changes colours, ends a line, or turns the direction of writing. */
// deno-lint-ignore no-control-regex
const CONTROLS = /[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Writes control characters as JSON does: nobody can write a line of their own, or speak to the terminal. */
export function escapeControls(text: string): string {
  return text.replace(
    CONTROLS,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
