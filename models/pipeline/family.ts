/** What a model family is: its parts, what it can do, and how a result is made with it. */
import type { Target } from "../../runtime/mod.ts";
import type { Layout } from "../layouts.ts";
import type { AdaptableComponent } from "../lora/types.ts";
import type { FamilyFiles } from "../checkpoints/component_format.ts";
import type { Variant } from "../memory/model_memory.ts";
import type { Session } from "../memory/session.ts";
import type { PromptTokens } from "./chunked_prompts.ts";
import type { ControlShape } from "./control_units.ts";
import type { Parts, PartsOf, PartsTable } from "./components.ts";
import type { LatentSize } from "./latents.ts";
import type { FamilyInfo } from "./family_info.ts";
import type { PipelineInfo, PipelineRequest } from "./types.ts";
import type { Work } from "./work.ts";

export interface PromptSizes {
  readonly lengths: readonly number[];
  /** Tokens that longer ones are cut to, without those of a template before them. */
  readonly maxLength: number;
}

export interface CommonShape {
  readonly hasPreviews: boolean;
  readonly isTinyDecoded: boolean;
  readonly isMasked: boolean;
  readonly control?: ControlShape | undefined;
  /** Narrowest operands of the transformer's programs, of all programs where it is f32; the target's by default. */
  readonly operands?: Target["operands"] | undefined;
}

/** What the programs of a request depend on: two requests with equal shapes share them. */
interface RequestShape<Own> {
  readonly shape: Own;
  /** How several prompts may pass through the transformer, the best first; one after the other by default. */
  readonly passes?: readonly Variant["passes"][];
  /** Sizes in latents of all images that the autoencoder codes; it cuts them into tiles where memory is short. */
  readonly latents: readonly LatentSize[];
  /** Smallest side of a tile that still gives good images, in latents; default 32. */
  readonly smallestTile?: number;
}

export type Generate = (work: Work) => Promise<void>;

export interface Family<P extends Parts = Parts, Own = unknown> {
  readonly classNames: readonly string[];
  readonly files: FamilyFiles;
  readonly parts: PartsTable;
  /** What messages about LoRAs call the components, and other names that trainers give their modules. */
  readonly lora: {
    readonly transformer: {
      readonly family: string;
      readonly layouts: readonly Layout[] | ((parts: P) => readonly Layout[]);
      /** Whether adapters are for the first of two transformers. */
      readonly isFirstAlone?: boolean;
    };
    readonly textEncoder: string;
    readonly textEncoderLayouts?: AdaptableComponent["layouts"];
    readonly textEncoder2?: string;
    readonly textEncoder2Layouts?: AdaptableComponent["layouts"];
    readonly textEncoder3?: string;
    /** Whether prompts may name embeddings. */
    readonly readsWords?: boolean;
  };
  info(parts: P): FamilyInfo;
  check?(request: PipelineRequest, parts: P, info: PipelineInfo): void;
  prompts(request: PipelineRequest, parts: P): string[];
  /** What ends every prompt, also one that is cut. */
  readonly promptEnd?: string;
  templateTokens?(request: PipelineRequest, parts: P): number;
  /** Ids and weights of prompts that are read as several texts; `prompts` are those that {@linkcode prompts} gives. */
  chunkedPrompts?(
    prompts: readonly string[],
    request: PipelineRequest,
    parts: P,
    maxLength: number,
  ): PromptTokens;
  shapeOf(
    request: PipelineRequest,
    parts: P,
    prompts: PromptSizes,
    info: PipelineInfo,
  ): RequestShape<Own>;
  trace(session: Session, parts: P, shape: Own & CommonShape & Variant): Generate;
}

export function defineFamily<Table, Own>(
  family:
    & { readonly parts: Table }
    & Omit<Family<PartsOf<Table> & Parts, Own>, "parts">,
): Family<PartsOf<Table> & Parts, Own> {
  return family as unknown as Family<PartsOf<Table> & Parts, Own>;
}
