/** Prompts on their way to the transformer: text encoder, and what the transformer makes of them before any step. */
import type {
  Call,
  CallValues,
  DeviceTensor,
  Graph,
  Inputs,
  Program,
  Stored,
  Traced,
} from "../../runtime/mod.ts";
import { lorasAffecting } from "../lora/affecting.ts";
import type { Session } from "../memory/session.ts";
import type { TextEncoder } from "../text_encoders/text_encoder.ts";
import type { Work } from "./work.ts";

/** What the transformer makes of the prompts alone, computed once for all steps. */
interface PromptContext<Own extends Inputs, Output> {
  /** What its program takes beside the states, and how that follows from the prompts. */
  readonly inputs?: Own;
  values?(prompts: Pick<Work, "tokens" | "maxLength">): CallValues<Own>;
  /** Whether the next request finds it unchanged; true when left out. */
  readonly isKept?: boolean;
  /** From the states of the text encoder, [prompts, rows, width]. */
  trace(inputs: Traced<Own & { readonly states: DeviceTensor }>, graph: Graph): Output;
}

/** See the file comment. What is on the device already is not computed again. */
export class PromptEncoder<Own extends Inputs, Output> {
  /** What {@linkcode PromptContext.trace} gave. */
  readonly context: Stored<Output>;
  readonly #encoder: TextEncoder;
  readonly #encode: Program;
  readonly #contextOf: (work: Work) => Call;
  /** What the text encoder gives, [prompts, rows, width]. */
  readonly states: DeviceTensor;
  readonly #isKept: boolean;
  /** Modules of the transformer that the prompts pass through. */
  readonly #modules: ReadonlySet<string>;
  /** What the states and the context were made from, once they are. */
  #current: string | undefined;

  /**
   * Traces both in stages of their own.
   *
   * @param prompts how many there are
   * @param rows tokens of each, padding included
   */
  constructor(
    session: Session,
    encoder: TextEncoder,
    { prompts, rows }: { readonly prompts: number; readonly rows: number },
    { inputs, values, isKept = true, trace }: PromptContext<Own, Output>,
  ) {
    const stage = session.stage("encode", { name: "text" });
    const encode = stage.program(
      "encode",
      encoder.inputs(prompts, rows),
      (given, graph) => encoder.trace(given, graph),
    );
    const states = encode.outputs;
    stage.willRead(states);
    const context = session.stage("denoise", { name: "context" })
      .program("context", { ...inputs as Own, states }, trace);
    session.encodeSteps++;
    this.context = context.outputs;
    this.#encoder = encoder;
    this.#encode = encode as unknown as Program;
    this.#contextOf = (work) => context.call((values?.(work) ?? {}) as never);
    this.states = states;
    this.#isKept = isKept;
    this.#modules = modulesIn(context.graph);
  }

  /** Encodes the prompts of a request, and computes their context. */
  async run(work: Work): Promise<void> {
    const { tokens, maxLength, encoded, request: { loras = [] } } = work;
    const [prompts, rows] = this.states.shape as [number, number];
    const forText = lorasAffecting(loras, ({ target }) => target === "text_encoder");
    const forContext = lorasAffecting(
      loras,
      ({ target, module }) => target === "transformer" && this.#modules.has(module),
    );
    const current = JSON.stringify([tokens, maxLength, forText, forContext]);
    if (this.#isKept && this.#current === current) return;
    this.#current = undefined;
    // Programs for other numbers of rows may round otherwise, and a request gives the same whatever came before it.
    const keys = tokens.map((ids) => JSON.stringify([rows, prompts, ids, forText]));
    const known = keys.map((key) => encoded.get(key));
    const isKnown = known.every((states) => states !== undefined);
    if (!isKnown) {
      await work.run([this.#encode.call(this.#encoder.values(tokens, rows))], {
        reads: [this.states],
        finished: ([states]) => {
          const size = states!.length / prompts;
          keys.forEach((key, i) => encoded.set(key, states!.slice(i * size, (i + 1) * size)));
        },
      });
    }
    const restored = {
      written: [this.states],
      write: () => writeParts(this.states, known as Float32Array[]),
    };
    await work.run([...isKnown ? [restored] : [], this.#contextOf(work)], {
      finished: () => {
        this.#current = current;
        work.encodeDone();
      },
    });
  }
}

/** The modules whose weights a program uses, by their names in LoRAs. */
function modulesIn({ deviceTensors }: Graph): Set<string> {
  const weights = [...deviceTensors].flatMap(({ name }) => name.split(" + "));
  return new Set(weights.flatMap((name) => [name, name.replace(/\.[^.]+$/, "")]));
}

/** Masks of the prompts, f32 [prompts, rows, 1]: 1 for tokens, 0 for what fills the rows up. */
export function promptMasks(tokens: Work["tokens"], rows: number): number[] {
  return tokens.flatMap(({ length }) => Array.from({ length: rows }, (_, i) => Number(i < length)));
}

/** Writes parts one after the other. */
function writeParts(target: DeviceTensor, parts: readonly Float32Array[]): void {
  let place = 0;
  for (const part of parts) {
    target.writeBytes(new Uint8Array(part.buffer, part.byteOffset, part.byteLength), place);
    place += part.byteLength;
  }
}
