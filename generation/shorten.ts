/** Repeating what somebody wrote. */

/**
 * A text short enough to be repeated in a message.
 *
 * @returns the beginning, and a sign that more was there
 */
export function shorten(text: string, most = 60): string {
  return text.length > most ? `${text.slice(0, most).toWellFormed()}…` : text;
}
