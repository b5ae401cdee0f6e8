import type { PipelineInfo, PipelineRequest } from "../pipeline.ts";

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
