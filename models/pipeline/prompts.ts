/** Prompts on their way to the transformer: text encoder, and what the transformer makes of them before any step. */
import type { Call, DeviceTensor, Program } from "../../runtime/mod.ts";
import { lorasAffecting } from "../lora/affecting.ts";
import type { Session } from "../memory/session.ts";
import type { TextEncoder } from "../text_encoders/text_encoder.ts";
import type { Work } from "./work.ts";

/** What depends on the prompts alone, and is computed once for all steps. */
export interface PromptContext {
  /** Computes it from the states. */
  readonly calls: () => readonly Call[];
  /** Modules of the transformer that it passes through. */
  readonly modules: RegExp;
}

/** See the file comment. What is on the device already is not computed again. */
export class PromptEncoder {
  /** What the text encoder gives, [prompts, rows, width]. */
  readonly states: DeviceTensor;
  readonly #encoder: TextEncoder;
  readonly #program: Program;
  /** What the states, and what follows from them, were made from, once they are. */
  #current: string | undefined;

  /**
   * Traces the text encoder in a stage of its own.
   *
   * @param prompts how many there are
   * @param rows tokens of each, padding included
   */
  constructor(session: Session, encoder: TextEncoder, prompts: number, rows: number) {
    const stage = session.stage("text", { phase: "encode" });
    const inputs = encoder.inputs(prompts, rows);
    const program = stage.program("encode", inputs, (given, graph) => encoder.trace(given, graph));
    stage.willRead(program.outputs);
    this.#encoder = encoder;
    this.#program = program as unknown as Program;
    this.states = program.outputs;
  }

  /** Encodes the prompts of a request, and computes their context. */
  async run(work: Work, context: PromptContext): Promise<void> {
    const { tokens, maxLength, encoded, request: { loras = [] } } = work;
    const [prompts, rows] = this.states.shape as [number, number];
    const forText = lorasAffecting(loras, ({ target }) => target === "text_encoder");
    const forContext = lorasAffecting(
      loras,
      ({ target, module }) => target === "transformer" && context.modules.test(module),
    );
    const current = JSON.stringify([tokens, maxLength, forText, forContext]);
    if (this.#current === current) return;
    this.#current = undefined;
    // Programs for other numbers of rows may round otherwise, and a request gives the same whatever came before it.
    const keys = tokens.map((ids) => JSON.stringify([rows, prompts, ids, forText]));
    const known = keys.map((key) => encoded.get(key));
    const isKnown = known.every((states) => states !== undefined);
    if (!isKnown) {
      await work.run([this.#program.call(this.#encoder.values(tokens, rows))], {
        reads: [this.states],
        finished: ([states]) => {
          const size = states!.length / prompts;
          keys.forEach((key, i) => encoded.set(key, states!.slice(i * size, (i + 1) * size)));
        },
      });
    }
    const restored: Call[] = isKnown ? [{ write: () => writeParts(this.states, known) }] : [];
    await work.run([...restored, ...context.calls()], {
      finished: () => {
        this.#current = current;
        work.encodeDone();
      },
    });
  }
}

/** Writes parts one after the other. */
function writeParts(target: DeviceTensor, parts: readonly Float32Array[]): void {
  let place = 0;
  for (const part of parts) {
    target.writeBytes(new Uint8Array(part.buffer, part.byteOffset, part.byteLength), place);
    place += part.byteLength;
  }
}
