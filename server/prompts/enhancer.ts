/** Rewriting of prompts, before their job's turn, by a language model behind the chat-completions API. */

import { z } from "zod";
import { ServiceError } from "../contract/errors.ts";
import { MAX_PROMPT_LENGTH } from "../../generation/field_values.ts";
import type { RequestOptions } from "../contract/generation.ts";
import type { JobChange } from "../jobs/job_store.ts";

/** What a prompt is for, as the language model is told. */
export type EnhancerTask = "image" | "image_edit" | "video";

const SYSTEM_PROMPT =
  "You rewrite prompts for a model that makes images and videos. Keep every subject, count, quoted " +
  "text, named style and label of a reference, and answer in the language of the prompt. For the " +
  "task image_edit, describe nothing but the change that is asked for. For the task video, keep " +
  "motion and timing. Answer with the rewritten prompt alone.";

/** Longest reply that is read, in UTF-16 units; reasoning may come with the prompt. */
const MAX_REPLY_LENGTH = 2 ** 20;

/** Keys of the wire request that a configuration may not touch. */
const RESERVED = ["model", "messages", "stream", "n", "tools", "tool_choice"];

/** What is different for a task. */
const taskSchema = z.strictObject({
  system_prompt: z.string().min(1).optional(),
  user_template: z.string().includes("{prompt}", "it must hold {prompt}").optional(),
  // No images are sent.
  images_first: z.boolean().optional(),
  generation_kwargs: z.record(z.string(), z.unknown()).default({}),
});

const NO_PROTOCOL = "no protocol is known here; say what is different in tasks";

const configSchema = z.strictObject({
  base_url: z.url({ protocol: /^https?$/, error: "it must be an http or https address" }),
  model: z.string().min(1),
  system_prompt: z.string().min(1).default(SYSTEM_PROMPT),
  include_images: z.boolean().default(false),
  timeout: z.number().positive().default(60),
  api_key_env: z.string().nullable().default(null),
  generation_kwargs: z.record(z.string(), z.unknown()).default({}),
  tasks: z.strictObject({ image: taskSchema, image_edit: taskSchema, video: taskSchema }).partial()
    .default({}),
  protocol: z.null(NO_PROTOCOL).optional(),
  protocol_source: z.null(NO_PROTOCOL).optional(),
});

const replySchema = z.looseObject({
  choices: z.tuple([
    z.looseObject({
      finish_reason: z.literal("stop"),
      message: z.looseObject({ content: z.string().trim().min(1).max(MAX_PROMPT_LENGTH) }),
    }),
  ], z.unknown()),
});

/** Rewrites prompts. */
export interface PromptEnhancer {
  /**
   * Rewrites one prompt.
   *
   * @throws {ServiceError} when the language model fails or is too slow
   */
  enhance(prompt: string, task: EnhancerTask, signal: AbortSignal): Promise<string>;
}

/**
 * Makes an enhancer from the text of its configuration file.
 *
 * @param text JSON
 * @param env looks up environment variables
 * @returns the enhancer
 * @throws {TypeError} when the text is not a configuration, or the key's variable is unset
 */
export function readEnhancer(
  text: string,
  env: (name: string) => string | undefined,
): PromptEnhancer {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw new TypeError("Cannot use the prompt enhancer's configuration: it is not JSON");
  }
  const parsed = configSchema.safeParse(json);
  if (!parsed.success) {
    const why = explain(parsed.error.issues[0]!, json);
    throw new TypeError(`Cannot use the prompt enhancer's configuration: ${why}`);
  }
  const config = parsed.data;
  const url = new URL(config.base_url);
  if (url.username || url.password || url.search || url.hash) {
    throw new TypeError(
      "Cannot use the prompt enhancer's configuration: base_url may have no credentials, query or " +
        "fragment",
    );
  }
  const taken = [config, ...Object.values(config.tasks)]
    .flatMap((each) => Object.keys(each?.generation_kwargs ?? {}))
    .find((key) => RESERVED.includes(key));
  if (taken !== undefined) {
    throw new TypeError(
      `Cannot use the prompt enhancer's configuration: generation_kwargs may not contain ${taken}`,
    );
  }
  const key = config.api_key_env === null ? undefined : env(config.api_key_env);
  if (config.api_key_env !== null && !key) {
    throw new TypeError(`Prompt enhancer API key env ${config.api_key_env} is unset`);
  }
  return { enhance: (prompt, task, signal) => ask(config, key, prompt, task, signal) };
}

