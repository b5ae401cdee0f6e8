/**
 * Repeating what somebody wrote.
 *
 * @module
 */

/**
 * A text short enough to be repeated in a message.
 *
 * @param text of any length
 * @param most characters that are kept
 * @returns the beginning, and a sign that more was there
 */
export function shorten(text: string, most = 60): string {
  return text.length > most ? `${text.slice(0, most).toWellFormed()}…` : text;
}
