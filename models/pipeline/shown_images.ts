/** Images in prompts for Qwen3-VL: the program of its vision tower, and the text encoder that sees what this gives. */
import { concat, f32 } from "../../runtime/mod.ts";
import type { RgbImage } from "../../media/image.ts";
import type { PatchGrid } from "../image_encoders/qwen2_5_vision.ts";
import {
  qwen3PatchPixels,
  qwen3Vision,
  qwen3VisionLayout,
} from "../image_encoders/qwen3_vision.ts";
import type { Session } from "../memory/session.ts";
import { qwen3Axes, type Qwen3VlConfig } from "../text_encoders/qwen3_vl.ts";
import { type SeeingOptions, seeingQwenEncoder } from "../text_encoders/seeing_qwen.ts";
import type { TextEncoder, TextEncoderParts } from "../text_encoders/text_encoder.ts";
import type { Tokenizer } from "../tokenizers/mod.ts";
import type { Work } from "./work.ts";

interface ShownImages {
  readonly encoder: TextEncoder;
  /** Shows images of the sizes of the grids. */
  run(work: Work, images: readonly RgbImage[]): Promise<void>;
}

/** @param grids of the images, in the order in which every prompt shows them */
export function traceShownImages(
  session: Session,
  { textEncoder, tokenizer }: {
    readonly textEncoder: TextEncoderParts<Qwen3VlConfig>;
    readonly tokenizer: Tokenizer;
  },
  grids: readonly PatchGrid[],
  options: SeeingOptions,
): ShownImages {
  const config = textEncoder.config.vision!;
  const { patch_size: side } = config;
  const root = textEncoder.weights.root;
  const tower = root.scope(root.has("model.visual.pos_embed.weight") ? "model.visual" : "visual");
  const inputs = Object.fromEntries(
    grids.map(({ rows, columns }, i) =>
      [`patches${i}`, f32(rows * columns, side ** 2 * 3)] as const
    ),
  );
  const vision = session.stage("encode", { name: "vision" }).program(
    "vision",
    inputs,
    (given, graph) => {
      const seen = grids.map((grid, i) =>
        graph.scope(
          `image ${i}`,
          () => qwen3Vision(graph, config, tower, given[`patches${i}`]!, grid),
        )
      );
      // Of all images together: what is shown at first, then what the first layers get.
      return seen[0]!.map((_, k) => concat(seen.map((states) => states[k]!), 0));
    },
  );
  session.encodeSteps++;
  const [states, ...deepstack] = vision.outputs;
  return {
    encoder: seeingQwenEncoder(textEncoder, tokenizer, {
      axes: qwen3Axes(textEncoder.config),
      states: states!,
      deepstack,
      grids,
    }, options),
    async run(work, images) {
      const patches = images.map((image, i) =>
        [`patches${i}`, qwen3PatchPixels(image, qwen3VisionLayout(grids[i]!), side)] as const
      );
      await work.run([vision.call(Object.fromEntries(patches))], {
        finished: () => work.encodeDone(),
      });
    },
  };
}
