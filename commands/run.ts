/** `denoise run`: a model draws one prompt after another. */

import { obtainLora, readHubLora } from "../hub/lora_file.ts";
import { BUNDLED_LORAS } from "../models/lora/bundled.ts";
import { loadModel, type Model } from "../mod.ts";
import { completeSettings } from "../generation/settings.ts";
import { checkSize } from "../generation/size.ts";
import { describeFailure, UsageError } from "./failure.ts";
import { flagName } from "./field_flags.ts";
import { FlagCommand, flagOf, givenOf, normalizeArgs } from "./flag_command.ts";
import { ASK_FLAGS, type GenerateFlags, RUN_FLAGS, type RunFlags } from "./flags.ts";
import { type Media, present } from "./generate_flags.ts";
import { readRequest } from "./generate.ts";
import { makeResults, openWatch, tellToy } from "./make_results.ts";
import { deviceOptions, partsOf } from "./model_options.ts";
import { openFile } from "./open_file.ts";
import { print, tell } from "./print.ts";
import { loadingBar } from "./progress_bar.ts";
import { promptLines } from "./prompt_lines.ts";
import { StopSignals } from "./stop_signals.ts";

const HELP = `Type what to make, or:
  /again             the last prompt with another seed, or the one of /seed
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
  tellToy(name, { onNote });
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
        return this.#unset(rest);
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

  async #setFlag(words: string): Promise<void> {
    const [, name = "", rest = ""] = /^(\S*)\s*(.*)$/s.exec(words)!;
    if (!/[a-z]/i.test(name)) {
      throw new UsageError(`Cannot set a flag: its name is missing; ${HELP_SET}`);
    }
    const [flag = "", joined] = normalizeArgs([dashed(name)])[0]!.split(/=(.*)/s);
    const row = Object.entries(RUN_FLAGS).find(([row, each]) => flagOf(row, each) === flag);
    if (row && !(row[0] in ASK_FLAGS)) {
      throw new UsageError(
        `Cannot set ${flag}: the model is loaded with it; give it to denoise run`,
      );
    }
    const value = joined ?? rest.trim().replace(/^(["'])(.*)\1$/s, "$2");
    // A flag of one value takes all words; one of several takes each.
    const values = row?.[1].placeholder?.endsWith("...") ? value.split(/\s+/) : [value];
    const args = [flag, ...values.filter(Boolean)];
    try {
      await this.#check(new Map([...this.#set, [flag, args]]));
    } catch (error) {
      const { sentence } = describeFailure(error);
      if (sentence.startsWith("Cannot")) throw error;
      throw new UsageError(`Cannot set ${args.join(" ")}: ${sentence.replace(/^error: /, "")}`);
    }
    this.#set.set(flag, args);
  }

  /** Refuses at once what every request after it would be refused for. */
  async #check(set: ReadonlyMap<string, readonly string[]>): Promise<void> {
    const { info } = this.#model;
    const given = read([...set.values()].flat());
    const { options } = await readRequest({ ...this.#flags, ...given, prompt: "a" }, {
      onNote: () => {},
    });
    for (const { path } of given.lora ?? []) {
      // Those of the hub are fetched when they are drawn with.
      if (!(path in BUNDLED_LORAS) && !readHubLora(path)) await obtainLora(path);
    }
    const { width, height } = options;
    if (width !== undefined || height !== undefined) {
      checkSize({ ...info.defaults, ...present({ width, height }) }, info);
    }
    // A setting of one task may do nothing in others.
    const [first, ...others] = info.supportedTasks.map((task) =>
      completeSettings(given, task, info, flagName).idle
    );
    for (const [name, why] of first ?? []) {
      if (others.some((idle) => !idle.has(name))) continue;
      throw new RangeError(`Cannot set ${flagName(name)}: ${why}`);
    }
  }

  #unset(name: string): void {
    const flag = normalizeArgs([dashed(name)])[0]!;
    if (this.#set.delete(flag)) return;
    throw new UsageError(`Cannot unset ${flag}: it is not set; /show lists what is`);
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
    if (/\.(?:mp4|wav)$/.test(path)) {
      throw new UsageError(`Cannot edit ${path}: it is no image; make one first`);
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
