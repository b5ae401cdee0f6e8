/** The thread that owns the GPU, under Node and Bun. */
import "./runtime.ts";
import "../engine/worker.ts";
