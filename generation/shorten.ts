/**
 * Repeating what somebody wrote.
 *
 * @module
 */

/**
 * A text short enough to be repeated in a message.
 *
 * @param text of any length
 * @returns at most 60 characters and a sign that more was there
 */
export function shorten(text: string): string {
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}
