/** The passes of a step: the transformer, once for each prompt. */
import {
  type Call,
  copyTo,
  type DeviceTensor,
  elementCount,
  exchange,
  type Graph,
  type Inputs,
  type Program,
  type RunControl,
  type Team,
  type Tensor,
  type Traced,
} from "../../runtime/mod.ts";
import type { Stage } from "../memory/session.ts";
import { teamsOf } from "../sharing/ranks.ts";
import type { CommonShape } from "./family.ts";

export interface PassOptions<Own extends Inputs> {
  /** What each pass takes beside the sample. Together the passes give an output for each prompt. */
  readonly passes: readonly Own[];
  /** The transformer: outputs of the shape of the sample, [prompts, tokens, features]. */
  predict(inputs: Traced<Own & LoopInputs>, graph: Graph, about: PassKind): Tensor;
}

interface PassKind {
  readonly pass: number;
  readonly isSteered: boolean;
}

interface LoopInputs {
  readonly sample: DeviceTensor;
  readonly step: DeviceTensor;
}

/** A program that nothing is written for. */
export type Pass<Outputs = unknown> = Program<Record<never, never>, Outputs>;

export class Passes<Own extends Inputs> {
  readonly outputs: readonly DeviceTensor[];
  readonly takesPart: boolean;
  readonly #teams: readonly Team[];
  readonly #own: readonly (Pass<DeviceTensor> | undefined)[];
  readonly #unsteered: readonly (Pass | undefined)[];
  readonly #share: Pass | undefined;

  constructor(
    stage: Stage,
    { operands, control }: Pick<CommonShape, "operands" | "control">,
    inputs: LoopInputs,
    { passes, predict }: PassOptions<Own>,
  ) {
    const { guidance: team } = stage.ranks;
    const isShared = team !== undefined && passes.length > 1;
    this.takesPart = !team || team.rank === 0 || isShared;
    this.#teams = teamsOf(stage.ranks).filter((other) => other !== team || isShared);
    this.#own = passes.map((own, i) =>
      isShared && !isOwn(i, team) ? undefined : stage.program(
        `pass ${i}`,
        { ...own, ...inputs },
        (traced, graph) => predict(traced, graph, { pass: i, isSteered: true }),
        { operands },
      )
    );
    this.#unsteered = control !== "window"
      ? this.#own
      : this.#own.map((pass, i) =>
        pass && stage.program(
          `unsteered pass ${i}`,
          { ...passes[i]!, ...inputs },
          (traced, graph) => {
            copyTo(predict(traced, graph, { pass: i, isSteered: false }), pass.outputs);
          },
          { operands },
        )
      );
    const own = this.#own.flatMap((pass) => pass?.outputs ?? []);
    const share = isShared ? traceShare(stage, team, own, passes.length) : undefined;
    this.#share = share;
    const others = [...share?.outputs ?? []];
    this.outputs = this.#own.map((pass) => pass?.outputs ?? others.shift()!);
  }

  calls(isNeeded: readonly boolean[], isSteered: boolean): Call[] {
    const passes = isSteered ? this.#own : this.#unsteered;
    const calls = passes.flatMap((pass, k) => pass && isNeeded[k] ? [pass.call({})] : []);
    return this.#share ? [...calls, this.#share.call({})] : calls;
  }

  /** Steps as the first GPU has found them: what others find may differ by rounding. */
  async agreedSteps(
    own: readonly number[],
    totalSteps: number,
    control: RunControl,
  ): Promise<readonly number[]> {
    let steps = Uint8Array.from({ length: totalSteps }, (_, i) => own.includes(i) ? 1 : 0);
    for (const team of this.#teams) {
      const taken = [[{ rank: 0, start: 0, byteLength: totalSteps }]];
      [steps] = await team.meet(
        { name: "steps", brought: [steps], taken, note: "" },
        control,
      ) as [typeof steps];
    }
    return Array.from(steps, (isReused, i) => isReused ? i : -1).filter((i) => i >= 0);
  }
}

function isOwn(pass: number, { rank, size }: Team): boolean {
  return pass % size === rank;
}

function traceShare(
  stage: Stage,
  team: Team,
  outputs: readonly DeviceTensor[],
  count: number,
): Pass<readonly DeviceTensor[]> {
  const { shape } = outputs[0]!;
  const size = elementCount(shape);
  const others = Array.from({ length: count }, (_, pass) => pass)
    .filter((pass) => !isOwn(pass, team))
    .map((pass) => {
      const start = Math.floor(pass / team.size) * size;
      return { name: `velocity ${pass}`, shape, pieces: [{ rank: pass % team.size, start, size }] };
    });
  return stage.program(
    "share",
    { outputs },
    ({ outputs }, graph) => exchange(graph, team, "velocities", outputs, others),
  );
}
