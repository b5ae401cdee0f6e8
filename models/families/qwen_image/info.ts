/** What Qwen-Image's models can do, with the defaults of the published ones. */
import { controlNetInfos, controlNets, MAX_CONTROLS } from "../../pipeline/control_nets.ts";
import { controlSettings } from "../../pipeline/control_units.ts";
import { type FamilyInfo, usualSize } from "../../pipeline/family_info.ts";
import type { ImageLimits } from "../../pipeline/types.ts";
import { SAMPLING_CHOICES } from "../../schedulers/mod.ts";
import { controlsByMask, PATCH_SIDE, type QwenImageParts } from "./config.ts";
import { editRules, layerRules, SIDE_MULTIPLE } from "./edit.ts";
import { MAX_PROMPT_TOKENS } from "./prompt.ts";

/** Images that an edit may bring: those of 2509 and later were trained with three. */
const MAX_EDIT_IMAGES = 3;
/** What is allowed of them: they are brought to the model's own numbers of pixels. */
const EDIT_LIMITS: ImageLimits = {
  multiple: 1,
  maxPixels: 2048 * 2048,
  minSide: 16,
  maxAspect: 8,
  shapeMultiple: SIDE_MULTIPLE,
};

export function qwenImageInfo(parts: QwenImageParts): FamilyInfo {
  const scale = parts.vae.config.scale_factor_spatial;
  const edit = editRules(parts);
  const layers = layerRules(parts);
  const byMask = controlsByMask(parts);
  const known = controlNetInfos(controlNets(parts));
  const needsImage = edit !== undefined || layers !== undefined;
  return {
    supportedTasks: needsImage ? ["TI2I"] : ["T2I", "TI2I"],
    defaultTask: needsImage ? "TI2I" : "T2I",
    defaults: {
      ...layers ? { width: layers.side, height: layers.side } : usualSize(scale),
      numInferenceSteps: edit?.isPlus ? 40 : 50,
      guidanceScale: 4,
      negativePrompt: " ",
    },
    taskDefaults: needsImage ? {} : { TI2I: { strength: 0.6 } },
    ...(!layers && { inpainting: { strength: byMask ? 1 : 0.6 } }),
    ...(layers && { layers }),
    sizeMultiple: scale * PATCH_SIDE,
    maxImages: edit?.isPlus ? MAX_EDIT_IMAGES : 1,
    ...(edit && { imageLimits: EDIT_LIMITS }),
    maxSequenceLength: MAX_PROMPT_TOKENS,
    optionalSettings: [
      ...["trueCfgScale", "flowShift", "maxSequenceLength", ...SAMPLING_CHOICES] as const,
      ...layers ? ["layers"] as const : [],
      ...controlSettings(known, { byMask }),
    ],
    controlNets: known,
    ...(byMask ? { controlsByMask: true } : known.length > 0 && { maxControls: MAX_CONTROLS }),
  };
}
