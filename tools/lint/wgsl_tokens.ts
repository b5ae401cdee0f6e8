/** Cuts WGSL into tokens. */

export interface Token {
  kind: "name" | "number" | "op";
  text: string;
  /** Counted from 1. */
  line: number;
}

const NUMBER =
  /0[xX](?:[\da-fA-F]+\.?[\da-fA-F]*|\.[\da-fA-F]+)(?:[pP][+-]?\d+)?[iufh]?|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:[iufh]|l[iuf])?/y;
const NAME = /[\p{XID_Start}_]\p{XID_Continue}*/uy;
// What begins with `>` is left apart: in `array<vec4<f32>>=` it closes two lists, then assigns.
const OPERATOR = /->|<<=|<<|<=|==|!=|&&|\|\||\+\+|--|[-+*\/%&|^]=|[-+*\/%&|^~!<>=(){}\[\];:,.@]/y;
const SPACE = /\s+|\/\/[^\n]*/y;

/** The end of a block comment, which may hold others, that starts at `start`. */
function endOfComment(source: string, start: number): number {
  let depth = 0;
  for (let i = start; i < source.length; i++) {
    if (source.startsWith("/*", i)) depth++;
    else if (source.startsWith("*/", i)) depth--;
    else continue;
    i++;
    if (depth === 0) return i + 1;
  }
  return source.length;
}

/** The tokens of a shader, without comments and space. */
export function tokenizeWgsl(source: string): Token[] {
  const tokens: Token[] = [];
  let line = 1;
  let at = 0;
  const match = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at;
    return pattern.exec(source)?.[0];
  };
  const advance = (text: string) => {
    at += text.length;
    for (const c of text) if (c === "\n") line++;
  };
  while (at < source.length) {
    if (source.startsWith("/*", at)) {
      advance(source.slice(at, endOfComment(source, at)));
      continue;
    }
    const space = match(SPACE);
    if (space) {
      advance(space);
      continue;
    }
    const name = match(NAME);
    const number = name ? undefined : match(NUMBER);
    const text = name ?? number ?? match(OPERATOR);
    if (text === undefined) {
      throw new SyntaxError(`Cannot read the shader: line ${line} has "${source[at]}"`);
    }
    tokens.push({ kind: name ? "name" : number ? "number" : "op", text, line });
    advance(text);
  }
  return tokens;
}
