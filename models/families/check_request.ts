import type { GivenPicture, PipelineInfo, PipelineRequest } from "../pipeline.ts";

/**
 * Checks what every family checks of a request: task, size, steps and guidance.
 *
 * @throws {RangeError} naming the value and what the model takes
 */
export function checkRequest(request: PipelineRequest, info: PipelineInfo): void {
  const { task, width, height, numInferenceSteps, guidanceScale } = request;
  const { sizeMultiple, supportedTasks } = info;
  if (!supportedTasks.includes(task)) {
    throw new RangeError(
      `Cannot do ${task}: this model does ${supportedTasks.join(", ")}; choose one of them`,
    );
  }
  for (const [name, value] of Object.entries({ width, height })) {
    if (!Number.isInteger(value) || value < sizeMultiple || value % sizeMultiple !== 0) {
      const nearest = Math.max(sizeMultiple, Math.round(value / sizeMultiple) * sizeMultiple);
      throw new RangeError(
        `Cannot make a picture of ${width}x${height}: the ${name} must be a multiple of ${sizeMultiple}, for example ${nearest}`,
      );
    }
  }
  if (!Number.isInteger(numInferenceSteps) || numInferenceSteps < 1) {
    throw new RangeError(`Cannot denoise in ${numInferenceSteps} steps: at least 1 is needed`);
  }
  if (!Number.isFinite(guidanceScale)) {
    throw new RangeError(`Cannot guide with a scale of ${guidanceScale}: it must be a number`);
  }
}

/**
 * Checks the pictures of a request: how many there are, their sizes and their bytes.
 *
 * @param isNeeded whether its task is one that starts from pictures
 * @throws {RangeError} naming what does not fit
 */
export function checkPictures(
  { task, width, height, pictures = [] }: PipelineRequest,
  { maxPictures, pictureLimits }: PipelineInfo,
  isNeeded: boolean,
): void {
  if (isNeeded ? pictures.length === 0 || pictures.length > maxPictures : pictures.length > 0) {
    const given = ["without a picture", "with a picture"][pictures.length] ??
      `with ${pictures.length} pictures`;
    const most = maxPictures === 1 ? "one" : `1 to ${maxPictures}`;
    throw new RangeError(`Cannot do ${task} ${given}: it takes ${isNeeded ? most : "none"}`);
  }
  for (const picture of pictures) {
    checkBytes(picture.data, picture);
    if (!pictureLimits) {
      if (picture.width === width && picture.height === height) continue;
      throw new RangeError(
        `Cannot start from a picture of ${picture.width}x${picture.height}: the result has ${width}x${height}; scale it first`,
      );
    }
    const { multiple, maxPixels } = pictureLimits;
    const isWhole = [picture.width, picture.height].every((side) =>
      side >= multiple && side % multiple === 0
    );
    if (isWhole && picture.width * picture.height <= maxPixels) continue;
    throw new RangeError(
      `Cannot start from a picture of ${picture.width}x${picture.height}: its sides must be multiples of ${multiple}, ` +
        `and it may have ${maxPixels} pixels; scale and cut it first`,
    );
  }
}

/**
 * Checks that pixels are as many as a size has.
 *
 * @throws {RangeError} when they are not
 */
export function checkBytes(
  { length }: Uint8Array,
  { width, height }: Pick<GivenPicture, "width" | "height">,
): void {
  const bytes = width * height * 3;
  if (length === bytes) return;
  throw new RangeError(
    `Cannot start from a picture of ${length} bytes: ${width}x${height} in RGB has ${bytes}`,
  );
}
