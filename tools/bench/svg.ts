/** Pieces of SVG that the plots share. */

/** Colours and letters for light and dark pages. */
export const STYLE: string = [
  "text{font:11px system-ui,sans-serif;fill:#57606a}",
  ".device{font-weight:600;font-size:13px;fill:#24292f}",
  ".value{font-weight:600;font-size:15px;fill:#24292f}",
  ".strong{font-weight:600;fill:#24292f}",
  ".end{text-anchor:end}",
  ".frame{fill:none;stroke:#d0d7de}",
  ".target{stroke:#cf7a30;stroke-dasharray:3 3;fill:none}",
  ".goal{fill:#b0611d;text-anchor:end}",
  ".line{stroke:#2f6feb;stroke-width:1.5;fill:none}",
  ".dot,.bar0{fill:#2f6feb}.bar1{fill:#8c959f}.bar2{fill:#c2c9d1}",
  "@media(prefers-color-scheme:dark){text{fill:#9aa4af}.device,.value,.strong{fill:#e6edf3}" +
  ".frame{stroke:#3d444d}.goal{fill:#e0904a}.line{stroke:#4c8dff}.dot,.bar0{fill:#4c8dff}" +
  ".bar1{fill:#7d8590}.bar2{fill:#4a525c}}",
].join("");

/** A text of a class of {@linkcode STYLE}, its baseline at `y`. */
export function text(kind: string, x: number, y: number, content: string): string {
  return `<text class="${kind}" x="${x}" y="${y}">${escapeXml(content)}</text>`;
}

/** One digit after the point: less than a pixel. */
export function round(value: number): number {
  return Number(value.toFixed(1));
}

function escapeXml(value: string): string {
  return value.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}
