/**
 * Reads the graph that ComfyUI keeps in its files, as JSON under `prompt`: nodes by id, whose inputs are values or links to
 * the outputs of other nodes. It comes from files of others: each walk visits a node once.
 */

/** An input: a value, or the id of a node and the index of its output. */
type Input = unknown;

interface Node {
  readonly class_type: string;
  readonly inputs: Readonly<Record<string, Input>>;
}

/** Links that lead away from a prompt, a picture's size or a sampler to what these are made with. */
const ASIDE = ["model", "clip", "vae", "control_net", "style_model", "clip_vision_output"];

/** Most samplers that are tried for being the first: each is a walk. */
const MAX_TRIED = 16;

/** What a graph says, by the names that requests have where they have one; values are as they come. */
export interface ComfyFields {
  readonly fields: Readonly<Record<string, unknown>>;
  /** Names of the sampler and the schedule, which are ComfyUI's. */
  readonly sampler?: unknown;
  readonly scheduler?: unknown;
  /** How many nodes sample beside the one that was read. */
  readonly others: number;
}

/** What a graph's first sampler is given; nothing where the text is no graph, or has no sampler. */
export function readComfyGraph(text: string): ComfyFields | undefined {
  const graph = parseGraph(text);
  if (!graph) return undefined;
  const samplers = [...graph.values()].filter(isSampler);
  const isFirst = ({ inputs }: Node) =>
    !walk(graph, [inputs["latent_image"]], [...ASIDE, "positive", "negative"]).some(isSampler);
  const sampler = samplers.slice(0, MAX_TRIED).find(isFirst) ?? samplers[0];
  if (!sampler) return undefined;

  // A sampler may have its parts in nodes of their own: noise, guider, sigmas and the solver.
  const parts = walk(graph, [[sampler]], ["positive", "negative", "conditioning", "latent_image"]);
  const value = (...names: string[]) => {
    for (const { inputs } of parts) {
      for (const name of names) {
        const found = linked(graph, inputs[name])?.inputs["value"] ?? inputs[name];
        if (found !== undefined && !isLink(found)) return found;
      }
    }
    return undefined;
  };
  const from = (name: string) => parts.map(({ inputs }) => inputs[name]).filter(isLink);
  const size = walk(graph, from("latent_image"), [...ASIDE, "positive", "negative"])
    .find(({ inputs }) => isNumber(inputs["width"]) && isNumber(inputs["height"]))?.inputs;
  const makers = from("model");
  const models = walk(graph, makers, ["clip", "vae", "positive", "negative"]);
  const positive = [...from("positive"), ...from("conditioning")];
  const guidance = walk(graph, positive, [...ASIDE, "negative"])
    .find(({ inputs }) => isNumber(inputs["guidance"]))?.inputs["guidance"];
  const strength = value("denoise");
  return {
    fields: {
      prompt: textOf(graph, positive, "positive", "negative"),
      negative_prompt: textOf(graph, from("negative"), "negative", "positive"),
      num_inference_steps: value("steps"),
      // Of models that guidance is an input of, `cfg` is 1.
      guidance_scale: guidance ?? value("cfg"),
      seed: value("seed", "noise_seed"),
      size: size && `${size["width"]}x${size["height"]}`,
      model: nameIn(models, "ckpt_name", "unet_name", "model_name", "model"),
      strength: strength === 1 ? undefined : strength,
      loras: models.flatMap(({ inputs }) =>
        typeof inputs["lora_name"] === "string"
          ? { path: inputs["lora_name"], strength: inputs["strength_model"] ?? 1 }
          : []
      ).reverse(),
    },
    sampler: value("sampler_name"),
    scheduler: value("scheduler"),
    others: samplers.length - 1,
  };
}

function parseGraph(text: string): ReadonlyMap<string, Node> | undefined {
  let value: unknown;
  try {
    if (isCrowded(text)) return undefined;
    value = parse(text);
  } catch {
    try {
      // Python writes it so.
      value = parse(text.replace(/\bNaN\b/g, "null"));
    } catch {
      return undefined;
    }
  }
  if (typeof value !== "object" || value === null) return undefined;
  const nodes = Object.entries(value).filter((entry): entry is [string, Node] => isNode(entry[1]));
  return nodes.length > 0 ? new Map(nodes) : undefined;
}

/** Most values of a graph that is read: those of people have some thousands, and parsing holds up everybody else. */
const MAX_VALUES = 20_000;

/** Whether a JSON text holds more values than anybody needs. */
export function isCrowded(text: string): boolean {
  let count = 0;
  for (const sign of ",[{") {
    for (let at = text.indexOf(sign); at >= 0; at = text.indexOf(sign, at + 1)) {
      if (++count > MAX_VALUES) return true;
    }
  }
  return false;
}

/** JSON whose seeds of more than 53 bits are kept by their lower 32, which give the same noise. */
function parse(text: string): unknown {
  return JSON.parse(text, (name, value, context?: { source?: string }) => {
    const isSeed = (name === "seed" || name === "noise_seed") && typeof value === "number";
    if (!isSeed || Number.isSafeInteger(value) || !/^\d{1,20}$/.test(context?.source ?? "")) {
      return value;
    }
    return Number(BigInt.asUintN(32, BigInt(context!.source!)));
  });
}

function isNode(value: unknown): value is Node {
  const { class_type: type, inputs } = (value ?? {}) as Partial<Node>;
  return typeof type === "string" && typeof inputs === "object" && inputs !== null;
}

function isSampler({ inputs }: Node): boolean {
  return isLink(inputs["latent_image"]) && (isLink(inputs["positive"]) || isLink(inputs["guider"]));
}

function isLink(value: Input): value is [string | Node, ...unknown[]] {
  return Array.isArray(value) && (typeof value[0] === "string" || isNode(value[0]));
}

/** The node that a link leads to; nothing for values, and for links that lead nowhere. */
function linked(graph: ReadonlyMap<string, Node>, value: Input): Node | undefined {
  if (!isLink(value)) return undefined;
  return typeof value[0] === "string" ? graph.get(value[0]) : value[0];
}

/** The nodes behind links, the nearest first; inputs with some names are not followed. */
function walk(
  graph: ReadonlyMap<string, Node>,
  links: readonly Input[],
  except: readonly string[],
): Node[] {
  const found = new Set<Node>();
  for (const link of links) add(link);
  // Nodes that are added meanwhile are walked, too.
  for (const { inputs } of found) {
    for (const [name, input] of Object.entries(inputs)) if (!except.includes(name)) add(input);
  }
  function add(link: Input) {
    const node = linked(graph, link);
    if (node) found.add(node);
  }
  return [...found];
}

/** The text behind links to a prompt, without the other prompt of nodes that have both. */
function textOf(
  graph: ReadonlyMap<string, Node>,
  links: readonly Input[],
  own: string,
  other: string,
): string | undefined {
  for (const { inputs } of walk(graph, links, [...ASIDE, other])) {
    for (const name of [own, "text", "t5xxl", "prompt", "string", "value", "text_g"]) {
      if (typeof inputs[name] === "string") return inputs[name];
    }
  }
  return undefined;
}

function nameIn(nodes: readonly Node[], ...names: string[]): string | undefined {
  for (const { inputs } of nodes) {
    for (const name of names) if (typeof inputs[name] === "string") return inputs[name];
  }
  return undefined;
}

function isNumber(value: unknown): value is number {
  return typeof value === "number";
}
