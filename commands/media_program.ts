/** `denoise media-program …`: what a compiled executable runs in place of a program of ours; for denoise itself alone. */

import { PROGRAM_COMMAND } from "../media/isolated/program.ts";
import { UsageError } from "./failure.ts";

export async function runMediaProgram([name, ...args]: readonly string[]): Promise<number> {
  switch (name) {
    case "images": {
      const { runImageProgram } = await import("../media/isolated/image_program.ts");
      await giveUp(["read", "write"]);
      await runImageProgram();
      return 0;
    }
    case "ffmpeg": {
      const { runFfmpegProgram } = await import("../media/video/ffmpeg_program.ts");
      await giveUp([]);
      return await runFfmpegProgram(args);
    }
    default:
      throw new UsageError(`Cannot run ${PROGRAM_COMMAND} ${name ?? ""}: there is no such program`);
  }
}

/** An executable may do all that it was compiled with; a decoder needs nothing of it. */
async function giveUp(more: readonly ("read" | "write")[]): Promise<void> {
  for (const name of ["net", "run", "env", "ffi", "sys", ...more] as const) {
    await Deno.permissions.revoke({ name });
  }
}
