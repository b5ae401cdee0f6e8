/** Sheets that were started here: kept by this browser, while the server keeps their jobs. */

import { memory, Store } from "./store.ts";

/** The settings by their ids, their values, and for each pair the id of its job, row by row. */
export interface Sheet {
  axes: readonly [string, string];
  columns: readonly string[];
  rows: readonly string[];
  ids: readonly string[];
}

const MAX_SHEETS = 20;

/** The newest first, and which one is looked at. */
export const sheets: Store<{ list: readonly Sheet[]; shown: Sheet | undefined }> = new Store<
  { list: readonly Sheet[]; shown: Sheet | undefined }
>(opened(memory.read<readonly Sheet[]>("sheets", [])));

function opened(list: readonly Sheet[]) {
  return { list, shown: list[0] };
}

/** Keeps a sheet, in place of an earlier state of it. */
export function keepSheet(sheet: Sheet, before?: Sheet): void {
  const list = [sheet, ...sheets.state.list.filter((other) => other !== before)];
  sheets.set(opened(list.slice(0, MAX_SHEETS)));
  memory.write("sheets", sheets.state.list);
}

/** The sheet that a job is of. */
export function sheetOf(id: string): Sheet | undefined {
  return sheets.state.list.find(({ ids }) => ids.includes(id));
}
