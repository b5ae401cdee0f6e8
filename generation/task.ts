/** Which task a request is for. */

import type { TaskType } from "../engine/types.ts";
import { shorten } from "./texts.ts";

/** What an endpoint answers with. */
export type OutputType = "IMAGE" | "VIDEO" | "MESH" | "ACTION";

type Inputs = readonly ("image" | "video")[];

interface TaskTraits {
  readonly output: OutputType;
  readonly needs?: Inputs;
  readonly accepts?: Inputs;
}

/** Tasks in the order in which the reference names them. */
const TASKS: Readonly<Record<TaskType, TaskTraits>> = {
  I2V: { output: "VIDEO", needs: ["image"], accepts: ["image"] },
  T2V: { output: "VIDEO" },
  TI2V: { output: "VIDEO", accepts: ["image"] },
  T2I: { output: "IMAGE" },
  I2I: { output: "IMAGE", needs: ["image"], accepts: ["image"] },
  TI2I: { output: "IMAGE", accepts: ["image"] },
  I2M: { output: "MESH", needs: ["image"], accepts: ["image"] },
  VLA_ACTION: { output: "ACTION", accepts: ["image"] },
  V2V: { output: "VIDEO", needs: ["video"], accepts: ["video"] },
  F2V: { output: "VIDEO", needs: ["video"], accepts: ["video"] },
};

/** V2V of models that move what an image shows. */
const ANIMATION: TaskTraits = {
  output: "VIDEO",
  needs: ["image", "video"],
  accepts: ["image", "video"],
};

function traitsOf(task: TaskType, { animates }: Pick<TaskSupport, "animates">): TaskTraits {
  return task === "V2V" && animates ? ANIMATION : TASKS[task];
}

const OUTPUT_TYPES: readonly OutputType[] = ["IMAGE", "VIDEO", "MESH", "ACTION"];

/** What remains of tasks that may do without an image where none is given. */
const FROM_TEXT_ALONE: Readonly<Partial<Record<TaskType, TaskType>>> = { TI2I: "T2I", TI2V: "T2V" };

/** Every task, in the order of the enumeration. */
export const TASK_TYPES: readonly [TaskType, ...TaskType[]] = Object.keys(TASKS) as [
  TaskType,
  ...TaskType[],
];

export interface TaskQuery {
  /** The task as sent, in any case. */
  taskType?: string;
  output: OutputType;
  hasImage: boolean;
  hasVideo: boolean;
  /** How an endpoint is sent an image or a video, for messages; those of endpoints are the reference's. */
  howToSend?: Readonly<Partial<Record<"image" | "video", string>>>;
}

interface TaskSupport {
  readonly defaultTask: TaskType;
  readonly supportedTasks: readonly TaskType[];
  /** Whether V2V takes an image too. */
  readonly animates?: boolean;
}

/** @throws {RangeError} when no task fits, several fit, or an input is missing or too much */
export function resolveTask(query: TaskQuery, model: TaskSupport): TaskType {
  const task = chooseTask(query, model);
  checkInputs(task, query, model);
  return withoutImage(task, query, model);
}

/** Reads the name of a task in any case. @throws {RangeError} that lists `choices`, when it is none */
export function readTask(
  text: string,
  choices: readonly string[] = TASK_TYPES.filter((task) => /IMAGE|VIDEO/.test(TASKS[task].output)),
): TaskType {
  const name = text.trim().toUpperCase();
  if (isTask(name)) return name;
  throw new RangeError(
    `Unknown task_type '${shorten(text)}'; choose from ${choices.join(", ")}`,
  );
}

export function outputOf(task: TaskType): OutputType {
  return TASKS[task].output;
}

/** What a model can answer with, in the order of the enumeration. */
export function outputTypes(tasks: readonly TaskType[]): OutputType[] {
  return OUTPUT_TYPES.filter((output) => tasks.some((task) => TASKS[task].output === output));
}

export function acceptsImage(tasks: readonly TaskType[]): boolean {
  return tasks.some((task) => TASKS[task].accepts?.includes("image"));
}

