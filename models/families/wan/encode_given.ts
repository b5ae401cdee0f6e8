/** The programs that encode what a video is made from beside its prompts. */
import { concat, slice } from "../../../runtime/mod.ts";
import { traceVideoEncoder } from "../../pipeline/video_coders.ts";
import { wanVideoCodec } from "../../pipeline/wan_coders.ts";
import type { Session } from "../../memory/session.ts";
import { traceChannels } from "./channels.ts";
import type { WanParts } from "./config.ts";
import { traceControl } from "./control.ts";
import { type Given, type GivenShape, placedFrames } from "./given.ts";
import { patchifyClip } from "./patches.ts";

export function traceGiven(session: Session, parts: WanParts, shape: GivenShape): Given {
  const { given } = shape;
  if (given.kind === "channels") return traceChannels(session, parts, shape, given.images);
  if (given.kind === "control") return traceControl(session, parts, shape, given);
  if (given.kind === "masked") return traceMasked(session, parts, shape);
  if (given.kind === "first") {
    return given.hasLast
      ? traceEnds(session, parts, shape)
      : traceFirst(session, parts, shape, given.frames);
  }
  if (given.kind === "nothing") return { tokens: {}, run: () => Promise.resolve() };
  const encoder = traceVideoEncoder(session, wanVideoCodec(parts.vae), shape);
  const { latents: clip } = encoder;
  return { tokens: {}, clip, run: (work) => encoder.run(work, work.request.video!) };
}

/** An image that stands still: its first latent frame is what the video begins with, and a mask keeps all of them. */
function traceMasked(
  session: Session,
  { transformer: { config }, vae }: WanParts,
  shape: GivenShape,
): Given {
  const encoder = traceVideoEncoder(session, wanVideoCodec(vae), shape);
  const { latents: clip } = encoder;
  const tokens = encoder.stage.program("image", { clip }, ({ clip }) => ({
    first: patchifyClip(config, slice(clip, 0, 0, 1)),
    kept: patchifyClip(config, clip),
  }));
  const { first, kept } = tokens.outputs;
  return {
    tokens: { first },
    clip,
    kept,
    run: async (work) => {
      await encoder.run(work, [work.request.images![0]!.data]);
      await work.run([tokens.call({})]);
    },
  };
}

function traceFirst(
  session: Session,
  { transformer: { config }, vae }: WanParts,
  shape: GivenShape,
  frames: number,
): Given {
  const encoder = traceVideoEncoder(session, wanVideoCodec(vae), { ...shape, frames });
  const image = encoder.stage.program(
    "image",
    { latents: encoder.latents },
    ({ latents }) => patchifyClip(config, latents),
  );
  const pixelFrames = 1 + (frames - 1) * vae.config.scale_factor_temporal;
  return {
    tokens: { first: image.outputs },
    run: async (work) => {
      await encoder.run(work, [...placedFrames(work.request, pixelFrames).values()]);
      await work.run([image.call({})]);
    },
  };
}

function traceEnds(
  session: Session,
  { transformer: { config }, vae }: WanParts,
  shape: GivenShape,
): Given {
  const encoder = traceVideoEncoder(session, wanVideoCodec(vae), { ...shape, frames: 1 }, {
    runs: 2,
  });
  const { latents, stage } = encoder;
  const last = stage.program(
    "last image",
    { latents },
    ({ latents }) => patchifyClip(config, latents),
  );
  const both = stage.program(
    "images",
    { latents, last: last.outputs },
    ({ latents, last }) => concat([last, patchifyClip(config, latents)], 1),
  );
  return {
    tokens: { first: both.outputs },
    run: async (work) => {
      const [firstImage, lastImage] = work.request.images!;
      await encoder.run(work, [lastImage!.data]);
      await work.run([last.call({})]);
      await encoder.run(work, [firstImage!.data]);
      await work.run([both.call({})]);
    },
  };
}
