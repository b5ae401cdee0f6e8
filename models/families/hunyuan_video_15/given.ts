/** What lies beside the sample where a video begins with an image: its latents, a mask of them, and what the image encoder sees. */
import {
  concat,
  type DeviceTensor,
  elementwise,
  f32,
  slice,
  type Tensor,
} from "../../../runtime/mod.ts";
import { resize } from "../../../media/resize.ts";
import { siglipVision, toSiglipPixels } from "../../image_encoders/siglip_vision.ts";
import type { Session } from "../../memory/session.ts";
import { traceVideoEncoder, type VideoCodec, type VideoSize } from "../../pipeline/video_coders.ts";
import type { Work } from "../../pipeline/work.ts";
import { rearrange } from "../../rearrange.ts";
import type { HunyuanVideo15Parts } from "./config.ts";
import { imageTokens } from "./context.ts";
import { zeros } from "./transformer.ts";

interface Given {
  readonly tokens: {
    /** Latents of the first frame, 0 in all others, and a mask: [1, tokens, channels + 1]. */
    readonly beside?: DeviceTensor;
    /** [1, tokens of the image encoder, dim] */
    readonly image?: DeviceTensor;
  };
  run(work: Work): Promise<void>;
}

export function traceGiven(
  session: Session,
  { transformer, imageEncoder: vision }: HunyuanVideo15Parts,
  codec: VideoCodec,
  shape: VideoSize & { readonly beginsWithImage: boolean },
): Given {
  if (!shape.beginsWithImage || !vision) return { tokens: {}, run: () => Promise.resolve() };
  const tokens = shape.frames * shape.height * shape.width;
  const encoder = traceVideoEncoder(session, codec, { ...shape, frames: 1 });
  const beside = encoder.stage.program(
    "first frame",
    { latents: encoder.latents },
    ({ latents }) => withMask(latents, tokens),
  );
  const side = vision.config.image_size;
  const states = session.stage("encode", { name: "vision" }).program(
    "vision",
    { pixels: f32(1, side, side, 3) },
    ({ pixels }, graph) => siglipVision(graph, vision.config, vision.weights.root, pixels),
  );
  session.encodeSteps++;
  const image = session.stage("denoise", { name: "image" }).program(
    "image",
    { states: states.outputs },
    ({ states }) => imageTokens(transformer.config, transformer.weights.root, states),
  );
  return {
    tokens: { beside: beside.outputs, image: image.outputs },
    run: async (work) => {
      const [first] = work.request.images!;
      await encoder.run(work, [first!.data]);
      await work.run([beside.call({})]);
      const { width, height, data } = first!;
      const seen = resize({ width, height, data }, side, side, "bicubic");
      await work.run([states.call({ pixels: toSiglipPixels(seen.data) })], {
        finished: () => work.encodeDone(),
      });
      await work.run([image.call({})]);
    },
  };
}

/** Latents of a frame, [1, height, width, channels], as the first of so many tokens. */
function withMask(latents: Tensor, tokens: number): Tensor {
  const own = rearrange(latents, "1 y x c -> 1 (y x) c");
  const mask = elementwise("0.0 * x + 1.0", { x: slice(own, -1, 0, 1) });
  const first = concat([own, mask], -1);
  const rest = tokens - first.dim(1);
  return rest > 0 ? concat([first, zeros(latents.graph, rest, first.dim(-1))], 1) : first;
}