export function needsVideo(task: TaskType): boolean {
  return TASKS[task].needs?.includes("video") ?? false;
}

function chooseTask(query: TaskQuery, model: TaskSupport): TaskType {
  const supported = model.supportedTasks;
  if (query.taskType !== undefined) {
    const name = readTask(query.taskType, supported);
    if (!supported.includes(name)) {
      throw new RangeError(
        query.howToSend
          ? `Unsupported task_type ${name}; this pipeline supports ${supported.join(", ")}`
          : `Cannot do ${name}: this model does ${supported.join(", ")}`,
      );
    }
    const { output } = TASKS[name];
    if (output !== query.output) {
      throw new RangeError(
        query.howToSend
          ? `task_type ${name} produces ${output}, but this endpoint produces ${query.output}`
          : `Cannot do ${name} for ${plural(query.output)}: it makes ${plural(output)}`,
      );
    }
    return name;
  }
  const candidates = supported.filter((task) => TASKS[task].output === query.output);
  const [only] = candidates;
  if (only === undefined) {
    throw new RangeError(
      query.howToSend
        ? `This pipeline does not support ${query.output} output; ` +
          `supported task types: ${supported.join(", ")}`
        : `Cannot make ${plural(query.output)}: this model makes ${
          outputTypes(supported).map(plural).join(" and ")
        }; ask for these`,
    );
  }
  if (candidates.length === 1) return only;
  const fitting = candidates.filter((task) => fits(traitsOf(task, model), query));
  if (fitting.includes(model.defaultTask)) return model.defaultTask;
  const compatible = [...new Set(fitting.map((task) => withoutImage(task, query, model)))];
  const [sole] = compatible;
  if (sole === undefined) {
    const takes = (kind: "image" | "video") =>
      candidates.some((task) => traitsOf(task, model).accepts?.includes(kind));
    if (query.hasImage && query.hasVideo && takes("image") && takes("video")) {
      throw new RangeError(
        "Cannot use an image and a video together: no task of this model takes both; omit one",
      );
    }
    // Each of them then says what is wrong with the inputs; the default says it best.
    return candidates.includes(model.defaultTask) ? model.defaultTask : only;
  }
  if (compatible.length > 1) {
    throw new RangeError(
      `Specify task_type for this request; compatible tasks: ${compatible.join(", ")}, ` +
        `supported tasks: ${supported.join(", ")}`,
    );
  }
  return sole;
}

/** `IMAGE` as `images`. */
function plural(output: OutputType): string {
  return `${output.toLowerCase()}s`;
}

/** What a task that may have an image comes to where there is none. */
function withoutImage(task: TaskType, { hasImage }: TaskQuery, model: TaskSupport): TaskType {
  const remaining = hasImage ? undefined : FROM_TEXT_ALONE[task];
  return remaining && model.supportedTasks.includes(remaining) ? remaining : task;
}

function fits({ needs = [], accepts = [] }: TaskTraits, query: TaskQuery): boolean {
  const given = { image: query.hasImage, video: query.hasVideo };
  return INPUTS.every((kind) => given[kind] ? accepts.includes(kind) : !needs.includes(kind));
}

const INPUTS: Inputs = ["image", "video"];

function checkInputs(
  task: TaskType,
  { hasImage, hasVideo, howToSend = {} }: TaskQuery,
  model: TaskSupport,
): void {
  const { needs = [], accepts = [] } = traitsOf(task, model);
  for (const [kind, isGiven] of [["image", hasImage], ["video", hasVideo]] as const) {
    if (needs.includes(kind) && !isGiven) {
      const hint = howToSend[kind] ? `; send ${howToSend[kind]}` : "";
      throw new RangeError(
        `Cannot do ${task}: it needs an input ${kind}, and there is none${hint}`,
      );
    }
    if (isGiven && !accepts.includes(kind)) {
      throw new RangeError(
        `Cannot do ${task}: it takes no input ${kind}; this model does ${
          model.supportedTasks.join(", ")
        }`,
      );
    }
  }
}

function isTask(name: string): name is TaskType {
  return Object.hasOwn(TASKS, name);
}
