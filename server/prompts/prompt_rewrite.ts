/** A request whose prompt may be rewritten before its job's turn. */

import type { RequestOptions } from "../contract/generation.ts";
import type { EnhancerTask, PromptEnhancer } from "./enhancer.ts";
import type { JobChange } from "../jobs/job_store.ts";

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