/** What is wrong with a configuration. */
function explain(issue: z.core.$ZodIssue, json: unknown): string {
  if (issue.code === "unrecognized_keys") {
    const [, task] = issue.path;
    const known = issue.path.length === 0 ? Object.keys(configSchema.shape) : Object.keys(
      task === undefined ? configSchema.shape.tasks.def.innerType.shape : taskSchema.shape,
    );
    const place = issue.path.length === 0 ? "" : ` in ${issue.path.join(".")}`;
    return `there is no key ${issue.keys.join(", ")}${place}; its keys are ${known.join(", ")}`;
  }
  const [name] = issue.path;
  if (name === undefined) return "it is no JSON object";
  const isMissing = !Object.hasOwn(json as object, name);
  return isMissing ? `${String(name)} is missing` : `${issue.path.join(".")}: ${issue.message}`;
}

async function ask(
  config: z.output<typeof configSchema>,
  key: string | undefined,
  prompt: string,
  task: EnhancerTask,
  signal: AbortSignal,
): Promise<string> {
  const timeout = AbortSignal.timeout(config.timeout * 1000);
  const own = config.tasks[task];
  const system = own?.system_prompt ?? config.system_prompt;
  const asked = own?.user_template?.replaceAll("{prompt}", () => prompt) ??
    JSON.stringify({ task, prompt });
  let reply: unknown;
  try {
    const response = await fetch(`${config.base_url.replace(/(?<!\/)\/+$/, "")}/chat/completions`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        ...(key ? { authorization: `Bearer ${key}` } : {}),
      },
      body: JSON.stringify({
        max_tokens: 512,
        temperature: 0,
        ...config.generation_kwargs,
        ...own?.generation_kwargs,
        model: config.model,
        messages: [
          { role: "system", content: system },
          { role: "user", content: asked },
        ],
        stream: false,
        n: 1,
      }),
      signal: AbortSignal.any([signal, timeout]),
    });
    if (!response.ok) {
      await response.body?.cancel();
      throw new Error(`status ${response.status}`);
    }
    reply = await readReply(response);
  } catch {
    signal.throwIfAborted();
    if (timeout.aborted) throw new ServiceError("enhancer_timed_out", "Prompt enhancer timed out");
    throw new ServiceError("enhancer_failed", "Prompt enhancer request failed");
  }
  const parsed = replySchema.safeParse(reply);
  if (parsed.success) return parsed.data.choices[0].message.content;
  throw new ServiceError(
    "enhancer_failed",
    "Prompt enhancer did not return a complete, nonempty text response; check its template and " +
      "token limit",
  );
}

/** The JSON of a reply; undefined when it is none, or too long to be an answer to this. */
async function readReply({ body }: Response): Promise<unknown> {
  let text = "";
  for await (const part of body?.pipeThrough(new TextDecoderStream()) ?? []) {
    text += part;
    if (text.length > MAX_REPLY_LENGTH) return undefined;
  }
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** What a prompt is rewritten with. */
interface RewriteOptions {
  /** Rewrites prompts; nothing is rewritten without one. */
  readonly enhancer: PromptEnhancer | undefined;
  /** What the prompt is for. */
  readonly task: EnhancerTask;
  /** The prompt as it was rewritten before the server was started again. */
  readonly revisedPrompt?: string | null | undefined;
}

/** A prompt that may be rewritten before its job runs. */
export class PromptRewrite<T extends Pick<RequestOptions, "enhancePrompt"> & { prompt: string }> {
  readonly #options: RewriteOptions;
  #request: T;
  #isRevised: boolean;

  constructor(request: T, options: RewriteOptions) {
    const { revisedPrompt } = options;
    this.#options = options;
    this.#isRevised = typeof revisedPrompt === "string";
    this.#request = typeof revisedPrompt === "string"
      ? { ...request, prompt: revisedPrompt }
      : request;
  }

  /** The request with the prompt that the model is to read. */
  get request(): T {
    return this.#request;
  }

  /**
   * Rewrites the prompt if the request wants that and nobody has.
   *
   * @throws {ApiError} 502 or 504 when the language model fails
   */
  async prepare(signal: AbortSignal): Promise<JobChange> {
    const { enhancer, task } = this.#options;
    const { prompt, enhancePrompt } = this.#request;
    if (!enhancePrompt || !enhancer || this.#isRevised) return {};
    const revisedPrompt = await enhancer.enhance(prompt, task, signal);
    this.#isRevised = true;
    this.#request = { ...this.#request, prompt: revisedPrompt };
    return { revisedPrompt };
  }
}
