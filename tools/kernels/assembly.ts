/**
 * What the loops of AMD's assembly are made of, and a bound for how much of the peak of f32 they can reach.
 *
 * The model counts issue slots alone: a SIMD issues one vector instruction at a time. No cache misses, no bank conflicts, no
 * waits, and no limit to which registers two instructions may share: a loop can be slower, not faster.
 */

/**
 * Of a GPU: clocks of a vector instruction for a wave of 64, whether the halves of such a wave go through two ALUs at once
 * (in instructions that both have), and how many SIMDs share the 128 bytes of workgroup memory in a clock.
 */
function generationOf(family: string): { clocks: number; isDual: boolean; simds: number } {
  if (/^(?:navi3|gfx1[12])/.test(family)) return { clocks: 2, isDual: true, simds: 2 };
  if (/^navi[12]/.test(family)) return { clocks: 2, isDual: false, simds: 2 };
  return { clocks: 4, isDual: false, simds: 4 };
}

const LDS_BYTES_PER_CLOCK = 128;

/** Kinds of instructions, and how their names begin; the first that fits. */
const KINDS = {
  fma: /^v_(?:dual_)?(?:fma|mac|mad|dot|pk_fma)\w*_(?:f32|f16|i32_i8|i32_iu8)|^v_fma_mix/,
  alu: /^v_/,
  ldsRead: /^ds_(?:load|read)/,
  ldsWrite: /^ds_/,
  load: /^(?:buffer|global|flat)_load/,
  store: /^(?:buffer|global|flat)_/,
  scratch: /^scratch_/,
  wait: /^s_wait/,
  barrier: /^s_barrier/,
  branch: /^s_c?branch/,
  hint: /^s_(?:delay|nop|clause|set_inst|inst_pref|code_end)/,
  scalar: /^s_/,
} as const;

export type Kind = keyof typeof KINDS;

/** Both ALUs of RDNA 3 have these. */
const DUAL =
  /^v_(?:fma|fmac|fmaak|fmamk|mul|add|sub|subrev|min|max)_(?:num_)?f(?:16|32)|^v_(?:mov|cndmask)_b32/;
/** These have a quarter of the lanes. */
const TRANSCENDENTAL = /^v_(?:exp|log|rcp|rsq|sqrt|sin|cos)_/;

interface Instruction {
  readonly name: string;
  readonly operands: string;
}

/** One loop, without the loops inside of it. */
export interface Loop {
  /** Its first block. */
  readonly label: string;
  /** Whether there is no other loop inside of it. */
  readonly isInner: boolean;
  readonly counts: Readonly<Record<Kind, number>>;
  /** Multiplications with additions of one invocation. */
  readonly products: number;
  /** Clocks of a SIMD for a wave: of the vector ALU, and of workgroup memory. */
  readonly clocks: { readonly alu: number; readonly lds: number };
  /** The most of the f32 peak that the loop can reach, by issue slots. */
  readonly bound: number;
}

/** The loops of an assembly text as RADV writes it, in their order. */
export function findLoops(assembly: string, family: string, wave: number): Loop[] {
  const code = parse(assembly);
  const blocks = new Map(code.flatMap((line, i) => typeof line === "string" ? [[line, i]] : []));
  const ends = new Map<number, number>();
  code.forEach((line, i) => {
    if (typeof line === "string" || kindOf(line) !== "branch") return;
    const start = blocks.get(line.operands);
    if (start !== undefined && start <= i) ends.set(start, i);
  });
  const isInside = (i: number, [start, end]: readonly [number, number]) => start <= i && i <= end;
  const loops = [...ends].toSorted(([a], [b]) => a - b);
  return loops.map((loop) => {
    const inner = loops.filter((other) => other !== loop && other.every((i) => isInside(i, loop)));
    const body = code.filter((line, i): line is Instruction =>
      typeof line !== "string" && isInside(i, loop) && !inner.some((each) => isInside(i, each))
    );
    const isInner = inner.length === 0;
    return { label: code[loop[0]] as string, isInner, ...describe(body, family, wave) };
  });
}

/** Labels of blocks, and instructions. */
function parse(assembly: string): (string | Instruction)[] {
  const code: (string | Instruction)[] = [];
  for (const line of assembly.split("\n")) {
    const label = /^(BB\d+):/.exec(line)?.[1];
    if (label !== undefined) code.push(label);
    const [, name, operands] = /^\s+([a-z]\w+)\s*([^;]*)/.exec(line) ?? [];
    if (name !== undefined) code.push({ name, operands: operands!.trim() });
    const times = Number(/\(then repeated (\d+) times\)/.exec(line)?.[1] ?? 0);
    for (let i = 0; i < times; i++) code.push(code.at(-1)!);
  }
  return code;
}

function kindOf({ name, operands }: Instruction): Kind | undefined {
  // A conversion of f16, as the compiler writes it: times one, and nothing added.
  if (name.startsWith("v_fma_mix") && /, 1\.0, (?:neg\()?0/.test(operands)) return "alu";
  if (/:: v_dual_fma/.test(operands)) return "fma";
  return (Object.keys(KINDS) as Kind[]).find((kind) => KINDS[kind].test(name));
}

/** Products of an instruction of kind `fma`. */
function productsOf({ name, operands }: Instruction): number {
  if (name.startsWith("v_dual_")) return `${name} ${operands}`.match(/v_dual_fma/g)!.length;
  return /dot4/.test(name) ? 4 : /dot2|pk_fma/.test(name) ? 2 : 1;
}

function describe(
  body: readonly Instruction[],
  family: string,
  wave: number,
): Omit<Loop, "label" | "isInner"> {
  const { clocks: ofWave, isDual, simds } = generationOf(family);
  // GCN has no waves of 32.
  const slot = ofWave * wave / 64;
  const kinds = Object.keys(KINDS) as Kind[];
  const counts = Object.fromEntries(kinds.map((kind) => [kind, 0])) as Record<Kind, number>;
  const clocks = { alu: 0, lds: 0 };
  let products = 0;
  for (const instruction of body) {
    const { name } = instruction;
    const kind = kindOf(instruction);
    if (kind === undefined) continue;
    counts[kind]++;
    if (kind === "fma") products += productsOf(instruction);
    if (kind === "fma" || kind === "alu") {
      const isBoth = isDual && wave === 64 && DUAL.test(name);
      clocks.alu += slot * (TRANSCENDENTAL.test(name) ? 4 : isBoth ? 0.5 : 1);
    }
    if (kind === "ldsRead" || kind === "ldsWrite") {
      clocks.lds += ldsBytes(name) * wave * simds / LDS_BYTES_PER_CLOCK;
    }
  }
  const peak = isDual ? slot / 2 : slot;
  const bound = products * peak / Math.max(clocks.alu, clocks.lds, 1);
  return { counts, products, clocks, bound };
}

/** Bytes that an instruction moves between workgroup memory and one invocation, four at least. */
function ldsBytes(name: string): number {
  const bits = Number(/_b(\d+)$/.exec(name)?.[1] ?? 0);
  const isPair = /read2|write2|2addr/.test(name);
  return Math.max(4, bits / 8) * (isPair ? 2 : 1);
}
