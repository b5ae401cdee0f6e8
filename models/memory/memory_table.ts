/** A memory report as a table of text. */
import type { ComponentReport, MemoryReport } from "./memory_report.ts";

/**
 * One line for each stage, one column for each component, and what the programs take beside weights.
 *
 * @returns lines without a line break at the end
 */
export function memoryTable(report: MemoryReport): string {
  const { components: names, stages, peakBytes, budgetBytes, fits, hostBytes } = report;
  const head = ["stage", ...names, "activations", "tensors", "together"];
  const rows = stages.map(({ name, components, activationBytes, slabBytes, ...stage }) => [
    name,
    ...names.map((other) => weightCell(components.find((component) => component.name === other))),
    size(activationBytes + slabBytes),
    size(stage.tensorBytes),
    size(stage.peakBytes),
  ]);
  const widths = head.map((_, i) => Math.max(...[head, ...rows].map((row) => row[i]!.length)));
  const lines = [head, ...rows].map((row) =>
    row.map((cell, i) => (i === 0 ? cell.padEnd(widths[i]!) : cell.padStart(widths[i]!))).join("  ")
  );
  const room = budgetBytes > peakBytes ? ` into ${size(budgetBytes)}` : "";
  const verdict = fits ? `which fits${room}` : `which does not fit into ${size(budgetBytes)}`;
  const host = hostBytes ? `; results of ${size(hostBytes)} wait in host memory` : "";
  return [...lines, `At most ${size(peakBytes)} at a time, ${verdict}${host}`].join("\n");
}

function weightCell(component: ComponentReport | undefined): string {
  if (!component) return "-";
  const { keptBytes, freedBytes, streamedBytes } = component;
  const parts: string[] = [];
  if (keptBytes > 0) parts.push(`${size(keptBytes)} kept`);
  if (freedBytes > 0) {
    parts.push(`${size(freedBytes)} ${streamedBytes > 0 ? "held" : "freed after"}`);
  }
  if (streamedBytes > 0) parts.push(`${size(streamedBytes)} streamed`);
  return parts.join(", ");
}

/** Bytes with three digits that count. */
function size(bytes: number): string {
  return bytes < 1e9 ? `${(bytes / 1e6).toFixed(1)} MB` : `${(bytes / 1e9).toFixed(2)} GB`;
}
