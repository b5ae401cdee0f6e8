/** Flags of the command line, as rows of tables, and readers of their values. */

/**
 * A flag. The name of its row is the property that has its value.
 *
 * @typeParam Value what the flag's text is read as
 * @typeParam IsSure whether there is a value even if nobody gives one
 */
export interface Flag<Value, IsSure extends boolean = boolean> extends FlagDetails<Value> {
  /** Takes a value; `--x`, `--x true` and `--x=false`; `--x` alone; or `--no-x`, which makes it false. */
  readonly kind: "value" | "switch" | "on" | "off";
  /** One clause for the help. */
  readonly text: string;
  /** Name of the value in the help. */
  readonly placeholder: string;
  /** Whether it has a default or must be given. */
  readonly isSure: IsSure;
}

/** What not every flag has. */
export interface FlagDetails<Value> {
  /**
   * Reads the value; a flag that may be repeated gets its earlier values.
   *
   * @throws {RangeError} that says in one sentence what the text must be
   */
  read?(text: string, before?: Value): Value;
  /** The flag, if it is not the row's name with dashes. */
  readonly flag?: string;
  /** One letter that stands for it, such as `-p`. */
  readonly short?: string;
  /** Value if the flag is omitted. */
  readonly default?: Value;
  /** The default in the words of the help, if they are not the value. */
  readonly shown?: string;
  /** All values that there are. */
  readonly choices?: readonly Value[];
  /** Whether the command needs it. */
  readonly isMandatory?: boolean;
}

/** A table of flags. */
export type Flags = Readonly<Record<string, Flag<unknown>>>;

/** The values of a table's flags by the names of their rows. */
export type FlagValues<Table> =
  & {
    [Name in keyof Table as Table[Name] extends Flag<infer _, true> ? Name : never]:
      Table[Name] extends Flag<infer Value> ? Value : never;
  }
  & {
    [Name in keyof Table as Table[Name] extends Flag<infer _, true> ? never : Name]?:
      Table[Name] extends Flag<infer Value> ? Value : never;
  };

type IsSure<Details> = Details extends { default: unknown } | { isMandatory: true } ? true : false;
type ValueOf<Details> = Details extends { choices: readonly (infer Value)[] } ? Value
  : Details extends { read: (text: string, before?: never) => infer Value } ? Value
  : string;

/** A flag with a value: a text, one of some choices, or what a reader makes of the text. */
export function flag<const Details extends FlagDetails<unknown>>(
  placeholder: string,
  text: string,
  details: Details = {} as Details,
): Flag<ValueOf<Details>, IsSure<Details>> {
  const isSure = (details.default !== undefined || details.isMandatory === true) as IsSure<Details>;
  return { kind: "value", text, placeholder, ...details as FlagDetails<ValueOf<Details>>, isSure };
}

/** A flag that is true or false: `--x`, `--x true`, `--x=false`. */
export function onOff(text: string, details: FlagDetails<boolean> = {}): Flag<boolean, true> {
  const given = { placeholder: "boolean", isSure: true, read: boolean, default: false } as const;
  return { kind: "switch", text, ...given, ...details };
}

/** A flag that is true if it is given, and takes no value. */
export function on(text: string): Flag<boolean, true> {
  return { kind: "on", text, placeholder: "", isSure: true, default: false };
}

/** A flag that makes a property false, which is true otherwise: `--no-x`. */
export function off(text: string, details: FlagDetails<boolean> = {}): Flag<boolean, true> {
  return { kind: "off", text, placeholder: "", isSure: true, default: true, ...details };
}

/** The defaults of a table. */
export function defaultsOf<Table extends Flags>(table: Table): FlagValues<Table> {
  const known = Object.entries(table).filter(([, flag]) => flag.default !== undefined);
  return Object.fromEntries(known.map(([name, flag]) => [name, flag.default])) as FlagValues<Table>;
}

/** Collects the values of a flag that may be repeated. */
export function texts(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}

const BOOLEANS: ReadonlyMap<string, boolean> = new Map([
  ...["true", "1", "yes", "on"].map((word) => [word, true] as const),
  ...["false", "0", "no", "off"].map((word) => [word, false] as const),
]);

/** Reads the value of a switch, such as `true` or `off`. */
export function boolean(text: string): boolean {
  const value = BOOLEANS.get(text.toLowerCase());
  if (value === undefined) throw new RangeError("It must be true or false.");
  return value;
}

/** Whether {@linkcode boolean} can read a text. */
export function isBoolean(text: string): boolean {
  return BOOLEANS.has(text.toLowerCase());
}

/** Makes a reader of integers of a range. */
export function integer(
  lowest: number,
  highest: number = Number.MAX_SAFE_INTEGER,
): (text: string) => number {
  return (text) => {
    const value = /^[+-]?\d+$/.test(text.trim()) ? Number(text) : NaN;
    if (Number.isSafeInteger(value) && value >= lowest && value <= highest) return value;
    const isBounded = highest < Number.MAX_SAFE_INTEGER || Number(text) > highest;
    const range = isBounded ? `from ${lowest} to ${highest}` : `of at least ${lowest}`;
    throw new RangeError(`It must be an integer ${range}.`);
  };
}

/** Reads a number of at least 0. */
export function nonNegative(text: string): number {
  const value = text.trim() === "" ? NaN : Number(text);
  if (Number.isFinite(value) && value >= 0) return value;
  throw new RangeError("It must be a number of at least 0.");
}

/** Reads a number above 0. */
export function positive(text: string): number {
  const value = Number(text);
  if (Number.isFinite(value) && value > 0) return value;
  throw new RangeError("It must be a number above 0.");
}

const UNITS = ["", "k", "m", "g", "t"];

/** Reads an amount of memory, such as `8`, `8G`, `8GiB`, `6.5g` or `900M`, as bytes; GiB by default. */
export function memory(text: string): number {
  const match = /^(\d+(?:\.\d+)?)\s*([kmgt])?(?:i?b)?$/i.exec(text.trim());
  const unit = UNITS.indexOf(match?.[2]?.toLowerCase() ?? "g");
  const bytes = Math.floor(Number(match?.[1]) * 1024 ** unit);
  if (bytes > 0) return bytes;
  throw new RangeError("It must be an amount of memory such as 8G or 900M.");
}

const DURATION_MS: Readonly<Record<string, number>> = {
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

/** Reads a length of time, such as `90s`, `30m`, `12h`, `7d`, `1.5d`, `2w`, or `0`, as milliseconds. */
export function duration(text: string): number {
  const [, count, unit] = /^(\d+(?:\.\d+)?)\s*([smhdw])?$/i.exec(text.trim()) ?? [];
  const ms = Math.round(Number(count) * (unit ? DURATION_MS[unit.toLowerCase()]! : 0));
  // A number alone could be meant in any unit; only of nothing there is no doubt.
  const isClear = unit !== undefined || Number(count) === 0;
  if (isClear && Number.isSafeInteger(ms)) return ms;
  throw new RangeError("It must be a length of time such as 30m, 12h or 7d, or 0.");
}

/** Reads a number of seconds as milliseconds. */
export function seconds(text: string): number {
  return nonNegative(text) * 1000;
}

/** Reads a web address, without a query, a user and a slash at the end. */
export function address(text: string): string {
  const url = URL.parse(text.trim());
  const isPlain = url !== null && /^https?:$/.test(url.protocol) && url.username === "" &&
    url.search === "" && url.hash === "";
  if (isPlain) return url.href.replace(/(?<!\/)\/+$/, "");
  throw new RangeError("It must be an address such as https://images.example.org.");
}
