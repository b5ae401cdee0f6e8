/** `POST /sdapi/v1/extra-single-image` and `extra-batch-images`: given images in another size. */

import type { Context } from "hono";
import { z } from "zod";
import type { ModelInfo } from "../../engine/types.ts";
import type { Size } from "../../generation/size.ts";
import { shorten } from "../../generation/texts.ts";
import type { Fit } from "../../media/fit.ts";
import { fitForeignImage, inspectForeignImage } from "../../media/isolated/images.ts";
import { ApiError, badRequest } from "../contract/errors.ts";
import { flag, number, text } from "../contract/generation_fields.ts";
import { NOT_AN_INTEGER, readScalars, validate } from "../contract/validate.ts";
import { explained } from "../inputs/references.ts";
import { badSource } from "../inputs/sources.ts";
import { Base64, base64Json, nameIgnored } from "../routes/image_item.ts";
import type { AppEnv, Services } from "../services.ts";
import { upscalersOf } from "./answers.ts";
import { decodeBase64 } from "./png_info.ts";
import { MAX_IMAGES, refuseIgnored, unknownFields } from "./fields.ts";

/** Most pixels of all results of a request together: as many as an image may have that is read. */
const MAX_PIXELS = 2 ** 25;

const side = () => z.int(NOT_AN_INTEGER).min(1).nullish();

const FIELDS = {
  resize_mode: z.int(NOT_AN_INTEGER).min(0).max(1).nullish(),
  upscaling_resize: z.number().min(1).max(4).nullish(),
  upscaling_resize_w: side(),
  upscaling_resize_h: side(),
  upscaling_crop: flag(),
  upscaler_1: text(),
  upscaler_2: text(),
  extras_upscaler_2_visibility: number(),
};

const single = z.looseObject({ ...FIELDS, image: z.string() });
const batch = z.looseObject({
  ...FIELDS,
  imageList: z.array(z.looseObject({ data: z.string() })).max(MAX_IMAGES),
});

/** Fields that have an effect only beside others that are named. */
const QUIET = {
  show_extras_results: "any",
  codeformer_weight: "any",
  upscale_first: "any",
} as const;

type Given = z.output<z.ZodObject<typeof FIELDS>>;

/** @throws {ApiError} 400 for bad images and sizes, 422 for wrong types and upscalers, 429 when too many wait */
export async function enlarge(
  c: Context<AppEnv>,
  body: unknown,
  { services, info, isBatch }: {
    readonly services: Services;
    readonly info: ModelInfo;
    readonly isBatch: boolean;
  },
): Promise<Response> {
  const schema = isBatch ? batch : single;
  const given: Given & Record<string, unknown> = validate(schema, readScalars(body, schema));
  const field = isBatch ? "imageList" : "image";
  checkUpscaler(given.upscaler_1 || "None", info);
  const ignored = [
    ...unknownFields(given, schema.shape, QUIET),
    ...(given.extras_upscaler_2_visibility ?? 0) > 0 && (given.upscaler_2 || "None") !== "None"
      ? ["upscaler_2"]
      : [],
  ];
  refuseIgnored(ignored, services.settings);
  const texts = isBatch
    ? (given["imageList"] as { data: string }[]).map(({ data }) => data)
    : [given["image"] as string];
  const { signal } = c.req.raw;
  const images = [];
  let pixels = 0;
  for (const text of texts) {
    const bytes = await decodeBase64(text);
    if (!bytes) throw badSource(field, "its base64 is not valid");
    const size = await explained({ field }, inspectForeignImage(bytes, { signal }));
    const { how, made } = planOf(size, given);
    pixels += made.width * made.height;
    checkPixels(pixels, made);
    images.push({ bytes, size, how });
  }
  const results: Base64[] = [];
  for (const { bytes, size, how } of images) {
    const work = fitForeignImage(bytes, size, how, { signal });
    results.push(new Base64((await explained({ field }, work)).bytes));
  }
  nameIgnored(c, ignored, services);
  const { body: answer, headers } = base64Json({
    html_info: "",
    ...(isBatch ? { images: results } : { image: results[0] }),
  });
  return c.body(answer, 200, headers);
}

function checkUpscaler(name: string, info: ModelInfo): void {
  if (name === "None" || name === "Lanczos") return;
  const names = upscalersOf(info).map((each) => String(each["name"]));
  if (names.includes(name)) {
    throw badRequest(
      `Cannot enlarge a given image with the upscaler '${name}': it works on images that the model makes; ` +
        "send upscaler_1 'None', which resizes by Lanczos's filter, or enable_hr to txt2img or img2img",
      "upscaler_1",
    );
  }
  const list = names.map((each) => `'${each}'`).join(", ");
  throw new ApiError(
    422,
    `Cannot use the upscaler '${
      shorten(name)
    }': this server has ${list}; 'None' resizes by Lanczos's filter`,
    { param: "upscaler_1", code: "invalid_value" },
  );
}

/** Both ways keep the shape. An image that covers a frame is cut to it, unless the request says otherwise. */
function planOf(from: Size, given: Given): { how: Fit; made: Size } {
  const frame = { width: given.upscaling_resize_w ?? 512, height: given.upscaling_resize_h ?? 512 };
  const coversFrame = given.resize_mode === 1;
  if (coversFrame && given.upscaling_crop !== false) {
    return { how: { cover: frame, keepsAlpha: true }, made: frame };
  }
  const scale = coversFrame
    ? Math.max(frame.width / from.width, frame.height / from.height)
    : given.upscaling_resize ?? 2;
  const made = {
    width: Math.max(1, Math.round(from.width * scale)),
    height: Math.max(1, Math.round(from.height * scale)),
  };
  return { how: { scaled: made, cut: made, keepsAlpha: true }, made };
}

function checkPixels(pixels: number, { width, height }: Size): void {
  if (pixels <= MAX_PIXELS) return;
  throw badRequest(
    `Cannot resize to ${width}x${height}: the results of the request would have ${pixels} pixels, and at most ` +
      `${MAX_PIXELS} are made; ask for smaller ones`,
    "upscaling_resize",
  );
}
