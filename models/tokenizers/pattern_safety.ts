/**
 * Patterns of a `tokenizer.json`, which are written for Oniguruma, whose classes are Unicode's, and whether JavaScript may
 * take for ever to match one. It tries one way after the other, so what counts is in how many ways the same text can be
 * matched before something fails: exponentially many where a repeated group repeats something, as many as a power of the
 * length where two neighbours repeat the same characters.
 *
 * The check refuses more than it must. A test has the patterns of known tokenizers, all of which pass.
 *
 * Source: Weideman et al. 2016, "Analyzing Matching Time Behavior of Backtracking Regular Expression Matchers by Using
 * Ambiguity of NFA".
 */
import { excerpt } from "../../hub/json_file.ts";
import type { JsonReader } from "./json_fields.ts";

/** What Oniguruma means by an escape where JavaScript means something narrower. */
const CLASSES: Readonly<Record<string, string>> = {
  "\\s": "\\p{White_Space}",
  "\\S": "\\P{White_Space}",
  "\\d": "\\p{Nd}",
  "\\D": "\\P{Nd}",
  "\\h": "[0-9A-Fa-f]",
};

/** The pattern of a field as a global regular expression. */
export function compilePattern(json: JsonReader, key: string): RegExp {
  const source = json.string(key);
  let pattern: RegExp;
  let risk: string | undefined;
  try {
    pattern = translatePattern(source);
    risk = findRisk(source, translatePattern);
  } catch {
    throw json.error(key, `is a pattern that cannot be used here: ${excerpt(source)}`);
  }
  if (risk === undefined) return pattern;
  throw json.error(key, `is a pattern that could take for ever: ${risk}: ${excerpt(source)}`);
}

/** A pattern as a global regular expression. */
export function translatePattern(source: string): RegExp {
  return new RegExp(source.replace(/\\./gsu, (escape) => CLASSES[escape] ?? escape), "gu");
}

/** Repetitions beyond this count as any number. */
const FEW = 16;
/** Ways through the choices of a pattern that are looked at. */
const MAX_PATHS = 512;
/** Ways in which a pattern may match the same text. */
const MAX_WAYS = 2048;
/** What any number of repetitions counts as, next to others of the same characters, and by itself. */
const MANY = { shared: 256, alone: 64 };

/** A part of a pattern that matches one character, a group, or what looks around without matching. */
type Node =
  /** `source` as the pattern has it, such as `\s` or `[a-z]`. */
  | { readonly kind: "set"; readonly source: string }
  | { readonly kind: "group"; readonly options: readonly Item[][] }
  | { readonly kind: "look"; readonly options: readonly Item[][] };

interface Item {
  readonly node: Node;
  readonly min: number;
  readonly max: number;
}

/** A set of characters that is repeated; all characters where it is undefined. */
interface Step {
  readonly source: string | undefined;
  readonly min: number;
  readonly max: number;
  /** Whether the node looks around: it may fail, and matches nothing. */
  readonly isLook?: boolean;
  /** Whether the node is in a group that may be left out: when it fails, the rest goes on without. */
  readonly isOptional?: boolean;
}

/** Why a pattern could take for ever, as a clause; nothing where it cannot. */
export function findRisk(
  source: string,
  compileSet: (source: string) => RegExp,
): string | undefined {
  if (/\\(?:[1-9]|k<)/.test(source.replace(/\\\\/g, ""))) {
    return "it refers back to what it matched";
  }
  const options = new PatternParser(source).parse();
  const sets = new CharacterSets(compileSet);
  return riskOf(options, sets);
}

function riskOf(options: readonly Item[][], sets: CharacterSets): string | undefined {
  for (const { node, min, max } of options.flat()) {
    if (node.kind === "set") continue;
    const inner = node.options.flat();
    if (node.kind === "group" && max > 1) {
      const isVariable = node.options.length > 1 || inner.some(isVariableItem);
      if (inner.some(isRepeated) || (isVariable && (min !== max || max > 2))) {
        return "it repeats a group that repeats";
      }
    }
    const risk = riskOf(node.options, sets);
    if (risk) return risk;
  }
  const paths = pathsOf(options.map(upToFailure));
  if (!paths) return "it has too many choices";
  const ways = paths.reduce((sum, path) => sum + waysOf(path, sets), 0);
  return ways > MAX_WAYS ? "it repeats the same characters twice, one after the other" : undefined;
}

/** What may fail, and what is before it: nothing is tried again for what comes behind. */
function upToFailure(items: readonly Item[]): Item[] {
  return items.slice(
    0,
    1 + items.findLastIndex(({ node, min }) => node.kind === "look" || min > 0),
  );
}

function isVariableItem({ node, min, max }: Item): boolean {
  if (min !== max) return true;
  return node.kind === "group" &&
    (node.options.length > 1 || node.options.flat().some(isVariableItem));
}

function isRepeated({ node, max }: Item): boolean {
  return max > FEW || (node.kind === "group" && node.options.flat().some(isRepeated));
}

/** Every way through the choices, as a row of steps; nothing where there are too many. */
function pathsOf(options: readonly Item[][]): Step[][] | undefined {
  const all: Step[][] = [];
  for (const items of options) {
    let paths: Step[][] = [[]];
    for (const item of items) {
      const tails = tailsOf(item);
      if (!tails || paths.length * tails.length > MAX_PATHS) return undefined;
      paths = paths.flatMap((path) => tails.map((tail) => [...path, ...tail]));
    }
    all.push(...paths);
    if (all.length > MAX_PATHS) return undefined;
  }
  return all;
}

