/** Cells of a row of the terminal; undefined where there is none, or it does not tell. */
export function terminalColumns(): number | undefined {
  try {
    return Deno.consoleSize().columns || undefined;
  } catch {
    return undefined;
  }
}
