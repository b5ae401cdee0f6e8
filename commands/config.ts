/** `denoise config`: a user's own defaults. */

import { configFile } from "../hub/own_models.ts";
import { flagOf } from "./flag_command.ts";
import { type FlagTables, ownDefaults } from "./own_defaults.ts";
import { columns, print, tell } from "./print.ts";

/** Lists the defaults that are set, by command. */
export async function runConfig(tables: FlagTables): Promise<number> {
  const rows: string[][] = [];
  for (const [command, table] of tables) {
    for (const [row, { text, place }] of await ownDefaults(command, tables)) {
      rows.push([command, flagOf(row, table[row]!), isSecret(row) ? "…" : text, place]);
    }
  }
  if (rows.length > 0) print(columns(rows));
  else tell(`No defaults are set; ${configFile() ?? "a config.json"} may have them`);
  return 0;
}

const isSecret = (row: string) => /key|secret|databaseUrl/i.test(row);
