/** When a setting changes nothing: what the rows of the table of fields give as `idle`. */
import type { ModelInfo } from "../engine/types.ts";
import type { SettingField } from "./field.ts";
import { outputOf } from "./task.ts";

/** Gives why a setting changes nothing, as a clause, or nothing where it does change something. */
type Idle = NonNullable<SettingField<unknown>["idle"]>;

/** A setting that only some models take. */
export function unlessTaken(name: ModelInfo["optionalSettings"][number]): Idle {
  return ({ optionalSettings }) =>
    optionalSettings.includes(name) ? undefined : "this model has no such setting";
}

/** A setting of the edges that a control picture is made of. */
export function unlessCanny(name: ModelInfo["optionalSettings"][number]): Idle {
  const unlessKnown = unlessTaken(name);
  return (info, task, given) =>
    unlessKnown(info, task, given) ??
      (given.controlType === "canny" ? undefined : "control_type is not canny");
}

/** A setting of guidance away from what lacks layers. */
export function unlessSkipping(name: ModelInfo["optionalSettings"][number]): Idle {
  const unlessKnown = unlessTaken(name);
  return (info, task, given) =>
    unlessKnown(info, task, given) ??
      (given.skipGuidanceLayers ? undefined : "no layers are skipped");
}

/** A setting of frame interpolation. */
export function unlessInterpolated(): Idle {
  return (_info, task, { enableFrameInterpolation }) => {
    if (outputOf(task) !== "VIDEO") return "an image has one frame";
    return enableFrameInterpolation === true ? undefined : "no frames are interpolated";
  };
}
