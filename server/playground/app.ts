/** What makes the page an app that can be installed: its manifest and its icon (W3C Web Application Manifest). */

import { encodePng } from "../../media/png.ts";

const ACCENT = [0x4a, 0x48, 0xc8] as const;
/** Circles of the icon: centre and radius, in sixteenths of its side. */
const CIRCLES = [[5, 11, 1], [8, 9, 1.5], [11, 6, 2]] as const;
const SIDES = [192, 512] as const;

/** Colours of the page behind its top, as its style has them. */
export const THEMES: readonly (readonly [scheme: "light" | "dark", colour: string])[] = [
  ["light", "#f6f5f3"],
  ["dark", "#131315"],
];

/** The icon as an SVG, for tabs. */
export const ICON: string =
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="4" fill="#4a48c8"/>' +
  `<g fill="#fff">${
    CIRCLES.map(([x, y, r]) => `<circle cx="${x}" cy="${y}" r="${r}"/>`).join("")
  }</g></svg>`;

/** The icon as a PNG, to its edges, so that systems can cut it to their shapes. */
function drawIcon(side: number): Uint8Array<ArrayBuffer> {
  const data = new Uint8Array(3 * side * side);
  for (let i = 0; i < side * side; i++) {
    const [x, y] = [(i % side + 0.5) / side * 16, (Math.floor(i / side) + 0.5) / side * 16];
    const cover = CIRCLES.reduce((most, [cx, cy, r]) => {
      const pixels = (r - Math.hypot(x - cx, y - cy)) * side / 16;
      return Math.max(most, Math.min(1, pixels + 0.5));
    }, 0);
    for (const [c, value] of ACCENT.entries()) data[3 * i + c] = value + cover * (255 - value);
  }
  return encodePng({ width: side, height: side, data });
}

/** The manifest and its icons by their names; `start` is the page's address, seen from the manifest. */
export function appFiles(
  start: string,
): ReadonlyMap<string, [type: string, Uint8Array<ArrayBuffer>]> {
  const icons = SIDES.map((side) => ({
    src: `icon-${side}.png`,
    sizes: `${side}x${side}`,
    type: "image/png",
    purpose: "any maskable",
  }));
  const [[, light]] = THEMES as [(typeof THEMES)[number]];
  const manifest = {
    name: "denoise",
    short_name: "denoise",
    start_url: start,
    scope: start,
    display: "standalone",
    background_color: light,
    theme_color: light,
    icons,
  };
  const text = new TextEncoder().encode(JSON.stringify(manifest));
  return new Map([
    ["app.webmanifest", ["application/manifest+json", text]],
    ...SIDES.map((side) =>
      [`icon-${side}.png`, ["image/png", drawIcon(side)]] as [
        string,
        [string, Uint8Array<ArrayBuffer>],
      ]
    ),
  ]);
}