function tailsOf({ node, min, max }: Item): Step[][] | undefined {
  if (node.kind === "set") return [[{ source: node.source, min, max }]];
  if (node.kind === "look") return [[{ source: undefined, min: 0, max: 0, isLook: true }]];
  if (max > 1) return [[{ source: undefined, min, max }]];
  const inner = pathsOf(node.options);
  if (min > 0 || !inner) return inner;
  return [...inner.map((path) => path.map((step) => ({ ...step, isOptional: true }))), []];
}

/** In how many ways repetitions can share a text between them before something behind them fails. */
function waysOf(path: readonly Step[], sets: CharacterSets): number {
  const sharing = new Set<Step>();
  const alone = new Set<Step>();
  for (const [i, first] of path.entries()) {
    if (first.min === first.max) continue;
    if (first.max > FEW && mayFail(path.slice(i + 1))) alone.add(first);
    let shared = sets.of(first.source);
    for (const [k, second] of path.slice(i + 1).entries()) {
      if (second.isLook || shared.size === 0) break;
      const both = shared.intersection(sets.of(second.source));
      const isShared = second.min !== second.max && both.size > 0;
      if (isShared && mayFail(path.slice(i + k + 2))) sharing.add(first).add(second);
      // What must stand between them has to match the same characters, too.
      if (second.min > 0) shared = both;
    }
  }
  const ways = [...sharing].map(({ min, max }) => max > FEW ? MANY.shared : max - min + 1)
    .reduce((product, count) => product * count, 1);
  return Math.max(ways, alone.size > 0 ? MANY.alone : 1);
}

function mayFail(path: readonly Step[]): boolean {
  return path.some(({ isLook, isOptional, min }) => !isOptional && (isLook || min > 0));
}

/** Characters that stand for all: every one of the first scripts, and some of each later one. */
const SAMPLE = [
  ...Array.from({ length: 0x3100 }, (_, code) => code),
  ...Array.from({ length: 0x1d00 }, (_, i) => 0x3100 + 37 * i),
].filter((code) => code < 0xd800 || code > 0xdfff).map((code) => String.fromCodePoint(code));

/** Sets of characters as places in {@linkcode SAMPLE}. */
class CharacterSets {
  readonly #compile: (source: string) => RegExp;
  readonly #known = new Map<string, ReadonlySet<number>>();

  constructor(compile: (source: string) => RegExp) {
    this.#compile = compile;
  }

  /** Characters of a part of a pattern; all where it is undefined. */
  of(source: string | undefined): ReadonlySet<number> {
    const key = source ?? "[^]";
    const known = this.#known.get(key);
    if (known) return known;
    const regex = source === undefined ? /[^]/u : this.#compile(source);
    const found = new Set<number>();
    SAMPLE.forEach((character, i) => {
      regex.lastIndex = 0;
      if (regex.test(character)) found.add(i);
    });
    this.#known.set(key, found);
    return found;
  }
}

/** Reads a pattern, as far as its repetitions and choices go. */
class PatternParser {
  readonly #source: string;
  #at = 0;

  constructor(source: string) {
    this.#source = source;
  }

  parse(): Item[][] {
    const options = this.#options();
    if (this.#at < this.#source.length) throw this.#error();
    return options;
  }

  #options(): Item[][] {
    const options: Item[][] = [[]];
    while (this.#at < this.#source.length && this.#source[this.#at] !== ")") {
      if (this.#take(/\|/y)) options.push([]);
      else options.at(-1)!.push(this.#item());
    }
    return options;
  }

  #item(): Item {
    const node = this.#node();
    const [, from, hasRange, to] = this.#take(/\{(\d+)(,?)(\d*)\}/y) ?? [];
    const sign = from === undefined ? this.#take(/[*+?]/y)?.[0] : undefined;
    // Whether as many as possible are tried first makes no difference here.
    if (sign !== undefined || from !== undefined) this.#take(/\?/y);
    if (from !== undefined) {
      return { node, min: Number(from), max: to ? Number(to) : hasRange ? Infinity : Number(from) };
    }
    return {
      node,
      min: sign === "*" || sign === "?" ? 0 : 1,
      max: sign === "*" || sign === "+" ? Infinity : 1,
    };
  }

  #node(): Node {
    const look = this.#take(/\(\?<?[=!]|\\[bB]|[$^]/y)?.[0];
    if (look !== undefined && !look.startsWith("(")) return { kind: "look", options: [[]] };
    if (look !== undefined) return { kind: "look", options: this.#group() };
    if (this.#take(/\((?:\?(?:[a-z]*(?:-[a-z]+)?:|<[\w$]+>))?/y)) {
      return { kind: "group", options: this.#group() };
    }
    const set = this.#take(
      /\[(?:\\.|[^\]\\])*\]|\\[pPu]\{[^}]*\}|\\u[\da-fA-F]{4}|\\x[\da-fA-F]{2}|\\.|[^()[\]|*+?\\]/suy,
    );
    if (!set) throw this.#error();
    return { kind: "set", source: set[0] };
  }

  #group(): Item[][] {
    const options = this.#options();
    if (!this.#take(/\)/y)) throw this.#error();
    return options;
  }

  #take(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#source) ?? undefined;
    if (match) this.#at += match[0].length;
    return match;
  }

  #error(): SyntaxError {
    return new SyntaxError(`Cannot read the pattern at its character ${this.#at}`);
  }
}
