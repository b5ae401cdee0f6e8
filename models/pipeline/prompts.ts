/** Prompts on their way to the transformer: text encoder, and what the transformer makes of them before any step. */
import {
  type Call,
  type CallValues,
  type DeviceTensor,
  type Graph,
  type Inputs,
  slice,
  type Stored,
  type Tensor,
  type Traced,
} from "../../runtime/mod.ts";
import { type AppliedLora, type ModuleChange, TEXT_ENCODERS } from "../lora/types.ts";
import type { Session } from "../memory/session.ts";
import type { TextEncoder } from "../text_encoders/text_encoder.ts";
import type { Work } from "./work.ts";

/** What the transformer makes of the prompts alone, computed once for all steps. */
interface PromptContext<Own extends Inputs, Output> {
  readonly inputs?: Own;
  values?(prompts: Pick<Work, "tokens" | "pooledTokens" | "maxLength">): CallValues<Own>;
  readonly pooled?: TextEncoder;
  /** Rows of the pooled encoder, where it gives states too; 0 by default. */
  readonly pooledRows?: number;
  /** Of models with three text encoders the last, which reads texts of its own length. */
  readonly third?: { readonly encoder: TextEncoder; readonly rows: number } | undefined;
  readonly isKept?: boolean;
  /** Traces what it makes of states, [prompts, rows, width], and of the pooled ones, [prompts, width]. */
  trace(
    inputs: Traced<
      Own & {
        readonly states: DeviceTensor;
        readonly pooled: DeviceTensor | undefined;
        readonly third: DeviceTensor | undefined;
      }
    >,
    graph: Graph,
  ): Output;
}

export class PromptEncoder<Own extends Inputs, Output> {
  readonly context: Stored<Output>;
  readonly #text: ReturnType<typeof traceEncoding>;
  readonly #pooled: ReturnType<typeof traceEncoding> | undefined;
  readonly #third: ReturnType<typeof traceEncoding> | undefined;
  readonly #contextOf: (work: Work) => Call;
  readonly #isKept: boolean;
  readonly #modules: ReadonlySet<string>;
  #current: string | undefined;

  constructor(
    session: Session,
    encoder: TextEncoder,
    { prompts, rows }: { readonly prompts: number; readonly rows: number },
    { inputs, values, pooled, pooledRows = 0, third, isKept = true, trace }: PromptContext<
      Own,
      Output
    >,
  ) {
    this.#third = third &&
      traceEncoding(session, "third text", third.encoder, prompts, third.rows);
    this.#pooled = pooled && traceEncoding(session, "pooled text", pooled, prompts, pooledRows);
    this.#text = traceEncoding(session, "text", encoder, prompts, rows);
    const states = {
      states: this.#text.states,
      pooled: this.#pooled?.states,
      third: this.#third?.states,
    };
    const context = session.stage("denoise", { name: "context" })
      .program("context", { ...inputs as Own, ...states }, trace);
    session.encodeSteps++;
    this.context = context.outputs;
    this.#contextOf = (work) => context.call((values?.(work) ?? {}) as never);
    this.#isKept = isKept;
    this.#modules = modulesIn(context.graph);
  }

  /** What the text encoder gives, [prompts, rows, width]. */
  get states(): DeviceTensor {
    return this.#text.states;
  }

  /** `seen` is what the states depend on beside tokens, weights and LoRAs. */
  async run(work: Work, seen = ""): Promise<void> {
    const { tokens, weights, pooledTokens, pooledWeights, thirdTokens, maxLength } = work;
    const { loras = [] } = work.request;
    const forText = lorasAffecting(loras, ({ target }) => TEXT_ENCODERS.includes(target));
    const forContext = lorasAffecting(
      loras,
      ({ target, module }) => target === "transformer" && this.#modules.has(module),
    );
    const prompts = [tokens, weights, pooledTokens, pooledWeights, thirdTokens];
    const current = JSON.stringify([prompts, maxLength, forText, forContext, seen]);
    if (this.#isKept && this.#current === current) return work.encodeDone();
    this.#current = undefined;
    const restored = [
      ...await this.#third?.run(work, thirdTokens!, undefined, forText, seen) ?? [],
      ...await this.#pooled?.run(work, pooledTokens!, pooledWeights, forText, seen) ?? [],
      ...await this.#text.run(work, tokens, weights, forText, seen),
    ];
    await work.run([...restored, this.#contextOf(work)], {
      finished: () => {
        this.#current = current;
        work.encodeDone();
      },
    });
  }
}

/** Prompts through one text encoder; `states` are [prompts, …]. */
function traceEncoding(
  session: Session,
  name: string,
  encoder: TextEncoder,
  prompts: number,
  rows: number,
) {
  const stage = session.stage("encode", { name });
  const encode = stage.program(
    "encode",
    encoder.inputs(prompts, rows),
    (given, graph) => encoder.trace(given, graph),
  );
  const states = encode.outputs;
  stage.willRead(states);
  const run = async (
    work: Work,
    tokens: Work["tokens"],
    weights: Work["weights"],
    forText: unknown,
    seen = "",
  ): Promise<Call[]> => {
    const { encoded } = work;
    // Programs for other numbers of rows may round otherwise, and a request gives the same whatever came before it.
    const keys = tokens.map((ids, i) =>
      JSON.stringify([name, rows, prompts, ids, weights?.[i], forText, seen])
    );
    const known = keys.map((key) => encoded.get(key));
    if (known.every((states) => states !== undefined)) {
      return [{ written: [states], write: () => writeParts(states, known) }];
    }
    await work.run([encode.call(encoder.values(tokens, rows, weights))], {
      reads: [states],
      finished: ([all]) => {
        const size = all!.length / prompts;
        keys.forEach((key, i) => encoded.set(key, all!.slice(i * size, (i + 1) * size)));
      },
    });
    return [];
  };
  return { states, run };
}

function modulesIn({ deviceTensors }: Graph): Set<string> {
  const weights = [...deviceTensors].flatMap(({ name }) => name.split(" + "));
  return new Set(weights.flatMap((name) => [name, name.replace(/\.[^.]+$/, "")]));
}

/** What belongs to one of the prompts in a tensor of all, [prompts, …] to [1, …]: all of its tokens, or a range. */
export function ofPrompt(
  all: Tensor,
  prompt: number,
  tokens?: readonly [first: number, end: number],
): Tensor {
  const own = slice(all, 0, prompt, prompt + 1);
  return tokens ? slice(own, 1, ...tokens) : own;
}

/** Masks of the prompts, f32 [prompts, rows, 1]: 1 for tokens, 0 for what fills the rows up. */
export function promptMasks(tokens: Work["tokens"], rows: number): number[] {
  return tokens.flatMap(({ length }) => Array.from({ length: rows }, (_, i) => Number(i < length)));
}

function writeParts(target: DeviceTensor, parts: readonly Float32Array[]): void {
  let place = 0;
  for (const part of parts) {
    target.writeBytes(new Uint8Array(part.buffer, part.byteOffset, part.byteLength), place);
    place += part.byteLength;
  }
}

export function lorasAffecting(
  loras: readonly AppliedLora[],
  isAffected: (change: ModuleChange) => boolean,
): unknown {
  return loras
    .filter(({ lora, targets, strength }) =>
      strength !== 0 &&
      lora.changes.some((change) => targets.includes(change.target) && isAffected(change))
    )
    .map(({ key, strength, targets, mode }) => [key, strength, targets, mode]);
}
