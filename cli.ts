/** The command line: arguments in, exit code out. */

import { describeFailure } from "./commands/failure.ts";
import { normalizeArgs } from "./commands/flag_command.ts";
import { createProgram } from "./commands/program.ts";
import { SECTION_COMMAND } from "./report/section_process.ts";
import { announceProgramCommand, PROGRAM_COMMAND } from "./media/isolated/program.ts";
import { tell } from "./commands/print.ts";

/**
 * Runs the program.
 *
 * @returns the exit status: 0 done, 1 failed, 2 wrong usage, 130 cancelled
 */
async function main(args: readonly string[]): Promise<number> {
  let status = 0;
  const program = createProgram((ended) => status = ended);
  announceProgramCommand();
  try {
    if (args[0] === PROGRAM_COMMAND) {
      const { runMediaProgram } = await import("./commands/media_program.ts");
      return await runMediaProgram(args.slice(1));
    }
    if (args[0] === SECTION_COMMAND) {
      const { runSection } = await import("./report/section_program.ts");
      return await runSection();
    }
    const given = args.length > 0 ? normalizeArgs(args) : ["--help"];
    await program.parseAsync(given, { from: "user" });
    return status;
  } catch (error) {
    const failure = describeFailure(error);
    if (failure.sentence) tell(`denoise: ${failure.sentence}`);
    return failure.status;
  }
}

if (import.meta.main) Deno.exit(await main(Deno.args));
