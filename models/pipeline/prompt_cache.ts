/** What text encoders gave for prompts, kept in host memory: a prompt is often used again, and its encoder costly. */
import { LRUCache } from "lru-cache";

/** Bytes that are kept: eight prompts of the longest kind, hundreds of usual ones. */
const MAX_BYTES = 64 * 1024 * 1024;

export class PromptCache extends LRUCache<string, Float32Array> {
  constructor(maxBytes = MAX_BYTES) {
    super({ maxSize: maxBytes, sizeCalculation: (states) => states.byteLength });
  }
}
