/** `denoise run`: a model draws one prompt after another. */

import { loadModel, type Model } from "../mod.ts";
import { describeFailure, UsageError } from "./failure.ts";
import { FlagCommand, flagOf, givenOf, normalizeArgs } from "./flag_command.ts";
import { ASK_FLAGS, type GenerateFlags, RUN_FLAGS, type RunFlags } from "./flags.ts";
import type { Media } from "./generate_flags.ts";
import { readRequest } from "./generate.ts";
import { makeResults, openWatch } from "./make_results.ts";
import { deviceOptions, partsOf } from "./model_options.ts";
import { openFile } from "./open_file.ts";
import { print, tell } from "./print.ts";
import { loadingBar } from "./progress_bar.ts";
import { promptLines } from "./prompt_lines.ts";
import { StopSignals } from "./stop_signals.ts";

const HELP = `Type what to make, or:
  /again             the last prompt with another seed
  /edit PROMPT       change the last image
  /video PROMPT      make a video
  /set FLAG VALUE    a flag of denoise generate for what follows, such as /set steps 8
  /unset FLAG        the flag as it was at the start
  /seed NUMBER       the seed for what follows; without a number: a new seed each time
  /show              what is set
  /open              open the last result
  /bye               end`;

interface Seams {
  readonly load: typeof loadModel;
  readonly lines: AsyncIterable<string>;
  /** Whether somebody types the lines. */
  readonly isTerminal: boolean;
}

/** Draws a prompt that was given; at a terminal, and without a prompt, every line that comes. */
export async function runRun(
  name: string,
  words: readonly string[],
  flags: RunFlags,
  { load, lines, isTerminal }: Seams = {
    load: loadModel,
    lines: promptLines(">>> "),
    isTerminal: Deno.stdin.isTerminal(),
  },
): Promise<number> {
  await using model = await loadFor(name, flags, load);
  const session = new Session(model, { ...flags, modelPath: name, server: false });
  const prompt = words.length > 0 ? words.join(" ") : flags.prompt;
  let status = prompt === undefined ? 0 : await session.answer(prompt);
  if (prompt !== undefined && !isTerminal) return status;
  if (isTerminal) tell(`${name} is ready: type what to make; /? shows what else there is`);
  for await (const line of lines) {
    const words = line.trim();
    if (words === "/bye") break;
    if (words !== "") status = await session.answer(words);
  }
  return isTerminal ? 0 : status;
}

async function loadFor(name: string, flags: RunFlags, load: typeof loadModel): Promise<Model> {
  const { bar, onNote } = openWatch(false);
  using stop = new StopSignals();
  try {
    return await load(name, {
      ...deviceOptions(flags),
      parts: partsOf(flags),
      signal: stop.signal,
      onLoadProgress: loadingBar(bar),
      onNote,
    });
  } finally {
    bar.clear();
  }
}

/** What a line asks for. */
interface Asked {
  readonly prompt: string;
  readonly image?: readonly string[];
  /** Without it, what the flags and the model make by default. */
  readonly media?: Media;
}

/** What was made last, and what is set for what follows. */
class Session {
  readonly #model: Model;
  readonly #flags: GenerateFlags;
  /** Arguments of `/set` by their flags. */
  readonly #set = new Map<string, readonly string[]>();
  #last: Asked | undefined;
  #path: string | undefined;

  constructor(model: Model, flags: GenerateFlags) {
    this.#model = model;
    this.#flags = flags;
  }

  /** Does what a line asks for and says what is wrong with it; the status is that of a command. */
  async answer(line: string): Promise<number> {
    try {
      await this.#do(line);
      return 0;
    } catch (error) {
      const { sentence, status } = describeFailure(error);
      tell(sentence);
      return status;
    }
  }

  async #do(line: string): Promise<void> {
    const [, command, rest = ""] = /^\/(\S*)\s*(.*)$/s.exec(line) ?? [];
    switch (command) {
      case undefined:
        return await this.#draw({ prompt: line });
      case "again":
        return await this.#draw(this.#last ?? missing("prompt"));
      case "edit":
        return await this.#draw({
          prompt: this.#promptOr(rest),
          image: [this.#lastImage()],
          media: "image",
        });
      case "video":
        return await this.#draw({ prompt: this.#promptOr(rest), media: "video" });
      case "set":
        return this.#setFlag(rest);
      case "unset":
        return void this.#set.delete(normalizeArgs([dashed(rest)])[0]!);
      case "seed":
        return this.#setFlag(`seed ${rest || NEW_SEED}`);
      case "show":
        return print([...this.#set.values()].map((args) => args.join(" ")).join("\n") || HELP_SET);
      case "open":
        return await openFile(this.#lastPath());
      case "":
      case "?":
      case "help":
        return print(HELP);
      default:
        throw new UsageError(`Cannot do /${command}: there is no such command; /? lists them`);
    }
  }

  #setFlag(words: string): void {
    const [name = "", ...values] = words.split(/\s+/);
    if (name === "") throw new UsageError(`Cannot set a flag: its name is missing; ${HELP_SET}`);
    const args = normalizeArgs([dashed(name), ...values]);
    const row = Object.entries(RUN_FLAGS).find(([row, flag]) => flagOf(row, flag) === args[0]);
    if (row && !(row[0] in ASK_FLAGS)) {
      throw new UsageError(
        `Cannot set ${args[0]}: the model is loaded with it; give it to denoise run`,
      );
    }
    read(args);
    this.#set.set(args[0]!, args);
  }

  async #draw(asked: Asked): Promise<void> {
    const { media, ...given } = asked;
    using stop = new StopSignals();
    const watch = { ...openWatch(true), signal: stop.signal };
    const flags = { ...this.#flags, ...read([...this.#set.values()].flat()), ...given };
    const request = await readRequest(flags, watch);
    this.#last = asked;
    try {
      const { words, paths } = await makeResults(
        this.#model,
        media ? { ...request, media } : request,
        watch,
      );
      this.#path = paths.at(-1)!;
      tell(words);
    } finally {
      watch.bar.clear();
    }
  }

  #promptOr(words: string): string {
    return words || (this.#last ?? missing("prompt")).prompt;
  }

  #lastPath(): string {
    return this.#path ?? missing("result");
  }

  #lastImage(): string {
    const path = this.#lastPath();
    if (path.endsWith(".mp4")) {
      throw new UsageError(`Cannot edit ${path}: it is a video; make an image first`);
    }
    return path;
  }
}

/** The value of `--seed` for another seed each time. */
const NEW_SEED = -1;

const HELP_SET = "Nothing is set; /set steps 8 sets the steps";

function missing(what: string): never {
  throw new UsageError(`Cannot go on from the last ${what}: there is none yet; type what to make`);
}

const dashed = (name: string) => `--${name.replace(/^-+/, "").replaceAll("_", "-")}`;

/** Values of flags as the command line has them. */
function read(args: readonly string[]): Partial<RunFlags> {
  const command = new FlagCommand("set").addFlags(ASK_FLAGS);
  command.parse([...args], { from: "user" });
  return givenOf(command, ASK_FLAGS);
}
