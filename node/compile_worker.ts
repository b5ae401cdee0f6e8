/** A thread that compiles kernels, under Node and Bun. */
import "./runtime.ts";
import "../engine/compile_worker.ts";
