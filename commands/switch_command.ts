/** Switches of commands that also take words. */

import { Command, type Option, type ParseOptionsResult } from "commander";
import { UsageError } from "./failure.ts";
import { boolean, isBoolean } from "./flags.ts";

const INPUTS = ["prompt", "negative-prompt", "mask", "control", "video", "from"];

/** A command that takes the word after a switch, such as `--json MODEL`, for its own unless it is true or false. */
export class SwitchCommand extends Command {
  /** Adds an option. A second prompt, mask, control picture or video is refused; of other options the last value counts. */
  override addOption(option: Option): this {
    super.addOption(option);
    let count = 0;
    this.on(`option:${option.name()}`, () => {
      if (++count < 2 || !INPUTS.includes(option.name())) return;
      throw new UsageError(`Cannot use ${option.long} twice: it takes one value`);
    });
    return this;
  }

  /** Reads flags; the rest is left to commander. */
  override parseOptions(args: string[]): ParseOptionsResult {
    return super.parseOptions(this.registeredArguments.length > 0 ? this.#closed(args) : args);
  }

  /** The arguments with `--switch=true` for `--switch` where no value of it follows. */
  #closed(args: readonly string[]): string[] {
    const closed = [...args];
    for (let index = 0; index < args.length && args[index] !== "--"; index++) {
      const option = this.options.find(({ long }) => long === args[index]);
      if (option?.required) index++;
      else if (option?.parseArg === boolean && !isBoolean(args[index + 1] ?? "")) {
        closed[index] = `${args[index]}=true`;
      }
    }
    return closed;
  }
}
