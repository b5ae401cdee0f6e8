/** Names that tables and files share. */

/** torch on the CPU: a yardstick, no peer, because it does not run on the adapter. */
export const TORCH_NAME = "torch (CPU)";
