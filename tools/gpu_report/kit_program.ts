/** What a kit runs: `denoise report` and nothing else of the program, so that the kit stays small. */

import { parseArgs } from "node:util";
import { describeFailure, UsageError } from "../../commands/failure.ts";
import { runReportCommand } from "../../commands/report.ts";
import { SECTION_COMMAND } from "../../report/section_process.ts";
import { runSection } from "../../report/section_program.ts";

/** Options, as those of `denoise report`. */
const OPTIONS = {
  out: { type: "string", default: "gpu-report" },
  minutes: { type: "string", default: "10" },
  sections: { type: "string" },
  torch: { type: "string" },
  "gpu-backend": { type: "string" },
  software: { type: "boolean" },
} as const;

async function main(args: string[]): Promise<number> {
  if (args[0] === SECTION_COMMAND) return await runSection();
  const { values } = parseArgs({ args, options: OPTIONS });
  const minutes = Number(values.minutes);
  if (!(minutes > 0)) throw new UsageError(`Cannot take ${values.minutes} minutes: give a number`);
  const backend = (["deno", "dawn"] as const).find((each) => each === values["gpu-backend"]);
  if (values["gpu-backend"] !== undefined && !backend) {
    throw new UsageError(`Cannot use ${values["gpu-backend"]}: it is deno or dawn`);
  }
  return await runReportCommand({
    out: values.out,
    minutes,
    ...(values.sections !== undefined && { sections: values.sections }),
    ...(values.torch !== undefined && { torch: values.torch }),
    ...(backend && { gpuBackend: backend }),
    forceSoftware: values.software === true,
  });
}

if (import.meta.main) {
  try {
    Deno.exit(await main(Deno.args));
  } catch (error) {
    const { sentence, status } = describeFailure(error);
    console.error(`denoise: ${sentence}`);
    Deno.exit(status);
  }
}
